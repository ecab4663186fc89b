"""What a recipe (.cfg) can name: tasks, losses, miners, batches, adapters and perturbations. Filled by importing the modules that register."""

from __future__ import annotations

import catalogue
import confection


class registry(confection.registry):  # spaCy spells its own the same way
    """`registry.resolve(config)` makes the objects that the `@losses = "…"` lines of a recipe name."""

    tasks = catalogue.create("spacy_sapbert_training", "tasks")
    losses = catalogue.create("spacy_sapbert_training", "losses")
    miners = catalogue.create("spacy_sapbert_training", "miners")
    batches = catalogue.create("spacy_sapbert_training", "batches")
    adapters = catalogue.create("spacy_sapbert_training", "adapters")
    perturbations = catalogue.create("spacy_sapbert_training", "perturbations")

    @classmethod
    def create(cls, registry_name: str, entry_points: bool = False) -> None:
        raise NotImplementedError("registries of the training package are class attributes")
