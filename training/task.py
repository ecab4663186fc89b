"""What differs between kinds of training, so that there is one loop: data, batches, loss, measure, and what the model card says.

A recipe names its task in `[task]`; without one it is self-alignment (`training.tasks.self_alignment`). Schedule, precision, checkpoints, log, early
stopping and processes are `training.train`'s, for all tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from .train import Recipe

SECTIONS = ("batches", "loss", "miner", "perturb")  # of a recipe, beside those that every task reads


class Table(NamedTuple):
    """Figures of a model card, before and after. rows: words and a key of `before` and `after` for each column."""

    columns: Sequence[str]
    rows: Sequence[Tuple[str, Sequence[str]]]


class Words(NamedTuple):
    """A training in a model card. method: after "Trained by"; what: in a few words what it does; data: a paragraph; measured: what the
    figures are of; language: as the card's head has it; limits: what it is not for."""

    method: str
    what: str
    data: str
    measured: str = ""
    tables: Sequence[Table] = ()
    tag: str = "sapbert"
    language: str = "en"
    limits: str = "A name that is not English, a whole sentence, or an abbreviation without its long form will be placed badly."


@dataclass
class Prepared:
    """What a task gives the loop.

    data: `datasets.Dataset`, or a `DatasetDict` of several. batches: makes the sampler of a data set as `training.loop.trainer.Trainer` asks for it.
    objective: the loss, or one for each data set. evaluator: with `primary_metric`; None where there is nothing to measure.
    data_settings: fingerprints of what was read; a checkpoint of other data is not gone on from. report: counts for training.json.
    words: the report -> the card's words. mix: makes one sampler of those of several data sets. places:
    settings of `[task]` that say where something lies; they may differ when a training goes on.
    """

    data: Any
    batch_size: int
    batches: Callable[..., Any]
    collator: Any
    objective: Any
    words: Callable[[Dict[str, Any]], Words]
    evaluator: Any = None
    data_settings: Dict[str, Any] = field(default_factory=dict)
    report: Dict[str, Any] = field(default_factory=dict)
    mix: Optional[Callable[..., Any]] = None
    places: Tuple[str, ...] = ()

    @property
    def objectives(self) -> List[Any]:
        return list(self.objective.values()) if isinstance(self.objective, dict) else [self.objective]

    @property
    def metric(self) -> Optional[str]:
        """The figure that decides which weights are kept."""
        return None if self.evaluator is None else str(self.evaluator.primary_metric)


class Task:
    """A kind of training. Its settings are the arguments of the function that makes it, which a recipe names by `@tasks`.

    needs, takes: sections of `SECTIONS` that a recipe must have, and may have. paths: entries of `[paths]` that it must have.
    """

    needs: Tuple[str, ...] = ()
    takes: Tuple[str, ...] = ()
    paths: Tuple[str, ...] = ()

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the data and make the rest; may add to the encoder what is trained with it. RAISES: SapbertError."""
        raise NotImplementedError

    def check(self, recipe: Recipe) -> None:
        """RAISES: ValueError for a section or path that is missing, or that this task would not read."""
        for section in SECTIONS:
            given = getattr(recipe, section) is not None
            if section in self.needs and not given:
                raise ValueError(f"section [{section}] is missing")
            if given and section not in (*self.needs, *self.takes):
                raise ValueError(f"section [{section}] is not read by this task; leave it out")
        for path in self.paths:
            if not getattr(recipe.paths, path):
                raise ValueError(f"paths.{path} is missing")


def listed(counts: Dict[str, int]) -> str:
    """{"name": 2, "synonym": 1} -> "2 name, 1 synonym"."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())
