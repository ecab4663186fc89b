"""Join the concepts of any number of sources into one knowledge base folder, with the help of a temporary SQLite file.

How concepts are joined:
1. A CUI is a concept. A term of a source belongs to its *primary* CUI. This is the CUI that is listed first for the term, with sources
   in the order given, unless another of its CUIs fits better. A CUI fits best if it has a preferred name of its own that equals the
   term's label; second best if that name equals an exact synonym of the term. "Of its own" means: from UMLS, or from a term that maps to
   this CUI alone.
2. Terms that a curated mapping calls the same (`same_as`) are one term: their CUIs are put in one list, and rule 1 applies.
3. Terms without any CUI keep their identifier (unless `cui_only`). Terms that are mapped to each other get the identifier of the first source.
4. Terms with the same primary CUI are one concept. Its other CUIs, the identifiers of its sources and retired ids all lead to it
   (`KnowledgeBase.row_of`), unless they are concepts of their own.
The canonical name is the best-ranked name of the first source that has one; if ranks are equal, the name that was read first. The definition
is chosen in the same way; other definitions that differ are kept too.
A code of a vocabulary also leads to its concepts (`KnowledgeBase.rows_of`). If several concepts have the code, the best one is that of the first
source that gives it this code; then the one with the best-ranked name under this code in the vocabulary (a preferred name comes before an entry
term); then the one that was read first.
"""

from __future__ import annotations

import sqlite3
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from ..errors import fail, warn
from ..files import reserve, valid_text, write_manifest, writing_folder
from . import curies, semantic_types
from .concept import LAY, MAX_NAME_CHARS, Concept, is_cui, normalise
from .joining import Joins, assign, several_of_one_source
from .knowledge_base import DATABASE, KIND, NAME_TABLE, VERSION, KnowledgeBase
from .name_table import LATER, STEP

WEAK = ("NRW", "REL", "BRD", LAY)  # narrower, related, broader and lay names; they come last in a tie
FINDING = "T033"
_BATCH = 20_000
_LISTED = 1 << 60  # rank of a code whose term is in another concept: it comes last
_SOURCE_STEP = 10_000_000  # ranks of a later source are worse than any of an earlier one
Ints32 = npt.NDArray[np.int32]

_STAGE = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -200000; PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE s_name (id TEXT, text TEXT, norm TEXT, source TEXT, language TEXT, term_type TEXT, rank INTEGER, input INTEGER);
CREATE TABLE s_cui (id TEXT, cui TEXT);
CREATE TABLE s_same (id TEXT, other TEXT);
CREATE TABLE s_type (id TEXT, tui TEXT);
CREATE TABLE s_definition (id TEXT, definition TEXT, source TEXT, input INTEGER);
CREATE TABLE s_code (id TEXT, vocabulary TEXT, code TEXT, rank INTEGER);
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
CREATE TABLE code (concept INTEGER NOT NULL, vocabulary TEXT NOT NULL, code TEXT NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE parent (concept INTEGER NOT NULL, parent TEXT NOT NULL, PRIMARY KEY (concept, parent)) WITHOUT ROWID;
CREATE TABLE other_id (id TEXT PRIMARY KEY, concept INTEGER NOT NULL, kind TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE relation (concept INTEGER NOT NULL, relation TEXT NOT NULL, target TEXT NOT NULL);
CREATE TABLE definition (concept INTEGER NOT NULL, place INTEGER NOT NULL, text TEXT, source TEXT NOT NULL, PRIMARY KEY (concept, place)) WITHOUT ROWID;
CREATE TABLE type_sets (no INTEGER PRIMARY KEY, members TEXT NOT NULL);
CREATE TABLE vocabulary_sets (no INTEGER PRIMARY KEY, members TEXT NOT NULL);
"""


@dataclass
class Source:
    """One input of a knowledge base.

    Attributes:
        name: its name in the manifest.
        concepts: its concepts; they are read once.
        kind: the reader's name.
        stats: the reader's counters, complete when `concepts` has ended.
        only_adds: its names (translations) are used only for concepts that another source names.
        options: the reader's options, for the manifest.
    """

    name: str
    concepts: Iterable[Concept]
    kind: str = ""
    stats: Any = None
    only_adds: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Filters:
    """Which names and concepts a knowledge base keeps.

    Attributes:
        languages: ISO 639-1, empty for all.
        types: TUIs, groups or names of semantic types, empty for all.
        cui_only: leave out concepts without a CUI.
        weak_names: keep narrower, related, broader and lay synonyms.
        cased: let encoders read names as they are written, not in lower case. Names are still compared in lower case.
        tuis: the TUIs that `types` means.

    Raises:
        SapbertError: E104, a type is not known.
    """

    languages: Sequence[str] = ("en",)
    types: Sequence[str] = ()
    cui_only: bool = False
    weak_names: bool = True
    cased: bool = False
    tuis: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.tuis = semantic_types.expand(self.types) if self.types else frozenset()

    def as_dict(self) -> dict[str, Any]:
        """Return the filters as they are written in the manifest."""
        described = {"languages": list(self.languages), "types": sorted(self.tuis), "cui_only": self.cui_only, "weak_names": self.weak_names}
        return {**described, "cased": True} if self.cased else described


def build_kb(
    sources: Sequence[Source], out: str | Path, *, filters: Filters | None = None, joins: Joins | None = None, progress: bool = False
) -> KnowledgeBase:
    """Join sources into a knowledge base folder.

    Args:
        sources: the inputs, the preferred one first.
        out: the folder; an old one is replaced when the new one is complete.
        filters: which names and concepts to keep.
        joins: the careful rules of `joining`; None follows the mappings of the sources.
        progress: show progress bars.

    Returns:
        The knowledge base, opened.

    Raises:
        SapbertError: E103, no name is left; E4xx, a source cannot be read; E008, the disk is full.
    """
    filters = filters or Filters()
    sources = sorted(sources, key=lambda source: source.only_adds)  # translations come after the sources that they add to
    out = Path(out)
    with writing_folder(out) as folder:
        with tempfile.TemporaryDirectory(prefix=".stage.", dir=folder) as stage:
            database = sqlite3.connect(Path(stage) / "stage.sqlite", isolation_level=None)
            try:
                database.executescript(_STAGE)
                skipped = _stage(database, sources, filters, progress)
                _index_stage(database, sources, skipped)
                adding = [number for number, source in enumerate(sources) if source.only_adds]
                if adding:
                    _follow_replaced(database, adding)
                described = _assign_keys(database, joins)
                if adding:
                    skipped["unknown_concept"] = _leave_unknown(database, adding)
                names = _write(database, folder, filters)
            finally:
                database.close()
        counts = _finish(folder / DATABASE, folder / NAME_TABLE, names)
        content = {
            "sources": [_describe(source) for source in sources],
            "filters": filters.as_dict(),
            "counts": {**counts, **described, "names_left_out": skipped},
        }
        write_manifest(folder, KIND, VERSION, content)
    return KnowledgeBase(out)


def _describe(source: Source) -> dict[str, Any]:
    stats = source.stats
    described: dict[str, Any] = {"name": valid_text(source.name), "kind": source.kind}
    for key in ("version", "rows", "malformed", "concepts"):
        if stats is not None:
            described[key] = getattr(stats, key, None)
    if source.options:
        described["options"] = source.options
    if getattr(stats, "left_out", None):
        described["left_out"] = dict(stats.left_out)
    return described


# -- staging ------------------------------------------------------------------------------------------------------------


def _stage(database: sqlite3.Connection, sources: Sequence[Source], filters: Filters, progress: bool) -> dict[str, int]:
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
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
    rows: dict[str, list[tuple[Any, ...]]], concept: Concept, number: int, languages: set[str], weak_names: bool, skipped: dict[str, int]
) -> None:
    # UMLS has many millions of parts, and most hold only one parent or one type: testing each field first saves time
    cid = concept.concept_id
    for text, source, language, term_type, rank in concept.names:
        line = _one_line(text)
        norm = normalise(line, language)
        if not norm:
            skipped["empty"] += 1
        elif len(norm) > MAX_NAME_CHARS:
            skipped["too_long"] += 1
        elif languages and language not in languages:
            skipped["other_language"] += 1
        elif not weak_names and term_type in WEAK:
            skipped["weak"] += 1
        else:
            rows["s_name"].append((cid, line, norm, source, language, term_type, rank, number))
    if concept.cuis:
        rows["s_cui"].extend((cid, cui) for cui in concept.cuis if cui != cid)
    if concept.same_as:
        rows["s_same"].extend((cid, other) for other in concept.same_as)
    if concept.types:
        rows["s_type"].extend([(cid, tui) for tui in dict.fromkeys(map(semantic_types.current, concept.types))])
    if concept.codes:
        ranks = concept.code_ranks
        rows["s_code"].extend([(cid, *code, number * _SOURCE_STEP + min(ranks.get(code, 0), _SOURCE_STEP - 1)) for code in concept.codes])
    if concept.parents:
        rows["s_parent"].extend([(cid, parent) for parent in concept.parents])
    if concept.retired:
        rows["s_retired"].extend((cid, old) for old in concept.retired)
    if concept.relations:
        rows["s_relation"].extend((cid, *relation) for relation in concept.relations)
    if concept.definition and (definition := _one_line(concept.definition)):
        rows["s_definition"].append((cid, definition, concept.source, number))


def _one_line(text: str) -> str:
    """Return a text with single spaces and without half surrogate pairs, which JSON may hold but UTF-8 cannot."""
    return " ".join((text if text.isascii() else text.encode("utf-8", "ignore").decode("utf-8")).split())


def _flush(database: sqlite3.Connection, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    for table, values in rows.items():
        if values:
            database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(values[0]))})", values)
            values.clear()


def _index_stage(database: sqlite3.Connection, sources: Sequence[Source], skipped: dict[str, int]) -> None:
    database.execute("CREATE INDEX s_name_id ON s_name (id, input, rank)")  # the other tables are read from start to end
    if database.execute("SELECT 1 FROM s_name LIMIT 1").fetchone() is None:
        raise fail("E103", detail=_left_out_in_words(sources, skipped))


def _left_out_in_words(sources: Sequence[Source], skipped: dict[str, int]) -> str:
    """Return which filters left out how many names, for an error."""
    filtered = [f"'{source.name}' by {words}" for source in sources if (words := source.stats.filtered_in_words() if source.stats else "")]
    filtered += [f"{count:,} names by {what.replace('_', ' ')}" for what, count in skipped.items() if count]
    return f"left out: {'; '.join(filtered)}" if filtered else "they hold none before it"


def _follow_replaced(database: sqlite3.Connection, adding: Sequence[int]) -> None:
    """Move the names that sources with `only_adds` give a retired id to the id that replaced it, at the end of the chain."""
    marks = ",".join("?" * len(adding))
    later = dict(database.execute("SELECT old, id FROM s_retired ORDER BY rowid DESC"))
    named = {i for (i,) in database.execute(f"SELECT DISTINCT id FROM s_name WHERE input NOT IN ({marks})", adding)}
    given = [i for (i,) in database.execute(f"SELECT DISTINCT id FROM s_name WHERE input IN ({marks})", adding)]
    moved = [(_last(new, later), old, *adding) for old in given if old not in named and (new := later.get(old)) is not None]
    database.executemany(f"UPDATE s_name SET id = ? WHERE id = ? AND input IN ({marks})", moved)


def _leave_unknown(database: sqlite3.Connection, adding: Sequence[int]) -> int:
    """Delete the names that sources with `only_adds` give to concepts that no other source names. Warns W006.

    Returns:
        Number of names deleted.
    """
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
        warn("W006", names=names, concepts=concepts, examples=examples)
        database.execute(f"DELETE {left}", adding)
    return int(names)


# -- which term belongs to which concept --------------------------------------------------------------------------------


def _assign_keys(database: sqlite3.Connection, joins: Joins | None = None) -> dict[str, Any]:
    """Fill the table `key` (term -> concept id) for every id that is not a CUI. The memory depends on these terms, not on the size of UMLS."""
    first_seen: dict[str, int] = {}
    not_cui = "NOT GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'"
    for (term,) in database.execute(f"SELECT id FROM s_name WHERE id {not_cui} GROUP BY id ORDER BY MIN(rowid)"):
        first_seen.setdefault(term, len(first_seen))
    cuis: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for order, term, cui in database.execute(f"SELECT rowid, id, cui FROM s_cui WHERE id {not_cui} ORDER BY rowid"):
        cuis[term].append((order, cui))
    several = sum(len({cui for _, cui in pairs}) > 1 for pairs in cuis.values())
    twins: dict[str, str] = {}
    if joins is not None:
        grouped, twins = assign(database, list(first_seen), cuis, joins)
    else:
        grouped, several = _as_mapped(database, first_seen, cuis)
    codes: list[tuple[str, str]] = []
    for group, _ in grouped:
        listed = dict.fromkeys(cui for _, cui in sorted(pair for term in group for pair in cuis.get(term, [])))
        codes.extend((group[0], cui) for cui in listed)
    codes.extend((cui, cui) for cui in twins)
    places = {term: twins.get(key, key) for group, key in grouped for term in group}
    others = [
        (cui, *own, _LISTED)
        for term, pairs in cuis.items()
        if (own := curies.code(term)) is not None
        for cui in dict.fromkeys(cui for _, cui in pairs)
        if twins.get(cui, cui) != places.get(term, "")
    ]
    keys = [*((term, key) for group, key in grouped for term in group), *twins.items()]
    database.execute("BEGIN")
    database.executemany("INSERT INTO s_code VALUES (?, 'UMLS', ?, 0)", codes)
    database.executemany("INSERT INTO s_code VALUES (?, ?, ?, ?)", others)  # a source's term is a code of every CUI that it is mapped to
    database.executemany("INSERT OR IGNORE INTO key VALUES (?, ?)", keys)
    database.execute("COMMIT")
    doubled = several_of_one_source(keys, first_seen)
    return {"terms_with_several_cuis": several, "concepts_of_several_terms_of_a_source": len(doubled)}


def _as_mapped(
    database: sqlite3.Connection, first_seen: dict[str, int], cuis: dict[str, list[tuple[int, str]]]
) -> tuple[list[tuple[list[str], str]], int]:
    """Return the groups of terms with the concept id of each, by the mappings of the sources; and how many groups have several CUIs."""
    groups = _same_terms(database, [*first_seen, *cuis])
    own_names = _OwnNames(database, groups, cuis)
    found: list[tuple[list[str], str]] = []
    several = 0
    for group in groups:
        listed = list(dict.fromkeys(cui for _, cui in sorted(pair for term in group for pair in cuis.get(term, []))))
        several += len(listed) > 1
        named = [term for term in group if term in first_seen]
        if listed:
            found.append((group, listed[0] if len(listed) == 1 else own_names.primary(listed, group)))
        elif named:
            found.append((group, min(named, key=lambda term: first_seen[term])))
        # otherwise it is a mapping between terms that no source has
    return found, several


def _same_terms(database: sqlite3.Connection, terms: Iterable[str]) -> list[list[str]]:
    """Return the groups of terms that `same_as` joins, by union-find. Terms of a group are in the order in which they were first seen."""
    parent: dict[str, str] = {term: term for term in terms}

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
    groups: dict[str, list[str]] = defaultdict(list)
    for term in parent:
        groups[root(term)].append(term)
    return list(groups.values())


class _OwnNames:
    """Choose which of several CUIs fits a group of terms best, see rule 1 above."""

    def __init__(self, database: sqlite3.Connection, groups: list[list[str]], cuis: dict[str, list[tuple[int, str]]]) -> None:
        self._database = database
        self._terms_of: dict[str, list[str]] = defaultdict(list)  # CUI -> terms that map to it alone
        for group in groups:
            listed = {cui for term in group for _, cui in cuis.get(term, [])}
            if len(listed) == 1:
                self._terms_of[listed.pop()].extend(group)

    def primary(self, listed: list[str], group: list[str]) -> str:
        labels, exact = self._names(group)
        best, best_fit = listed[0], -1
        for cui in listed:
            own, _ = self._names([cui, *self._terms_of.get(cui, [])])
            fit = 2 if own & labels else 1 if own & exact else 0
            if fit > best_fit:
                best, best_fit = cui, fit
        return best

    def _names(self, terms: list[str]) -> tuple[set[str], set[str]]:
        labels: set[str] = set()
        exact: set[str] = set()
        for term in terms:
            found = self._database.execute("SELECT norm, rank, term_type FROM s_name WHERE id = ?", (term,)).fetchall()
            least = min((rank for _, rank, _ in found), default=0)
            labels |= {norm for norm, rank, _ in found if rank == least}
            exact |= {norm for norm, _, term_type in found if term_type not in WEAK}
        return labels, exact


# -- writing ------------------------------------------------------------------------------------------------------------


class _Names(NamedTuple):
    """The rows of the table `name` as int32 arrays (names,), in the order of concepts, and some counts.

    Only these few numbers of each name are in memory. Sorting them takes a tenth of the time that SQLite needs to return them sorted.

    Attributes:
        string: row of the surface form.
        concept: row of the concept.
        tie: rank in a tie, see `_tie`.
        source: position of the name's source in `sources`.
        sources: vocabularies that names come from.
        languages: number of names by language.
        concepts: number of concepts.
        strings: number of surface forms.
    """

    string: Ints32
    concept: Ints32
    tie: Ints32
    source: Ints32
    sources: list[str]
    languages: dict[str, int]
    concepts: int
    strings: int


def _write(database: sqlite3.Connection, folder: Path, filters: Filters) -> _Names:
    database.execute("ATTACH DATABASE ? AS out", (str(folder / DATABASE),))
    database.executescript(
        "PRAGMA out.journal_mode = OFF; PRAGMA out.synchronous = OFF; PRAGMA out.page_size = 8192; PRAGMA out.cache_size = -200000;"
    )
    database.executescript(_FINAL.replace("CREATE TABLE ", "CREATE TABLE out."))
    if filters.cased:
        database.execute("ALTER TABLE out.string ADD COLUMN written TEXT")
    database.execute("BEGIN")
    _write_types(database)
    names = _write_names(database, filters)
    _write_parts(database)
    database.execute("COMMIT")
    return names


def _write_names(database: sqlite3.Connection, filters: Filters) -> _Names:
    """Write the tables concept, string and name.

    Each table is written in its own order, from input that is read in the same order. Random look-ups in tables of ten million rows would take
    most of the time.
    """
    columns = "text, norm, source, language, term_type, rank, input"
    where = "WHERE cid GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'" if filters.cui_only else ""
    if database.execute("SELECT 1 FROM key LIMIT 1").fetchone() or filters.tuis:
        database.execute(f"CREATE TEMP TABLE n (seq INTEGER PRIMARY KEY, cid, {columns})")
        database.execute(
            f"INSERT INTO n SELECT * FROM (SELECT s_name.rowid, COALESCE(key.cid, s_name.id) AS cid, {columns}"
            f" FROM s_name LEFT JOIN key ON key.id = s_name.id ORDER BY s_name.rowid) {where}"
        )
        if filters.tuis:
            marks = ",".join("?" * len(filters.tuis))
            database.execute(f"DELETE FROM n WHERE cid NOT IN (SELECT cid FROM t WHERE tui IN ({marks}))", sorted(filters.tuis))
        database.execute("CREATE INDEX n_cid ON n (cid, input, rank)")
    else:  # UMLS alone: no term has to be moved to another concept
        database.execute(f"CREATE TEMP VIEW n AS SELECT * FROM (SELECT rowid AS seq, id AS cid, {columns} FROM s_name) {where}")
    if database.execute("SELECT 1 FROM n LIMIT 1").fetchone() is None:
        raise fail("E103", detail=f"filters: {filters.as_dict()}")
    seqs, concepts, ties, sources = array("i"), array("i"), array("i"), array("i")
    places: dict[str, int] = {}
    languages: dict[str, int] = defaultdict(int)

    def canonical() -> Iterator[tuple[int, str, str, None, str]]:
        """Yield the rows of `concept`. The canonical name is that of the first source, then the best-ranked one, then the one read first.

        In the same order, one name is chosen for each (text, source, language) of a concept, with its term type and rank.
        """
        last, row, name = None, -1, ""
        seen: set[tuple[str, str, str]] = set()
        for cid, seq, text, source, language, term_type, number, rank in database.execute(
            "SELECT cid, seq, text, source, language, term_type, input, rank FROM n ORDER BY cid, input, rank, seq"
        ):
            if cid != last:
                last, row, name = cid, row + 1, text
                seen.clear()
                yield row, cid, text, None, source
            if (text, source, language) not in seen:
                seen.add((text, source, language))
                seqs.append(seq)
                concepts.append(row)
                ties.append(_tie(is_cui(cid), text == name, term_type, number, rank))
                sources.append(places.setdefault(source, len(places)))
                languages[language] += 1

    database.executemany("INSERT INTO out.concept VALUES (?, ?, ?, ?, ?)", canonical())
    last_seq = database.execute("SELECT MAX(seq) FROM n").fetchone()[0]
    chosen, concept = _ints(seqs), _ints(concepts)
    concept_of = np.full(last_seq + 1, -1, dtype=np.int32)
    concept_of[chosen] = concept
    string_of = np.zeros(last_seq + 1, dtype=np.int32)
    n_strings = 0

    def strings() -> Iterator[tuple[str | int, ...]]:
        """Yield the rows of `string`; in a cased knowledge base, with the best name as it is written."""
        nonlocal n_strings
        at, rows = array("i"), array("i")
        last, row = None, -1
        ordered = "SELECT norm, seq, text FROM n ORDER BY norm, input, rank, seq" if filters.cased else "SELECT norm, seq, '' FROM n ORDER BY norm"
        for norm, seq, text in database.execute(ordered):
            if norm != last:
                last, row = norm, row + 1
                yield (row, norm, normalise(text, cased=True)) if filters.cased else (row, norm)
            at.append(seq)
            rows.append(row)
        string_of[_ints(at)] = _ints(rows)
        n_strings = row + 1

    database.executemany(f"INSERT INTO out.string VALUES (?, ?{', ?' if filters.cased else ''})", strings())
    database.create_function("string_of", 1, string_of.data.__getitem__)
    database.create_function("concept_of", 1, concept_of.data.__getitem__)
    database.execute(
        "INSERT INTO out.name SELECT string_of(seq), concept_of(seq), text, source, language, term_type,"
        f" input * {_SOURCE_STEP} + MIN(rank, {_SOURCE_STEP - 1})"
        " FROM n WHERE concept_of(seq) >= 0 ORDER BY seq"
    )
    return _Names(string_of[chosen], concept, _ints(ties), _ints(sources), list(places), languages, int(concept[-1]) + 1, n_strings)


def _tie(cui: bool, canonical: bool, term_type: str, number: int, rank: int) -> int:
    """Return the place of a name in a tie, the lowest first.

    Weak names come last, except the lay names of concepts with a CUI: "bunion" is a lay name of hallux valgus, and better than a concept without a
    CUI. Then concepts with a CUI come first, then canonical names, then earlier sources, then better ranks.

    Args:
        cui: whether the concept has a CUI.
        canonical: whether the name is the concept's canonical one.
        term_type: term type of the name.
        number: number of the source.
        rank: rank of the name in its source; 0 is the best.
    """
    weak = term_type in WEAK and not canonical and not (cui and term_type == LAY)
    return STEP * (2 * weak + (not cui)) + LATER * (not canonical) + 10 * min(number, 4_999) + min(rank, 9)


def _ints(values: array[int]) -> Ints32:
    return np.frombuffer(values, dtype=np.intc)


def _write_parts(database: sqlite3.Connection) -> None:
    """Write the other tables."""
    database.execute("INSERT OR IGNORE INTO out.type SELECT concept.row, tui FROM t JOIN out.concept ON concept.id = t.cid ORDER BY 1, 2")
    by_concept = "FROM {0} LEFT JOIN key ON key.id = {0}.id JOIN out.concept ON concept.id = COALESCE(key.cid, {0}.id)"
    database.execute(
        "UPDATE out.concept SET definition = d.definition FROM (SELECT concept.row AS row, s_definition.definition,"
        " ROW_NUMBER() OVER (PARTITION BY concept.row ORDER BY input, s_definition.rowid) AS place "
        + by_concept.format("s_definition")
        + ") AS d WHERE d.row = concept.row AND d.place = 1"
    )
    # all distinct definitions with their sources. The text of the first one is in `concept` and is not stored again
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
    database.execute("INSERT INTO out.code SELECT row, 'UMLS', id, 0 FROM out.concept WHERE id GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'")
    database.execute(
        "INSERT INTO out.code SELECT concept.row, vocabulary, code, MIN(rank) "
        + by_concept.format("s_code")
        + " WHERE NOT (vocabulary = 'UMLS' AND code = concept.id) GROUP BY concept.row, vocabulary, code ORDER BY MIN(s_code.rowid)"
    )
    parent_key = " LEFT JOIN key AS up ON up.id = s_parent.parent"
    database.execute(
        "INSERT OR IGNORE INTO out.parent SELECT concept.row, COALESCE(up.cid, s_parent.parent) "
        + by_concept.format("s_parent")
        + parent_key
        + " WHERE COALESCE(up.cid, s_parent.parent) != concept.id ORDER BY 1, 2"
    )
    database.execute("INSERT INTO out.relation SELECT DISTINCT concept.row, relation, target " + by_concept.format("s_relation"))
    _follow_retired(database)
    # other ids that lead to a concept, except those that are concepts themselves
    for kind, select in (
        ("cui", "SELECT code.code AS id, code.concept AS row, code.rowid AS seq FROM out.code WHERE vocabulary = 'UMLS'"),
        ("retired", "SELECT s_retired.old AS id, concept.row AS row, s_retired.rowid AS seq " + by_concept.format("s_retired")),
        ("term", "SELECT key.id AS id, concept.row AS row, 0 AS seq FROM key JOIN out.concept ON concept.id = key.cid"),
    ):
        database.execute(
            f"INSERT OR IGNORE INTO out.other_id SELECT id, row, '{kind}' FROM (SELECT id, row, MIN(seq) FROM ({select})"
            " WHERE id NOT IN (SELECT id FROM out.concept) GROUP BY id)"
        )


def _follow_retired(database: sqlite3.Connection) -> None:
    """Let a retired id lead to the last id in its chain of replacements. A cycle is left as it is."""
    later = dict(database.execute("SELECT old, id FROM s_retired ORDER BY rowid DESC"))
    moved = [(last, old) for old, new in later.items() if (last := _last(new, later)) != new]
    if moved:
        database.execute("CREATE INDEX s_retired_old ON s_retired (old)")
        database.executemany("UPDATE s_retired SET id = ? WHERE old = ?", moved)


def _last(term: str, later: dict[str, str]) -> str:
    last, seen = term, {term}
    while last in later:
        last = later[last]
        if last in seen:
            return term
        seen.add(last)
    return last


def _write_types(database: sqlite3.Connection) -> None:
    """Make the temporary table t (cid, tui): the types that sources give, or if they give none, the types of the term's branch in its ontology."""
    database.execute(
        "CREATE TEMP TABLE t AS SELECT DISTINCT COALESCE(key.cid, s_type.id) AS cid, tui FROM s_type LEFT JOIN key ON key.id = s_type.id"
    )
    database.execute("CREATE INDEX t_cid ON t (cid)")
    parents: dict[str, list[str]] = defaultdict(list)
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
    found = _without_findings(found)
    database.executemany("INSERT INTO t VALUES (?, ?)", found)


def _without_findings(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out "finding" (T033) if another term gives the kind of disorder. HPO uses it for everything that is under no other branch."""
    disorders = semantic_types.groups()["DISO"] - {FINDING}
    known = {cid for cid, tui in found if tui in disorders}
    return [(cid, tui) for cid, tui in found if tui != FINDING or cid not in known]


def _finish(path: Path, table_path: Path, names: _Names) -> dict[str, Any]:
    """Write the indexes of the tables and the name table. Return the counts for the manifest."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
        database.execute("BEGIN")
        for table, column in (
            ("name", "string"),
            ("name", "concept"),
            ("code", "concept"),
            ("code", "code"),
            ("relation", "concept"),
            ("other_id", "concept"),
        ):
            database.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
        type_set = _type_sets(database, names.concepts)
        vocabulary_set, codes, vocabularies = _vocabulary_sets(database, names)
        defined = np.zeros(names.concepts, dtype=np.int32)
        for (row,) in database.execute("SELECT row FROM concept WHERE definition IS NOT NULL"):
            defined[row] = 1

        def count(what: str) -> int:
            return int(database.execute(f"SELECT COUNT(*) FROM {what}").fetchone()[0])

        cuis = count("concept WHERE id GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'")
        counts = {
            "concepts": names.concepts,
            "strings": names.strings,
            "names": len(names.concept),
            "cuis": cuis,
            "concepts_without_cui": names.concepts - cuis,
            "definitions": int(defined.sum()),
            "further_definitions": count("definition WHERE place > 0"),
            "relations": count("relation"),
            "strings_of_several_concepts": _write_name_table(table_path, names, type_set, vocabulary_set, defined),
            "languages": _most_first(names.languages),
            "codes": _most_first(codes),
            "vocabularies": vocabularies,
        }
        database.execute("ANALYZE")
        database.execute("COMMIT")
    finally:
        database.close()
    return counts


def _write_name_table(path: Path, names: _Names, type_set: Ints32, vocabulary_set: Ints32, defined: Ints32) -> int:
    """Write the name table, see `NameTable` for its columns.

    Returns:
        Number of surface forms that stand for several concepts.
    """
    key = names.string.astype(np.int64) * names.concepts + names.concept
    order = np.lexsort((names.tie, key))
    key = key[order]
    order = order[np.concatenate([[True], key[1:] != key[:-1]])]  # the best name of each string and concept
    del key
    order = order[np.lexsort((names.tie[order], names.string[order]))]  # a stable sort: equal ties stay in the order of concepts
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.int32, shape=(6, len(order)))  # type: ignore[no-untyped-call]
    reserve(path)
    concepts = names.concept[order]
    for line, values in enumerate((names.string[order], concepts, names.tie[order])):
        table[line] = values
    for line, of_concept in enumerate((type_set, vocabulary_set, defined), 3):
        table[line] = of_concept[concepts]
    table.flush()
    several = int((np.bincount(table[0], minlength=1) > 1).sum())
    del table
    return several


def _type_sets(database: sqlite3.Connection, n_concepts: int) -> Ints32:
    """Number the distinct sets of semantic types and write them.

    Returns:
        Number of the set of each concept (concepts,).
    """
    numbers: dict[str, int] = {"": 0}
    sets = np.zeros(n_concepts, dtype=np.int32)
    for concept, members in database.execute("SELECT concept, GROUP_CONCAT(tui, ' ') FROM (SELECT * FROM type ORDER BY 1, 2) GROUP BY concept"):
        sets[concept] = numbers.setdefault(members, len(numbers))
    _write_sets(database, "type_sets", numbers)
    return sets


def _vocabulary_sets(database: sqlite3.Connection, names: _Names) -> tuple[Ints32, dict[str, int], list[str]]:
    """Number the distinct sets of vocabularies in which concepts have names or codes, and write them.

    Returns:
        Number of the set of each concept (concepts,), number of codes by vocabulary, and all vocabularies, sorted.
    """
    places = {vocabulary: place for place, vocabulary in enumerate(names.sources)}
    counted: dict[str, int] = defaultdict(int)
    width = len(places) + database.execute("SELECT COUNT(DISTINCT vocabulary) FROM code").fetchone()[0]
    found = [np.unique(names.concept.astype(np.int64) * width + names.source)]
    codes = database.execute("SELECT concept, vocabulary FROM code")
    while part := codes.fetchmany(1_000_000):
        for _, vocabulary in part:
            counted[vocabulary] += 1
        keys = (concept * width + places.setdefault(vocabulary, len(places)) for concept, vocabulary in part)
        found.append(np.unique(np.fromiter(keys, dtype=np.int64, count=len(part))))
    vocabularies = sorted(places)
    by_name = np.zeros(width, dtype=np.int64)  # the members of a set are sorted by name
    by_name[[places[vocabulary] for vocabulary in vocabularies]] = np.arange(len(vocabularies))
    pairs = np.concatenate(found)
    found.clear()
    pairs = np.unique(pairs - pairs % width + by_name[pairs % width])
    ends = np.searchsorted(pairs, np.arange(1, names.concepts + 1, dtype=np.int64) * width).tolist()
    members = (pairs % width).astype(np.int16 if width < 1 << 15 else np.int64)
    numbers: dict[bytes, int] = {b"": 0}
    sets = np.zeros(names.concepts, dtype=np.int32)
    start = 0
    for concept, end in enumerate(ends):
        sets[concept] = numbers.setdefault(members[start:end].tobytes(), len(numbers))
        start = end
    spelt = {" ".join(vocabularies[i] for i in np.frombuffer(key, members.dtype)): number for key, number in numbers.items()}
    _write_sets(database, "vocabulary_sets", spelt)
    return sets, counted, vocabularies


def _most_first(counted: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def _write_sets(database: sqlite3.Connection, table: str, numbers: dict[str, int]) -> None:
    """Write the members of each set by its number; 0 is the empty set."""
    database.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(number, members) for members, number in numbers.items()])
