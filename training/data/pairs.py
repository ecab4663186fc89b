"""Make pairs of names from a knowledge base, and held-out queries that are in no pair. Needs no model.

SapBERT trains on all pairs of names of one concept: lower-cased, without duplicates, at most 50 pairs of a concept, drawn at random
(Liu et al., NAACL 2021, section 2 and appendix). Two rules are added here. Concepts that are probably the same have one label
(`training.data.labels`). A name of several labels is in no pair, unless a setting says so. Names of several languages may be used, because a
concept's names in any language are its synonyms (Liu et al., ACL 2021: name sets en, en+LANG, all).

A folder of pairs holds pairs.parquet (anchor, positive, label), queries.parquet (query, split, label), labels.npy (the label of each
concept row) and a manifest.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import is_disk_full, read_manifest, write_manifest, writing_folder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..errors import fail
from .labels import Ints, assign_labels

KIND, VERSION = "pairs", 1
PAIRS, QUERIES, LABELS = "pairs.parquet", "queries.parquet", "labels.npy"
SCHEMA = pa.schema([("anchor", pa.string()), ("positive", pa.string()), ("label", pa.int32())])
QUERY_SCHEMA = pa.schema([("query", pa.string()), ("split", pa.string()), ("label", pa.int32())])
MENTIONS = "a task's training mentions"  # the source that `training.data.mentions` writes into the manifest
HELD_OUT, ZERO_SHOT = "held_out", "zero_shot"
ENGLISH = ("en",)
ALL = "all"
RowMask = npt.NDArray[np.bool_]  # (m,): which rows of the name table are used
ARROW_VERSION = 1  # version of the file from which pairs are mapped
ROW_GROUP = 100_000  # number of pairs that are in memory as text at the same time


class Query(NamedTuple):
    """A name that is in no pair.

    Attributes:
        query: The name.
        split: "held_out" if other names of its concept are in training, "zero_shot" if none is.
        label: The right answer.
    """

    query: str
    split: str
    label: int


class Names(NamedTuple):
    """The names of each label: `surface_forms[starts[i]:starts[i + 1]]` are those of `labels[i]`.

    Attributes:
        surface_forms: Rows of the knowledge base's surface forms, (names,).
        starts: (labels + 1,).
        labels: (labels,).
    """

    surface_forms: Ints
    starts: npt.NDArray[np.int64]
    labels: Ints

    def of(self, i: int) -> Ints:
        """Return the surface forms of the i-th label."""
        return self.surface_forms[self.starts[i] : self.starts[i + 1]]


def build_pairs(
    kb: KnowledgeBase,
    out: str | Path,
    *,
    seed: int = 0,
    held_out: float = 0.05,
    zero_shot: float = 0.025,
    max_pairs: int = 50,
    languages: Sequence[str] = ENGLISH,
    several: bool = False,
    leave_out: RowMask | None = None,
    about: dict[str, Any] | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Write a folder of pairs. The folder appears only when it is complete.

    Memory holds 4-byte numbers for each name and concept, but not the text: names are read in groups while they are written.

    Args:
        kb: The knowledge base.
        out: Folder to write.
        seed: Seed of the draw of queries, and of the pairs of a concept that are kept.
        held_out: Share of labels of which one synonym becomes a query and is in no pair; such a label keeps at least two names.
        zero_shot: Share of labels that are in no pair; one name of each is a query.
        max_pairs: Greatest number of pairs of one concept, drawn at random (SapBERT: 50).
        languages: Names in these become pairs and queries; ("all",) for every language of the knowledge base.
        several: Whether a name of several concepts is in the pairs of each of them, as in SapBERT; it is never a query.
        leave_out: Rows of the name table whose names are in no pair and no query, (m,).
        about: More settings for the manifest, which describe `leave_out`.
        progress: Show a progress bar.

    Returns:
        The counts, as in the manifest.

    Raises:
        SapbertError: E501 (no pairs), E503 (a setting), E107 (the knowledge base lacks a language), E008 (the disk is full).
    """
    for setting, share in (("held_out", held_out), ("zero_shot", zero_shot)):
        if not 0 <= share < 1:
            raise fail("E503", setting=setting, value=share, why="it is a share of the concepts, from 0 up to but not including 1")
    if held_out + zero_shot >= 1:
        raise fail("E503", setting="held_out + zero_shot", value=held_out + zero_shot, why="nothing would be left to train on")
    if max_pairs < 1:
        raise fail("E503", setting="max_pairs", value=max_pairs, why="it must be at least 1")
    spoken = check_languages(kb, languages)
    lines = kb.rows_of_languages(spoken)
    if leave_out is not None:
        lines &= ~leave_out
    labels, joins = assign_labels(kb)
    names, counts = names_of_labels(kb, labels, lines)
    queries, held, left_out = draw_queries(names, seed, held_out, zero_shot)
    kept_out = {query for query, _, _ in held}
    if several:
        names, _ = names_of_labels(kb, labels, lines, several=True)
        kept_out.update(row for i, label in enumerate(names.labels.tolist()) if label in left_out for row in names.of(i).tolist())
    with writing_folder(out) as folder:
        np.save(folder / LABELS, labels, allow_pickle=False)
        _write_queries(kb, queries, folder / QUERIES)
        written = _write_pairs(kb, names, folder / PAIRS, seed, max_pairs, kept_out, left_out, progress)
        counts = {
            "concepts": len(kb),
            "labels": int(labels.max(initial=-1)) + 1,
            **joins,
            **counts,
            "held_out_queries": sum(split == HELD_OUT for _, split, _ in queries),
            "zero_shot_queries": sum(split == ZERO_SHOT for _, split, _ in queries),
            **written,
        }
        if not written["pairs"]:
            why = (
                f"{counts['labels']:,} concepts with {counts['names']:,} names, of which {counts['ambiguous_names']:,} are names of several concepts"
            )
            raise fail("E501", kb=kb.path, why=why)
        settings: dict[str, Any] = {"seed": seed, "held_out": held_out, "zero_shot": zero_shot, "max_pairs": max_pairs}
        if tuple(spoken) != ENGLISH:  # a manifest without this setting means English only
            settings["languages"] = spoken
        if several:
            settings["several"] = True
        settings.update(about or {})
        write_manifest(folder, KIND, VERSION, {"counts": counts, "settings": settings, "kb": kb.fingerprint, "sources": sources_of(kb)})
    return counts


def check_languages(kb: KnowledgeBase, languages: Sequence[str]) -> list[str]:
    """Return these languages without duplicates; for ("all",) those of the knowledge base.

    Raises:
        SapbertError: E107 (the knowledge base lacks one), E503 (none is given).
    """
    if tuple(languages) == (ALL,):
        return list(kb.languages)
    if not languages:
        raise fail("E503", setting="languages", value="", why="give one or several, joined by '+' (en, en+de), or all")
    kb.check_languages(languages)
    return list(dict.fromkeys(languages))


def parse_languages(text: str) -> list[str]:
    """Split `en+de` or `en,de` into ["en", "de"]."""
    return [part.strip().lower() for part in text.replace(",", "+").split("+") if part.strip()]


def sources_of(kb: KnowledgeBase) -> list[str]:
    """Return the names of the knowledge base's sources."""
    return [str(source["name"]) for source in kb.manifest["sources"]]


# -- names and splits ---------------------------------------------------------------------------------------------------


def names_of_labels(kb: KnowledgeBase, labels: Ints, lines: RowMask | None = None, *, several: bool = False) -> tuple[Names, dict[str, int]]:
    """Return the names of each label: those that are names of no other label, or all.

    Args:
        kb: The knowledge base.
        labels: The label of each concept row, (concepts,).
        lines: The rows of the name table that are used, (m,); None: all.
        several: Whether a name of several labels is returned for each of them; if not, it is left out.

    Returns:
        The names; and the numbers of all names and of names with several labels.
    """
    chosen = slice(None) if lines is None or lines.all() else lines
    strings = np.asarray(kb.name_table.surface_form)[chosen]  # (m,), sorted
    label_of = labels[np.asarray(kb.name_table.concept)[chosen]]  # (m,)
    starts = np.flatnonzero(np.r_[True, strings[1:] != strings[:-1]]) if len(strings) else np.zeros(0, dtype=np.int64)
    lowest, highest = (f.reduceat(label_of, starts) if len(starts) else starts for f in (np.minimum, np.maximum))
    clear = lowest == highest
    unique, owner = strings[starts][clear], lowest[clear]
    if several:
        count = int(labels.max(initial=-1)) + 1
        unique, owner = np.divmod(np.unique(strings.astype(np.int64) * count + label_of), count)
    order = np.argsort(owner, kind="stable")
    unique, owner = unique[order].astype(np.int32), owner[order].astype(np.int32)
    edges = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]]) if len(owner) else np.zeros(0, dtype=np.int64)
    names = Names(unique, np.r_[edges, len(unique)].astype(np.int64), owner[edges].astype(np.int32))
    return names, {"names": len(starts), "ambiguous_names": int((~clear).sum())}


Drawn = tuple[int, str, int]  # row of the surface form, split, label


def draw_queries(names: Names, seed: int, held_out: float, zero_shot: float) -> tuple[list[Drawn], list[Drawn], set[int]]:
    """Draw the names that become queries.

    Args:
        names: The names of each label.
        seed: Seed of the draw.
        held_out: Share of all labels in `names` of which one name becomes a query.
        zero_shot: Share of all labels in `names` that are kept out with all their names.

    Returns:
        All queries; the queries whose labels stay in training; the labels that are kept out.
    """
    chance = np.random.default_rng([seed, 1])
    sizes = np.diff(names.starts)
    order = chance.permutation(len(sizes))
    left_out = [int(i) for i in order if sizes[i] >= 2][: round(zero_shot * len(sizes))]
    unseen = set(left_out)
    seen = [int(i) for i in order if sizes[i] >= 3 and int(i) not in unseen][: round(held_out * len(sizes))]

    def draw(i: int, split: str) -> Drawn:
        """Draw one name of the i-th label."""
        return int(chance.choice(names.of(i))), split, int(names.labels[i])

    held = [draw(i, HELD_OUT) for i in sorted(seen)]
    return [*held, *(draw(i, ZERO_SHOT) for i in sorted(left_out))], held, {int(names.labels[i]) for i in left_out}


def read_queries(folder: str | Path) -> list[Query]:
    """Read the queries of a folder of pairs; E502 if it is not such a folder."""
    check_folder(folder)
    return [Query(**row) for row in pq.read_table(Path(folder) / QUERIES).to_pylist()]


def read_labels(folder: str | Path) -> Ints:
    """Read the label of each concept row of the pairs' knowledge base, int32 (concepts,); E502 if it is not a folder of pairs."""
    check_folder(folder)
    labels: Ints = np.load(Path(folder) / LABELS, allow_pickle=False)
    return labels


def check_folder(folder: str | Path) -> dict[str, Any]:
    """Return the manifest of a folder of pairs.

    Raises:
        SapbertError: E502 if it is not such a folder, or damaged.
    """
    try:
        return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError as error:
        why = str(error).split("] ", 1)[-1].removeprefix(f"No knowledge base at '{folder}': ").rstrip(".")
        raise fail("E502", type(error), path=folder, why=why) from error


def mapped_pairs(folder: str | Path, fingerprint: str) -> pa.Table:
    """Return the pairs of a folder as a table that is mapped from a file. Rows are read only when they are needed.

    pairs.parquet is compressed and cannot be mapped, so its content is written once, one row group at a time, into another file next to it. If the
    folder is read-only, this process uses a temporary file.

    Args:
        folder: Folder of pairs.
        fingerprint: Fingerprint of pairs.parquet; it is part of the file's name.
    """
    path = Path(folder) / f"pairs-{ARROW_VERSION}-{fingerprint[:16]}.arrow"
    if not path.is_file():
        scratch = path.with_name(f".{path.name}.{os.getpid()}")  # each process of a training writes its own file
        try:
            _unpack(Path(folder) / PAIRS, scratch)
            os.replace(scratch, path)
        except PermissionError:
            scratch.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory() as own:
                _unpack(Path(folder) / PAIRS, Path(own) / path.name)
                return _mapped(Path(own) / path.name)  # it stays mapped after it is removed
        except OSError as error:
            scratch.unlink(missing_ok=True)
            if is_disk_full(error):
                raise fail("E502", path=folder, why=f"the disk has no space for '{path.name}', from which training reads them ({error})") from error
            raise
    return _mapped(path)


def _unpack(packed: Path, path: Path) -> None:
    """Write a Parquet file as an Arrow file, one row group at a time."""
    source = pq.ParquetFile(packed)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, source.schema_arrow) as writer:
        for batch in source.iter_batches(ROW_GROUP):
            writer.write_batch(batch)


def _mapped(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


# -- writing ------------------------------------------------------------------------------------------------------------


def _write_queries(kb: KnowledgeBase, queries: Sequence[Drawn], path: Path) -> None:
    """Write queries.parquet."""
    texts = kb.surface_forms_at([row for row, _, _ in queries])
    rows = [{"query": text, "split": split, "label": label} for text, (_, split, label) in zip(texts, queries)]
    pq.write_table(pa.Table.from_pylist(rows, schema=QUERY_SCHEMA), path)


def _write_pairs(
    kb: KnowledgeBase, names: Names, path: Path, seed: int, max_pairs: int, held: set[int], left_out: set[int], progress: bool
) -> dict[str, int]:
    """Write pairs.parquet in the order of labels, without the surface forms `held` and the labels `left_out`; return the counts."""
    counts = {"pairs": 0, "pairs_before_trimming": 0, "labels_in_pairs": 0, "names_in_pairs": 0}
    rows: list[tuple[int, int, int]] = []
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for i, label in enumerate(tqdm(names.labels.tolist(), desc="pairs", unit=" concepts", disable=not progress, mininterval=1.0)):
            mine = [row for row in names.of(i).tolist() if row not in held]
            if label in left_out or len(mine) < 2:
                continue
            chosen = choose_pairs(len(mine), max_pairs, (seed, label))
            rows.extend((mine[a], mine[b], label) for a, b in chosen)
            counts["pairs"] += len(chosen)
            counts["pairs_before_trimming"] += len(mine) * (len(mine) - 1) // 2
            counts["labels_in_pairs"] += 1
            counts["names_in_pairs"] += len({row for pair in chosen for row in pair})
            if len(rows) >= ROW_GROUP:
                _flush(kb, rows, writer)
        _flush(kb, rows, writer)
    return counts


def choose_pairs(n: int, max_pairs: int, seed: tuple[int, int]) -> list[tuple[int, int]]:
    """Return all n(n - 1)/2 pairs of n names, or `max_pairs` of them, drawn at random.

    Args:
        n: Number of names.
        max_pairs: Greatest number of pairs.
        seed: Seed of the run, and the label.

    Returns:
        Pairs (a, b) of positions from 0 to n - 1, sorted, each with a < b.
    """
    total = n * (n - 1) // 2
    if total <= max_pairs:
        return [(a, b) for a in range(n) for b in range(a + 1, n)]
    numbers = np.sort(np.random.default_rng([*seed, 2]).choice(total, max_pairs, replace=False, shuffle=False))
    # number -> (a, b): row a of the upper triangle begins at a(2n - a - 1)/2
    begins = np.cumsum(np.r_[0, np.arange(n - 1, 0, -1)])
    a = np.searchsorted(begins, numbers, side="right") - 1
    b = numbers - begins[a] + a + 1
    return list(zip(a.tolist(), b.tolist()))


def _flush(kb: KnowledgeBase, rows: list[tuple[int, int, int]], writer: Any) -> None:
    """Write a row group of pairs, and empty the list."""
    needed = sorted({row for a, b, _ in rows for row in (a, b)})
    text = dict(zip(needed, kb.surface_forms_at(needed)))
    columns: list[Sequence[Any]] = [[text[a] for a, _, _ in rows], [text[b] for _, b, _ in rows], [label for _, _, label in rows]]
    if rows:
        write_columns(writer, columns, SCHEMA)
    rows.clear()


def write_columns(writer: Any, columns: Iterable[Sequence[Any]], schema: pa.Schema) -> None:
    """Write one row group of a Parquet file."""
    writer.write_table(pa.Table.from_arrays([pa.array(column, type=field.type) for column, field in zip(columns, schema)], schema=schema))


def write_pairs(
    out: str | Path,
    kb: KnowledgeBase,
    labels: Ints,
    pairs: Sequence[Mapping[str, Any]],
    queries: Sequence[Mapping[str, Any]],
    counts: Mapping[str, Any],
    settings: Mapping[str, Any],
    source: str,
) -> None:
    """Write a folder of pairs that fit into memory.

    Args:
        out: Folder to write.
        kb: The knowledge base whose concepts the labels are of.
        labels: The label of each concept row, (concepts,).
        pairs: Rows of pairs.parquet.
        queries: Rows of queries.parquet.
        counts: For the manifest.
        settings: For the manifest.
        source: Source of the pairs, which is added to the sources of the knowledge base in the manifest.
    """
    with writing_folder(out) as folder:
        np.save(folder / LABELS, labels, allow_pickle=False)
        pq.write_table(pa.Table.from_pylist(queries, schema=QUERY_SCHEMA), folder / QUERIES)
        pq.write_table(pa.Table.from_pylist(pairs, schema=SCHEMA), folder / PAIRS, compression="zstd")
        content = {"counts": counts, "settings": settings, "kb": kb.fingerprint, "sources": [*sources_of(kb), source]}
        write_manifest(folder, KIND, VERSION, content)
