"""Compute the two figures of SapBERT's paper (Liu et al., NAACL 2021): `python -m training projection --before "" --after artifacts/encoder`.

Figure 1: names of a dozen concepts in the plane (t-SNE), before and after training. Figure 2: cosines of positive and negative pairs of a
batch, before and after mining. `training.report.page` draws them. This module has, in this order: concepts, the plane, a batch, the command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_text
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.types import Floats2d

from ..data import pairs as pairs_module
from ..data.neighbours import kept_nearest_labels
from ..errors import fail
from ..evaluation.evaluate import versions
from ..evaluation.results import write_absent
from ..fit import RECIPE, read_recipe, resolve
from ..loop import batches, mining
from ..loop.encoders import SHIPPED, load_encoder

LEAST, MOST = 8, 30  # numbers of names that a drawn concept may have
CONCEPTS, FAMILIES = 12, 3
ENOUGH = 60  # number of concepts kept out of training from which on only these are drawn
LOOKED_AT = 1500  # number of concepts among which neighbours are searched
EDGES = np.linspace(-0.4, 1.0, 29)  # bins of 0.05; cosines of trained encoders are hardly ever below -0.4
BATCH_NAMES = 500  # names for Figure 2; the last batch is used whole
PAPER_MARGIN = 0.2
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class DrawnConcept(NamedTuple):
    """A concept of the picture: its preferred name and the names that are drawn."""

    title: str
    names: list[str]


# -- concepts -----------------------------------------------------------------------------------------------------------


def choose_concepts(
    kb: KnowledgeBase, folder: Path, *, seed: int = 0, count: int = CONCEPTS, families: int = FAMILIES
) -> tuple[list[DrawnConcept], str]:
    """Choose concepts in families whose names look alike.

    A concept must have LEAST to MOST names that no other concept has. If there are ENOUGH concepts that training never saw, only these are used,
    else all. Each family is a random concept with those nearest to it by TF-IDF of character 3- and 4-grams. Concepts with nothing in common would
    already be far apart before training.

    Args:
        kb: The knowledge base.
        folder: Folder that `training.data.pairs` wrote.
        seed: Seed of the random choice.
        count: Number of concepts.
        families: Number of families.

    Returns:
        The concepts, and in words from which concepts they were chosen.

    Raises:
        SapbertError: E580 (too few concepts), E502 (the folder is missing or damaged).
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    labels = pairs_module.read_labels(folder)
    names, _ = pairs_module.names_of_labels(kb, labels)
    sizes = np.diff(names.starts)
    fitting = np.flatnonzero((sizes >= LEAST) & (sizes <= MOST))
    unseen = {query.label for query in pairs_module.read_queries(folder) if query.split == pairs_module.ZERO_SHOT}
    kept_out = np.array([i for i in fitting.tolist() if int(names.labels[i]) in unseen], dtype=np.int64)
    pool, words = (kept_out, "concepts kept out of training") if len(kept_out) >= ENOUGH else (fitting, "concepts of which training saw most names")
    if len(pool) < count:
        raise fail("E580", kb=kb.path, found=len(pool), least=LEAST, most=MOST, count=count)
    chance = np.random.default_rng([seed, 3])
    pool = np.sort(chance.choice(pool, min(LOOKED_AT, len(pool)), replace=False))
    texts = [kb.surface_forms_at(names.of(i).tolist()) for i in pool.tolist()]
    matrix = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), dtype=np.float32).fit_transform(" | ".join(own) for own in texts)
    free = np.ones(len(pool), dtype=np.bool_)
    chosen: list[int] = []
    for family in range(families):
        wanted = count // families + (family < count % families)
        anchor = int(chance.choice(np.flatnonzero(free)))
        near = np.where(free, (matrix @ matrix[anchor].T).toarray().ravel(), -1.0)
        near[anchor] = 2.0  # higher than all others, so that it comes first
        found = np.argsort(-near, kind="stable")[:wanted].tolist()
        free[found] = False
        chosen.extend(found)
    return [DrawnConcept(_title(kb, labels, int(names.labels[pool[i]])), texts[i]) for i in chosen], words


def _title(kb: KnowledgeBase, labels: npt.NDArray[np.int32], label: int) -> str:
    return str(kb.entity(int(np.flatnonzero(labels == label)[0])).canonical_name)


# -- the plane ----------------------------------------------------------------------------------------------------------


def in_plane(vectors: Floats2d, seed: int = 0) -> list[tuple[float, float]]:
    """Project vectors into the plane with t-SNE over cosine distance, starting from the principal directions.

    Args:
        vectors: (n, d).
        seed: The same seed gives the same positions.

    Returns:
        n positions (x, y).

    Source:
        van der Maaten and Hinton, JMLR 2008.
    """
    from sklearn.manifold import TSNE

    perplexity = max(2.0, min(20.0, (len(vectors) - 1) / 3))
    found = TSNE(n_components=2, perplexity=perplexity, metric="cosine", init="pca", random_state=seed).fit_transform(vectors)
    return [(round(float(x), 2), round(float(y), 2)) for x, y in found]


# -- a batch ------------------------------------------------------------------------------------------------------------


def draw_batches(folder: Path, made: batches.Batches, *, seed: int = 0, names: int = BATCH_NAMES) -> list[dict[str, int]]:
    """Draw the first batches of a training. The names are not augmented.

    Args:
        folder: Folder that `training.data.pairs` wrote.
        made: The recipe's settings of batches.
        seed: Seed of the draw.
        names: Number of names to draw.

    Returns:
        For each batch, name -> label.

    Raises:
        SapbertError: E502 (the folder is missing or damaged).
    """
    from datasets import Dataset

    manifest = pairs_module.check_folder(folder)
    stamp = manifest["files"][pairs_module.PAIRS]["blake2b"]
    table = pairs_module.mapped_pairs(folder, stamp)
    neighbours = kept_nearest_labels(folder, stamp) if made.near else None
    sampler = iter(made.maker(neighbours)(Dataset(table, fingerprint=stamp[:32]), made.pairs, seed=seed))
    found: list[dict[str, int]] = []
    while sum(map(len, found)) < names:
        rows = next(sampler, None)
        if not rows:
            break
        part = table.take(rows)
        own: dict[str, int] = {}
        for column in ("anchor", "positive"):
            for name, label in zip(part.column(column).to_pylist(), part.column("label").to_pylist()):
                own.setdefault(name, label)
        found.append(own)
    return found


def all_pairs(labels: npt.NDArray[np.int64]) -> tuple[Pairs, Pairs]:
    """Return the index pairs (i < j) of names with the same label, and of names with two labels.

    Args:
        labels: (n,) label of each name.
    """
    first, second = np.triu_indices(len(labels), 1)
    same = labels[first] == labels[second]
    return (first[same], second[same]), (first[~same], second[~same])


def mined_pairs(vectors: Floats2d, labels: npt.NDArray[np.int64], miner: Any) -> tuple[Pairs, Pairs]:
    """Return the positive and negative pairs that a miner keeps, without duplicates.

    Args:
        vectors: (n, d) vectors of the names.
        labels: (n,) label of each name.
        miner: A miner of `training.loop.mining`; it returns triplets (a, p, n) or pairs (a1, p, a2, n).
    """
    kept = miner(torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)), torch.from_numpy(labels))
    if kept is None:
        return all_pairs(labels)
    first, positive, second, negative = kept if len(kept) == 4 else (kept[0], kept[1], kept[0], kept[2])
    return _once(first, positive), _once(second, negative)


def _once(one: torch.Tensor, other: torch.Tensor) -> Pairs:
    both = np.sort(np.stack([one.numpy(), other.numpy()], axis=1), axis=1)
    unique = np.unique(both, axis=0)
    return unique[:, 0], unique[:, 1]


def counts(vectors: Floats2d, chosen: tuple[Pairs, Pairs]) -> npt.NDArray[np.int64]:
    """Count the cosines of the positive and of the negative pairs in the bins of EDGES.

    Args:
        vectors: (n, d) L2-normalised vectors.
        chosen: Positive pairs and negative pairs of rows.

    Returns:
        (2, bins); a cosine outside of EDGES is counted in the nearest bin.
    """
    rows = []
    for first, second in chosen:
        cosines = np.clip(
            (vectors[first] * vectors[second]).sum(axis=1).astype(np.float64), EDGES[0], EDGES[-1]
        )  # float64, because the edges in float32 would be outside the bins
        rows.append(np.histogram(cosines, bins=EDGES)[0])
    return np.asarray(np.stack(rows), dtype=np.int64)


# -- the command --------------------------------------------------------------------------------------------------------


def recipe_of(encoder: str) -> tuple[batches.Batches, Any, str]:
    """Read batches and miner from the recipe in an encoder's folder.

    If there is no recipe, SapBERT's own settings are used; for a recipe without mining, the paper's miner.

    Args:
        encoder: Folder or name of an encoder.

    Returns:
        Batches, miner, and a description of the miner.

    Raises:
        SapbertError: E510 (the recipe cannot be read).
    """
    made: batches.Batches | None = None
    miner: Any = None
    description = f"hard triplets, margin {PAPER_MARGIN:g}, as in the paper (this encoder has no recipe)"
    if encoder and encoder != SHIPPED and (Path(encoder) / RECIPE).is_file():
        recipe = resolve(read_recipe(Path(encoder) / RECIPE))
        made = recipe.batches
        if isinstance(recipe.miner, mining.NoMining):
            description = f"hard triplets, margin {PAPER_MARGIN:g}, as in the paper (this encoder was trained on all pairs, without mining)"
        else:
            miner, description = recipe.miner, "the recipe's own miner"
    return made or batches.concept_batches(), miner or mining.make_hard_triplets(PAPER_MARGIN), description


def project(before: str, after: str, kb: KnowledgeBase, folder: Path, *, seed: int = 0, gpu_id: int = -1, progress: bool = False) -> dict[str, Any]:
    """Return the result that is written to `--out`.

    Args:
        before: The encoder before training, as for `load_encoder`.
        after: The trained encoder.
        kb: The knowledge base.
        folder: Folder that `training.data.pairs` wrote.
        seed: Seed of all random choices.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.
        progress: Whether to show progress bars.

    Raises:
        SapbertError: E502 (the folder is missing or damaged), E549 (its pairs are of another knowledge base), E510 (the recipe cannot be read),
            E580 (too few concepts), E3xx (an encoder cannot be loaded).
    """
    made_of = pairs_module.check_folder(folder)["kb"]
    if made_of != kb.fingerprint:
        raise fail("E549", pairs=folder, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
    drawn, where = choose_concepts(kb, folder, seed=seed)
    made, miner, description = recipe_of(after)
    batch_list = draw_batches(folder, made, seed=seed)
    points = [(name, concept) for concept, one in enumerate(drawn) for name in one.names]
    rows: dict[str, int] = {}
    for name in (*(name for name, _ in points), *(name for batch in batch_list for name in batch)):
        rows.setdefault(name, len(rows))
    places: dict[str, list[tuple[float, float]]] = {}
    totals = {key: np.zeros((2, len(EDGES) - 1), dtype=np.int64) for key in ("before", "mined", "after")}
    used = {}
    for key, name in (("before", before), ("after", after)):
        model = load_encoder(name, gpu_id)
        used[key] = model.fingerprint
        vectors = np.asarray(model.encode(list(rows), progress=progress), dtype=np.float32)  # (names, d)
        places[key] = in_plane(vectors[[rows[name] for name, _ in points]], seed)
        for batch in batch_list:
            mine, labels = vectors[[rows[name] for name in batch]], np.array(list(batch.values()), dtype=np.int64)
            totals[key] += counts(mine, all_pairs(labels))
            if key == "before":
                totals["mined"] += counts(mine, mined_pairs(mine, labels, miner))
    return {
        "kind": "projection",
        "title": f"Names of {len(drawn)} {where}",
        "note": f"{where.capitalize()}, {LEAST} to {MOST} names each, drawn by seed {seed} in {FAMILIES} families whose names look alike; t-SNE over cosine distance.",
        "seed": seed,
        "encoders": used,
        "versions": versions(),
        "concepts": [one.title for one in drawn],
        "points": [
            {"name": name, "concept": concept, "before": one, "after": other}
            for (name, concept), one, other in zip(points, places["before"], places["after"])
        ],
        "pairs": {
            "edges": [round(float(edge), 4) for edge in EDGES],
            **{key: {"positive": found[0].tolist(), "negative": found[1].tolist()} for key, found in totals.items()},
            "note": f"{len(batch_list)} batches of {made.pairs} pairs, drawn as in training, {sum(map(len, batch_list)):,} names. Miner: {description}.",
        },
    }


def project_and_write(before: str, after: str, kb: Path, pairs: Path, out: Path, *, seed: int = 0, gpu_id: int = -1) -> str:
    """Compute the two figures and write their numbers.

    If the knowledge base is too small for a figure (E580), no error is raised: the file gives the reason.

    Args:
        before: Encoder before training, as for `load_encoder`.
        after: Encoder after training.
        kb: Folder of the knowledge base.
        pairs: Folder of `python -m training pairs`.
        out: JSON file.
        seed: Seed of the choice of concepts, of batches and of t-SNE.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        Text to show: the numbers of concepts and names, or the reason why there are none.

    Raises:
        SapbertError: E581 (seed), and those of `project` except E580.
    """
    if seed < 0:
        raise fail("E581", setting="--seed", value=seed, why="it can't be negative")
    try:
        found = project(before, after, KnowledgeBase(kb), pairs, seed=seed, gpu_id=gpu_id, progress=True)
    except SapbertError as error:
        if error.code != "E580":
            raise
        return write_absent(out, "projection", str(error).removeprefix(f"[{error.code}] "))  # in a log, an error code would look like a failure
    write_text(out, json.dumps(found, ensure_ascii=False) + "\n")
    return json.dumps({"concepts": len(found["concepts"]), "names": len(found["points"])})
