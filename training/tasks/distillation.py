"""The task of self-distillation (BioLORD-2023-S: Remy et al., JAMIA 2024, the self-distillation phase).

The target of a concept is the mean of the teacher's vectors of its name and of its definition, reduced by PCA to 64 dimensions. The student is an
encoder that was not trained in the contrastive phase. It gets a new linear layer of that width, and learns to give the target of a concept for each
of its names and definitions; the loss is the mean squared error. The layer is removed when the student is saved, so the saved encoder gives vectors
of the full width of its base, like the published models. Student and teacher may differ in size and kind.

The paper does not describe every detail. These are our choices:

- The teacher's vectors are L2-normalised; their mean is not normalised again. The PCA is centred and not whitened, so the Euclidean distances
  between targets are those between the means, as well as 64 dimensions can keep them. `whiten` divides each direction by its standard deviation.
- The input of the layer is the L2-normalised vector, because that is the vector which a linker compares.
- The first weights of the layer are those that predict the targets best from the student's first vectors (ridge regression on a sample of texts), so
  the training starts from the best linear prediction. With random first weights (`head = "random"`), the encoder first learns noise: after 400 steps
  of 128 texts the student was worse than its base in every figure.
- If a concept has several names or definitions, because ontologies were joined, their mean is taken first. For a concept without a definition, its
  descriptions are used. If it has neither, the target is the mean of all its names and synonyms, because a single string is a poor target. If it has
  no name, its synonyms are used instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from tqdm import tqdm

from spacy_sapbert.files import MANIFEST, checksum
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.types import Floats2d

from ..data.pairs import ZERO_SHOT, read_queries
from ..errors import fail
from ..loop.batches import ShuffledBatches
from ..loop.model import HEAD, add_head
from ..loop.trainer import HeldOutAccuracy, TextCollator, encode
from ..recipe import Prepared, Task, Words, listed
from ..registry import registry
from .self_alignment import held_out_sample, held_out_table, open_pairs
from .targets import CHUNK, Distance, Ints, Teacher, codes, kept, manifest_of, read_table

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

TEXTS = "texts.parquet"
EXPECTED = f"a table of texts ({TEXTS}: label int32, text string, kind string)"
SCHEMA = pa.schema([("label", pa.int32()), ("text", pa.large_string()), ("kind", pa.string())])
KINDS = ("name", "synonym", "definition", "description")
NAME, SYNONYM, DEFINITION, DESCRIPTION = range(4)
HEADS = ("fitted", "random")
FITTED_ON = 5_000  # number of texts
RIDGE = 1e-4  # relative to the variance of the vectors, which is at most 1 over all directions
TARGETS, MEAN, COMPONENTS = "targets.npy", "mean.npy", "components.npy"


class Texts(NamedTuple):
    """The texts of concepts.

    Attributes:
        text: (n,), Arrow column of the texts.
        concept: (n,), row of each text's concept in the targets.
        kind: (n,), kind of each text, as a position in KINDS.
        concepts: Number of concepts.
        counts: Numbers of texts that were read and left out.
    """

    text: Any
    concept: Ints
    kind: Ints
    concepts: int
    counts: dict[str, int]


@registry.tasks("spacy-sapbert.SelfDistillation.v1")
def self_distillation(
    teacher: str,
    texts: str,
    dimensions: int = 64,
    whiten: bool = False,
    kinds: list[str] = ["name", "synonym", "definition"],
    size: int = 128,
    teacher_length: int = 0,
    head: str = "fitted",
) -> SelfDistillationTask:
    """Make the task, see the docstring of the module.

    With `paths.pairs` and `paths.kb` it is measured with held-out synonyms; these and the unseen concepts are then left out of the texts. Without
    them nothing is measured, and the last weights are saved.

    Args:
        teacher: Folder or name of the contrastive model.
        texts: Folder with texts.parquet (`python -m training definitions`); the targets are stored in it.
        dimensions: Number of dimensions of the targets; 0: as many as the teacher's vectors have, without PCA.
        whiten: Whether to scale each direction to variance 1.
        kinds: Kinds of texts that the student learns; "description" can be added.
        size: Number of texts in a batch, of all processes together.
        teacher_length: Greatest number of tokens of a text that the teacher reads; 0: as many as the student.
        head: First weights of the new layer, "fitted" or "random".

    Raises:
        SapbertError: E511.
    """
    if head not in HEADS:
        raise fail("E511", setting="task.head", value=head, why=f"give one of {', '.join(HEADS)}")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise fail("E511", setting="task.kinds", value=kinds, why=f"give one or more of {', '.join(KINDS)}")
    for setting, value, least in (("dimensions", dimensions, 0), ("size", size, 1), ("teacher_length", teacher_length, 0)):
        if value < least:
            raise fail("E511", setting=f"task.{setting}", value=value, why=f"it must be at least {least}")
    if whiten and not dimensions:
        raise fail("E511", setting="task.whiten", value=whiten, why="there is nothing to whiten without PCA (dimensions = 0)")
    return SelfDistillationTask(teacher, texts, dimensions, whiten, kinds, size, teacher_length, head)


class SelfDistillationTask(Task):
    """Self-distillation, measured with held-out synonyms if pairs are given."""

    def __init__(
        self, teacher: str, texts: str, dimensions: int, whiten: bool, kinds: Sequence[str], size: int, teacher_length: int, head: str = "fitted"
    ) -> None:
        self.head = head
        self.teacher, self.texts, self.dimensions, self.whiten = teacher, Path(texts), dimensions, whiten
        self.kinds, self.size, self.teacher_length = list(kinds), size, teacher_length

    def check(self, recipe: Recipe) -> None:
        """Check the recipe: it gives both the pairs and their knowledge base, or neither."""
        super().check(recipe)
        if bool(recipe.paths.pairs) != bool(recipe.paths.kb):
            raise ValueError("give both paths.pairs and paths.kb, or neither")

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of texts of the chosen kinds (with held-out texts), the texts of a batch, and 1; see `Task.extent`."""
        kind = read_table(self.texts / TEXTS, EXPECTED, pa.schema([("kind", pa.string())])).column("kind")
        return sum(int(one["counts"]) for one in kind.value_counts().to_pylist() if one["values"] in self.kinds), self.size, 1

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the texts, and make the targets with the teacher. The targets are stored and used again.

        Raises:
            SapbertError: E610 (the table), E611 (nothing to learn), E511 (dimensions), E512 (the teacher), E502 (pairs).
        """
        from datasets import Dataset

        given = recipe.training
        texts, data_settings, evaluator, report = self._read(recipe)
        length = self.teacher_length or recipe.encoder.max_length
        teacher = Teacher(self.teacher, length, given.gpu_id)
        key = {"teacher": teacher.fingerprint, **data_settings, "dimensions": self.dimensions, "whiten": self.whiten}
        folder = kept(self.texts, key, lambda scratch: write_targets(scratch, texts, teacher, self.dimensions, self.whiten, self.texts))
        targets: Floats2d = np.load(folder / TARGETS, mmap_mode="r")
        manifest = manifest_of(folder)

        chosen = np.isin(texts.kind, [KINDS.index(kind) for kind in self.kinds])
        rows = np.flatnonzero(chosen)
        if not len(rows):
            raise fail("E611", path=self.texts / TEXTS, why=f"it contains no {' and no '.join(self.kinds)}")
        learnt = {kind: int((texts.kind[rows] == place).sum()) for place, kind in enumerate(KINDS) if kind in self.kinds}
        fingerprint = manifest["files"][TARGETS]["blake2b"]
        table = pa.table({"text": texts.text.take(pa.array(rows)), "concept": pa.array(texts.concept[rows])})
        some = np.sort(np.random.default_rng(given.seed).permutation(len(table))[:FITTED_ON]) if self.head == "fitted" else np.zeros(0, dtype=int)
        first = encode(encoder, table.column("text").take(pa.array(some)).to_pylist()) if len(some) else None  # before the head is added
        add_head(encoder, targets.shape[1])
        if first is not None:
            fit_head(encoder, first, np.asarray(targets)[texts.concept[rows][some]])

        def label(batch: Sequence[dict[str, Any]]) -> torch.Tensor:
            return torch.from_numpy(np.array(targets[[row["concept"] for row in batch]]))

        return Prepared(
            data=Dataset(table, fingerprint=f"{fingerprint[:16]}{'-'.join(str(KINDS.index(kind)) for kind in self.kinds)}"),
            batch_size=self.size,
            batches=ShuffledBatches.make,
            collator=TextCollator(encoder.tokenizer, recipe.encoder.max_length, ("text",), label),
            objective=Distance(encoder, HEAD, given.batch_tokens, given.cache_gradients),
            evaluator=evaluator,
            data_settings={**data_settings, "teacher": teacher.fingerprint, "targets": fingerprint},
            report={**report, "texts": {**texts.counts, "concepts": texts.concepts, "learnt": learnt}, "targets": manifest["targets"]},
            words=words,
            paths=("teacher", "texts"),
        )

    def _read(self, recipe: Recipe) -> tuple[Texts, dict[str, Any], Any, dict[str, Any]]:
        """Return the texts without held-out ones, the fingerprints of the data, the evaluator, and the part of the report about both."""
        path = self.texts / TEXTS
        held: set[str] = set()
        unseen: set[int] = set()
        evaluator, report, settings = None, {}, {}
        texts_manifest = _manifest(self.texts)
        if recipe.paths.pairs:
            kb, manifest = open_pairs(recipe)
            if "kb" in texts_manifest and texts_manifest["kb"] != kb.fingerprint:
                raise fail("E610", path=path, expected=EXPECTED, why=f"it was made from another knowledge base than '{recipe.paths.kb}'")
            queries = read_queries(recipe.paths.pairs)
            held = {normalise(query.query) for query in queries}
            if "kb" in texts_manifest:  # without "kb", the labels are not those of the pairs
                unseen = {query.label for query in queries if query.split == ZERO_SHOT}
            sample = held_out_sample(kb, recipe)
            evaluator = HeldOutAccuracy(sample) if sample.queries else None
            report = {"held_out": {"queries": len(sample.queries), "names": len(sample.names)}}
            settings = {"pairs": manifest["files"]["queries.parquet"]["blake2b"]}
        texts = read_texts(path, held, unseen)
        report["sources"] = texts_manifest.get("sources", [path.parent.name])
        return texts, {"texts": checksum(path), **settings}, evaluator, report


def fit_head(encoder: SentenceTransformer, vectors: Floats2d, targets: Floats2d) -> None:
    """Set the weights of the head by ridge regression of the targets (n, width) on the vectors (n, d)."""
    x, y = vectors.astype(np.float64), targets.astype(np.float64)
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    x, y = x - mean_x, y - mean_y
    weight = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y).T  # (width, d)
    head: Any = encoder[-1]
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(weight).to(head.linear.weight))
        head.linear.bias.copy_(torch.from_numpy(mean_y - weight @ mean_x).to(head.linear.bias))


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise fail("E610", path=path, expected="a manifest", why=str(error)) from error


def read_texts(path: Path, held: set[str], unseen: set[int]) -> Texts:
    """Read the table, and leave out empty texts, held-out texts and unseen concepts; count them.

    Args:
        path: File of the table.
        held: Held-out texts, normalised.
        unseen: Labels of unseen concepts.

    Raises:
        SapbertError: E610 (missing file or column, null values, an unknown kind), E611 (no text remains).
    """
    table = read_table(path, EXPECTED, SCHEMA)
    kind = codes(table.column("kind"), KINDS, path, EXPECTED)
    labels = np.asarray(table.column("label").to_numpy(), dtype=np.int64)
    column = table.column("text")
    empty, measured = np.zeros(len(table), dtype=np.bool_), np.zeros(len(table), dtype=np.bool_)
    for start in range(0, len(table), CHUNK):
        for row, text in enumerate(column.slice(start, CHUNK).to_pylist(), start):
            empty[row] = not text.strip()
            measured[row] = bool(held) and normalise(text) in held
    away = np.isin(labels, list(unseen))
    keep = ~(empty | measured | away)
    if not keep.any():
        raise fail("E611", path=path, why=f"none of its {len(table):,} rows remains")
    order = np.flatnonzero(keep)
    order = order[np.argsort(labels[order], kind="stable")]
    unique, concept = np.unique(labels[order], return_inverse=True)
    counts = {
        "texts": len(order),
        "empty": int(empty.sum()),
        "held_out": int((measured & ~empty).sum()),
        "of_unseen_concepts": int((away & ~empty & ~measured).sum()),
    }
    return Texts(column.take(pa.array(order)), concept.reshape(-1).astype(np.int64), kind[order], len(unique), counts)


# -- targets ------------------------------------------------------------------------------------------------------------


def shares(texts: Texts) -> tuple[npt.NDArray[np.float64], dict[str, int]]:
    """Return the share of each text in the target of its concept.

    Returns:
        The shares, float (n,), which sum to 1 for each concept; and how many concepts have a definition, only a description, or neither.
    """
    count = np.stack([np.bincount(texts.concept[texts.kind == place], minlength=texts.concepts) for place in range(len(KINDS))])  # (kinds, concepts)
    grounding = np.where(count[DEFINITION] > 0, DEFINITION, np.where(count[DESCRIPTION] > 0, DESCRIPTION, -1))  # (concepts,)
    naming = np.where(count[NAME] > 0, NAME, np.where(count[SYNONYM] > 0, SYNONYM, -1))
    half = np.where((grounding >= 0) & (naming >= 0), 0.5, 1.0)
    mine, kind = texts.concept, texts.kind
    own = count[kind, mine]  # texts of the same kind and concept
    share = np.where((kind == grounding[mine]) | (kind == naming[mine]), half[mine] / own, 0.0)
    alone = (grounding[mine] < 0) & np.isin(kind, (NAME, SYNONYM))
    share = np.where(alone, 1.0 / np.maximum(1, count[NAME] + count[SYNONYM])[mine], share)
    return share, {
        "with_definition": int((grounding == DEFINITION).sum()),
        "with_description_alone": int((grounding == DESCRIPTION).sum()),
        "with_names_alone": int((grounding < 0).sum()),
        "without_name": int((count[NAME] == 0).sum()),
    }


class Means:
    """The mean of name and definition of each concept, in a file, and the sums that a PCA needs: of the means and of their outer products.

    Only one chunk of vectors is in memory at a time, for any number of concepts.

    Args:
        path: File to write the means into, float32 (concepts, width) row after row.
        width: Number of dimensions of a vector.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width, self.count = path, width, 0
        self.total = np.zeros(width)
        self.products = np.zeros((width, width))

    def write(self, texts: Texts, teacher: Any) -> dict[str, int]:
        """Encode the texts that have a share in a mean, write the means, and return the counts. The texts must be sorted by concept."""
        share, counts = shares(texts)
        rows = np.flatnonzero(share > 0)
        open_mean, of = np.zeros((0, self.width), dtype=np.float32), -1  # the concept whose texts may continue in the next chunk
        with open(self.path, "wb") as file, tqdm(total=len(rows), desc="targets", unit=" texts", disable=len(rows) <= CHUNK) as show:
            for start in range(0, len(rows), CHUNK):
                part = rows[start : start + CHUNK]
                concepts = texts.concept[part]
                first = of if of >= 0 else int(concepts[0])
                sums = np.zeros((int(concepts[-1]) - first + 1, self.width), dtype=np.float32)
                sums[: len(open_mean)] = open_mean
                vectors = teacher.encode(texts.text.take(pa.array(part)).to_pylist())
                np.add.at(sums, concepts - first, share[part, None].astype(np.float32) * vectors)
                open_mean, of = sums[-1:], int(concepts[-1])
                self._add(sums[:-1], file)
                show.update(len(part))
            self._add(open_mean, file)
        return {**counts, "encoded": len(rows)}

    def _add(self, means: Floats2d, file: Any) -> None:
        file.write(np.ascontiguousarray(means).tobytes())
        wide = means.astype(np.float64)
        self.count += len(means)
        self.total += wide.sum(axis=0)
        self.products += wide.T @ wide

    def chunks(self) -> Iterator[Floats2d]:
        """Yield the means in order, CHUNK at a time."""
        with open(self.path, "rb") as file:
            while data := file.read(CHUNK * self.width * 4):
                yield np.frombuffer(data, dtype=np.float32).reshape(-1, self.width)

    def components(self, dimensions: int, whiten: bool) -> tuple[npt.NDArray[np.float64], Floats2d, float]:
        """Return the mean (d,), the principal directions (dimensions, d), and the share of the variance that they keep.

        The PCA is exact; it is computed from the covariance, and the signs are those of scikit-learn. If `whiten` is set, the directions are divided
        by the standard deviations.
        """
        mean = self.total / self.count
        covariance = (self.products - self.count * np.outer(mean, mean)) / (self.count - 1)
        variances, directions = np.linalg.eigh(covariance)  # ascending
        variances = np.maximum(variances[::-1], 0.0)
        found = directions.T[::-1][:dimensions]
        found = found * np.sign(found[np.arange(dimensions), np.abs(found).argmax(axis=1)])[:, None]
        if whiten:
            found = found / np.sqrt(np.maximum(variances[:dimensions], 1e-12))[:, None]
        return mean, found.astype(np.float32), float(variances[:dimensions].sum() / variances.sum())


def write_targets(folder: Path, texts: Texts, teacher: Any, dimensions: int, whiten: bool, path: Path) -> dict[str, Any]:
    """Write targets.npy (concepts, dimensions), and the PCA as mean.npy (d,) and components.npy (dimensions, d).

    If `whiten` is set, the components are divided by the standard deviations, so the targets are always (means − mean) components^T. The memory for
    vectors does not grow with the number of concepts, because their means are in a file while the PCA is computed.

    Raises:
        SapbertError: E511 if the concepts or the teacher's dimensions are too few for `dimensions`.
    """
    most = min(teacher.width, texts.concepts - 1)
    if dimensions > most:
        why = f"'{path}' has {texts.concepts:,} concepts and the teacher {teacher.width} dimensions: at most {most}"
        raise fail("E511", setting="task.dimensions", value=dimensions, why=why)
    means = Means(folder / "means", teacher.width)
    counts = means.write(texts, teacher)
    kept_variance, width = 1.0, dimensions or teacher.width
    mean, components = np.zeros(teacher.width), None
    if dimensions:
        mean, components, kept_variance = means.components(dimensions, whiten)
        np.save(folder / MEAN, mean.astype(np.float32), allow_pickle=False)
        np.save(folder / COMPONENTS, components, allow_pickle=False)
    with open(folder / TARGETS, "wb") as file:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (texts.concepts, width)}
        np.lib.format.write_array_header_1_0(file, shape)  # type: ignore[no-untyped-call]
        for chunk in means.chunks():
            file.write((chunk if components is None else (chunk - mean.astype(np.float32)) @ components.T).tobytes())
    means.path.unlink()
    return {"targets": {**counts, "dimensions": width, "variance_kept": round(kept_variance, 4), "whitened": whiten}}


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    texts, targets = report["texts"], report["targets"]
    data = (
        f"Sources: {', '.join(report['sources'])}. {texts['concepts']:,} concepts ({targets['with_definition']:,} with a definition, "
        f"{targets['with_description_alone']:,} with only a description); learned: {listed(texts['learnt'])}. Targets of {targets['dimensions']} "
        f"dimensions keep {targets['variance_kept']:.1%} of the variance of the teacher's vectors. Left out: {texts['held_out']:,} held-out texts, "
        f"{texts['of_unseen_concepts']:,} texts of held-out concepts, {texts['empty']:,} empty texts."
    )
    measured, tables = "", []
    if report["after"]:
        measured, table = held_out_table(report)
        tables = [table]
    what = "each name and definition of a concept gets the mean of a teacher's vectors of both"
    return Words("self-distillation (BioLORD-2023: Remy et al., JAMIA 2024)", what, data, measured, tables, tag="biolord", limits="")
