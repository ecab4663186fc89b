"""Join terms into concepts carefully: at most one term of each source in a concept, and terms without a CUI by their names.

The builder's own rules follow every mapping. The rules here also compare names:
1. A mapping between two terms is ignored if their names share no word, and if a third term has the preferred name of one of them, but none of
   the CUIs of the other ("seizures" of MeSH is HPO's seizure, not MONDO's "visual epilepsy"). Mappings between terms and CUIs never bring two
   terms of one source into one concept. The term whose name fits best gets the CUI. The others take the next of their CUIs, or keep their own
   identifier.
2. If a term has several CUIs, the best one is a CUI with the term's preferred name; then one that shares an exact synonym; then one that no
   other source names; then one that others name differently. A term with a CUI of the last kind is moved, if exactly one other concept has the
   term's preferred name as its own.
3. A term without a CUI joins the one concept that has the term's preferred name as its own preferred name, or else as an exact synonym. Both
   must be of the same kind (semantic group), the concept must not have a term of the same source, and no code of a third vocabulary may tell
   them apart. A drug also joins by one of its exact synonyms, if that is the concept's preferred name. Terms that share the preferred name are
   joined before those that share a synonym. If several concepts have the name, those that a code tells apart do not count, and those that
   rule 4 will make one count as one.
4. Two CUIs with one meaning are one concept: UMLS has both "insomnia" C0917801 and "insomnia" C0029645. They join in three cases. Both have the
   same preferred name. Or a source maps one term to both, and they share an exact name (two names, if the second CUI has a term of its own).
   Or the second CUI has neither a preferred name nor a term, and one of its names is the preferred name of exactly one concept. The conditions
   of rule 3 also hold here, except that SNOMED CT's codes tell no CUIs apart, because it has disorders and findings with the same name. The
   concept takes a CUI below C1000000 first (lists and corpora that name one of two use the lower one in 51 of 89 pairs); of several, the one
   that most sources name or map to, then the oldest.
5. A list says which terms without a CUI have the meaning of a CUI. A concept that still has no CUI after rules 1 to 4 joins the concept of the CUI
   that the list gives one of its terms, if a source has this CUI, and that concept has no term of the same source. Kinds and codes are not
   compared: the list was checked by its readers. It changes no other concept.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from . import curies, semantic_types
from .concept import is_cui, stem

UNSAFE = frozenset({"AB", "ET", "NRW", "REL", "BRD", "OB"})  # term types of names that are ambiguous, or mean something else
TELLING = frozenset({"SNOMEDCT_US", "MSH", "OMIM", "NCI", "ORDO", "FMA"})  # vocabularies whose codes tell concepts apart
TELLING_CUIS = TELLING - {"SNOMEDCT_US"}
CHEMICAL = "CHEM"
LATER_CUIS = "C1000000"  # the first CUI of the concepts that UMLS has had since about 2005
SHORTEST = 4  # characters of a name that joins terms; shorter names are mostly abbreviations, except parts of the body: arm, eye, hip
BODY = "ANAT"
SAME_LABEL, SHARED_NAME, ALONE, CONTRADICTED = 3, 2, 1, 0  # how well a CUI fits a term
TREE_NUMBER = re.compile(r"[A-Z]\d{2}(?:\.|$)")  # "A10", "A01.378"; other codes of MeSH are "D014024", "C535349"
NOT_CUI = "NOT GLOB 'C[0-9][0-9][0-9][0-9][0-9][0-9][0-9]'"


class Joined(NamedTuple):
    """One decision.

    Attributes:
        what: "joined" (by name, or by the list of rule 5), "moved" (from a CUI that others name differently), "kept apart" (a mapping or the list
            was not followed), "twin" (a CUI with the same meaning as the concept's).
        term: the first term of the group that was decided about.
        concept: the concept that it was decided for or against.
        name: the name that decided; "" for none.
        reason: the reason, in words.
    """

    what: str
    term: str
    concept: str
    name: str
    reason: str


@dataclass
class Joins:
    """The careful rules, and what they decided in the last build.

    Attributes:
        hidden: terms whose CUIs are ignored, to measure the rules.
        listed: term -> CUI with the same meaning, see rule 5.
        decisions: all decisions, in order.
    """

    hidden: Collection[str] = frozenset()
    listed: Mapping[str, str] = field(default_factory=dict)
    decisions: list[Joined] = field(default_factory=list)

    def say(self, what: str, term: str, concept: str, name: str, reason: str) -> None:
        """Record a decision, see `Joined`."""
        self.decisions.append(Joined(what, term, concept, name, reason))


@dataclass
class _Group:
    """Terms that are joined by mappings.

    Attributes:
        terms: the terms, in the order in which they were first seen.
        sources: prefixes of the terms that have names.
        labels: preferred names.
        exact: exact synonyms and preferred names.
        cuis: CUIs that the terms map to, in order of preference.
    """

    terms: list[str]
    sources: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    exact: set[str] = field(default_factory=set)
    cuis: list[str] = field(default_factory=list)


class _Place(NamedTuple):
    """A concept that is being built: the sources, codes and kinds of its groups."""

    sources: set[str]
    codes: dict[str, set[str]]
    kinds: set[str]


class _Twins(NamedTuple):
    """CUIs with one meaning.

    Attributes:
        cuis: these CUIs.
        place: sources, codes and kinds of all of them.
        naming: vocabularies that give one of them a preferred name.
    """

    cuis: set[str]
    place: _Place
    naming: set[str]

    def may_join(self, other: _Twins) -> bool:
        """Return whether no source, name, kind or code forbids joining these CUIs."""
        mine, theirs = self.place, other.place
        if mine.sources & theirs.sources or self.naming & other.naming or (mine.kinds and theirs.kinds and not mine.kinds & theirs.kinds):
            return False
        return not any(mine.codes.get(v) and theirs.codes.get(v) and not mine.codes[v] & theirs.codes[v] for v in TELLING_CUIS)

    def add(self, other: _Twins) -> None:
        """Add the CUIs of another one."""
        self.cuis.update(other.cuis)
        self.naming.update(other.naming)
        self.place.sources.update(other.place.sources)
        self.place.kinds.update(other.place.kinds)
        for vocabulary, codes in other.place.codes.items():
            self.place.codes[vocabulary].update(codes)


def assign(
    database: sqlite3.Connection, named: Sequence[str], cuis: dict[str, list[tuple[int, str]]], joins: Joins
) -> tuple[list[tuple[list[str], str]], dict[str, str]]:
    """Return the groups of terms with the concept id of each, and a dict from each CUI that joined another CUI's concept to that CUI.

    Args:
        database: the temporary database of `builder`.
        named: terms that have names, in the order in which they were first seen.
        cuis: term -> (order, CUI) of its mappings.
        joins: the rules; decisions are recorded there.
    """
    return _Assignment(database, named, {term: pairs for term, pairs in cuis.items() if term not in joins.hidden}, joins).run()


class _Assignment:
    def __init__(self, database: sqlite3.Connection, named: Sequence[str], cuis: dict[str, list[tuple[int, str]]], joins: Joins) -> None:
        self.joins = joins
        self.order = {term: place for place, term in enumerate(named)}
        self.labels: dict[str, set[str]] = defaultdict(set)
        self.exact: dict[str, set[str]] = defaultdict(set)
        self.naming: dict[str, set[str]] = defaultdict(set)  # CUI -> vocabularies that give it a preferred name of its own
        self._read_names(database)
        self.codes: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for term, vocabulary, code in database.execute("SELECT DISTINCT id, vocabulary, code FROM s_code"):
            if vocabulary in TELLING and not (vocabulary == "MSH" and TREE_NUMBER.match(code)):  # UBERON gives tree numbers of MeSH
                self.codes[term].append((vocabulary, code))
        self._kinds = _Kinds(database)
        self.mapped_cuis = {term: {cui for _, cui in pairs} for term, pairs in cuis.items()}
        self.groups = self._grouped(database, [*named, *(term for term in cuis if term not in self.order)])
        for group in self.groups:
            group.cuis = list(dict.fromkeys(cui for _, cui in sorted(pair for term in group.terms for pair in cuis.get(term, []))))
        self.single: dict[str, list[_Group]] = defaultdict(list)  # CUI -> groups that map to it alone
        self.claims: dict[str, int] = defaultdict(int)
        for group in self.groups:
            if len(group.cuis) == 1:
                self.single[group.cuis[0]].append(group)
            for cui in group.cuis:
                self.claims[cui] += 1

    def _read_names(self, database: sqlite3.Connection) -> None:
        least: dict[str, int] = {}
        for term, norm, rank, kind, source in database.execute("SELECT id, norm, rank, term_type, source FROM s_name ORDER BY id, rank"):
            if kind in UNSAFE:
                continue
            if rank == least.setdefault(term, rank) and (rank == 0 or not is_cui(term)):  # a CUI's own preferred name has rank 0 in a source
                self.labels[term].add(norm)
                if is_cui(term):
                    self.naming[term].add(source)
            self.exact[term].add(norm)

    # -- 1. groups of terms that mappings call the same ---------------------------------------------------------------------

    def _grouped(self, database: sqlite3.Connection, terms: Iterable[str]) -> list[_Group]:
        above = {term: term for term in terms}
        sources = {term: {_source(term)} if term in self.order else set() for term in above}

        def root(term: str) -> str:
            while above[term] != term:
                above[term] = above[above[term]]
                term = above[term]
            return term

        edges = [
            (self._likeness(term, other), place, term, other)
            for place, term, other in database.execute("SELECT rowid, id, other FROM s_same ORDER BY rowid")
            if not is_cui(term) and not is_cui(other)
        ]
        elsewhere = self._named_elsewhere(edges)
        for likeness, _, term, other in sorted(edges, key=lambda edge: (-edge[0], edge[1])):
            if not likeness and (name := elsewhere(term, other) or elsewhere(other, term)):
                self.joins.say("kept apart", other, term, name, "their names share no word, and another term bears the name")
                continue
            for each in (term, other):
                if each not in above:
                    above[each], sources[each] = each, set()
            one, two = root(term), root(other)
            if one == two:
                continue
            if both := sources[one] & sources[two]:
                self.joins.say("kept apart", other, term, "", f"a mapping would bring two terms of {', '.join(sorted(both))} together")
                continue
            above[two] = one
            sources[one] |= sources[two]
        members: dict[str, list[str]] = defaultdict(list)
        for term in above:
            members[root(term)].append(term)
        found = []
        for group in members.values():
            group.sort(key=lambda term: self.order.get(term, len(self.order)))
            found.append(
                _Group(
                    group,
                    {_source(term) for term in group if term in self.order},
                    set().union(*(self.labels.get(term, set()) for term in group)),
                    set().union(*(self.exact.get(term, set()) for term in group)),
                )
            )
        return sorted(found, key=lambda group: self.order.get(group.terms[0], len(self.order)))

    def _named_elsewhere(self, edges: Iterable[tuple[int, int, str, str]]) -> Callable[[str, str], str]:
        """Return a function that gives the name because of which a mapping between two terms is ignored, see rule 1.

        The function returns a preferred name of the term that a third term also has, if the third term has none of the other's CUIs and is not
        mapped to the other. It returns "" if there is no such name, or if the names of the two share a word.
        """
        mapped: dict[str, set[str]] = defaultdict(set)
        for _, _, term, other in edges:
            mapped[term].add(other)
            mapped[other].add(term)
        bearers: dict[str, set[str]] = defaultdict(set)
        for term, names in self.labels.items():
            for name in names:
                bearers[name].add(term)

        def words(term: str) -> set[str]:
            return {stem(word) for name in self.exact.get(term, ()) for word in name.replace(",", " ").split()}

        def named(term: str, other: str) -> str:
            own = self.mapped_cuis.get(other, set())
            if not own or term not in self.order or words(term) & words(other):
                return ""
            for name in sorted(self.labels.get(term, ())):
                third = {each for each in bearers[name] if each != other and self.mapped_cuis.get(each, set()).isdisjoint(own)} - {term}
                if len(name) >= SHORTEST and any(each in self.mapped_cuis for each in third) and not third & mapped[other]:
                    return name
            return ""

        return named

    def _likeness(self, term: str, other: str) -> int:
        if self.labels.get(term, set()) & self.labels.get(other, set()):
            return 2
        return 1 if self.exact.get(term, set()) & self.exact.get(other, set()) else 0

    # -- 2. CUIs ------------------------------------------------------------------------------------------------------------

    def _fit(self, group: _Group, cui: str) -> int:
        others = [other for other in self.single.get(cui, []) if other is not group]
        labels = self.labels.get(cui, set()).union(*(other.labels for other in others))
        exact = self.exact.get(cui, set()).union(*(other.exact for other in others))
        if labels & group.labels:
            return SAME_LABEL
        if labels & group.exact or exact & group.labels or exact & group.exact:
            return SHARED_NAME
        return CONTRADICTED if labels else ALONE

    def run(self) -> tuple[list[tuple[list[str], str]], dict[str, str]]:
        keys: dict[int, str] = {}
        doubtful: set[int] = set()
        places: dict[str, _Place] = {}
        wishes = []  # (-fit, order, group number, CUI): best first, so that a CUI goes to the term of a source that fits best
        for number, group in enumerate(self.groups):
            fits = [(self._fit(group, cui), -place, cui) for place, cui in enumerate(group.cuis)]
            wishes += [(-fit, place, number, cui) for place, (fit, _, cui) in enumerate(sorted(fits, reverse=True))]
        for minus_fit, place, number, cui in sorted(wishes, key=lambda wish: (wish[1] > 0, wish[0], wish[1], wish[2])):
            group = self.groups[number]
            if number in keys:
                continue
            found = places.get(cui)
            if found is not None and (both := found.sources & group.sources):
                if place == len(group.cuis) - 1:
                    self.joins.say("kept apart", group.terms[0], cui, "", f"another term of {', '.join(sorted(both))} has this CUI")
                continue
            keys[number] = cui
            if minus_fit == CONTRADICTED:
                doubtful.add(number)
            self._enter(places, cui, group)
        self._by_name(keys, doubtful, places)
        twins = self._twins(keys, places)
        self._by_list(keys, twins)
        return [(group.terms, twins.get(keys[number], keys[number])) for number, group in enumerate(self.groups) if number in keys], twins

    def _enter(self, places: dict[str, _Place], key: str, group: _Group) -> None:
        if key not in places:
            places[key] = _Place(set(), defaultdict(set), self._kinds.stated(key))
        self._add(places[key], group)

    def _add(self, place: _Place, group: _Group) -> None:
        place.sources.update(group.sources)
        place.kinds.update(self._kinds_of(group))
        for term in group.terms:
            for vocabulary, code in self._codes_of(term):
                place.codes[vocabulary].add(code)

    def _codes_of(self, term: str) -> list[tuple[str, str]]:
        own = curies.code(term)
        return [*self.codes.get(term, []), *([own] if own and own[0] in TELLING else [])]

    def _kinds_of(self, group: _Group) -> set[str]:
        return set().union(*(self._kinds.of(term) for term in group.terms if term in self.order))

    # -- 3. names -----------------------------------------------------------------------------------------------------------

    def _by_name(self, keys: dict[int, str], doubtful: set[int], places: dict[str, _Place]) -> None:
        bearers: dict[str, dict[str, int]] = defaultdict(dict)  # name -> concept id -> 2 for its preferred name, 1 for an exact synonym

        def bear(key: str, labels: Iterable[str], exact: Iterable[str], best: int = 2) -> None:
            for grade, names in ((1, exact), (best, labels)):
                for name in names:
                    bearers[name][key] = max(grade, bearers[name].get(key, 0))

        for number, known in keys.items():
            if number not in doubtful:
                bear(known, self.groups[number].labels, self.groups[number].exact)
        for cui in list(self.labels):
            if is_cui(cui):
                bear(cui, self.labels[cui], self.exact[cui])
                if cui not in places:
                    places[cui] = _Place(set(), defaultdict(set), self._kinds.stated(cui))
        for number, group in enumerate(self.groups):  # first groups that share the preferred name: "fever" before "hyperthermia", a synonym of fever
            if group.sources and number not in keys:
                key, name, why = self._bearer(group, bearers, places, moved=False, only_preferred=True)
                if key is not None:
                    self.joins.say("joined", group.terms[0], key, name, why)
                    keys[number] = key
                    self._enter(places, key, group)
        for number, group in enumerate(self.groups):
            if not group.sources or (number in keys and number not in doubtful):
                continue
            key, name, why = self._bearer(group, bearers, places, moved=number in doubtful)
            if number in doubtful:
                if key is None or key == keys[number] or bearers[name][key] < 2 or not places[key].sources:
                    bear(keys[number], group.labels, group.exact)
                    continue
                self.joins.say("moved", group.terms[0], key, name, f"{keys[number]} has other names")
            elif key is not None:
                self.joins.say("joined", group.terms[0], key, name, why)
            own = key or group.terms[0]
            keys[number] = own
            self._enter(places, own, group)
            if key is None:
                bear(own, group.labels, ())

    def _bearer(
        self, group: _Group, bearers: dict[str, dict[str, int]], places: dict[str, _Place], *, moved: bool, only_preferred: bool = False
    ) -> tuple[str | None, str, str]:
        """Find the concept with the name of a group. Return (the concept or None, the name, the reason).

        Args:
            group: a group without a CUI, or with a doubtful one.
            bearers: name -> concept id -> 2 for its preferred name, 1 for an exact synonym.
            places: the concepts that are being built.
            moved: whether the group has a doubtful CUI. Then it can only join a concept with another CUI.
            only_preferred: join only by the preferred name of a concept with a CUI.
        """
        kinds = self._kinds_of(group)
        codes: dict[str, set[str]] = defaultdict(set)
        for term in group.terms:
            for vocabulary, code in self._codes_of(term):
                codes[vocabulary].add(code)
        drug = kinds == {CHEMICAL}
        for name in [*sorted(group.labels), *(sorted(group.exact - group.labels) if drug and not moved else [])]:
            if len(name) < SHORTEST - (kinds == {BODY}):
                continue
            blocked = ""  # why no concept with this name can be joined; then only one without a CUI and with this preferred name counts
            for with_cui in (True, False):
                for grade, why in ((2, "its preferred name"), (1, "an exact synonym")):
                    if (name not in group.labels or only_preferred) and (grade, with_cui) != (2, True):
                        continue
                    held = [key for key, g in bearers.get(name, {}).items() if g == grade and is_cui(key) == with_cui]
                    agreeing = [key for key in held if kinds & places[key].kinds]
                    if blocked and (with_cui or grade < 2):
                        continue
                    free = [key for key in agreeing if self._may_join(group, codes, places[key])]
                    if len(free) > 1 and with_cui and grade == 2 and self._are_twins(free, places):
                        free = [min(free)]  # the oldest
                    if len(free) == 1:
                        return free[0], name, f"{name!r} is {why}"
                    if agreeing:
                        blocked = "several concepts bear the name" if free else "something tells them apart"
                if moved:
                    break  # a term is moved only to a concept with a CUI
            if blocked:
                return None, name, blocked
        return None, "", ""

    # -- 4. twins -----------------------------------------------------------------------------------------------------------

    def _twins(self, keys: dict[int, str], places: dict[str, _Place]) -> dict[str, str]:
        """Return a dict from each CUI that joins another CUI's concept to that CUI."""
        labels = {cui: set(names) for cui, names in self.labels.items() if is_cui(cui)}
        exact = {cui: set(names) for cui, names in self.exact.items() if is_cui(cui)}
        listed: dict[str, set[str]] = defaultdict(set)
        for number, key in keys.items():
            if is_cui(key):
                group = self.groups[number]
                labels.setdefault(key, set()).update(group.labels)
                exact.setdefault(key, set()).update(group.exact)
                listed[key].update(group.cuis)
        support = {cui: len(places[cui].sources) for cui in exact if cui in places}  # counted now: a joined place has the sources of both
        sets = {
            cui: _Twins({cui}, places.get(cui) or _Place(set(), defaultdict(set), self._kinds.stated(cui)), set(self.naming[cui])) for cui in exact
        }
        for cui, other, name, why in self._pairs(labels, exact, listed, places):
            one, two = sets[cui], sets[other]
            if one is two or not one.may_join(two):
                continue
            one.add(two)
            for member in two.cuis:
                sets[member] = one
            self.joins.say("twin", other, cui, name, why)
        found: dict[str, str] = {}
        for twins in {id(each): each for each in sets.values() if len(each.cuis) > 1}.values():
            best = min(twins.cuis, key=lambda cui: (cui >= LATER_CUIS, -support.get(cui, 0) - len(self.naming[cui]), cui))
            found.update((cui, best) for cui in twins.cuis if cui != best)
        return found

    def _pairs(
        self, labels: dict[str, set[str]], exact: dict[str, set[str]], listed: dict[str, set[str]], places: dict[str, _Place]
    ) -> Iterator[tuple[str, str, str, str]]:
        """Yield pairs of CUIs that may mean the same, with the name that both have and the reason. The best reasons come first."""
        bearers: dict[str, list[str]] = defaultdict(list)
        for cui in sorted(labels):
            for name in labels[cui]:
                if len(name) >= SHORTEST:
                    bearers[name].append(cui)
        for name in sorted(bearers):
            yield from ((cui, other, name, "both have this preferred name") for cui, other in combinations(bearers[name], 2))
        for cui in sorted(listed):
            for other in sorted(listed[cui] - {cui}):
                shared = exact.get(other, set()) & exact[cui]
                if len(shared) > 1 or (shared and not (other in places and places[other].sources)):
                    yield cui, other, min(shared), "a source maps to both, and they share names"
        for other in sorted(exact):
            if not labels.get(other) and not (other in places and places[other].sources):
                for name in sorted(exact[other]):
                    if len(bearers.get(name, ())) == 1:
                        yield bearers[name][0], other, name, "the name is the other's preferred one"

    def _are_twins(self, cuis: Sequence[str], places: dict[str, _Place]) -> bool:
        """Return whether rule 4 will make one concept of CUIs that have the same preferred name."""
        sets = [_Twins({cui}, places[cui], self.naming[cui]) for cui in cuis]
        return all(one.may_join(other) for one, other in combinations(sets, 2))

    # -- 5. the list ---------------------------------------------------------------------------------------------------------

    def _by_list(self, keys: dict[int, str], twins: dict[str, str]) -> None:
        """Change the keys of concepts without a CUI to the CUI that `Joins.listed` gives one of their terms."""
        sources: dict[str, set[str]] = {cui: set() for cui in self.exact if is_cui(cui)}  # CUI of a concept, or a key without a CUI -> sources
        members: dict[str, list[int]] = defaultdict(list)
        for number, key in keys.items():
            sources.setdefault(twins.get(key, key), set()).update(self.groups[number].sources)
            if not is_cui(key):
                members[key].append(number)
        for key, numbers in members.items():
            for term in (term for number in numbers for term in self.groups[number].terms if term in self.joins.listed):
                concept = twins.get(self.joins.listed[term], self.joins.listed[term])
                if concept not in sources:
                    self.joins.say("kept apart", term, concept, "", "the list has it, but no source has this CUI")
                elif both := sources[concept] & sources[key]:
                    self.joins.say("kept apart", term, concept, "", f"the list has it, but another term of {', '.join(sorted(both))} has this CUI")
                else:
                    self.joins.say("joined", term, concept, "", "the list has it")
                    keys.update(dict.fromkeys(numbers, concept))
                    sources[concept] |= sources[key]
                    break

    def _may_join(self, group: _Group, codes: dict[str, set[str]], place: _Place) -> bool:
        if place.sources & group.sources:
            return False
        return not any(place.codes.get(vocabulary) and not place.codes[vocabulary] & found for vocabulary, found in codes.items())


class _Kinds:
    """The semantic groups of terms and CUIs, as sources give them or by the branch of their ontology."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._stated: dict[str, set[str]] = defaultdict(set)
        for term, tui in database.execute("SELECT DISTINCT id, tui FROM s_type"):
            self._stated[term].add(_group_of(tui))
        self._parents: dict[str, list[str]] = defaultdict(list)
        for term, parent in database.execute(f"SELECT id, parent FROM s_parent WHERE id {NOT_CUI}"):
            self._parents[term].append(parent)
        self._vocabulary = dict(database.execute(f"SELECT id, MIN(source) FROM s_name WHERE id {NOT_CUI} GROUP BY id"))

    def stated(self, term: str) -> set[str]:
        """Return the kinds that sources give."""
        return set(self._stated.get(term, ()))

    def of(self, term: str) -> set[str]:
        """Return the kinds that sources give, or if they give none, those of the term's branch."""
        if term not in self._stated:
            types = semantic_types.types_of(term, self._vocabulary.get(term, ""), lambda i: self._parents.get(i, ()))
            self._stated[term] = {_group_of(tui) for tui in types}
        return self._stated[term]


def _group_of(tui: str) -> str:
    found = semantic_types.load().get(tui)
    return found.group if found else tui


def _source(term: str) -> str:
    return curies.split(term)[0].upper()


def several_of_one_source(keys: Iterable[tuple[str, str]], named: Collection[str]) -> dict[str, list[str]]:
    """Return the concepts that hold several terms of one source, with these terms.

    Args:
        keys: (term, concept id).
        named: terms that have names.
    """
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for term, key in keys:
        if term in named:
            held[key, _source(term)].append(term)
    found: dict[str, list[str]] = defaultdict(list)
    for (key, _), terms in held.items():
        if len(terms) > 1:
            found[key] += sorted(terms)
    return dict(found)
