"""Registries of the functions that a recipe (.cfg) can name: tasks, losses, miners, batches, adapters, augmenters. Importing a module fills them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import catalogue
import confection

Function = TypeVar("Function", bound=Callable[..., Any])


class Register(Protocol):
    """One registry. A function is registered with `@registry.losses("spacy-sapbert.NAME.v1")`."""

    def __call__(self, name: str) -> Callable[[Function], Function]:
        """Return a decorator that registers a function without changing it."""


class registry(confection.registry):  # lower case like spaCy's registry
    """The registries: `registry.resolve(config)` makes the objects that the `@losses = "…"` lines of a recipe name."""

    tasks: Register = catalogue.create("spacy_sapbert_training", "tasks")
    losses: Register = catalogue.create("spacy_sapbert_training", "losses")
    miners: Register = catalogue.create("spacy_sapbert_training", "miners")
    batches: Register = catalogue.create("spacy_sapbert_training", "batches")
    adapters: Register = catalogue.create("spacy_sapbert_training", "adapters")
    augmenters: Register = catalogue.create("spacy_sapbert_training", "augmenters")

    @classmethod
    def create(cls, registry_name: str, entry_points: bool = False) -> None:
        """Raise an error, because confection would create a registry in another namespace."""
        raise NotImplementedError("registries of the training package are class attributes")
