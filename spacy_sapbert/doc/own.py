"""Make a Doc from a text and the spans that a user gives, with tokens that fit these spans exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

OWN = "own_mentions"  # span group with the spans that a user gives


class Place(NamedTuple):
    """A span that a user gives.

    Attributes:
        start: first character.
        end: character after the last one.
        label: its label, "" for none.
    """

    start: int
    end: int
    label: str = ""


def with_spans(nlp: Language, text: str, places: Sequence[Place]) -> Doc:
    """Return a Doc whose span group `OWN` holds the given spans. Tokens are split where a span begins or ends, so that every span fits exactly.

    Args:
        nlp: pipeline whose tokenizer is used.
        text: the text.
        places: the spans. They may overlap, but must not begin or end with white space, see `trimmed`.
    """
    plain = nlp.make_doc(text)
    cuts = {edge for place in places for edge in (place.start, place.end)}
    words: list[str] = []
    spaces: list[bool] = []
    for token in plain:
        start, end = token.idx, token.idx + len(token)
        edges = [start, *sorted(cut for cut in cuts if start < cut < end), end]
        words += [text[a:b] for a, b in pairwise(edges)]
        spaces += [False] * (len(edges) - 2) + [bool(token.whitespace_)]
    doc = Doc(plain.vocab, words=words, spaces=spaces)
    first = {token.idx: token.i for token in doc}
    last = {token.idx + len(token): token.i for token in doc}
    doc.spans[OWN] = [Span(doc, first[place.start], last[place.end] + 1, label=place.label) for place in dict.fromkeys(places)]
    return doc


def trimmed(text: str, place: Place) -> Place:
    """Return a span without the white space at its ends, because white space is in no token."""
    inside = text[place.start : place.end]
    start = place.start + len(inside) - len(inside.lstrip())
    return place._replace(start=start, end=max(start, place.end - (len(inside) - len(inside.rstrip()))))
