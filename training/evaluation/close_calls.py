"""Write the mentions that a cross-encoder learns from: `python -m training close-calls --fit ncbi-train,bc5cdr-train --test ncbi-dev,bc5cdr-dev`.

The default encoder and the static encoder search each corpus's own dictionary exactly. Gold mentions that are names of the dictionary are left out. Names
of the dictionaries are mentions too: the name itself is then left out of the search, so that the concept is found by its other names.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy

from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.files import write_text
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.ranking.pairs import NAMES_READ
from spacy_sapbert.ranking.rerank import static_encoder
from spacy_sapbert.search import CandidateSearch
from spacy_sapbert.types import Floats2d

from ..data.augment import Augment
from ..tasks.cross_encoder import Call
from .benchmarks import BenchmarkReader
from .parts import check_fit_and_test, known_gold, read_apart
from .reranker import make_search

FOUND = 30  # names that each encoder finds
MOST = 10  # candidates of a mention
CHUNK = 128  # mentions that are searched at once
LENGTHS = range(4, 61)  # characters of a name that becomes a mention
TRAIN, DEV = "train.jsonl", "dev.jsonl"


class Dictionary(NamedTuple):
    """A dictionary with the vectors of its names.

    Attributes:
        search: An exact search over the default encoder's vectors.
        names: (n,) normalised names.
        vectors: The vectors (n, d) of each encoder: the default one, and the static one.
        concepts: (n,) the concepts of each name.
        rows: The names of each concept.
    """

    search: CandidateSearch
    names: list[str]
    vectors: tuple[Floats2d, Floats2d]
    concepts: list[list[int]]
    rows: list[list[int]]


def open_dictionary(kb: KnowledgeBase, encoder: NameEncoder, *, progress: bool = False) -> Dictionary:
    """Encode the names of a dictionary with both encoders."""
    names, table = list(kb.surface_forms()), kb.name_table
    search = make_search(kb, encoder, progress=progress)
    concepts: list[list[int]] = [[] for _ in names]
    rows: list[list[int]] = [[] for _ in range(len(kb))]
    for name, concept in zip(table.surface_form.tolist(), table.concept.tolist()):
        concepts[name].append(concept)
        rows[concept].append(name)
    vectors = search.bundle.index.vectors(np.arange(len(names)))
    return Dictionary(search, names, (vectors, static_encoder().encode(names)), concepts, rows)


def calls(dictionary: Dictionary, mentions: Sequence[str], gold: Sequence[Sequence[int]], without: Sequence[int | None]) -> list[Call]:
    """Search mentions in a dictionary.

    Args:
        dictionary: The dictionary.
        mentions: (q,) normalised mentions.
        gold: (q,) concepts that are right.
        without: (q,) a name that is left out of the search, or None.

    Returns:
        The mentions with at most MOST candidates, the highest sum of both cosines first.
    """
    encoders = dictionary.search.bundle.encoder, static_encoder()
    made = []
    for start in range(0, len(mentions), CHUNK):
        chunk = list(mentions[start : start + CHUNK])
        cosines = [vectors @ encoder.encode(chunk).T for vectors, encoder in zip(dictionary.vectors, encoders)]  # (n, chunk) each
        for at, mention in enumerate(chunk):
            one = [each[:, at].copy() for each in cosines]
            candidates = _candidates(dictionary, one, gold[start + at], without[start + at])
            if candidates:
                made.append(Call(mention, *(list(each) for each in zip(*candidates))))
    return made


def _candidates(dictionary: Dictionary, cosines: Sequence[Any], gold: Sequence[int], own: int | None) -> list[tuple[list[str], list[float], bool]]:
    """Return names, scores and rightness of the candidates of one mention, the best first.

    Args:
        dictionary: The dictionary.
        cosines: (n,) of the names, for each encoder; that of the name that is left out is changed.
        gold: Concepts that are right.
        own: The name that is left out, or None.
    """
    found: dict[int, None] = {}
    for each in cosines:
        if own is not None:
            each[own] = -1.0
        nearest = np.argpartition(-each, min(FOUND, len(each) - 1))[:FOUND]
        found.update((concept, None) for name in nearest.tolist() if name != own for concept in dictionary.concepts[name])
    candidates = []
    for concept in found:
        rows = np.array([row for row in dictionary.rows[concept] if row != own])
        first, second = (each[rows] for each in cosines)
        near = [dictionary.names[row] for row in rows[np.argsort(-first, kind="stable")[:NAMES_READ]].tolist()]
        canonical = normalise(dictionary.search.bundle.kb.names_of(concept)[0].text)
        names = near if own is not None and canonical == dictionary.names[own] else [canonical, *near]
        candidates.append((list(dict.fromkeys(names))[:NAMES_READ], [float(first.max()), float(second.max())], concept in gold))
    return sorted(candidates, key=lambda candidate: -sum(candidate[1]))[:MOST]


def names_as_mentions(dictionary: Dictionary, count: int, chance: random.Random, augment: Augment) -> list[Call]:
    """Draw names of concepts that have other names too, change some as notes would, and search them without themselves."""
    pool = [
        row
        for row, name in enumerate(dictionary.names)
        if len(name) in LENGTHS and any(len(dictionary.rows[c]) > 1 for c in dictionary.concepts[row])
    ]
    drawn = chance.sample(pool, min(count, len(pool)))
    mentions = [normalise(augment(dictionary.names[row], str(row))) for row in drawn]
    return calls(dictionary, mentions, [dictionary.concepts[row] for row in drawn], drawn)


def gold_calls(dictionary: Dictionary, corpus_queries: Sequence[tuple[str, object]], gold: Sequence[str]) -> list[Call]:
    """Return the gold mentions that are no name of the dictionary. Mentions with equal text and gold are one."""
    search = dictionary.search
    wanted: dict[tuple[str, tuple[int, ...]], None] = {}
    for (text, _), kb_id in zip(corpus_queries, gold):
        rows = tuple(row for alternative in kb_id.split("|") for row in search.bundle.kb.rows_of(alternative.strip()))
        if rows:
            wanted[search.normal(text), rows] = None
    exact = search.exact_matches([mention for mention, _ in wanted])
    kept = [(mention, rows) for mention, rows in wanted if mention not in exact]
    return calls(dictionary, [mention for mention, _ in kept], [rows for _, rows in kept], [None] * len(kept))


def write_close_calls(
    fit: Sequence[str],
    test: Sequence[str],
    reader: BenchmarkReader,
    out: Path,
    *,
    names: int = 3_000,
    repeat: int = 2,
    seed: int = 0,
    progress: bool = False,
) -> dict[str, int]:
    """Write the files `train.jsonl` and `dev.jsonl`.

    Args:
        fit: Parts of corpora to train on.
        test: Parts to measure on.
        reader: Reads the corpora and their dictionaries.
        out: Folder to write into.
        names: Number of names of each dictionary that become mentions.
        repeat: How often each gold mention is in `train.jsonl`: the names are many, and written in another way.
        seed: Decides which names are drawn, and how they are changed.
        progress: Show progress bars.

    Returns:
        Part or dictionary -> number of mentions.

    Raises:
        SapbertError: E519 (a part is in both), E540, E542, E548 (no part to train on).
    """
    from ..data.augment import augment

    check_fit_and_test(fit, test, "--fit", "a cross-encoder is trained on annotated mentions; give parts of corpora")
    nlp, encoder = spacy.blank("en"), NameEncoder().initialize()
    dictionaries: dict[str, Dictionary] = {}
    found: dict[str, list[Call]] = {}
    for name, corpus in read_apart(reader, [*fit, *test]).items():
        of = reader.dictionary_of(name)
        if of not in dictionaries:
            dictionaries[of] = open_dictionary(reader.knowledge_base(name), encoder, progress=progress)
        found[name] = gold_calls(dictionaries[of], *known_gold(corpus, nlp, dictionaries[of].search))
    chance = random.Random(seed)
    fitted = {reader.dictionary_of(name) for name in fit}
    drawn = {of: names_as_mentions(dictionaries[of], names, chance, augment(share=0.5, spelling=0.2, modifiers=0.1)) for of in sorted(fitted)}
    train = [call for name in fit for call in found[name]] * repeat + [call for each in drawn.values() for call in each]
    out.mkdir(parents=True, exist_ok=True)
    for file, each in ((TRAIN, train), (DEV, [call for name in test for call in found[name]])):
        write_text(out / file, "".join(json.dumps(call._asdict(), ensure_ascii=False) + "\n" for call in each))
    return {**{name: len(each) for name, each in found.items()}, **{f"names of {of}": len(each) for of, each in drawn.items()}}
