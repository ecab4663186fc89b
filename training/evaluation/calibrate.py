"""Fit the calibration of a linker, which says how probable it is that a link is right: `python -m training calibrate --fit gsc-dev --test gsc-test`.

The calibration is fitted on some data and measured on other data. It is written into the linker's folder, if other programs
do not share it, and the figures into metrics/calibration.json, which the report shows.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc, Span

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from spacy_sapbert.calibration import Calibration, Observed
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_text
from spacy_sapbert.indexes.base import report_of
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb import curies
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import GOLD, Corpus, shared_documents, sharing_report
from ..corpora.mention import missing_ids, resolve_gold
from ..errors import fail
from ..loop.encoders import use_gpu
from .benchmarks import MISSING_NAMED, BenchmarkReader
from .evaluate import header
from .metrics import neighbour_recall
from .parts import check_fit_and_test, gold_docs, read_part, without
from .results import write_absent

FORMAT = 1
BINS = 10
MOST_NAMES = 500_000
MOST_MENTIONS = 1_500
ABSENT = "No calibration was fitted: no data to fit on was given (--fit)."
TARGETS = (0.8, 0.85, 0.9, 0.95, 0.98)
COVERAGES = (0.8, 0.85, 0.9, 0.95)
PROTOCOL = (
    "Gold mentions, not recognised ones; abbreviations resolved as the linker does; the linker's own index and settings, without a "
    "threshold. Documents that are in a fitted part and in a measured part are left out of the measured one. A link is right if the top concept is "
    "a gold one (retired ids are replaced by current ones; a composite is never right). Fitted on some parts, all figures from the others. Of a fitted "
    "part at most --most mentions are used, evenly spread, and none whose top concept has no id in the vocabularies of the part's gold ids: such a link "
    "can never count as right. The figures count these links as wrong; 'judged' leaves them out. ECE: expected calibration error over ten bins of equal width (Guo et al., ICML 2017, equation 3); raw: with the cosine itself as the probability, negative ones as 0. Coverage counts mentions whose concept is in the knowledge base."
)


def counted(corpus: Corpus, docs: Sequence[Doc], kb: Any) -> dict[str, Any]:
    """Count the mentions of a part of a corpus, and those that cannot be used.

    They cannot be used if they are not at their offsets, have no gold id, or have ids that the knowledge base does not have.
    """
    used = sum(bool(span.kb_id_) for doc in docs for span in doc.spans[GOLD])
    placed = sum(len(doc.spans[GOLD]) for doc in docs)
    missing = missing_ids([resolve_gold(mention, kb.rows_of) for mention in corpus.mentions])
    return {
        "mentions": len(corpus.mentions),
        "off_offsets": len(corpus.mentions) - placed,
        "without_id": placed - used,
        "missing_ids": len(missing),
        "missing_ids_most_frequent": dict(list(missing.items())[:MISSING_NAMED]),
    }


def reliability(probabilities: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[dict[str, float]]:
    """Group stated probabilities into bins of equal width.

    Args:
        probabilities: (n,) 0 to 1; 1.0 is in the last bin.
        right: (n,) whether each link is right.
        bins: Number of bins.

    Returns:
        The bins that are not empty: low, high, n, confidence (mean probability), accuracy (share of right links).
    """
    p, ok = np.asarray(probabilities, dtype=float), np.asarray(right, dtype=float)
    place = np.minimum((p * bins).astype(int), bins - 1)
    found = []
    for i in range(bins):
        inside = place == i
        if inside.any():
            found.append(
                {
                    "low": i / bins,
                    "high": (i + 1) / bins,
                    "n": int(inside.sum()),
                    "confidence": float(p[inside].mean()),
                    "accuracy": float(ok[inside].mean()),
                }
            )
    return found


def calibration_error(bins: Sequence[dict[str, float]]) -> float:
    """Compute the expected calibration error: the mean distance between confidence and accuracy, weighted by n.

    Args:
        bins: Bins as `reliability` returns them.

    Returns:
        The error, 0 to 1.

    Source:
        Guo et al., ICML 2017, equation 3.
    """
    total = sum(entry["n"] for entry in bins)
    return sum(entry["n"] * abs(entry["confidence"] - entry["accuracy"]) for entry in bins) / total


def curve(probabilities: Sequence[float], right: Sequence[bool]) -> list[dict[str, float]]:
    """Compute precision and the share of kept mentions with each distinct probability as a threshold, from the highest.

    Args:
        probabilities: (n,) 0 to 1.
        right: (n,) whether each link is right.

    Returns:
        For each threshold: threshold, precision of the links that are at least as probable, and kept, the share of mentions.
    """
    p, ok = np.asarray(probabilities, dtype=float), np.asarray(right, dtype=float)
    order = np.argsort(-p, kind="stable")
    p, sums = p[order], np.cumsum(ok[order])
    whole = np.flatnonzero(np.r_[p[1:] < p[:-1], True])
    return [{"threshold": float(p[i]), "precision": float(sums[i] / (i + 1)), "kept": float((i + 1) / len(p))} for i in whole.tolist()]


def reached(made: Calibration, probabilities: Sequence[float], right: Sequence[bool]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what each of TARGETS gives on mentions that a calibration was not fitted on, and the messages of targets that it cannot reach.

    Args:
        made: The calibration.
        probabilities: (n,) its probabilities.
        right: (n,) whether each link is right.
    """
    found: list[dict[str, Any]] = []
    refused: list[str] = []
    for target in TARGETS:
        try:
            lowest = made.lowest(target)
        except SapbertError as error:
            refused.append(str(error))
            continue
        kept = [ok for p, ok in zip(probabilities, right) if p >= lowest]
        precision = sum(kept) / len(kept) if kept else None
        found.append({"target_precision": target, "least_probability": lowest, "precision": precision, "kept": len(kept) / len(right)})
    return found, refused


def measure_calibration(made: Calibration, observed: Sequence[Observed], linker: Any, docs: Sequence[Doc]) -> dict[str, Any]:
    """Measure a calibration on mentions that it was not fitted on.

    Args:
        made: The calibration.
        observed: The linker's result for each mention.
        linker: The linker that has this calibration.
        docs: The Docs that `observed` comes from.

    Returns:
        The figures that the report shows.
    """
    probabilities = [made.probability(row.evidence) for row in observed]
    right = [row.right for row in observed]
    bins = reliability(probabilities, right)
    raw = reliability([max(0.0, row.evidence.score) for row in observed], right)
    found: dict[str, Any] = {"n_test": len(observed), "ece": calibration_error(bins), "ece_raw": calibration_error(raw), "bins": bins}
    found["curve"] = curve(probabilities, right)
    found["targets"], found["not_reached"] = reached(made, probabilities, right)
    found["conformal"] = []
    behind = [row.behind for row in observed if row.behind is not None]
    for coverage in COVERAGES:
        try:
            score_gap = made.score_gap(coverage)
            linker.set_targets(coverage=coverage)
        except SapbertError as error:
            found["not_reached"].append(str(error))
            continue
        sizes = [len(each.answer.candidates) for prediction in linker.predict(docs) for each in prediction.found]
        covered = sum(value <= score_gap for value in behind) / len(behind)
        found["conformal"].append({"asked": coverage, "score_gap": score_gap, "covered": covered, "size": float(np.mean(sizes))})
    linker.set_targets()
    return found


def measure_judged(made: Calibration, observed: Sequence[Observed]) -> dict[str, Any]:
    """Measure a calibration on the links that the gold ids can judge: their number, the calibration error, and what is linked at each target."""
    probabilities, right = [made.probability(row.evidence) for row in observed], [row.right for row in observed]
    return {"n": len(observed), "ece": calibration_error(reliability(probabilities, right)), "targets": reached(made, probabilities, right)[0]}


def can_be_judged(row: Observed, vocabularies: Collection[str], kb: KnowledgeBase) -> bool:
    """Return whether gold ids of some vocabularies can say that a link is right: the linked concept has an id in one of them.

    MeSH, for instance, has no id for many concepts that are narrower than its own, so that the exact match "chronic nephritis" counts as wrong.

    Args:
        row: The linker's result for a mention.
        vocabularies: Vocabularies of the gold ids, in UMLS's spelling.
        kb: The linker's knowledge base.
    """
    if row.concept is None:
        return True
    return not {curies.vocabulary_of(row.concept), *kb.codes(kb.row_of(row.concept))}.isdisjoint(vocabularies)


def gold_vocabularies(docs: Iterable[Doc]) -> set[str]:
    """Return the vocabularies of the gold ids of some Docs, in UMLS's spelling."""
    ids = {part for doc in docs for span in doc.spans[GOLD] for part in re.split("[|+]", span.kb_id_) if part}
    return {curies.vocabulary_of(each) for each in ids}


def to_fit_on(docs: Sequence[Doc], linker: Any, most: int) -> tuple[list[Doc], int]:
    """Return copies of Docs with the gold mentions to fit on: those that can be judged, of these at most `most`, evenly spread.

    Args:
        docs: Docs of a part of a corpus, with the span group `gold`.
        linker: The linker.
        most: Most mentions that are kept.

    Returns:
        The Docs, and the number of mentions that cannot be judged.
    """
    annotated = [(doc, span) for doc in docs for span in doc.spans[GOLD] if span.kb_id_]
    vocabularies = gold_vocabularies(docs)
    judged = [each for each, row in zip(annotated, linker.observe(docs)) if can_be_judged(row, vocabularies, linker.kb)]
    kept = [judged[i] for i in np.unique(np.linspace(0, len(judged) - 1, min(most, len(judged))).round().astype(int)).tolist()]
    made = []
    for doc in docs:
        copy = doc.copy()
        copy.spans[GOLD] = [Span(copy, span.start, span.end, label=span.label, kb_id=span.kb_id) for of, span in kept if of is doc]
        made.append(copy)
    return made, len(annotated) - len(judged)


def index_recall(linker: Any, docs: Sequence[Doc]) -> dict[str, Any]:
    """Measure how many of the true nearest names the linker's index finds, whether or not their concepts are right.

    An index with more than MOST_NAMES names is not compared, because all its vectors would be in memory.

    Args:
        linker: The linker.
        docs: Docs with the mentions to look up.

    Returns:
        Recall in per cent at each depth, and what was measured when the index was built.
    """
    texts = sorted({normalise(span.text) for doc in docs for span in doc.spans[GOLD]})
    found: dict[str, Any] = {"names": len(linker.index), "mentions": len(texts), "when_built": report_of(linker.index).get("chosen")}
    if texts and len(linker.index) <= MOST_NAMES:
        exact = ExactIndex()
        exact.build(linker.index.vectors(np.arange(len(linker.index))))
        recall = neighbour_recall(linker.index, exact, linker.model.encode(texts))
        found["recall"] = {f"at_{k}": value for k, value in recall.items()}
    return found


def check_parts(fit: Sequence[str], test: Sequence[str]) -> None:
    """Check the names of the parts of corpora for a calibration.

    Args:
        fit: Parts to fit on.
        test: Parts to measure on.

    Raises:
        SapbertError: E519 (a part is in both), E540 (not known), E548 (nothing to measure on).
    """
    check_fit_and_test(fit, test, "--test", "a calibration is measured on data on which it was not fitted; give a part")


def calibrate_linker(
    linker_name: str | None,
    fit: Sequence[str],
    test: Sequence[str],
    reader: BenchmarkReader,
    *,
    most: int = MOST_MENTIONS,
    rerank: str | None = None,
    gpu_id: int = -1,
) -> tuple[Calibration, dict[str, Any], Path]:
    """Fit a linker's calibration on some parts of corpora and measure it on others.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker.
        fit: Parts to fit on.
        test: Parts to measure on.
        reader: Reads the corpora.
        most: Most mentions of each part that are fitted on, so that a large part does not decide alone.
        rerank: Setting `rerank` of the linker; the calibration is for linkers with the same value.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        The calibration, the figures, and the linker's folder.

    Raises:
        SapbertError: E002 (a wrong value of `rerank`), E056 (it needs another encoder), E519 (a part is in both), E012 (too little to fit on), E540,
            E542, E548.
    """
    check_parts(fit, test)
    nlp = spacy.blank("en")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": linker_name, "spans_key": GOLD, "rerank": rerank})
    use_gpu(linker, gpu_id)
    corpora = {name: read_part(reader, name) for name in (*fit, *test)}
    shared = [pair for pair in shared_documents(corpora) if (pair.left in fit) != (pair.right in fit)]
    for pair in shared:
        name = pair.left if pair.left in test else pair.right
        corpora[name] = without(corpora[name], pair.documents_of(name))
    docs = {name: gold_docs(corpus, nlp) for name, corpus in corpora.items()}
    to_test = [doc for name in test for doc in docs[name]]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\[W004\]")  # it is about the calibration that is replaced here
        chosen = {name: to_fit_on(docs[name], linker, most) for name in fit}
    to_fit = [doc for name in fit for doc in chosen[name][0]]
    words = {
        what: f"gold mentions of {', '.join(names)} ({sum(len(docs[n]) for n in names):,} documents)"
        for what, names in (("fit", fit), ("test", test))
    }
    made = linker.calibrate(to_fit, fit_on=words["fit"])
    observed = linker.observe(to_test)
    if all(row.behind is None for row in observed):
        theirs = curies.vocabularies_in_words(i for name in test for m in corpora[name].mentions for ids in m.gold for i in ids)
        why = f"none of its gold concepts is in the linker's knowledge base. They are of {theirs}; it has {', '.join(linker.kb.vocabularies_by_size[:12])}"
        raise fail("E548", setting="--test", value=",".join(test), why=why)
    judged: list[bool] = []
    for name in test:
        rows = observed[len(judged) : len(judged) + sum(bool(span.kb_id_) for doc in docs[name] for span in doc.spans[GOLD])]
        vocabularies = gold_vocabularies(docs[name])
        judged += [can_be_judged(row, vocabularies, linker.kb) for row in rows]
    figures = {
        **measure_calibration(made, observed, linker, to_test),
        "judged": measure_judged(made, [row for row, ok in zip(observed, judged) if ok]),
        "not_judged": {**{name: chosen[name][1] for name in fit}, "test": judged.count(False)},
        "counts": {name: counted(corpus, docs[name], linker.kb) for name, corpus in corpora.items()},
    }
    content: dict[str, Any] = {
        **header("calibration", FORMAT, PROTOCOL),
        "linker": Path(linker_name or default_linkers.OPEN).name,
        "index": index_recall(linker, to_test),
        "data": words,
        "left_out_of_test": sharing_report(shared),
        "n_fit": len(made.right),
        **figures,
        "weights": list(made.weights),
    }
    return made, {**content, "built_for": made.built_for, "settings": made.settings}, linker.folder


def summary(found: dict[str, Any]) -> str:
    """Return a short summary for the terminal."""
    lines = [f"fit on {found['n_fit']:,} mentions ({found['data']['fit']}), measured on {found['n_test']:,} ({found['data']['test']})"]
    if recall := found["index"].get("recall"):
        lines.append(f"index: {recall['at_1']:.1f}% of the nearest names found, {recall['at_10']:.1f}% of the ten nearest")
    judged = found["judged"]
    lines.append(
        f"ECE {found['ece']:.3f}; of the cosine itself {found['ece_raw']:.3f}; of the {judged['n']:,} links that the gold can judge {judged['ece']:.3f}"
    )
    for row in found["targets"]:
        shown = "no link" if row["precision"] is None else f"{row['precision']:.1%} right"
        lines.append(f"target_precision={row['target_precision']}: {shown}, {row['kept']:.0%} of the mentions linked")
    lines += [f"coverage={row['asked']}: {row['covered']:.1%} covered, {row['size']:.1f} candidates" for row in found["conformal"]]
    return "\n".join([*lines, *found["not_reached"]])


def only_measured(linker_name: str | None, made: str) -> str:
    """Return why nothing is written into a linker that other programs share, for the terminal; "" for other linkers.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker.
        made: What would be written, which is also the option for its file: "calibration" or "ranker".
    """
    if not default_linkers.is_shared(linker_name or default_linkers.OPEN):
        return ""
    return f"Other programs share this linker, so it was only measured. --{made} FILE writes the {made}."


def calibrate_and_write(
    linker_name: str | None,
    fit: Sequence[str],
    test: Sequence[str],
    data: Path,
    out: Path,
    *,
    most: int = MOST_MENTIONS,
    calibration: Path | None = None,
    rerank: str | None = None,
    gpu_id: int = -1,
) -> str:
    """Calibrate a linker and write the calibration and its figures.

    If there is nothing to fit on, or if none (E016) or too few (E012) of its concepts are in the knowledge base, no calibration is written, and
    the file of figures says why.

    Args:
        linker_name: A registered linker or a linker's folder; None is the default linker.
        fit: Parts of corpora to fit on, such as "gsc-dev".
        test: Parts of corpora to measure on.
        data: Folder of corpora.
        out: JSON file for the figures.
        most: Most mentions of each part that are fitted on.
        calibration: File for the calibration; None: calibration.json in the linker's folder. A linker that other programs share, such as
            a registered one, is only measured then.
        rerank: Setting `rerank` of the linker; the calibration is for linkers with the same value.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        Text to show: a summary, or why there is no calibration.

    Raises:
        SapbertError: E002, E056, E519, E540, E542, E548, and those of the linker.
    """
    if not fit:
        return write_absent(out, "calibration", ABSENT)
    nowhere = Path("no-such-folder")
    try:
        reader = BenchmarkReader(data, nowhere, nowhere, nowhere)
        made, found, folder = calibrate_linker(linker_name, fit, test, reader, most=most, rerank=rerank, gpu_id=gpu_id)
    except SapbertError as error:
        if error.code not in ("E012", "E016"):
            raise
        return write_absent(out, "calibration", str(error))
    if linker_name in (None, default_linkers.OPEN):
        made = replace(made, built_for={**made.built_for, **default_linkers.open_inputs()})
    elif linker_name == default_linkers.HPO:
        made = replace(made, built_for={**made.built_for, **default_linkers.hpo_inputs()})
    elif linker_name == default_linkers.HPO_FAST:
        made = replace(made, built_for={**made.built_for, **default_linkers.hpo_fast_inputs()})
    note = ""
    if calibration is not None:
        write_text(calibration, made.to_json())
    elif not (note := only_measured(linker_name, "calibration")):
        bundle.write_calibration(folder, made)
    write_text(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return "\n".join(filter(None, [summary(found), note]))
