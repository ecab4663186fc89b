"""Create the spaCy pipeline for commands that read notes: a pipeline that the user names, or one that needs no training."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingFile, SapbertError, fail
from ..types import Loadable

if TYPE_CHECKING:
    from spacy.language import Language

_UNKNOWN_FACTORY = re.compile(r"\[E002\] Can't find factory for '([^'\n]+)'")  # a message of spaCy


def load(
    linker_name: str | None = None,
    *,
    pipeline: str | None = None,
    recogniser: bool | str = True,
    status: bool = True,
    abbreviations: bool = True,
    qualifiers: bool = False,
    **settings: Any,
) -> Language:
    """Return a pipeline that finds mentions in clinical text, links them to concepts and sets their status (negated, historical, …).

    Args:
        linker_name: a registered linker or the folder of a linker; None: "open".
        pipeline: name or folder of a spaCy pipeline whose entities are linked; None: a blank one with `clinical_mentions` and
            `concept_matcher`.
        recogniser: also find mentions that are not names of the knowledge base. True: with `clinical_mentions`; a text: with the component of
            this factory; False: do not.
        status: set the status of each mention, with `clinical_status`.
        abbreviations: resolve abbreviations that the text defines; with scispacy installed, also those that its detector finds.
        qualifiers: also find qualifiers ("right", "mild", "chronic").
        settings: further settings of `sapbert_linker`, such as target_precision; `types` is also set for `concept_matcher`.

    Raises:
        SapbertError: E001, linker_name is not known; E002, a setting is wrong; E402, the pipeline cannot be loaded.
    """
    config = {"linker_name": linker_name, **settings}
    nlp: Language = make_pipeline(config, pipeline, abbreviations, recogniser=recogniser, status=status, qualifiers=qualifiers)
    return nlp


def make_pipeline(
    config: dict[str, Any],
    pipeline: str | None = None,
    abbreviations: bool = True,
    *,
    recogniser: bool | str = True,
    status: bool = True,
    qualifiers: bool = False,
    alone: bool = False,
) -> Any:
    """Return a spaCy pipeline that ends in sapbert_linker and, for English, clinical_status.

    Args:
        config: settings of the linker.
        pipeline: name or folder of a spaCy pipeline whose entities are linked; None: a blank one with `concept_matcher`.
        abbreviations: resolve abbreviations; with scispacy installed, also those that its detector finds.
        recogniser: add `clinical_mentions` (True), or the component of this factory (a text), to a blank pipeline.
        status: add `clinical_status`, if the pipeline does not have it.
        qualifiers: setting of `concept_matcher`.
        alone: True if no other thread creates a pipeline at the same time. Then a blank one is created faster, without importing the factories of
            all installed packages.

    Raises:
        SapbertError: E402, the pipeline cannot be loaded; E002, a setting is given, but the pipeline has a linker with its own settings.
    """
    import importlib.util

    import spacy

    from ..doc.brackets import bound_detector
    from ..doc.spans import ALL  # loads spaCy: imported when a pipeline is made
    from ..doc.tokens import bound_tokenizer

    try:
        if pipeline:
            nlp = spacy.load(pipeline)
        else:
            with _own_factories() if alone and not isinstance(recogniser, str) else nullcontext():
                nlp = spacy.blank("en")
    except SapbertError:  # raised by a component of this package in the pipeline
        raise
    except (OSError, ValueError) as error:  # spaCy's E050: there is no such pipeline; E002: a component is not registered, see --code
        unknown = _UNKNOWN_FACTORY.search(str(error))
        if unknown is not None:
            why = f"no component '{unknown[1]}' is registered here. Import the Python file that registers it (--code FILE), or install its package."
            raise fail("E402", path=pipeline, expected="a pipeline that can be loaded", why=why) from error
        raise fail("E402", path=pipeline, expected="a spaCy pipeline", why=str(error)) from error
    bound_tokenizer(nlp)
    has_linker = "sapbert_linker" in nlp.pipe_names
    for setting, value in config.items():
        if has_linker and value is not None:
            why = f"'{pipeline}' has a sapbert_linker with its own settings. Leave this setting out, or give a pipeline without a linker."
            raise fail("E002", setting=setting, component="link", value=value, why=why)
    if not pipeline:
        nlp.max_length = sys.maxsize  # spaCy's limit is for parsers, and there is none
        if recogniser:
            nlp.add_pipe("clinical_mentions" if recogniser is True else recogniser)
            # concept_matcher finds the names; another mention is linked only to a name whose words are all in the mention
            config = {"new_words": False, **config}
        shared = {key: config.get(key) for key in ("linker_name", "types")}
        nlp.add_pipe("concept_matcher", config={**shared, "join": True, "all_key": ALL, "qualifiers": qualifiers})
    if abbreviations and "abbreviation_detector" not in nlp.pipe_names and importlib.util.find_spec("scispacy"):
        from scispacy.abbreviation import AbbreviationDetector  # noqa: F401  registers the factory

        warnings.filterwarnings("ignore", message=".*W036.*")  # the warning that its second matcher has no patterns; this is normal for most notes
        nlp.add_pipe("abbreviation_detector", config={"make_serializable": True}, before="sapbert_linker" if has_linker else None)
    for name, component in nlp.pipeline:
        if nlp.get_pipe_meta(name).factory == "abbreviation_detector":  # also one of the given pipeline
            bound_detector(component)
    if not has_linker:
        nlp.add_pipe("sapbert_linker", config={**config, "resolve_abbreviations": abbreviations})
    if status and nlp.lang == "en" and "clinical_status" not in nlp.pipe_names:
        nlp.add_pipe("clinical_status")
    return nlp


def load_components(nlp: Language) -> None:
    """Read the files that the components of a pipeline need, which they otherwise do when they get their first text.

    Raises:
        SapbertError: errors of loading.
    """
    for _, component in nlp.pipeline:
        if isinstance(component, Loadable):
            component.load()


def run_code(path: str | Path | None) -> None:
    """Run a Python file that registers components, as spaCy's `--code` does. None: do nothing.

    Raises:
        SapbertError: E401, there is no such file; E402, it cannot be run.
    """
    from spacy.util import import_file

    if path is None:
        return
    if not Path(path).is_file():
        raise fail("E401", MissingFile, path=path)
    try:
        import_file("spacy_sapbert_code", path)
    except Exception as error:  # the file may raise any error
        raise fail("E402", path=path, expected="a Python file that runs", why=f"{type(error).__name__}: {error}") from error


@contextmanager
def _own_factories() -> Iterator[None]:
    """Register the factories of this package, and keep spaCy from importing those of other packages, which takes seconds."""
    from spacy.util import registry

    from .. import linker  # noqa: F401
    from ..context import status  # noqa: F401
    from ..matcher import component  # noqa: F401
    from ..mentions import recogniser  # noqa: F401

    factories = getattr(registry, "_entry_point_factories", None)  # a private attribute of spaCy; if it is missing, all factories are imported
    before = getattr(factories, "entry_points", None)
    if factories is not None:
        factories.entry_points = False
    try:
        yield
    finally:
        if factories is not None:
            factories.entry_points = before
