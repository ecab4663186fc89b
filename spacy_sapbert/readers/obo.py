"""OBO files: HPO, UBERON, MAxO, SYMP and others."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fastobo

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept, Name
from .names import term_type
from .relations import named
from .stats import ReadStats, reader
from .text import lines

Stanza = list[tuple[int, str]]  # (line number, line); the first line is "[Term]" or the like, except in the header
_VERSION = re.compile(r'data-version: *(\S+)|property_value: owl:versionInfo "?([^" ]+)')


_READ = (
    "[", "id:", "name:", "def:", "synonym:", "xref:", "is_a:", "relationship:", "alt_id:", "is_obsolete:", "replaced_by:",
    "property_value: skos:exactMatch",
)  # fmt: skip
_BATCH = 64  # stanzas that one call parses: four times as fast as one at a time


@reader("obo")
def read_obo(
    path: Path, stats: ReadStats, *, prefixes: Sequence[str] | None = None, suppressed: bool = False, encoding: str = "utf-8"
) -> Iterator[Concept]:
    """Read an OBO file, one stanza at a time.

    Labels get the term type "PT"; for synonyms see `names.term_type`. Cross-references to UMLS become `cuis` in the file's order, those to
    other known vocabularies become `codes`. `property_value: skos:exactMatch` is also a cross-reference, and is added to `same_as`. `alt_id`
    becomes `retired`. An obsolete term gives no names; if exactly one term replaces it, that term gets it as `retired`. `relationship` becomes
    `relations`, with the names in the file's [Typedef] stanzas; relations without a name are counted in `stats.left_out`.

    fastobo refuses a whole stanza for one bad line (mostly bad xrefs). Such a line is counted and left out, and the rest is kept. Lines that
    are not used here (comment, creation_date …) are not parsed.

    Args:
        path: the file.
        stats: counters of the reading; `stats.version` is `data-version`, or else owl:versionInfo.
        prefixes: yield only terms with these id prefixes; None is the file's own, see `own_prefix`. Files import terms of other ontologies
            (MAxO's has 5,000 of UBERON, CHEBI …); these are skipped without parsing.
        suppressed: keep synonyms with the type obsolete, deprecated or discarded (term type "OB").
        encoding: encoding of the file.

    Raises:
        SapbertError: E402, there are no terms; E404 and E405.

    Source:
        The OBO 1.4 format.
    """
    batch: list[Stanza] = []
    wanted = {p.upper() for p in prefixes} if prefixes else {own_prefix(path, encoding).upper()}
    labels = _labels_of_relations(path, encoding)
    for stanza in _stanzas(lines(path, encoding)):
        if not stanza[0][1].startswith("["):
            found = next(filter(None, (_VERSION.match(line) for _, line in stanza)), None)
            stats.version = found and (found[1] or found[2])
            continue
        if stanza[0][1].strip() != "[Term]":
            continue
        stats.rows += len(stanza)
        if curies.split(_id(stanza))[0].upper() in wanted:
            batch.append([pair for pair in stanza if pair[1].startswith(_READ)])
        if len(batch) == _BATCH:
            yield from _parsed(batch, stats, suppressed, labels)
            batch = []
    yield from _parsed(batch, stats, suppressed, labels)


def own_prefix(path: Path, encoding: str = "utf-8") -> str:
    """Return the prefix of the identifiers of a file's own terms.

    It is the one that `ontology:` names (`hp.obo`, `uberon/basic`; capitals don't matter), if terms have it. Otherwise it is the most frequent one.

    Raises:
        SapbertError: E402, there are no terms with a prefix.
    """
    ontology, counts = None, Counter[str]()
    for _, line in lines(path, encoding):
        if line.startswith("id: ") and ":" in line[4:]:
            prefix = curies.split(line[4:])[0]
            if prefix.lower() == ontology:
                return prefix
            counts[prefix] += 1
        elif ontology is None and line.startswith("ontology:"):
            ontology = re.sub(r"\.(obo|owl)$", "", line[9:].strip().split("/")[0].lower())
    if not counts:
        raise fail("E402", path=path, expected="an OBO file", why="it has no terms with ids such as HP:0000118")
    return counts.most_common(1)[0][0]


def _labels_of_relations(path: Path, encoding: str) -> dict[str, str]:
    """Return relation id -> name, from the [Typedef] stanzas. They are read first, because they come last in the file."""
    labels: dict[str, str] = {}
    typedef, relation = False, ""
    for _, line in lines(path, encoding):
        if line.startswith("["):
            typedef, relation = line.strip() == "[Typedef]", ""
        elif typedef and line.startswith("id:"):
            relation = curies.canonical(line[3:].strip())
        elif typedef and line.startswith("name:"):
            labels.setdefault(relation, line[5:].strip())
    return labels


def _stanzas(numbered: Iterable[tuple[int, str]]) -> Iterator[Stanza]:
    stanza: Stanza = []
    for number, line in numbered:
        if line.startswith("[") and line.rstrip().endswith("]"):
            if stanza:
                yield stanza
            stanza = []
        if line.strip():
            stanza.append((number, line))
    if stanza:
        yield stanza


def _id(stanza: Stanza) -> str:
    return next((line[3:].split("!")[0].strip() for _, line in stanza if line.startswith("id:")), "")


def _parsed(batch: list[Stanza], stats: ReadStats, suppressed: bool, labels: dict[str, str]) -> Iterator[Concept]:
    try:
        frames = list(fastobo.loads("\n\n".join("\n".join(line for _, line in stanza) for stanza in batch) + "\n"))
    except (SyntaxError, ValueError):  # a line in the batch is bad: parse each stanza to find it
        frames = [frame for frame in (_parse(stanza, stats) for stanza in batch) if frame is not None]
    for frame in frames:
        for concept in _concepts(frame, suppressed):
            concept.relations = named(concept.relations, labels, stats)
            yield concept


def _parse(stanza: Stanza, stats: ReadStats) -> Any:
    """Return fastobo's frame of a stanza without the lines that it refuses; None if it refuses the heading or the id."""
    while stanza:
        try:
            return fastobo.loads("\n".join(line for _, line in stanza) + "\n")[0]
        except (SyntaxError, ValueError) as error:
            at = min(getattr(error, "lineno", None) or 1, len(stanza)) - 1
            number, line = stanza[at]
            stats.bad(number, f"{getattr(error, 'msg', error)}: {line[:80]}")
            if at == 0 or line.startswith("id:"):
                return None
            stanza = stanza[:at] + stanza[at + 1 :]
    return None


def _concepts(frame: Any, suppressed: bool) -> Iterator[Concept]:
    by_tag = {tag: list(group) for tag, group in itertools.groupby(sorted(frame, key=lambda c: c.raw_tag()), key=lambda c: c.raw_tag())}
    concept_id = curies.canonical(str(frame.id))
    source = curies.vocabulary_of(concept_id)
    if any(c.obsolete for c in by_tag.get("is_obsolete", ())):
        replacements = {curies.canonical(str(c.term)) for c in by_tag.get("replaced_by", ())}
        if len(replacements) == 1:
            yield Concept(replacements.pop(), source, retired=[concept_id])
        return
    concept = Concept(concept_id, source, names=_names(by_tag, source, suppressed))
    own = curies.code(concept_id)
    concept.codes = [own] if own else []
    concept.definition = next((c.definition for c in by_tag.get("def", ())), None)
    concept.parents = [curies.canonical(str(c.term)) for c in by_tag.get("is_a", ())]
    concept.relations = [(curies.canonical(str(c.typedef)), curies.canonical(str(c.term))) for c in by_tag.get("relationship", ())]
    concept.retired = [curies.canonical(str(c.alt_id)) for c in by_tag.get("alt_id", ())]
    for clause in by_tag.get("xref", ()):
        add_xref(concept, str(clause.xref.id))
    for clause in by_tag.get("property_value", ()):
        value = clause.property_value
        if str(value.relation) == "skos:exactMatch":
            add_xref(concept, str(value.value), exact=True)
    yield concept


def _names(by_tag: Any, source: str, suppressed: bool) -> list[Name]:
    names = [Name(c.name, source, term_type="PT", rank=0) for c in by_tag.get("name", ())]
    for clause in by_tag.get("synonym", ()):
        synonym = clause.synonym
        kind, rank = term_type(synonym.scope, str(synonym.type or ""))
        if kind != "OB" or suppressed:
            names.append(Name(synonym.desc, source, term_type=kind, rank=rank))
    return names


def add_xref(concept: Concept, xref: str, exact: bool = False) -> None:
    """Add a cross-reference to a concept's `cuis` or `codes`.

    Args:
        concept: The concept.
        xref: The cross-reference as the file has it.
        exact: Whether it is a curated exact match; then it is also added to `same_as`.
    """
    cui, code = curies.cui(xref), curies.code(xref)
    if cui and cui not in concept.cuis:
        concept.cuis.append(cui)
    if code and code not in concept.codes:
        concept.codes.append(code)
    if exact and not cui:
        concept.same_as.append(curies.canonical(xref))
