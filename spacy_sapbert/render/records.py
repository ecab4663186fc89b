"""Turn the linked spans of a Doc into plain records. All outputs are made from these records."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from spacy.tokens import Doc, Span, Token

from ..context.clauses import find_sentences
from ..context.sections import find_sections, section_at
from ..doc.spans import ALL, attribute_names
from ..kb import semantic_types
from ..kb.knowledge_base import Entity, KnowledgeBase

Row = dict[str, Any]

NIL = "NIL"
ROUNDING = 1e-9  # a share that is nearer to 0 or 1 differs from it only by the rounding of floating-point numbers
STATUS = "assertion"  # the extension that clinical_status writes
# status -> its name on the page and in the table
STATUS_NAMES = {"negated": "denied", "uncertain": "uncertain", "hypothetical": "hypothetical", "historical": "past", "family": "family"}
# label -> (name in the legend, hue in degrees). Labels are UMLS semantic groups; any other label is "other" and grey
GROUPS: dict[str, tuple[str, int]] = {
    "DISO": ("Disorder or finding", 8),
    "ANAT": ("Anatomy", 200),
    "PROC": ("Procedure", 265),
    "CHEM": ("Drug or chemical", 140),
    "PHYS": ("Physiology", 45),
    "GENE": ("Gene or protein", 320),
    "DEVI": ("Device", 225),
    "LIVB": ("Living being", 85),
    "PHEN": ("Phenomenon", 170),
    "ACTI": ("Activity", 65),
    "CONC": ("Concept", 290),
    "OBJC": ("Object", 30),
}


def linked_spans(doc: Doc, attr: str = "kb_ents") -> list[Span]:
    """Return the spans to show, in reading order.

    These are all entities, and the spans of any span group that have a link. Spans with the same offsets are shown once.

    Args:
        doc: a linked Doc.
        attr: the linker's `attr_name`.
    """
    spans = {(span.start, span.end): span for group in doc.spans.values() for span in group if span.kb_id_ or _extension(span, attr)}
    spans.update({(span.start, span.end): span for span in doc.ents})
    return [spans[key] for key in sorted(spans, key=lambda key: (key[0], -key[1]))]


def rows(
    doc: Doc, kb: KnowledgeBase, attr: str = "kb_ents", note_id: str = "", extensions: Sequence[str] = (), *, sentences: bool = False
) -> Iterator[Row]:
    """Yield one record for each span of a Doc, see `row_of`."""
    places = Places(doc)
    for span in linked_spans(doc, attr):
        yield row_of(span, kb, attr, note_id, extensions, places=places, sentences=sentences)


class Places:
    """What a Doc says about the places of its spans: sections, sentences, and which spans are nested. Each is found once, when it is first asked for.

    Args:
        doc: a Doc.
    """

    def __init__(self, doc: Doc) -> None:
        self._doc = doc

    @cached_property
    def _sections(self) -> list[Any]:
        return find_sections(self._doc.text) if self._doc.lang_ == "en" else []

    @cached_property
    def _sentences(self) -> list[tuple[int, int]]:
        """(start, end) in characters of the sentences: those of the pipeline; if it sets none, by rules for plain text."""
        if self._doc.has_annotation("SENT_START"):
            return [(sentence.start_char, sentence.end_char) for sentence in self._doc.sents]
        return find_sentences(self._doc.text)

    @cached_property
    def _begins(self) -> list[int]:
        return [start for start, _ in self._sentences]

    @cached_property
    def _nested(self) -> set[tuple[int, int]]:
        return nested_places(self._doc)

    def section(self, span: Span) -> str | None:
        """Return the kind of the section in which a span begins, see `context.sections.Section`; None if the language is not English."""
        section = section_at(self._sections, span.start_char)
        return None if section is None else str(section.kind)

    def sentence(self, span: Span) -> str:
        """Return the sentence of a span, as it is written in the text; several sentences if the span is not inside one."""
        text: str = self._doc.text
        if not self._begins:  # the text is only white space
            return str(span.text)
        first, last = (max(bisect_right(self._begins, char) - 1, 0) for char in (span.start_char, span.end_char - 1))
        return text[min(self._begins[first], span.start_char) : max(self._sentences[last][1], span.end_char)]

    def nested(self, span: Span) -> bool:
        """Return whether a span is a nested mention, see `nested_places`."""
        return (span.start, span.end) in self._nested


def row_of(
    span: Span,
    kb: KnowledgeBase,
    attr: str = "kb_ents",
    note_id: str = "",
    extensions: Sequence[str] = (),
    *,
    nested: bool | None = None,
    places: Places | None = None,
    sentences: bool = False,
) -> Row:
    """Return a span and its link as a record that JSON can hold.

    Args:
        span: a span of a linked Doc.
        kb: the linker's knowledge base.
        attr: the linker's `attr_name`.
        note_id: id of the note.
        extensions: names of Span extensions, of any component, whose values are added.
        nested: whether it is a nested mention; None: as `places` says.
        places: sections, sentences and nested mentions of the Doc; None: they are looked up, which is slow if it is done for many spans.
        sentences: also write the text of the sentence. It may hold names of patients, and so is not written otherwise.

    Returns:
        note, start and end (characters), mention, label, section (kind of the section; None for languages other than English), status (list of the
        statuses that hold; None without clinical_status), nested (whether the span is inside a longer mention that was chosen), cui ("NIL" if there is no link), name, types (TUIs), type_names, score (None for NIL),
        probability (None without a calibration), candidates [[id, name, score] …] best first, codes, explain; if
        extensions are given also extensions (name -> value); if `sentences`, also sentence (its text).
    """
    _, codes_attr, explain_attr, prob_attr = attribute_names(attr)
    found = _extension(span, attr) or []
    candidates: list[list[Any]] = [[str(identifier), name_of(kb, str(identifier)), round(float(score), 6)] for identifier, score in found]
    explain: dict[str, Any] = _plain(_extension(span, explain_attr) or {})
    cui = span.kb_id_ or NIL
    score: float | None = None
    if cui != NIL:
        # the link may not be among the candidates, for example if a later component chose it
        score = next((c[2] for c in candidates if c[0] == cui), explain.get("score"))
    entity = entity_of(kb, cui)
    types = [str(tui) for tui in entity.types] if entity is not None else []
    places = places or Places(span.doc)
    row: Row = {
        "note": note_id,
        "start": span.start_char,
        "end": span.end_char,
        "mention": span.text,
        "label": span.label_,
        "section": places.section(span),
        "status": status_of(span),
        "nested": places.nested(span) if nested is None else nested,
        "cui": cui,
        "name": name_of(kb, cui),
        "types": types,
        "type_names": [_type_name(kb, tui) for tui in types],
        "score": score,
        "probability": _plain(_extension(span, prob_attr)) if candidates and candidates[0][0] == cui else None,
        "candidates": candidates,
        "codes": _plain(_extension(span, codes_attr) or {}),
        "explain": explain,
    }
    if sentences:
        row["sentence"] = places.sentence(span)
    if extensions:
        row["extensions"] = {name: _plain(_extension(span, name)) for name in extensions}
    return row


def nested_places(doc: Doc) -> set[tuple[int, int]]:
    """Return (start, end) in tokens of the nested mentions: names that `concept_matcher` found but did not choose ("palate" in "cleft palate").

    A part of a coordination ("cleft palate" of "cleft lip and palate") is not nested.
    """
    found = doc.spans.get(ALL, ())
    own = [*doc.ents, *(span for span in found if span.id)]
    return {(span.start, span.end) for span in found} - {(span.start, span.end) for span in own}


def status_of(span: Span) -> list[str] | None:
    """Return the statuses that hold for a span, in the order of `STATUS_NAMES`; None if no component has set them."""
    said = _extension(span, STATUS)
    return [status for status in STATUS_NAMES if said.get(status)] if isinstance(said, dict) else None


def status_names(row: Row) -> str:
    """Return the statuses of a record in words, "" if none holds."""
    return ", ".join(STATUS_NAMES[status] for status in row["status"] or ())


def entity_of(kb: KnowledgeBase, concept_id: str) -> Entity | None:
    """Return a concept, None if the knowledge base does not have it."""
    try:
        return kb.cui_to_entity[concept_id]
    except KeyError:
        return None


def name_of(kb: KnowledgeBase, concept_id: str) -> str:
    """Return the canonical name of a concept, "" if the knowledge base does not have it."""
    entity = entity_of(kb, concept_id)
    return str(entity.canonical_name) if entity is not None else ""


def reasons(row: Row) -> list[str]:
    """Return why a mention is linked as it is, in words: the long form of an abbreviation, the name or meaning that decided, and the probability."""
    explain, found = row["explain"], []
    if explain.get("long_form"):
        found.append(f"short for “{explain['long_form']}”")
    if explain.get("name"):
        name = f"“{explain['name']}”" + (f" ({explain['source']})" if explain.get("source") and not explain.get("meaning") else "")
        if row["cui"] == NIL:
            found.append(f"not linked; the best candidate is {name}")
        elif explain.get("meaning"):  # the name is then the canonical one, whatever the text has
            found.append(f"taken to mean {name}, by its spelling and the text around it")
        elif explain.get("exact"):
            found.append(f"exact match with the concept's name {name}")
        else:
            found.append(f"no exact match; the concept's most similar name is {name}")
    if row["probability"] is not None:
        found.append(f"right with a probability of {percent(row['probability'])}")
    return found


def percent(share: float, digits: int = 0) -> str:
    """Return a share (0 to 1) in percent; "over 99%" and "under 1%" for a share that would be rounded to 100% or 0% but is not 1 or 0.

    Args:
        share: the share.
        digits: decimals of the percentage.
    """
    shown, least = f"{share:.{digits}%}", 10.0 ** -(digits + 2)  # the smallest share that is not shown as 0%
    if share < 1 - ROUNDING and shown == f"{1:.{digits}%}":
        return f"over {1 - least:.{digits}%}"
    return f"under {least:.{digits}%}" if share > ROUNDING and shown == f"{0:.{digits}%}" else shown


def group_of(row: Row) -> str:
    """Return the semantic group for a record's colour: its label, if that is a group; else the group of the linked concept; else "other"."""
    if row["label"] in GROUPS:
        return str(row["label"])
    return next((group for group in semantic_types.groups_of(row["types"]) if group in GROUPS), "other")


def same(row: Row) -> tuple[str, str, str]:
    """Return the key by which records of a note are merged in a table: mention, concept and status."""
    return one_line(row["mention"]).lower(), row["cui"], status_names(row)


def chosen(rows: Iterable[Row]) -> list[Row]:
    """Return the records without nested mentions."""
    return [row for row in rows if not row["nested"]]


def distinct(rows: list[Row]) -> list[Row]:
    """Return the first record of each key (see `same`), in their order."""
    first: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        first.setdefault(same(row), row)
    return list(first.values())


def one_line(text: str) -> str:
    """Return a text in which each run of white space is a single space."""
    return " ".join(text.split())


class Summary:
    """Counts records, which are given one after the other."""

    def __init__(self) -> None:
        self._notes: set[str] = set()
        self._concepts: set[str] = set()
        self._statuses: Counter[str] = Counter()
        self._mentions = self._linked = 0

    def add(self, row: Row) -> None:
        """Count a record."""
        self._notes.add(row["note"])
        self._mentions += 1
        self._statuses.update(row["status"] or ())
        if row["cui"] != NIL:
            self._linked += 1
            self._concepts.add(row["cui"])

    def words(self) -> list[str]:
        """Return the counts in words: notes, mentions, links, concepts, NIL, statuses."""
        nil = self._mentions - self._linked
        parts = [count(len(self._notes), "note"), count(self._mentions, "mention"), f"{self._linked} linked", count(len(self._concepts), "concept")]
        parts += [f"{nil} NIL"] if nil else []
        return [*parts, *(f"{self._statuses[status]} {name}" for status, name in STATUS_NAMES.items() if self._statuses[status])]


def summary(rows: Iterable[Row]) -> list[str]:
    """Return the counts of records in words, see `Summary`."""
    counted = Summary()
    for row in rows:
        counted.add(row)
    return counted.words()


def count(n: int, noun: str) -> str:
    """Return a number with its noun: "1 note", "2,000 notes"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _extension(span: Span, attr: str) -> Any:
    return span._.get(attr) if Span.has_extension(attr) else None


def _type_name(kb: KnowledgeBase, tui: str) -> str:
    try:
        return str(kb.semantic_type_tree.get_canonical_name(tui))
    except KeyError:  # a semantic type that is newer than the tree
        return tui


def _plain(value: Any) -> Any:
    """Return a value as types that JSON has: without numpy scalars, tuples, sets and spaCy objects."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (Span, Doc, Token)):
        return value.text
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    return value.item() if hasattr(value, "item") else value
