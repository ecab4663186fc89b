"""Train a static encoder from the default one: `python -m training static artifacts/kb artifacts/pairs spacy_sapbert/data/static_encoder`.

It is a table with a row for each frequent word and for each bucket of character n-grams. The vector of a name is the sum of its rows. The table
learns two things at the same time: the teacher's vector of each name in fewer dimensions (PCA), by its cosine; and which names belong to one
concept (InfoNCE on SapBERT's pairs). Both leave out held-out queries and the names of unseen concepts. This module has, in this order: names,
features, fit, folder, and the function that does all of it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from tqdm import tqdm

from spacy_sapbert.encoders.static import CONFIG, KIND, TABLE, WORDS, StaticEncoder, WordParts, add_up, split
from spacy_sapbert.files import writing_folder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.types import Floats2d

from ..data.augment import augment
from ..data.pairs import ZERO_SHOT, names_of_labels, read_labels, read_queries
from ..errors import fail
from ..made import Stamp, fingerprint, stamp_of
from .encoders import SHIPPED, load_encoder

Ints1d = npt.NDArray[np.int64]
TAUGHT = 40_000
NEAREST, PICKED = 10, 3  # neighbours of a concept, and how many of them, drawn at random, are in a batch with it


class StaticSettings(NamedTuple):
    """Settings of the table and of its training.

    Attributes:
        dim: Dimensions of the vectors.
        words: Number of the most frequent words, each of which has its own row.
        buckets: Number of rows that n-grams share.
        shortest: Length of the shortest n-grams, in characters.
        longest: Length of the longest n-grams, in characters.
        epochs: Number of passes over the concepts.
        batch: Number of concepts in a step, with two names of each.
        learning_rate: Learning rate of the first step; it falls to a fiftieth.
        temperature: Temperature of InfoNCE.
        hard: Share of a batch that is groups of neighbouring concepts, which are hard negatives of each other; the others are drawn at random.
            The neighbours are those by the table after each epoch, so the first epoch has none.
        distil: Weight of the distance to the teacher; InfoNCE has weight 1.
        augmented: Share of names that are augmented.
        modified: Share of names that get modifiers before them.
        seed: Seed of all random choices.
    """

    dim: int = 256
    words: int = 20_000
    buckets: int = 16_384
    shortest: int = 3
    longest: int = 5
    epochs: float = 12.0
    batch: int = 1024
    learning_rate: float = 5e-3
    temperature: float = 0.05
    hard: float = 0.3
    distil: float = 2.0
    augmented: float = 0.3
    modified: float = 0.1
    seed: int = 0


# -- names --------------------------------------------------------------------------------------------------------------


class Material(NamedTuple):
    """Names to learn from.

    Attributes:
        names: (n,) names that may be used in training.
        labels: (n,) label of the concept of each name, -1 if it is a name of several concepts.
    """

    names: list[str]
    labels: Ints1d


def read_material(kb_folder: Path, pairs: Path) -> Material:
    """Read every name of the knowledge base except held-out queries and the names of unseen concepts.

    Args:
        kb_folder: Folder of the knowledge base.
        pairs: Folder of pairs that were made from it.
    Raises:
        SapbertError: E1xx (knowledge base), E502 (pairs).
    """
    kb = KnowledgeBase(kb_folder)
    labels = read_labels(pairs)
    queries = read_queries(pairs)
    strings = list(kb.surface_forms())
    owners = labels[np.asarray(kb.name_table.concept)]
    rows = np.asarray(kb.name_table.surface_form)
    excluded = np.zeros(len(strings), dtype=np.bool_)
    excluded[rows[np.isin(owners, [query.label for query in queries if query.split == ZERO_SHOT])]] = True
    held = {query.query for query in queries}
    excluded |= np.array([text in held for text in strings], dtype=np.bool_)
    label_of = np.full(len(strings), -1, dtype=np.int64)
    clear, _ = names_of_labels(kb, labels, kb.rows_of_languages(["en"]))
    label_of[clear.surface_forms] = np.repeat(clear.labels, np.diff(clear.starts))
    kept = np.flatnonzero(~excluded)
    return Material([strings[i] for i in kept.tolist()], label_of[kept])


def choose_words(names: Sequence[str], most: int, kept: Sequence[str] = ()) -> list[str]:
    """Return the words that get their own row: those of `kept`, then the most frequent ones that are in two names or more.

    Args:
        names: The names.
        most: Greatest number of words. All words of `kept` are returned, even if they are more.
        kept: Words that have a row already.
    """
    counts = Counter(word for name in names for word in set(split(name)))
    for word in kept:
        counts.pop(word, None)
    frequent = [word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count > 1]
    return [*kept, *frequent[: max(0, most - len(kept))]]


def project(vectors: Floats2d, dim: int) -> Floats2d:
    """Project vectors on the `dim` directions that best preserve their cosines: the principal directions without centring.

    Args:
        vectors: (n, d), L2-normalised.
        dim: Number of directions.
    Returns:
        (n, dim), L2-normalised.
    """
    _, directions = np.linalg.eigh(vectors.T @ vectors)  # ascending
    made = vectors @ directions[:, ::-1][:, :dim]
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def rotate(vectors: Floats2d, onto: Floats2d) -> Floats2d:
    """Rotate vectors so that they are as near as possible to others: the orthogonal Procrustes problem (Schönemann 1966).

    Args:
        vectors: (n, d).
        onto: (n, d).
    Returns:
        (n, d); the cosines among them are those of `vectors`.
    """
    left, _, right = np.linalg.svd(vectors.T @ onto)
    return np.asarray(vectors @ (left @ right), dtype=np.float32)


# -- features -----------------------------------------------------------------------------------------------------------


class AddUp(torch.autograd.Function):
    """`add_up` whose gradient is one sparse product, because torch's own gradient takes three times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, rows: list[int], starts: list[int]) -> torch.Tensor:
        """Return the sums (bags, d) of the rows (features, d) of each bag."""
        ctx.rows, ctx.starts, ctx.size = rows, starts, len(table)
        return add_up(table, (rows, starts))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Return the gradient of the table (features, d) from the gradient of the bags (bags, d)."""
        from scipy.sparse import csr_matrix

        ones = np.ones(len(ctx.rows), dtype=np.float32)
        bags = csr_matrix((ones, np.array(ctx.rows), np.r_[ctx.starts, len(ctx.rows)]), shape=(len(ctx.starts), ctx.size))
        return torch.from_numpy(bags.T @ gradient.numpy()), None, None


class Features:
    """Sums of a table's rows for names, as the encoder computes them. The rows of each word are cached for later batches."""

    def __init__(self, parts: WordParts) -> None:
        self.parts = parts
        self._rows: dict[str, list[int]] = {}

    def sums(self, names: Sequence[str], table: torch.Tensor) -> torch.Tensor:
        """Return the sums (n, dim) of the rows of `table` for n names."""
        known: dict[str, int] = {}
        places: list[int] = []
        starts: list[int] = []
        for name in names:
            starts.append(len(places))
            places.extend(known.setdefault(word, len(known)) for word in split(name))
        rows: list[int] = []
        begins: list[int] = []
        for word in known:
            own = self._rows.get(word)
            if own is None:
                own = self._rows[word] = self.parts.of_words([word])[0]
            begins.append(len(rows))
            rows.extend(own)
        sums: torch.Tensor = AddUp.apply(AddUp.apply(table, rows, begins), places, starts)  # type: ignore[no-untyped-call]
        return sums

    def vectors(self, names: Sequence[str], table: torch.Tensor) -> torch.Tensor:
        """Return the vectors (n, dim) of n names, L2-normalised."""
        return torch.nn.functional.normalize(self.sums(names, table), dim=1)


# -- fit ----------------------------------------------------------------------------------------------------------------


def fit(
    material: Material,
    targets: Floats2d,
    words: Sequence[str],
    settings: StaticSettings,
    *,
    first: torch.Tensor | None = None,
    watch: Callable[[int, torch.Tensor], None] | None = None,
    progress: bool = False,
) -> torch.Tensor:
    """Train the table.

    Args:
        material: The names.
        targets: (names, dim) the teacher's vectors, L2-normalised; zeros for names that it did not encode.
        words: Words that have their own row.
        settings: Settings of the table and of its training.
        first: The table (words + buckets, dim) to start from; None: small random numbers.
        watch: Called with the step and the table at the end of each epoch.
        progress: Whether a progress bar is shown.

    Returns:
        The table (words + buckets, dim).
    """
    torch.manual_seed(settings.seed)
    draw = np.random.default_rng(settings.seed)
    config = {"shortest": settings.shortest, "longest": settings.longest, "buckets": settings.buckets}
    parts = WordParts(config, "\n".join(words).encode("utf-8"))
    features = Features(parts)
    table = torch.nn.Parameter(torch.randn(parts.rows_needed, settings.dim) * 0.01 if first is None else first.clone())
    optimiser = torch.optim.Adam([table], lr=settings.learning_rate, fused=True)
    change = augment(settings.augmented, 0.5, settings.modified)
    order = np.argsort(material.labels, kind="stable")
    order = order[material.labels[order] >= 0]
    edges = np.flatnonzero(np.r_[True, np.diff(material.labels[order]) > 0])
    sizes = np.diff(np.r_[edges, len(order)])
    loose = np.flatnonzero(material.labels < 0)  # names of several concepts learn only from the teacher
    # a concept is drawn half as often as it has names, from 1 to 8 times per epoch
    repeats = np.repeat(np.arange(len(edges)), np.minimum(np.maximum(sizes // 2, 1), 8))
    steps = max(1, round(settings.epochs * len(repeats) / settings.batch))
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, steps)
    shuffled: Ints1d = np.zeros(0, dtype=np.int64)
    show = tqdm(range(steps), desc="fitting", unit=" steps", disable=not progress, mininterval=5.0)
    per_epoch = max(1, len(repeats) // settings.batch)
    pool: torch.Tensor | None = None  # (concepts, dim), a name of each concept by the table at the start of the epoch
    for step in show:
        if settings.hard and step and step % per_epoch == 0 and len(edges) > 1:  # a single concept has no neighbour
            sample = order[edges + (draw.random(len(edges)) * sizes).astype(np.int64)]
            with torch.no_grad():
                pool = features.vectors([material.names[i] for i in sample.tolist()], table)
        if len(shuffled) < settings.batch:
            shuffled = draw.permutation(repeats)
        drawn, grouped = settings.batch, 0
        if pool is not None:
            grouped = int(settings.batch * settings.hard / (1 + PICKED))
            drawn -= grouped * PICKED
        mine, shuffled = shuffled[:drawn], shuffled[drawn:]
        if pool is not None and grouped:
            near = neighbours(pool, mine[:grouped])
            columns = draw.integers(0, near.shape[1], (grouped, PICKED))
            mine = np.r_[mine, np.take_along_axis(near, columns, axis=1).ravel()]
        mine = np.unique(mine)
        one = (draw.random(len(mine)) * sizes[mine]).astype(np.int64)
        other = (one + 1 + (draw.random(len(mine)) * np.maximum(sizes[mine] - 1, 1)).astype(np.int64)) % sizes[mine]
        at = np.r_[order[edges[mine] + one], order[edges[mine] + other], draw.choice(loose, len(mine) // 16) if len(loose) else loose]
        texts = [change(material.names[i], str(step)) for i in at.tolist()]
        vectors = features.vectors(texts, table)
        closeness = (vectors * torch.from_numpy(targets[at])).sum(dim=1)
        left, right = vectors[: len(mine)], vectors[len(mine) : 2 * len(mine)]
        scores = left @ right.T / settings.temperature
        truth = torch.arange(len(mine))
        contrast = (torch.nn.functional.cross_entropy(scores, truth) + torch.nn.functional.cross_entropy(scores.T, truth)) / 2
        loss = contrast
        if settings.distil:
            known = torch.from_numpy(targets[at].any(axis=1))
            loss = loss + settings.distil * (1.0 - closeness)[known].mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        show.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
        if watch is not None and ((step + 1) % per_epoch == 0 or step + 1 == steps):
            watch(step + 1, table.detach())
    return table.detach()


def neighbours(vectors: torch.Tensor, rows: Ints1d) -> Ints1d:
    """Return the numbers of the NEAREST nearest other vectors of some vectors, (rows, NEAREST), or fewer if there are fewer.

    Args:
        vectors: (n, d), L2-normalised.
        rows: Numbers of the vectors whose neighbours are wanted.
    """
    chosen = torch.from_numpy(rows)
    cosines = vectors[chosen] @ vectors.T
    cosines[torch.arange(len(rows)), chosen] = -2.0  # itself
    return np.asarray(cosines.topk(min(NEAREST, len(vectors) - 1), dim=1).indices.numpy(), dtype=np.int64)


# -- folder -------------------------------------------------------------------------------------------------------------


def write_folder(table: torch.Tensor, words: Sequence[str], settings: StaticSettings, out: Path) -> None:
    """Write the table as 8-bit integers with a scale for each row, the words and the settings."""
    scales = (table.abs().amax(dim=1) / 127.0).clamp(min=1e-8)
    quantised = torch.round(table / scales[:, None]).to(torch.int8)
    config = {"model_type": KIND, "shortest": settings.shortest, "longest": settings.longest, "buckets": settings.buckets, "dim": settings.dim}
    card = out / "README.md"
    written_before = card.read_bytes() if card.is_file() else None
    with writing_folder(out) as folder:
        if written_before is not None:
            (folder / card.name).write_bytes(written_before)
        save_file({"embeddings": quantised.contiguous(), "scales": scales.contiguous()}, folder / TABLE)
        (folder / WORDS).write_text("\n".join(words), encoding="utf-8")
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors makes files that only the owner can read


# -- all steps ----------------------------------------------------------------------------------------------------------


def make_static(
    kb: Path,
    pairs: Path,
    out: Path,
    settings: StaticSettings,
    *,
    teacher: str = SHIPPED,
    taught: int = TAUGHT,
    vectors: Path | None = None,
    start: Path | None = None,
) -> dict[str, Any]:
    """Train a static encoder and write its folder.

    Args:
        kb: A knowledge base.
        pairs: Folder of pairs that were made from it.
        out: The folder to write; a README.md in it is kept.
        settings: Settings of the table and of its training.
        teacher: Folder of the teacher.
        taught: Number of names, drawn at random, that the teacher encodes.
        vectors: A .npy file for the teacher's vectors, so that later runs need not encode; None: they are not saved.
        start: Folder of a static encoder whose rows are the starting values; None: training starts from random numbers. The teacher's vectors
            are rotated onto its vectors, so that a model that reads its vectors can read the new ones.

    Returns:
        Settings, counts, size in bytes, and CPU seconds of the teacher and of the training.

    Raises:
        SapbertError: E1xx (knowledge base), E502 (pairs), E511 (a setting, or `start` has other settings), E301 (`start` can't be loaded).
    """
    _check(settings, taught)
    earlier = None if start is None else _read_start(start, settings)
    material = read_material(kb, pairs)
    words = choose_words(material.names, settings.words, [] if earlier is None else list(earlier.words))
    began = time.process_time()
    targets = teach(material, teacher, taught, settings.dim, settings.seed, kept=vectors, progress=True)
    first = None
    if earlier is not None:
        first = earlier.table_for(words, settings)
        rows = np.flatnonzero(targets.any(axis=1))
        targets[rows] = rotate(targets[rows], earlier.encoder.encode([material.names[i] for i in rows.tolist()]))
    encoded = time.process_time()
    table = fit(material, targets, words, settings, first=first, progress=True)
    write_folder(table, words, settings, out)
    size = sum(path.stat().st_size for path in out.iterdir())
    seconds = {"teacher_cpu_s": round(encoded - began), "fit_cpu_s": round(time.process_time() - encoded)}
    return {**settings._asdict(), "taught": taught, "names": len(material.names), "words": len(words), "bytes": size, **seconds}


def teach(material: Material, teacher: str, taught: int, dim: int, seed: int, *, kept: Path | None = None, progress: bool = False) -> Floats2d:
    """Return the teacher's vectors of some names, in fewer dimensions.

    Args:
        material: The names.
        teacher: Folder of an encoder.
        taught: Number of names, drawn at random.
        dim: Number of dimensions.
        seed: Seed of the draw.
        kept: A .npy file of the teacher's vectors. It is read if its stamp has the same teacher and names, and written if it has no stamp.
        progress: Whether a progress bar is shown.

    Returns:
        (names, dim), zeros for names that were not drawn.

    Raises:
        SapbertError: E511, if `kept` holds vectors of other names or of another teacher.
    """
    order = np.random.default_rng(seed).permutation(len(material.names))[:taught]
    drawn = [material.names[i] for i in order.tolist()]
    encoder = load_encoder(teacher)
    inputs = {"teacher": encoder.fingerprint, "names": fingerprint(drawn)}
    # without a stamp the inputs of the file are not known, so it is made again
    known = kept is not None and kept.is_file() and Stamp(stamp_of(kept)).read() is not None
    if kept is not None and known:
        if differences := Stamp(stamp_of(kept)).differences(inputs):
            raise fail("E511", setting="--vectors", value=kept, why=f"it was made from other inputs ({'; '.join(differences)}): delete it")
        vectors = np.load(kept, allow_pickle=False)
    else:
        vectors = encoder.encode(drawn, progress=progress).astype(np.float16)
        if kept is not None:
            _keep(kept, vectors)
            Stamp(stamp_of(kept)).write(inputs)
    targets: Floats2d = np.zeros((len(material.names), dim), dtype=np.float32)
    if len(order):
        targets[order] = project(vectors.astype(np.float32), dim)
    return targets


class _Start(NamedTuple):
    """A static encoder to start from, and the words that have their own row in it."""

    encoder: StaticEncoder
    words: list[str]

    def table_for(self, words: Sequence[str], settings: StaticSettings) -> torch.Tensor:
        """Return its table (words + buckets, dim) with a row of zeros for each word of `words` that it does not have."""
        table = self.encoder.shim.table.float()
        added = torch.zeros((len(words) - len(self.words), settings.dim))
        return torch.cat([table[: len(self.words)], added, table[len(self.words) :]])


def _read_start(folder: Path, settings: StaticSettings) -> _Start:
    """Read the encoder to start from.

    Raises:
        SapbertError: E301, it can't be loaded; E511, it has other settings than the new table.
    """
    encoder = StaticEncoder(str(folder)).initialize()
    parts = encoder.shim.parts
    if not isinstance(parts, WordParts):
        raise fail("E511", setting="--start", value=folder, why="it is a model2vec folder: name a folder that `static` wrote")
    has = {"dim": encoder.dim, "buckets": parts.buckets, "shortest": parts.shortest, "longest": parts.longest}
    for name, value in has.items():
        if value != getattr(settings, name):
            raise fail("E511", setting=name, value=getattr(settings, name), why=f"the encoder of --start has {value}")
    return _Start(encoder, list(parts.rows))


def _keep(path: Path, vectors: npt.NDArray[np.float16]) -> None:
    """Write vectors to a .npy file, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            np.save(file, vectors, allow_pickle=False)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _check(settings: StaticSettings, taught: int) -> None:
    """Check the settings.

    Raises:
        SapbertError: E511.
    """
    for name, fits, why in (
        ("dim", settings.dim >= 1, "it must be at least 1"),
        ("words", settings.words >= 0, "it can't be negative"),
        ("buckets", settings.buckets >= 1, "it must be at least 1"),
        ("longest", 1 <= settings.shortest <= settings.longest, f"it must be at least `shortest`, {settings.shortest}, and that at least 1"),
        ("batch", settings.batch >= 2, "a concept needs other concepts as negatives"),
        ("epochs", settings.epochs > 0, "it must be above 0"),
        ("hard", 0 <= settings.hard <= 1, "it must be a share, from 0 to 1"),
        ("temperature", settings.temperature > 0, "it must be above 0"),
        ("seed", settings.seed >= 0, "it can't be negative"),
    ):
        if not fits:
            raise fail("E511", setting=name, value=getattr(settings, name), why=why)
    if taught < 0:
        raise fail("E511", setting="--taught", value=taught, why="it can't be negative")
