"""Grounding texts of concepts, and pairs (name, grounding text) to train on: the data of BioLORD-2023's contrastive phase.

BioLORD (Remy et al., Findings of EMNLP 2022; BioLORD-2023: JAMIA 2024) brings a concept's names near to its definitions and to short
descriptions out of the knowledge graph. Texts come from the knowledge base, which keeps every source's definition, from files of
generated definitions (AGCT: Remy et al., BioNLP 2023), and from `training.data.descriptions`. What is written is a folder as `training.data.pairs`
writes it, so that `training.train` reads it unchanged, and `texts.parquet` for self-distillation.

No text names its own concept (`training.data.wording`). Two texts of one concept have one label, so no loss takes them for negatives; a text that
would stand under two labels stands under none. What pairs of names keep out is kept out here: concepts that are not trained on have no pair
and no text, and are in no description of another; held-out synonyms are no anchor and no text, and stand in no description.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import write_manifest, writing_folder
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers import ReadStats, curies
from spacy_sapbert.readers.text import lines

from ..errors import fail
from . import wording
from .descriptions import Graph
from .pairs import (
    HELD_OUT,
    KIND,
    LABELS,
    PAIRS,
    QUERIES,
    QUERY_SCHEMA,
    SCHEMA,
    VERSION,
    ZERO_SHOT,
    Ints,
    Query,
    assign_labels,
    check_folder,
    choose_pairs,
    names_of_labels,
    read_labels,
    read_queries,
    sources_of,
    write_columns,
)

TEXTS = "texts.parquet"
TEXT_SCHEMA = pa.schema([("label", pa.int32()), ("text", pa.string()), ("kind", pa.string())])
NAME, SYNONYM, DEFINITION, DESCRIPTION = "name", "synonym", "definition", "description"  # kinds of texts
DEFINITIONS, DESCRIPTIONS, NAMES = "definitions", "descriptions", "names"  # kinds of pairs
SHARES: Mapping[str, float] = {DEFINITIONS: 1.0, DESCRIPTIONS: 1.0, NAMES: 0.0}
ID_COLUMNS = ("cui", "concept_id", "conceptid", "id", "code", "curie", "sctid", "snomedid", "snomed_id")
TEXT_COLUMNS = ("definition", "text", "description")
VOCABULARY_COLUMNS = ("vocabulary", "sab", "source")
_GROUND = (DEFINITION, DESCRIPTION)
ENGLISH = "en"
NOTHING = "no grounding texts"  # a folder that says why there are none
OF_KEPT_OUT = "of_a_concept_kept_out"
_SHOWN = 5  # ids that are named
_ROWS = 100_000  # in one row group: what lies in memory
_STAGE = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE given (file TEXT, id TEXT, vocabulary TEXT, text TEXT);
CREATE TABLE generated (label INTEGER, file TEXT, id TEXT, text TEXT);
CREATE TABLE text (label INTEGER, kind TEXT, source TEXT, id TEXT, text TEXT, digest INTEGER);
"""


def build_grounding(
    kb: KnowledgeBase,
    out: Union[str, Path],
    *,
    seed: int = 0,
    generated: Sequence[Union[str, Path]] = (),
    shares: Mapping[str, float] = SHARES,
    held_out: Optional[Union[str, Path]] = None,
    max_pairs: int = 50,
    descriptions: int = 3,
    progress: bool = False,
) -> Dict[str, Any]:
    """Write pairs.parquet, queries.parquet, labels.npy, texts.parquet and a manifest into the folder `out`, which appears when all is done.

    Memory grows with numbers for each name, concept and edge of the graph, not with text: texts are staged in a temporary SQLite file.

    seed (int): decides descriptions, their wordings, and which pairs are kept.
    generated: tab-separated files of definitions, see `read_generated`.
    shares: of the pairs of a concept that are possible, so many of each kind are taken, from 0 to 1: a name with a definition ("definitions"), with a
        description ("descriptions"), with another name ("names"). What is not given is 0.
    held_out: folder of `training.data.pairs`, whose labels and queries are taken over, so that the same measurement applies; None: nothing is held out.
    max_pairs (int): of one concept; where it has more, each kind gets its part in proportion to the shares, and what one does not use goes to the others.
    descriptions (int): of one concept.
    RETURNS (Dict[str, Any]): the counts; "texts" has, by source, how many texts were read, kept, and left out why, and the first ids of these.
    RAISES: SapbertError E401, E402, E404, E405, E591, E592 (a generated file), E502, E549 (the folder of pairs), E590 (a setting),
        E593 (no pair), E008 (disk full).
    """
    shares = _checked(shares, max_pairs, descriptions)
    labels, queries = _labels_and_queries(kb, held_out)
    left_out = {query.label for query in queries if query.split == ZERO_SHOT}
    tally = _Tally()
    with writing_folder(out) as folder:
        with tempfile.TemporaryDirectory(prefix=".stage.", dir=folder) as scratch:
            stage = sqlite3.connect(Path(scratch) / "stage.sqlite", isolation_level=None)
            try:
                stage.executescript(_STAGE + "BEGIN;")
                for path in generated:
                    _stage_generated(kb, Path(path), labels, stage, tally)
                stage.execute("CREATE INDEX generated_label ON generated (label)")
                graph, edges = Graph.of(kb, labels, left_out)
                concepts = _Concepts(kb, labels, {query.query for query in queries})
                named = _stage_texts(concepts, graph, left_out, stage, tally, seed, descriptions, progress)
                _drop_shared(stage, tally)
                counts = _write(stage, folder, shares, max_pairs, seed)
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


def grounding_of(source: Union[KnowledgeBase, str, Path]) -> Iterator[Tuple[int, str, str]]:
    """(label, canonical name, text) of every definition and description, in the order of labels; a label's definitions come first.

    source: a folder of `build_grounding`, or a knowledge base, of which one is made for the time being, with nothing held out. Concepts
        without a text, and synonyms, are in texts.parquet only.
    RAISES: SapbertError E594 (a folder without texts), and those of `build_grounding`.
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


def _checked(shares: Mapping[str, float], max_pairs: int, descriptions: int) -> Dict[str, float]:
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


def _labels_and_queries(kb: KnowledgeBase, held_out: Optional[Union[str, Path]]) -> Tuple[Ints, List[Query]]:
    if held_out is None:
        return assign_labels(kb)[0], []
    made_of = check_folder(held_out)["kb"]
    if made_of != kb.fingerprint:
        raise fail("E549", pairs=held_out, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
    return read_labels(held_out), read_queries(held_out)


class _Tally:
    """Texts by source: read, kept, and left out why, with the first ids of each reason."""

    def __init__(self) -> None:
        self._counts: Dict[str, Counter[str]] = {}
        self._first: Dict[str, Dict[str, List[str]]] = {}

    def add(self, source: str, what: str, concept_id: str = "") -> None:
        self._counts.setdefault(source, Counter())[what] += 1
        if concept_id:
            first = self._first.setdefault(source, {}).setdefault(what, [])
            if len(first) < _SHOWN and concept_id not in first:
                first.append(concept_id)

    def move(self, source: str, what: str, concept_id: str) -> None:
        """A text that was kept is left out after all."""
        self._counts[source]["kept"] -= 1
        self.add(source, what, concept_id)

    def count(self, source: str, what: str) -> int:
        return self._counts.get(source, Counter())[what]

    def first(self, source: str, what: str) -> List[str]:
        return self._first.get(source, {}).get(what, [])

    def as_dict(self) -> Dict[str, Any]:
        return {
            source: {**dict(sorted(counts.items())), "first_ids": {what: ", ".join(ids) for what, ids in sorted(self._first.get(source, {}).items())}}
            for source, counts in sorted(self._counts.items())
        }


# -- generated definitions ----------------------------------------------------------------------------------------------


class Generated(NamedTuple):
    """A line of a file of generated definitions. vocabulary: of a bare code, "" where the file does not say."""

    concept_id: str
    vocabulary: str
    text: str


def read_generated(path: Union[str, Path], stats: Optional[ReadStats] = None) -> Iterator[Generated]:
    """The definitions of a tab-separated file in UTF-8, plain or packed.

    With a header: a column of ids (`ID_COLUMNS`), one of texts (`TEXT_COLUMNS`), and if there is one, of vocabularies (`VOCABULARY_COLUMNS`), where
    ids are bare codes. Without: two columns, id and text. Ids are CUIs, CURIEs (SNOMEDCT_US:84757009) or bare codes. Lines before the
    first that begin with `#` are comments.

    Lines with another number of cells, or without an id, are malformed: counted in `stats`, warned of (W001), too many refused (E405).
    RAISES: SapbertError E401 (no file), E402 (empty or binary), E404 (not UTF-8), E405, E591 (columns).
    """
    path, stats = Path(path), stats if stats is not None else ReadStats()
    stats.path, stats.kind = path, "generated definitions"
    columns: Optional[Tuple[int, int, int]] = None  # of id, text and vocabulary (-1: none)
    width = 0
    for number, line in lines(path):
        if not line.strip() or (columns is None and line.startswith("#")):
            continue
        cells = line.split("\t")
        if columns is None:
            columns, is_header = _columns(path, number, cells)
            width = len(cells)
            if is_header:
                continue
        stats.rows += 1
        if len(cells) != width:
            stats.bad(number, f"{len(cells)} cells, not {width}")
        elif not cells[columns[0]].strip():
            stats.bad(number, "no id")
        else:
            at, text, vocabulary = columns
            yield Generated(cells[at].strip(), cells[vocabulary].strip() if vocabulary >= 0 else "", cells[text])
    stats.finish()


def _columns(path: Path, number: int, cells: List[str]) -> Tuple[Tuple[int, int, int], bool]:
    """Places of id, text and vocabulary, and whether the line is a header."""
    names = [cell.strip().lower().replace(" ", "_") for cell in cells]

    def place(known: Sequence[str]) -> int:
        return next((names.index(name) for name in known if name in names), -1)

    columns = place(ID_COLUMNS), place(TEXT_COLUMNS), place(VOCABULARY_COLUMNS)
    if columns[0] >= 0 and columns[1] >= 0:
        return columns, True
    if len(cells) != 2:
        shown = f"{len(cells)} column{'s' * (len(cells) != 1)} ({', '.join(cell[:20] for cell in cells[:6])})"
        raise fail("E591", path=path, line=number, found=shown, ids=", ".join(ID_COLUMNS), texts=", ".join(TEXT_COLUMNS))
    return (0, 1, -1), False


def _stage_generated(kb: KnowledgeBase, path: Path, labels: Ints, stage: sqlite3.Connection, tally: _Tally) -> None:
    """Put a file's definitions under their labels."""
    stats = ReadStats()
    file = path.name
    stage.execute("DELETE FROM given")
    stage.executemany(
        "INSERT INTO given VALUES (?, ?, ?, ?)", ((file, one.concept_id, one.vocabulary, one.text) for one in read_generated(path, stats))
    )
    found = _labels_of_ids(kb, stage.execute("SELECT DISTINCT id, vocabulary FROM given"), labels)
    known = 0
    for concept_id, vocabulary, text in stage.execute("SELECT id, vocabulary, text FROM given ORDER BY rowid"):
        tally.add(file, "read")
        mine = found[concept_id, vocabulary]
        known += bool(mine)
        if len(mine) != 1:
            tally.add(file, "several_concepts" if mine else "unknown_concept", concept_id)
        else:
            stage.execute("INSERT INTO generated VALUES (?, ?, ?, ?)", (next(iter(mine)), file, concept_id, text))
    for _ in range(stats.malformed):
        tally.add(file, "malformed_lines")
    if not known:
        ids = ", ".join(tally.first(file, "unknown_concept"))
        raise fail("E592", rows=stats.rows, path=path, kb=kb.path, ids=ids, known=", ".join(kb.vocabularies[:12]))


def _labels_of_ids(kb: KnowledgeBase, ids: Iterable[Tuple[str, str]], labels: Ints) -> Dict[Tuple[str, str], set[int]]:
    """(id, vocabulary) as the file has them -> labels. An id of a concept itself goes before codes; a bare code may be of any vocabulary."""
    found: Dict[Tuple[str, str], set[int]] = {}
    wanted: Dict[Tuple[str, str], List[Tuple[str, str]]] = {}  # (vocabulary, code) as the knowledge base has them -> what asks for it
    for given in ids:
        concept_id, vocabulary = given
        curie = curies.canonical(f"{vocabulary}:{concept_id}" if vocabulary and ":" not in concept_id else concept_id)
        found[given] = set()
        if curie in kb:
            found[given].add(int(labels[kb.row_of(curie)]))
        else:
            prefix, _, local = curie.rpartition(":")
            wanted.setdefault(curies.code(curie) or (prefix, local), []).append(given)
    if wanted:
        for vocabulary, code, row in kb.every_code():
            for asked in ((vocabulary, code), ("", code)):
                for given in wanted.get(asked, ()):
                    found[given].add(int(labels[row]))
    return found


# -- texts of each concept ----------------------------------------------------------------------------------------------


class _Concepts:
    """Names and rows of labels."""

    def __init__(self, kb: KnowledgeBase, labels: Ints, queries: set[str]) -> None:
        self.kb, self.queries = kb, queries
        english = kb.rows_of_languages([ENGLISH]) if ENGLISH in kb.languages else None  # the texts are English; translations may be held out
        self._names, counts = names_of_labels(kb, labels, english)
        self.ambiguous = counts["ambiguous_names"]
        self._order = np.argsort(labels, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(labels[self._order], np.arange(int(labels.max(initial=-1)) + 2))
        self.title = lru_cache(maxsize=100_000)(self._title)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, label: int) -> List[int]:
        rows: List[int] = self._order[self._starts[label] : self._starts[label + 1]].tolist()
        return rows

    def written(self, label: int) -> List[str]:
        """All names of a label as their sources write them, the canonical one of its first concept first."""
        return list(dict.fromkeys(name.text for row in self.rows(label) for name in self.kb.names_of(row)))

    def usable(self, label: int, written: List[str]) -> List[str]:
        """Its names, normalised, that are of no other label and not held out; in the same order."""
        at = int(np.searchsorted(self._names.labels, label))
        if at == len(self._names.labels) or int(self._names.labels[at]) != label:
            return []
        clear = set(self.kb.surface_forms_at(self._names.of(at).tolist())) - self.queries
        return [name for name in dict.fromkeys(map(normalise, written)) if name in clear]

    def _title(self, label: int) -> str:
        """What a label is called in descriptions of others: the first of its names that may be used, "" for none."""
        written = self.written(label)
        return next((name for name in (*self.usable(label, written), *map(normalise, written)) if name and name not in self.queries), "")


def _stage_texts(
    concepts: _Concepts, graph: Graph, left_out: set[int], stage: sqlite3.Connection, tally: _Tally, seed: int, count: int, progress: bool
) -> Dict[str, int]:
    """Names, definitions and descriptions of each label that is not kept out, in the order of labels."""
    kb = concepts.kb
    counts = {"labels_without_a_name": 0, "labels_without_a_text": 0}

    def is_name(text: str) -> bool:
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
            for _, source, said_of in found:
                tally.add(source, *((OF_KEPT_OUT,) if label in left_out else ("of_a_concept_without_a_name", said_of)))
            continue
        own, concept_id = wording.OwnNames(written), kb.concept_id(rows[0])
        staged: List[Tuple[Any, ...]] = [(label, SYNONYM if i else NAME, "", concept_id, name, None) for i, name in enumerate(names)]
        seen: set[int] = set()
        for text, source, said_of in found:
            judged = wording.judge(text, own, is_name)
            digest = _digest(judged.text)
            if judged.why:
                tally.add(source, judged.why, said_of)
            elif digest in seen:
                tally.add(source, "repeated")
            else:
                seen.add(digest)
                tally.add(source, "kept")
                for what in (["cut"] if judged.cut else []) + (["own_name_replaced"] if judged.renamed else []):
                    tally.add(source, what, said_of if what == "cut" else "")
                staged.append((label, DEFINITION, source, said_of, judged.text, digest))
        chance = np.random.default_rng([seed, label, 6])
        for description in graph.describe(label, count, chance, concepts.title, own):
            source = f"descriptions of {description.made_of}"
            tally.add(source, "kept")
            staged.append((label, DESCRIPTION, source, concept_id, description.text, _digest(description.text)))
        counts["labels_without_a_text"] += len(staged) == len(names)
        stage.executemany("INSERT INTO text VALUES (?, ?, ?, ?, ?, ?)", staged)
    return counts


def _digest(text: str) -> int:
    """8 bytes, signed, as SQLite has them."""
    plain = normalise(text).rstrip(" .")
    return int.from_bytes(hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def _drop_shared(stage: sqlite3.Connection, tally: _Tally) -> None:
    """A text of two labels would be a positive and a negative at once."""
    stage.execute(
        "CREATE TABLE shared AS SELECT digest FROM text WHERE digest IS NOT NULL GROUP BY digest HAVING MIN(label) < MAX(label) ORDER BY digest"
    )
    stage.execute("CREATE UNIQUE INDEX shared_digest ON shared (digest)")
    for source, concept_id in stage.execute("SELECT source, id FROM text WHERE digest IN (SELECT digest FROM shared) ORDER BY rowid"):
        tally.move(source, "of_several_concepts", concept_id)
    stage.execute("DELETE FROM text WHERE digest IN (SELECT digest FROM shared)")


# -- writing ------------------------------------------------------------------------------------------------------------


def _write(stage: sqlite3.Connection, folder: Path, shares: Mapping[str, float], max_pairs: int, seed: int) -> Dict[str, int]:
    """Row groups of pairs and of texts in the order of labels."""
    counts = Counter[str]()
    pairs: List[Tuple[str, str, int]] = []
    texts: List[Tuple[int, str, str]] = []
    with (
        pq.ParquetWriter(folder / PAIRS, SCHEMA, compression="zstd") as pair_writer,
        pq.ParquetWriter(folder / TEXTS, TEXT_SCHEMA, compression="zstd") as text_writer,
    ):
        ordered = stage.execute("SELECT label, text, kind FROM text ORDER BY rowid")  # rows went in by label
        for label, group in groupby(ordered, key=lambda row: row[0]):
            mine: List[Tuple[int, str, str]] = list(group)
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
            chosen: List[Tuple[str, str, int]] = []
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
            if max(len(pairs), len(texts)) >= _ROWS:
                _flush(pairs, pair_writer, SCHEMA)
                _flush(texts, text_writer, TEXT_SCHEMA)
        _flush(pairs, pair_writer, SCHEMA)
        _flush(texts, text_writer, TEXT_SCHEMA)
    keys = ("pairs", "pairs_before_trimming", "labels_in_pairs", "names_in_pairs", *(f"pairs_with_{kind}" for kind in SHARES))
    return {key: int(counts[key]) for key in (*keys, DEFINITIONS, DESCRIPTIONS, "labels_with_a_definition", "labels_with_a_description")}


def _rounded(size: float, chance: np.random.Generator) -> int:
    """Up or down by chance, so that a share also holds over many concepts of one pair."""
    whole = int(size)
    return whole + bool(size > whole and chance.random() < size - whole)


def allot(wanted: Mapping[str, int], shares: Mapping[str, float], limit: int) -> Dict[str, int]:
    """`limit` pairs among kinds that want more together, in proportion to their shares; what one does not use goes to the others."""
    given = dict(wanted)
    if sum(wanted.values()) <= limit:
        return given
    asking = sorted((kind for kind in wanted if wanted[kind]), key=lambda kind: wanted[kind] / shares[kind])  # who asks for least comes first
    for i, kind in enumerate(asking):
        part = round(limit * shares[kind] / sum(shares[other] for other in asking[i:]))
        given[kind] = min(wanted[kind], part)
        limit -= given[kind]
    return given


def _flush(rows: List[Tuple[Any, ...]], writer: Any, schema: Any) -> None:
    if rows:
        write_columns(writer, zip(*rows), schema)
    rows.clear()


def write_empty_grounding(out: str | Path, why: str) -> None:
    """Write a folder that holds no grounding texts, only the reason.

    Args:
        out: Folder to write.
        why: The reason, in words.
    """
    with writing_folder(out) as folder:
        write_manifest(folder, NOTHING, VERSION, {"why": why})
