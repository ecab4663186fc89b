"""Write the names that were found into a Doc, as entities or span groups."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..doc.spans import CORRECTED, set_spans
from ..kb.concept import ENGLISH
from .joining import Match, chosen, trimmed, with_items
from .sites import without_sites
from .skipped import places_without_mentions


def write_names(
    doc: Doc,
    matches: Sequence[Match],
    *,
    spans_key: str | None,
    all_key: str | None,
    join: bool,
    overwrite: bool,
    is_body: Callable[[str], bool] | None,
) -> None:
    """Write names into a Doc. A token that holds more than the name ("GERD.3") is split.

    Args:
        doc: the Doc.
        matches: the names, which may overlap.
        spans_key: see `ConceptMatcher`.
        all_key: see `ConceptMatcher`.
        join: see `ConceptMatcher`.
        overwrite: see `ConceptMatcher`.
        is_body: says whether a text is the name of a part of the body, see `places_without_mentions`.
    """
    text = doc.text  # spaCy builds this text anew at each access
    cut = [trimmed(Match(ent.start_char, ent.end_char, ent.label_), text) for ent in doc.ents] if join and not spans_key else []
    _split(doc, [offset for match in [*matches, *cut] for offset in (match.start, match.end)])
    before = [] if spans_key else [Match(ent.start_char, ent.end_char, ent.label_, ent=ent) for ent in doc.ents]
    skipped = places_without_mentions(text, is_body, is_english=doc.lang_ in ENGLISH) if join and before else ()  # a recogniser also marks headings
    kept, others = chosen(before, matches, text=text, join=join, overwrite=overwrite, skipped=skipped)
    if all_key is not None:  # without this group, sites would be lost
        parts = [one for one in others if one.part]
        names = {(one.start, one.end) for one in matches}
        kept = with_items(kept, parts, names, join=join)
        chosen_ones, kept = kept, without_sites(kept, text, parts)
        places = {(one.start, one.end) for one in kept}
        others = [*others, *(one for one in chosen_ones if (one.start, one.end) not in places)]
    spans = filter_spans(span for match in kept if (span := _span(doc, match)) is not None)
    set_spans(doc, spans_key, spans)
    if all_key is not None:
        more = [span for match in others if (span := _span(doc, match)) is not None]
        every = {(span.start, span.end, span.id): span for span in [*more, *spans]}
        set_spans(doc, all_key, sorted(every.values(), key=lambda span: (span.start, -span.end, span.id)))


def _span(doc: Doc, match: Match) -> Span | None:
    if match.ent is not None:
        return match.ent  # type: ignore[no-any-return]
    identity = {"span_id": match.corrected} if match.part else {}
    span = doc.char_span(match.start, match.end, label=match.label, alignment_mode="expand", **identity)  # type: ignore[arg-type]
    if span is not None and match.corrected is not None and not match.part:
        span._.set(CORRECTED, match.corrected)
    return span


def _split(doc: Doc, offsets: Iterable[int]) -> None:
    """Split the tokens of a Doc at offsets that lie within them."""
    cuts: dict[int, list[int]] = {}
    starts = [token.idx for token in doc]
    for offset in sorted(set(offsets)):
        at = bisect_right(starts, offset) - 1
        if at >= 0 and starts[at] < offset < starts[at] + len(doc[at]):
            cuts.setdefault(at, []).append(offset - starts[at])
    if not cuts:
        return
    with doc.retokenize() as retokenizer:
        for at, places in cuts.items():
            word = doc[at].text
            parts = [word[a:b] for a, b in zip([0, *places], [*places, len(word)])]
            retokenizer.split(doc[at], parts, heads=[(doc[at], 0)] * len(parts))
