"""The losses of SapBERT's Table 6 (Liu et al., NAACL 2021): (embeddings, labels, pairs) -> scalar. No optimiser, device or data.

Rules for all losses here:

- S is the cosine and D the Euclidean distance of two normalised vectors. Embeddings are normalised inside, so callers need not normalise them.
- All names of one label are positives of each other; names of different labels are negatives.
- `pairs` says which of them count. None: all pairs of the batch (for the triplet loss: all triplets). In a miner's triplets (a, p, n),
  each stands for one positive pair (a, p) and one negative pair (a, n) of the anchor a. A pair that is in many triplets counts once:
  P_a and N_a below are sets. Multi-similarity, which works on a mask, always does this. Without this rule InfoNCE, NCA and the others
  would weight a pair by its number of triplets, which would be another loss. The triplet loss uses the triplets themselves.
- A batch without positive pairs or without negative pairs, mined or not, gives exactly 0 with a gradient of zeros.
- Arithmetic is in float32 or better, with autocast off. A NaN or infinite value in the embeddings makes the loss NaN; some averages of the
  library would ignore it.

The formula is written on pytorch-metric-learning's base class with (n, n) arrays where the library's own class would compute another loss
(`NCALoss` only changes the weights of anchors by the mined tuple), or would pair every positive with every negative (`NTXentLoss`,
`LiftedStructureLoss`: 2.5 GB and seconds per step at 512 names). Tests compare the results with the library's values.
"""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.losses.generic_pair_loss import GenericPairLoss
from pytorch_metric_learning.reducers import AvgNonZeroReducer, MeanReducer
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu
from torch.nn.functional import softplus

from training.errors import fail
from training.loop.mining import Indices, check_batch, check_setting
from training.registry import registry


class BatchLoss(torch.nn.Module):
    """A loss over the names of one batch, with the rules of the module's docstring.

    Args:
        name: The registered name, for error messages.
        method: The library's loss, called with float32 vectors, labels and an index tuple.
        triplets: Whether `method` takes triplets (a, p, n); if not, it takes pairs (a1, p, a2, n).
    """

    def __init__(self, name: str, method: torch.nn.Module, *, triplets: bool = False) -> None:
        super().__init__()
        self.name = name
        self.method = method
        self.triplets = triplets

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, pairs: Indices | None = None) -> torch.Tensor:
        """Return the loss of a batch.

        Args:
            embeddings: Float (n, d), normalised or not, of any floating dtype.
            labels: Int (n,).
            pairs: The result of a miner; None for all pairs.

        Returns:
            A scalar, float32 (float64 for float64 embeddings), always with a gradient for the embeddings.

        Raises:
            SapbertError: E522 for other shapes or types, E523 for a tuple of another form.
        """
        check_batch(self.name, embeddings, labels)
        if pairs is not None and not (len(pairs) in (3, 4) and all(index.ndim == 1 for index in pairs)):
            raise fail("E523", owner=self.name, got=[tuple(index.shape) for index in pairs])
        with torch.autocast(device_type=embeddings.device.type, enabled=False):
            vectors = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))  # (n, d)
            labels = labels.to(vectors.device)
            nothing = (vectors * 0).sum()  # 0 with a gradient of zeros; NaN where a vector is not finite
            indices = lmu.convert_to_triplets(pairs, labels, t_per_anchor="all") if self.triplets else distinct_pairs(pairs, labels)
            if any(len(index) == 0 for index in indices):
                return nothing
            loss: torch.Tensor = self.method(vectors, labels, indices)
            return loss + nothing


def distinct_pairs(pairs: Indices | None, labels: torch.Tensor) -> Indices:
    """Return every positive and every negative pair once.

    Args:
        pairs: Triplets (a, p, n), pairs (a1, p, a2, n), or None for all pairs.
        labels: Int (n,).

    Returns:
        anchor1, positive, anchor2, negative, sorted by anchor.
    """
    anchor1, positive, anchor2, negative = lmu.convert_to_pairs(pairs, labels)
    if pairs is not None:
        anchor1, positive = _once(anchor1, positive, len(labels))
        anchor2, negative = _once(anchor2, negative, len(labels))
    if len(anchor1) == 1:
        # the library treats a batch with one positive and one negative pair as empty; repeating the pair does not change a mean
        anchor1, positive = anchor1.repeat(2), positive.repeat(2)
    return anchor1, positive, anchor2, negative


def _once(rows: torch.Tensor, columns: torch.Tensor, size: int) -> Indices:
    mask = torch.zeros((size, size), dtype=torch.bool, device=rows.device)
    mask[rows, columns] = True
    return torch.where(mask)


def _log_sum(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return for each row the logarithm of the sum of e^score over the mask, (n, n) -> (n, 1); the lowest float if the mask of a row is empty."""
    lowest = torch.finfo(scores.dtype).min  # not -inf: its gradient would be NaN
    return torch.logsumexp(scores.masked_fill(~mask.bool(), lowest), dim=1, keepdim=True)


def _for_positives(values: torch.Tensor, pos_mask: torch.Tensor) -> dict[str, Any]:
    """Return one loss for each positive pair, in the form that the library's reducers take."""
    found = torch.where(pos_mask)
    return {"loss": {"losses": values[found], "indices": found, "reduction_type": "pos_pair"}}


class _InfoNCE(GenericPairLoss):  # type: ignore[misc]
    """The library's `NTXentLoss` with (n, n) arrays. It also has a gradient where e^(S/τ) would underflow."""

    def __init__(self, temperature: float) -> None:
        super().__init__(mat_based_loss=True, distance=CosineSimilarity())
        self.temperature = temperature

    def _compute_loss(self, mat: torch.Tensor, pos_mask: torch.Tensor, neg_mask: torch.Tensor) -> dict[str, Any]:
        scores = mat / self.temperature  # (n, n)
        return _for_positives(softplus(_log_sum(scores, neg_mask) - scores), pos_mask)


class _LiftedStructure(GenericPairLoss):  # type: ignore[misc]
    """The library's `LiftedStructureLoss` with (n, n) arrays."""

    def __init__(self, margin: float) -> None:
        super().__init__(mat_based_loss=True, distance=LpDistance(p=2))
        self.margin = margin

    def _compute_loss(self, mat: torch.Tensor, pos_mask: torch.Tensor, neg_mask: torch.Tensor) -> dict[str, Any]:
        pushed = _log_sum(self.margin - mat, neg_mask)  # (n, 1)
        both = torch.logaddexp(pushed, pushed.T)  # (n, n): the negatives of both ends of a pair
        return _for_positives(torch.relu(both + mat) ** 2 / 2, pos_mask)


class _NCA(GenericPairLoss):  # type: ignore[misc]
    """The library's `NCALoss` with its sums only over the given pairs. It keeps anchors whose probability would underflow."""

    def __init__(self, scale: float) -> None:
        super().__init__(mat_based_loss=True, distance=LpDistance(p=2, power=2))
        self.scale = scale

    def _compute_loss(self, mat: torch.Tensor, pos_mask: torch.Tensor, neg_mask: torch.Tensor) -> dict[str, Any]:
        scores = -self.scale * mat  # (n, n)
        values = softplus(_log_sum(scores, neg_mask) - _log_sum(scores, pos_mask)).squeeze(1)  # (n,)
        anchors = torch.where(pos_mask.any(dim=1))[0]
        return {"loss": {"losses": values[anchors], "indices": anchors, "reduction_type": "element"}}


@registry.losses("spacy-sapbert.MultiSimilarity.v1")
def make_multi_similarity(alpha: float = 2.0, beta: float = 50.0, base: float = 0.5) -> BatchLoss:
    """Multi-similarity loss: SapBERT's equation (2), from Wang et al., CVPR 2019. The mean over all n names a of

        1/α log(1 + Σ_{p ∈ P_a} e^(−α (S_ap − ε))) + 1/β log(1 + Σ_{n ∈ N_a} e^(β (S_an − ε)))

    The paper's appendix searches α in 1, 2, 3 and β in 40, 50, 60. The defaults are the library's, which are in the middle of these ranges;
    the released code uses α 1, β 60, ε 0.5. A name without pairs counts as 0 in the mean.

    Args:
        alpha: α, for positives, as in Wang et al. and in the library; some papers use other letters.
        beta: β, for negatives.
        base: ε, a cosine; the library calls it `base`.

    Raises:
        SapbertError: E521 unless alpha > 0, beta > 0 and −1 < base <= 1.
    """
    name = "spacy-sapbert.MultiSimilarity.v1"
    check_setting(name, "alpha", alpha, above=0.0)
    check_setting(name, "beta", beta, above=0.0)
    check_setting(name, "base", base, above=-1.0, at_most=1.0)
    return BatchLoss(name, losses.MultiSimilarityLoss(alpha=alpha, beta=beta, base=base, distance=CosineSimilarity()))


@registry.losses("spacy-sapbert.Cosine.v1")
def make_cosine(margin: float = 0.0) -> BatchLoss:
    """Cosine embedding loss over pairs (the library's contrastive loss on cosines):

        mean over positive pairs of (1 − S_ap) + mean over negative pairs of max(0, S_an − margin)

    There are two means, so that the many negatives of a batch do not outweigh its positives. SapBERT's released code names a cosine loss
    but does not contain it; this is torch's `CosineEmbeddingLoss` per pair.

    Args:
        margin: The cosine above which negatives are pushed apart.

    Raises:
        SapbertError: E521 unless −1 < margin <= 1.
    """
    name = "spacy-sapbert.Cosine.v1"
    check_setting(name, "margin", margin, above=-1.0, at_most=1.0)
    return BatchLoss(name, losses.ContrastiveLoss(pos_margin=1.0, neg_margin=margin, distance=CosineSimilarity(), reducer=MeanReducer()))


@registry.losses("spacy-sapbert.Triplet.v1")
def make_triplet(margin: float = 0.2) -> BatchLoss:
    """Max-margin triplet loss: the mean, over the triplets where it is above 0, of max(0, D_ap − D_an + margin).

    The margin is from Schroff et al., CVPR 2015 (there on D²); the mean over violating triplets is from Hermans et al., 2017. The triplets are those
    of the miner; from pairs (a1, p, a2, n), all triplets that share an anchor are made. A miner with the same margin keeps exactly the triplets whose
    loss is not 0.

    Args:
        margin: How much farther away than its positive a negative must be. The released code uses the library's default, 0.05.

    Raises:
        SapbertError: E521 unless 0 < margin <= 2.
    """
    name = "spacy-sapbert.Triplet.v1"
    check_setting(name, "margin", margin, above=0.0, at_most=2.0)
    method = losses.TripletMarginLoss(margin=margin, distance=LpDistance(p=2), reducer=AvgNonZeroReducer(), triplets_per_anchor="all")
    return BatchLoss(name, method, triplets=True)


@registry.losses("spacy-sapbert.NCA.v1")
def make_nca(softmax_scale: float = 1.0) -> BatchLoss:
    """Neighbourhood component analysis (Goldberger et al., NeurIPS 2004): the mean over the names a that have a positive of

        −log(Σ_{p ∈ P_a} e^(−s D_ap²) / (Σ_{p ∈ P_a} e^(−s D_ap²) + Σ_{n ∈ N_a} e^(−s D_an²)))

    Args:
        softmax_scale: s, which is 1 in the original and in the released code. D² is at most 4; a larger s gives near names more weight.

    Raises:
        SapbertError: E521 unless softmax_scale > 0.
    """
    name = "spacy-sapbert.NCA.v1"
    check_setting(name, "softmax_scale", softmax_scale, above=0.0)
    return BatchLoss(name, _NCA(softmax_scale))


@registry.losses("spacy-sapbert.LiftedStructure.v1")
def make_lifted_structure(margin: float = 1.0) -> BatchLoss:
    """Make the lifted structure loss.

    It is the one of Oh Song et al. (CVPR 2016), which SapBERT cites and its released code uses, not the generalised form of Hermans et al. (2017):
    the mean over ordered positive pairs (a, p) of

        ½ max(0, D_ap + log(Σ_{n ∈ N_a} e^(margin − D_an) + Σ_{n ∈ N_p} e^(margin − D_pn)))²

    Args:
        margin: The distance up to which negatives are pushed away; 1 in the original and in the released code.

    Raises:
        SapbertError: E521 unless 0 < margin <= 2.
    """
    name = "spacy-sapbert.LiftedStructure.v1"
    check_setting(name, "margin", margin, above=0.0, at_most=2.0)
    return BatchLoss(name, _LiftedStructure(margin))


@registry.losses("spacy-sapbert.InfoNCE.v1")
def make_info_nce(temperature: float = 0.07) -> BatchLoss:
    """InfoNCE (van den Oord et al., 2018; temperature as in He et al., MoCo, CVPR 2020). The mean over ordered positive pairs (a, p) of

        −log(e^(S_ap/τ) / (e^(S_ap/τ) + Σ_{n ∈ N_a} e^(S_an/τ)))

    Other positives of a are not in the denominator, because they are never negatives.

    Args:
        temperature: τ, 0.07 in MoCo and in the released code.

    Raises:
        SapbertError: E521 unless temperature > 0.
    """
    name = "spacy-sapbert.InfoNCE.v1"
    check_setting(name, "temperature", temperature, above=0.0)
    return BatchLoss(name, _InfoNCE(temperature))


@registry.losses("spacy-sapbert.Circle.v1")
def make_circle(m: float = 0.4, gamma: float = 80.0) -> BatchLoss:
    """Circle loss (Sun et al., CVPR 2020, equation (6) with the settings of its section 3.2). The mean, over names for which it is above 0, of

        log(1 + Σ_{p ∈ P_a} e^(−γ [1 + m − S_ap]₊ (S_ap − (1 − m))) · Σ_{n ∈ N_a} e^(γ [S_an + m]₊ (S_an − m)))

    The brackets are weights: no gradient flows through them.

    The original uses m 0.25 with γ 256 for faces, and m 0.4 with γ 80 for fine-grained retrieval; the released code uses the latter.

    Args:
        m: The relaxation: cosines should be above 1 − m for positives and below m for negatives.
        gamma: The scale γ.

    Raises:
        SapbertError: E521 unless 0 < m <= 1 and gamma > 0.
    """
    name = "spacy-sapbert.Circle.v1"
    check_setting(name, "m", m, above=0.0, at_most=1.0)
    check_setting(name, "gamma", gamma, above=0.0)
    return BatchLoss(name, losses.CircleLoss(m=m, gamma=gamma, distance=CosineSimilarity(), reducer=AvgNonZeroReducer()))
