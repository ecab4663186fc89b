"""The two pictures of SapBERT's paper (Liu et al., NAACL 2021), as numbers: `python -m training projection --before "" --after artifacts/encoder`.

Figure 1: names of a dozen concepts in the plane (t-SNE), before and after training. Figure 2: cosines of positive and negative pairs of a
batch, before and after mining. `training.report.page` draws them. Reads top to bottom: concepts, the plane, a batch, the command.
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

LEAST, MOST = 8, 30  # names of a concept that is drawn
CONCEPTS, FAMILIES = 12, 3
ENOUGH = 60  # concepts kept out of training, to draw from them alone
LOOKED_AT = 1500  # concepts among which neighbours are sought
EDGES = np.linspace(-0.4, 1.0, 29)  # bins of 0.05; names of trained encoders are hardly ever below
BATCH_NAMES = 500  # so many names, or a batch more, make Figure 2
PAPER_MARGIN = 0.2
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class DrawnConcept(NamedTuple):
    """A concept of the picture: its preferred name and the names that are drawn."""

    title: str
    names: list[str]


# -- which concepts -----------------------------------------------------------------------------------------------------


def choose_concepts(
    kb: KnowledgeBase, folder: Path, *, seed: int = 0, count: int = CONCEPTS, families: int = FAMILIES
) -> tuple[list[DrawnConcept], str]:
    """Choose concepts in families whose names look alike.

    A concept must have LEAST to MOST names of its own. Concepts that training never saw are taken if there are ENOUGH of them, else all.
    Each family is a random concept and those nearest to it by TF-IDF of character 3- and 4-grams: concepts with nothing in common would
    lie apart before training as well as after it.

    Args:
        kb: the knowledge base.
        folder: folder that `training.data.pairs` wrote.
        seed: of the random choice.
        count: number of concepts.
        families: number of families.

    Returns:
        The concepts, and where they are from, in words.

    Raises:
        SapbertError: E580, too few concepts; E502, the folder is missing or damaged.
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
    left = np.ones(len(pool), dtype=np.bool_)
    chosen: list[int] = []
    for family in range(families):
        wanted = count // families + (family < count % families)
        anchor = int(chance.choice(np.flatnonzero(left)))
        near = np.where(left, (matrix @ matrix[anchor].T).toarray().ravel(), -1.0)
        near[anchor] = 2.0  # first, whatever the others are
        found = np.argsort(-near, kind="stable")[:wanted].tolist()
        left[found] = False
        chosen.extend(found)
    return [DrawnConcept(_title(kb, labels, int(names.labels[pool[i]])), texts[i]) for i in chosen], words


def _title(kb: KnowledgeBase, labels: npt.NDArray[np.int32], label: int) -> str:
    return str(kb.entity(int(np.flatnonzero(labels == label)[0])).canonical_name)


# -- the plane ----------------------------------------------------------------------------------------------------------


def in_plane(vectors: Floats2d, seed: int = 0) -> list[tuple[float, float]]:
    """Place vectors in the plane by t-SNE over cosine distance, starting from the principal directions.

    Args:
        vectors: (n, d).
        seed: The same seed gives the same places.

    Returns:
        n places (x, y).

    Source:
        van der Maaten and Hinton, JMLR 2008.
    """
    from sklearn.manifold import TSNE

    perplexity = max(2.0, min(20.0, (len(vectors) - 1) / 3))
    found = TSNE(n_components=2, perplexity=perplexity, metric="cosine", init="pca", random_state=seed).fit_transform(vectors)
    return [(round(float(x), 2), round(float(y), 2)) for x, y in found]


# -- a batch ------------------------------------------------------------------------------------------------------------


def draw_batches(folder: Path, made: batches.Batches, *, seed: int = 0, names: int = BATCH_NAMES) -> list[dict[str, int]]:
    """Draw the first batches of a training; the names are not augmented.

    Args:
        folder: folder that `training.data.pairs` wrote.
        made: how the recipe makes batches.
        seed: of the draw.
        names: number of names to draw.

    Returns:
        For each batch, the label by name.

    Raises:
        SapbertError: E502, the folder is missing or damaged.
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
    """Return the index pairs (i < j) of one label, and of two labels.

    Args:
        labels: (n,) label of each name.
    """
    first, second = np.triu_indices(len(labels), 1)
    same = labels[first] == labels[second]
    return (first[same], second[same]), (first[~same], second[~same])


def mined_pairs(vectors: Floats2d, labels: npt.NDArray[np.int64], miner: Any) -> tuple[Pairs, Pairs]:
    """Return the positive and negative pairs that a miner keeps, each once.

    Args:
        vectors: (n, d) vectors of the names.
        labels: (n,) label of each name.
        miner: Of `training.loop.mining`; gives triplets (a, p, n) or pairs (a1, p, a2, n).
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

    Returns:
        (2, bins); a cosine outside of EDGES is counted in the nearest bin.
    """
    rows = []
    for first, second in chosen:
        cosines = np.clip(
            (vectors[first] * vectors[second]).sum(axis=1).astype(np.float64), EDGES[0], EDGES[-1]
        )  # in float32 the edge would be beyond itself
        rows.append(np.histogram(cosines, bins=EDGES)[0])
    return np.asarray(np.stack(rows), dtype=np.int64)


# -- the command --------------------------------------------------------------------------------------------------------


def recipe_of(encoder: str) -> tuple[batches.Batches, Any, str]:
    """Read batches and miner from the recipe in an encoder's folder.

    SapBERT's own settings stand in for a missing recipe, and the paper's miner for a recipe without mining.

    Args:
        encoder: folder or name of an encoder.

    Returns:
        Batches, miner, and a description of the miner.

    Raises:
        SapbertError: E510, the recipe cannot be read.
    """
    made: batches.Batches | None = None
    miner: Any = None
    said = f"hard triplets, margin {PAPER_MARGIN:g}, as in the paper (this encoder has no recipe)"
    if encoder and encoder != SHIPPED and (Path(encoder) / RECIPE).is_file():
        recipe = resolve(read_recipe(Path(encoder) / RECIPE))
        made = recipe.batches
        if isinstance(recipe.miner, mining.NoMining):
            said = f"hard triplets, margin {PAPER_MARGIN:g}, as in the paper (this encoder was trained on all pairs, without mining)"
        else:
            miner, said = recipe.miner, "the recipe's own miner"
    return made or batches.concept_batches(), miner or mining.make_hard_triplets(PAPER_MARGIN), said


def project(before: str, after: str, kb: KnowledgeBase, folder: Path, *, seed: int = 0, gpu_id: int = -1, progress: bool = False) -> dict[str, Any]:
    """Return everything that is written to `--out`.

    Args:
        before: the encoder before training, as `training.evaluation.evaluate` names it.
        after: the trained encoder.
        kb: the knowledge base.
        folder: folder that `training.data.pairs` wrote.
        seed: of all draws.
        gpu_id: what encodes; -1 is the CPU.
        progress: show progress bars.

    Raises:
        SapbertError: E502, the folder is missing or damaged; E549, its pairs are of another knowledge base; E510, the recipe cannot be
            read; E580, too few concepts; E3xx, an encoder cannot be loaded.
    """
    made_of = pairs_module.check_folder(folder)["kb"]
    if made_of != kb.fingerprint:
        raise fail("E549", pairs=folder, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
    drawn, where = choose_concepts(kb, folder, seed=seed)
    made, miner, said = recipe_of(after)
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
            "note": f"{len(batch_list)} batches of {made.pairs} pairs, drawn as training draws them, {sum(map(len, batch_list)):,} names. Miner: {said}.",
        },
    }


def project_and_write(before: str, after: str, kb: Path, pairs: Path, out: Path, *, seed: int = 0, gpu_id: int = -1) -> str:
    """Compute the two pictures and write their numbers.

    A knowledge base that is too small for a picture (E580) is no mistake: the file says so.

    Args:
        before: Encoder before training, as `load_encoder` names it.
        after: Encoder after training.
        kb: Folder of the knowledge base.
        pairs: Folder of `python -m training pairs`.
        out: JSON file.
        seed: Of concepts, batches and t-SNE.
        gpu_id: What encodes; -1 is the CPU.

    Returns:
        What to show: how much is drawn, or why nothing is.

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
        return write_absent(out, "projection", str(error).removeprefix(f"[{error.code}] "))  # a code would look like a failure in a log
    write_text(out, json.dumps(found, ensure_ascii=False) + "\n")
    return json.dumps({"concepts": len(found["concepts"]), "names": len(found["points"])})
