"""Names and concepts that a user adds to a linker, and names that a user removes. They are saved beside the linker's own files, which stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from ..arrays import check_finite, open_array
from ..errors import DamagedFile, fail
from ..files import checksum, why_invalid, write_text
from ..types import Bools1d, Floats2d
from . import semantic_types
from .concept import MAX_NAME_CHARS, Concept, Name, is_cui, normalise
from .name_table import ADDED, ADDED_WITHOUT_CUI, NameTable
from .removals import RemovedName, same_name

FILE, VECTORS = "additions.json", "additions.npy"
SOURCE = "ADDED"  # the vocabulary of added names
COLUMNS = ("concept_id", "name", "language", "source", "term_type", "types", "definition", "codes")  # of a table that `kb build` reads


class AddedName(NamedTuple):
    """A name that was added to a concept."""

    concept_id: str
    text: str
    language: str


class _StoredConcept(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    id: str
    types: list[str]
    definition: str | None
    codes: list[tuple[str, str]]


class _Stored(BaseModel):
    """The content of additions.json. Format 2 has removed names."""

    model_config = ConfigDict(strict=True, extra="forbid")

    kind: Literal["additions"]
    format: Literal[1, 2]
    encoder: str
    concepts: list[_StoredConcept]
    names: list[tuple[str, str, str]]
    removed: list[tuple[str | None, str, str]] = []
    strings: list[str]  # surface forms, in the order of the vectors
    vectors: str  # checksum of additions.npy


@dataclass(frozen=True)
class Additions:
    """What a user added to a linker, and which names the user removed. It is never changed: each addition or removal makes a new object.

    Args:
        concepts: new concepts by their id, without names.
        names: names of new and of old concepts, in the order in which they were added.
        vectors: surface form -> its vector (d,).
        encoder: fingerprint of the encoder that made the vectors.
        removed: removed names of concepts of the knowledge base, and the stop list.
    """

    concepts: dict[str, Concept] = field(default_factory=dict)
    names: list[AddedName] = field(default_factory=list)
    vectors: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    encoder: str = ""
    removed: list[RemovedName] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.names or self.removed)

    def content(self) -> list[Any]:
        """Return what answers depend on, for a hash: names, then new concepts, then removed names if there are any; nothing without additions."""
        concepts = [[concept.concept_id, concept.types, concept.codes] for concept in self.concepts.values()]
        return [[self.names, concepts], *([self.removed] if self.removed else [])] if self else []

    def with_names(self, concept_id: str, names: Iterable[Any], language: str) -> Additions:
        """Return additions with more names of a concept. They have no vectors yet. Names that were added before are left out.

        If such a name had been removed from the concept, it is not removed any more. The stop list stays; an added name comes before it.

        Args:
            concept_id: id of a concept of the knowledge base, or of an added one.
            names: the names as the user gives them.
            language: language of the names.

        Raises:
            SapbertError: E024, a name is empty, too long or has no letter or digit.
        """
        known = {(name.concept_id, name.text) for name in self.names}
        new = dict.fromkeys(AddedName(concept_id, text, language) for text in check_names(names, language, MAX_NAME_CHARS))
        given = {same_name(name.text, language) for name in new}
        removed = [each for each in self.removed if each.concept_id != concept_id or same_name(each.text, each.language) not in given]
        return replace(self, names=[*self.names, *(name for name in new if (concept_id, name.text) not in known)], removed=removed)

    def without_names(self, concept_id: str | None, names: Iterable[Any], language: str) -> Additions:
        """Return additions in which names are removed from a concept, or from all concepts. A name also stands for its English plural and singular.

        Added names with the same text are dropped. An added concept that loses its last name is dropped, too.

        Args:
            concept_id: id of a concept of the knowledge base, or of an added one; None removes the names from all concepts (the stop list).
            names: the names as the user gives them. The concept need not have them: then the linker does not link this text to it by a similar name.
            language: language of the names.

        Raises:
            SapbertError: E024, a name is empty, too long or has no letter or digit.
        """
        new = dict.fromkeys(RemovedName(concept_id, text, language) for text in check_names(names, language, MAX_NAME_CHARS))
        gone = {same_name(name.text, language) for name in new}
        kept = [name for name in self.names if (concept_id not in (None, name.concept_id)) or same_name(name.text, name.language) not in gone]
        named = {name.concept_id for name in kept}
        concepts = {each: concept for each, concept in self.concepts.items() if each in named}
        known = {(each.concept_id, same_name(each.text, each.language)) for each in self.removed}
        added = [name for name in new if (concept_id, same_name(name.text, language)) not in known]
        lost = self.concepts.keys() - concepts.keys()
        removed = [each for each in [*self.removed, *added] if each.concept_id not in lost]
        return replace(self, concepts=concepts, names=kept, removed=removed)

    def without_stop_names(self, names: Iterable[str], language: str) -> Additions:
        """Return additions whose stop list does not have some names. Names that were removed from one concept stay removed."""
        given = {same_name(name, language) for name in names}
        return replace(
            self, removed=[each for each in self.removed if each.concept_id is not None or same_name(each.text, each.language) not in given]
        )

    def with_concept(
        self,
        concept_id: str,
        names: Sequence[Any],
        language: str,
        *,
        types: Iterable[str] = (),
        definition: str | None = None,
        codes: Iterable[tuple[str, str]] = (),
        component: str,
    ) -> Additions:
        """Return additions with a new concept and its names.

        Args:
            concept_id: its identifier; the knowledge base must not have it.
            names: its names, the canonical one first.
            language: language of the names.
            types: semantic types (TUIs), groups or names.
            definition: its definition, as a text.
            codes: (vocabulary, code).
            component: name of the component, for messages.

        Raises:
            SapbertError: E002, there is no identifier or name, or the definition is not a text; E024, a name is empty, too long or has no letter or
                digit; E104, a type is not known.
        """
        if not names:
            raise fail("E002", setting="names", component=component, value=list(names), why="a concept needs a name.")
        if not isinstance(concept_id, str) or not concept_id.strip():
            raise fail("E002", setting="concept_id", component=component, value=concept_id, why="it must be a text.")
        if not (definition is None or isinstance(definition, str)):
            raise fail("E002", setting="definition", component=component, value=definition, why="it must be a text, or None.")
        tuis = sorted(semantic_types.expand(types)) if types else []
        concept = Concept(concept_id, SOURCE, types=tuis, definition=definition, codes=[(str(v), str(c)) for v, c in codes])
        return replace(self, concepts={**self.concepts, concept_id: concept}).with_names(concept_id, names, language)

    def to_disk(self, folder: Path) -> None:
        """Write both files into a linker folder, or remove them if nothing was added or removed. No file is ever left half-written."""
        if not self:
            for name in (FILE, VECTORS):
                (folder / name).unlink(missing_ok=True)
            return
        fresh = folder / f"{VECTORS}.new"
        try:
            with open(fresh, "wb") as file:
                np.save(file, np.stack(list(self.vectors.values())).astype(np.float32) if self.vectors else np.zeros((0, 0), dtype=np.float32))
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        written = checksum(fresh)
        os.replace(fresh, folder / VECTORS)
        stored = _Stored(
            kind="additions",
            format=2 if self.removed else 1,
            encoder=self.encoder,
            concepts=[_StoredConcept(id=c.concept_id, types=c.types, definition=c.definition, codes=c.codes) for c in self.concepts.values()],
            names=[(name.concept_id, name.text, name.language) for name in self.names],
            removed=[(name.concept_id, name.text, name.language) for name in self.removed],
            strings=list(self.vectors),
            vectors=written,
        )
        text = stored.model_dump_json(indent=1, exclude=None if self.removed else {"removed"})  # format 1 has no such field
        write_text(folder / FILE, text + "\n")

    @classmethod
    def from_disk(cls, folder: Path) -> Additions:
        """Read the additions of a linker folder. Without a file there are none.

        If a write was stopped between the two files, the vectors do not belong to the names. They are then left out and made again later.

        Raises:
            DamagedFile: E023, a file is damaged.
        """
        path = folder / FILE
        if not path.is_file():
            return cls()
        try:
            stored = _Stored.model_validate_json(path.read_bytes())
            vectors: dict[str, npt.NDArray[np.float32]] = {}
            if stored.strings and (folder / VECTORS).is_file() and checksum(folder / VECTORS) == stored.vectors:
                found = open_array(folder / VECTORS, "f", (len(stored.strings), None), mapped=False)
                check_finite(found, VECTORS)
                vectors = dict(zip(stored.strings, found.astype(np.float32, copy=False)))
        except ValidationError as error:
            raise fail("E023", DamagedFile, path=path, why=why_invalid(error)) from error
        except (OSError, ValueError) as error:
            raise fail("E023", DamagedFile, path=path, why=error) from error
        concepts = {c.id: Concept(c.id, SOURCE, types=c.types, definition=c.definition, codes=c.codes) for c in stored.concepts}
        removed = [RemovedName(*name) for name in stored.removed]
        return cls(concepts, [AddedName(*name) for name in stored.names], vectors, stored.encoder, removed)


class Overlay:
    """Additions as rows of a knowledge base. Its own rows keep their numbers; rows of new names and concepts come after them.

    Args:
        additions: names, concepts and vectors.
        row_of: concept id -> row in the files.
        find: (name, language) -> row of the surface form in the files.
        defined: row of a concept in the files -> whether it has a definition.
        id_of: row of a concept in the files -> its id.
        sizes: numbers of surface forms and concepts in the files.

    Raises:
        SapbertError: E022, a name belongs neither to a concept of the files nor to a new one.
    """

    def __init__(
        self,
        additions: Additions,
        row_of: Callable[[str], int],
        find: Callable[[str, str], int | None],
        defined: Callable[[int], bool],
        id_of: Callable[[int], str],
        sizes: tuple[int, int],
    ) -> None:
        n_forms, n_concepts = sizes
        self.first_surface_form, self.first_concept = n_forms, n_concepts
        self.rows = {concept_id: n_concepts + i for i, concept_id in enumerate(additions.concepts)}
        self._concepts = list(additions.concepts.values())
        self.by_norm: dict[str, int] = {}
        self.names: dict[tuple[int, int], Name] = {}  # (name row, concept row)
        forms: list[str] = []
        for concept_id, text, language in additions.names:
            norm = normalise(text, language)
            row = self.by_norm.get(norm)
            if row is None:
                known = find(text, language)
                row = n_forms + len(forms) if known is None else known
                if known is None:
                    forms.append(norm)
                self.by_norm[norm] = row
            concept = self.rows[concept_id] if concept_id in self.rows else _row(concept_id, row_of)
            self.names.setdefault((row, concept), Name(text, SOURCE, language, "SY", 1))
        found = [additions.vectors[norm] for norm in forms]
        self.vectors: Floats2d = np.stack(found).astype(np.float32) if found else np.zeros((0, 0), dtype=np.float32)

        def has_definition(concept: int) -> bool:
            return self.concept(concept).definition is not None if self.is_new(concept) else defined(concept)

        def rank(concept: int) -> int:
            return ADDED if is_cui(self.id_of(concept) if self.is_new(concept) else id_of(concept)) else ADDED_WITHOUT_CUI

        rows = sorted(self.names)
        self.name_table = NameTable.from_rows((row, concept, rank(concept), 0, 0, int(has_definition(concept))) for row, concept in rows)

    def is_new(self, concept: int) -> bool:
        """Return whether a concept row is that of a new concept."""
        return concept >= self.first_concept

    def coded(self) -> Iterator[tuple[int, Concept]]:
        """Yield (row, concept) of every new concept that has codes."""
        return ((self.first_concept + i, concept) for i, concept in enumerate(self._concepts) if concept.codes)

    def id_of(self, row: int) -> str:
        """Return the id of a new concept."""
        return self._concepts[row - self.first_concept].concept_id

    def concept(self, row: int) -> Concept:
        """Return a new concept with its names."""
        found = self._concepts[row - self.first_concept]
        codes = [("UMLS", found.concept_id)] if is_cui(found.concept_id) else []
        names = self.names_of(row)
        cuis = [found.concept_id] if is_cui(found.concept_id) else []
        return Concept(found.concept_id, SOURCE, names=names, cuis=cuis, types=found.types, definition=found.definition, codes=[*codes, *found.codes])

    def names_of(self, concept: int) -> list[Name]:
        """Return the added names of a concept, in the order in which they were added."""
        return [name for (_, other), name in self.names.items() if other == concept]

    def of_surface_form(self, row: int) -> Iterator[tuple[int, Name]]:
        """Yield (concept row, name) of an added surface form."""
        return ((concept, name) for (form, concept), name in self.names.items() if form == row)

    def allowed(self, holds: Callable[[int, Name], bool]) -> Bools1d:
        """Return which rows of the name table may be found (a,).

        Args:
            holds: (concept row, name) -> whether the concept may be found by this name.
        """
        rows = zip(self.name_table.surface_form.tolist(), self.name_table.concept.tolist())
        return np.array([holds(concept, self.names[form, concept]) for form, concept in rows], dtype=np.bool_)


def _row(concept_id: str, row_of: Callable[[str], int]) -> int:
    try:
        return row_of(concept_id)
    except KeyError as error:
        raise fail("E022", id=concept_id, why=str(error.args[0]).removeprefix(f"{concept_id}: ")) from error


def to_tsv(additions: Additions, names_of: Callable[[str], list[Name]], path: Path) -> int:
    """Write additions as a table that `kb build` reads, one line for each name.

    Args:
        additions: names and concepts.
        names_of: concept id -> all its names. Names of the knowledge base are included, so that a training gets pairs of an added name and an
            old one.
        path: the file.

    Returns:
        The number of concepts in it.
    """
    lines = ["\t".join(COLUMNS)]
    by_concept = dict.fromkeys(name.concept_id for name in additions.names)
    for concept_id in by_concept:
        concept = additions.concepts.get(concept_id)
        types = "|".join(concept.types) if concept is not None else ""
        definition = _cell(concept.definition or "") if concept is not None else ""
        codes = "|".join(f"{vocabulary}:{code}" for vocabulary, code in concept.codes) if concept is not None else ""
        for name in names_of(concept_id):
            lines.append("\t".join([concept_id, _cell(name.text), name.language, name.source, name.term_type, types, definition, codes]))
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(by_concept)


def _cell(text: str) -> str:
    return " ".join(text.split())


def check_names(names: Iterable[Any], language: str, most: int) -> list[str]:
    """Check names and return them in the form in which they are stored.

    Args:
        names: the names as the user gives them.
        language: language of the names.
        most: largest number of characters of a name.

    Raises:
        SapbertError: E024, a name is empty, has no letter or digit, or is too long.
    """
    checked: list[str] = []
    for name in names:
        name = name.encode("utf-8", "ignore").decode("utf-8") if isinstance(name, str) else name  # without half surrogate pairs
        norm: Any = normalise(name, language) if isinstance(name, str) else None
        if norm is None or not any(c.isalnum() for c in norm) or len(norm) > most:
            raise fail("E024", name=name if not isinstance(name, str) else name[:60], most=most)
        checked.append(" ".join(name.split()))
    return checked
