"""The task of sentence similarity: pairs of texts with a human score, so that the encoder stays good at the similarity of sentences.

BioLORD-2023 adapts its base in this way before and after the contrastive phase. The pairs are those of the training part of STS-B, or any file with
the columns named below. SICK has such columns too, but its licence is non-commercial: nothing that is shipped may be trained on it.

Source: Remy et al., JAMIA 2024; STS-B: Cer et al., SemEval 2017; SICK: Marelli et al., LREC 2014.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, CosineSimilarityLoss

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.files import checksum

from ..data.similarity import TextPair
from ..errors import fail
from ..loop.batches import ShuffledBatches
from ..loop.trainer import Objective, TextCollator, encode, gather, of_the_first, processes
from ..recipe import Prepared, Table, Task, Words
from ..registry import registry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

# Names of the columns in a file with a header, in lower case: of sentence-transformers · SICK · BIOSSES · UMNSRS, MayoSRS · EHR-Rel
LEFT = ("sentence1", "sentence_a", "sent_1", "text1", "term1", "term_1", "snomed_label_1")
RIGHT = ("sentence2", "sentence_b", "sent_2", "text2", "term2", "term_2", "snomed_label_2")
SCORE = ("score", "relatedness_score", "sim", "similarity", "label", "mean", "mean_rating", "mean score")
METRIC = "sts_spearman"
Scale = tuple[float, float]  # lowest and highest score
SHOWN = 60  # greatest number of characters of a line in a message


class Scored(NamedTuple):
    """Pairs of texts with scores, of one or several files.

    Attributes:
        pairs: The pairs.
        unscored: Number of lines with an empty score, which are left out.
    """

    pairs: list[TextPair]
    unscored: int


@registry.tasks("spacy-sapbert.SentenceSimilarity.v1")
def sentence_similarity(
    train: list[str],
    dev: str = "",
    loss: Literal["cosent", "cosine"] = "cosent",
    scale: float = 20.0,
    pairs: int = 32,
    lowest: float = 0.0,
    highest: float = 5.0,
    ranges: list[list[float]] = [],
    missing: Literal["refuse", "leave out"] = "refuse",
) -> SentenceSimilarityTask:
    """Make the task: the cosine of a pair of texts learns to agree with the human score.

    Args:
        train: Files of pairs, see `read_scored`.
        dev: File of pairs to measure on; its pairs are left out of the training. "": nothing is measured.
        loss: "cosent" (uses only the order of the scores) or "cosine" (squared difference from the score, scaled to 0 to 1); both are losses of
            sentence-transformers.
        scale: Scale of CoSENT, 1 / temperature.
        pairs: Number of pairs in a batch, of all processes together.
        lowest: Lowest score of the scale (STS-B: 0).
        highest: Highest score of the scale (STS-B: 5).
        ranges: Lowest and highest score of each file of `train`, in their order, if the scales differ (STS-B [0, 5], SICK [1, 5], BIOSSES [0, 4]).
            Each is scaled to 0 to 1. Empty: all files have the scale above. The dev file always has the scale above.
        missing: What to do if a file of `train` does not exist: "refuse" raises an error, "leave out" trains without the file, for data sets for
            which only some users have a licence.

    Raises:
        SapbertError: E511.

    Source:
        CoSENT: Huang et al., TASLP 2024.
    """
    if not train:
        raise fail("E511", setting="task.train", value=train, why="give at least one file of pairs")
    if pairs < 2:
        raise fail("E511", setting="task.pairs", value=pairs, why="it must be at least 2")
    if not scale > 0:
        raise fail("E511", setting="task.scale", value=scale, why="it must be above 0")
    if not highest > lowest:
        raise fail("E511", setting="task.highest", value=highest, why=f"it must be above the lowest score, {lowest:g}")
    if ranges and not (len(ranges) == len(train) and all(len(pair) == 2 and pair[1] > pair[0] for pair in ranges)):
        raise fail("E511", setting="task.ranges", value=ranges, why=f"give [lowest, highest] for each of the {len(train)} files of task.train")
    scales = [(float(low), float(high)) for low, high in ranges or [[lowest, highest]] * len(train)]
    return SentenceSimilarityTask(dict(zip(train, scales)), dev, loss, scale, pairs, (lowest, highest), leave_out=missing == "leave out")


class SentenceSimilarityTask(Task):
    """Sentence similarity, measured with Spearman's correlation on the dev pairs."""

    def __init__(self, train: dict[str, Scale], dev: str, loss: str, scale: float, pairs: int, dev_scale: Scale, *, leave_out: bool = False) -> None:
        self.train, self.dev, self.loss, self.scale = train, dev, loss, scale
        self.pairs, self.dev_scale, self.leave_out = pairs, dev_scale, leave_out

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of pairs, the pairs of a batch, and 2; see `Task.extent`."""
        files = self._files()
        return sum(len(read_scored(path, lowest=low, highest=high).pairs) for path, (low, high) in files.items()), self.pairs, 2

    def _files(self) -> dict[Path, Scale]:
        """Return the files of pairs to read, with their scales."""
        return {Path(name): scale for name, scale in self.train.items() if not self.leave_out or Path(name).is_file()}

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the pairs.

        Raises:
            SapbertError: E526 (a line), E527 (no pairs).
        """
        from datasets import Dataset

        files = self._files()
        read = [read_scored(path, lowest=low, highest=high) for path, (low, high) in files.items()]
        dev = read_scored(Path(self.dev), lowest=self.dev_scale[0], highest=self.dev_scale[1]) if self.dev else Scored([], 0)
        measured = {_key(pair) for pair in dev.pairs}
        every = [
            pair._replace(score=(pair.score - low) / (high - low)) for part, (low, high) in zip(read, files.values()) for pair in part.pairs
        ]  # scores from 0 to 1
        pairs = [pair for pair in every if _key(pair) not in measured]
        if len({pair.score for pair in pairs}) < 2:
            raise fail("E527", path=", ".join(self.train), why=f"{len(pairs)} pairs remain; at least two different scores are needed")
        if self.dev and len({pair.score for pair in dev.pairs}) < 2:
            raise fail("E527", path=self.dev, why=f"it contains {len(dev.pairs)} pairs; at least two different scores are needed")
        data = Dataset.from_dict(
            {
                "left": [pair.left for pair in pairs],
                "right": [pair.right for pair in pairs],
                "score": [pair.score for pair in pairs],
            }
        )

        def scores(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
            return torch.tensor([row["score"] for row in rows], dtype=torch.float32)

        counts = {
            "pairs": len(pairs),
            "pairs_in_dev_too": len(every) - len(pairs),
            "unscored": sum(part.unscored for part in read),
            "files_not_there": len(self.train) - len(files),
            "dev_pairs": len(dev.pairs),
        }
        return Prepared(
            data=data,
            batch_size=self.pairs,
            batches=ShuffledBatches.make,
            collator=TextCollator(encoder.tokenizer, recipe.encoder.max_length, ("left", "right"), scores),
            objective=SimilarityLoss(encoder, self.loss, self.scale, recipe.training.batch_tokens, recipe.training.cache_gradients),
            evaluator=SimilarityCorrelation(dev.pairs) if dev.pairs else None,
            data_settings={"sts": [checksum(path) for path in files], **({"sts_dev": checksum(Path(self.dev))} if self.dev else {})},
            report={"sts": counts, "sources": [path.name for path in files]},
            words=words,
            paths=("train", "dev"),
        )


def _key(pair: TextPair) -> tuple[str, ...]:
    return tuple(sorted((pair.left, pair.right)))


class SimilarityLoss(Objective):
    """The CoSENT or cosine loss of the pairs of a batch, over the pairs of all processes.

    Args:
        model: The encoder.
        loss: "cosent" or "cosine".
        scale: Scale of CoSENT.
        batch_tokens: See `Objective`.
        cache_gradients: See `Objective`.
    """

    def __init__(self, model: SentenceTransformer, loss: str, scale: float, batch_tokens: int, cache_gradients: bool = False) -> None:
        super().__init__(model, batch_tokens, cache_gradients)
        # the loss gets vectors and not the model; otherwise the model would be saved with the loss, and wrapped twice
        self.loss: Any = CoSENTLoss(None, scale=scale) if loss == "cosent" else CosineSimilarityLoss(None)  # type: ignore[arg-type]

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss, a scalar, of vectors (2n, d), of n left and then n right texts, and scores (n,) from 0 to 1."""
        self.names += len(vectors) * processes()
        left, right = vectors.float().chunk(2)
        left, scores, scale = gather(left, labels.float())
        right, _, _ = gather(right, labels.float())
        loss: torch.Tensor = self.loss.compute_loss_from_embeddings([left, right], scores)
        return loss * scale - loss.detach() * (scale - 1)  # scales the gradient, but not the value that is logged


class SimilarityCorrelation(BaseEvaluator):
    """Measure Spearman's correlation x 100 between cosines and human scores."""

    def __init__(self, pairs: Sequence[TextPair]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.texts = [pair.left for pair in pairs] + [pair.right for pair in pairs]
        self.scores = [pair.score for pair in pairs]
        self.primary_metric = METRIC

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """Return the figure, -100 to 100."""
        from scipy.stats import spearmanr

        left, right = np.split(encode(model, self.texts), 2)  # (n, d), L2-normalised
        found = 100.0 * float(spearmanr((left * right).sum(axis=1), self.scores).statistic)
        return of_the_first({METRIC: round(found, 3)})


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    counts = report["sts"]
    data = (
        f"{counts['pairs']:,} pairs of texts with a human score ({', '.join(report['sources'])}); left out: {counts['unscored']:,} lines "
        f"without a score, and {counts['pairs_in_dev_too']:,} pairs that are also in the dev file."
    )
    if counts["files_not_there"]:
        data += f" {counts['files_not_there']} files of the recipe did not exist."
    measured, tables = similarity_table(report)
    return Words(
        "sentence similarity (CoSENT or cosine loss)", "cosines agree with human scores of similarity", data, measured, tables, tag="sts", limits=""
    )


def similarity_table(report: dict[str, Any]) -> tuple[str, list[Table]]:
    """Return a description of the figure, and its table."""
    if METRIC not in report["after"]:
        return "", []
    measured = f"Spearman's correlation × 100 of cosines and human scores, over {report['sts']['dev_pairs']:,} pairs of texts."
    return measured, [Table(("Spearman",), [("sentence similarity", (METRIC,))])]


# -- files of pairs -----------------------------------------------------------------------------------------------------


def read_scored(path: str | Path, *, lowest: float = 0.0, highest: float = 5.0) -> Scored:
    """Read pairs of texts and their scores from a tab- or comma-separated file (.gz or not, UTF-8).

    The file has three columns without a header (STS-B: sentence, sentence, score), or a header with the names of the columns (LEFT, RIGHT, SCORE
    above); other columns are ignored. Quotes have a meaning only in comma-separated files. A line without a score is counted and left out.

    Args:
        path: The file.
        lowest: Lowest score of the scale.
        highest: Highest score of the scale.

    Raises:
        SapbertError: E526 with the line (columns missing, an empty text, a score that is not a number or outside the scale); E527 (the file is empty,
            not UTF-8, or has other columns).
    """
    path = Path(path)
    rows = _rows(path)
    number, first = next(rows, (0, []))
    if not first:
        raise fail("E527", path=path, why="it is empty")
    columns = _columns(first)
    if columns is None:
        if len(first) != 3 or _number(first[2]) is None:
            why = f"its first line, '{' '.join(first)[:SHOWN]}', is neither text, text, score nor a header with columns {LEFT[0]}, {RIGHT[0]}, {SCORE[0]}"
            raise fail("E527", path=path, why=why)
        rows, columns = chain([(number, first)], rows), (0, 1, 2)
    pairs: list[TextPair] = []
    unscored = 0
    for number, row in rows:
        if len(row) != len(first):
            raise _bad(path, number, row, f"it has {len(row)} columns, but the first line has {len(first)}")
        left, right, text = (" ".join(row[column].split()) for column in columns)
        if not left or not right:
            raise _bad(path, number, row, "a text is empty")
        if not text or text.lower() == "nan":
            unscored += 1
            continue
        score = _number(text)
        if score is None or not lowest <= score <= highest:
            raise _bad(path, number, row, f"'{text[:SHOWN]}' is not a score from {lowest:g} to {highest:g}")
        pairs.append(TextPair(left, right, score))
    return Scored(pairs, unscored)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number of the end of each row, and the cells of the row. Empty rows are left out."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="") if path.suffix == ".gz" else open(path, encoding="utf-8-sig", newline="") as file
        ):
            head = file.readline()
            tabs = "\t" in head
            file.seek(0)
            reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(file)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise fail("E527", path=path, why=f"it is not UTF-8 ({error.reason} at byte {error.start})") from error
    except (OSError, EOFError, csv.Error) as error:
        raise fail("E527", MissingFile, path=path, why=str(error)) from error


def _columns(head: Sequence[str]) -> tuple[int, int, int] | None:
    names = [name.strip().lower() for name in head]
    found = [next((names.index(name) for name in known if name in names), None) for known in (LEFT, RIGHT, SCORE)]
    return None if None in found else (found[0], found[1], found[2])  # type: ignore[return-value]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _bad(path: Path, number: int, row: Sequence[str], why: str) -> Exception:
    return fail("E526", path=path, line=number, text=" ".join(row)[:SHOWN], why=why)
