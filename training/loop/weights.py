"""Read, compare and average the weights of encoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spacy_sapbert.encoders.transformer import NameEncoder

Weights = dict[str, torch.Tensor]


def read_weights(name: str) -> Weights:
    """Read the weights of an encoder's transformer, in float32, with adapters merged.

    Raises:
        SapbertError: E301.
    """
    encoder = NameEncoder(name=name, dtype="float32")
    encoder.initialize()
    return {key: value.detach().clone() for key, value in encoder.hf_model.transformer.state_dict().items()}


def shape_difference(one: Weights, other: Weights) -> str | None:
    """Return the name of the first weight of `one` that `other` lacks or has in another shape; None if there is none."""
    return next((key for key in one if key not in other or one[key].shape != other[key].shape), None)


def average(models: Sequence[Weights], shares: Sequence[float]) -> Weights:
    """Return Σ share · weight, summed in float64.

    Args:
        models: Weights of equal shapes.
        shares: Share of each model; they sum to 1.

    Returns:
        The sums. A weight that is not a floating-point number is taken from the first model.
    """
    made: Weights = {}
    for key, first in models[0].items():
        if first.is_floating_point():
            made[key] = sum((share * model[key].double() for share, model in zip(shares, models)), torch.zeros_like(first).double()).to(first.dtype)
        else:
            made[key] = first.clone()
    return made
