"""A knowledge base -> seeded pairs of names, and queries that are held out by construction. No models.

SapBERT's training data (Liu et al., NAACL 2021, section 2 and appendix): every pair of names of one concept, lower-cased, duplicates
removed, at most 50 pairs a concept, drawn at random. What is added here, because ontologies' cross-references are not one to one:
concepts that are probably the same are one *label*, and a name of several labels is in no pair. Which languages' names take part is a
setting: a concept's names in any language are its synonyms (Liu et al., ACL 2021, section 3: name sets en, en+LANG, all).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import read_manifest, write_manifest, writing_folder
from spacy_sapbert.kb.concept import is_cui, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..errors import fail

KIND, VERSION = "pairs", 1
PAIRS, QUERIES, LABELS = "pairs.parquet", "queries.parquet", "labels.npy"
SCHEMA = pa.schema([("anchor", pa.string()), ("positive", pa.string()), ("label", pa.int32())])
QUERY_SCHEMA = pa.schema([("query", pa.string()), ("split", pa.string()), ("label", pa.int32())])
MENTIONS = "a task's training mentions"  # what `training.data.mentions` says its source is
HELD_OUT, ZERO_SHOT = "held_out", "zero_shot"
ENGLISH = ("en",)
ALL = "all"
Lines = npt.NDArray[np.bool_]  # (m,): which columns of the knowledge base's array (name, concept) take part
_ROWS = 100_000  # pairs in one row group: what lies in memory
Ints = npt.NDArray[np.int32]


class Query(NamedTuple):
    """A name that is in no pair. split: "held_out" (its concept's other names are in training) or "zero_shot" (none of them is)."""

    query: str
    split: str
    label: int


class Names(NamedTuple):
    """The names of each label: `strings[starts[i]:starts[i + 1]]` are rows of the knowledge base's distinct names."""

    strings: Ints  # (names,)
    starts: npt.NDArray[np.int64]  # (labels + 1,)
    labels: Ints  # (labels,)

    def of(self, i: int) -> Ints:
        return self.strings[self.starts[i] : self.starts[i + 1]]


def build_pairs(
    kb: KnowledgeBase,
    out: Union[str, Path],
    *,
    seed: int = 0,
    held_out: float = 0.05,
    zero_shot: float = 0.025,
    max_pairs: int = 50,
    languages: Sequence[str] = ENGLISH,
    leave_out: Optional[Lines] = None,
    about: Optional[Dict[str, Any]] = None,
    progress: bool = False,
) -> Dict[str, Any]:
    """Write pairs.parquet, queries.parquet, labels.npy and a manifest into the folder `out`, which appears when all is done.

    Memory grows with 4-byte numbers for each name and concept, never with text: names are read in slabs as they are written.

    seed (int): decides the queries and which pairs of a concept are kept.
    held_out (float): share of labels of which one synonym becomes a query and is in no pair; such a label keeps two names or more.
    zero_shot (float): share of labels that are kept out whole; one of their names is a query.
    max_pairs (int): of a concept's pairs, so many at random (SapBERT: 50).
    languages (Sequence[str]): names in these become pairs and queries; "all" for every one that the knowledge base has.
    leave_out (Optional[Lines]): names of concepts that are in no pair and no query, as columns of the knowledge base's array.
    about (Optional[Dict[str, Any]]): more settings for the manifest: what `leave_out` is.
    RETURNS (Dict[str, Any]): the counts, as in the manifest.
    RAISES: SapbertError E501 (no pairs), E503 (a setting), E107 (a language that the knowledge base lacks), E008 (disk full).
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
    with writing_folder(out) as folder:
        np.save(folder / LABELS, labels, allow_pickle=False)
        _write_queries(kb, queries, folder / QUERIES)
        written = _write_pairs(kb, names, folder / PAIRS, seed, max_pairs, {query for query, _, _ in held}, left_out, progress)
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
        settings: Dict[str, Any] = {"seed": seed, "held_out": held_out, "zero_shot": zero_shot, "max_pairs": max_pairs}
        if tuple(spoken) != ENGLISH:  # English alone is what a manifest without it means
            settings["languages"] = spoken
        settings.update(about or {})
        write_manifest(folder, KIND, VERSION, {"counts": counts, "settings": settings, "kb": kb.fingerprint, "sources": sources_of(kb)})
    return counts


def check_languages(kb: KnowledgeBase, languages: Sequence[str]) -> List[str]:
    """What `languages` come to in this knowledge base, each once. RAISES: SapbertError E107, E503 (none)."""
    if tuple(languages) == (ALL,):
        return list(kb.languages)
    if not languages:
        raise fail("E503", setting="languages", value="", why="name one or several by '+' (en, en+de), or all")
    kb.check_languages(languages)
    return list(dict.fromkeys(languages))


def parse_languages(text: str) -> List[str]:
    """`en+de` or `en,de` -> ["en", "de"]; `all` -> ["all"]."""
    return [part.strip().lower() for part in text.replace(",", "+").split("+") if part.strip()]


def sources_of(kb: KnowledgeBase) -> List[str]:
    return [str(source["name"]) for source in kb.manifest["sources"]]


# -- labels: which concepts are one -------------------------------------------------------------------------------------


def assign_labels(kb: KnowledgeBase) -> Tuple[Ints, Dict[str, int]]:
    """Concept row -> label, so that names of one label are synonyms and names of two labels may be negatives.

    Concepts are one label where a source term maps to both (each has the other's CUI among its codes); where they have the same
    canonical name and at least one of them has no CUI (UMLS's own concepts of equal name are different on purpose); and a drug and a
    trade name of it alone (MRREL `has_tradename`, `tradename_of`; a trade name of several ingredients stays a concept of its own).
    RETURNS: int32 (concepts,), labels numbered from 0 in the order of rows; how many joins each rule made.
    """
    sets = _Sets(len(kb))
    joins = {"joined_by_source_term": 0, "joined_by_canonical_name": 0, "joined_by_trade_name": 0}
    last_code, last_row = "", -1
    for code, row in kb.concepts_of_codes("UMLS"):
        if code == last_code:
            joins["joined_by_source_term"] += sets.join(last_row, row)
        last_code, last_row = code, row
    for one, other in _equal_canonical_names(kb):
        joins["joined_by_canonical_name"] += sets.join(one, other)
    for brand, drug in _trade_names(kb):
        joins["joined_by_trade_name"] += sets.join(brand, drug)
    roots = np.fromiter((sets.root(row) for row in range(len(kb))), dtype=np.int32, count=len(kb))
    return np.unique(roots, return_inverse=True)[1].astype(np.int32).reshape(-1), joins


class _Sets:
    """Disjoint sets of concept rows, 4 bytes each."""

    def __init__(self, size: int) -> None:
        self._parent = np.arange(size, dtype=np.int32)

    def root(self, row: int) -> int:
        parent = self._parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = int(parent[row])
        return row

    def join(self, one: int, other: int) -> bool:
        one, other = self.root(one), self.root(other)
        self._parent[max(one, other)] = min(one, other)
        return one != other


def _equal_canonical_names(kb: KnowledgeBase) -> Iterator[Tuple[int, int]]:
    digests = np.empty(len(kb), dtype=np.uint64)
    has_cui = np.empty(len(kb), dtype=np.bool_)
    for row, concept_id, name in kb.canonical_names():  # 8-byte digests: 4 million names as text would be half a gigabyte
        digests[row] = int.from_bytes(hashlib.blake2b(normalise(name).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        has_cui[row] = is_cui(concept_id)
    order = np.lexsort((~has_cui, digests))  # of equal names, those with a CUI first
    equal = digests[order[1:]] == digests[order[:-1]]
    first = order[0] if len(order) else 0
    for after, same in zip(order[1:], equal):
        first = first if same else after
        if same and not has_cui[after]:
            yield int(first), int(after)


def _trade_names(kb: KnowledgeBase) -> Iterator[Tuple[int, int]]:
    drugs: Dict[int, set[int]] = {}
    for row, relation, target in kb.relations(("has_tradename", "tradename_of")):
        if target in kb:
            other = kb.row_of(target)
            brand, drug = (other, row) if relation == "has_tradename" else (row, other)
            drugs.setdefault(brand, set()).add(drug)
    for brand, ingredients in sorted(drugs.items()):
        if len(ingredients) == 1:
            yield brand, next(iter(ingredients))


# -- names and splits ---------------------------------------------------------------------------------------------------


def names_of_labels(kb: KnowledgeBase, labels: Ints, lines: Optional[Lines] = None) -> Tuple[Names, Dict[str, int]]:
    """The distinct names of each label that are names of no other label, among the `lines` that take part."""
    chosen = slice(None) if lines is None or lines.all() else lines
    strings = np.asarray(kb.name_table.surface_form)[chosen]  # (m,), sorted
    label_of = labels[np.asarray(kb.name_table.concept)[chosen]]  # (m,)
    starts = np.flatnonzero(np.r_[True, strings[1:] != strings[:-1]]) if len(strings) else np.zeros(0, dtype=np.int64)
    lowest, highest = (f.reduceat(label_of, starts) if len(starts) else starts for f in (np.minimum, np.maximum))
    clear = lowest == highest
    unique, owner = strings[starts][clear], lowest[clear]
    order = np.argsort(owner, kind="stable")
    unique, owner = unique[order].astype(np.int32), owner[order]
    edges = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]]) if len(owner) else np.zeros(0, dtype=np.int64)
    names = Names(unique, np.r_[edges, len(unique)].astype(np.int64), owner[edges].astype(np.int32))
    return names, {"names": len(starts), "ambiguous_names": int((~clear).sum())}


Drawn = Tuple[int, str, int]  # string row, split, label


def draw_queries(names: Names, seed: int, held_out: float, zero_shot: float) -> Tuple[List[Drawn], List[Drawn], set[int]]:
    """All queries; those of seen labels; the labels kept out whole. Shares are of all labels that have a name of their own."""
    chance = np.random.default_rng([seed, 1])
    sizes = np.diff(names.starts)
    order = chance.permutation(len(sizes))
    left_out = [int(i) for i in order if sizes[i] >= 2][: round(zero_shot * len(sizes))]
    unseen = set(left_out)
    seen = [int(i) for i in order if sizes[i] >= 3 and int(i) not in unseen][: round(held_out * len(sizes))]

    def draw(i: int, split: str) -> Drawn:
        return int(chance.choice(names.of(i))), split, int(names.labels[i])

    held = [draw(i, HELD_OUT) for i in sorted(seen)]
    return [*held, *(draw(i, ZERO_SHOT) for i in sorted(left_out))], held, {int(names.labels[i]) for i in left_out}


def read_queries(folder: Union[str, Path]) -> List[Query]:
    """The held-out names of a folder of pairs. RAISES: SapbertError E502."""
    check_folder(folder)
    return [Query(**row) for row in pq.read_table(Path(folder) / QUERIES).to_pylist()]


def read_labels(folder: Union[str, Path]) -> Ints:
    """int32 (concepts,): the label of each concept row of the knowledge base that the pairs were made of. RAISES: SapbertError E502."""
    check_folder(folder)
    labels: Ints = np.load(Path(folder) / LABELS, allow_pickle=False)
    return labels


def check_folder(folder: Union[str, Path]) -> Dict[str, Any]:
    """The manifest of a folder of pairs. RAISES: SapbertError E502."""
    try:
        return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError as error:
        raise fail("E502", type(error), path=folder, why=str(error).split("] ", 1)[-1].rstrip(".")) from error


# -- writing ------------------------------------------------------------------------------------------------------------


def _write_queries(kb: KnowledgeBase, queries: Sequence[Drawn], path: Path) -> None:
    texts = kb.surface_forms_at([row for row, _, _ in queries])
    rows = [{"query": text, "split": split, "label": label} for text, (_, split, label) in zip(texts, queries)]
    pq.write_table(pa.Table.from_pylist(rows, schema=QUERY_SCHEMA), path)


def _write_pairs(
    kb: KnowledgeBase, names: Names, path: Path, seed: int, max_pairs: int, held: set[int], left_out: set[int], progress: bool
) -> Dict[str, int]:
    """Row groups of pairs in the order of labels."""
    counts = {"pairs": 0, "pairs_before_trimming": 0, "labels_in_pairs": 0, "names_in_pairs": 0}
    rows: List[Tuple[int, int, int]] = []
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
            if len(rows) >= _ROWS:
                _flush(kb, rows, writer)
        _flush(kb, rows, writer)
    return counts


def choose_pairs(n: int, max_pairs: int, seed: Tuple[int, int]) -> List[Tuple[int, int]]:
    """All n(n - 1)/2 pairs of n names, or `max_pairs` of them at random; sorted, the first of a pair before the second."""
    total = n * (n - 1) // 2
    if total <= max_pairs:
        return [(a, b) for a in range(n) for b in range(a + 1, n)]
    numbers = np.sort(np.random.default_rng([*seed, 2]).choice(total, max_pairs, replace=False, shuffle=False))
    # number -> (a, b): row a of the upper triangle begins at a(2n - a - 1)/2
    begins = np.cumsum(np.r_[0, np.arange(n - 1, 0, -1)])
    a = np.searchsorted(begins, numbers, side="right") - 1
    b = numbers - begins[a] + a + 1
    return list(zip(a.tolist(), b.tolist()))


def _flush(kb: KnowledgeBase, rows: List[Tuple[int, int, int]], writer: Any) -> None:
    needed = sorted({row for a, b, _ in rows for row in (a, b)})
    text = dict(zip(needed, kb.surface_forms_at(needed)))
    columns: List[Sequence[Any]] = [[text[a] for a, _, _ in rows], [text[b] for _, b, _ in rows], [label for _, _, label in rows]]
    if rows:
        write_columns(writer, columns, SCHEMA)
    rows.clear()


def write_columns(writer: Any, columns: Iterable[Sequence[Any]], schema: pa.Schema) -> None:
    """One row group of a Parquet file."""
    writer.write_table(pa.Table.from_arrays([pa.array(column, type=field.type) for column, field in zip(columns, schema)], schema=schema))
