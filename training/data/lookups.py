"""Prepare mentions for lookup in a dictionary by the protocol of BioSyn: lower case, no punctuation, composites split into their parts.

Source: Sung et al., ACL 2020, section 4.1, and its released preprocessing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import NamedTuple

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import NIL
from ..corpora.composites import looked_up
from .mentions import Annotated

_BETWEEN = re.compile(rf"[\s{re.escape(string.punctuation)}]+")


class Names(NamedTuple):
    """The distinct names of a dictionary.

    Attributes:
        texts: (n,) names.
        concepts: (n,) the concepts of each name.
    """

    texts: list[str]
    concepts: list[frozenset[int]]


class Lookups(NamedTuple):
    """The texts that are looked up, with their gold.

    Attributes:
        texts: (q,) mentions, or parts of composite ones.
        gold: (q,) concepts, any of which is right.
        mentions: (q,) the mention of each, from 0, ascending. All parts of a mention must be right.
    """

    texts: list[str]
    gold: list[frozenset[int]]
    mentions: list[int]


class Concepts:
    """The concepts that ids stand for, as numbers. An id that the knowledge base does not have gets a number of its own.

    Args:
        kb: The knowledge base.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        self._others: dict[str, int] = {}

    def of(self, concept_id: str) -> frozenset[int]:
        """Return the concepts of an id or code."""
        return frozenset(self.kb.rows_of(concept_id)) or frozenset([self._others.setdefault(concept_id, len(self.kb) + len(self._others))])


def plain(text: str) -> str:
    """Return a text in lower case, with a space for all punctuation and spaces."""
    return _BETWEEN.sub(" ", text.lower()).strip()


def names_of(kb: KnowledgeBase) -> Names:
    """Return the names of a knowledge base. Names that differ only in punctuation are joined; the joined name has the concepts of all."""
    forms = list(kb.surface_forms())
    return _joined((forms[form], [concept]) for form, concept in zip(kb.name_table.surface_form.tolist(), kb.name_table.concept.tolist()))


def with_mentions(names: Names, mentions: Iterable[Annotated], concepts: Concepts) -> Names:
    """Add mentions as names to a dictionary. A mention is a name of all its ids; a mention that is already a name adds its ids to that name.

    Args:
        names: The names of a dictionary.
        mentions: Mentions of earlier parts of the corpus.
        concepts: Numbers of their ids.
    """
    known = zip(*names)
    added = ((text, [number for i in _ids(gold) for number in concepts.of(i)]) for text, gold in mentions)
    return _joined([*known, *((text, numbers) for text, numbers in added if numbers)])


def lookups(mentions: Iterable[Annotated], concepts: Concepts) -> Lookups:
    """Return the lookups of mentions. Mentions without an id, or with a part without letters and digits, are left out.

    Args:
        mentions: Texts with their alternatives of ids; abbreviations are resolved already.
        concepts: Numbers of their ids.
    """
    found = Lookups([], [], [])
    for text, gold in mentions:
        parts, ids = looked_up(concepts.kb.encoded_form(text).lower(), [[i for i in ids if i != NIL] for ids in gold])
        right = frozenset(number for i in ids for number in concepts.of(i))
        texts = [plain(part) for part in parts]
        if right and all(texts):
            mention = found.mentions[-1] + 1 if found.mentions else 0
            for one in texts:
                found.texts.append(one)
                found.gold.append(right)
                found.mentions.append(mention)
    return found


def to_learn(mentions: Iterable[Annotated], concepts: Concepts) -> Lookups:
    """Return the lookups to train on: those of mentions with a single id. The same text with the same gold is kept once."""
    found = lookups([(text, gold) for text, gold in mentions if len(_ids(gold)) == 1], concepts)
    distinct = list(dict.fromkeys(zip(found.texts, found.gold)))
    return Lookups([text for text, _ in distinct], [gold for _, gold in distinct], list(range(len(distinct))))


def _ids(gold: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(i for alternative in gold for i in alternative if i != NIL))


def _joined(pairs: Iterable[tuple[str, Iterable[int]]]) -> Names:
    found: dict[str, set[int]] = {}
    for text, concepts in pairs:
        if name := plain(text):
            found.setdefault(name, set()).update(concepts)
    return Names(list(found), [frozenset(concepts) for concepts in found.values()])
