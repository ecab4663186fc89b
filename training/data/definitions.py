"""Make grounding texts of concepts, and pairs (name, grounding text) to train on: the data of BioLORD-2023's contrastive phase.

BioLORD (Remy et al., Findings of EMNLP 2022; BioLORD-2023: JAMIA 2024) brings a concept's names near to its definitions and to short
descriptions from the knowledge graph. The texts come from the definitions of all sources in the knowledge base, from files of generated
definitions (`training.data.generated`), and from descriptions (`training.data.descriptions`). The result is a folder of pairs
(`training.data.pairs`), with texts.parquet for self-distillation.

No text names its own concept (`training.data.wording`). Two texts of one concept have one label, so no loss takes them as negatives.
A text that belongs to two labels is left out. Everything that is held out of pairs of names is held out here, too. A held-out concept has
no pair and no text, and is in no description of another concept. A held-out synonym is in no pair, no text and no description.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tqdm import tqdm

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_manifest, writing_folder
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..errors import fail
from . import wording
from .descriptions import Graph
from .generated import TABLES, stage_generated
from .grounding_pairs import DEFINITION, DEFINITIONS, DESCRIPTION, DESCRIPTIONS, NAME, SHARES, SYNONYM, TEXT_SCHEMA, TEXTS, write_texts
from .labels import Ints, assign_labels
from .pairs import (
    HELD_OUT,
    KIND,
    LABELS,
    QUERIES,
    QUERY_SCHEMA,
    VERSION,
    ZERO_SHOT,
    Query,
    check_folder,
    names_of_labels,
    read_labels,
    read_queries,
    sources_of,
)
from .tally import Tally

_GROUND = (DEFINITION, DESCRIPTION)
ENGLISH = "en"
NOTHING = "no grounding texts"  # the kind of a folder that only says why there are no texts
OF_KEPT_OUT = "of_a_concept_kept_out"
_STAGE = f"""
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
{TABLES}
CREATE TABLE text (label INTEGER, kind TEXT, source TEXT, id TEXT, text TEXT, digest INTEGER);
"""


def build_grounding(
    kb: KnowledgeBase,
    out: str | Path,
    *,
    seed: int = 0,
    generated: Sequence[str | Path] = (),
    shares: Mapping[str, float] = SHARES,
    held_out: str | Path | None = None,
    max_pairs: int = 50,
    descriptions: int = 3,
    progress: bool = False,
) -> dict[str, Any]:
    """Write a folder of pairs with texts.parquet. The folder appears only when it is complete.

    Memory grows with numbers for each name, concept and edge of the graph, not with text: a temporary SQLite file holds the texts.

    Args:
        kb: The knowledge base.
        out: Folder to write.
        seed: Seed of the draw of descriptions, of their wording, and of the pairs that are kept.
        generated: Tab-separated files of definitions, see `read_generated`.
        shares: Share of a concept's possible pairs that is taken of each kind, from 0 to 1: a name with a definition ("definitions"),
            with a description ("descriptions"), with another name ("names"). A kind that is not given has 0.
        held_out: Folder of pairs of names. Its labels and queries are taken over, so that both can be measured on the same queries.
            None: nothing is held out.
        max_pairs: Greatest number of pairs of one concept. If it has more, they are divided among the kinds, see `allot`.
        descriptions: Greatest number of descriptions of one concept.
        progress: Show a progress bar.

    Returns:
        The counts. "texts" has the counts of texts by source: read, kept, and left out by reason, with the first ids for each reason.

    Raises:
        SapbertError: E401, E402, E404, E405, E591, E592 (a generated file), E502, E549 (the folder of pairs), E590 (a setting),
            E593 (no pair), E008 (the disk is full).
    """
    shares = _checked(shares, max_pairs, descriptions)
    labels, queries = _labels_and_queries(kb, held_out)
    left_out = {query.label for query in queries if query.split == ZERO_SHOT}
    tally = Tally()
    with writing_folder(out) as folder:
        with tempfile.TemporaryDirectory(prefix=".stage.", dir=folder) as scratch:
            stage = sqlite3.connect(Path(scratch) / "stage.sqlite", isolation_level=None)
            try:
                stage.executescript(_STAGE + "BEGIN;")
                for path in generated:
                    stage_generated(kb, Path(path), labels, stage, tally)
                stage.execute("CREATE INDEX generated_label ON generated (label)")
                graph, edges = Graph.of(kb, labels, left_out)
                concepts = _Concepts(kb, labels, {query.query for query in queries})
                named = _stage_texts(concepts, graph, left_out, stage, tally, seed, descriptions, progress)
                _drop_shared(stage, tally)
                counts = write_texts(stage, folder, shares, max_pairs, seed)
            finally:
                stage.close()
        np.save(folder / LABELS, labels, allow_pickle=False)
        if held_out is not None:
            shutil.copyfile(Path(held_out) / QUERIES, folder / QUERIES)
        else:
            pq.write_table(QUERY_SCHEMA.empty_table(), folder / QUERIES)
        counts = {
            "concepts": len(kb),
            "labels": int(labels.max(initial=-1)) + 1,
            "names": kb.n_surface_forms,
            "ambiguous_names": concepts.ambiguous,
            **named,
            **edges,
            "held_out_queries": sum(query.split == HELD_OUT for query in queries),
            "zero_shot_queries": sum(query.split == ZERO_SHOT for query in queries),
            **counts,
        }
        if not counts["pairs"]:
            why = ", ".join(f"{counts[key]:,} {key.replace('_', ' ')}" for key in ("concepts", DEFINITIONS, DESCRIPTIONS, "held_out_queries"))
            raise fail("E593", kb=kb.path, why=why)
        settings = {"seed": seed, "shares": shares, "max_pairs": max_pairs, "descriptions": descriptions}
        sources = [*sources_of(kb), *(Path(path).name for path in generated)]
        content = {"counts": counts, "settings": settings, "kb": kb.fingerprint, "sources": sources, "texts": tally.as_dict()}
        write_manifest(folder, KIND, VERSION, content)
    return {**counts, "texts": tally.as_dict()}


def grounding_of(source: KnowledgeBase | str | Path) -> Iterator[tuple[int, str, str]]:
    """Yield all definitions and descriptions in the order of labels; the definitions of a label come first.

    Concepts without a text, and synonyms, are only in texts.parquet.

    Args:
        source: A folder of `build_grounding`, or a knowledge base; then a temporary folder is made, with nothing held out.

    Yields:
        (label, canonical name, text).

    Raises:
        SapbertError: E594 (a folder without texts), and the errors of `build_grounding`.
    """
    if isinstance(source, KnowledgeBase):
        with tempfile.TemporaryDirectory() as folder:
            build_grounding(source, Path(folder) / "grounding")
            yield from grounding_of(Path(folder) / "grounding")
        return
    try:
        manifest = check_folder(source)
    except SapbertError as error:
        raise fail("E594", type(error), path=source, why=str(error).split("] ", 1)[-1].rstrip(".")) from error
    if TEXTS not in manifest["files"]:
        raise fail("E594", path=source, why=f"it has no {TEXTS}, so it holds pairs of names only")
    label, name = -1, ""
    for batch in pq.ParquetFile(Path(source) / TEXTS).iter_batches():
        for of, text, kind in zip(*(batch.column(c).to_pylist() for c in TEXT_SCHEMA.names)):
            if kind == NAME:
                label, name = of, text
            elif kind in _GROUND and of == label:
                yield label, name, text


def _checked(shares: Mapping[str, float], max_pairs: int, descriptions: int) -> dict[str, float]:
    """Check the settings; return the share of every kind. E590 for a bad setting."""
    for kind, share in shares.items():
        if kind not in SHARES:
            raise fail("E590", setting="shares", value=kind, why=f"kinds of pairs are {', '.join(SHARES)}")
        if not 0 <= share <= 1:
            raise fail("E590", setting=f"shares.{kind}", value=share, why="it is a share of the possible pairs, from 0 to 1")
    if not any(shares.values()):
        raise fail("E590", setting="shares", value=dict(shares), why="one of them must be above 0")
    for setting, value, least in (("max_pairs", max_pairs, 1), ("descriptions", descriptions, 0)):
        if value < least:
            raise fail("E590", setting=setting, value=value, why=f"it must be at least {least}")
    return {kind: float(shares.get(kind, 0.0)) for kind in SHARES}


def _labels_and_queries(kb: KnowledgeBase, held_out: str | Path | None) -> tuple[Ints, list[Query]]:
    """Return the labels and queries of a folder of pairs, or new labels and no queries. Raise E549 if it is of another knowledge base."""
    if held_out is None:
        return assign_labels(kb)[0], []
    made_of = check_folder(held_out)["kb"]
    if made_of != kb.fingerprint:
        raise fail("E549", pairs=held_out, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
    return read_labels(held_out), read_queries(held_out)


class _Concepts:
    """The names and the concept rows of each label."""

    def __init__(self, kb: KnowledgeBase, labels: Ints, queries: set[str]) -> None:
        """Read the names of a knowledge base; `queries` are held out."""
        self.kb, self.queries = kb, queries
        self._held = set(map(normalise, queries))
        english = kb.rows_of_languages([ENGLISH]) if ENGLISH in kb.languages else None  # the texts are English; translations may be held out
        self._names, counts = names_of_labels(kb, labels, english)
        self.ambiguous = counts["ambiguous_names"]
        self._order = np.argsort(labels, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(labels[self._order], np.arange(int(labels.max(initial=-1)) + 2))
        self.title = lru_cache(maxsize=100_000)(self._title)

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self._starts) - 1

    def rows(self, label: int) -> list[int]:
        """Return the concept rows of a label."""
        rows: list[int] = self._order[self._starts[label] : self._starts[label + 1]].tolist()
        return rows

    def written(self, label: int) -> list[str]:
        """Return all names of a label as its sources write them; the canonical name of its first concept comes first."""
        return list(dict.fromkeys(name.text for row in self.rows(label) for name in self.kb.names_of(row)))

    def usable(self, label: int, written: list[str]) -> list[str]:
        """Return the names of `written`, as encoders read them, that no other label has and that are not held out, in the same order."""
        at = int(np.searchsorted(self._names.labels, label))
        if at == len(self._names.labels) or int(self._names.labels[at]) != label:
            return []
        clear = {normalise(form): form for form in self.kb.surface_forms_at(self._names.of(at).tolist()) if form not in self.queries}
        return [clear[name] for name in dict.fromkeys(map(normalise, written)) if name in clear]

    def _title(self, label: int) -> str:
        """Return the name of a label for descriptions of other labels: the first usable one, "" for none."""
        written = self.written(label)
        names = (*self.usable(label, written), *map(self.kb.encoded_form, written))
        return next((name for name in names if name and normalise(name) not in self._held), "")


def _stage_texts(
    concepts: _Concepts, graph: Graph, left_out: set[int], stage: sqlite3.Connection, tally: Tally, seed: int, count: int, progress: bool
) -> dict[str, int]:
    """Write the names, definitions and descriptions of each label into the table `text`, in the order of labels.

    Args:
        concepts: Names and rows of labels.
        graph: The knowledge graph.
        left_out: Labels that are kept out.
        stage: The database.
        tally: Receives the counts.
        seed: Seed of the draw of descriptions and of their wording.
        count: Greatest number of descriptions of one concept.
        progress: Show a progress bar.

    Returns:
        Counts of labels without a name and without a text.
    """
    kb = concepts.kb
    counts = {"labels_without_a_name": 0, "labels_without_a_text": 0}

    def is_name(text: str) -> bool:
        """Whether the text is a name of any concept."""
        return bool(kb.find([text]))

    for label in tqdm(range(len(concepts)), desc="texts", unit=" concepts", disable=not progress, mininterval=1.0):
        rows, written = concepts.rows(label), concepts.written(label)
        names = concepts.usable(label, written)
        found = [(text, source, kb.concept_id(row)) for row in rows for text, source in kb.definitions_of(row)]
        for _, source, _ in found:
            tally.add(source, "read")
        found += stage.execute("SELECT text, file, id FROM generated WHERE label = ? ORDER BY rowid", (label,)).fetchall()
        if label in left_out or not names:
            counts["labels_without_a_name"] += label not in left_out
            for _, source, defined_id in found:
                tally.add(source, *((OF_KEPT_OUT,) if label in left_out else ("of_a_concept_without_a_name", defined_id)))
            continue
        own, concept_id = wording.OwnNames(written), kb.concept_id(rows[0])
        staged: list[tuple[Any, ...]] = [(label, SYNONYM if i else NAME, "", concept_id, name, None) for i, name in enumerate(names)]
        seen: set[int] = set()
        for text, source, defined_id in found:
            judged = wording.judge(text, own, is_name)
            digest = _digest(judged.text)
            if judged.why:
                tally.add(source, judged.why, defined_id)
            elif digest in seen:
                tally.add(source, "repeated")
            else:
                seen.add(digest)
                tally.add(source, "kept")
                for what in (["cut"] if judged.cut else []) + (["own_name_replaced"] if judged.renamed else []):
                    tally.add(source, what, defined_id if what == "cut" else "")
                staged.append((label, DEFINITION, source, defined_id, judged.text, digest))
        chance = np.random.default_rng([seed, label, 6])
        for description in graph.describe(label, count, chance, concepts.title, own):
            source = f"descriptions of {description.made_of}"
            tally.add(source, "kept")
            staged.append((label, DESCRIPTION, source, concept_id, description.text, _digest(description.text)))
        counts["labels_without_a_text"] += len(staged) == len(names)
        stage.executemany("INSERT INTO text VALUES (?, ?, ?, ?, ?, ?)", staged)
    return counts


def _digest(text: str) -> int:
    """Return an 8-byte hash of a text, signed as in SQLite; case and a final full stop do not count."""
    plain = normalise(text).rstrip(" .")
    return int.from_bytes(hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def _drop_shared(stage: sqlite3.Connection, tally: Tally) -> None:
    """Remove the texts of several labels: they would be positives and negatives at once."""
    stage.execute(
        "CREATE TABLE shared AS SELECT digest FROM text WHERE digest IS NOT NULL GROUP BY digest HAVING MIN(label) < MAX(label) ORDER BY digest"
    )
    stage.execute("CREATE UNIQUE INDEX shared_digest ON shared (digest)")
    for source, concept_id in stage.execute("SELECT source, id FROM text WHERE digest IN (SELECT digest FROM shared) ORDER BY rowid"):
        tally.move(source, "of_several_concepts", concept_id)
    stage.execute("DELETE FROM text WHERE digest IN (SELECT digest FROM shared)")


def write_empty_grounding(out: str | Path, why: str) -> None:
    """Write a folder that holds no grounding texts, only the reason.

    Args:
        out: Folder to write.
        why: The reason, in words.
    """
    with writing_folder(out) as folder:
        write_manifest(folder, NOTHING, VERSION, {"why": why})
