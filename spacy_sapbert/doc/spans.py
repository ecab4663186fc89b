"""Read the spans to link from a Doc, choose the text to look up, and write the links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from spacy.tokens import Doc, Span, SpanGroup

from ..errors import fail
from .abbreviations import definitions

CORRECTED = "corrected_text"  # extension of spans: the text with its misspelt words corrected, as `concept_matcher` found it
ALL = "sapbert"  # span group with all mentions: chosen ones, nested ones, and parts of coordinations
SpansKey = Union[None, str, List[str]]
Spans = List[Tuple[Optional[str], int, Span]]  # (group, or None for doc.ents; index in the group; span)


class Mention(NamedTuple):
    """The text that is looked up for a span.

    Attributes:
        text: the text of the span, with abbreviations replaced by their long forms.
        long_form: the first long form that replaced an abbreviation; None if nothing was replaced.
    """

    text: str
    long_form: Optional[str]


class Link(NamedTuple):
    """The result that is written on one span.

    Attributes:
        kb_id: id of the linked concept, or the NIL string.
        candidates: (concept id, score), best first.
        codes: vocabulary -> codes of the linked concept.
        explain: how the link was found.
        probability: how likely the first candidate is right; None without a calibration or a candidate.
    """

    kb_id: str
    candidates: List[Tuple[str, float]]
    codes: Dict[str, List[str]]
    explain: Dict[str, Any]
    probability: Optional[float] = None


def attribute_names(attr_name: str) -> Tuple[str, str, str, str]:
    """Return the names of a linker's four attributes: "other_ents" gives other_ents, other_codes, other_explain and other_prob."""
    stem = attr_name[: -len("_ents")] if attr_name.endswith("_ents") else attr_name
    return attr_name, f"{stem}_codes", f"{stem}_explain", f"{stem}_prob"


@dataclass(frozen=True)
class _Candidates:
    """Getter for the candidates of a span. It returns tuples, even in a Doc from bytes or another process, where spaCy turns tuples into lists.

    Attributes:
        name: name of the extension.
    """

    name: str

    def __call__(self, span: Span) -> List[Tuple[str, float]]:
        user_data: Dict[Any, Any] = span.doc.user_data
        found: List[Tuple[str, float]] = user_data.get(extension_key(self.name, span), [])
        if any(not isinstance(candidate, tuple) for candidate in found):
            found[:] = [(concept_id, score) for concept_id, score in found]
        return found


@dataclass(frozen=True)
class _SetCandidates:
    """Setter for the candidates of a span.

    Attributes:
        name: name of the extension.
    """

    name: str

    def __call__(self, span: Span, candidates: List[Tuple[str, float]]) -> None:
        user_data: Dict[Any, Any] = span.doc.user_data
        user_data[extension_key(self.name, span)] = candidates


def extension_key(name: str, span: Span) -> Tuple[Any, ...]:
    """Return the key under which spaCy stores the value of a span's extension in `Doc.user_data`."""
    return ("._.", name, span.start_char, span.end_char)


def corrected_text(span: Span) -> str:
    """Return the text of a span with its misspelt words corrected, as `concept_matcher` found it; "" if it corrected nothing."""
    user_data: Dict[Any, Any] = span.doc.user_data
    return str(user_data.get(extension_key(CORRECTED, span)) or "")


def set_extensions(attr_name: str, component: str) -> None:
    """Register the four span attributes of a linker. An attribute that already exists must have the same default, as scispaCy's `kb_ents` has.

    Args:
        attr_name: name of the candidates' attribute, see `attribute_names`.
        component: name of the component, for error messages.

    Raises:
        SapbertError: E005, an attribute exists with another default.
    """
    candidates, *others = attribute_names(attr_name)
    ours = (None, None, _Candidates(candidates), _SetCandidates(candidates))
    defaults: Dict[str, Any] = {candidates: [], **dict(zip(others, ({}, {}, None)))}
    for name, default in defaults.items():
        there = Span.get_extension(name) if Span.has_extension(name) else None
        if there is None and name == candidates:
            Span.set_extension(name, getter=ours[2], setter=ours[3])
        elif there is None:
            Span.set_extension(name, default=default)
        elif there != (default, None, None, None) and (name != candidates or there != ours):
            raise fail("E005", attr=name, component=component)


def get_spans(doc: Doc, spans_key: SpansKey, labels_discard: Iterable[str] = ()) -> Spans:
    """Return every span to link.

    Args:
        doc: the Doc.
        spans_key: name of a span group, several names, or None for `doc.ents`. A group that the Doc does not have counts as empty.
        labels_discard: spans with one of these labels are left out.

    Returns:
        List of (name of the group, None for `doc.ents`; index in the group; span).
    """
    discard = set(labels_discard)
    groups: Sequence[Optional[str]] = [None] if spans_key is None else [spans_key] if isinstance(spans_key, str) else spans_key
    found: List[Tuple[Optional[str], int, Span]] = []
    for group in groups:
        spans = doc.ents if group is None else doc.spans.get(group, ())
        found.extend((group, place, span) for place, span in enumerate(spans) if not discard or span.label_ not in discard)
    return found


def spans_to_link(doc: Doc, spans_key: SpansKey, labels_discard: Iterable[str] = ()) -> Spans:
    """Return every span to link, as `get_spans`; with `doc.ents` also the spans of the group "sapbert", which `concept_matcher` writes."""
    found = get_spans(doc, spans_key, labels_discard)
    return found + get_spans(doc, ALL, labels_discard) if spans_key is None and ALL in doc.spans else found


def is_part(group: Optional[str], span: Span) -> bool:
    """Return whether a span is a part of a coordination ("cleft palate" of "cleft lip and palate"). Then its id is the name to look up."""
    return group == ALL and bool(span.id)


def long_forms(doc: Doc, *, english: bool = True) -> Dict[str, str]:
    """Return the abbreviations of a Doc, short form -> long form.

    Results of scispaCy's `abbreviation_detector` take precedence over those of `definitions`.
    """
    return {**definitions(doc.text, english=english), **detected(doc)}


def detected(doc: Doc) -> Dict[str, str]:
    """Return the abbreviations that a detector in the pipeline found, short form -> long form.

    The detector's results may be Spans, or dicts if its setting `make_serializable` is on.
    """
    if not Doc.has_extension("abbreviations"):
        return {}
    _default, _method, getter, _setter = Doc.get_extension("abbreviations")
    user_data: Dict[Any, Any] = doc.user_data
    if getter is None and ("._.", "abbreviations", None, None) not in user_data:
        return {}  # reading it would write the empty default into the Doc
    forms: Dict[str, str] = {}
    for short in doc._.abbreviations or []:
        if isinstance(short, dict):
            forms.setdefault(str(short["short_text"]), str(short["long_text"]))
        elif isinstance(short, Span):
            long = short._.long_form if Span.has_extension("long_form") else None
            if long is not None:
                forms.setdefault(short.text, long.text if isinstance(long, Span) else str(long))
    return forms


def set_corrected_extension() -> None:
    """Register the span extension for corrected texts, if it is not registered yet."""
    if not Span.has_extension(CORRECTED):
        Span.set_extension(CORRECTED, default=None)


def get_mention(span: Span, forms: Dict[str, str], *, english: bool = True, part: bool = False) -> Mention:
    """Return the text to look up for a span: abbreviations in it are replaced by their long forms.

    "VSD repair" becomes "ventricular septal defect repair"; "ventricular septal defect (VSD)" loses the part in brackets.

    Args:
        span: the span to link.
        forms: short form -> long form, see `long_forms`.
        english: the text is English, so "VSDs" is the plural of "VSD".
        part: whether the span is a part of a coordination, whose id is the name to look up.
    """
    text = str(span.id_) if part else corrected_text(span) or span.text
    used: List[str] = []  # long forms
    shorts = [short for short in forms if short in text]
    if not shorts:
        return Mention(text, None)
    longest = max(map(len, shorts))
    known = {
        form: short for short in shorts if len(short) > 1 or longest == 1 for form in (short, *(_plurals(short) if english else ()))
    }  # a one-letter form is ignored beside a longer one: "V-shaped VSD"
    if text in known:
        return Mention(forms[known[text]], forms[known[text]])
    each = "|".join(re.escape(form) for form in sorted(known, key=len, reverse=True))
    lowered = text.lower()

    def without(bracket: re.Match[str]) -> str:
        inside = [forms[known[form]].lower() for form in re.findall(each, bracket[0])]
        return "" if any(long in lowered for long in inside) else bracket[0]

    def expanded(found: re.Match[str]) -> str:
        long = forms[known[found[0]]]
        if long.lower() in lowered:
            return found[0]
        used.append(long)
        return long

    text = re.sub(rf"\s*[(\[]\s*(?:{each})(?:\s*(?:[/,;&]|and|or)\s*(?:{each}))*\s*[)\]]", without, text)
    text = re.sub(rf"(?<!\w)(?:{each})(?!\w)", expanded, text)
    return Mention(text, used[0] if used else None)


def _plurals(short: str) -> List[str]:
    return [f"{short}s"] if len(short) > 1 and short[-1].isupper() else []


def write_links(doc: Doc, spans: Spans, links: List[Link], attr_name: str, overwrite: bool) -> None:
    """Write links on the spans of one Doc.

    Args:
        doc: the Doc.
        spans: what `get_spans` returned.
        links: one link for each span.
        attr_name: name of the candidates' attribute, see `attribute_names`.
        overwrite: replace an existing kb_id.
    """
    names = attribute_names(attr_name)
    user_data: Dict[Any, Any] = doc.user_data  # where spaCy stores extensions; `span._` is slow
    by_group: Dict[str, Dict[int, str]] = {}
    # spaCy stores attributes by a span's offsets. So a whole mention is written after a part of a coordination with the same offsets
    for (group, place, span), link in sorted(zip(spans, links), key=lambda each: not is_part(each[0][0], each[0][2])):
        for name, value in zip(names, (list(link.candidates), link.codes, link.explain, link.probability)):
            user_data[extension_key(name, span)] = value
        # NIL does not replace an id that another linker wrote; each linker's own attributes still show its result
        if span.kb_id_ and (not overwrite or (link.kb_id in ("", "NIL") and attr_name != "kb_ents")):
            continue
        if group is None:
            for token in span:  # doc.ents returns new Spans each time, so the id is set on the tokens
                token.ent_kb_id_ = link.kb_id
        else:
            by_group.setdefault(group, {})[place] = link.kb_id
    for group, ids in by_group.items():
        old = doc.spans[group]
        new = [
            Span(doc, s.start, s.end, label=s.label, kb_id=ids[i], span_id=s.id) if i in ids else s for i, s in enumerate(old)
        ]  # the id of a Span in a group can't be changed either, so new Spans are made
        doc.spans[group] = SpanGroup(doc, name=old.name, attrs=dict(old.attrs), spans=new)


def set_spans(doc: Doc, spans_key: Optional[str], spans: List[Span]) -> None:
    """Set `doc.ents`, whose spans must not overlap, or a span group."""
    if spans_key is None:
        doc.ents = tuple(spans)
    else:
        doc.spans[spans_key] = spans
