"""Make the recogniser's lexicon from names of ontologies and drugs: hashes with semantic groups, from which the names cannot be recovered."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.files import writing_folder
from spacy_sapbert.kb import semantic_types
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.matcher.phrases import Phrases
from spacy_sapbert.mentions.features import make_lexicon
from spacy_sapbert.readers.text import lines

from ..errors import fail

# semantic types of the rows of RxNorm that are used: substances. Texts do not use the names of clinical drugs (T200), packs and strengths
SUBSTANCES = ("T109", "T116", "T121", "T125", "T127", "T129", "T131", "T195")
CLINICAL_DRUG = "T200"


def drug_names(path: Path) -> Iterator[str]:
    """Yield the names of drugs in a CSV: DrugBank's vocabulary (`Common name`, `Synonyms`) or RxNorm (`Preferred Label`, `Semantic Types`).

    Raises:
        SapbertError: E560 (it is neither).
    """
    reader = csv.DictReader(io.StringIO("\n".join(line for _, line in lines(path))))
    columns = set(reader.fieldnames or ())
    if {"Common name", "Synonyms"} <= columns:
        for row in reader:
            yield from (name for name in [row["Common name"], *(row["Synonyms"] or "").split(" | ")] if name)
    elif {"Preferred Label", "Semantic Types"} <= columns:
        for row in reader:
            types = row["Semantic Types"] or ""
            if CLINICAL_DRUG not in types and any(tui in types for tui in SUBSTANCES):
                yield row["Preferred Label"]
    else:
        raise fail(
            "E560",
            path=path,
            line=1,
            expected="a header with `Common name` and `Synonyms` (DrugBank), or `Preferred Label` and `Semantic Types` (RxNorm)",
            shape=f"{len(columns)} columns",
        )


def names_of(kb: KnowledgeBase) -> Iterator[tuple[str, str]]:
    """Yield the names of a knowledge base with the semantic group of their first concept; "OTHER" if it has no known type."""
    known = semantic_types.load()
    for one in kb.matchable_names():
        yield one.name, known[one.tui].group if one.tui in known else "OTHER"


def write_lexicon(kb: Path, drugs: Iterable[Path], out: Path) -> dict[str, int]:
    """Write the lexicon of a knowledge base and of lists of drugs. The lists come first.

    Returns:
        Semantic group -> number of names.

    Raises:
        SapbertError: E567 (a list is missing), E560 (not a list of drugs), and those of `KnowledgeBase`.
    """

    def named() -> Iterator[tuple[str, str]]:
        for path in drugs:
            if not path.is_file():
                raise fail("E567", MissingFile, path=path, layout="drugs", why="there is no such file")
            yield from ((name, "CHEM") for name in drug_names(path))
        yield from names_of(KnowledgeBase(kb))

    lexicon = make_lexicon(named())
    with writing_folder(out) as folder:
        lexicon.to_disk(folder)
    return counts(lexicon)


def counts(lexicon: Phrases) -> dict[str, int]:
    """Return group -> number of names."""
    return {name: int((lexicon.labels == place).sum()) for place, name in enumerate(lexicon.names)}
