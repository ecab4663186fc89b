"""Online hard mining: choose the pairs of a batch that a loss uses. Miners return only indices and have no gradient.

A miner is called as `miner(embeddings, labels)` and returns None (all pairs of the batch) or a tuple of int64 arrays in
pytorch-metric-learning's form: triplets (anchor, positive, negative), or pairs (anchor1, positive, anchor2, negative).
All losses use mined pairs in the same way, see `training.loop.losses`.
"""

from __future__ import annotations

import math

import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.miners import TripletMarginMiner

from training.errors import fail
from training.registry import registry

Indices = tuple[torch.Tensor, ...]


def check_setting(owner: str, setting: str, value: float, above: float, at_most: float = math.inf) -> None:
    """Raise E521 unless `value` is finite with above < value <= at_most."""
    if not (math.isfinite(value) and above < value <= at_most):
        upper = "" if at_most == math.inf else f" and at most {at_most:g}"
        raise fail("E521", setting=setting, owner=owner, value=value, range=f"greater than {above:g}{upper}")


def check_batch(owner: str, embeddings: torch.Tensor, labels: torch.Tensor) -> None:
    """Raise E522 unless embeddings are floats (n, d) and labels integers (n,)."""
    shaped = embeddings.ndim == 2 and labels.shape == embeddings.shape[:1]
    if not (shaped and embeddings.is_floating_point() and not labels.is_floating_point()):
        got = f"{embeddings.dtype} {tuple(embeddings.shape)} and {labels.dtype} {tuple(labels.shape)}"
        raise fail("E522", owner=owner, got=got)


class HardTriplets(torch.nn.Module):
    """Miner of equation (1) of SapBERT (Liu et al., NAACL 2021), see `make_hard_triplets`."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        # give the distance explicitly, so that a change of the library's default has no effect
        self.miner = TripletMarginMiner(margin=margin, type_of_triplets="all", distance=LpDistance(normalize_embeddings=True, p=2, power=1))

    @torch.no_grad()
    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> Indices:
        """Return the hard triplets of the batch.

        Args:
            embeddings: Float (n, d) of any dtype, normalised or not. They are normalised here; arithmetic is in float32 or better.
            labels: Int (n,); names of one concept have one label.

        Returns:
            int64 anchor, positive, negative, each (t,); t = 0 if no triplet is hard.
            A vector with NaN is in no triplet; the losses also get it and are then NaN.

        Raises:
            SapbertError: E522 for other shapes or types.
        """
        check_batch("spacy-sapbert.HardTriplets.v1", embeddings, labels)
        with torch.autocast(device_type=embeddings.device.type, enabled=False):
            vectors = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            found: Indices = self.miner(vectors, labels)
            return found


class NoMining(torch.nn.Module):
    """Miner that keeps all pairs, see `make_no_mining`."""

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> Indices | None:
        """Return None, which means "all pairs" to every loss."""
        return None


@registry.miners("spacy-sapbert.HardTriplets.v1")
def make_hard_triplets(margin: float = 0.2) -> HardTriplets:
    """Make the online hard miner of SapBERT, equation (1).

    Of all triplets of a batch (two names of one label, one name of another), it keeps those that violate ||f(a) − f(p)|| < ||f(a) − f(n)|| + λ,
    with Euclidean distance on normalised vectors.

    Size: every ordered triplet is checked. n names, m per label, have n (m − 1)(n − m) triplets: 65,024 for 128 pairs (n = 256),
    1,046,528 for 512 pairs. The library builds an (n, n, n) array of bytes to list them (16 MiB and 1 GiB); from 1,291 names on it
    processes one anchor after another. Kept triplets take 24 bytes each.

    Args:
        margin: −λ. A triplet is kept if ||f(a) − f(n)|| − ||f(a) − f(p)|| <= margin, the boundary included: with 0.2 a triplet
            is hard unless its negative is more than 0.2 farther away than its positive. Distances are in [0, 2]; 2 keeps every triplet.
            The paper's Table 9 searches λ = −0.05, −0.1, −0.2 and −0.3; its released code has margin 0.2.

    Returns:
        The miner. Each triplet that it keeps stands for one positive pair (a, p) and one negative pair (a, n).

    Raises:
        SapbertError: E521 unless −2 < margin <= 2.
    """
    check_setting("spacy-sapbert.HardTriplets.v1", "margin", margin, above=-2.0, at_most=2.0)
    return HardTriplets(margin)


@registry.miners("spacy-sapbert.NoMining.v1")
def make_no_mining() -> NoMining:
    """Make a miner that keeps all pairs of the batch, as in the rows without mining of SapBERT's Table 2."""
    return NoMining()
