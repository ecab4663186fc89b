"""Which names of a knowledge base are looked for, and under which label: names become phrases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from tqdm import tqdm

from ..context import sense_words
from ..errors import fail
from ..kb import semantic_types
from ..kb.concept import ENGLISH, stem
from ..kb.knowledge_base import KnowledgeBase, MatchableName
from ..kb.writing import CAPITALS, POSSESSIVE, is_acronym
from . import letter_case
from .phrases import MAX_WORDS, Collected, Phrases, union, word_hash
from .sites import BODY
from .spelling import MIN_LETTERS, Spelling
from .word_lists import is_plain, known_words
from .words import WORD, form_of

SHOWN_FROM = 1_000_000  # with at least so many names, building the phrases takes more than ten seconds, and progress is shown
SPELLING_TO = 1_000_000  # with more names, two words that differ by one edit are too often both names
SURE_LETTERS, OFTEN = 9, 8  # a shorter word is corrected only to a frequent word, or one in so many names: "isodate" is not ipodate
FINDINGS = "DISO"  # the group of a name that is a substance in one source and a finding in another: "nipple discharge"
# semantic types of concepts that only say how, where or when; they are not mentions by themselves
QUALIFIERS = frozenset(["T041", "T056", "T077", "T078", "T079", "T080", "T081", "T082", "T089", "T102", "T169", "T185"])
MARKERS = frozenset(["ca", "her"])  # stop words that are a name with a number: "CA 19-9", "HER-2"
DENIES = frozenset(["no", "not", "denies", "denied", "without"])  # "no fever" is a denied fever, although some sources have it as a name
LAY_WORDS = 3  # a lay name of at least so many words counts although each of them says little: "put my back out"
_IN_CAPITALS = re.compile(r"[A-Z]-[A-Z]{2,}")  # "B-ALL", each of whose words says too little in small letters
_WORDS = 500_000  # words whose hashes are kept while names are read


@dataclass(frozen=True)
class NameCollector:
    """Makes phrases of names.

    Attributes:
        language: language of the texts, ISO 639-1.
        stop_words: words that alone are no name.
        types: semantic types whose names are looked for; None for all.
        label: "group", "type" or any other text, see `ConceptMatcher`.
        min_chars: names with fewer characters are left out.
        weak_names: look for narrower, related, broader and lay names, too.
        qualifiers: look for qualifiers, too, if `types` is None.
        spelling: also make the vocabulary to which misspelt words are corrected.
    """

    language: str
    stop_words: frozenset[str]
    types: frozenset[str] | None
    label: str
    min_chars: int
    weak_names: bool
    qualifiers: bool
    spelling: bool

    def of_kb(self, kb: KnowledgeBase) -> tuple[Phrases, Spelling | None]:
        """Return the phrases of a knowledge base and the vocabulary to which misspelt words are corrected.

        Raises:
            SapbertError: E103, no name remains to look for.
        """
        counts: dict[str, int] = {}
        names = kb.matchable_names(weak_names=self.weak_names, tuis=self.types)
        with tqdm(names, desc="reading names to look for", unit=" names", total=kb.n_surface_forms, disable=kb.n_surface_forms < SHOWN_FROM) as shown:
            hinted = list(self.hinted_names(kb))
            found = self.collect(chain(shown, hinted), counts, {name.name for name in hinted})
        if not len(found):
            raise fail("E103", detail="no name of these types is long enough to look for")
        if not self.spelling or self.language not in ENGLISH or kb.n_surface_forms > SPELLING_TO:
            return found, None
        usual = frozenset(map(stem, known_words()))
        likely = (word for word in counts if len(word) >= SURE_LETTERS or counts[word] >= OFTEN or word in usual)
        return found, Spelling.of(sorted(likely, key=lambda word: -counts[word]), [*usual, *counts])

    def hinted_names(self, kb: KnowledgeBase) -> Iterator[MatchableName]:
        """Yield the short forms of `context.sense_words` that are no name of the knowledge base, with the types of the first concept that it has."""
        if self.language not in ENGLISH:
            return
        short_forms = sense_words.short_forms()
        known = kb.find(list(short_forms))
        for short in sorted(short_forms.keys() - known.keys()):  # always in one order, so that equal phrases are stored
            concepts, capitals = short_forms[short]
            tuis = next((kb.types_of(rows[0]) for concept_id in concepts if (rows := kb.rows_of(concept_id))), [])
            allowed = [tui for tui in tuis if self.types is None or tui in self.types]
            if allowed:
                in_capitals_only = capitals or len(short) == 2 or is_plain(short)
                yield MatchableName(short, allowed[0], tuple(tuis), (short.upper() if in_capitals_only else short,))

    def collect(self, names: Iterable[MatchableName], counts: dict[str, int] | None = None, hinted: Collection[str] = ()) -> Phrases:
        """Return the phrases of names. After a tab, their labels say how a text must write them, see `letter_case`.

        Args:
            names: the names.
            counts: form of a word -> number of names that hold it; the words of `names` are added.
            hinted: names that count only if words around them point to a meaning.
        """
        counts = {} if counts is None else counts
        whole, unmarked = Collected(), Collected()  # unmarked: without punctuation, so that "hypotonia, generalized" is also found without its comma
        possessives: list[tuple[list[int], str]] = []  # added last: a word that is a name in any form keeps its label
        in_s: set[int] = set()  # hashes of acronyms that end in a capital "S"
        other_words: set[int] = set()  # hashes of the other names of one word
        without_sign: set[int] = set()  # hashes of names that may be possessives without their apostrophe
        signed: set[int] = set()  # hashes of the other names of one word
        words: dict[int, str] = {}  # hash of a name of one word -> its label
        look = lru_cache(_WORDS)(self._looked_at)
        label_of = lru_cache(None)(self._label)
        for name in names:
            found = WORD.findall(name.name)
            if not self._may_be_looked_for(name, found):
                continue
            looked = [look(word) for word in found]
            short_form = name.name in hinted or _is_short_form(name)
            if found[0] in DENIES and not name.is_lay:
                continue
            if all(little for _, little in looked) and not (short_form or _counts_anyway(name, found)):
                continue
            self._count(found, counts)
            case = letter_case.required_case(name, found, self.language, self.stop_words, hinted=name.name in hinted, short_form=short_form)
            if case is None:
                continue
            label = label_of(_type_of(name))
            label = f"{label}\t{case}" if case else label
            hashes = [hashed for hashed, _ in looked]
            if case == POSSESSIVE:
                possessives.append((hashes, label))
                continue
            if len(hashes) == 1:
                if case.startswith(CAPITALS) and case != letter_case.CAPITALS_IN_PLURAL and letter_case.ends_in_capital_s(name.texts):
                    in_s.add(hashes[0])
                else:
                    other_words.add(hashes[0])
                (without_sign if letter_case.is_possessive_without_sign(name) else signed).add(hashes[0])
                words[hashes[0]] = letter_case.of_both(words.get(hashes[0]), label, name)
                continue
            whole.add(hashes, label)
            bare = [hashed for hashed, word in zip(hashes, found) if word[0].isalnum()]
            if 1 < len(bare) < len(hashes) and not letter_case.are_joined_letters(found):  # "HR+" is not "HR"
                unmarked.add(bare, label)
        for (hashed, *others), _ in possessives:  # beside "Murphy's", "Murphys" is no plural of "Murphy"
            if not others and hashed in without_sign and hashed not in signed:
                words.pop(hashed, None)
        for hashed, label in words.items():
            only_in_s = hashed in in_s and hashed not in other_words
            whole.add([hashed], label.replace(CAPITALS, CAPITALS + letter_case.WITH_S, 1) if only_in_s else label)
        for hashes, label in possessives:
            whole.add(hashes, label)
        return union([whole.phrases(), unmarked.phrases()])

    def _may_be_looked_for(self, name: MatchableName, found: Sequence[str]) -> bool:
        """Return whether a name, given with its words, has a length that is looked for, and does not only qualify."""
        if not found or len(found) > MAX_WORDS or (len(name.name) < self.min_chars and not letter_case.is_symbol(name)):
            return False
        return self.qualifiers or self.types is not None or not only_qualifies(name.tuis)

    def _looked_at(self, word: str) -> tuple[int, bool]:
        """Return the hash of a word, and whether the word alone is too unspecific to be a name (a stop word, a number, one letter).

        The stemmed form is tested, too: the name "Wells" must not match "well".
        """
        form = form_of(word, self.language)
        return word_hash(form), word in self.stop_words or form in self.stop_words or word.isdigit() or len(form) == 1

    def _count(self, found: Iterable[str], counts: dict[str, int]) -> None:
        for word in found:
            if len(word) >= MIN_LETTERS:
                form = form_of(word, self.language)
                counts[form] = counts.get(form, 0) + 1

    def _label(self, tui: str | None) -> str:
        if self.label == "type":
            return tui or "UNKNOWN"
        return (group_of(tui) or "CONC") if self.label == "group" else self.label


def only_qualifies(tuis: Collection[str]) -> bool:
    """Return whether all semantic types are types of qualifiers ("right", "mild", "chronic")."""
    return bool(tuis) and all(tui in QUALIFIERS for tui in tuis)


def group_of(tui: str | None) -> str:
    """Return the group of a semantic type; "" if the type is not known."""
    kind = semantic_types.load().get(tui or "")
    return kind.group if kind else ""


def _is_short_form(name: MatchableName) -> bool:
    """Return whether words around a name can point to its meaning, see `context.sense_words`. "AS" is no name without such words."""
    return name.name in sense_words.short_forms() and any(map(is_acronym, name.texts))


def _counts_anyway(name: MatchableName, found: Sequence[str]) -> bool:
    """Return whether a name counts although each of its words alone says too little: "K" before a value, "D&C", "B-ALL", "CA 19-9", "put my back out"."""
    if name.is_lay and len(found) >= LAY_WORDS and all(word.isalpha() for word in found):
        return True
    if letter_case.is_symbol(name) or letter_case.are_joined_letters(found) or (name.texts and all(map(_IN_CAPITALS.fullmatch, name.texts))):
        return True
    return found[0] in MARKERS and all(word.isdigit() or word == "." for word in found[1:])


def _type_of(name: MatchableName) -> str | None:
    """Return the semantic type of a name: of a part of the body that is also a finding, that of the finding."""
    if name.tuis and group_of(name.tui) == BODY:
        return next((tui for tui in name.tuis if group_of(tui) == FINDINGS), name.tui)
    return name.tui
