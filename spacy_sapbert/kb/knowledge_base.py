"""Read a knowledge base: one SQLite file, opened read-only and memory-mapped, and the name table.

`builder.py` writes both. Worker processes share the files: what one of them has read is in the page cache for all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from ..arrays import check_between
from ..errors import DamagedFile, SapbertError, fail
from ..files import every_byte, is_every_byte, is_looked_through, read_manifest
from ..types import Bools1d
from . import curies, semantic_types
from .additions import Additions, Overlay
from .concept import DOTLESS, LAY, Concept, Name, concept_url, normalise
from .database import Database, Rows, damaged
from .name_table import NameTable
from .removals import Removals

KIND, VERSION = "knowledge base", 2
DATABASE, NAME_TABLE = "kb.sqlite", "names.npy"
_CACHED = 20_000  # concepts, and ids, that are kept in memory
_VARIABLES = 500  # variables in one SQL statement; old versions of SQLite allow 999


class Entity(NamedTuple):
    """A concept as scispaCy shows it.

    Attributes:
        concept_id: CUI, or the identifier of a source.
        canonical_name: the best name.
        aliases: all names, the canonical one first.
        types: semantic types (TUIs).
        definition: the definition, None if there is none.
    """

    concept_id: str
    canonical_name: str
    aliases: list[str]
    types: list[str] = []
    definition: str | None = None

    @property
    def url(self) -> str:
        """Address of its public page, "" if there is none."""
        return concept_url(self.concept_id)

    def __repr__(self) -> str:
        shown = f"CUI: {self.concept_id}, Name: {self.canonical_name}\nDefinition: {self.definition}\nTUI(s): {', '.join(self.types)}\n"
        if len(self.aliases) > 10:
            return shown + f"Aliases (abbreviated, total: {len(self.aliases)}): \n\t {', '.join(self.aliases[:10])}"
        return shown + f"Aliases: (total: {len(self.aliases)}): \n\t {', '.join(self.aliases)}"


class MatchableName(NamedTuple):
    """A name to look for in text.

    Attributes:
        name: the normalised name.
        tui: the first semantic type of its best concept, None if the concept has none.
        tuis: all semantic types of this concept.
        texts: the spellings of the name in its sources.
        is_lay: whether it is only a lay name.
    """

    name: str
    tui: str | None = None
    tuis: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    is_lay: bool = False


_Count = Annotated[int, Field(ge=0, lt=2**31)]  # rows have numbers of 32 bits


class _Counts(BaseModel):
    """The counts in a manifest."""

    model_config = ConfigDict(strict=True)

    concepts: _Count
    cuis: _Count
    names: _Count
    strings: _Count
    strings_of_several_concepts: _Count
    definitions: _Count
    relations: _Count
    concepts_without_cui: _Count
    terms_with_several_cuis: _Count
    vocabularies: list[str]
    codes: dict[str, _Count]
    languages: dict[str, _Count]
    names_left_out: dict[str, _Count]


class _Source(BaseModel):
    """A source in a manifest."""

    model_config = ConfigDict(strict=True)

    name: str
    options: dict[str, Any] | None = None
    left_out: dict[str, NonNegativeInt] | None = None


class _Filters(BaseModel):
    """The filters in a manifest."""

    model_config = ConfigDict(strict=True)

    languages: list[str]


class _Manifest(BaseModel):
    """The required content of a knowledge base's manifest."""

    counts: _Counts
    sources: list[_Source]
    filters: _Filters


class KnowledgeBase:
    """Concepts, names and codes of a folder that `kb build` wrote.

    Args:
        path: the folder.
        verify: hash every byte of every file, and check every page of the database. False checks only samples of files over 64 MiB, so that
            opening takes less than 0.3 s.

    Attributes:
        name_table: which concepts each surface form stands for.
        added: what a user added, None if there is nothing.
        removed: which names a user removed, None if there are none.
        manifest: content of the folder's manifest.json.

    Raises:
        MissingFile: E101, there is no such folder, or it holds no knowledge base.
        DamagedFile: E102, a file is missing or was changed.
        SapbertError: E106, another format.
    """

    def __init__(self, path: str | Path, *, verify: bool = False) -> None:
        self.path = Path(path)
        with every_byte(verify):
            files = (DATABASE, NAME_TABLE)
            self.manifest: dict[str, Any] = read_manifest(self.path, KIND, VERSION, missing="E101", damaged="E102", content=_Manifest, files=files)
            self.added: Overlay | None = None
            self.removed: Removals | None = None
            self._database = Database(self.path / DATABASE)
            if is_every_byte():
                self._database.check_pages()
            try:
                self.name_table = NameTable.open(self.path / NAME_TABLE)
                if is_looked_through(self.path / NAME_TABLE):
                    self._check_name_table()
            except ValueError as error:
                raise error if isinstance(error, SapbertError) else fail("E102", DamagedFile, path=self.path, why=str(error)) from error
        self._concepts: LRUCache[int, Concept] = LRUCache(_CACHED)
        self._ids: LRUCache[int, str] = LRUCache(_CACHED)
        self._rows: LRUCache[str, int] = LRUCache(_CACHED)  # of concepts of the files, by their own ids
        self._lock = threading.Lock()  # of the three caches

    def _check_name_table(self) -> None:
        """Check that the name table is sorted and that its rows exist.

        Raises:
            ValueError: it is not sorted, or a row does not exist.
        """
        table = self.name_table
        sizes = {
            "surface_form": self.n_surface_forms,
            "concept": len(self),
            "types": self._sql("SELECT COUNT(*) FROM type_sets").one()[0],
            "vocabularies": self._sql("SELECT COUNT(*) FROM vocabulary_sets").one()[0],
            "defined": 2,
        }
        for column, size in sizes.items():
            check_between(getattr(table, column), f"{NAME_TABLE}: column '{column}'", 0, size)
        if bool((table.surface_form[1:] < table.surface_form[:-1]).any()):
            raise ValueError(f"{NAME_TABLE} is not sorted")

    # -- size and settings ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of concepts, including added ones."""
        return int(self.manifest["counts"]["concepts"]) + (len(self.added.rows) if self.added is not None else 0)

    def with_additions(self, additions: Additions) -> KnowledgeBase:
        """Return this knowledge base with other additions and removals, which replace those it has. It shares files and connections with this one.

        Raises:
            SapbertError: E022, a name belongs to no concept.
        """
        view = KnowledgeBase.__new__(KnowledgeBase)
        view.__dict__.update(self.__dict__, added=None, removed=None, _concepts=LRUCache(_CACHED))
        if additions.names:

            def find(text: str, language: str) -> int | None:
                return view.find([text], language).get(text)

            def defined(row: int) -> bool:
                return bool(view._sql("SELECT definition IS NOT NULL FROM concept WHERE row = ?", row).one()[0])

            view.added = Overlay(additions, view.row_of, find, defined, view.concept_id, (view.n_surface_forms, len(view)))
        if additions.removed:

            def row_of(concept_id: str) -> int | None:
                return next(iter(view.rows_of(concept_id)), None)

            added = {} if view.added is None else view.added.names
            view.removed = Removals(additions.removed, view.name_table, row_of, view._rows_of_forms, view._forms_of, added)
        return view

    def _rows_of_forms(self, norms: Iterable[str]) -> dict[str, int]:
        """Return normalised name -> row of its surface form in the files, also for removed names."""
        return dict(self._sql_in("SELECT norm, row FROM string WHERE norm IN ({})", norms))

    def _forms_of(self, concept: int) -> list[tuple[int, Name]]:
        """Return (row of the surface form, name) of each name that a concept (a row) has in the files, the best first."""
        if self.added is not None and self.added.is_new(concept):
            return []
        sql = "SELECT string, text, source, language, term_type, rank FROM name WHERE concept = ? ORDER BY rank, rowid"
        return [(found[0], Name(*found[1:])) for found in self._sql(sql, concept)]

    @property
    def n_surface_forms(self) -> int:
        """Number of surface forms, which is the number of rows of an index."""
        return int(self.manifest["counts"]["strings"])

    @property
    def vocabularies(self) -> list[str]:
        """Vocabularies in which any concept has a name or a code."""
        return list(self.manifest["counts"]["vocabularies"])

    @property
    def vocabularies_by_size(self) -> list[str]:
        """Vocabularies in which any concept has a code, the one with the most codes first."""
        return list(self.manifest["counts"]["codes"])

    @property
    def languages(self) -> dict[str, int]:
        """Number of names by language, the most frequent language first."""
        return dict(self.manifest["counts"]["languages"])

    @property
    def fingerprint(self) -> str:
        """Hash of the content. It changes if any name, concept or code changes."""
        return str(self.manifest["files"][DATABASE]["blake2b"])

    @property
    def cased(self) -> bool:
        """Whether encoders read names as they are written, not in lower case."""
        return bool(self.manifest["filters"].get("cased"))

    # -- names ----------------------------------------------------------------------------------------------------------

    def encoded_form(self, text: str, language: str = "") -> str:
        """Return a name or mention as an encoder reads it: normalised, and in lower case unless the knowledge base is `cased`."""
        return normalise(text, language, cased=self.cased)

    @property
    def _form(self) -> str:
        """The column that has the surface forms in the form that an encoder reads."""
        return "written" if self.cased else "norm"

    def surface_forms(self, start: int = 0, *, compared: bool = False) -> Iterator[str]:
        """Yield the surface forms in the order of their rows, from row `start` on.

        Args:
            start: the first row.
            compared: yield them in the form in which they are compared and sorted. False yields them in the form that an encoder reads.
        """
        for (form,) in self._sql(f"SELECT {'norm' if compared else self._form} FROM string WHERE row >= ? ORDER BY row", start):
            yield form

    def surface_forms_at(self, rows: Sequence[int]) -> list[str]:
        """Return the surface forms of some rows, in the form that an encoder reads, in the order of the given rows."""
        texts: dict[int, str] = dict(self._sql_in(f"SELECT row, {self._form} FROM string WHERE row IN ({{}})", map(int, rows)))
        return [texts[int(row)] for row in rows]

    def find(self, names: Iterable[str], language: str = "") -> dict[str, int]:
        """Find exact matches of some names. They are compared in lower case.

        Args:
            names: names or mentions; they are normalised here.
            language: ISO 639-1, see `normalise`.

        Returns:
            Given name -> row of its surface form. Names without an exact match are left out.
        """
        norms = {name: normalise(name, language) for name in names}
        rows = self._rows_of_forms(norms.values())
        found: dict[str, int] = {}
        for name, norm in norms.items():
            row = rows.get(norm)
            if row is not None and not (self.removed is not None and row in self.removed.gone):
                found[name] = row
            elif self.added is not None and norm in self.added.by_norm:
                found[name] = self.added.by_norm[norm]
        return found

    def names_of_surface_form(self, row: int) -> list[tuple[int, Name]]:
        """Return (concept row, Name) of every name with this surface form: added names first, then by concept, the best first. Removed ones are left out."""
        sql = "SELECT concept, text, source, language, term_type, rank FROM name WHERE string = ? ORDER BY concept, rank, rowid"
        added = [] if self.added is None else self.added.of_surface_form(row)
        rows = ((found[0], Name(*found[1:])) for found in self._sql(sql, row))
        return [*added, *((concept, name) for concept, name in rows if not self._is_removed(row, concept))]

    def removed_names(self, forms: Iterable[str]) -> list[str]:
        """Return the names of the files that a user removed and that equal one of some normalised forms, as their sources write them."""
        if self.removed is None:
            return []
        rows = set(self._rows_of_forms(forms).values())
        pairs = [pair for pair in sorted(self.removed.pairs) if pair[0] in rows]
        names = self.matched_names(pairs)
        return [names[pair].text for pair in pairs]

    def _is_removed(self, surface_form: int, concept: int) -> bool:
        return self.removed is not None and self.removed.is_removed(surface_form, concept)

    def names_that_begin(self, text: str, limit: int) -> list[tuple[int, str]]:
        """Return (concept row, name as its source writes it) of names that begin with a text, the shortest first.

        Args:
            text: the beginning; it is normalised here.
            limit: largest number of surface forms whose names are returned.
        """
        norm = normalise(text)
        if not norm:
            return []
        sql = "SELECT row FROM string WHERE norm >= ? AND norm < ? ORDER BY length(norm), row LIMIT ?"
        rows = [row for (row,) in self._sql(sql, norm, norm + chr(0x10FFFF), limit)]
        rows += [row for known, row in self.added.by_norm.items() if known.startswith(norm)] if self.added is not None else []
        return [(concept, name.text) for row in dict.fromkeys(rows) for concept, name in self.names_of_surface_form(row)]

    def matched_name(self, surface_form: int, concept: int) -> Name:
        """Return the name of a concept (a row) that has this surface form (a row), as its source writes it; see `matched_names` for several."""
        return self.matched_names([(surface_form, concept)])[surface_form, concept]

    def matched_names(self, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Name]:
        """Return (surface form, concept) -> the name of that concept with that form, as its source writes it. All are read with few statements.

        Raises:
            DamagedFile: E102, a concept has no name with its surface form.
        """
        wanted = dict.fromkeys(pairs)
        found = {} if self.added is None else {pair: self.added.names[pair] for pair in wanted if pair in self.added.names}
        columns = "string, concept, text, source, language, term_type, rank"
        for form, concept, *name in self._sql_in(
            f"SELECT {columns} FROM name WHERE string IN ({{}}) ORDER BY rank, rowid", (form for form, _ in wanted)
        ):
            if (form, concept) in wanted:
                found.setdefault((form, concept), Name(*name))
        if len(found) < len(wanted):
            raise damaged(self.path, "a row that others lead to is missing")
        return found

    def rank_in_tie(self, surface_form: int, concept: int) -> int:
        """Return the rank in a tie, see `NameTable`, of the name of a concept (a row) that has this surface form (a row)."""
        table = self.name_table
        if self.added is not None and (surface_form, concept) in self.added.names:
            table = self.added.name_table
        return table.rank_of(surface_form, concept)

    def names_in(self, languages: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield (concept row, surface form row, language) of every name in some languages.

        Rows are in the order of concepts. The canonical name of a concept comes first, then its other names by rank.
        """
        marks = ",".join("?" * len(languages))
        yield from self._sql(
            "SELECT name.concept, name.string, name.language FROM name JOIN concept ON concept.row = name.concept"
            f" WHERE name.language IN ({marks}) ORDER BY name.concept, name.text != concept.name, name.rank, name.rowid",
            *languages,
        )

    def matchable_names(self, *, weak_names: bool = True, tuis: Iterable[str] | None = None) -> Iterator[MatchableName]:
        """Yield every surface form with the types of its best concept and its spellings in the sources, to find names in text.

        Args:
            weak_names: also yield narrower, related, broader and lay names.
            tuis: yield only names of concepts with one of these types; None for all.
        """
        only = None if tuis is None else set(tuis)
        weak = "" if weak_names else "WHERE term_type NOT IN ('NRW', 'REL', 'BRD', 'LAY')"
        types: dict[int, tuple[str, ...]] = {}
        for concept, tui in self._sql("SELECT concept, tui FROM type ORDER BY concept, tui DESC"):
            types[concept] = (tui, *types.get(concept, ()))
        allowed = None if only is None else {concept for concept, tuis_of in types.items() if not only.isdisjoint(tuis_of)}
        rows = self._sql(
            "SELECT string.row, concept, norm, text, term_type FROM string JOIN name ON name.string = string.row"
            f" {weak} ORDER BY string.row, name.rank, concept"
        )
        for _, group in groupby(rows, key=itemgetter(0)):
            found = [row for row in group if allowed is None or row[1] in allowed]
            if found:
                tuis_of = types.get(found[0][1], ())
                first = [tui for tui in tuis_of if only is None or tui in only]
                is_lay = all(row[4] == LAY for row in found)
                yield MatchableName(found[0][2], first[0] if first else None, tuis_of, tuple(dict.fromkeys(row[3] for row in found)), is_lay)

    # -- concepts -------------------------------------------------------------------------------------------------------

    def concept_id(self, row: int) -> str:
        """Return the id of the concept in a row."""
        if self.added is not None and self.added.is_new(row):
            return self.added.id_of(row)
        with self._lock:
            known = self._ids.get(row)
        if known is None:
            known = str(self._sql("SELECT id FROM concept WHERE row = ?", row).one()[0])
            self._keep_ids([(row, known)])
        return known

    def read_ids(self, rows: Iterable[int]) -> None:
        """Read the ids of some concepts with few statements, so that `concept_id` and `row_of` find them in the cache."""
        new = [row for row in rows if row not in self._ids and not (self.added is not None and self.added.is_new(row))]
        self._keep_ids(self._sql_in("SELECT row, id FROM concept WHERE row IN ({})", new))

    def _keep_ids(self, found: Iterable[tuple[int, str]]) -> None:
        for row, concept_id in found:
            with self._lock:
                self._ids[row], self._rows[concept_id] = concept_id, row

    def row_of(self, concept_id: str) -> int:
        """Return the row of the concept that an identifier or code leads to. If there are several, it is the best one, see `rows_of`.

        Raises:
            KeyError: there is no such concept.
        """
        with self._lock:
            known = self._rows.get(concept_id) if isinstance(concept_id, str) else None  # a concept's own id leads to this concept first
        if known is not None:
            return known
        rows = self.rows_of(concept_id)
        if not rows:
            raise KeyError(f"{concept_id}: {self.why_unknown(concept_id)}")
        return rows[0]

    def why_unknown(self, concept_id: str) -> str:
        """Say why no concept has an identifier or code: the vocabulary, or only this code, is not in the knowledge base."""
        return curies.why_unknown(str(concept_id), self.vocabularies_by_size)

    def rows_of(self, concept_id: str) -> list[int]:
        """Return the rows of all concepts that an identifier or code leads to, best first; none if it is not known.

        Args:
            concept_id: one of three kinds. A concept's id, another of its CUIs or a retired id leads to one concept. The identifier of a
                source's term leads first to the concept that holds the term. A code of a vocabulary, `VOCABULARY:code`, is read in any
                spelling that `curies` knows (MESH:D003924, MSH:D003924, mesh:D003924); several concepts may have it, and the docstring of
                `builder` explains their order.
        """
        if not isinstance(concept_id, str):
            return []
        try:
            row = self.row_of_id(concept_id)
            if row is not None and not self._is_term(concept_id):
                return [row]
            prefix, local = curies.split(concept_id)
            coded = self.rows_of_code(curies.code_spellings(concept_id), prefix) if prefix and local else []
            return coded if row is None else [row, *(other for other in coded if other != row)]
        except UnicodeEncodeError:  # it has half a surrogate pair, and no id has one
            return []

    def row_of_id(self, concept_id: str) -> int | None:
        """Return the row of the concept with this id, secondary CUI, retired id or identifier of a source's term; None if there is none."""
        for spelt in _spellings(concept_id):
            hit = self._sql("SELECT row FROM concept WHERE id = ?", spelt).fetchone()
            hit = hit or self._sql("SELECT concept FROM other_id WHERE id = ?", spelt).fetchone()
            if hit is not None:
                return int(hit[0])
            if self.added is not None and spelt in self.added.rows:
                return self.added.rows[spelt]
        return None

    def _is_term(self, concept_id: str) -> bool:
        """Return whether an id is that of a source's term whose concept has another id."""
        return any(self._sql("SELECT 1 FROM other_id WHERE id = ? AND kind = 'term'", spelt).fetchone() for spelt in _spellings(concept_id))

    def rows_of_code(self, spellings: Sequence[str], vocabulary: str = "") -> list[int]:
        """Return the rows of all concepts with a code, best first.

        Args:
            spellings: ways in which the code may be written in the knowledge base.
            vocabulary: the vocabulary of the code, in any spelling; "" for any vocabulary.
        """
        key = curies.vocabulary_key(vocabulary)
        rows = [
            row
            for of, row in self._sql(
                f"SELECT vocabulary, concept FROM code WHERE code IN ({','.join('?' * len(spellings))}) ORDER BY rank, rowid", *spellings
            )
            if not vocabulary or curies.vocabulary_key(of) == key
        ]
        for row, concept in self.added.coded() if self.added is not None else ():
            rows += [row for of, code in concept.codes if code in spellings and (not vocabulary or curies.vocabulary_key(of) == key)]
        return list(dict.fromkeys(rows))

    def __contains__(self, concept_id: str) -> bool:
        return bool(self.rows_of(concept_id))

    def __getitem__(self, concept_id: str) -> Entity:
        """Return the concept that an identifier or code leads to, as scispaCy shows it: `kb["MESH:D003924"].canonical_name`.

        Raises:
            KeyError: there is no such concept.
        """
        return self.entity(self.row_of(concept_id))

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of all concepts."""
        return iter(self.cui_to_entity)

    def get(self, concept_id: str) -> Entity | None:
        """Return the concept that an identifier or code leads to, None if it is not known."""
        return self.cui_to_entity.get(concept_id)

    def concept(self, row: int) -> Concept:
        """Return everything that is known about the concept in a row. `names[0]` is the canonical name."""
        with self._lock:
            concept = self._concepts.get(row)
        if concept is None:
            concept = self._read_concept(row)
            with self._lock:
                self._concepts[row] = concept
        return concept

    def _read_concept(self, row: int) -> Concept:
        if self.added is not None and self.added.is_new(row):
            return self.added.concept(row)
        concept_id, name, definition, source = self._sql("SELECT id, name, definition, source FROM concept WHERE row = ?", row).one()
        names = self._names(row, name)
        codes = [(vocabulary, code) for _, vocabulary, code in self._codes_of([row])]
        return Concept(
            concept_id,
            source,
            names=names,
            cuis=[code for vocabulary, code in codes if vocabulary == "UMLS"],
            types=self.types_of(row),
            definition=definition,
            codes=codes,
            parents=[p for (p,) in self._sql("SELECT parent FROM parent WHERE concept = ? ORDER BY parent", row)],
            retired=[i for (i,) in self._sql("SELECT id FROM other_id WHERE concept = ? AND kind = 'retired' ORDER BY id", row)],
            relations=self._sql("SELECT relation, target FROM relation WHERE concept = ? ORDER BY relation, target", row).fetchall(),
        )

    def canonical_name_of(self, row: int) -> str:
        """Return only the canonical name of the concept in a row."""
        if self.added is not None and self.added.is_new(row):
            return self.added.names_of(row)[0].text
        return str(self._sql("SELECT name FROM concept WHERE row = ?", row).one()[0])

    def types_of_all(self, rows: Iterable[int]) -> dict[int, list[str]]:
        """Return concept row -> its semantic types, see `types_of`. All are read with few statements."""
        found: dict[int, list[str]] = {row: [] for row in rows}
        new = {row for row in found if self.added is not None and self.added.is_new(row)}
        for row, tui in self._sql_in(
            "SELECT concept, tui FROM type WHERE concept IN ({}) ORDER BY concept, tui", (row for row in found if row not in new)
        ):
            found[row].append(tui)
        return {**found, **{row: self.types_of(row) for row in new}}

    def types_of(self, row: int) -> list[str]:
        """Return only the semantic types (TUIs) of the concept in a row."""
        if self.added is not None and self.added.is_new(row):
            return list(self.added.concept(row).types)
        return [tui for (tui,) in self._sql("SELECT tui FROM type WHERE concept = ? ORDER BY tui", row)]

    def names_of(self, row: int) -> list[Name]:
        """Return only the names of the concept in a row, the canonical one first. Removed names are left out, except the canonical one."""
        if self.added is not None and self.added.is_new(row):
            return self.added.names_of(row)
        return self._names(row, self.canonical_name_of(row))

    def _names(self, row: int, canonical: str) -> list[Name]:
        names = [name for form, name in self._forms_of(row) if name.text == canonical or not self._is_removed(form, row)]
        added = [] if self.added is None else self.added.names_of(row)
        return [*sorted(names, key=lambda n: n.text != canonical), *added]  # stable

    def definitions(self) -> Iterator[tuple[int, str, str]]:
        """Yield (concept row, definition, source) of every definition, in the order of rows. A concept's canonical definition comes first."""
        yield from self._definitions("", ())

    def definitions_of(self, row: int) -> list[tuple[str, str]]:
        """Return (definition, source) of every definition of the concept in a row, the canonical one first."""
        return [(text, source) for _, text, source in self._definitions("AND concept.row = ?", (row,))]

    def _definitions(self, only: str, values: tuple[int, ...]) -> Rows:
        return self._sql(  # CROSS JOIN fixes the order of the tables, so that SQLite need not sort
            "SELECT concept.row, COALESCE(text, definition), definition.source FROM definition CROSS JOIN concept ON concept.row = definition.concept"
            f" WHERE TRUE {only} ORDER BY definition.concept, place",
            *values,
        )

    def codes(self, row: int) -> dict[str, list[str]]:
        """Return the codes of the concept in a row by vocabulary; "UMLS" has every CUI of the concept, the primary one first.

        A CUI that is a concept of its own is not listed under another one, even if a source maps a term to both.
        """
        return self.codes_of([row])[row]

    def codes_of(self, rows: Iterable[int]) -> dict[int, dict[str, list[str]]]:
        """Return concept row -> its codes, see `codes`. All are read with few statements."""
        found: dict[int, dict[str, list[str]]] = {row: {} for row in rows}
        new = [row for row in found if self.added is not None and self.added.is_new(row)]
        added = ((row, *each) for row in new for each in self.concept(row).codes)
        for row, vocabulary, code in chain(added, self._codes_of(row for row in found if row not in new)):
            found[row].setdefault(vocabulary, []).append(code)
        return found

    def _codes_of(self, rows: Iterable[int]) -> Iterator[tuple[int, str, str]]:
        """Yield (row, vocabulary, code) of the concepts in some rows of the files, see `codes`."""
        return self._sql_in(
            "SELECT concept, vocabulary, code FROM code WHERE concept IN ({}) AND NOT (vocabulary = 'UMLS' AND EXISTS"
            " (SELECT 1 FROM concept AS other WHERE other.id = code.code AND other.row != code.concept)) ORDER BY rowid",
            rows,
        )

    def concepts_of_codes(self, vocabulary: str) -> Iterator[tuple[str, int]]:
        """Yield (code, concept row) of every code of a vocabulary, sorted by code. For "UMLS" these are all CUIs that source terms map to."""
        yield from self._sql("SELECT code, concept FROM code WHERE vocabulary = ? ORDER BY code, concept", vocabulary)

    def canonical_names(self) -> Iterator[tuple[int, str, str]]:
        """Yield (row, concept id, canonical name as its source writes it) of every concept, in the order of rows."""
        yield from self._sql("SELECT row, id, name FROM concept ORDER BY row")

    def terms(self) -> dict[int, list[str]]:
        """Return concept row -> identifiers of the sources' terms that lead to it. A concept's own id is not among them."""
        found: dict[int, list[str]] = {}
        for row, term in self._sql("SELECT concept, id FROM other_id WHERE kind = 'term' ORDER BY concept, id"):
            found.setdefault(row, []).append(term)
        return found

    def relations(self, kinds: Sequence[str] | None = None) -> Iterator[tuple[int, str, str]]:
        """Yield (concept row, relation, id of the other concept), such as (row, "has_finding_site", id of the site).

        Args:
            kinds: relations to yield, None for all.
        """
        where = "" if kinds is None else f"WHERE relation IN ({','.join('?' * len(kinds))})"
        yield from self._sql(f"SELECT concept, relation, target FROM relation {where} ORDER BY concept, relation, target", *(kinds or ()))

    def parents(self) -> Iterator[tuple[int, int]]:
        """Yield (concept row, row of a parent) of every is-a edge, in the order of rows; -1 for a parent that is not in the knowledge base."""
        yield from self._sql(
            "SELECT p.concept, COALESCE((SELECT row FROM concept WHERE id = p.parent), (SELECT concept FROM other_id WHERE id = p.parent), -1)"
            " FROM parent AS p ORDER BY p.concept, p.parent"
        )

    def entity(self, row: int) -> Entity:
        """Return the concept in a row as scispaCy shows it."""
        concept = self.concept(row)
        aliases = list(dict.fromkeys(name.text for name in concept.names))
        return Entity(concept.concept_id, concept.names[0].text, aliases, list(concept.types), concept.definition)

    def concepts(self) -> Iterator[Concept]:
        """Yield all concepts in the order of their ids, without keeping them in memory."""
        for row in range(len(self)):
            yield self._read_concept(row)

    # -- filters: masks for a search ------------------------------------------------------------------------------------

    def allowed_type_sets(self, tuis: Iterable[str]) -> Bools1d:
        """Return a mask of the sets of semantic types (column `types`) that have one of `tuis`."""
        return self._mask("type_sets", set(tuis))

    def allowed_vocabulary_sets(self, vocabularies: Iterable[str]) -> Bools1d:
        """Return a mask of the sets of vocabularies (column `vocabularies`) that have one of these.

        Raises:
            SapbertError: E105, one of the vocabularies has no concept.
        """
        wanted = set(vocabularies)
        for name in sorted(wanted - set(self.vocabularies)):
            raise fail("E105", value=name, known=", ".join(self.vocabularies))
        return self._mask("vocabulary_sets", wanted)

    def check_languages(self, languages: Iterable[str]) -> None:
        """Check that there are names in each of some languages.

        Raises:
            SapbertError: E107, one of them has no names.
        """
        known = self.languages
        for language in sorted(set(languages) - set(known)):
            raise fail("E107", value=language, known=", ".join(f"{name} ({count:,})" for name, count in known.items()))

    def rows_of_languages(self, languages: Iterable[str]) -> Bools1d:
        """Return a mask (m,) of the rows of the name table that have a name in one of some languages.

        Raises:
            SapbertError: E107, one of them has no names.
        """
        wanted = set(languages)
        self.check_languages(wanted)
        if wanted == set(self.languages):
            return np.ones(len(self.name_table), dtype=np.bool_)
        marks = ",".join("?" * len(wanted))
        rows = self._sql(f"SELECT DISTINCT string * {len(self)} + concept FROM name WHERE language IN ({marks})", *sorted(wanted))
        keys = np.fromiter((key for (key,) in rows), dtype=np.int64)
        return np.isin(self.name_table.surface_form.astype(np.int64) * len(self) + self.name_table.concept, keys)

    def _mask(self, table: str, wanted: set[str]) -> Bools1d:
        sets = [set(members.split(" ")) for (members,) in self._sql(f"SELECT members FROM {table} ORDER BY no")]
        return np.array([bool(s & wanted) for s in sets], dtype=np.bool_)

    # -- scispaCy's interface -------------------------------------------------------------------------------------------

    @property
    def cui_to_entity(self) -> Mapping[str, Entity]:
        """Concept id -> entity, read on demand. Iteration gives concept ids only; retired and secondary ids and codes are found too."""
        return _Entities(self)

    @property
    def alias_to_cuis(self) -> Mapping[str, set[str]]:
        """Name as a source writes it -> concept ids, read on demand."""
        return _Aliases(self)

    @property
    def semantic_type_tree(self) -> semantic_types.SemanticTypeTree:
        """The tree of semantic types."""
        return semantic_types.tree()

    # -- SQLite ---------------------------------------------------------------------------------------------------------

    def _sql(self, statement: str, *values: Any) -> Rows:
        return self._database.sql(statement, *values)

    def _sql_in(self, statement: str, values: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of a statement for many values, which stand in place of its `{}`. Equal values count once."""
        every = list(dict.fromkeys(values))
        for start in range(0, len(every), _VARIABLES):
            part = every[start : start + _VARIABLES]
            yield from self._sql(statement.format(",".join("?" * len(part))), *part)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "added": self.added, "removed": self.removed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]
        self.added, self.removed = state["added"], state["removed"]


def _spellings(concept_id: str) -> Iterator[str]:
    """Yield an id as it is given, and then in this package's spelling, if that differs."""
    yield concept_id
    if (canonical := curies.canonical(concept_id)) != concept_id:
        yield canonical


class _Entities(Mapping[str, Entity]):
    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __getitem__(self, concept_id: str) -> Entity:
        return self._kb[concept_id]

    def __contains__(self, concept_id: object) -> bool:
        return isinstance(concept_id, str) and concept_id in self._kb

    def __len__(self) -> int:
        return len(self._kb)

    def __iter__(self) -> Iterator[str]:
        for (concept_id,) in self._kb._sql("SELECT id FROM concept ORDER BY row"):
            yield concept_id
        yield from self._kb.added.rows if self._kb.added is not None else ()


class _Aliases(Mapping[str, set[str]]):
    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __contains__(self, alias: object) -> bool:
        return isinstance(alias, str) and super().__contains__(alias)

    def __getitem__(self, alias: str) -> set[str]:
        # the lower case of Turkish names differs from that of mentions without a language
        rows = {row for language in ("", DOTLESS[0]) for row in self._kb.find([alias], language).values()}
        names = [found for row in sorted(rows) for found in self._kb.names_of_surface_form(row)]
        cuis = {self._kb.concept_id(concept) for concept, name in names if name.text == alias}
        if not cuis:
            raise KeyError(alias)
        return cuis

    def __len__(self) -> int:
        return int(self._kb._sql("SELECT COUNT(DISTINCT text) FROM name").one()[0])

    def __iter__(self) -> Iterator[str]:
        for (text,) in self._kb._sql("SELECT DISTINCT text FROM name"):
            yield text
