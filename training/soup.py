"""Average the weights of several trained encoders: `python -m training soup OUT MODEL MODEL … [--greedy …]`.

The mean of models that were trained from the same base, with different seeds or settings, is often as good as the best of them or better, and costs
no more at run time than one model. BioLORD-2023 averages several runs of its self-distillation.

- Uniform: the mean of all models; with `--weights` a weighted mean.
- Greedy (recipe 1 of the paper): the models are sorted by their figure, best first, and each is added to the mean if the figure of the mean does not
  become lower. The figure is @1 of held-out synonyms (`--pairs`, `--kb`) or Spearman's correlation on scored pairs (`--sts`). Use data on which
  nothing is measured later.

Source: model soups, Wortsman et al., ICML 2022, section 2; BioLORD-2023, Remy et al., JAMIA 2024.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentence_transformers import SentenceTransformer

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.files import writing_folder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .data.pairs import check_folder
from .errors import fail
from .loop import model
from .loop.card import write_soup_card
from .loop.trainer import HeldOutAccuracy
from .loop.weights import Weights, average, shape_difference
from .made import Stamp, stamp_of
from .recipe import REPORT
from .tasks.self_alignment import sample_of_queries
from .tasks.sentence_similarity import METRIC, SimilarityCorrelation, read_scored

Measure = Callable[[SentenceTransformer], float]
# Keys of a transformer's config in which the models may differ, because they do not change the meaning of the weights
FREE = (
    "_name_or_path",
    "architectures",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "use_cache",
    "gradient_checkpointing",
)


class Member(NamedTuple):
    """One of the encoders that are averaged.

    Attributes:
        folder: Folder of the encoder.
        encoder: The encoder.
        report: Content of its training.json; {} if it has none.
    """

    folder: Path
    encoder: SentenceTransformer
    report: dict[str, Any]

    @property
    def weights(self) -> Weights:
        """All weights, by name."""
        return self.encoder.state_dict()


def make_soup(
    out: Path, folders: Sequence[Path], *, weights: Sequence[float] | None = None, measure: Measure | None = None, metric: str = ""
) -> dict[str, Any]:
    """Write the mean of several encoders into a folder, as `training.fit` writes an encoder, with a model card.

    Args:
        out: The folder to write.
        folders: Two encoders or more, folders that `training.fit` wrote.
        weights: Relative weight of each encoder; None: all are equal.
        measure: Function that returns the figure of an encoder (higher is better), for a greedy soup; None: all encoders are averaged.
        metric: Name of the figure.

    Returns:
        The content of training.json: the models with their shares, and the figures.

    Raises:
        SapbertError: E511 (settings), E512 (an encoder cannot be loaded), E525 (the encoders differ in shape, tokenizer or pooling).
    """
    if len(folders) < 2:
        raise fail("E511", setting="models", value=len(folders), why="give two or more")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise fail("E511", setting="models", value=[str(folder) for folder in folders], why="one of them is given twice")
    if weights is not None and measure is not None:
        raise fail("E511", setting="weights", value=list(weights), why="a greedy soup chooses its own weights: give --weights or --greedy, not both")
    if weights is not None and (len(weights) != len(folders) or min(weights) < 0 or sum(weights) <= 0):
        raise fail("E511", setting="weights", value=list(weights), why=f"give {len(folders)} numbers, one for each model, none below 0 and not all 0")
    members = [_open(folder) for folder in folders]
    for other in members[1:]:
        why = difference(members[0], other)
        if why:
            raise fail("E525", one=members[0].folder, other=other.folder, why=why)
    made = members[0].encoder
    every = [{key: value.clone() for key, value in member.weights.items()} for member in members]
    figures: dict[str, Any] = {}
    if measure is None:
        shares = [weight / sum(weights) for weight in weights] if weights is not None else [1 / len(members)] * len(members)
        made.load_state_dict(average(every, shares))
    else:
        alone = [round(measure(member.encoder), 3) for member in members]
        chosen, reached = greedy(made, every, alone, measure)
        shares = [1 / len(chosen) if i in chosen else 0.0 for i in range(len(members))]
        figures = {"metric": metric, "alone": alone, "averaged": reached}
    report = _report(members, shares, figures)
    Stamp(stamp_of(out)).remove()  # the stamp of a recipe of phases that wrote this folder before; `phases` writes a new one afterwards
    with writing_folder(out) as folder:
        model.save_model(made, folder, report["base"])
        (folder / REPORT).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write_soup_card(folder / "README.md", report)
    return report


def greedy(made: SentenceTransformer, every: Sequence[Weights], alone: Sequence[float], measure: Measure) -> tuple[list[int], float]:
    """Choose the models of the greedy soup. At the end, `made` has the mean of their weights.

    Args:
        made: A model with the same shape as all models.
        every: Weights of each model.
        alone: Figure of each model.
        measure: Returns the figure of a model.

    Returns:
        Indices of the chosen models, and the figure of their mean.
    """
    order = sorted(range(len(every)), key=lambda i: -alone[i])  # models with equal figures keep the given order
    chosen, reached = order[:1], alone[order[0]]
    for i in order[1:]:
        trial = [*chosen, i]
        made.load_state_dict(average([every[j] for j in trial], [1 / len(trial)] * len(trial)))
        found = round(measure(made), 3)
        if found >= reached:
            chosen, reached = trial, found
    made.load_state_dict(average([every[j] for j in chosen], [1 / len(chosen)] * len(chosen)))
    return sorted(chosen), reached


def _open(folder: Path) -> Member:
    if not folder.is_dir():
        raise fail("E512", MissingFile, name=folder, why="there is no such folder")
    report = folder / REPORT
    try:
        said = dict(json.loads(report.read_text(encoding="utf-8"))) if report.is_file() else {}
    except ValueError as error:
        raise fail("E512", name=folder, why=f"{REPORT} is not JSON ({error})") from error
    length = (said.get("settings") or {}).get("encoder.max_length")
    return Member(folder, model.open_base(str(folder), max_length=int(length or 25), dropout=0.0).eval(), said)


def difference(one: Member, other: Member) -> str:
    """Return why two encoders cannot be averaged; "" if they can. Config, shapes, pooling and tokenizer are compared, in this order."""
    first, second = (_config(member) for member in (one, other))
    for key in sorted({*first, *second}):
        if first.get(key) != second.get(key):
            return f"{key} is {first.get(key)!r} and {second.get(key)!r}"
    key = shape_difference(one.weights, other.weights) or shape_difference(other.weights, one.weights) or ""
    if key:
        return f"they differ in shape at '{key}'"
    if one.encoder[1].pooling_mode != other.encoder[1].pooling_mode:
        return f"pooling is {one.encoder[1].pooling_mode!r} and {other.encoder[1].pooling_mode!r}"
    vocabularies = [member.encoder.tokenizer.get_vocab() for member in (one, other)]
    if vocabularies[0] != vocabularies[1]:
        word = min(set(vocabularies[0].items()) ^ set(vocabularies[1].items()))[0]
        return f"the tokenizers have different vocabularies (the first difference is at '{word}')"
    return ""


def _config(member: Member) -> dict[str, Any]:
    transformer: Any = model.transformer_of(member.encoder)
    return {key: value for key, value in transformer.config.to_dict().items() if key not in FREE}


def _report(members: Sequence[Member], shares: Sequence[float], figures: dict[str, Any]) -> dict[str, Any]:
    settings = [member.report.get("settings") or {} for member in members]
    bases = {str(one.get("paths.base", "")) for one in settings}
    return {
        "kind": "soup",
        "models": {str(member.folder): round(share, 6) for member, share in zip(members, shares)},
        **figures,
        "base": bases.pop() if len(bases) == 1 else "",
        "pooling": members[0].encoder[1].pooling_mode,
        "parameters": model.trainable(members[0].encoder)[1],
        "sources": list(dict.fromkeys(source for member in members for source in member.report.get("sources") or [])),
        "settings": {"encoder.max_length": members[0].encoder.max_seq_length},
        "seeds": [one.get("training.seed") for one in settings],
    }


# -- figures ------------------------------------------------------------------------------------------------------------


def held_out_measure(pairs: Path, kb: Path, *, seed: int = 0, queries: int = 1000, names: int = 10000) -> Measure:
    """Return a function that measures @1 of held-out synonyms against a sample of names, as during training.

    Raises:
        SapbertError: E502 (the pairs), E544 (no held-out queries).
    """
    opened = KnowledgeBase(kb)
    if check_folder(pairs)["kb"] != opened.fingerprint:
        raise fail("E502", path=pairs, why=f"they were made from another knowledge base than '{kb}'")
    sample = sample_of_queries(opened, str(pairs), seed, queries, names)
    if not sample.queries:
        raise fail("E544", name="held_out", why=f"'{pairs}' contains none")
    evaluator = HeldOutAccuracy(sample)
    return lambda encoder: evaluator(encoder)[str(evaluator.primary_metric)]


def similarity_measure(path: Path) -> Measure:
    """Return a function that measures Spearman's correlation x 100 on a file of scored pairs; the scores may have any scale.

    Raises:
        SapbertError: E526 (a line), E527 (no pairs).
    """
    evaluator = SimilarityCorrelation(read_scored(path, lowest=-1e9, highest=1e9).pairs)
    return lambda encoder: evaluator(encoder)[METRIC]


def chosen_measure(is_greedy: bool, pairs: Path | None, kb: Path | None, sts: Path | None) -> dict[str, Any]:
    """Return the arguments `measure` and `metric` for `make_soup`; {} for a soup that is not greedy.

    Raises:
        SapbertError: E511 if the arguments do not go together.
    """
    asked = bool(pairs or kb), bool(sts)
    if not is_greedy:
        if any(asked):
            raise fail("E511", setting="greedy", value=False, why="only a greedy soup measures its models; leave out pairs, kb and sts")
        return {}
    if asked == (True, False) and pairs and kb:
        return {"measure": held_out_measure(pairs, kb), "metric": "held_out_at1"}
    if asked == (False, True) and sts:
        return {"measure": similarity_measure(sts), "metric": "sts_spearman"}
    raise fail("E511", setting="greedy", value=True, why="give the data to measure on: pairs and kb, or sts")
