"""Count the features around each meaning, and fit the weights of the signals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from spacy_sapbert.context.sense_model import COUNTED, SIGNALS, Meaning, SenseModel
from spacy_sapbert.types import Floats2d

from .contexts import Labelled
from .inventory import Sense, meanings_of_names, words

SMOOTHING = {"words": 300.0, "near": 400.0, "values": 20.0, "section": 10.0}
FEWEST = 3  # smallest number of occurrences of a feature in the vocabulary
PENALTY = 0.001  # factor of the squared distance of the weights from 0.3
COMMON = 4000  # tokens in a profile from which on rare features are removed
FIRST = dict.fromkeys(SIGNALS, 0.3) | {"frequency": 1.0, "case": 1.0}
PER_SENSE = 20  # greatest number of contexts of one meaning of one abbreviation, in fitting and in measuring


class Query(NamedTuple):
    """An abbreviation in a context, with its meanings and the right one.

    Attributes:
        abbreviation: The abbreviation, normalised.
        meanings: Its meanings.
        gold: Position of the right meaning.
        labelled: The context.
    """

    abbreviation: str
    meanings: list[Meaning]
    gold: int
    labelled: Labelled


@dataclass(frozen=True)
class Fitted:
    """Evidence of n queries, padded to s meanings.

    Attributes:
        evidence: (n, s, 8) evidence of each signal for each meaning.
        there: (n, s) which meanings exist.
        gold: (n,) position of the right meaning.
    """

    evidence: npt.NDArray[np.float32]
    there: npt.NDArray[np.bool_]
    gold: npt.NDArray[np.int64]


def count(inventory: Mapping[str, list[Sense]], contexts: Sequence[Labelled], times: Mapping[str, int], about: Mapping[str, Any]) -> SenseModel:
    """Return a model with the counts of some contexts and equal weights.

    Args:
        inventory: Abbreviation -> meanings.
        contexts: Contexts of any meanings.
        times: Meaning -> how often notes write it out.
        about: What the model is made from.
    """
    seen: dict[str, Counter[str]] = {signal: Counter() for signal in COUNTED}
    for labelled in contexts:
        for signal in COUNTED:
            seen[signal].update(labelled.context.features[signal])
    vocabulary = {signal: sorted(f for f, n in seen[signal].items() if n >= FEWEST) for signal in COUNTED}
    background, ids, first = [], {}, 0
    for signal in COUNTED:
        total = sum(seen[signal][f] for f in vocabulary[signal])
        background += [seen[signal][f] / total for f in vocabulary[signal]]
        ids[signal] = {f: first + i for i, f in enumerate(vocabulary[signal])}
        first += len(vocabulary[signal])
    meaning_of = meanings_of_names(inventory)
    names = sorted({labelled.name for labelled in contexts})
    row = {name: i for i, name in enumerate(names)}
    counters: list[Counter[int]] = [Counter() for _ in names]
    totals = np.zeros((len(names), len(COUNTED)), dtype=np.float32)
    for labelled in contexts:
        for column, signal in enumerate(COUNTED):
            known = [ids[signal][f] for f in labelled.context.features[signal] if f in ids[signal]]
            counters[row[labelled.name]].update(known)
            totals[row[labelled.name], column] += len(known)
    for counter, total in zip(counters, totals[:, 0]):
        if total > COMMON:  # features that occur once tell little in a large profile, and take most of the space
            for feature in [feature for feature, n in counter.items() if n == 1]:
                del counter[feature]
    bounds = np.cumsum([0, *(len(counter) for counter in counters)])
    flat = [pair for counter in counters for pair in sorted(counter.items())]
    meanings = [
        Meaning(short, sense.names[0], tuple(sense.cuis), sense.shares[""], tuple(sense.cases), row.get(meaning_of[words(sense.names[0])], -1))  # type: ignore[arg-type]
        for short, senses in sorted(inventory.items())
        for sense in senses
    ]
    return SenseModel(
        meanings,
        FIRST,
        SMOOTHING,
        vocabulary,
        np.array(background, dtype=np.float32),
        bounds.astype(np.int64),
        np.array([i for i, _ in flat], dtype=np.uint16),
        np.array([min(n, 65535) for _, n in flat], dtype=np.uint16),
        totals,
        np.array([times.get(name, 0) for name in names], dtype=np.float32),
        about,
    )


def queries(model: SenseModel, names: Mapping[str, str], contexts: Iterable[Labelled], *, written: bool | None = None) -> list[Query]:
    """Return queries of ambiguous abbreviations, at most `PER_SENSE` of each meaning.

    Args:
        model: A model with the meanings.
        names: See `meanings_of_names`.
        contexts: Contexts of one part.
        written: True: only contexts in which the note has the abbreviation; False: only those with the long form; None: both.
    """
    by_name: dict[str, list[tuple[str, int]]] = {}
    for short, meanings in model.by_abbreviation.items():
        with_cuis = [i for i, meaning in enumerate(meanings) if meaning.cuis]
        if len(with_cuis) > 1:  # with one concept there is nothing to choose
            for i in with_cuis:
                meaning = meanings[i]
                by_name.setdefault(names[words(meaning.name)], []).append((short, i))
    taken: Counter[tuple[str, int, bool]] = Counter()
    found = []
    for labelled in contexts:
        here = bool(labelled.abbreviation)
        if written is not None and written != here:
            continue
        for short, i in by_name.get(labelled.name, ()):
            if (here and short != labelled.abbreviation) or taken[short, i, here] >= PER_SENSE:
                continue
            taken[short, i, here] += 1
            found.append(Query(short, model.by_abbreviation[short], i, labelled))
    return found


def gather(model: SenseModel, names: Mapping[str, str], asked: Sequence[Query], *, note: bool = False) -> Fitted:
    """Return the evidence of queries.

    Args:
        model: A model.
        names: See `meanings_of_names`.
        asked: n queries.
        note: Whether long forms elsewhere in the note are used.
    """
    most = max(len(query.meanings) for query in asked)
    evidence = np.zeros((len(asked), most, len(SIGNALS)), dtype=np.float32)
    there = np.zeros((len(asked), most), dtype=np.bool_)
    for n, query in enumerate(asked):
        in_note = [note and names[words(meaning.name)] in query.labelled.others for meaning in query.meanings]
        evidence[n, : len(query.meanings)] = model.evidence(query.meanings, query.labelled.context, in_note)
        there[n, : len(query.meanings)] = True
    return Fitted(evidence, there, np.array([query.gold for query in asked]))


def fit_weights(data: Fitted, signals: Sequence[str] = SIGNALS, *, fixed: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the weights that make the right meanings most probable. Weights of signals that may not be used are 0.

    Args:
        data: Evidence of contexts that were not counted.
        signals: Signals that may be used.
        fixed: Weights that are not fitted.
    """
    free = [i for i, signal in enumerate(SIGNALS) if signal in signals and signal not in (fixed or {})]
    start = np.array([(fixed or {}).get(signal, 0.0) if signal in signals else 0.0 for signal in SIGNALS])
    rows = np.arange(len(data.gold))

    def loss(values: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        weights = start.copy()
        weights[free] = values
        p = chances(data, weights)
        picked = np.maximum(p[rows, data.gold], 1e-12)
        expected = np.einsum("ns,nsk->nk", p, data.evidence)
        gradient = (expected - data.evidence[rows, data.gold]).mean(axis=0)[free] + 2 * PENALTY * (values - 0.3)
        return float(-np.log(picked).mean() + PENALTY * ((values - 0.3) ** 2).sum()), gradient.astype(np.float64)

    found = minimize(loss, np.full(len(free), 0.3), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(free))
    weights = start.copy()
    weights[free] = found.x
    return {signal: round(float(weight), 4) for signal, weight in zip(SIGNALS, weights)}


def chances(data: Fitted, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probabilities of the meanings (n, s)."""
    scores = np.where(data.there, data.evidence.astype(np.float64) @ weights, -np.inf)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def with_weights(model: SenseModel, weights: Mapping[str, float]) -> SenseModel:
    """Return a model with other weights."""
    return replace(model, weights=dict(weights))


def array_of(weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Return weights in the order of `SIGNALS`."""
    return np.array([weights[signal] for signal in SIGNALS])


def right(data: Fitted, weights: Mapping[str, float]) -> npt.NDArray[np.bool_]:
    """Return for each query whether the most probable meaning is the right one (n,)."""
    return np.asarray(chances(data, array_of(weights)).argmax(axis=1) == data.gold)


def most_frequent(data: Fitted) -> npt.NDArray[np.bool_]:
    """Return for each query whether the most frequent meaning is the right one (n,)."""
    frequency: Floats2d = np.where(data.there, data.evidence[:, :, 0], -np.inf)
    return np.asarray(frequency.argmax(axis=1) == data.gold)
