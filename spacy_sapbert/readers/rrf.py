"""UMLS Metathesaurus in RRF: names, semantic types, definitions, hierarchy, brand names and retired CUIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from ..errors import warn
from ..kb.concept import Concept, Name, is_cui
from .rrf_files import Tables
from .stats import FEW_ROWS, ReadStats, most_frequent, reader

LANGUAGES = {
    "ENG": "en", "SPA": "es", "FRE": "fr", "GER": "de", "ITA": "it", "POR": "pt", "DUT": "nl", "CZE": "cs", "RUS": "ru", "JPN": "ja",
    "CHI": "zh", "KOR": "ko", "SWE": "sv", "FIN": "fi", "NOR": "no", "DAN": "da", "HUN": "hu", "POL": "pl", "BAQ": "eu", "HEB": "he",
    "LAV": "lv", "LIT": "lt", "EST": "et", "GRE": "el", "TUR": "tr", "SCR": "hr", "UKR": "uk", "ARA": "ar", "ICE": "is",
}  # fmt: skip
# Best first, for releases that were cut down to files without MRRANK; types that are not listed come after these.
TERM_TYPES = (
    "PN", "PT", "MH", "HT", "FN", "IN", "MIN", "PIN", "BN", "SCD", "SBD", "PF", "PTN", "NM", "LN", "LT", "LLT",
    "OSN", "PEP", "PSN", "SYN", "SY", "ET", "EP", "RXN_PT", "AB", "ACR", "PM", "TMSY", "XM", "HS", "OP", "IS",
)  # fmt: skip
_ORDER = {lat: place for place, lat in enumerate(LANGUAGES)}
_LANGUAGE_STEP, _TYPE_STEP = 100_000, 8
_LAST = 1 << 60  # after every rank
_SUPPRESSED = frozenset("OEY")
_RELATIONS = ("|PAR|", "|CHD|", "tradename")
_TRADE_NAMES = ("has_tradename", "tradename_of")
_NO_RELATION = frozenset({"isa", "inverse_isa"})  # the hierarchy, which is read from REL
_ATOM = itemgetter(0)
ALL_CUIS = 10_000_000  # C0000000 to C9999999
MANY_ROWS = 1000  # in a table with fewer rows, the last concept says little about where the table ends
FIRST_ROWS = 100_000  # of MRREL, in which relations are counted for a warning
LONG_BEFORE = 0.1  # share of the concepts of MRCONSO that may come after the last one of another table
Ranks = dict[tuple[str, str], int]


@reader("rrf")
def read_rrf(
    path: Path,
    stats: ReadStats,
    *,
    languages: Sequence[str] | None = ("ENG",),
    sources: Sequence[str] | None = None,
    term_types: Sequence[str] | None = None,
    suppressed: bool = False,
    hierarchy: bool = True,
    relations: Sequence[str] | None = (),
    only_named: bool = True,
    encoding: str = "utf-8",
) -> Iterator[Concept]:
    """Read a UMLS release: a folder with RRF files, one that has them in META/, a Metathesaurus zip, or MRCONSO.RRF itself; plain or .gz.

    Only MRCONSO is required. If MRFILES is there, each table that is read must have at least the bytes and rows that it lists. For each CUI, its
    names and codes (MRCONSO) are yielded first, in the file's order. Then come parts: types (MRSTY), definitions with their SAB as `source`
    (MRDEF; the knowledge base decides which is best), parents and relations (MRREL) and retired CUIs (MRCUI).

    The rank of a name depends first on the language, then on MRRANK (or TERM_TYPES if MRRANK is missing). Then 4 is added if TS is not P, 2 if
    STT is not PF, and 1 if ISPREF is not Y.

    In MRREL, REL and RELA say what the *second* concept is to the first. `C1|…|PAR|C2`: C2 is a parent of C1. `C1|…|CHD|C2`: C2 is a child of
    C1. RELA has_tradename: C2 has the tradename C1. Each relation is listed from both sides. In MRCUI, REL SY with MAPIN Y means that CUI1 was
    merged into CUI2.

    Warns W012 if concepts of MRCONSO are not in MRSTY: then the tables are from different releases. Warns W013 if a folder or zip has no MRSTY.
    Warns W014 if concepts of MRSTY, MRDEF or MRREL are not in MRCONSO, and W015 if MRDEF or MRREL ends long before MRCONSO (W012 says it of MRSTY).
    Warns W016 if a vocabulary or a relation that the caller wants is not there.

    Args:
        path: the folder or file.
        stats: counters of the reading; `stats.versions` has SVER by vocabulary (MRSAB), `stats.version` that of the Metathesaurus (RSAB MTH).
        languages: values of LAT ("ENG", "SPA"), in order of preference for the canonical name: each rank of a later language is worse than all
            of an earlier one. None for all, also those that LANGUAGES does not have. Names get ISO 639-1 codes ("en"). Definitions are read from
            vocabularies in these languages (MRSAB), and from vocabularies without a known language.
        sources: vocabularies (SAB) whose names, definitions and relations are read; None for all.
        term_types: term types (TTY) of names; None for all.
        suppressed: keep rows whose SUPPRESS is O, E or Y.
        hierarchy: read MRREL, by far the largest table.
        relations: values of RELA ("has_finding_site") that are kept in addition to parents and trade names; None for all, which are tens of
            millions in a complete release.
        only_named: yield types, definitions, parents and retired ids only for CUIs that got a name here. False adds what UMLS knows to concepts
            that other sources name.
        encoding: encoding of all tables.

    Raises:
        SapbertError: E401; E402, there is no MRCONSO; E404 and E405; E412, a table has fewer bytes or rows than MRFILES says; E413, the last row of
            a table is not whole.

    Source:
        UMLS Reference Manual, chapter 3 (ncbi.nlm.nih.gov/books/NBK9685).
    """
    tables = Tables(path)
    tables.check(encoding)

    def rows(table: str, must_hold: Sequence[str] = ()) -> Iterator[list[str]]:
        return tables.rows(table, stats.part(Path(tables.found[table])), encoding, must_hold) if table in tables else iter(())

    vocabularies = list(rows("MRSAB"))
    stats.versions = {row[3]: row[6] for row in vocabularies if row[21] == "Y" and row[6]}
    stats.version = stats.versions.get("MTH")
    named = bytearray(ALL_CUIS)  # one byte for each possible CUI: a set of 4M strings would take 400 MB
    whole = _Whole(path, stats.max_bad_share)
    wanted = _Wanted(languages, sources, term_types, suppressed)
    for concept in _names(whole.first(rows("MRCONSO")), wanted, _ranks(rows("MRRANK")), stats):
        named[int(concept.concept_id[1:])] = 1
        yield concept
    if absent := (wanted.sources or frozenset()) - wanted.found:
        others = most_frequent(stats.filtered["vocabulary"])
        warn("W016", path=path, what="names of the vocabulary", missing=", ".join(sorted(absent)), others=others)

    def skip(cui: str) -> bool:
        return only_named and not named[int(cui[1:])]

    if "MRSTY" not in tables and (tables.archive or path.is_dir()):
        warn("W013", path=path)
    untyped = named.copy() if "MRSTY" in tables else bytearray()
    for cui, group in groupby(whole.other("MRSTY", rows("MRSTY")), key=_ATOM):
        if not skip(cui):
            yield Concept(cui, "UMLS", types=list(dict.fromkeys(row[1] for row in group)))
        if untyped:
            untyped[int(cui[1:])] = 0
    if (count := untyped.count(1)) > max(FEW_ROWS, stats.max_bad_share * named.count(1)):  # in a release, every concept has a type
        warn("W012", count=count, total=named.count(1), path=path, example=f"C{untyped.find(1):07}")
    # MRDEF has no column with the language; the definitions of MSHSPA and MSHCZE have that of their vocabulary
    foreign = set() if wanted.languages is None else {row[3] for row in vocabularies if row[19] and row[19].upper() not in wanted.languages}
    for row in whole.other("MRDEF", rows("MRDEF")):
        if row[4] not in foreign and wanted.source(row[4]) and (suppressed or row[6] not in _SUPPRESSED) and not skip(row[0]):
            yield Concept(row[0], row[4], definition=row[5].strip())
    if hierarchy:
        kept = None if relations is None else frozenset((*_TRADE_NAMES, *relations))
        must_hold = () if relations is None else (*_RELATIONS, *(f"|{rela}|" for rela in relations))
        found: set[str] = set()
        read = _relations(whole.other("MRREL", rows("MRREL", must_hold)), wanted, kept, found)
        yield from (concept for concept in read if not skip(concept.concept_id))
        if unknown := set(relations or ()) - found - _NO_RELATION:
            some = (line.split("|") for _, line in islice(tables.text("MRREL", encoding), FIRST_ROWS)) if "MRREL" in tables else ()
            there = Counter(row[7] for row in some if len(row) > 7 and row[7] and row[7] not in _NO_RELATION)
            warn("W016", path=path, what="relation", missing=", ".join(sorted(unknown)), others=most_frequent(there))
    for row in rows("MRCUI"):
        if row[2] == "SY" and row[6] == "Y" and is_cui(row[5]) and row[5] != row[0] and not skip(row[5]):
            yield Concept(row[5], "UMLS", retired=[row[0]])


class _Whole:
    """Compares the concepts of other tables with those of MRCONSO.

    Args:
        path: The release, for warnings.
        most: The share of concepts that may differ.
    """

    def __init__(self, path: Path, most: float) -> None:
        self.path, self.most, self.all, self.total = path, most, bytearray(ALL_CUIS), 0

    def first(self, rows: Iterator[list[str]]) -> Iterator[list[str]]:
        """Yield the rows of MRCONSO, and keep which concepts it has: all, also those that the caller does not want."""
        before = ""
        for row in rows:
            if row[0] != before:
                before = row[0]
                self.all[int(before[1:])] = 1
            yield row
        self.total = self.all.count(1)

    def other(self, table: str, rows: Iterator[list[str]]) -> Iterator[list[str]]:
        """Yield the rows of another table, and warn W014 or W015 at its end. MRREL need not be sorted by its first CUI."""
        before, count, has = "", 0, bytearray(ALL_CUIS)
        for row in rows:
            count += 1
            if row[0] != before:
                before = row[0]
                has[int(before[1:])] = 1
            yield row
        found, last = has.count(1), has.rfind(1)
        unknown = np.flatnonzero(np.frombuffer(has, dtype=np.uint8) > np.frombuffer(self.all, dtype=np.uint8))
        if len(unknown) > max(FEW_ROWS, self.most * found):
            warn("W014", count=len(unknown), total=found, table=table, example=f"C{unknown[0]:07}", path=self.path)
        elif table != "MRSTY" and count > MANY_ROWS and (after := self.all.count(1, last + 1)) > LONG_BEFORE * self.total:
            warn("W015", table=table, path=self.path, last=f"C{last:07}", count=after, total=self.total)


class _Wanted:
    """The caller's filters as sets; None is everything."""

    def __init__(self, languages: Sequence[str] | None, sources: Sequence[str] | None, term_types: Sequence[str] | None, suppressed: bool) -> None:
        self.languages = None if languages is None else {lat.upper(): place for place, lat in enumerate(languages)}
        self.sources = None if sources is None else frozenset(sources)
        self.term_types = None if term_types is None else frozenset(term_types)
        self.suppressed = suppressed
        self.found: set[str] = set()  # those of `sources` that have a name; complete after MRCONSO

    def source(self, sab: str) -> bool:
        return self.sources is None or sab in self.sources


def _ranks(rows: Iterator[list[str]]) -> Ranks:
    """Return (SAB, TTY) -> place, where 0 is the best. In MRRANK itself, larger numbers are better."""
    raw = {(row[1], row[2]): int(row[0]) for row in rows if row[0].isdigit()}
    top = max(raw.values(), default=0)
    return {key: top - rank for key, rank in raw.items()}


def _names(rows: Iterator[list[str]], wanted: _Wanted, ranks: Ranks, stats: ReadStats) -> Iterator[Concept]:
    """Yield one Concept for the consecutive rows of each CUI. What is left out is counted in `stats.filtered`."""
    languages, sources, term_types, suppressed = wanted.languages, wanted.sources, wanted.term_types, wanted.suppressed
    by_type = {tty: place for place, tty in enumerate(TERM_TYPES)}
    last = max(ranks.values(), default=len(by_type)) + 1  # place of types that are not ranked
    steps: dict[tuple[str, str, str], tuple[str, int]] = {}  # language, vocabulary, term type -> ISO 639-1 and rank: a few hundred of them
    concept: Concept | None = None
    last_cui, names, codes = "", [], {}  # type: str, list[Name], dict[tuple[str, str], int]
    for cui, lat, ts, _, stt, _, ispref, _, _, _, _, sab, tty, code, text, _, suppress, *_ in rows:
        if sources is not None:
            if sab not in sources:
                stats.filtered["vocabulary"][sab] += 1
                continue
            wanted.found.add(sab)
        if languages is not None and lat not in languages:
            stats.filtered["language"][lat] += 1
            continue
        if term_types is not None and tty not in term_types:
            stats.filtered["term type"][tty] += 1
            continue
        if suppress in _SUPPRESSED and not suppressed:
            stats.filtered["suppressed"][suppress] += 1
            continue
        text = text.strip()
        if not text:
            continue
        if cui != last_cui:
            if concept is not None:
                concept.codes = list(codes)
                yield concept
            concept, last_cui = Concept(cui, "UMLS"), cui
            names, codes = concept.names, concept.code_ranks
        if (step := steps.get((lat, sab, tty))) is None:
            order = languages[lat] if languages is not None else _ORDER.get(lat, len(_ORDER))
            place = ranks.get((sab, tty), last) if ranks else by_type.get(tty, last)
            step = steps[lat, sab, tty] = LANGUAGES.get(lat, lat.lower()), order * _LANGUAGE_STEP + place * _TYPE_STEP
        rank = step[1] + (ts != "P") * 4 + (stt != "PF") * 2 + (ispref != "Y")
        names.append(Name(text, sab, step[0], tty, rank))
        if code and code != "NOCODE" and rank < codes.get((sab, code), _LAST):
            codes[sab, code] = rank
    if concept is not None:
        concept.codes = list(codes)
        yield concept


def _relations(rows: Iterator[list[str]], wanted: _Wanted, kept: frozenset[str] | None, found: set[str]) -> Iterator[Concept]:
    """Yield parents, and relations whose RELA is in `kept`, and add these to `found`. MRREL has each relation twice, once from each side; repeated rows are skipped."""
    last: tuple[str, ...] = ()
    for row in rows:
        first, rel, second, rela = row[0], row[3], row[4], row[7]
        related = bool(rela) and rela not in _NO_RELATION and (kept is None or rela in kept)
        if related:
            found.add(rela)
        if (
            first == second
            or not (rel in ("PAR", "CHD") or related)
            or not wanted.source(row[10])
            or (row[14] in _SUPPRESSED and not wanted.suppressed)
        ):
            continue
        if (first, rel, second, rela) == last:
            continue
        last = (first, rel, second, rela)
        if rel == "PAR":
            yield Concept(first, "UMLS", parents=[second])
        elif rel == "CHD":
            yield Concept(second, "UMLS", parents=[first])
        if related:
            yield Concept(second, "UMLS", relations=[(rela, first)])
