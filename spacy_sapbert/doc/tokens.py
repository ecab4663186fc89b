"""Tokenize texts with very long words in linear time. spaCy's tokenizer needs seconds for a word of ten thousand brackets, and hours for a million."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from spacy.language import Language
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc

LONGEST_WORD = 500  # characters without white space; longer words are not split by spaCy's rules
_LONGER = re.compile(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}")
_PARTS = re.compile(r"\w+|\W")


class BoundedTokenizer(Tokenizer):  # type: ignore[misc]
    """spaCy's tokenizer, for which the time for a text grows with its length, not with the square of the length of its longest word.

    A word of more than `LONGEST_WORD` characters is split into runs of letters and digits, and single other characters. Other words are split by
    spaCy's rules.
    """

    def __call__(self, string: str) -> Doc:
        """Return the Doc of a text."""
        if _LONGER.search(string) is None:
            doc: Doc = super().__call__(string)
            return doc
        return Doc.from_docs(list(self._pieces(string)), ensure_whitespace=False)

    def _pieces(self, string: str) -> Iterator[Doc]:
        """Yield a Doc for each long word, and one for each stretch of text between them."""
        at = 0
        for found in _LONGER.finditer(string):
            if at < found.start():
                yield super().__call__(string[at : found.start()])
            words = _PARTS.findall(found[0])
            at = found.end()
            spaces = [False] * len(words)
            if string[at : at + 1] == " ":  # belongs to the token before it
                spaces[-1] = True
                at += 1
            yield Doc(self.vocab, words=words, spaces=spaces)
        if at < len(string):
            yield super().__call__(string[at:])


def bound_tokenizer(nlp: Language) -> None:
    """Replace spaCy's tokenizer of a pipeline by a `BoundedTokenizer` with the same rules. A tokenizer of another kind is kept."""
    old: Any = nlp.tokenizer
    if type(old) is Tokenizer:
        rules = (old.rules, old.prefix_search, old.suffix_search, old.infix_finditer, old.token_match, old.url_match)
        nlp.tokenizer = BoundedTokenizer(nlp.vocab, *rules, faster_heuristics=old.faster_heuristics)
