"""Find documents that are in two corpora or two splits. If one is trained on and the other measured, the figures are too good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from spacy_sapbert.kb.concept import normalise

from .corpus import MADE_UP, Corpus

NAMED = 20  # number of ids that a report names; all are counted
PIECE = 80  # letters: a text of at least this length is also found within another text, such as an abstract within title and abstract

Place = tuple[str, str]  # corpus, document


class Shared(NamedTuple):
    """Documents that two corpora share.

    Attributes:
        left: Name of one corpus.
        right: Name of the other.
        by_id: Documents with the same id in both.
        by_text: (left id, right id) of documents with the same text.
    """

    left: str
    right: str
    by_id: tuple[str, ...]
    by_text: tuple[tuple[str, str], ...]

    @property
    def documents(self) -> tuple[str, ...]:
        """Ids in `left` of all documents that are shared by id or by text."""
        return self.documents_of(self.left)

    def documents_of(self, name: str) -> tuple[str, ...]:
        """Return the ids that the shared documents have in one of the two corpora."""
        return tuple(dict.fromkeys([*self.by_id, *(ids[name == self.right] for ids in self.by_text)]))


def shared_documents(corpora: Mapping[str, Corpus]) -> list[Shared]:
    """Find the documents that two corpora share, for every pair of corpora. Pairs that share none are left out.

    Ids are compared as the corpora write them, with those of documents without a text, but without ids that a reader made up. Texts are equal if
    they differ only in case, spaces and punctuation, or if one of at least PIECE letters is within the other. It takes about 3 s for a million
    letters.

    Args:
        corpora: Name -> corpus or part.
    """
    ids = {name: _ids(corpus) for name, corpus in corpora.items()}
    same = _same_texts({(name, document): letters for name, corpus in corpora.items() for document, letters in _texts(corpus)})
    found = []
    for left, right in combinations(corpora, 2):
        by_id = tuple(document for document in ids[left] if document in ids[right])
        by_text = tuple((a, b) for a in corpora[left].documents for b in same.get((left, a), {}).get(right, ()))
        if by_id or by_text:
            found.append(Shared(left, right, by_id, by_text))
    return found


def sharing_report(shared: Sequence[Shared]) -> list[dict[str, Any]]:
    """Return the counts and the first NAMED ids for JSON, without any text."""
    return [
        {
            "corpora": [pair.left, pair.right],
            "documents": len(pair.documents),
            "by_id": len(pair.by_id),
            "by_text": len(pair.by_text),
            "ids": list(pair.documents[:NAMED]),
        }
        for pair in shared
    ]


def _ids(corpus: Corpus) -> dict[str, None]:
    every = [*corpus.documents, *(mention.document for mention in corpus.mentions)]
    return dict.fromkeys(document for document in every if document and not document.startswith(MADE_UP))


def _texts(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """Yield documents and the letters and digits of their texts; a text without any is left out."""
    for document, text in corpus.documents.items():
        if letters := "".join(filter(str.isalnum, normalise(text))):
            yield document, letters


def _same_texts(texts: Mapping[Place, str]) -> dict[Place, dict[str, list[str]]]:
    """Return place of each text -> other corpus -> its documents with the same text."""
    pieces: dict[str, list[Place]] = {}  # the middle of each text, or a short text whole, which is searched in every other text
    for place, letters in texts.items():
        pieces.setdefault(_middle(letters), []).append(place)
    pairs: set[tuple[Place, Place]] = set()
    for place, letters in texts.items():
        windows = {letters[i : i + PIECE] for i in range(max(1, len(letters) - PIECE + 1))}
        for window in windows & pieces.keys():
            pairs.update((place, other) for other in pieces[window] if other[0] != place[0] and texts[other] in letters)
    found: dict[Place, dict[str, list[str]]] = {}
    for a, b in sorted({*pairs, *((b, a) for a, b in pairs)}):
        found.setdefault(a, {}).setdefault(b[0], []).append(b[1])
    return found


def _middle(letters: str) -> str:
    start = max(0, (len(letters) - PIECE) // 2)
    return letters[start : start + PIECE]
