"""Train a linker's ranker: `python -m training ranker --linker open --fit ncbi-train,bc5cdr-train,gsc-dev`.

It is trained on the gold mentions of several corpora. To measure it on a corpus or on a part of `--test`, it is trained only on the other corpora.
The ranker is written into the linker's folder, if other programs do not share it, or to the file of `--ranker`, and the figures into
metrics/ranker.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy

from spacy_sapbert import bundle
from spacy_sapbert.candidates import DECIMALS
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_text
from spacy_sapbert.ranking.fit import Example, fit_weights
from spacy_sapbert.ranking.ranker import FEATURES, Ranker

from ..corpora import GOLD
from ..loop.encoders import use_gpu
from .benchmarks import BenchmarkReader
from .calibrate import only_measured
from .evaluate import header
from .parts import check_fit_and_test, known_gold, read_apart

FORMAT = 1
DEPTHS = (1, 5)
PROTOCOL = (
    "Gold mentions whose text is not a name of the knowledge base, each text with the same gold counted once; abbreviations resolved as the linker "
    "does; the linker's own index and settings. Per cent of these mentions whose gold concept is the first, or among the first five, in the linker's "
    "own order; mentions whose concept was not found count as wrong, those whose concept the knowledge base does not have are left out. Each corpus "
    "was ranked with weights that were trained on the other corpora; documents that are in two corpora count only in the first one."
)


def right_within(example: Example, weights: Sequence[float], depth: int) -> bool:
    """Return whether a right candidate is among the first `depth`, ordered by weighted features. Ties keep the order of the scores."""
    order = np.argsort(-np.round(example.values @ np.array(weights), DECIMALS), kind="stable")
    return bool(example.right[order[:depth]].any())


def measured(examples: Sequence[Example], weights: Sequence[float]) -> dict[str, float]:
    """Return "at1" and "at5" in per cent; 0.0 without examples."""
    return {f"at{k}": 100.0 * float(np.mean([right_within(example, weights, k) for example in examples])) if examples else 0.0 for k in DEPTHS}


def of_others(others: Sequence[Sequence[Example]], examples: Sequence[Example]) -> dict[str, float] | None:
    """Measure weights that were trained on other corpora; None if these have too few mentions."""
    try:
        return measured(examples, fit_weights(others))
    except SapbertError as error:
        if error.code != "E047":
            raise
        return None


def train_ranker(
    linker_name: str | None, fit: Sequence[str], test: Sequence[str], reader: BenchmarkReader, *, gpu_id: int = -1
) -> tuple[Ranker, dict[str, Any], Path]:
    """Train a ranker on parts of corpora, and measure it on each corpus after training on the others.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker.
        fit: Parts to train on.
        test: Parts to measure on.
        reader: Reads the corpora.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        The ranker, the figures, and the linker's folder.

    Raises:
        SapbertError: E047 (too few mentions), E519 (a part is in both), E540, E542, E548 (no part to train on).
    """
    check_fit_and_test(fit, test, "--fit", "a ranker is trained on annotated mentions; give parts of corpora")
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": linker_name, "spans_key": GOLD})
    use_gpu(linker, gpu_id)
    search = linker.search
    words = f"gold mentions of {', '.join(fit)}"
    sets: dict[str, list[Example]] = {
        name: search.examples(*known_gold(corpus, nlp, search)) for name, corpus in read_apart(reader, [*fit, *test]).items()
    }
    cosine = [1.0] + [0.0] * (len(FEATURES) - 1)
    rows = {}
    for name, examples in sets.items():
        family = name.partition("-")[0]
        others = [sets[other] for other in fit if other.partition("-")[0] != family]
        rows[name] = {
            "n": len(examples),
            "found": 100.0 * float(np.mean([e.right.any() for e in examples])) if examples else 0.0,
            "cosine": measured(examples, cosine),
            "ranker": of_others(others, examples),
        }
    weights = fit_weights([sets[name] for name in fit])
    found = {
        **header("ranker", FORMAT, PROTOCOL),
        "fit_on": words,
        "corpora": rows,
        "weights": dict(zip(FEATURES, weights)),
    }
    return Ranker(weights, search.bundle.encoder.fingerprint, words), found, linker.folder


def train_and_write(
    linker_name: str | None, fit: Sequence[str], test: Sequence[str], data: Path, out: Path, *, ranker: Path | None = None, gpu_id: int = -1
) -> str:
    """Train a ranker, and write the ranker and its figures.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker.
        fit: Parts of corpora to train on, such as "gsc-dev".
        test: Parts of corpora to measure on.
        data: Folder of corpora.
        out: JSON file for the figures.
        ranker: File for the ranker; None: ranker.json in the linker's folder, whose calibration is removed. A linker that other programs share,
            such as a registered one, is only measured then.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        A table for the terminal.

    Raises:
        SapbertError: See `train_ranker`.
    """
    nowhere = Path("no-such-folder")
    made, found, folder = train_ranker(linker_name, fit, test, BenchmarkReader(data, nowhere, nowhere, nowhere), gpu_id=gpu_id)
    note = ""
    if ranker is not None:
        write_text(ranker, made.to_json())
    elif not (note := only_measured(linker_name, "ranker")):
        bundle.write_calibration(folder, None)
        bundle.write_ranker(folder, made)
    write_text(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    lines = ["corpus: mentions, found, right at 1 by cosine -> by a ranker trained on the other corpora (right at 5)"]
    for name, row in found["corpora"].items():
        after = [f"{row['ranker'][key]:.1f}" if row["ranker"] else "too few mentions" for key in ("at1", "at5")]
        lines.append(
            f"{name}: {row['n']:,}, {row['found']:.1f}%, {row['cosine']['at1']:.1f} -> {after[0]} ({row['cosine']['at5']:.1f} -> {after[1]})"
        )
    lines.append("weights: " + ", ".join(f"{name} {weight:.3f}" for name, weight in found["weights"].items()))
    return "\n".join([*lines, *filter(None, [note])])
