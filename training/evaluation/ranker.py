"""Train a ranker on the gold mentions of several corpora.

`python -m training ranker --linker open` trains one for the candidates of a linker. To measure it on a corpus or on a part of `--test`, it is trained
only on the other corpora. It is written into the linker's folder, if other programs do not share it, or to the file of `--ranker`.

`python -m training ranker --encoder default` trains the ranker of this package for all linkers with an encoder of this package. Each corpus is searched
in its own dictionary; to measure the ranker on a corpus, it is trained only on the corpora of the other dictionaries.

The figures are written into metrics/ranker.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.language import Language

from spacy_sapbert import bundle
from spacy_sapbert.build.linker import DEFAULT, SHIPPED_RANKERS
from spacy_sapbert.candidates import DECIMALS
from spacy_sapbert.encoders.paired import PairedEncoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_text
from spacy_sapbert.ranking.fit import Example, fit_ranker_weights
from spacy_sapbert.ranking.ranker import CUI, FEATURES, WEAK_NAME, WORDS_MISSING, Ranker
from spacy_sapbert.search import CandidateSearch, Query

from ..corpora import GOLD, Corpus
from ..errors import fail
from ..loop.encoders import use_gpu
from .benchmarks import BenchmarkReader
from .calibrate import only_measured
from .evaluate import header
from .parts import check_fit_and_test, known_gold, read_apart
from .reranker import make_search

FORMAT = 2
DEPTHS = (1, 5)
ENCODERS: dict[str, Callable[[], Any]] = {DEFAULT: NameEncoder, bundle.FAST: StaticEncoder, bundle.PAIRED: PairedEncoder}
# Features that get no weight, because a weight would follow from the corpora, and not from what mentions mean. Gold ids of MeSH are often broader than
# a mention, because MeSH has no narrower one: then the right name lacks words of the mention. In a dictionary with the same ids, there is no narrower one
# either. Among the dictionaries, only HPO has concepts with a CUI and others without one, and which of them a text means depends on the text: a weight that
# GSC+ dev gives is good for GSC+ test, and bad for phrases of patients. Names for laypeople are weak names of HPO, but phrases of patients mean them.
OF_LINKER, OF_DICTIONARIES = frozenset([WORDS_MISSING]), frozenset([CUI, WEAK_NAME])
PROTOCOL = (
    "Gold mentions whose text is not a name of the knowledge base, each text with the same gold counted once; abbreviations resolved as the linker "
    "does; the linker's own index and settings. Per cent of these mentions whose gold concept is the first, or among the first five, in the linker's "
    "own order; mentions whose concept was not found count as wrong, those whose concept the knowledge base does not have are left out. Each corpus "
    "was ranked with weights that were trained on the other corpora; documents that are in two corpora count only in the first one."
)
DICTIONARY_PROTOCOL = (
    "Gold mentions whose text is not a name of the dictionary, each text with the same gold counted once; abbreviations resolved as the linker does; "
    "exact search over the corpus's own dictionary. Per cent of these mentions whose gold concept is the first, or among the first five; mentions whose "
    "concept was not found count as wrong, those whose concept the dictionary does not have are left out. Each corpus was ranked with weights that were "
    "trained on the corpora of the other dictionaries; documents that are in two corpora count only in the first one."
)


class Part(NamedTuple):
    """The annotated mentions of a part of a corpus.

    Attributes:
        group: The part is not measured with weights that were trained on a part of the same group.
        examples: The mentions that are no exact match, each text with the same gold once.
        queries: All mentions.
        gold: Their gold ids.
        search: The search that looks them up.
    """

    group: str
    examples: list[Example]
    queries: list[Query]
    gold: list[str]
    search: CandidateSearch


def read_part(corpus: Corpus, group: str, nlp: Language, search: CandidateSearch) -> Part:
    """Look up the mentions of a part of a corpus."""
    queries, gold = known_gold(corpus, nlp, search)
    return Part(group, search.examples(queries, gold), queries, gold, search)


def of_all(part: Part, weights: Sequence[float] | None) -> float:
    """Return the per cent of all mentions of a part, each occurrence, also exact matches, whose first candidate is right; 0.0 without mentions.

    Args:
        part: The part.
        weights: Weights of a ranker; None: the order of the cosines.
    """
    search = part.search
    before, search.ranker = search.ranker, None if weights is None else Ranker(tuple(weights), search.bundle.encoder.fingerprint, "")
    try:
        seen = search.observe(part.queries, part.gold)
    finally:
        search.ranker = before
    return 100.0 * float(np.mean([each.right for each in seen])) if seen else 0.0


def right_within(example: Example, weights: Sequence[float], depth: int) -> bool:
    """Return whether a right candidate is among the first `depth`, ordered by weighted features. Ties keep the order of the scores."""
    order = np.argsort(-np.round(example.values @ np.array(weights), DECIMALS), kind="stable")
    return bool(example.right[order[:depth]].any())


def measured(examples: Sequence[Example], weights: Sequence[float]) -> dict[str, float]:
    """Return "at1" and "at5" in per cent; 0.0 without examples."""
    return {f"at{k}": 100.0 * float(np.mean([right_within(example, weights, k) for example in examples])) if examples else 0.0 for k in DEPTHS}


def weights_of(sets: Sequence[Sequence[Example]], without: Collection[str] = ()) -> tuple[float, ...] | None:
    """Return the weights of a ranker that is trained on some corpora; None if none can be trained on them (E047).

    Args:
        sets: The mentions of each corpus.
        without: Features that get no weight.
    """
    try:
        return fit_ranker_weights(sets, without=without)
    except SapbertError as error:
        if error.code != "E047":
            raise
        return None


def _measured(examples: Sequence[Example], weights: Sequence[float] | None) -> dict[str, float] | None:
    return None if weights is None else measured(examples, weights)


def fitted(parts: Mapping[str, Part], fit: Sequence[str], *, without: Collection[str]) -> tuple[tuple[float, ...], dict[str, Any]]:
    """Train weights on some parts of corpora, and measure each part with weights that were trained without its group.

    Args:
        parts: The mentions of each part.
        fit: Parts to train on.
        without: Features that get no weight.

    Returns:
        The weights, and the figures "corpora" and "weights". For each corpus: "ablation" has the figures without each of the features that have a
        weight, where the other weights are trained again; "of_all_parts" has those with the weights of all parts of `fit`, and is null for such a
        part; "all" is the per cent of all its mentions whose first candidate is right.

    Raises:
        SapbertError: E047 (too few mentions).
    """
    cosine = (1.0, *(0.0 for _ in FEATURES[1:]))
    weights = fit_ranker_weights([parts[name].examples for name in fit], without=without)
    used = [name for name, weight in list(zip(FEATURES, weights))[1:] if weight]
    rows = {}
    for name, part in parts.items():
        examples, others = part.examples, [parts[other].examples for other in fit if parts[other].group != part.group]
        own = weights_of(others, without)
        rows[name] = {
            "n": len(examples),
            "found": 100.0 * float(np.mean([e.right.any() for e in examples])) if examples else 0.0,
            "cosine": measured(examples, cosine),
            "ranker": _measured(examples, own),
            "ablation": {} if own is None else {feature: _measured(examples, weights_of(others, {*without, feature})) for feature in used},
            "of_all_parts": None if name in fit else measured(examples, weights),
            "all": {"n": len(part.queries), "cosine": of_all(part, None), "ranker": None if own is None else of_all(part, own)},
        }
    return weights, {"corpora": rows, "weights": dict(zip(FEATURES, weights))}


def train_ranker(
    linker_name: str | None, fit: Sequence[str], test: Sequence[str], reader: BenchmarkReader, *, gpu_id: int = -1
) -> tuple[Ranker, dict[str, Any], Path]:
    """Train a ranker for a linker on parts of corpora, and measure it on each corpus after training on the others.

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
    _check(fit, test)
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": linker_name, "spans_key": GOLD})
    use_gpu(linker, gpu_id)
    search = linker.search
    parts = {name: read_part(corpus, name.partition("-")[0], nlp, search) for name, corpus in read_apart(reader, [*fit, *test]).items()}
    words = f"gold mentions of {', '.join(fit)}"
    weights, figures = fitted(parts, fit, without=OF_LINKER)
    found = {**header("ranker", FORMAT, PROTOCOL), "fit_on": words, **figures}
    return Ranker(weights, search.bundle.encoder.fingerprint, words), found, linker.folder


def train_ranker_of_encoder(name: str, fit: Sequence[str], test: Sequence[str], reader: BenchmarkReader) -> tuple[Ranker, dict[str, Any]]:
    """Train a ranker for all linkers with an encoder of this package, and measure it on each corpus after training on other dictionaries.

    Args:
        name: One of ENCODERS.
        fit: Parts to train on.
        test: Parts to measure on.
        reader: Reads the corpora and their dictionaries.

    Returns:
        The ranker and the figures.

    Raises:
        SapbertError: E047 (too few mentions), E519 (a part is in both), E540, E542, E548 (no part to train on, or no encoder with this name).
    """
    if name not in ENCODERS:
        raise fail("E548", setting="--encoder", value=name, why=f"it must be one of {', '.join(ENCODERS)}")
    _check(fit, test)
    nlp, encoder = spacy.blank("en"), ENCODERS[name]().initialize()
    searches: dict[str, CandidateSearch] = {}
    parts = {}
    for part, corpus in read_apart(reader, [*fit, *test]).items():
        dictionary = reader.dictionary_of(part)
        if dictionary not in searches:
            searches[dictionary] = make_search(reader.knowledge_base(part), encoder, progress=reader.progress)
        parts[part] = read_part(corpus, dictionary, nlp, searches[dictionary])
    words = f"gold mentions of {', '.join(fit)}, each searched in its own dictionary"
    weights, figures = fitted(parts, fit, without=OF_DICTIONARIES)
    return Ranker(weights, encoder.fingerprint, words), {**header("ranker", FORMAT, DICTIONARY_PROTOCOL), "encoder": name, "fit_on": words, **figures}


def _check(fit: Sequence[str], test: Sequence[str]) -> None:
    check_fit_and_test(fit, test, "--fit", "a ranker is trained on annotated mentions; give parts of corpora")


def train_and_write(
    linker_name: str | None,
    fit: Sequence[str],
    test: Sequence[str],
    data: Path,
    out: Path,
    *,
    encoder: str | None = None,
    work: Path = Path("no-such-folder"),
    ranker: Path | None = None,
    gpu_id: int = -1,
    progress: bool = False,
) -> str:
    """Train a ranker, and write the ranker and its figures.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker. Not with `encoder`.
        fit: Parts of corpora to train on, such as "gsc-dev".
        test: Parts of corpora to measure on.
        data: Folder of corpora.
        out: JSON file for the figures.
        encoder: One of ENCODERS, for a ranker of all linkers with this encoder; None: for one linker.
        work: Folder in which dictionaries are built, with `encoder`.
        ranker: File for the ranker; None: ranker.json in the linker's folder, whose calibration is removed. A linker that other programs share,
            such as a registered one, is only measured then. With `encoder`: None is the file in this package.
        gpu_id: Number of the GPU that encodes; -1 is the CPU. Not with `encoder`.
        progress: Show progress bars, with `encoder`.

    Returns:
        A table for the terminal.

    Raises:
        SapbertError: See `train_ranker`; E548, both a linker and an encoder are given.
    """
    nowhere, note = Path("no-such-folder"), ""
    if encoder is not None:
        if linker_name is not None:
            raise fail("E548", setting="--linker", value=linker_name, why="with --encoder, the ranker is for all linkers; leave --linker out")
        made, found = train_ranker_of_encoder(encoder, fit, test, BenchmarkReader(data, nowhere, nowhere, work, progress=progress))
        write_text(SHIPPED_RANKERS[encoder] if ranker is None else ranker, made.to_json())
    else:
        made, found, folder = train_ranker(linker_name, fit, test, BenchmarkReader(data, nowhere, nowhere, nowhere), gpu_id=gpu_id)
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
    for name, row in found["corpora"].items():
        if row["ranker"]:
            lines.append(f"{name}, all {row['all']['n']:,} mentions: {row['all']['cosine']:.1f} -> {row['all']['ranker']:.1f}")
    lines.append("weights: " + ", ".join(f"{name} {weight:.3f}" for name, weight in found["weights"].items()))
    return "\n".join([*lines, *filter(None, [note])])
