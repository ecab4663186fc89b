"""Measure systems on benchmarks: outcomes of mentions, or similarities of pairs. Systems are encoders with exact search, and baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
from tqdm import tqdm

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.types import Floats2d

from ..errors import fail
from ..loop.retrieval import Scorer, best_scores
from . import baselines as baselines_module
from .benchmarks import (
    SENTENCE_TOKENS,
    Benchmark,
    ConceptBenchmark,
    SimilarityBenchmark,
)
from .breakdown import SHARE, WrongFirst
from .metrics import (
    Boundary,
    Floats1d,
    Ranks,
    Rule,
    alternatives_of,
    boundary,
    expected,
    lenient,
    ranks,
    reciprocal_rank,
    strict,
)

DEPTHS = (1, 5)
RULES: dict[str, Rule] = {"strict": strict, "lenient": lenient}


class Outcomes(NamedTuple):
    """Outcomes of a system for the m mentions of a benchmark.

    Attributes:
        values: "strict_at1", "strict_at5", "strict_mrr", "lenient_…" -> (m,) the probability of being right at that depth, or the expected value
            of 1 / rank.
        firsts: The wrong first candidate of each mention by the benchmark's own rule; see `breakdown.confusions`.
    """

    values: dict[str, Floats1d]
    firsts: list[WrongFirst | None]


Measured = Union[Outcomes, Floats1d]  # for mentions; for pairs of texts (pairs,) similarities


class Encoded(NamedTuple):
    """The vectors of all names and queries of some benchmarks.

    Attributes:
        rows: Text -> row of its vector.
        vectors: (texts, d), L2-normalised.
    """

    rows: dict[str, int]
    vectors: Floats2d

    def of(self, texts: Sequence[str]) -> Floats2d:
        """Return the vectors of some texts, (n, d)."""
        return self.vectors[[self.rows[text] for text in texts]]


def outcomes_of(benchmark: ConceptBenchmark, score: Scorer) -> Outcomes:
    """Rank the concepts for each mention by the best of their names, and compute the outcomes.

    Args:
        benchmark: The mentions and the dictionary.
        score: Similarity of names and queries; see `retrieval.best_scores`.
    """
    dictionary = benchmark.dictionary
    return outcomes_of_scores(benchmark, best_scores(score, len(benchmark.queries), dictionary.rows, dictionary.labels, dictionary.n_labels))


def outcomes_of_scores(benchmark: ConceptBenchmark, chunks: Iterable[tuple[int, Floats2d]]) -> Outcomes:
    """Rank the concepts for each mention and compute the outcomes. A mention of several queries is right if all of them are.

    Args:
        benchmark: The mentions and the dictionary.
        chunks: The first query of each chunk, and the scores of all concepts for the queries of the chunk (concepts, queries); -inf for a concept
            that was not found.
    """
    n = len(benchmark.queries)
    right = {f"{rule}_at{k}": np.zeros(n) for rule in RULES for k in DEPTHS}
    found: dict[str, list[Ranks | None]] = {rule: [None] * n for rule in RULES}
    firsts: list[WrongFirst | None] = [None] * n
    wanted = [{name: alternatives_of(gold, rule) for name, rule in RULES.items()} for gold in benchmark.golds]
    for start, best in chunks:
        for i, scores in enumerate(np.ascontiguousarray(best.T), start):  # (concepts,)
            for label, count in benchmark.seen.get(benchmark.queries[i], {}).items():
                scores[label] = 2.0 + count  # above every other score
            ends = {k: boundary(scores, k) for k in DEPTHS}
            done: dict[frozenset[frozenset[int]], tuple[Ranks | None, list[float]]] = {}  # usually all rules look for the same alternatives
            for rule, alternatives in wanted[i].items():
                key = frozenset(alternatives)
                if key not in done:
                    done[key] = ranks(scores, alternatives), [expected(alternatives, end) for end in ends.values()]
                found[rule][i], chances = done[key]
                for k, chance in zip(DEPTHS, chances):
                    right[f"{rule}_at{k}"][i] = chance
            if right[f"{benchmark.rule}_at1"][i] < 1.0 - SHARE:
                firsts[i] = _first(scores, ends[1], wanted[i][benchmark.rule], benchmark.queries[i])
    mentions = benchmark.mentions()
    values = {key: np.array([np.prod(each[mention.start : mention.stop]) for mention in mentions]) for key, each in right.items()}
    for rule, of in found.items():
        values[f"{rule}_mrr"] = np.array([reciprocal_rank(of[mention.start : mention.stop]) for mention in mentions])
    return Outcomes(values, [next((firsts[i] for i in mention if firsts[i]), None) for mention in mentions])


def _first(scores: Floats2d, end: Boundary, alternatives: Sequence[frozenset[int]], query: str) -> WrongFirst | None:
    """Return the wrong first candidate of a query; None if nothing was found or all first candidates are right.

    Args:
        scores: (concepts,) score of each concept.
        end: The end of the ranking of depth 1.
        alternatives: The right answers.
        query: The text that was looked up.
    """
    right = {row for alternative in alternatives if len(alternative) == 1 for row in alternative}
    at_top = np.flatnonzero(end.sure | end.tied).tolist()
    wrong = next((label for label in at_top if label not in right), None)
    if wrong is None:
        return None
    return WrongFirst(wrong, min(1.0, float(scores[wrong])), query, any(label in right for label in at_top))


def correlations(likeness: Floats1d, human: Sequence[float]) -> dict[str, float]:
    """Compute Spearman's rank and Pearson's linear correlation, times 100, with human scores.

    Args:
        likeness: (n,) similarities of the texts of each pair, by a system.
        human: (n,) similarities that people gave.
    """
    from scipy.stats import pearsonr, spearmanr

    return {"spearman": 100.0 * float(spearmanr(likeness, human).statistic), "pearson": 100.0 * float(pearsonr(likeness, human).statistic)}


def encode_benchmarks(model: Any, benchmarks: Sequence[Benchmark], *, progress: bool = False) -> Encoded:
    """Encode every distinct name and query of all benchmarks of mentions once.

    Args:
        model: The encoder.
        benchmarks: The benchmarks.
        progress: Show a progress bar.
    """
    rows: dict[str, int] = {}
    for benchmark in benchmarks:
        if isinstance(benchmark, ConceptBenchmark):
            for text in (*benchmark.dictionary.names, *benchmark.queries):
                rows.setdefault(text, len(rows))
    return Encoded(rows, model.encode(list(rows), progress=progress) if rows else np.zeros((0, 1), dtype=np.float32))


def measure_encoder(model: Any, benchmarks: Sequence[Benchmark], encoded: Encoded | None = None, *, progress: bool = False) -> dict[str, Measured]:
    """Measure an encoder on benchmarks.

    Args:
        model: The encoder.
        benchmarks: The benchmarks.
        encoded: The vectors of names and queries; None: they are encoded here.
        progress: Show progress bars.

    Returns:
        Benchmark -> outcomes of its mentions, or similarities of its pairs.
    """
    encoded = encode_benchmarks(model, benchmarks, progress=progress) if encoded is None else encoded
    found: dict[str, Measured] = {}
    of_concepts = [benchmark for benchmark in benchmarks if isinstance(benchmark, ConceptBenchmark)]
    for benchmark in tqdm(of_concepts, desc="searching", unit=" benchmarks", disable=not progress):
        names, queries = encoded.of(benchmark.dictionary.names), encoded.of(benchmark.queries)
        found[benchmark.name] = outcomes_of(benchmark, lambda start, stop, names=names, queries=queries: names @ queries[start:stop].T)  # type: ignore[misc]
    found.update(measure_similarity(model, [benchmark for benchmark in benchmarks if isinstance(benchmark, SimilarityBenchmark)]))
    return found


def measure_similarity(model: Any, benchmarks: Sequence[SimilarityBenchmark]) -> dict[str, Floats1d]:
    """Compute the cosine of each pair of texts.

    Args:
        model: The encoder.
        benchmarks: The benchmarks of pairs.

    Returns:
        Benchmark -> cosines (pairs,).

    Raises:
        SapbertError: E544, if all human scores are the same.
    """
    tokens = model.max_length
    model.max_length = max(tokens, SENTENCE_TOKENS)
    try:
        found = {}
        for benchmark in benchmarks:
            left, right = normalised_pairs(benchmark)
            both = model.encode([*left, *right])  # L2-normalised
            found[benchmark.name] = (both[: len(left)] * both[len(left) :]).sum(axis=1, dtype=np.float64)
        return found
    finally:
        model.max_length = tokens


def normalised_pairs(benchmark: SimilarityBenchmark) -> tuple[list[str], list[str]]:
    """Return the left and the right texts of all pairs, normalised.

    Raises:
        SapbertError: E544, if all human scores are the same.
    """
    if len({pair.score for pair in benchmark.pairs}) < 2:
        raise fail("E544", name=benchmark.name, why="all human scores are the same, so there is no correlation; take more pairs")
    return [normalise(pair.left) for pair in benchmark.pairs], [normalise(pair.right) for pair in benchmark.pairs]


def measure_baselines(benchmarks: Sequence[Benchmark]) -> tuple[dict[str, dict[str, Measured]], list[str]]:
    """Measure the baselines on benchmarks.

    Returns:
        System -> benchmark -> outcomes; and notes on what could not be measured, with the reason.

    Raises:
        SapbertError: E546, if a package is missing.
    """
    measured: dict[str, dict[str, Measured]] = {}
    notes: dict[str, list[str]] = {}  # reason -> benchmarks
    for system, make in baselines_module.all_baselines().items():
        for benchmark in benchmarks:
            if isinstance(benchmark, ConceptBenchmark):
                try:
                    measured.setdefault(system, {})[benchmark.name] = outcomes_of(benchmark, make(benchmark.dictionary.names, benchmark.queries))
                except SapbertError as error:
                    if error.code not in baselines_module.LEFT_OUT:
                        raise
                    notes.setdefault(str(error), []).append(benchmark.name)
            elif system in baselines_module.PAIRWISE:
                likeness = baselines_module.PAIRWISE[system](*normalised_pairs(benchmark))
                if np.ptp(likeness) > 0:
                    measured.setdefault(system, {})[benchmark.name] = likeness
                else:
                    notes.setdefault(f"{system} gives all pairs the same similarity, so there is no correlation.", []).append(benchmark.name)
    return {system: found for system, found in measured.items() if found}, [f"{', '.join(names)}: {why}" for why, names in notes.items()]
