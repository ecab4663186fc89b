"""Two tasks in one training: after a given number of batches of the first task comes one batch of the other.

BioLORD-2023 also trains sentence similarity while concepts are learned. The trainer of sentence-transformers has one data set and one loss for each
task, and chooses the loss by the batch.

Source: Remy et al., JAMIA 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator

from ..errors import fail
from ..loop.trainer import processes
from ..recipe import Prepared, Task, Words
from ..registry import registry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

MAIN, ALSO = "main", "also"


@registry.tasks("spacy-sapbert.Multitask.v1")
def multitask(main: Any, also: Any, every: int = 10) -> MultitaskTask:
    """Make a task that combines two tasks. The main figure of the first task decides which weights are saved. An epoch is an epoch of the first task.

    Args:
        main: The first task, as `[task.main]`.
        also: The other task, as `[task.also]`.
        every: Number of batches of the first task before each batch of the other.

    Raises:
        SapbertError: E511.
    """
    for name, task in ((MAIN, main), (ALSO, also)):
        if not isinstance(task, Task) or isinstance(task, MultitaskTask):
            raise fail("E511", setting=f"task.{name}", value=type(task).__name__, why="it must name a single task: @tasks = …")
    if type(main) is type(also):
        raise fail("E511", setting="task.also", value=type(also).__name__, why="it must be another task than task.main")
    if every < 1:
        raise fail("E511", setting="task.every", value=every, why="it must be at least 1")
    return MultitaskTask(main, also, every)


class MultitaskTask(Task):
    """Two tasks in one training."""

    def __init__(self, main: Task, also: Task, every: int) -> None:
        self.main, self.also, self.every = main, also, every
        self.needs = (*main.needs, *also.needs)
        self.takes = (*main.takes, *also.takes)
        self.paths = (*main.paths, *also.paths)

    def check(self, recipe: Recipe) -> None:
        """Check the recipe for both tasks."""
        super().check(recipe)
        for task in (self.main, self.also):
            task.check(_only(recipe, task))

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the size of the first task; a batch of the other task counts as a batch of the first. See `Task.extent`."""
        rows, batch, texts = self.main.extent(_only(recipe, self.main))
        return rows + rows // self.every, batch, texts

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Prepare both tasks, and join them.

        Raises:
            SapbertError: The errors of both tasks.
        """
        from datasets import DatasetDict

        main, also = self.main.prepare(recipe, encoder), self.also.prepare(recipe, encoder)

        def batches(dataset: Any, batch_size: int, drop_last: bool = False, **more: Any) -> Any:
            one = main if set(main.data.column_names) == set(dataset.column_names) else also
            return one.batches(dataset, one.batch_size, drop_last, **more)

        def mix(dataset: Any, samplers: list[Any], **_: Any) -> Interleaved:
            return Interleaved(samplers[0], samplers[1], len(main.data), self.every)

        def words(report: dict[str, Any]) -> Words:
            one, other = (part.words({**report, **part.report}) for part in (main, also))
            return one._replace(
                what=f"{one.what}; after {self.every} batches one of {other.method}: {other.what}",
                data=f"{one.data}\n\n{other.data}",
                measured=f"{one.measured} {other.measured}".strip(),
                tables=(*one.tables, *other.tables),
                limits=other.limits and one.limits,
            )

        evaluators = [part.evaluator for part in (main, also) if part.evaluator is not None]
        return Prepared(
            data=DatasetDict({MAIN: main.data, ALSO: also.data}),
            batch_size=main.batch_size,
            batches=batches,
            mix=mix,
            collator=Collators({MAIN: main.collator, ALSO: also.collator}),
            objective={MAIN: main.objective, ALSO: also.objective},
            evaluator=Evaluators(evaluators) if evaluators else None,
            data_settings={**{f"also.{key}": value for key, value in also.data_settings.items()}, **main.data_settings},
            report={**also.report, **main.report, "sources": [*main.report.get("sources", []), *also.report.get("sources", [])]},
            words=words,
            paths=(*main.paths, *also.paths),
        )


def _only(recipe: Recipe, task: Task) -> Recipe:
    """Return the recipe without the sections that a task does not read."""
    left_out = {section: None for section in ("batches", "loss", "miner", "augment") if section not in (*task.needs, *task.takes)}
    return recipe.model_copy(update=left_out)


class Collators:
    """The collators of both tasks. Each batch gets the collator of its data set."""

    valid_label_columns = ["label"]

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch, made by the collator of the data set that the rows come from."""
        name = str(rows[0]["dataset_name"])
        return {"dataset_name": name, **self.parts[name](rows)}


class Evaluators(BaseEvaluator):
    """The figures of both tasks. The main figure is that of the first task."""

    def __init__(self, parts: Sequence[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parts = list(parts)
        self.primary_metric = self.parts[0].primary_metric

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """Return the figures of both tasks. If both have the same key, the figure of the first task is used."""
        found = [part(model, output_path, epoch, steps) for part in self.parts]
        return {key: value for figures in reversed(found) for key, value in figures.items()}


class Interleaved:
    """The batches of one sampler; after every `every` batches comes one of another sampler, which starts again when it has no more batches.

    The processes take batches in turn. So that all processes do the same task in a step, there are always as many batches of one task in a row as
    processes. The last batches of the first sampler that are too few for all processes are left out of this epoch.

    Args:
        main: The first sampler.
        also: The other sampler.
        offset: Number of rows before those of the other sampler, which is the number of rows of the first.
        every: Number of batches of the first sampler before each batch of the other.
    """

    batch_size = None  # batches differ in size
    drop_last = True

    def __init__(self, main: Any, also: Any, offset: int, every: int) -> None:
        self.main, self.also, self.offset, self.every = main, also, offset, every
        self.world = processes()
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order."""
        self.epoch = epoch
        self.main.set_epoch(epoch)

    def __len__(self) -> int:
        rounds = len(self.main) // self.world
        return (rounds + rounds // self.every) * self.world

    def __iter__(self) -> Iterator[list[int]]:
        others = self._others()
        coming = iter(self.main)
        for number in range(1, len(self.main) // self.world + 1):
            for _ in range(self.world):
                batch = next(coming, None)
                if batch is None:
                    return
                yield batch
            if number % self.every == 0:
                for _ in range(self.world):
                    yield [row + self.offset for row in next(others)]

    def _others(self) -> Iterator[list[int]]:
        for turn in count(self.epoch * 1000):  # one epoch of main never needs a thousand epochs of the other sampler
            self.also.set_epoch(turn)
            yield from self.also
