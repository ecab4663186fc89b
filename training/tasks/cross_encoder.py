"""The task of the cross-encoder: a text of a mention and the names of a candidate becomes near to one fixed text if the candidate is right.

The logit of a candidate is scale x (cosine of its pair with the fixed text) + the weighted scores of the search. So the encoder learns what the scores
do not know. The loss is that of BioSyn: -log of the total probability of the right candidates among all candidates of a mention.

Source: Sung et al., ACL 2020, equation 6 (the loss); Ji, Wei and Xu, AMIA 2020 (a transformer that reads mention and name together).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sentence_transformers.base.evaluation import BaseEvaluator

from spacy_sapbert.ranking.pairs import AGREEMENT, pair_text

from ..errors import fail
from ..loop.batches import ShuffledBatches
from ..loop.trainer import Objective, encode, features, mean_over_processes, of_the_first, processes
from ..made import fingerprint
from ..recipe import Prepared, Table, Task, Words
from ..registry import registry
from .biosyn import marginal_losses

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

PRIOR, RIGHT = range(2)  # positions on the last axis of the labels
SCALE = 20.0  # factor of the cosine of a pair; the default of the task
SCORE_WEIGHTS = (7.0, 13.0)  # factors of the cosines of the default encoder and of the static encoder, see `training.evaluation.close_calls`
NOTHING = -1e4  # logit of a place without a candidate


class Call(NamedTuple):
    """A mention with its candidates, the highest score of the search first.

    Attributes:
        mention: the normalised mention.
        names: of each candidate, see `pair_text`.
        scores: (c, s) scores of each candidate by the search.
        right: (c,) whether each candidate is right.
        around: the text around the mention, see `pair_text`; "" if it is not read.
        definitions: (c,) the definition of each candidate, "" for none; empty if they are not read.
    """

    mention: str
    names: list[list[str]]
    scores: list[list[float]]
    right: list[bool]
    around: str = ""
    definitions: list[str] = []

    def texts(self) -> list[str]:
        """Return the text that the cross-encoder reads for each candidate, (c,)."""
        return [pair_text(self.mention, names, self.around, definition) for names, definition in zip(self.names, self.definitions or repeat(""))]


def read_calls(path: Path) -> list[Call]:
    """Read mentions with candidates, as `python -m training close-calls` writes them: JSON lines.

    Raises:
        SapbertError: E611, there is no such file, a line is damaged, or the file has none.
    """
    if not path.is_file():
        raise fail("E611", path=path, why="there is no such file; `python -m training close-calls` writes it")
    calls = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            call = Call(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise fail("E611", path=path, why=f"line {number} is no mention with candidates ({error})") from error
        if not len(call.names) == len(call.scores) == len(call.right) or len(call.definitions) not in (0, len(call.names)):
            counts = f"{len(call.names)} candidates, {len(call.scores)} scores, {len(call.right)} marks and {len(call.definitions)} definitions"
            raise fail("E611", path=path, why=f"line {number} has {counts}")
        calls.append(call)
    if not calls:
        raise fail("E611", path=path, why="it has no mention")
    return calls


@registry.tasks("spacy-sapbert.CrossEncoder.v1")
def cross_encoder(
    train: str, dev: str = "", mentions: int = 16, candidates: int = 8, scale: float = SCALE, score_weights: list[float] = list(SCORE_WEIGHTS)
) -> CrossEncoderTask:
    """Make the task.

    Args:
        train: File of mentions with candidates to train on.
        dev: File to measure on; "": nothing is measured.
        mentions: Number of mentions in a batch, of all processes together.
        candidates: Number of candidates of a mention: the right ones and those with the highest scores.
        scale: Factor of the cosine of a pair.
        score_weights: Factor of each score of the search.

    Raises:
        SapbertError: E511.
    """
    if not train:
        raise fail("E511", setting="task.train", value=train, why="give a file that `python -m training close-calls` wrote")
    for setting, value, least in (("mentions", mentions, 1), ("candidates", candidates, 2)):
        if value < least:
            raise fail("E511", setting=f"task.{setting}", value=value, why=f"it must be at least {least}")
    if not scale > 0:
        raise fail("E511", setting="task.scale", value=scale, why="it must be above 0")
    return CrossEncoderTask(train, dev, mentions, candidates, scale, score_weights)


class CrossEncoderTask(Task):
    """The cross-encoder, measured by how often the first candidate of a mention is right."""

    def __init__(self, train: str, dev: str, mentions: int, candidates: int, scale: float, score_weights: list[float]) -> None:
        self.train, self.dev, self.mentions, self.candidates = train, dev, mentions, candidates
        self.scale, self.score_weights = scale, score_weights

    def check(self, recipe: Recipe) -> None:
        """Check the recipe: gradients cannot be cached, because a batch is divided by its mentions."""
        super().check(recipe)
        if recipe.training.cache_gradients:
            raise ValueError("training.cache_gradients does not work with this task; to save memory, lower task.mentions or task.candidates")

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of mentions, the mentions of a batch, and the texts for each mention; see `Task.extent`."""
        return len(self._to_learn()), self.mentions, self.candidates

    def _to_learn(self) -> list[Call]:
        """Return the mentions that have a right candidate and a wrong one."""
        calls = [shortened(call, self.candidates) for call in self._read(self.train)]
        useful = [call for call in calls if any(call.right) and not all(call.right)]
        if not useful:
            raise fail("E611", path=self.train, why="no mention has a right candidate and a wrong one")
        return useful

    def _read(self, path: str) -> list[Call]:
        calls = read_calls(Path(path))
        if any(len(scores) != len(self.score_weights) for call in calls for scores in call.scores):
            why = f"the candidates of '{path}' have another number of scores"
            raise fail("E511", setting="task.score_weights", value=self.score_weights, why=why)
        return calls

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the mentions.

        Raises:
            SapbertError: E511, E611 (a file can't be used).
        """
        from datasets import Dataset

        learned = self._to_learn()
        asked = self._read(self.dev) if self.dev else []
        return Prepared(
            data=Dataset.from_dict({"call": list(range(len(learned)))}),
            batch_size=self.mentions,
            batches=ShuffledBatches.make,
            collator=PairCollator(encoder.tokenizer, recipe.encoder.max_length, learned, self.score_weights),
            objective=Agreement(encoder, self.scale, recipe.training.batch_tokens),
            evaluator=FirstRight(asked, self.scale, self.score_weights) if asked else None,
            data_settings={part: fingerprint({"calls": calls}) for part, calls in (("train", learned), ("dev", asked))},
            report={"calls": {"train": len(learned), "dev": len(asked)}, "sources": [self.train]},
            words=words,
            paths=("train", "dev"),
        )


def shortened(call: Call, most: int) -> Call:
    """Return a mention with at most `most` candidates: the first ones; the first right one takes the last place if it is not among them."""
    kept = list(range(len(call.right)))[:most]
    first = call.right.index(True) if True in call.right else None
    if first is not None and first >= most:
        kept[-1] = first
    return call._replace(
        names=[call.names[i] for i in kept],
        scores=[call.scores[i] for i in kept],
        right=[call.right[i] for i in kept],
        definitions=[call.definitions[i] for i in kept] if call.definitions else [],
    )


def priors(call: Call, weights: Sequence[float]) -> list[float]:
    """Return the weighted sum of the scores of each candidate, (c,)."""
    return [float(np.dot(scores, weights)) for scores in call.scores]


class PairCollator:
    """Make a batch: the tokens of the fixed text and of the pairs of q mentions with their candidates.

    The result has the form of `training.loop.trainer.NameCollator`: first the fixed text, then the pairs. "label" is (q, k, 2) for the largest number
    k of candidates of a mention: the weighted scores of the search, and 1 if the candidate is right. A place without a candidate has -inf and 0.

    Args:
        tokenizer: Tokenizer of the encoder.
        max_length: Greatest number of tokens of a text.
        calls: All mentions.
        weights: Factor of each score.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, calls: Sequence[Call], weights: Sequence[float]) -> None:
        self.tokenizer, self.max_length, self.calls, self.weights = tokenizer, max_length, calls, weights

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tokens and labels of a batch."""
        calls = [self.calls[int(row["call"])] for row in rows]
        label = torch.zeros((len(calls), max(len(call.right) for call in calls), 2))
        label[:, :, PRIOR] = -torch.inf
        for i, call in enumerate(calls):
            label[i, : len(call.right), PRIOR] = torch.tensor(priors(call, self.weights))
            label[i, : len(call.right), RIGHT] = torch.tensor(call.right, dtype=torch.float32)
        texts = [AGREEMENT, *(text for call in calls for text in call.texts())]
        return features(self.tokenizer, texts, self.max_length, label)


class Agreement(Objective):
    """The marginal likelihood of the right candidates by the agreement of their pairs and the scores of the search.

    Args:
        model: The encoder.
        scale: Factor of the cosine of a pair.
        batch_tokens: See `Objective`.
    """

    def __init__(self, model: Any, scale: float, batch_tokens: int = 0) -> None:
        super().__init__(model, batch_tokens)
        self.scale = scale

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of the mentions, over all processes; a scalar.

        Args:
            vectors: (1 + n, d), the L2-normalised vectors of the fixed text and of n pairs.
            labels: (q, k, 2), see `PairCollator`.
        """
        self.names += len(vectors) * processes()
        vectors = vectors.float()
        there = labels[:, :, PRIOR] > -torch.inf  # (q, k)
        logits = torch.full(there.shape, NOTHING, device=vectors.device)
        logits[there] = self.scale * (vectors[1:] @ vectors[0]) + labels[:, :, PRIOR][there]
        return mean_over_processes(marginal_losses(logits, labels[:, :, RIGHT] > 0).mean(), len(labels))


class FirstRight(BaseEvaluator):
    """Measure the per cent of mentions whose first candidate is right, by the scores of the search, by agreement and scores, and by agreement alone.

    Args:
        calls: The mentions with their candidates.
        scale: Factor of the cosine of a pair.
        weights: Factor of each score.
    """

    def __init__(self, calls: Sequence[Call], scale: float, weights: Sequence[float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls, self.scale, self.weights = calls, scale, weights
        self.primary_metric = "both_at1"

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """Return the figures. A mention without a right candidate counts as wrong."""
        texts = [AGREEMENT, *(text for call in self.calls for text in call.texts())]
        vectors = encode(model, texts)
        cosines = np.split(vectors[1:] @ vectors[0], np.cumsum([len(call.right) for call in self.calls])[:-1])
        hits = {"both_at1": 0, "scores_at1": 0, "agreement_at1": 0}
        for call, cosine in zip(self.calls, cosines):
            if not any(call.right):
                continue
            prior = np.array(priors(call, self.weights))
            for key, by in (("both_at1", self.scale * cosine + prior), ("scores_at1", prior), ("agreement_at1", cosine)):
                hits[key] += call.right[int(np.argmax(by))]
        return of_the_first({key: round(100.0 * hit / len(self.calls), 3) for key, hit in hits.items()})


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    counts = report["calls"]
    data = (
        f"{counts['train']:,} mentions of {', '.join(report['sources'])}, each with the candidates of a search. Do not measure on the corpora from which "
        "the mentions were taken."
    )
    measured = (
        ""
        if not report["after"]
        else f"{counts['dev']:,} mentions of the dev part that are no name of their dictionary: per cent whose first candidate is right."
    )
    rows = [(title, (f"{by}_at1",)) for by, title in (("both", "agreement and scores"), ("scores", "scores"), ("agreement", "agreement"))]
    tables = [Table(("@1",), rows)] if measured else []
    limits = "It is no encoder of names: it reads a mention and the names of one candidate together."
    return Words("a cross-encoder", "a mention and the names of its concept agree", data, measured, tables, tag="cross-encoder", limits=limits)
