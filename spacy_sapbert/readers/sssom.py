"""Mappings between vocabularies in SSSOM TSV, such as MONDO's mondo_exactmatch_umls.sssom.tsv."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import fail
from ..kb import curies
from ..kb.concept import Concept
from .stats import ReadStats, reader
from .text import lines

_REQUIRED = ("subject_id", "predicate_id", "object_id")


@reader("sssom")
def read_sssom(path: Path, stats: ReadStats, *, predicates: Sequence[str] = ("skos:exactMatch",), encoding: str = "utf-8") -> Iterator[Concept]:
    """Read mappings as Concepts without names.

    If one side is a CUI, it is added to the `cuis` of the other side's concept. Otherwise the object is added to the subject's `same_as`, and
    its code to the subject's codes.

    Args:
        path: the file.
        stats: counters of the reading; `stats.version` is `mapping_set_version` in the commented header.
        predicates: predicates of the mappings that are read. Others, and negated ones (`predicate_modifier` "Not"), are left out.
        encoding: encoding of the file.

    Raises:
        SapbertError: E402, a required column is missing; E404 and E405.

    Source:
        mapping-commons.github.io/sssom.
    """
    columns: Sequence[str] = ()
    wanted = frozenset(predicates)
    for number, line in lines(path, encoding):
        if not columns:
            if line.startswith("#"):
                if found := re.match(r"#\s*mapping_set_version:\s*[\"']?([^\"'\s]+)", line):
                    date = re.search(r"\d{4}-\d\d-\d\d", found[1])  # MONDO writes an IRI there
                    stats.version = date[0] if date else found[1]
            elif line.strip():
                columns = [c.strip() for c in line.split("\t")]
                if missing := [c for c in _REQUIRED if c not in columns]:
                    why = f"column {', '.join(missing)} is missing; found: {', '.join(columns)}"
                    raise fail("E402", path=path, expected="an SSSOM table", why=why)
                subject_at, predicate_at, object_at = (columns.index(c) for c in _REQUIRED)
                modifier_at = columns.index("predicate_modifier") if "predicate_modifier" in columns else -1
            continue
        if not line.strip():
            continue
        stats.rows += 1
        # not split by csv: a label may start with a quote, and then csv would read the next lines as part of it
        fields = line.split("\t")
        if len(fields) <= max(subject_at, predicate_at, object_at) or ":" not in fields[subject_at] or ":" not in fields[object_at]:
            stats.bad(number, "subject_id or object_id is missing or not a CURIE")
            continue
        negated = 0 <= modifier_at < len(fields) and fields[modifier_at].strip().lower() == "not"
        if fields[predicate_at].strip() in wanted and not negated:
            yield _mapping(fields[subject_at], fields[object_at])


def _mapping(subject: str, target: str) -> Concept:
    if curies.cui(subject) and not curies.cui(target):
        subject, target = target, subject
    subject_id, target_id = curies.canonical(subject), curies.canonical(target)
    concept = Concept(subject_id, curies.vocabulary_of(subject_id))
    if curies.cui(target) and not curies.cui(subject):
        concept.cuis.append(target_id)
    else:
        concept.same_as.append(target_id)
        if code := curies.code(target_id):
            concept.codes.append(code)
    return concept
