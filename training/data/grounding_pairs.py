"""Choose pairs of names with grounding texts, and write them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .pairs import PAIRS, ROW_GROUP, SCHEMA, choose_pairs, write_columns

TEXTS = "texts.parquet"
TEXT_SCHEMA = pa.schema([("label", pa.int32()), ("text", pa.string()), ("kind", pa.string())])
NAME, SYNONYM, DEFINITION, DESCRIPTION = "name", "synonym", "definition", "description"  # kinds of texts
DEFINITIONS, DESCRIPTIONS, NAMES = "definitions", "descriptions", "names"  # kinds of pairs
SHARES: Mapping[str, float] = {DEFINITIONS: 1.0, DESCRIPTIONS: 1.0, NAMES: 0.0}


def write_texts(stage: sqlite3.Connection, folder: Path, shares: Mapping[str, float], max_pairs: int, seed: int) -> dict[str, int]:
    """Write pairs.parquet and texts.parquet in the order of labels.

    Args:
        stage: Database with the table `text`.
        folder: Folder to write into.
        shares: Share of the possible pairs of each kind.
        max_pairs: Greatest number of pairs of one concept.
        seed: Seed of the draw of pairs.

    Returns:
        The counts.
    """
    counts = Counter[str]()
    pairs: list[tuple[str, str, int]] = []
    texts: list[tuple[int, str, str]] = []
    with (
        pq.ParquetWriter(folder / PAIRS, SCHEMA, compression="zstd") as pair_writer,
        pq.ParquetWriter(folder / TEXTS, TEXT_SCHEMA, compression="zstd") as text_writer,
    ):
        ordered = stage.execute("SELECT label, text, kind FROM text ORDER BY rowid")  # rows were inserted in the order of labels
        for label, group in groupby(ordered, key=lambda row: row[0]):
            mine: list[tuple[int, str, str]] = list(group)
            names, definitions, descriptions = (
                [text for _, text, kind in mine if kind in kinds] for kinds in ((NAME, SYNONYM), (DEFINITION,), (DESCRIPTION,))
            )
            counts.update({DEFINITIONS: len(definitions), DESCRIPTIONS: len(descriptions), "labels_with_a_definition": bool(definitions)})
            counts["labels_with_a_description"] += bool(descriptions)
            chance = np.random.default_rng([seed, label, 5])
            possible = {
                DEFINITIONS: len(names) * len(definitions),
                DESCRIPTIONS: len(names) * len(descriptions),
                NAMES: len(names) * (len(names) - 1) // 2,
            }
            taken = allot({kind: _rounded(shares[kind] * size, chance) for kind, size in possible.items()}, shares, max_pairs)
            chosen: list[tuple[str, str, int]] = []
            for kind, others in ((DEFINITIONS, definitions), (DESCRIPTIONS, descriptions)):
                numbers = np.sort(chance.choice(possible[kind], taken[kind], replace=False, shuffle=False)) if taken[kind] else ()
                chosen.extend((names[int(n) // len(others)], others[int(n) % len(others)], label) for n in numbers)
            among_names = choose_pairs(len(names), taken[NAMES], (seed, label)) if taken[NAMES] else []
            chosen.extend((names[a], names[b], label) for a, b in among_names)
            counts.update({f"pairs_with_{kind}": taken[kind] for kind in SHARES})
            counts.update(pairs=len(chosen), pairs_before_trimming=sum(size for kind, size in possible.items() if shares[kind]))
            counts.update(labels_in_pairs=bool(chosen), names_in_pairs=len({a for a, _, _ in chosen} | {names[b] for _, b in among_names}))
            pairs.extend(chosen)
            texts.extend(mine)
            if max(len(pairs), len(texts)) >= ROW_GROUP:
                _flush(pairs, pair_writer, SCHEMA)
                _flush(texts, text_writer, TEXT_SCHEMA)
        _flush(pairs, pair_writer, SCHEMA)
        _flush(texts, text_writer, TEXT_SCHEMA)
    keys = ("pairs", "pairs_before_trimming", "labels_in_pairs", "names_in_pairs", *(f"pairs_with_{kind}" for kind in SHARES))
    return {key: int(counts[key]) for key in (*keys, DEFINITIONS, DESCRIPTIONS, "labels_with_a_definition", "labels_with_a_description")}


def _rounded(size: float, chance: np.random.Generator) -> int:
    """Round up or down at random, so that a share is also right over many concepts that have one pair each."""
    whole = int(size)
    return whole + bool(size > whole and chance.random() < size - whole)


def allot(wanted: Mapping[str, int], shares: Mapping[str, float], limit: int) -> dict[str, int]:
    """Divide `limit` pairs among the kinds in proportion to their shares. If a kind needs fewer, the others get the rest.

    Args:
        wanted: Pairs of each kind that could be taken.
        shares: Share of each kind.
        limit: Greatest number of pairs of all kinds together.

    Returns:
        Pairs of each kind.
    """
    given = dict(wanted)
    if sum(wanted.values()) <= limit:
        return given
    asking = sorted(
        (kind for kind in wanted if wanted[kind]), key=lambda kind: wanted[kind] / shares[kind]
    )  # the kind that uses the smallest part of its share comes first
    for i, kind in enumerate(asking):
        part = round(limit * shares[kind] / sum(shares[other] for other in asking[i:]))
        given[kind] = min(wanted[kind], part)
        limit -= given[kind]
    return given


def _flush(rows: list[tuple[Any, ...]], writer: Any, schema: Any) -> None:
    """Write rows as a row group, and empty the list."""
    if rows:
        write_columns(writer, zip(*rows), schema)
    rows.clear()
