"""The task of self-alignment: a contrastive loss over the batch makes the vectors of two texts of the same concept similar.

The pairs of texts come from `training.data.pairs` (names), from `training.data.definitions` (names with definitions and descriptions, for the
contrastive phase of BioLORD-2023), or from `training.data.mentions`.

Source: SapBERT, Liu et al., NAACL 2021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..data import pairs as pairs_module
from ..errors import fail
from ..recipe import Prepared, Table, Task, Words
from ..registry import registry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..loop.trainer import HeldOut
    from ..recipe import Recipe

AGAINST = ("all", "texts")
SPLITS = (("held_out", "held-out synonym of a concept of the training"), ("zero_shot", "concept that is not in the training"))


@registry.tasks("spacy-sapbert.SelfAlignment.v1")
def self_alignment(against: str = "all") -> SelfAlignmentTask:
    """Make the task. The sections `[batches]`, `[miner]`, `[loss]` and `[augment]` of the recipe configure it.

    Args:
        against: The texts with which a name is compared: "all" texts of the batch, with the names (SapBERT); or only the "texts", which are the
            second texts of the pairs, as BioLORD does with definitions and descriptions. With "texts" there is no mining and no augmentation.

    Raises:
        SapbertError: E511.
    """
    if against not in AGAINST:
        raise fail("E511", setting="task.against", value=against, why=f"give one of {', '.join(AGAINST)}")
    return SelfAlignmentTask(against)


class SelfAlignmentTask(Task):
    """Self-alignment, measured with held-out synonyms and unseen concepts."""

    needs = ("batches", "loss", "miner")
    takes = ("augment",)
    paths = ("pairs", "kb")

    def __init__(self, against: str = "all") -> None:
        self.against = against

    def check(self, recipe: Recipe) -> None:
        """Check the recipe: if names are compared only with texts, there is no mining and no augmentation."""
        from ..loop.mining import NoMining

        super().check(recipe)
        if self.against == "texts" and (recipe.augment is not None or not isinstance(recipe.miner, NoMining)):
            raise ValueError('task.against = "texts" takes neither [augment] nor another [miner] than spacy-sapbert.NoMining.v1')

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of pairs according to their manifest, the pairs of a batch, and 2; see `Task.extent`."""
        return int(open_pairs(recipe)[1]["counts"]["pairs"]), recipe.batches.pairs, 2

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the pairs and a sample of the held-out queries.

        Raises:
            SapbertError: E502 (pairs), E1xx (knowledge base).
        """
        from datasets import Dataset

        from ..data.neighbours import kept_nearest_labels
        from ..loop import trainer as loop

        given = recipe.training
        kb, manifest = open_pairs(recipe)
        held_out = held_out_sample(kb, recipe)
        fingerprint = manifest["files"][pairs_module.PAIRS]["blake2b"]
        table = pairs_module.mapped_pairs(recipe.paths.pairs, fingerprint)

        def batches(dataset: Any, batch_size: int, drop_last: bool = False, **more: Any) -> Any:
            neighbours = kept_nearest_labels(recipe.paths.pairs, fingerprint) if recipe.batches.near else None
            return recipe.batches.maker(neighbours)(dataset, batch_size, drop_last, **more)

        collator: Any = loop.NameCollator(encoder.tokenizer, recipe.encoder.max_length, recipe.augment, given.seed)
        kind: Any = loop.SelfAlignment
        if self.against == "texts":
            collator = loop.TextCollator(encoder.tokenizer, recipe.encoder.max_length, ("anchor", "positive"), loop.labels_twice)
            kind = loop.TextsForNames
        return Prepared(
            data=Dataset(table, fingerprint=fingerprint[:32]),  # without it, the data set would pickle the table to compute a fingerprint
            batch_size=recipe.batches.pairs,
            batches=batches,
            collator=collator,
            objective=kind(encoder, recipe.loss, recipe.miner, given.batch_tokens, given.cache_gradients),
            evaluator=loop.HeldOutAccuracy(held_out) if held_out.queries else None,
            data_settings={"pairs": fingerprint},
            report={
                "held_out": {"queries": len(held_out.queries), "names": len(held_out.names)},
                "pairs": manifest["counts"],
                "pairs_settings": manifest["settings"],
                "sources": manifest["sources"],
            },
            words=words,
        )


def open_pairs(recipe: Recipe) -> tuple[KnowledgeBase, dict[str, Any]]:
    """Open the knowledge base, and the manifest of the pairs that were made from it.

    Raises:
        SapbertError: E502, E1xx.
    """
    manifest = pairs_module.check_folder(recipe.paths.pairs)
    kb = KnowledgeBase(recipe.paths.kb)
    if manifest["kb"] != kb.fingerprint:
        raise fail("E502", path=recipe.paths.pairs, why=f"they were made from another knowledge base than '{recipe.paths.kb}'")
    return kb, manifest


def held_out_sample(kb: KnowledgeBase, recipe: Recipe) -> HeldOut:
    """Return held-out queries of both splits and a dictionary, with the sizes of the recipe; see `sample_of_queries`.

    Raises:
        SapbertError: E502.
    """
    return sample_of_queries(kb, recipe.paths.pairs, recipe.training.seed, recipe.training.eval_queries, recipe.training.eval_names)


def sample_of_queries(kb: KnowledgeBase, pairs: str, seed: int, eval_queries: int, eval_names: int) -> HeldOut:
    """Return held-out queries, and a dictionary: all names of their concepts and a sample of the other names, but no query.

    Args:
        kb: The knowledge base.
        pairs: Folder of the pairs that were made from the knowledge base.
        seed: Seed of the random choices.
        eval_queries: Greatest number of queries.
        eval_names: Number of names of other concepts in the dictionary.

    Raises:
        SapbertError: E502.
    """
    from ..loop.trainer import HeldOut

    chance = np.random.default_rng([seed, 3])
    every = pairs_module.read_queries(pairs)
    labels = pairs_module.read_labels(pairs)
    count = min(eval_queries, len(every))
    chosen = [every[i] for i in sorted(chance.choice(len(every), count, replace=False))] if every else []
    strings, owners = np.asarray(kb.name_table.surface_form), labels[np.asarray(kb.name_table.concept)]
    held = set(kb.find([query.query for query in every]).values())
    mine = np.isin(owners, [query.label for query in chosen])
    others = np.flatnonzero(~mine)
    mine[chance.choice(others, min(eval_names, len(others)), replace=False)] = True
    rows = np.array([row for row in np.flatnonzero(mine) if int(strings[row]) not in held], dtype=np.int64)
    names = kb.surface_forms_at(strings[rows].tolist()) if len(rows) else []
    return HeldOut([q.query for q in chosen], np.array([q.label for q in chosen]), [q.split for q in chosen], names, owners[rows].astype(np.int64))


def held_out_table(report: dict[str, Any]) -> tuple[str, Table]:
    """Return a description of the figures of held-out queries, and their table."""
    rows = [(title, (f"{split}_at1", f"{split}_at5")) for split, title in SPLITS if f"{split}_at1" in report["after"]]
    measured = (
        f"Held-out synonyms by exact search among a sample of {report['held_out']['names']:,} names ({report['held_out']['queries']:,} queries); "
        "ties count by their expected value.\nThe figures are higher than they would be with all names of the knowledge base."
    )
    return measured, Table(("@1", "@5"), rows)


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    pairs, sources = report["pairs"], report["sources"]
    used = [source for source in sources if "medic" in source.lower() or "ctd_diseases" in source.lower()]
    grounded = pairs.get("pairs_with_definitions", 0) + pairs.get("pairs_with_descriptions", 0)  # only `training.data.definitions` writes these
    if pairs_module.MENTIONS in sources:
        note = "The pairs contain the training mentions of a benchmark. Do not measure on the corpora from which the mentions were taken."
    else:
        note = "No text and no mention of a corpus was used"
        note += f"; but the dictionary {', '.join(used)}, whose names a benchmark is scored against, was among the sources." if used else "."
    data = (
        f"Sources: {', '.join(sources)}. {pairs['labels_in_pairs']:,} concepts with {pairs['names_in_pairs']:,} names gave\n"
        f"{pairs['pairs']:,} pairs (of {pairs['pairs_before_trimming']:,}; at most {report['pairs_settings']['max_pairs']} for each concept); "
        f"{pairs['ambiguous_names']:,} names of several\nconcepts are in no pair. Held out: one synonym of each of {pairs['held_out_queries']:,} "
        f"concepts, and {pairs['zero_shot_queries']:,} concepts with all their names.\n{note}"
    )
    measured, table = held_out_table(report)
    if not grounded:
        return Words("self-alignment (SapBERT: Liu et al., NAACL 2021)", "names of one concept get similar vectors", data, measured, (table,))
    data += (
        f"\n{pairs['pairs_with_definitions']:,} pairs contain a definition, {pairs['pairs_with_descriptions']:,} a description made from relations."
    )
    method, what = (
        "the contrastive phase of BioLORD-2023 (Remy et al., JAMIA 2024)",
        "a name gets a vector similar to those of the definitions and descriptions of its concept",
    )
    return Words(method, what, data, measured, (table,), tag="biolord", limits="")
