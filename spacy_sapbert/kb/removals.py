"""Names that a user removed from concepts, found in a knowledge base: which rows of its name table they are, and what each mention may not mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..types import Ints1d
from .concept import Name, normalise, other_numbers, stem
from .name_table import NameTable


class RemovedName(NamedTuple):
    """A name that was removed.

    Attributes:
        concept_id: the concept that it was removed from; None: all concepts (the stop list).
        text: the name.
        language: its language.
    """

    concept_id: str | None
    text: str
    language: str


class Blocked(NamedTuple):
    """The concepts that a mention may not mean.

    Attributes:
        concepts: rows of concepts.
        others: False: it may not mean these concepts. True: it may not mean any other concept than these.
    """

    concepts: frozenset[int]
    others: bool


def same_name(text: str, language: str = "") -> str:
    """Return a name in the form in which removed names are compared: normalised, its words without English plural and possessive endings."""
    return " ".join(map(stem, normalise(text, language).split()))


def forms_of_name(text: str, language: str = "") -> list[str]:
    """Return the forms in which a knowledge base may have a removed name: normalised, without English endings, and in the other number."""
    norm = normalise(text, language)
    return list(dict.fromkeys([norm, same_name(text, language), *other_numbers(norm)]))


class Removals:
    """Removed names as rows of a knowledge base.

    A removed name has two effects. The name table's rows of the name are not used, so that no mention is linked by it. And a mention with the text
    of the name is not linked to the concept by a similar name, or by its context, either. A name that was added to a concept is allowed for this
    concept.

    Args:
        removed: the removed names. Concepts that the knowledge base does not have are ignored.
        table: the name table of the knowledge base's files.
        row_of: concept id -> row; None if there is no such concept.
        find: normalised names -> rows of their surface forms in the files.
        forms_of: row of a concept -> (row of the surface form, name) of each of its names in the files.
        added: (row of the surface form, row of the concept) -> added name.

    Attributes:
        rows: rows of the name table that are not used, ascending (r,).
        pairs: the same as (row of the surface form, row of the concept).
        gone: rows of the surface forms that no concept has any more.
    """

    def __init__(
        self,
        removed: Iterable[RemovedName],
        table: NameTable,
        row_of: Callable[[str], int | None],
        find: Callable[[Iterable[str]], dict[str, int]],
        forms_of: Callable[[int], Iterable[tuple[int, Name]]],
        added: Mapping[tuple[int, int], Name],
    ) -> None:
        self._of: dict[str, set[int]] = {}  # name -> concepts that it may not mean
        self._of_all: set[str] = set()  # names on the stop list
        self._added: dict[str, set[int]] = {}  # name -> concepts to which it was added
        chosen: set[int] = set()
        for concept_id, text, language in removed:
            name = same_name(text, language)
            if concept_id is None:
                self._of_all.add(name)
                chosen.update(table.find(list(find(forms_of_name(text, language)).values()))[1].tolist())
            elif (concept := row_of(concept_id)) is not None:
                self._of.setdefault(name, set()).add(concept)
                forms = [form for form, other in forms_of(concept) if same_name(other.text, other.language) == name]
                rows = table.find(sorted(set(forms)))[1]
                chosen.update(rows[table.concept[rows] == concept].tolist())
        for (_, concept), other in added.items():
            self._added.setdefault(same_name(other.text, other.language), set()).add(concept)
        self.rows: Ints1d = np.array(sorted(chosen), dtype=np.int64)
        forms_of_rows = table.surface_form[self.rows]
        self.pairs = frozenset(zip(forms_of_rows.tolist(), table.concept[self.rows].tolist()))
        touched = np.unique(forms_of_rows)
        which, every = table.find(touched)
        left = {form for form, row in zip(touched[which].tolist(), every.tolist()) if row not in chosen}
        self.gone = frozenset(touched.tolist()) - left - {form for form, _ in added}

    def blocked(self, mention: str) -> Blocked | None:
        """Return the concepts that a mention (normalised, without a language) may not mean; None if no name with its text was removed."""
        name = same_name(mention)
        added = self._added.get(name, set())
        if name in self._of_all:
            return Blocked(frozenset(added), True)
        concepts = self._of.get(name, set()) - added
        return Blocked(frozenset(concepts), False) if concepts else None

    def is_blocked(self, mention: str, concept: int) -> bool:
        """Return whether a mention may not mean a concept (a row)."""
        blocked = self.blocked(mention)
        return blocked is not None and (concept in blocked.concepts) != blocked.others

    def is_removed(self, surface_form: int, concept: int) -> bool:
        """Return whether a name of the files, given by its surface form and its concept (rows), was removed."""
        return (surface_form, concept) in self.pairs
