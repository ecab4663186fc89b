"""Names and concepts that a user adds to a linker: kept beside its files, which stay as they are, and laid over them when they are read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ..errors import DamagedFile, fail
from ..files import checksum, write_text
from ..types import Bools1d, Floats2d
from .concept import Concept, Name, is_cui, normalise
from .name_table import NameTable

KIND, VERSION = "additions", 1
FILE, VECTORS = "additions.json", "additions.npy"
SOURCE = "ADDED"  # the vocabulary of added names
COLUMNS = ("concept_id", "name", "language", "source", "term_type", "types", "definition", "codes")  # of a table that `kb build` reads
FIRST = -1  # rank in a tie: before canonical names. Who adds a name means that concept by it


class AddedName(NamedTuple):
    concept_id: str
    text: str
    language: str


@dataclass
class Additions:
    """concepts: new ones by their id, without names. names: of new and of old concepts, in the order in which they were added.
    vectors: normalised name -> (d,). encoder: their encoder's fingerprint."""

    concepts: Dict[str, Concept] = field(default_factory=dict)
    names: List[AddedName] = field(default_factory=list)
    vectors: Dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    encoder: str = ""

    def __bool__(self) -> bool:
        return bool(self.names)

    def to_disk(self, folder: Path) -> None:
        """Write both files whole, or take them away where nothing was added."""
        if not self:
            for name in (FILE, VECTORS):
                (folder / name).unlink(missing_ok=True)
            return
        fresh = folder / f"{VECTORS}.new"
        with open(fresh, "wb") as file:
            np.save(file, np.array(list(self.vectors.values()), dtype=np.float32).reshape(len(self.vectors), -1))
        written = checksum(fresh)
        os.replace(fresh, folder / VECTORS)
        concepts = [{"id": c.concept_id, "types": c.types, "definition": c.definition, "codes": c.codes} for c in self.concepts.values()]
        content = {"kind": KIND, "format": VERSION, "encoder": self.encoder, "concepts": concepts, "names": self.names}
        write_text(folder / FILE, json.dumps({**content, "strings": list(self.vectors), "vectors": written}, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def from_disk(cls, folder: Path) -> Additions:
        """Those of a linker's folder, none where it has no such file. RAISES: SapbertError E023."""
        path = folder / FILE
        if not path.is_file():
            return cls()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["kind"] != KIND or content["format"] != VERSION:
                raise ValueError(f"it is of kind {content['kind']}, format {content['format']}")
            found = cls(names=[AddedName(*map(str, name)) for name in content["names"]], encoder=str(content["encoder"]))
            for c in content["concepts"]:
                codes = [(str(vocabulary), str(code)) for vocabulary, code in c["codes"]]
                found.concepts[c["id"]] = Concept(c["id"], SOURCE, types=list(c["types"]), definition=c["definition"], codes=codes)
            # a write that was stopped between the two files: the names are whole, and their vectors are made again
            if content["strings"] and (folder / VECTORS).is_file() and checksum(folder / VECTORS) == content["vectors"]:
                vectors = np.load(folder / VECTORS, allow_pickle=False)
                found.vectors = dict(zip(content["strings"], vectors, strict=True))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise fail("E023", DamagedFile, path=path, why=error) from error
        return found


class Overlay:
    """Additions as rows of a knowledge base: what it has keeps its rows, new names and concepts come after them."""

    def __init__(
        self,
        additions: Additions,
        row_of: Callable[[str], int],
        find: Callable[[str, str], Optional[int]],
        defined: Callable[[int], bool],
        sizes: Tuple[int, int],
    ) -> None:
        """row_of: concept id -> row in the files. find: (name, language) -> row of the name in the files. defined: whether a concept of the files has
        a definition. sizes: distinct names, concepts.

        RAISES: SapbertError E022 for an id that is neither a concept of the files nor a new one.
        """
        n_forms, n_concepts = sizes
        self.first_surface_form, self.first_concept = n_forms, n_concepts
        self.rows = {concept_id: n_concepts + i for i, concept_id in enumerate(additions.concepts)}
        self._concepts = list(additions.concepts.values())
        self.by_norm: Dict[str, int] = {}
        self.names: Dict[Tuple[int, int], Name] = {}  # (name row, concept row)
        forms: List[str] = []
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

        rows = sorted(self.names)
        self.name_table = NameTable.from_rows((row, concept, FIRST, 0, 0, int(has_definition(concept))) for row, concept in rows)

    def is_new(self, concept: int) -> bool:
        return concept >= self.first_concept

    def id_of(self, row: int) -> str:
        """Of a new concept."""
        return self._concepts[row - self.first_concept].concept_id

    def concept(self, row: int) -> Concept:
        """A new concept with its names."""
        found = self._concepts[row - self.first_concept]
        codes = [("UMLS", found.concept_id)] if is_cui(found.concept_id) else []
        names = self.names_of(row)
        cuis = [found.concept_id] if is_cui(found.concept_id) else []
        return Concept(found.concept_id, SOURCE, names=names, cuis=cuis, types=found.types, definition=found.definition, codes=[*codes, *found.codes])

    def names_of(self, concept: int) -> List[Name]:
        """Added names of a concept, in the order in which they were added."""
        return [name for (_, other), name in self.names.items() if other == concept]

    def of_surface_form(self, row: int) -> Iterator[Tuple[int, Name]]:
        """(concept row, Name) of an added name."""
        return ((concept, name) for (form, concept), name in self.names.items() if form == row)

    def allowed(self, holds: Callable[[int, Name], bool]) -> Bools1d:
        """Of the rows of `name_table` those whose concept, by this name, may be found -> mask."""
        rows = zip(self.name_table.surface_form.tolist(), self.name_table.concept.tolist())
        return np.array([holds(concept, self.names[form, concept]) for form, concept in rows], dtype=np.bool_)


def _row(concept_id: str, row_of: Callable[[str], int]) -> int:
    try:
        return row_of(concept_id)
    except KeyError as error:
        raise fail("E022", id=concept_id) from error


def to_tsv(additions: Additions, names_of: Callable[[str], List[Name]], path: Path) -> int:
    """Write what was added as a source for `kb build`, a line for each name; RETURNS (int): its concepts.

    names_of: concept id -> all its names, those of the knowledge base among them, so that the table also gives training its pairs of an added
        name and an old one.
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


def check_names(names: List[str], language: str, most: int) -> List[str]:
    """Names as they are kept. RAISES: SapbertError E024 for one that is empty, has no letter or digit, or is too long."""
    checked: List[str] = []
    for name in names:
        name = name.encode("utf-8", "ignore").decode("utf-8") if isinstance(name, str) else name  # without halves of surrogate pairs
        norm: Any = normalise(name, language) if isinstance(name, str) else None
        if norm is None or not any(c.isalnum() for c in norm) or len(norm) > most:
            raise fail("E024", name=name if not isinstance(name, str) else name[:60], most=most)
        checked.append(" ".join(name.split()))
    return checked
