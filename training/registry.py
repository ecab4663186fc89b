"""What a recipe (.cfg) can name: tasks, losses, miners, batches, adapters and augmenters. A module registers its own when it is imported."""

from __future__ import annotations

import catalogue
import confection


class registry(confection.registry):  # spaCy spells its own the same way
    """The registries: `registry.resolve(config)` makes the objects that the `@losses = "…"` lines of a recipe name."""

    tasks = catalogue.create("spacy_sapbert_training", "tasks")
    losses = catalogue.create("spacy_sapbert_training", "losses")
    miners = catalogue.create("spacy_sapbert_training", "miners")
    batches = catalogue.create("spacy_sapbert_training", "batches")
    adapters = catalogue.create("spacy_sapbert_training", "adapters")
    augmenters = catalogue.create("spacy_sapbert_training", "augmenters")

    @classmethod
    def create(cls, registry_name: str, entry_points: bool = False) -> None:
        raise NotImplementedError("registries of the training package are class attributes")
