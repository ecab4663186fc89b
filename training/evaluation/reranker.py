"""Train the reranker, which compares the candidates of close calls again: `python -m training reranker --fit ncbi-train,bc5cdr-train,gsc-dev,biomap`.

The default encoder searches each corpus's own dictionary exactly. To measure the reranker on a corpus, it is trained only on corpora with another
dictionary. The reranker is written into the package, the figures into metrics/reranker.json.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy

from spacy_sapbert.candidates import DECIMALS
from spacy_sapbert.encoders.base import Encoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.files import write_text
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.ranking.fit import Example, fit_weights
from spacy_sapbert.ranking.pairs import CrossEncoder, cross_encoder, open_cross_encoder
from spacy_sapbert.ranking.rerank import (
    COMPARED,
    DEPTH,
    READ,
    SHIPPED_CROSS_RERANKER,
    SHIPPED_CROSS_RERANKER_FAST,
    SHIPPED_RERANKER,
    Reranker,
    is_close,
)
from spacy_sapbert.search import CandidateSearch, Query, make_comparer
from spacy_sapbert.settings import CONTEXT, CROSS_ENCODER, NAMES, READING, Settings

from ..corpora import GOLD
from ..errors import fail
from ..loop.encoders import check_encoder
from ..tasks.cross_encoder import SCALE, SCORE_WEIGHTS
from .benchmarks import BenchmarkReader
from .evaluate import header
from .parts import check_fit_and_test, known_gold, read_apart
from .stages import exact_linker

FORMAT = 1
MARGIN = 0.08  # with 0.15, 88% of the mentions are reranked instead of 66%, for one more right mention of 2,990; see docs/figures/reranking.md
MARGINS = (0.02, 0.05, 0.08, 0.15, 2.0)  # 2.0 is every mention
PROTOCOL = (
    "Gold mentions whose text is not a name of the dictionary, each text with the same gold counted once; abbreviations resolved as the linker does; "
    "exact search by the default encoder over the corpus's own dictionary. Per cent of these mentions whose gold concept is first; mentions whose "
    "concept was not found count as wrong, those whose concept the dictionary does not have are left out. Each corpus was measured with weights that "
    "were trained on the corpora of the other dictionaries; documents that are in two corpora count only in the first one. p: exact McNemar test."
)


CROSS_PROTOCOL = (
    "Gold mentions whose text is not a name of the dictionary, each text with the same gold counted once; abbreviations resolved as the linker does; "
    "exact search over the corpus's own dictionary. Per cent of these mentions whose gold concept is first; mentions whose concept was not found count as "
    "wrong, those whose concept the dictionary does not have are left out. The cross-encoder was not trained on these parts, but on other parts of the same "
    "corpora; the weights are those of its training. p: exact McNemar test."
)


class Part(NamedTuple):
    """The annotated mentions of a part of a corpus.

    Attributes:
        dictionary: name of its dictionary.
        examples: the mentions that are no exact match, with the values by which their candidates are reranked.
        queries: the mentions.
        gold: their gold ids.
        search: the search over its dictionary.
    """

    dictionary: str
    examples: list[Example]
    queries: list[Query]
    gold: list[str]
    search: CandidateSearch


class Change(NamedTuple):
    """What reranking changes.

    Attributes:
        close: how many mentions are close calls, which are reranked.
        before: how many have a right first candidate before it.
        won: how many have one only after it.
        lost: how many have one only before it.
    """

    close: int
    before: int
    won: int
    lost: int

    @property
    def after(self) -> int:
        """How many mentions have a right first candidate after it."""
        return self.before + self.won - self.lost


def first_after(example: Example, weights: Sequence[float]) -> int:
    """Return which candidate is first after the first DEPTH were reranked. Equal ones keep the order of the scores."""
    return int(np.argmax(np.round(example.values[:DEPTH] @ np.array(weights), DECIMALS)))


def changes(examples: Sequence[Example], weights: Sequence[float], margin: float) -> Change:
    """Count what reranking changes.

    Args:
        examples: mentions with their candidates, best score first.
        weights: of the score, which is 1, and of each of COMPARED.
        margin: what a close call is.
    """
    calls = before = won = lost = 0
    for example in examples:
        if not len(example.right):
            continue
        close, was = is_close(example.values[:, 0], margin), bool(example.right[0])
        now = bool(example.right[first_after(example, weights)]) if close else was
        calls, before, won, lost = calls + close, before + was, won + (now and not was), lost + (was and not now)
    return Change(calls, before, won, lost)


def p_value(won: int, lost: int) -> float:
    """Return the p-value of an exact McNemar test: how probable so uneven a split is if wins and losses are equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def make_search(
    kb: KnowledgeBase, encoder: Encoder, *, rerank: str | None = None, reads: Callable[[], CrossEncoder] = cross_encoder, progress: bool = False
) -> CandidateSearch:
    """Return an exact search over the names of a knowledge base, with the ranker of the package for the encoder; without it if `rerank` is "names".

    Args:
        kb: The knowledge base.
        encoder: The encoder.
        rerank: What its examples for reranking hold; the search itself does not rerank.
        reads: Returns the cross-encoder.
        progress: Show a progress bar.
    """
    vectors = encoder.encode(list(kb.surface_forms()), progress=progress)
    bundle = exact_linker(kb, encoder, vectors, ranked=rerank != NAMES)
    settings = Settings(spans_key=GOLD, language="en", rerank=CONTEXT if rerank == CONTEXT else None)  # so that it keeps the text around mentions
    search = CandidateSearch(bundle, settings, comparer=make_comparer(kb, rerank, reads=reads))
    search.reranker = None
    return search


def read_parts(
    names: Sequence[str],
    reader: BenchmarkReader,
    *,
    rerank: str = NAMES,
    fast: bool = False,
    reads: Callable[[], CrossEncoder] = cross_encoder,
    progress: bool = False,
) -> dict[str, Part]:
    """Read parts of corpora, and search their mentions in their dictionaries. Each dictionary is encoded once.

    Args:
        names: The parts.
        reader: Reads the corpora and their dictionaries.
        rerank: "names", "cross_encoder" or "context".
        fast: Search with the fast encoder and its ranker, instead of the default encoder.
        reads: Returns the cross-encoder.
        progress: Show progress bars.
    """
    nlp, encoder = spacy.blank("en"), (StaticEncoder() if fast else NameEncoder()).initialize()
    searches: dict[str, CandidateSearch] = {}
    parts = {}
    for name, corpus in read_apart(reader, names).items():
        dictionary = reader.dictionary_of(name)
        if dictionary not in searches:
            searches[dictionary] = make_search(reader.knowledge_base(name), encoder, rerank=rerank, reads=reads, progress=progress)
        search = searches[dictionary]
        queries, gold = known_gold(corpus, nlp, search, around=rerank == CONTEXT)
        parts[name] = Part(dictionary, search.reranking_examples(queries, gold), queries, gold, search)
    return parts


def others(parts: Mapping[str, Part], fit: Sequence[str], name: str) -> list[list[Example]]:
    """Return the examples of the parts to train on that have another dictionary than a part."""
    return [_cut(parts[other].examples) for other in fit if parts[other].dictionary != parts[name].dictionary]


def _cut(examples: Sequence[Example]) -> list[Example]:
    """Return examples with only the candidates that are reranked."""
    return [Example(example.values[:DEPTH], example.right[:DEPTH]) for example in examples]


def whole(
    parts: Mapping[str, Part], reranker: Reranker, reads: Callable[[], CrossEncoder] = cross_encoder
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Search all mentions of the parts, each occurrence, also exact matches, without and with reranking.

    Args:
        parts: The parts.
        reranker: The reranker.
        reads: Returns the cross-encoder that the searches of the parts use.

    Returns:
        The time of encoding and searching with reranking, relative to the time without; the vectors of concepts are cached. And for each part the per
        cent of its mentions whose first candidate is right, without and with reranking.
    """
    seconds = []
    right: dict[str, list[float]] = {name: [] for name in parts}
    if reranker.features == READ:
        reads().forget()  # it has read these pairs before
    for used in (None, reranker):
        start = time.perf_counter()
        for name, part in parts.items():
            part.search.reranker = used
            seen = part.search.observe(part.queries, part.gold)
            right[name].append(100.0 * float(np.mean([each.right for each in seen])) if seen else 0.0)
        seconds.append(time.perf_counter() - start)
    return seconds[1] / seconds[0], {name: (before, after) for name, (before, after) in right.items()}


def train_reranker(fit: Sequence[str], test: Sequence[str], reader: BenchmarkReader, *, progress: bool = False) -> tuple[Reranker, dict[str, Any]]:
    """Train a reranker on parts of corpora, and measure it on each corpus after training on the corpora of other dictionaries.

    Args:
        fit: Parts to train on.
        test: Parts to measure on.
        reader: Reads the corpora and their dictionaries.
        progress: Show progress bars.

    Returns:
        The reranker and the figures.

    Raises:
        SapbertError: E047 (too few mentions), E519 (a part is in both), E540, E542, E548 (no part to train on).
    """
    check_fit_and_test(fit, test, "--fit", "a reranker is trained on annotated mentions; give parts of corpora")
    return fitted(read_parts([*fit, *test], reader, progress=progress), fit)


def fitted(parts: Mapping[str, Part], fit: Sequence[str]) -> tuple[Reranker, dict[str, Any]]:
    """Train a reranker on some of the parts, and measure it on all of them.

    Args:
        parts: The annotated mentions of each part.
        fit: Parts to train on.

    Returns:
        The reranker and the figures.

    Raises:
        SapbertError: E047 (too few mentions).
    """
    weights = {name: fit_weights(others(parts, fit, name)) for name in parts}
    all_weights = fit_weights([_cut(parts[name].examples) for name in fit])
    words = f"gold mentions of {', '.join(fit)}"
    made = Reranker(all_weights[1:], MARGIN, words)
    rows = {name: _row(part.examples, changes(part.examples, weights[name], MARGIN)) for name, part in parts.items()}
    ratio, every = whole(parts, made)
    found = {
        **header("reranker", FORMAT, PROTOCOL),
        "fit_on": words,
        "corpora": rows,
        "margins": _by_margin(parts, weights),
        "weights": dict(zip(("score", *COMPARED), all_weights)),
        "all_mentions": {name: {"n": len(parts[name].queries), "before": before, "after": after} for name, (before, after) in every.items()},
        "time": ratio,
    }
    return made, found


def train_reranker_of_cross_encoder(
    test: Sequence[str],
    reader: BenchmarkReader,
    *,
    rerank: str = CROSS_ENCODER,
    fast: bool = False,
    folder: Path | None = None,
    progress: bool = False,
) -> tuple[Reranker, dict[str, Any]]:
    """Make the reranker of the cross-encoder, and measure it.

    Its weights are the factors with which the cross-encoder was trained, so they are not fitted to any corpus. If the search's score has the cosines of both
    encoders, because of its ranker, or only that of the fast encoder, the score has both factors.

    Args:
        test: Parts to measure on. The cross-encoder must not have been trained on them.
        reader: Reads the corpora and their dictionaries.
        rerank: "cross_encoder", or "context".
        fast: For linkers with the fast encoder, instead of the default encoder.
        folder: Folder of the cross-encoder; None: the one of the package.
        progress: Show progress bars.

    Returns:
        The reranker and the figures.

    Raises:
        SapbertError: E540, E541 (no cross-encoder in the folder), E542, E548 (no part to measure on).
    """
    check_fit_and_test([], test, "--test", "a cross-encoder is measured on annotated mentions; give parts of corpora")
    reads: Callable[[], CrossEncoder] = cross_encoder
    if folder is not None:
        check_encoder(folder)
        reads = cache(partial(open_cross_encoder, folder))
    parts = read_parts(test, reader, rerank=rerank, fast=fast, reads=reads, progress=progress)
    ranker = next(iter(parts.values())).search.ranker
    compared = fast or (ranker is not None and ranker.has_both_cosines)
    score, static = (sum(SCORE_WEIGHTS), 0.0) if compared else SCORE_WEIGHTS
    weights = (static / score, 0.0, SCALE / score)
    made = Reranker(weights, MARGIN, "the factors of the training of the cross-encoder")
    rows = {name: _row(part.examples, changes(part.examples, (1.0, *weights), MARGIN)) for name, part in parts.items()}
    ratio, every = whole(parts, made, reads)
    found = {
        **header("reranker", FORMAT, CROSS_PROTOCOL),
        "encoder": "fast" if fast else "default",
        "rerank": rerank,
        "corpora": rows,
        "margins": _by_margin(parts, dict.fromkeys(parts, (1.0, *weights))),
        "weights": dict(zip(("score", *READ), (1.0, *weights))),
        "all_mentions": {name: {"n": len(parts[name].queries), "before": before, "after": after} for name, (before, after) in every.items()},
        "time": ratio,
    }
    return made, found


def _by_margin(parts: Mapping[str, Part], weights: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return what reranking changes on all parts together, by the margin that counts as close."""
    margins = {}
    for margin in MARGINS:
        each = [changes(part.examples, weights[name], margin) for name, part in parts.items()]
        total = Change(*(sum(values) for values in zip(*each)))
        margins[str(margin)] = _row([example for part in parts.values() for example in part.examples], total)
    return margins


def _row(examples: Sequence[Example], change: Change) -> dict[str, float]:
    n = len(examples)
    return {
        "n": n,
        "close": 100.0 * change.close / n if n else 0.0,
        "before": 100.0 * change.before / n if n else 0.0,
        "after": 100.0 * change.after / n if n else 0.0,
        "won": change.won,
        "lost": change.lost,
        "p": p_value(change.won, change.lost),
    }


def train_and_write(
    fit: Sequence[str],
    test: Sequence[str],
    data: Path,
    work: Path,
    out: Path | None = None,
    *,
    rerank: str = NAMES,
    fast: bool = False,
    folder: Path | None = None,
    reranker: Path | None = None,
    progress: bool = False,
) -> str:
    """Train a reranker, and write it and its figures.

    Args:
        fit: Parts of corpora to train on; not used for the cross-encoder.
        test: Parts of corpora to measure on.
        data: Folder of corpora and dictionaries.
        work: Folder in which dictionaries are built.
        out: JSON file for the figures; None: one of its own in metrics/ for each kind of reranker.
        rerank: "names", "cross_encoder" or "context"; the last two have the same reranker.
        fast: Search with the fast encoder, instead of the default encoder. The reranker is written to the file for scores that have the cosine of the fast
            encoder; also without `fast`, if the ranker of the default encoder uses it.
        folder: Folder of the cross-encoder; None: the one of the package. Then `reranker` must name a file, too.
        reranker: File for the reranker; None: the one of the package.
        progress: Show progress bars.

    Returns:
        A table for the terminal.

    Raises:
        SapbertError: E541 (no cross-encoder in the folder), E548 (a wrong value of `rerank`, or "names" with the fast encoder or a folder, or a folder
            without `reranker`); see `train_reranker`.
    """
    if rerank not in (NAMES, *READING) or (fast and rerank == NAMES):
        why = f"with --fast, it must be {CROSS_ENCODER} or {CONTEXT}" if fast else f"it must be {NAMES}, {CROSS_ENCODER} or {CONTEXT}"
        raise fail("E548", setting="--rerank", value=rerank, why=why)
    if folder is not None and rerank == NAMES:
        raise fail("E548", setting="--cross-encoder", value=folder, why=f"with --rerank {NAMES}, no cross-encoder is measured; give another --rerank")
    if folder is not None and reranker is None:
        raise fail(
            "E548", setting="--reranker", value="", why="with --cross-encoder, give a file, so that the reranker of the package stays as it is"
        )
    nowhere = Path("no-such-folder")
    reader = BenchmarkReader(data, nowhere, nowhere, work, progress=progress)
    if rerank in READING:
        made, found = train_reranker_of_cross_encoder(test, reader, rerank=rerank, fast=fast, folder=folder, progress=progress)
        both = made.weights[0] == 0.0  # the score has both cosines
        shipped, by = SHIPPED_CROSS_RERANKER_FAST if both else SHIPPED_CROSS_RERANKER, "by the cross-encoder"
        stem = "-".join(["cross-encoder", *(["context"] if rerank == CONTEXT else []), *(["fast"] if fast else [])])
        figures = Path("metrics") / f"{stem}.json"
    else:
        made, found = train_reranker(fit, test, reader, progress=progress)
        shipped, by = SHIPPED_RERANKER, "by a reranker trained on other dictionaries"
        figures = Path("metrics/reranker.json")
    write_text(shipped if reranker is None else reranker, made.to_json())
    write_text(figures if out is None else out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    lines = [f"corpus: mentions, close calls, right at 1 by score -> {by} (won, lost, p)"]
    for name, row in [*found["corpora"].items(), *((f"margin {margin}", row) for margin, row in found["margins"].items())]:
        lines.append(
            f"{name}: {row['n']:,}, {row['close']:.0f}%, {row['before']:.1f} -> {row['after']:.1f} ({row['won']}, {row['lost']}, {row['p']:.3f})"
        )
    lines += [f"{name}, all {row['n']:,} mentions: {row['before']:.1f} -> {row['after']:.1f}" for name, row in found["all_mentions"].items()]
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in found["weights"].items())
    return "\n".join([*lines, f"weights: {weights}", f"time with reranking: {found['time']:.2f} x"])
