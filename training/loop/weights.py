"""Weights of encoders, by name: read, compared, averaged."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import torch

from spacy_sapbert.encoders.transformer import NameEncoder

Weights = Dict[str, torch.Tensor]


def read_weights(name: str) -> Weights:
    """Of the transformer alone, in float32; adapters merged. RAISES: SapbertError E301."""
    encoder = NameEncoder(name=name, dtype="float32")
    encoder.initialize()
    return {key: value.detach().clone() for key, value in encoder.hf_model.transformer.state_dict().items()}


def shape_difference(one: Weights, other: Weights) -> Optional[str]:
    """The first weight that one has and the other has not, or in another shape; None for none."""
    return next((key for key in one if key not in other or one[key].shape != other[key].shape), None)


def average(models: Sequence[Weights], shares: Sequence[float]) -> Weights:
    """Σ share · weight, summed in float64; the shares sum to 1. What is no floating number is the first one's."""
    made: Weights = {}
    for key, first in models[0].items():
        if first.is_floating_point():
            made[key] = sum((share * model[key].double() for share, model in zip(shares, models)), torch.zeros_like(first).double()).to(first.dtype)
        else:
            made[key] = first.clone()
    return made
