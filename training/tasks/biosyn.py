"""The task of BioSyn: a mention of a corpus learns to find any synonym of its concept among candidates of a sparse and a dense search.

The probability of a candidate is the softmax of its score over all candidates of the mention. The probabilities of the candidates of the gold concept
are added (marginal maximum likelihood). The candidates are searched again in every epoch. There are two differences from the paper: the vectors have
length 1, as in a linker, so the scores are divided by a temperature; and the sparse weight is in units of a cosine.

Source: Sung et al., ACL 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import read_corpus, shared_documents
from ..data.lookups import Concepts, Lookups, lookups, names_of, to_learn, with_mentions
from ..data.mentions import resolved_mentions
from ..errors import fail
from ..loop.batches import ShuffledBatches
from ..loop.synonyms import Candidates, Dense, NameAccuracy, Sparse
from ..loop.trainer import Objective, features, processes
from ..made import fingerprint
from ..recipe import Prepared, Table, Task, Words
from ..registry import registry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

PLACE, SPARSE, RIGHT = range(3)  # positions on the last axis of the labels


@registry.tasks("spacy-sapbert.BioSyn.v1")
def biosyn(
    train: list[str],
    dev: list[str] = [],
    kinds: list[str] = [],
    mentions: int = 16,
    candidates: int = 20,
    dense_share: float = 0.5,
    temperature: float = 0.05,
    sparse_weight: float = 0.0,
    sparse_rate: float = 0.01,
) -> BioSynTask:
    """Make the task.

    Args:
        train: Corpora to train on.
        dev: Corpora to measure on; the dictionary then also contains the mentions of `train`. Empty: nothing is measured.
        kinds: Only mentions of these kinds are used; empty: all.
        mentions: Number of mentions in a batch, of all processes together.
        candidates: Number of candidate names for each mention.
        dense_share: Share of the candidates that the encoder finds, 0 to 1; TF-IDF finds the others.
        temperature: The scores are divided by it.
        sparse_weight: Weight of the sparse score relative to the cosine, at the start of the training.
        sparse_rate: Learning rate of this weight.

    Raises:
        SapbertError: E511.
    """
    if not train:
        raise fail("E511", setting="task.train", value=train, why="give at least one corpus")
    for setting, value, least in (("mentions", mentions, 1), ("candidates", candidates, 2)):
        if value < least:
            raise fail("E511", setting=f"task.{setting}", value=value, why=f"it must be at least {least}")
    if not 0 <= dense_share <= 1:
        raise fail("E511", setting="task.dense_share", value=dense_share, why="it must be a share, from 0 to 1")
    for setting, rate in (("temperature", temperature), ("sparse_rate", sparse_rate)):
        if not rate > 0:
            raise fail("E511", setting=f"task.{setting}", value=rate, why="it must be above 0")
    return BioSynTask(train, dev, kinds, mentions, candidates, dense_share, temperature, sparse_weight, sparse_rate)


class BioSynTask(Task):
    """BioSyn, measured with the mentions of the dev corpora; the dictionary then also contains the training mentions."""

    paths = ("kb",)

    def __init__(
        self,
        train: list[str],
        dev: list[str],
        kinds: list[str],
        mentions: int,
        candidates: int,
        dense_share: float,
        temperature: float,
        sparse_weight: float,
        sparse_rate: float,
    ) -> None:
        self.train, self.dev, self.kinds = train, dev, kinds or None
        self.mentions, self.candidates, self.dense_share = mentions, candidates, dense_share
        self.temperature, self.sparse_weight, self.sparse_rate = temperature, sparse_weight, sparse_rate

    def check(self, recipe: Recipe) -> None:
        """Check the recipe: gradients cannot be cached, because the sparse weight has a gradient too."""
        super().check(recipe)
        if recipe.training.cache_gradients:
            raise ValueError("training.cache_gradients does not work with this task; to save memory, lower task.mentions or task.candidates")

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of mentions, the mentions of a batch, and the texts for each mention; see `Task.extent`."""
        return len(self._to_learn(Concepts(KnowledgeBase(recipe.paths.kb))).texts), self.mentions, 1 + self.candidates

    def _to_learn(self, concepts: Concepts) -> Lookups:
        found = to_learn((mention for path in self.train for mention in resolved_mentions(read_corpus(path, kinds=self.kinds))), concepts)
        if not found.texts:
            raise fail("E611", path=", ".join(self.train), why="no mention has a single id")
        return found

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the dictionary and the mentions.

        Raises:
            SapbertError: E611 (no mention to learn), E1xx (knowledge base), E546, and the errors of `read_corpus`.
        """
        from datasets import Dataset

        kb = KnowledgeBase(recipe.paths.kb)
        concepts, names = Concepts(kb), names_of(kb)
        parts = {path: read_corpus(path, kinds=self.kinds) for path in dict.fromkeys([*self.train, *self.dev])}
        learned = self._to_learn(concepts)
        earlier, asked_for = ([mention for path in paths for mention in resolved_mentions(parts[path])] for paths in (self.train, self.dev))
        larger, asked = with_mentions(names, earlier, concepts), lookups(asked_for, concepts)
        objective = SynonymMarginalisation(encoder, self.temperature, self.sparse_weight, recipe.training.batch_tokens)
        dense = Dense([*larger.texts, *learned.texts, *asked.texts], encoder, lambda: objective.names)
        sparse = Sparse(names.texts)
        candidates = Candidates(names, learned, dense, sparse, count=self.candidates, dense_share=self.dense_share)
        objective.candidates = candidates
        shared = [pair for pair in shared_documents(parts) if (pair.left in self.train) != (pair.right in self.train)]
        counts = {
            "names": len(names.texts),
            "mentions": len(earlier),
            "distinct_mentions": len(learned.texts),
            "dev_mentions": asked.mentions[-1] + 1 if asked.mentions else 0,
            "documents_in_both": len({document for pair in shared for document in pair.documents}),
        }

        def batches(dataset: Any, batch_size: int, drop_last: bool = False, seed: int = 0, **_: Any) -> RenewedBatches:
            return RenewedBatches(dataset, batch_size, seed, candidates)

        return Prepared(
            data=Dataset.from_dict({"mention": list(range(len(learned.texts)))}),
            batch_size=self.mentions,
            batches=batches,
            collator=CandidateCollator(encoder.tokenizer, recipe.encoder.max_length, candidates),
            objective=objective,
            evaluator=NameAccuracy(larger, asked, dense, sparse, lambda: objective.sparse_weight.item()) if asked.texts else None,
            data_settings={
                "kb": kb.fingerprint,
                **{
                    part: fingerprint({"texts": of.texts, "gold": [sorted(one) for one in of.gold]})
                    for part, of in (("train", learned), ("dev", asked))
                },
            },
            report={"biosyn": counts, "sources": [*self.train]},
            words=words,
            paths=("train", "dev"),
            rates={"sparse_weight": self.sparse_rate},
        )


class RenewedBatches(ShuffledBatches):
    """Shuffled batches. A new epoch searches the candidates of the mentions again.

    Args:
        dataset: The data set; only its number of rows is used.
        batch_size: Number of rows in a batch.
        seed: Seed of the order.
        candidates: Candidates of the mentions.
    """

    def __init__(self, dataset: Any, batch_size: int, seed: int, candidates: Candidates) -> None:
        super().__init__(dataset, batch_size, seed=seed)
        self.candidates = candidates

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order, and search the candidates with the encoder as it is now."""
        super().set_epoch(epoch)
        self.candidates.renew(epoch)


class CandidateCollator:
    """Make a batch: the tokens of q mentions and of the distinct names of their candidates.

    The result has the form of `training.loop.trainer.NameCollator`: first the q mentions, then the names. "label" is (q, k, 3): for each candidate
    the position of its name among the names of the batch, its sparse score, and 1 if it is right.

    Args:
        tokenizer: Tokenizer of the encoder.
        max_length: Greatest number of tokens of a text.
        candidates: Candidates of all mentions.
    """

    valid_label_columns = ["label"]

    def __init__(self, tokenizer: Any, max_length: int, candidates: Candidates) -> None:
        self.tokenizer, self.max_length, self.candidates = tokenizer, max_length, candidates

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tokens and labels of a batch."""
        found, chosen = self.candidates, [int(row["mention"]) for row in rows]
        names, places = np.unique(found.rows[chosen], return_inverse=True)
        label = np.empty((len(chosen), found.count, 3), dtype=np.float32)  # float32 holds positions up to 2 ** 24 exactly
        label[:, :, PLACE] = places.reshape(len(chosen), found.count)
        for i, mention in enumerate(chosen):
            label[i, :, SPARSE], label[i, :, RIGHT] = found.sparse_scores(mention), found.right(mention)
        texts = [found.mentions.texts[mention] for mention in chosen] + [found.names.texts[row] for row in names.tolist()]
        return features(self.tokenizer, texts, self.max_length, torch.from_numpy(label))


class SynonymMarginalisation(Objective):
    """The marginal likelihood of the right candidates, for the mentions of a batch.

    A score is (cosine + weight x sparse score) / temperature.

    Args:
        model: The encoder.
        temperature: The scores are divided by it.
        sparse_weight: First value of the weight, which is learned.
        batch_tokens: See `Objective`.

    Attributes:
        candidates: Candidates of the training mentions; they are part of a checkpoint.
    """

    candidates: Candidates

    def __init__(self, model: Any, temperature: float, sparse_weight: float = 0.0, batch_tokens: int = 0) -> None:
        super().__init__(model, batch_tokens)
        self.temperature = temperature
        self.sparse_weight = torch.nn.Parameter(torch.tensor(float(sparse_weight)))
        self.sparse_weight.register_hook(_averaged)

    def measure(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of the mentions that have a right candidate, over all processes; a scalar.

        Args:
            vectors: (q + n, d), the L2-normalised vectors of q mentions and then of n names.
            labels: (q, k, 3), see `CandidateCollator`.
        """
        self.names += len(vectors) * processes()
        vectors = vectors.float()
        mentions, names = vectors[: len(labels)], vectors[len(labels) :]
        cosines = (mentions[:, None] * names[labels[:, :, PLACE].long()]).sum(dim=2)  # (q, k)
        losses = marginal_losses((cosines + self.sparse_weight * labels[:, :, SPARSE]) / self.temperature, labels[:, :, RIGHT] > 0)
        count = torch.tensor(float(len(losses)), device=vectors.device)
        if processes() > 1:
            dist.all_reduce(count)
        nothing = 0 * (vectors.sum() + self.sparse_weight)  # gives every weight a gradient, even if no mention has a right candidate
        return losses.sum() * processes() / count.clamp(min=1) + nothing

    def own_state(self) -> dict[str, torch.Tensor]:
        """Return the state for a checkpoint: the sparse weight, and the candidates with their epoch."""
        rows, epoch = torch.from_numpy(self.candidates.rows), torch.tensor(self.candidates.epoch)
        return {"sparse_weight": self.sparse_weight.detach().cpu(), "candidates": rows, "epoch": epoch}

    def load_own_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state that `own_state` returned."""
        with torch.no_grad():
            self.sparse_weight.copy_(state["sparse_weight"])
        self.candidates.keep(state["candidates"].numpy(), int(state["epoch"]))


def _averaged(gradient: torch.Tensor) -> torch.Tensor:
    """Return the mean of a gradient over the processes. DistributedDataParallel averages only the gradients of the encoder."""
    if processes() > 1:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        gradient /= processes()
    return gradient


def marginal_losses(scores: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return -log of the total probability of all right candidates, for each mention that has one.

    Args:
        scores: (q, k), scores of the candidates; the probability is their softmax.
        right: bool (q, k), whether a candidate is right.

    Returns:
        (u,) for the u mentions with a right candidate.
    """
    useful = right.any(dim=1)
    scores, right = scores[useful], right[useful]
    return scores.logsumexp(dim=1) - scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    counts = report["biosyn"]
    data = (
        f"{counts['distinct_mentions']:,} distinct mentions of {', '.join(report['sources'])} ({counts['mentions']:,} with composites and "
        f"repetitions), each compared with names of a dictionary of {counts['names']:,}. Do not measure on the corpora from which the mentions were taken."
    )
    if not report["after"]:
        return Words("BioSyn (Sung et al., ACL 2020)", "mentions find any synonym of their concept", data, tag="biosyn")
    measured = (
        f"{counts['dev_mentions']:,} mentions of the dev part, counted as BioSyn does: names in lower case without punctuation, including the "
        f"training mentions; all parts of a composite\nmust be right. The sparse weight is {report['after']['sparse_weight']}."
    )
    rows = [(title, (f"{by}_at1", f"{by}_at5")) for by, title in (("both", "both scores"), ("dense", "only vectors"), ("sparse", "only TF-IDF"))]
    return Words(
        "BioSyn (Sung et al., ACL 2020)", "mentions find any synonym of their concept", data, measured, (Table(("@1", "@5"), rows),), tag="biosyn"
    )
