"""Measure an index with queries that are like mentions, and choose its search settings by the results.

The queries are misspelt names (a typo, another word order, or a dropped word) that are not in the dictionary. The results of exact search count
as the right ones.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from ..errors import warn
from ..indexes.base import Tunable
from ..kb.name_table import NameTable
from ..types import Bools1d, Floats2d, Ints1d, Ints2d, VectorIndex

POINTS = 0.003  # Acc@1 and Acc@5 of linking may be this far below those of exact search: 0.3 percentage points
QUERIES = 2_000
_SHUFFLED = 1_000_000  # names; if there are more, a sample is drawn instead
TIMED_TWICE = 500_000  # vectors; with more, exact search runs only once, for its results and its time
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


Names = Sequence[str]
RightConcept = Callable[[Ints1d], Bools1d]  # rows (q,) -> whether each is a name of the right concept


def misspell(names: Names, known: Callable[[str], bool], count: int = QUERIES, seed: int = 13) -> list[tuple[str, int]]:
    """Misspell names, to have queries that are like mentions and whose right answer is known.

    Args:
        names: The names by row. They are read one at a time, so they may be in a file.
        known: Returns whether a text is one of the names. If a misspelt name is one, it is left out.
        count: Largest number of misspelt names.
        seed: Seed of the random choice.

    Returns:
        Each misspelt name, with the row of the name that it was made from.
    """
    chance = random.Random(seed)
    if len(names) > _SHUFFLED:
        rows = chance.sample(range(len(names)), min(len(names), 10 * count))
    else:
        rows = list(range(len(names)))
        chance.shuffle(rows)
    made: list[tuple[str, int]] = []
    for row in rows:
        if len(made) == count:
            break
        text = _misspelt(names[row], chance)
        if text != names[row] and len(text) > 2 and not known(text):
            made.append((text, row))
    return made


def _misspelt(name: str, chance: random.Random) -> str:
    """Drop a word, change the order of words, or make a typo."""
    words = name.split()
    kind = chance.random()
    if len(words) > 2 and kind < 0.3:
        del words[chance.randrange(len(words))]
        return " ".join(words)
    if len(words) > 1 and kind < 0.6:
        chance.shuffle(words)
        return " ".join(words)
    if len(name) < 4:
        return name
    at = chance.randrange(1, len(name) - 1)
    typo = (name[:at] + name[at + 1 :], name[:at] + chance.choice(_LETTERS) + name[at + 1 :], name[:at] + name[at + 1] + name[at] + name[at + 2 :])
    return chance.choice(typo)


def measure(index: VectorIndex, queries: Floats2d, truth: Ints2d, right: RightConcept) -> dict[str, float]:
    """Measure recall@1 and @10 against exact search, Acc@1 and @5 of linking, and queries per second.

    Args:
        index: The index, built.
        queries: (q, dim) query vectors.
        truth: (q, 10) rows that exact search finds.
        right: Returns which rows are names of the right concepts.
    """
    seconds = float("inf")
    for _ in range(1 if len(queries) > 500 else 3):
        rows, took = _timed(index, queries, truth.shape[1])
        seconds = min(seconds, took)
    return _figures(rows, seconds, truth, right)


def _timed(index: VectorIndex, queries: Floats2d, k: int) -> tuple[Ints2d, float]:
    """Return the rows (q, k) that are found, and the time in seconds."""
    start = time.perf_counter()
    rows, _cosines = index.query(queries, k)
    return rows, time.perf_counter() - start


def _figures(rows: Ints2d, seconds: float, truth: Ints2d, right: RightConcept) -> dict[str, float]:
    shared = [len(set(a) & set(b)) / max(1, len(b)) for a, b in zip(rows.tolist(), _without_padding(truth))]
    return {
        "recall_at_1": round(float((rows[:, 0] == truth[:, 0]).mean()), 4),
        "recall_at_10": round(float(np.mean(shared)), 4),
        "acc_at_1": round(float(right(rows[:, 0]).mean()), 4),
        "acc_at_5": round(float(np.any([right(column) for column in rows[:, :5].T], axis=0).mean()), 4),
        "queries_per_s": round(len(rows) / seconds, 1),
    }


def _without_padding(rows: Ints2d) -> list[list[int]]:
    return [[row for row in line if row >= 0] for line in rows.tolist()]


def near_enough(measured: dict[str, Any], exact: dict[str, float], points: float = POINTS) -> bool:
    """Return whether Acc@1 and Acc@5 are at most `points` below those of exact search. Acc@5 counts, because candidates are shown and reranked."""
    return all(measured[key] >= exact[key] - points for key in ("acc_at_1", "acc_at_5") if key in exact)


def choose(measured: list[dict[str, Any]], exact: dict[str, float], points: float = POINTS) -> tuple[dict[str, Any], bool]:
    """Return the first setting that is accurate enough, and True. If there is none, return the most accurate one, and False.

    Args:
        measured: settings and their figures, from the cheapest search to the most expensive. Measured times do not decide, because they depend
            on what else the machine does.
        exact: figures of exact search.
        points: how far below exact search Acc@1 and Acc@5 may be, 0 to 1.
    """
    near = [m for m in measured if near_enough(m, exact, points)]
    return (near[0], True) if near else (max(measured, key=lambda m: m["acc_at_1"]), False)


def right_concept(sources: Sequence[int], names: NameTable) -> RightConcept:
    """Return the function that tells which found rows are right: those that share a concept with the name that the query was made from.

    Args:
        sources: (q,) row of the name that each query was made from.
        names: The name table, with the concepts of all names.
    """
    own = names.concepts_of(sources)

    def right(rows: Ints1d) -> Bools1d:
        return np.array([bool(found & gold) for found, gold in zip(names.concepts_of(rows), own)])

    return right


def tune(
    index: VectorIndex,
    vectors: Floats2d,
    oracle: VectorIndex,
    queries: Floats2d,
    right: RightConcept,
    tick: Callable[[], Any],
) -> tuple[VectorIndex, dict[str, Any]]:
    """Try the settings that an index proposes, build it with the best ones, and measure it.

    Args:
        index: The index, not built yet. If it is not `Tunable`, or proposes no settings, it is measured with its own.
        vectors: (n, dim) vectors of the names.
        oracle: Exact search over these vectors.
        queries: (q, dim) query vectors.
        right: Returns which rows are names of the right concepts.
        tick: Called after each setting that was measured.

    Returns:
        The built index, and the report that goes into its manifest.

    Warns:
        W003 if several settings were tried and none is accurate enough.
    """
    truth, took = _timed(oracle, queries, min(10, len(oracle)))
    exact = _figures(truth, took, truth, right) if len(oracle) > TIMED_TWICE else measure(oracle, queries, truth, right)
    points = max(POINTS, 1 / len(queries))  # with few queries, one of them is more than 0.3 points
    tunable = index if isinstance(index, Tunable) else None
    settings = (tunable.settings_to_try(len(vectors)) if tunable is not None else []) or [index.get_config()]
    built: dict[Any, VectorIndex] = {}  # by build params
    tried: dict[int, dict[str, Any]] = {}  # position in `settings` -> its figures

    def try_out(place: int) -> bool:
        setting = settings[place]
        key = _build_key(setting, tunable)
        if key not in built:
            built[key] = _made_with(index, setting)
            built[key].build(vectors)
        _search_with(built[key], setting)
        tried[place] = {**setting, **measure(built[key], queries, truth, right)}
        tick()
        return near_enough(tried[place], exact, points)

    for steps in _by_build(settings, tunable):
        low, high = 0, len(steps)  # along the steps accuracy rises and speed falls: find the first step that is accurate enough by bisection
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if try_out(steps[middle]) else (middle + 1, high)
    measured = [tried[place] for place in sorted(tried)]
    chosen, reached = choose(measured, exact, points)
    winner = built[_build_key(chosen, tunable)]
    _search_with(winner, {key: chosen[key] for key in index.get_config() if key in chosen})
    if not reached and len(settings) > 1:  # a single setting was chosen by the user; its figures are in the report
        warn("W003", points=points * 100, acc=chosen["acc_at_1"], exact=exact["acc_at_1"])
    protocol = (
        f"{len(queries)} misspelt names (typo, word order, dropped word), none in the dictionary; exact search over the stored vectors is the truth"
    )
    report = {
        "protocol": protocol,
        "exact": exact,
        "measured": measured,
        "chosen": chosen,
        "within_0.3_points": reached,
        "exact_is_as_fast": exact["queries_per_s"] >= chosen["queries_per_s"],
    }
    return winner, report


def indexes_to_build(index: VectorIndex, names: int) -> list[VectorIndex]:
    """Return the indexes, not built yet, that tuning builds for this number of names: one for each combination of build params."""
    if not isinstance(index, Tunable):
        return [index]
    tried: dict[Any, VectorIndex] = {}
    for setting in index.settings_to_try(names):
        tried.setdefault(_build_key(setting, index), _made_with(index, setting))
    return list(tried.values()) or [index]


def _made_with(index: VectorIndex, setting: dict[str, Any]) -> VectorIndex:
    """Return a new index of the same engine, with other settings."""
    return type(index)(**{**index.get_config(), **setting})


def _build_key(setting: dict[str, Any], tunable: Union[Tunable, None]) -> tuple[str, ...]:
    """Return a key that is equal for settings that can share one built index."""
    return tuple(repr(setting.get(key)) for key in tunable.build_params) if tunable is not None else ()  # some are dicts


def _by_build(settings: list[dict[str, Any]], tunable: Union[Tunable, None]) -> list[list[int]]:
    """Return groups of positions in `settings`. The settings of a group can share one built index."""
    groups: dict[Any, list[int]] = {}
    for place, setting in enumerate(settings):
        groups.setdefault(_build_key(setting, tunable), []).append(place)
    return list(groups.values())


def _search_with(index: VectorIndex, setting: dict[str, Any]) -> None:
    if isinstance(index, Tunable):
        index.set_search(setting)
