"""The registries of engines and linkers. Names are declared once, in setup.py's entry points."""

from __future__ import annotations

from pathlib import Path

import catalogue
from spacy.util import registry as registry

from .errors import MissingFile, fail
from .files import folder_is_there

# what to do for `umls`, which is scispaCy's name of its linker
BUILD_UMLS = (
    " UMLS is not shipped; two commands build it from your release: `python -m spacy_sapbert kb build META --out kb` and "
    "`python -m spacy_sapbert index kb --out umls`. Then name the folder that the second one wrote."
)
__all__ = ["registry"]

# registry.create() would use Thinc's namespace, where the entry points below are not looked up
if not hasattr(registry, "sapbert_indexes"):
    registry.sapbert_indexes = catalogue.create("spacy", "sapbert_indexes", entry_points=True)  # type: ignore[attr-defined]
if not hasattr(registry, "sapbert_linkers"):  # linker_name -> function that returns the folder of a linker
    registry.sapbert_linkers = catalogue.create("spacy", "sapbert_linkers", entry_points=True)  # type: ignore[attr-defined]


def check_engine(name: str) -> None:
    """Check that the engine of an index is registered; "auto" and "default" stand for one that is chosen later.

    Raises:
        SapbertError: E002, it is not.
    """
    known = sorted(registry.sapbert_indexes.get_all())  # type: ignore[attr-defined]
    if name not in ("auto", "default", *known):
        raise fail("E002", setting="engine", component="index", value=name, why=f"known are auto, default, {', '.join(known)}.")


def check_linker_name(linker_name: str | None) -> None:
    """Check that a linker name is registered or is a folder; None stands for the default linker.

    Raises:
        MissingFile: E001, it is neither.
    """
    known = sorted(registry.sapbert_linkers.get_all())  # type: ignore[attr-defined]
    if linker_name is not None and linker_name not in known and not folder_is_there(Path(linker_name)):
        more = BUILD_UMLS if linker_name.lower() == "umls" else ""
        raise fail("E001", MissingFile, name=linker_name, known=", ".join(known), more=more)
