"""Make the sense model and measure it. Counts and weights come from the training and development notes, the figures from the test notes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spacy_sapbert.about import __version__
from spacy_sapbert.context.sense_model import SIGNALS, SenseModel
from spacy_sapbert.files import write_text, writing_folder

from .contexts import Labelled, find_contexts, read_notes
from .fit import Fitted, Query, array_of, chances, count, fit_weights, gather, most_frequent, queries, right, with_weights
from .inventory import meanings_of_names, read_inventory

TEXT_SIGNALS = tuple(signal for signal in SIGNALS if signal not in ("case", "note"))  # the signals that remain if the long form is hidden
FREQUENCY, CASE = (
    0.3,
    0.2,
)  # fixed weights, because they cannot be fitted on hidden long forms: how often an abbreviation has the meaning, and its upper or lower case
SURE = (0.5, 0.7, 0.9)  # thresholds of the probability


def make(abbreviations: Path, notes: Path, out: Path, metrics: Path) -> dict[str, Any]:
    """Write the sense model and its figures.

    First the counts are taken from the training notes (60 %), and the weights are fitted on the development notes (20 %). Then the counts are taken
    again from both. The test notes (20 %) are used only to measure.

    Args:
        abbreviations: Folder of lists of abbreviations, see `inventory.FILES`.
        notes: File of notes, JSON lines with `transcription`.
        out: Folder to write the model into.
        metrics: JSON file to write the figures into.

    Returns:
        The figures.

    Raises:
        SapbertError: E547.
    """
    inventory = read_inventory(abbreviations)
    names = meanings_of_names(inventory)
    contexts, times = find_contexts(read_notes(notes), inventory)
    of = {part: [each for each in contexts if each.part == part] for part in ("train", "dev", "test")}
    about = {"made_of": "clinical abbreviations (lisavirginia/clinical-abbreviations, CC BY 4.0); MTSamples (CC0), eight tenths of the notes"}
    first = count(inventory, of["train"], _times(times, ("train",)), about)
    asked = queries(first, names, of["dev"], written=False)
    dev, dev_note = gather(first, names, asked), gather(first, names, asked, note=True)

    def fit(signals: Sequence[str]) -> dict[str, float]:
        fixed = {"frequency": FREQUENCY} if "frequency" in signals else {}
        weights = fit_weights(dev, [signal for signal in signals if signal in TEXT_SIGNALS], fixed=fixed)
        if "note" in signals:
            weights = fit_weights(
                dev_note, (*[signal for signal in signals if signal in TEXT_SIGNALS], "note"), fixed={k: weights[k] for k in TEXT_SIGNALS}
            )
        return {**weights, "case": CASE if "case" in signals else 0.0}

    weights = fit(SIGNALS)
    model = with_weights(count(inventory, [*of["train"], *of["dev"]], _times(times, ("train", "dev")), about), weights)
    with writing_folder(out) as folder:
        model.save(folder)
    figures = measure(model, names, of["test"], {signal: fit([s for s in SIGNALS if s != signal]) for signal in SIGNALS})
    figures["versions"] = {"spacy-sapbert": __version__, "numpy": np.__version__, "CPU cores": str(os.cpu_count())}
    figures["weights"] = weights
    figures["model"] = {"meanings": len(model.meanings), "abbreviations": len(model.by_abbreviation), "profiles": len(model.totals)}
    write_text(metrics, json.dumps(figures, indent=1) + "\n")
    return figures


def _times(times: Mapping[tuple[str, str], int], parts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (part, name), n in times.items():
        if part in parts:
            found[name] = found.get(name, 0) + n
    return found


def measure(model: SenseModel, names: Mapping[str, str], test: Sequence[Labelled], without: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the figures on the test contexts.

    Args:
        model: The sense model.
        names: Name -> meaning, see `meanings_of_names`.
        test: Contexts of the test notes.
        without: Signal -> weights that were fitted without this signal.
    """
    hidden, written = (queries(model, names, test, written=kind) for kind in (False, True))
    data = {
        "long form hidden": (hidden, gather(model, names, hidden)),
        "long form hidden, others in the note seen": (hidden, gather(model, names, hidden, note=True)),
        "abbreviation as written": (written, gather(model, names, written)),
    }
    figures: dict[str, Any] = {name: _figures(asked, found, model.weights) for name, (asked, found) in data.items()}
    figures["without"] = {signal: {name: _share(right(found, weights)) for name, (_, found) in data.items()} for signal, weights in without.items()}
    return figures


def _figures(asked: Sequence[Query], found: Fitted, weights: Mapping[str, float]) -> dict[str, Any]:
    good, best = right(found, weights), chances(found, array_of(weights)).max(axis=1)
    written = np.where(found.there, found.evidence[:, :, SIGNALS.index("written")], -np.inf).argmax(axis=1) == found.gold
    sure = {str(p): {"share": _share(best >= p), "right": _share(good[best >= p])} for p in SURE}
    return {
        "contexts": len(asked),
        "abbreviations": len({query.abbreviation for query in asked}),
        "right": _share(good),
        "right, mean of abbreviations": _by_abbreviation(asked, good),
        "most frequent sense of the lists": _share(most_frequent(found)),
        "most frequent sense of the training notes": _share(written),
        "from a probability on": sure,
    }


def _by_abbreviation(asked: Sequence[Query], good: npt.NDArray[np.bool_]) -> float:
    of: dict[str, list[bool]] = {}
    for query, each in zip(asked, good.tolist()):
        of.setdefault(query.abbreviation, []).append(each)
    return round(float(np.mean([np.mean(each) for each in of.values()])), 4) if of else 0.0


def _share(values: npt.NDArray[np.bool_]) -> float:
    return round(float(values.mean()), 4) if len(values) else 0.0
