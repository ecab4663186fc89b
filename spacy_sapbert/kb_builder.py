"""Concepts of any number of sources -> one knowledge base folder. Everything streams through a staging SQLite file.

How concepts are joined:
1. A CUI is a concept. A source's term belongs to its *primary* CUI: the one listed first for it (sources in the order given),
   unless another of its CUIs fits better, that is, has a preferred name of its own (of a term that maps to it alone, or of UMLS)
   that equals the term's label, or failing that one of its exact synonyms, where the first one's does not.
2. Terms that a curated mapping calls the same (`same_as`) are one term: their CUIs are put in one list, and rule 1 applies.
3. Terms without any CUI keep their identifier, that of the first source among those mapped to each other (unless `cui_only`).
4. Terms whose primary CUI is the same are one concept. Its other CUIs, its sources' identifiers and retired ids all lead to it
   (`KnowledgeBase.row_of`), except where they are concepts of their own.
The canonical name is the best-ranked of the first source given that has one; ties go to what was read first. The same holds for the
definition; further ones that differ from it are kept beside it.
"""

from __future__ import annotations

import sqlite3
import tempfile
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
from tqdm import tqdm

from . import semantic_types
from .concept import MAX_NAME_CHARS, Concept, is_cui, normalise
from .errors import Errors, fail
from .files import reserve, write_manifest, writing_folder
from .kb import DATABASE, KIND, PAIRS, VERSION, KnowledgeBase

WEAK = ("NRW", "REL", "BRD", "LAY")  # names that are near the concept, not the concept: last in a tie
_BATCH = 20_000

_STAGE = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -200000; PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE s_name (id TEXT, text TEXT, norm TEXT, source TEXT, language TEXT, term_type TEXT, rank INTEGER, input INTEGER);
CREATE TABLE s_cui (id TEXT, cui TEXT);
CREATE TABLE s_same (id TEXT, other TEXT);
CREATE TABLE s_type (id TEXT, tui TEXT);
CREATE TABLE s_definition (id TEXT, definition TEXT, source TEXT, input INTEGER);
CREATE TABLE s_code (id TEXT, vocabulary TEXT, code TEXT);
CREATE TABLE s_parent (id TEXT, parent TEXT);
CREATE TABLE s_retired (id TEXT, old TEXT);
CREATE TABLE s_relation (id TEXT, relation TEXT, target TEXT);
CREATE TABLE key (id TEXT PRIMARY KEY, cid TEXT NOT NULL) WITHOUT ROWID;
"""
_FINAL = """
CREATE TABLE concept (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, definition TEXT, source TEXT NOT NULL);
CREATE TABLE string (row INTEGER PRIMARY KEY, norm TEXT NOT NULL UNIQUE);
CREATE TABLE name (string INTEGER NOT NULL, concept INTEGER NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL, language TEXT NOT NULL,
                   term_type TEXT NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE type (concept INTEGER NOT NULL, tui TEXT NOT NULL, PRIMARY KEY (concept, tui)) WITHOUT ROWID;
CREATE TABLE code (concept INTEGER NOT NULL, vocabulary TEXT NOT NULL, code TEXT NOT NULL);
CREATE TABLE parent (concept INTEGER NOT NULL, parent TEXT NOT NULL, PRIMARY KEY (concept, parent)) WITHOUT ROWID;
CREATE TABLE other_id (id TEXT PRIMARY KEY, concept INTEGER NOT NULL, kind TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE relation (concept INTEGER NOT NULL, relation TEXT NOT NULL, target TEXT NOT NULL);
CREATE TABLE definition (concept INTEGER NOT NULL, place INTEGER NOT NULL, text TEXT, source TEXT NOT NULL, PRIMARY KEY (concept, place)) WITHOUT ROWID;
CREATE TABLE type_sets (no INTEGER PRIMARY KEY, members TEXT NOT NULL);
CREATE TABLE vocabulary_sets (no INTEGER PRIMARY KEY, members TEXT NOT NULL);
"""


@dataclass
class Source:
    """One input: concepts, and what the manifest says of them. `stats` (a reader's) is read when the stream has ended. only_adds: its names
    (translations) are taken only for concepts that another source names."""

    name: str
    concepts: Iterable[Concept]
    kind: str = ""
    stats: Any = None
    only_adds: bool = False
    options: Dict[str, Any] = field(default_factory=dict)  # that the reader was given, for the manifest


@dataclass
class Filters:
    """languages: ISO 639-1, empty for all. types: TUIs, groups or names, empty for all. cui_only: leave out concepts without a CUI.
    weak_names: keep narrower, related, broader and lay synonyms."""

    languages: Sequence[str] = ("en",)
    types: Sequence[str] = ()
    cui_only: bool = False
    weak_names: bool = True
    tuis: FrozenSet[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.tuis = semantic_types.expand(self.types) if self.types else frozenset()

    def as_dict(self) -> Dict[str, Any]:
        return {"languages": list(self.languages), "types": sorted(self.tuis), "cui_only": self.cui_only, "weak_names": self.weak_names}


def build_kb(sources: Sequence[Source], out: Union[str, Path], *, filters: Optional[Filters] = None, progress: bool = False) -> KnowledgeBase:
    """Join `sources`, in their order of preference, into the folder `out`, which is replaced when all is done.

    RAISES: SapbertError E103 (no names), E4xx (a source), E008 (disk full).
    """
    filters = filters or Filters()
    sources = sorted(sources, key=lambda source: source.only_adds)  # translations come after what they add to, and name no concept
    out = Path(out)
    with writing_folder(out) as folder:
        with tempfile.TemporaryDirectory(prefix=".stage.", dir=folder) as stage:
            database = sqlite3.connect(Path(stage) / "stage.sqlite", isolation_level=None)
            try:
                database.executescript(_STAGE)
                skipped = _stage(database, sources, filters, progress)
                _index_stage(database)
                adding = [number for number, source in enumerate(sources) if source.only_adds]
                if adding:
                    _follow_replaced(database, adding)
                described = _assign_keys(database)
                if adding:
                    skipped["unknown_concept"] = _leave_unknown(database, adding)
                _write(database, folder, filters)
            finally:
                database.close()
        counts = _finish(folder / DATABASE, folder / PAIRS)
        content = {
            "sources": [_describe(source) for source in sources],
            "filters": filters.as_dict(),
            "counts": {**counts, **described, "names_left_out": skipped},
        }
        write_manifest(folder, KIND, VERSION, content)
    return KnowledgeBase(out)


def _describe(source: Source) -> Dict[str, Any]:
    stats = source.stats
    described: Dict[str, Any] = {"name": source.name, "kind": source.kind}
    for key in ("version", "rows", "malformed", "concepts"):
        if stats is not None:
            described[key] = getattr(stats, key, None)
    if source.options:
        described["options"] = source.options
    if getattr(stats, "left_out", None):
        described["left_out"] = dict(stats.left_out)
    return described


# -- staging ------------------------------------------------------------------------------------------------------------


def _stage(database: sqlite3.Connection, sources: Sequence[Source], filters: Filters, progress: bool) -> Dict[str, int]:
    rows: Dict[str, List[Tuple]] = defaultdict(list)
    skipped = {"empty": 0, "too_long": 0, "other_language": 0, "weak": 0}
    languages = set(filters.languages)
    database.execute("BEGIN")
    for number, source in enumerate(sources):
        show = tqdm(source.concepts, desc=f"reading {source.name}", unit=" records", disable=not progress, mininterval=0.5)
        for count, concept in enumerate(show):
            _stage_concept(rows, concept, number, languages, filters.weak_names, skipped)
            if count % _BATCH == 0:
                _flush(database, rows)
        _flush(database, rows)
    database.execute("COMMIT")
    return skipped


def _stage_concept(
    rows: Dict[str, List[Tuple]], concept: Concept, number: int, languages: Set[str], weak_names: bool, skipped: Dict[str, int]
) -> None:
    cid = concept.concept_id
    for name in concept.names:
        norm = normalise(name.text, name.language)
        if not norm:
            skipped["empty"] += 1
        elif len(norm) > MAX_NAME_CHARS:
            skipped["too_long"] += 1
        elif languages and name.language not in languages:
            skipped["other_language"] += 1
        elif not weak_names and name.term_type in WEAK:
            skipped["weak"] += 1
        else:
            rows["s_name"].append((cid, _one_line(name.text), norm, name.source, name.language, name.term_type, name.rank, number))
    rows["s_cui"].extend((cid, cui) for cui in concept.cuis if cui != cid)
    rows["s_same"].extend((cid, other) for other in concept.same_as)
    rows["s_type"].extend((cid, tui) for tui in concept.types)
    rows["s_code"].extend((cid, *code) for code in concept.codes)
    rows["s_parent"].extend((cid, parent) for parent in concept.parents)
    rows["s_retired"].extend((cid, old) for old in concept.retired)
    rows["s_relation"].extend((cid, *relation) for relation in concept.relations)
    if definition := _one_line(concept.definition or ""):
        rows["s_definition"].append((cid, definition, concept.source, number))


def _one_line(text: str) -> str:
    """Single spaces, and no halves of surrogate pairs, which JSON may hold and UTF-8 can't."""
    return " ".join(text.encode("utf-8", "ignore").decode("utf-8").split())


def _flush(database: sqlite3.Connection, rows: Dict[str, List[Tuple]]) -> None:
    for table, values in rows.items():
        if values:
            database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(values[0]))})", values)
            values.clear()


def _index_stage(database: sqlite3.Connection) -> None:
    for table in ("s_name", "s_type", "s_definition", "s_code", "s_parent", "s_retired", "s_relation"):
        database.execute(f"CREATE INDEX {table}_id ON {table} (id)")
    if database.execute("SELECT 1 FROM s_name LIMIT 1").fetchone() is None:
        raise fail("E103", detail="no name was left after filtering by language")


def _follow_replaced(database: sqlite3.Connection, adding: Sequence[int]) -> None:
    """What a source that only adds says of a retired id is said of the one that replaced it; of a chain, of the last."""
    marks = ",".join("?" * len(adding))
    later = dict(database.execute("SELECT old, id FROM s_retired ORDER BY rowid DESC"))
    named = {i for (i,) in database.execute(f"SELECT DISTINCT id FROM s_name WHERE input NOT IN ({marks})", adding)}
    given = [i for (i,) in database.execute(f"SELECT DISTINCT id FROM s_name WHERE input IN ({marks})", adding)]
    moved = [(_last(new, later), old, *adding) for old in given if old not in named and (new := later.get(old)) is not None]
    database.executemany(f"UPDATE s_name SET id = ? WHERE id = ? AND input IN ({marks})", moved)


def _leave_unknown(database: sqlite3.Connection, adding: Sequence[int]) -> int:
    """Take away what sources that only add say of concepts that no other source names. RETURNS: names. WARNS: W006."""
    marks = ",".join("?" * len(adding))
    database.execute(
        "CREATE TEMP TABLE named AS SELECT DISTINCT COALESCE(key.cid, s_name.id) AS cid FROM s_name LEFT JOIN key ON key.id = s_name.id"
        f" WHERE input NOT IN ({marks})",
        adding,
    )
    database.execute("CREATE INDEX named_cid ON named (cid)")
    left = (
        "FROM s_name WHERE rowid IN (SELECT s_name.rowid FROM s_name LEFT JOIN key ON key.id = s_name.id"
        f" WHERE input IN ({marks}) AND COALESCE(key.cid, s_name.id) NOT IN (SELECT cid FROM named))"
    )
    names, concepts = database.execute(f"SELECT COUNT(*), COUNT(DISTINCT id) {left}", adding).fetchone()
    if names:
        examples = ", ".join(i for (i,) in database.execute(f"SELECT DISTINCT id {left} ORDER BY id LIMIT 5", adding))
        warnings.warn(f"[W006] {Errors.W006.format(names=names, concepts=concepts, examples=examples)}", stacklevel=4)
        database.execute(f"DELETE {left}", adding)
    return int(names)


# -- which term belongs to which concept --------------------------------------------------------------------------------


def _assign_keys(database: sqlite3.Connection) -> Dict[str, int]:
    """Fill `key` (term -> concept id) for every id that is not a CUI. Memory grows with the sources' terms, not with UMLS."""
    first_seen: Dict[str, int] = {}
    not_cui = "NOT GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'"
    for (term,) in database.execute(f"SELECT id FROM s_name WHERE id {not_cui} GROUP BY id ORDER BY MIN(rowid)"):
        first_seen.setdefault(term, len(first_seen))
    cuis: Dict[str, List[Tuple[int, str]]] = defaultdict(list)
    for order, term, cui in database.execute(f"SELECT rowid, id, cui FROM s_cui WHERE id {not_cui} ORDER BY rowid"):
        cuis[term].append((order, cui))
    groups = _same_terms(database, [*first_seen, *cuis])
    own_names = _OwnNames(database, groups, cuis)
    keys: List[Tuple[str, str]] = []
    several = 0
    for group in groups:
        listed = list(dict.fromkeys(cui for _, cui in sorted(pair for term in group for pair in cuis.get(term, []))))
        several += len(listed) > 1
        named = [term for term in group if term in first_seen]
        if listed:
            key = listed[0] if len(listed) == 1 else own_names.primary(listed, group)
        elif named:
            key = min(named, key=lambda term: first_seen[term])
        else:
            continue  # a mapping between terms that no source holds
        keys.extend((term, key) for term in group)
        database.executemany("INSERT INTO s_code VALUES (?, 'UMLS', ?)", [(group[0], cui) for cui in listed])
    database.executemany("INSERT OR IGNORE INTO key VALUES (?, ?)", keys)
    return {"terms_with_several_cuis": several}


def _same_terms(database: sqlite3.Connection, terms: Iterable[str]) -> List[List[str]]:
    """Terms that `same_as` joins, each group in the order in which its terms were first seen (union-find)."""
    parent: Dict[str, str] = {term: term for term in terms}

    def root(term: str) -> str:
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    for term, other in database.execute("SELECT id, other FROM s_same ORDER BY rowid"):
        if not is_cui(term) and not is_cui(other):
            parent.setdefault(term, term)
            parent.setdefault(other, other)
            parent[root(other)] = root(term)
    groups: Dict[str, List[str]] = defaultdict(list)
    for term in parent:
        groups[root(term)].append(term)
    return list(groups.values())


class _OwnNames:
    """Which of several CUIs fits a group of terms best: see rule 1 above."""

    def __init__(self, database: sqlite3.Connection, groups: List[List[str]], cuis: Dict[str, List[Tuple[int, str]]]) -> None:
        self._database = database
        self._terms_of: Dict[str, List[str]] = defaultdict(list)  # CUI -> terms that map to it alone
        for group in groups:
            listed = {cui for term in group for _, cui in cuis.get(term, [])}
            if len(listed) == 1:
                self._terms_of[listed.pop()].extend(group)

    def primary(self, listed: List[str], group: List[str]) -> str:
        labels, exact = self._names(group)
        best, best_fit = listed[0], -1
        for cui in listed:
            own, _ = self._names([cui, *self._terms_of.get(cui, [])])
            fit = 2 if own & labels else 1 if own & exact else 0
            if fit > best_fit:
                best, best_fit = cui, fit
        return best

    def _names(self, terms: List[str]) -> Tuple[Set[str], Set[str]]:
        labels: Set[str] = set()
        exact: Set[str] = set()
        for term in terms:
            found = self._database.execute("SELECT norm, rank, term_type FROM s_name WHERE id = ?", (term,)).fetchall()
            least = min((rank for _, rank, _ in found), default=0)
            labels |= {norm for norm, rank, _ in found if rank == least}
            exact |= {norm for norm, _, term_type in found if term_type not in WEAK}
        return labels, exact


# -- writing ------------------------------------------------------------------------------------------------------------


def _write(database: sqlite3.Connection, folder: Path, filters: Filters) -> None:
    database.execute("ATTACH DATABASE ? AS out", (str(folder / DATABASE),))
    database.executescript("PRAGMA out.journal_mode = OFF; PRAGMA out.synchronous = OFF; PRAGMA out.page_size = 8192;")
    database.executescript(_FINAL.replace("CREATE TABLE ", "CREATE TABLE out."))
    _write_types(database)
    where = "WHERE cid GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'" if filters.cui_only else ""
    database.execute(
        "CREATE TEMP TABLE n AS SELECT * FROM (SELECT COALESCE(key.cid, s_name.id) AS cid, s_name.rowid AS seq, text, norm, source, language,"
        f" term_type, rank, input FROM s_name LEFT JOIN key ON key.id = s_name.id) {where}"
    )
    if filters.tuis:
        marks = ",".join("?" * len(filters.tuis))
        database.execute(f"DELETE FROM n WHERE cid NOT IN (SELECT cid FROM t WHERE tui IN ({marks}))", sorted(filters.tuis))
    if database.execute("SELECT 1 FROM n LIMIT 1").fetchone() is None:
        raise fail("E103", detail=f"filters: {filters.as_dict()}")
    database.execute("CREATE INDEX n_cid ON n (cid, input, rank, seq)")
    # canonical name: first source given, then rank, then order of reading
    database.execute(
        "INSERT INTO out.concept SELECT ROW_NUMBER() OVER (ORDER BY cid) - 1, cid, text, NULL, source FROM"
        " (SELECT cid, text, source, ROW_NUMBER() OVER (PARTITION BY cid ORDER BY input, rank, seq) AS place FROM n) WHERE place = 1"
    )
    database.execute("INSERT INTO out.string SELECT ROW_NUMBER() OVER (ORDER BY norm) - 1, norm FROM (SELECT DISTINCT norm FROM n)")
    # one line for each (concept, text, source, language), the best-ranked, whole: its term type goes with its rank
    database.execute(
        "INSERT INTO out.name SELECT string.row, concept.row, text, b.source, language, term_type, input * 10000000 + MIN(rank, 9999999)"
        " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cid, text, source, language ORDER BY input, rank, seq) AS place FROM n) AS b"
        " JOIN out.string USING (norm) JOIN out.concept ON concept.id = b.cid WHERE place = 1 ORDER BY seq"
    )
    database.execute("INSERT OR IGNORE INTO out.type SELECT concept.row, tui FROM t JOIN out.concept ON concept.id = t.cid")
    by_concept = "FROM {0} LEFT JOIN key ON key.id = {0}.id JOIN out.concept ON concept.id = COALESCE(key.cid, {0}.id)"
    database.execute(
        "UPDATE out.concept SET definition = d.definition FROM (SELECT concept.row AS row, s_definition.definition,"
        " ROW_NUMBER() OVER (PARTITION BY concept.row ORDER BY input, s_definition.rowid) AS place "
        + by_concept.format("s_definition")
        + ") AS d WHERE d.row = concept.row AND d.place = 1"
    )
    # every distinct definition with its source; the text of the first, which stands in `concept`, is not kept twice
    once = "ROW_NUMBER() OVER (PARTITION BY concept.row, s_definition.definition ORDER BY input, s_definition.rowid) AS again "
    database.execute(
        "INSERT INTO out.definition SELECT row, place, CASE place WHEN 0 THEN NULL ELSE definition END, source FROM"
        " (SELECT row, definition, source, ROW_NUMBER() OVER (PARTITION BY row ORDER BY input, seq) - 1 AS place FROM"
        " (SELECT concept.row AS row, s_definition.definition AS definition, s_definition.source AS source, input, s_definition.rowid AS seq, "
        + once
        + by_concept.format("s_definition")
        + ") WHERE again = 1) ORDER BY row, place"
    )
    # every concept that is a CUI lists itself first under UMLS
    database.execute("INSERT INTO out.code SELECT row, 'UMLS', id FROM out.concept WHERE id GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'")
    database.execute(
        "INSERT INTO out.code SELECT concept.row, vocabulary, code "
        + by_concept.format("s_code")
        + " WHERE NOT (vocabulary = 'UMLS' AND code = concept.id) GROUP BY concept.row, vocabulary, code ORDER BY MIN(s_code.rowid)"
    )
    parent_key = " LEFT JOIN key AS up ON up.id = s_parent.parent"
    database.execute(
        "INSERT OR IGNORE INTO out.parent SELECT concept.row, COALESCE(up.cid, s_parent.parent) "
        + by_concept.format("s_parent")
        + parent_key
        + " WHERE COALESCE(up.cid, s_parent.parent) != concept.id"
    )
    database.execute("INSERT INTO out.relation SELECT DISTINCT concept.row, relation, target " + by_concept.format("s_relation"))
    _follow_retired(database)
    # other ids that lead to a concept; one that is a concept of its own stays itself
    for kind, select in (
        ("cui", "SELECT code.code AS id, code.concept AS row, code.rowid AS seq FROM out.code WHERE vocabulary = 'UMLS'"),
        ("retired", "SELECT s_retired.old AS id, concept.row AS row, s_retired.rowid AS seq " + by_concept.format("s_retired")),
        ("term", "SELECT key.id AS id, concept.row AS row, 0 AS seq FROM key JOIN out.concept ON concept.id = key.cid"),
    ):
        database.execute(
            f"INSERT OR IGNORE INTO out.other_id SELECT id, row, '{kind}' FROM ({select}) WHERE id NOT IN (SELECT id FROM out.concept) ORDER BY seq"
        )


def _follow_retired(database: sqlite3.Connection) -> None:
    """An id that was replaced by one that was replaced itself leads to the last of the chain; a circle is left as it is."""
    later = dict(database.execute("SELECT old, id FROM s_retired ORDER BY rowid DESC"))
    moved = [(last, old) for old, new in later.items() if (last := _last(new, later)) != new]
    database.executemany("UPDATE s_retired SET id = ? WHERE old = ?", moved)


def _last(term: str, later: Dict[str, str]) -> str:
    last, seen = term, {term}
    while last in later:
        last = later[last]
        if last in seen:
            return term
        seen.add(last)
    return last


def _write_types(database: sqlite3.Connection) -> None:
    """Temporary table t (cid, tui): types that a source states; for terms without, those of their branch in the ontology."""
    database.execute(
        "CREATE TEMP TABLE t AS SELECT DISTINCT COALESCE(key.cid, s_type.id) AS cid, tui FROM s_type LEFT JOIN key ON key.id = s_type.id"
    )
    database.execute("CREATE INDEX t_cid ON t (cid)")
    parents: Dict[str, List[str]] = defaultdict(list)
    not_cui = "NOT GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'"
    for term, parent in database.execute(f"SELECT id, parent FROM s_parent WHERE id {not_cui}"):
        parents[term].append(parent)
    untyped = (
        "SELECT s_name.id, s_name.source, COALESCE(key.cid, s_name.id) FROM s_name LEFT JOIN key ON key.id = s_name.id"
        f" WHERE s_name.id {not_cui} AND COALESCE(key.cid, s_name.id) NOT IN (SELECT cid FROM t) GROUP BY s_name.id"
    )
    found = [
        (cid, tui)
        for term, vocabulary, cid in database.execute(untyped).fetchall()
        for tui in semantic_types.types_of(term, vocabulary, lambda i: parents.get(i, ()))
    ]
    database.executemany("INSERT INTO t VALUES (?, ?)", found)


def _finish(path: Path, pairs_path: Path) -> Dict[str, Any]:
    """Indexes, the integer array, counts."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
        for table, column in (("name", "string"), ("name", "concept"), ("code", "concept"), ("relation", "concept"), ("other_id", "concept")):
            database.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
        counts: Dict[str, Any] = {
            f"{table}s": database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("concept", "string", "name")
        }
        type_set = _sets(database, "type_sets", "SELECT concept, tui AS member FROM type ORDER BY 1, 2", counts["concepts"])
        vocabularies = "SELECT concept, source AS member FROM name UNION SELECT concept, vocabulary FROM code ORDER BY 1, 2"
        vocabulary_set = _sets(database, "vocabulary_sets", vocabularies, counts["concepts"])
        cuis = "SELECT COUNT(*) FROM concept WHERE id GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'"
        counts["cuis"] = database.execute(cuis).fetchone()[0]
        counts["concepts_without_cui"] = counts["concepts"] - counts["cuis"]
        counts["definitions"] = database.execute("SELECT COUNT(*) FROM concept WHERE definition IS NOT NULL").fetchone()[0]
        counts["further_definitions"] = database.execute("SELECT COUNT(*) FROM definition WHERE place > 0").fetchone()[0]
        shared = "SELECT COUNT(*) FROM (SELECT 1 FROM name GROUP BY string HAVING MIN(concept) < MAX(concept))"
        counts["relations"] = database.execute("SELECT COUNT(*) FROM relation").fetchone()[0]
        counts["strings_of_several_concepts"] = database.execute(shared).fetchone()[0]
        counts["languages"] = dict(database.execute("SELECT language, COUNT(*) FROM name GROUP BY language ORDER BY 2 DESC, 1"))
        counts["codes"] = dict(database.execute("SELECT vocabulary, COUNT(*) FROM code GROUP BY vocabulary ORDER BY 2 DESC, 1"))
        counts["vocabularies"] = [v for (v,) in database.execute("SELECT source FROM name UNION SELECT vocabulary FROM code ORDER BY 1")]
        _write_pairs(database, pairs_path, counts["concepts"], type_set, vocabulary_set)
        database.execute("ANALYZE")
    finally:
        database.close()
    return counts


def _write_pairs(database: sqlite3.Connection, path: Path, n_concepts: int, type_set: np.ndarray, vocabulary_set: np.ndarray) -> None:
    """int32 (6, m): string, concept, rank in a tie, set of types, set of vocabularies, has a definition. One line is contiguous,
    so that looking a name up by bisection touches a few pages of the map."""
    defined = np.zeros(n_concepts, dtype=np.int32)
    for (row,) in database.execute("SELECT row FROM concept WHERE definition IS NOT NULL"):
        defined[row] = 1
    weak = ",".join(f"'{t}'" for t in WEAK)
    # rank in a tie: canonical name, then names of the concept itself, then names near it; within these the order of sources
    rank = f"MIN(CASE WHEN name.text = concept.name THEN 0 WHEN term_type NOT IN ({weak}) THEN 1 ELSE 2 END * 10000 + rank / 10000000)"
    query = (
        f"SELECT string, concept, {rank} FROM name JOIN concept ON concept.row = name.concept GROUP BY string, concept ORDER BY string, 3, concept"
    )
    count = database.execute("SELECT COUNT(*) FROM (SELECT 1 FROM name GROUP BY string, concept)").fetchone()[0]
    pairs = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(6, count))
    reserve(path)
    for start, lines in _chunks(database.execute(query)):
        part = np.asarray(lines, dtype=np.int32)  # (chunk, 3)
        concepts = part[:, 1]
        pairs[:, start : start + len(part)] = np.vstack([part.T, type_set[concepts], vocabulary_set[concepts], defined[concepts]])
    pairs.flush()
    del pairs


def _sets(database: sqlite3.Connection, table: str, query: str, n_concepts: int) -> np.ndarray:
    """Number the distinct sets of members; query gives (concept, member), sorted. -> (n_concepts) set numbers; 0 is the empty set."""
    numbers: Dict[str, int] = {"": 0}
    sets = np.zeros(n_concepts, dtype=np.int32)
    for concept, members in database.execute(f"SELECT concept, GROUP_CONCAT(member, ' ') FROM ({query}) GROUP BY concept"):
        sets[concept] = numbers.setdefault(members, len(numbers))
    database.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(no, members) for members, no in numbers.items()])
    return sets


def _chunks(cursor: sqlite3.Cursor, size: int = 100_000) -> Iterator[Tuple[int, List[Tuple]]]:
    start = 0
    while lines := cursor.fetchmany(size):
        yield start, lines
        start += len(lines)
