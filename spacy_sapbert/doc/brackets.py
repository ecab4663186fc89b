"""Keep scispaCy's abbreviation detector from needing the square of the number of open brackets in a text."""

from __future__ import annotations

from typing import Any

from spacy.matcher import Matcher
from spacy.tokens import Doc

MOST_BRACKETS = 1000  # open brackets in a text; a text with more is no prose


class FewBrackets:
    """A matcher that finds nothing in a Doc with very many open brackets, and otherwise what another matcher finds.

    scispaCy's pattern is "an open bracket, any tokens, a closed one", so each open bracket is compared with all tokens behind it: ten thousand of
    them take minutes.

    Args:
        matcher: the other matcher.
    """

    def __init__(self, matcher: Any) -> None:
        self.matcher = matcher

    def __call__(self, doc: Doc) -> Any:
        """Return the matches in a Doc."""
        return [] if sum(token.text == "(" for token in doc) > MOST_BRACKETS else self.matcher(doc)


def bound_detector(detector: Any) -> None:
    """Let a scispaCy `AbbreviationDetector` leave out texts with more than `MOST_BRACKETS` open brackets. A component without a matcher is kept as it is."""
    if isinstance(getattr(detector, "matcher", None), Matcher):
        detector.matcher = FewBrackets(detector.matcher)
