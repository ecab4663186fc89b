"""The component `concept_matcher`: it finds names of the knowledge base in text, so that a pipeline needs no trained recogniser.

Names and text are compared as runs of lower-cased words, in English without possessive and plural endings. The longest run is taken, from
left to right. At each word there is one look-up for every possible length of a run (`phrases.py`). With spaCy's PhraseMatcher, building the
patterns would take longer than the search, and plurals would not be found.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Protocol, Set, Tuple, Union, runtime_checkable

import numpy as np
from cachetools import LRUCache
from spacy.lang.en.stop_words import STOP_WORDS
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans
from tqdm import tqdm

from .. import bundle
from ..build import default_linkers
from ..context import sense_words
from ..context.sections import MEDICATIONS, PART, TESTS, find_sections, kind_of, section_at
from ..doc.abbreviations import definitions
from ..doc.component import DocComponent
from ..doc.spans import CORRECTED, set_corrected_extension, set_spans
from ..errors import DamagedFile, SapbertError, fail, warn
from ..files import writing_folder
from ..kb import semantic_types
from ..kb.additions import Additions
from ..kb.concept import ENGLISH, lower_case, normalise, stem
from ..kb.forms import nouns, singulars
from ..kb.knowledge_base import KnowledgeBase, MatchableName
from ..kb.removals import forms_of_name
from ..kb.writing import CAPITALS, MEASURED, POSSESSIVE, fits, has_value, in_capitals, is_acronym, is_mostly_capitals
from ..registry import check_linker_name
from . import casing
from .beside import FINDING, glued, is_adjective, is_title, means_something_else, names_many_tests
from .contrast import PROCEDURE, about_contrast, with_contrast
from .fractures import with_kind_of_fracture
from .headed import headed, is_warm_and_dry
from .interrupted import interrupted
from .joining import WHOLE, Match, Places, chosen, trimmed, with_items
from .letter_pairs import letter_pairs
from .letters import letters
from .listed import Listed, listed
from .parts import CONJUNCTIONS, parts_of
from .phrases import MAX_WORDS, VERSION, Collected, Phrases, union, word_hash
from .products import DRUG, with_product_words
from .results import LEVEL, READ, has_result
from .shorthand import SHORT, written_out
from .sites import BODY, without_sites
from .spelling import MIN_LETTERS, Spelling, is_other_word
from .treatment_days import without_days
from .vaccines import VACCINE, vaccines
from .vital_signs import vital_signs
from .worded import worded

# A word is letters and digits; "'s" belongs to its word, and `stem` removes it. Punctuation marks and empty lines are words, too, so that no
# name crosses them. Spaces, hyphens, slashes and apostrophes only separate words
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
KEPT_FROM = 20_000  # with at least so many names, the phrases are stored in the cache
SHOWN_FROM = 1_000_000  # with at least so many names, building the phrases takes more than ten seconds, and progress is shown
RULES = 16  # increase it whenever names become words in another way (`_form`, `stem`, `_collect`), so that old caches are not used
FOLDER = "phrases"  # name of a folder in a saved component
_REMEMBERED = 500_000  # words whose hashes are cached while names are read
_LONGER = {PROCEDURE: with_contrast, FINDING: with_kind_of_fracture}  # group of a name -> what adds the words beside it that belong to it
_LONG = 64  # letters; hashes of longer words (such as base64) are not cached
SURE_LETTERS, OFTEN = 9, 8  # a shorter word is corrected only to a frequent word, or one in so many names: "isodate" is not ipodate
SPELLING_TO = 1_000_000  # with more names, two words that differ by one edit are too often both names
_REMOVED = re.compile(  # a placeholder of a de-identified note: "[**Name**]", "MM/DD/YYYY"
    r"\[\*\*.*?\*\*\]|\b(?:MM|DD|YY(?:YY)?)(?:[/-](?:MM|DD|YY(?:YY)?)){1,2}\b"
)
_MEASURES = frozenset(["blood loss", "ebl", "estimated blood loss"])  # headings in a report of an operation that name what is measured
_STATEMENTS = frozenset(["nka", "nkda"])  # headings that say themselves what is so
_STAGE = re.compile(
    r"\b[cpy]{0,2}T(?:[0-4][a-d]?|is|[xX])[ ,]*[cp]?N[0-3xX][a-c]?(?:[ ,]*(?:\([^()\n]{0,20}\))?[ ,]*[cp]?M[01xX])?\b"
)  # a TNM stage: "T1 N3 M0"
_DENIES = frozenset(["no", "not", "denies", "denied", "without"])  # "no fever" is a denied fever, although some sources have it as a name
_IN_BRACKETS = re.compile(r"\s*[(\[,]\s*([^\s()\[\]]{2,12}?)\s*[,;)\]]")  # an abbreviation after its long form: "(SF)", or "(long form, SF)"
_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)(?:\.\s*|\s+)$")
NOTHING = Collected().phrases().hashes  # no hashes of removed names
DESCRIBING = frozenset([BODY, "PHYS"])  # groups whose adjectives are no mentions before another word: "facial features"
LISTED = "DISO"  # semantic group of the names that are split where they list several: "fever and chills", not "head and neck"


@runtime_checkable
class HasKnowledgeBase(Protocol):
    """A component of the pipeline, such as `sapbert_linker`, whose knowledge base and additions are looked for in text."""

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base."""
        ...

    @property
    def additions(self) -> Additions:
        """Names and concepts that a user added, and names that a user removed. Each change creates a new object."""
        ...

    def load(self) -> None:
        """Read the files, if they have not been read yet."""
        ...


def words(text: str, language: str = "") -> List[Tuple[str, int, int]]:
    """Return the words and punctuation marks of a text as (form, start, end), with offsets in characters.

    Args:
        text: a text.
        language: language of the text, ISO 639-1; English words are stemmed.
    """
    return [(_form(m.group(), language), m.start(), m.end()) for m in _WORD.finditer(text)]


def _form(word: str, language: str) -> str:
    lowered = lower_case(word, language).replace("’", "'")
    return stem(lowered) if language in ENGLISH else lowered


def _hash(word: str, language: str) -> int:
    return _known_hash(word, language) if len(word) <= _LONG else word_hash(_form(word, language))


@lru_cache(maxsize=20_000)
def _known_hash(word: str, language: str) -> int:
    return word_hash(_form(word, language))


@lru_cache(maxsize=20_000)
def _nouns(word: str) -> Tuple[List[str], List[str]]:
    """Return what a word may be the plural of, and the nouns that it may be the adjective of, see `kb.forms`."""
    return singulars(word), nouns(word)


@Language.factory(
    "concept_matcher",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "linker_name": None,
        "spans_key": None,
        "types": None,
        "label": "group",
        "overwrite": False,
        "min_chars": 2,
        "weak_names": True,
        "qualifiers": False,
        "spelling": True,
        "join": False,
        "all_key": None,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_concept_matcher(
    nlp: Language,
    name: str,
    linker_name: Optional[str],
    spans_key: Optional[str],
    types: Union[str, List[str], None],
    label: str,
    overwrite: bool,
    min_chars: int,
    weak_names: bool,
    qualifiers: bool,
    spelling: bool,
    join: bool,
    all_key: Optional[str],
    scorer: Optional[Callable[..., Any]],
) -> "ConceptMatcher":
    """Create the component, see `ConceptMatcher`. Nothing is read from disk yet."""
    return ConceptMatcher(
        nlp,
        name,
        linker_name=linker_name,
        spans_key=spans_key,
        types=types,
        label=label,
        overwrite=overwrite,
        min_chars=min_chars,
        weak_names=weak_names,
        qualifiers=qualifiers,
        spelling=spelling,
        join=join,
        all_key=all_key,
        scorer=scorer,
    )


class ConceptMatcher(DocComponent):
    """Find names of the knowledge base in text, and set `doc.ents` or a span group to them.

    Args:
        nlp: the pipeline.
        name: name of the component in the pipeline.
        linker_name: a registered linker, or the folder of a linker or a knowledge base. None: the knowledge base of the `sapbert_linker` in
            the same pipeline; without one, "open".
        spans_key: a span group; None for `doc.ents`.
        types: semantic types or groups whose names are looked for; None for all.
        label: "group": the semantic group of the name's first concept (DISO, ANAT, PROC …); "type": its semantic type (T047 …); any other text: that
            text.
        overwrite: with `doc.ents`: True: matches replace entities that overlap them; False: those entities stay.
        min_chars: names with fewer characters are ignored. Names that consist only of stop words or digits are always ignored. So are names of
            one letter, except a test before a value ("K 5.9").
        weak_names: look for narrower, related, broader and lay names, too.
        qualifiers: look for qualifiers, too ("right", "mild", "chronic"), if `types` is None.
        spelling: find words of seven letters and more with one wrong letter, if the knowledge base has at most a million names.
        join: choose between names and the entities of an earlier component by the rules of `joining.chosen`; `overwrite` is then ignored.
        all_key: a span group for all mentions: chosen ones, nested ones, and parts of coordinations, whose span id is the name to look up. None:
            no group. `sapbert_linker` links the group "sapbert" together with `doc.ents`.
        scorer: spaCy's scorer of entities.

    Raises:
        SapbertError: E001, linker_name is not known; E002, a setting is wrong; E104, a type is not known.
    """

    def __init__(
        self,
        nlp: Language,
        name: str = "concept_matcher",
        *,
        linker_name: Optional[str] = None,
        spans_key: Optional[str] = None,
        types: Union[str, List[str], None] = None,
        label: str = "group",
        overwrite: bool = False,
        min_chars: int = 2,
        weak_names: bool = True,
        qualifiers: bool = False,
        spelling: bool = True,
        join: bool = False,
        all_key: Optional[str] = None,
        scorer: Optional[Callable[..., Any]] = None,
    ) -> None:
        if min_chars < 1:
            raise fail("E002", setting="min_chars", component=name, value=min_chars, why="it must be at least 1.")
        if linker_name is not None and not _is_kb(Path(linker_name)):
            check_linker_name(linker_name)
        set_corrected_extension()
        self.join, self.all_key = join, all_key
        self.nlp, self.name, self.scorer = nlp, name, scorer
        self.linker_name, self.spans_key, self.label, self.overwrite = linker_name, spans_key, label, overwrite
        self.min_chars, self.weak_names, self.qualifiers, self.spelling = max(2, min_chars), weak_names, qualifiers, spelling
        self.types: Optional[FrozenSet[str]] = None if types is None else semantic_types.expand([types] if isinstance(types, str) else types)
        self._language = getattr(nlp, "lang", "")
        own = set() if self._language in ENGLISH else nlp.Defaults.stop_words
        self._stop_words: Set[str] = STOP_WORDS | own  # a knowledge base may hold English names in addition to names in the text's language
        self._phrases: Optional[Phrases] = None
        self._spelling: Optional[Spelling] = None
        self._corrected: LRUCache[str, Optional[str]] = LRUCache(_REMEMBERED // 10)
        self._others: Dict[Tuple[str, bool], str] = {}  # see `_other_form`; a dict, because several threads may use it
        # name of each linker in the pipeline -> its additions, their phrases, and the phrases that were removed
        self._added: Dict[str, Tuple[Additions, Phrases, Phrases]] = {}
        self._more: Optional[Phrases] = None  # the phrases of all additions
        self._stopped = NOTHING  # hashes of removed names

    def __len__(self) -> int:
        """Return the number of phrases that are looked for."""
        return 0 if self._phrases is None else len(self._phrases)

    def load(self) -> None:
        """Read the names, if they have not been read yet, and the additions of linkers in the pipeline, if they changed."""
        if self._phrases is None:
            self.set_kb(self._find_kb())
        changed = False
        for name, component in self.nlp.pipeline:
            if isinstance(component, HasKnowledgeBase):
                component.load()  # the linker's folder may hold additions
                if name not in self._added or self._added[name][0] is not component.additions:  # each change creates a new object
                    kb, additions = component.kb, component.additions
                    removed = self._removed_phrases(kb, additions)
                    self._added[name] = additions, self._collect(self._added_names(kb, additions), {}), removed
                    changed = True
        if changed:
            self._more = union(phrases for _, phrases, _ in self._added.values())
            self._stopped = union(removed for _, _, removed in self._added.values()).hashes
        assert self._phrases is not None
        if self._phrases.stopped is not self._stopped:
            self._phrases = replace(self._phrases, stopped=self._stopped)

    def _added_names(self, kb: KnowledgeBase, additions: Additions) -> Iterator[MatchableName]:
        for concept_id, text, language in additions.names:
            tuis = kb.concept(kb.row_of(concept_id)).types
            if self.types is None or not self.types.isdisjoint(tuis):
                yield MatchableName(normalise(text, language), tuis[0] if tuis else None)

    def _removed_phrases(self, kb: KnowledgeBase, additions: Additions) -> Phrases:
        """Return the phrases of removed names that no concept has any more, and of the stop list. The label is not used.

        Spellings of the same words are one phrase ("beta-blocker", "beta blocker"). It stays while a concept has a name with one of them.
        """
        found = Collected()
        for concept_id, text, language in additions.removed:
            norm = normalise(text, language)
            bare = [word for word in _WORD.findall(norm) if word[0].isalnum()]
            joined = (f"{' '.join(bare[:at])}{mark}{' '.join(bare[at:])}" for at in range(1, len(bare)) for mark in "-/")
            forms: Dict[Tuple[int, ...], List[str]] = {}  # hashes of words -> what may be a name with these words
            for name in dict.fromkeys([norm, " ".join(bare), "-".join(bare), *joined]):
                forms.setdefault(tuple(self._run(name)), []).extend(forms_of_name(name))
            for run, names in forms.items():
                if 0 < len(run) <= MAX_WORDS and (concept_id is None or not kb.find(names)):
                    found.add(list(run), "")
        return found.phrases()

    def _find_kb(self) -> KnowledgeBase:
        if self.linker_name is None:
            for _, component in self.nlp.pipeline:
                if isinstance(component, HasKnowledgeBase):
                    return component.kb
        if self.linker_name is not None and _is_kb(Path(self.linker_name)):
            return KnowledgeBase(self.linker_name)
        return KnowledgeBase(default_linkers.find_linker(self.linker_name) / bundle.KB)

    def set_kb(self, kb: KnowledgeBase) -> None:
        """Set the knowledge base whose names are looked for. If it has many names, their hashes are computed once and stored in the cache.

        Warns with W009 if the cache cannot be written.

        Raises:
            SapbertError: E103, no name remains to look for.
        """
        self._forget_words()
        if kb.n_surface_forms < KEPT_FROM:
            self._phrases, self._spelling = self._of(kb)
            return
        # with `rules_fingerprint`, everything that the phrases depend on, for the key of the cache
        own = [self.min_chars, self.weak_names, self.label, sorted(self.types or ()), self.types is None, self.qualifiers, self.spelling]
        text = [self._language if self._language not in ENGLISH else "en", sorted(self._stop_words), _WORD.pattern]

        def build(folder: Path) -> None:
            with writing_folder(folder) as fresh:
                _write(fresh, *self._of(kb))

        try:
            folder = default_linkers.cached(
                default_linkers.NAMES, [kb.fingerprint, rules_fingerprint(), default_linkers.fingerprint_of([*own, *text])], build
            )
            try:
                self._phrases, self._spelling = _read(folder)
            except DamagedFile:
                build(folder)
                self._phrases, self._spelling = _read(folder)
        except (OSError, SapbertError) as error:
            if isinstance(error, SapbertError) and error.code not in ("E007", "E008", "E055"):
                raise
            warn("W009", component=self.name, path=default_linkers.cache_folder(), error=error, env=default_linkers.CACHE_VARIABLE)
            self._phrases, self._spelling = self._of(kb)

    def _of(self, kb: KnowledgeBase) -> Tuple[Phrases, Optional[Spelling]]:
        words: Dict[str, int] = {}
        names = kb.matchable_names(weak_names=self.weak_names, tuis=self.types)
        with tqdm(names, desc="reading names to look for", unit=" names", total=kb.n_surface_forms, disable=kb.n_surface_forms < SHOWN_FROM) as shown:
            hinted = list(self._hinted_names(kb))
            found = self._collect(chain(shown, hinted), words, {name.name for name in hinted})
        if not len(found):
            raise fail("E103", detail="no name of these types is long enough to look for")
        if not self.spelling or self._language not in ENGLISH or kb.n_surface_forms > SPELLING_TO:
            return found, None
        usual = frozenset(map(stem, casing.known_words()))
        likely = (word for word in words if len(word) >= SURE_LETTERS or words[word] >= OFTEN or word in usual)
        return found, Spelling.of(sorted(likely, key=lambda word: -words[word]), [*usual, *words])

    def _hinted_names(self, kb: KnowledgeBase) -> Iterator[MatchableName]:
        """Yield the short forms of `context.sense_words` that are no name of the knowledge base, with the types of the first concept that it has."""
        if self._language not in ENGLISH:
            return
        short_forms = sense_words.short_forms()
        known = kb.find(list(short_forms))
        for short in sorted(short_forms.keys() - known.keys()):  # always in one order, so that equal phrases are stored
            concepts, capitals = short_forms[short]
            tuis = next((kb.types_of(rows[0]) for concept_id in concepts if (rows := kb.rows_of(concept_id))), [])
            allowed = [tui for tui in tuis if self.types is None or tui in self.types]
            if allowed:
                in_capitals_only = capitals or len(short) == 2 or casing.is_plain(short)
                yield MatchableName(short, allowed[0], tuple(tuis), (short.upper() if in_capitals_only else short,))

    def _collect(self, names: Iterable[MatchableName], counts: Dict[str, int], hinted: Collection[str] = ()) -> Phrases:
        """Return the phrases of names.

        Args:
            names: the names.
            counts: form of a word -> number of names that hold it; the words of `names` are added.
            hinted: names that count only if words around them point to a meaning.
        """
        whole, unmarked = Collected(), Collected()  # unmarked: without punctuation, so that "hypotonia, generalized" is also found without its comma
        possessives: List[Tuple[List[int], str]] = []  # added last: a word that is a name in any form keeps its label
        look = lru_cache(_REMEMBERED)(self._looked_at)
        labels: Dict[Optional[str], str] = {}
        for name in names:
            text, tui = name.name, name.tui
            found = _WORD.findall(text)
            symbol = len(text) == 1 and casing.is_symbol(name.texts) and not MEASURED.isdisjoint(name.tuis)  # "K 5.9"
            if not found or len(found) > MAX_WORDS or (len(text) < self.min_chars and not symbol):
                continue
            if not self.qualifiers and self.types is None and casing.only_qualifies(name.tuis):
                continue
            looked = [look(word) for word in found]
            letters_joined = len(found) == 3 and found[1] == "&" and len(found[0]) == len(found[2].removesuffix("s") or "s") == 1  # "D&C", "U&Es"
            # "AS" is no name without words around it that point to a meaning; see `context.sense_words`
            marker = found[0] in casing.MARKERS and all(word.isdigit() or word == "." for word in found[1:])  # "CA 19-9"
            hinted_word = text in hinted or (text in sense_words.short_forms() and any(map(is_acronym, name.texts)))
            little = all(says_little for _, says_little in looked) and not (symbol or letters_joined or marker or hinted_word)
            if little or found[0] in _DENIES:
                continue
            for word in found:
                if len(word) >= MIN_LETTERS:
                    form = _form(word, self._language)
                    counts[form] = counts.get(form, 0) + 1
            if name.tuis and self._is_of(tui, BODY):  # "nipple discharge" is a substance in one source, and a finding in another
                tui = next((other for other in name.tuis if self._is_of(other, LISTED)), tui)
            label = labels.get(tui) or labels.setdefault(tui, self._label(tui))
            if symbol:
                label = f"{label}\t{CAPITALS}{casing.WITH_VALUE}"
            elif len(found) == 1 and name.texts:  # a name that a user added has no texts, and counts in any case
                wanted = casing.casing(name.texts)
                known = bool(wanted) and not casing.abbreviations().isdisjoint(name.texts)
                if text in hinted:
                    wanted += casing.WITH_HINT
                elif not known and (casing.is_plain(text) or (wanted and len(text) == 2)):
                    if not MEASURED.isdisjoint(name.tuis):
                        wanted += casing.WITH_VALUE
                    elif hinted_word:
                        wanted = CAPITALS + casing.WITH_HINT
                    else:
                        continue
                elif not wanted and _form(text, self._language) in casing.plain_words():
                    wanted = casing.IN_PLURAL
                label = f"{label}\t{wanted}" if wanted else label
            elif letters_joined or (name.texts and casing.has_word_in_capitals(found, name.texts, self._stop_words)):
                label = f"{label}\t{CAPITALS}"
            hashes = [hashed for hashed, _ in looked]
            if label.endswith(f"\t{POSSESSIVE}"):
                possessives.append((hashes, label))
                continue
            whole.add(hashes, label)
            bare = [hashed for hashed, word in zip(hashes, found) if word[0].isalnum()]
            if 1 < len(bare) < len(hashes) and not letters_joined:  # "HR+" is not "HR"
                unmarked.add(bare, label)
        for hashes, label in possessives:
            whole.add(hashes, label)
        return union([whole.phrases(), unmarked.phrases()])

    def _looked_at(self, word: str) -> Tuple[int, bool]:
        """Return the hash of a word, and whether the word alone is too unspecific to be a name (a stop word, a number, one letter).

        The stemmed form is tested, too: the name "Wells" must not match "well".
        """
        form = _form(word, self._language)
        return word_hash(form), word in self._stop_words or form in self._stop_words or word.isdigit() or len(form) == 1

    @staticmethod
    def _is_of(tui: Optional[str], group: str) -> bool:
        kind = semantic_types.load().get(tui or "")
        return kind is not None and kind.group == group

    def _label(self, tui: Optional[str]) -> str:
        if self.label == "type":
            return tui or "UNKNOWN"
        if self.label == "group":
            kind = semantic_types.load().get(tui or "")
            return kind.group if kind else "CONC"
        return self.label

    # -- calling --------------------------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> List[List[Match]]:
        """Return the names in each Doc: the longest from left to right, then (in English) nested and overlapping names and parts of coordinations."""
        self.load()
        return [self._found(doc.text) for doc in docs]

    def _found(self, text: str) -> List[Match]:
        matches = list(self._match(text))
        if self._language not in ENGLISH:
            return matches
        return [add(match, text) if (add := _LONGER.get(self._group(match.label))) is not None else match for match in matches]

    def _match(self, text: str) -> Iterator[Match]:
        found = list(_WORD.finditer(text))
        corrected = self._corrections(found, text)
        words = np.fromiter(
            (word_hash(corrected[at]) if at in corrected else _hash(match.group(), self._language) for at, match in enumerate(found)),
            dtype=np.uint64,
            count=len(found),
        )
        phrases, more = self._phrases, self._more  # read once: `load` in another thread may replace them
        assert phrases is not None
        lengths, labels = phrases.longest(words)
        added: Dict[int, str] = {}
        full: Dict[int, str] = {}  # position -> full form of a shortened word, where a name needs it
        if self._language in ENGLISH:
            full = self._written_out(found, words, corrected, lengths, labels)
        if more is not None:
            others, their_labels = more.longest(words)
            for at in np.flatnonzero(others > lengths).tolist():
                lengths[at], added[at] = others[at], more.names[their_labels[at]]
        skipped, tests = _skipped(text), _tests(text)
        sets = [phrases] if more is None else [more, phrases]
        hashes = words.tolist()

        right_of = {**corrected, **full}

        def made(places: Sequence[int], given: str, *, nested: bool = False, part: bool = False) -> Optional[Match]:
            """Return the match of the words at some positions; None if they are not meant as the name.

            Args:
                places: positions of the words, in the order of the name.
                given: label of the phrase; after a tab, how the word must be written.
                nested: see `Match`.
                part: see `Match`.
            """
            label, _, wanted = given.partition("\t")
            first, last = found[min(places)].start(), found[max(places)].end()
            if skipped.overlap(first, last) and (first, last) not in tests:
                return None
            if wanted == POSSESSIVE and text[last : last + 1] in ("'", "’"):  # "Graves' "
                last += 1
            if len(places) == 1 and places[0] not in added and not _stands_for_name(text, first, last, wanted):
                return None
            group = self._group(label)
            describes = self._language in ENGLISH and len(places) == 1 and places[0] not in added and group in DESCRIBING
            if describes and not nested and is_adjective(text, first, last):
                return None
            if is_title(text[first:last]) or (group == FINDING and means_something_else(text, first, last, group)):
                return None
            if len(places) > 1 and wanted == CAPITALS and not self._is_in_capitals([found[i] for i in places], text):
                return None
            right = None
            if part:
                right = " ".join(right_of.get(i, found[i].group()) for i in places)
            elif any(i in right_of for i in places):
                ends = [found[i].start() for i in places[1:]] + [last]
                right = "".join(right_of.get(i, found[i].group()) + text[found[i].end() : stop] for i, stop in zip(places, ends))
            return Match(first, last, label, right, nested, part)

        taken: List[Tuple[int, int]] = []
        matches: List[Match] = []
        wholes: List[Match] = []  # names that were split into their items
        for at in np.flatnonzero(lengths).tolist():
            end = at + int(lengths[at])
            if not taken or at >= taken[-1][1]:
                if self._is_site_of_longer(at, end, lengths, labels, phrases) or self._overlaps_longer(at, end, lengths, found, labels, phrases):
                    continue
                match = made(range(at, end), added.get(at) or phrases.names[labels[at]])
                if match is None:
                    continue
                items = [made(places, label) for places, label in self._items(match.label, found[at:end], hashes[at:end], at, sets)]
                if items and None not in items:
                    wholes.append(match._replace(nested=True))
                    matches.extend(filter(None, items))
                else:
                    matches.append(match)
                taken.append((at, end))
        if self._language in ENGLISH:
            matches = without_days(with_product_words(self._with_letters(matches, text, sets), text), text)
            matches = self._as_vaccines(self._as_tests(matches, text, sets), text, sets)
            matches = self._with_headings(matches, text, sets, skipped)
        yield from _with_defined(matches, text, self._language, skipped)
        yield from wholes
        if self._language not in ENGLISH:
            return
        inner = [range(a, b) for at, end in taken for a in range(at, end) for b in range(a + 1, end + 1) if b - a < end - at]
        across = [range(at, end) for at, end in self._unlike(taken, lengths)]
        for places, label in zip([*inner, *across], _labels(sets, [[hashes[i] for i in places] for places in [*inner, *across]])):
            if label is not None and (match := made(places, label, nested=True)) is not None:
                yield match
        begins = np.logical_or.reduce([each.begins(words) for each in sets]).tolist()  # most parts are not names, and few words begin one
        tried = [part for part in parts_of([each.group().lower() for each in found]) if begins[part.words[0]]]
        for part, label in zip(tried, _labels(sets, [[hashes[i] for i in part.words] for part in tried])):
            if label is not None and (match := made(part.words, label, part=True)) is not None:
                own = (found[part.item[0]].start(), found[part.item[1] - 1].end()) if part.item else None
                if own is None or not is_warm_and_dry(text, *own):
                    yield match._replace(part=not part.whole, item=own or ())

    def _with_letters(self, matches: List[Match], text: str, sets: Sequence[Phrases]) -> List[Match]:
        """Add what is a name only with the text around it.

        These are letters for findings ("N/V/D") or vital signs ("T 37.2"), words for findings in a list ("urgency, frequency") or in a phrase ("after a fall"),
        tests before values, and names that an abbreviation interrupts.

        Names that were found in their place are removed.
        """
        starts = [match.start for match in matches]

        def is_inside_name(one: Listed) -> bool:
            before = bisect_right(starts, one.start)
            return before > 0 and one.end <= matches[before - 1].end

        in_words = [one for one in worded(text) if not is_inside_name(one)]  # "fall at home" is a name
        one_letter = ((one.start, one.start + 1, one.name) for one in (*letters(text), *vital_signs(text)))
        found = sorted(
            [*one_letter, *listed(text), *letter_pairs(text), *glued(text), *in_words, *interrupted(text)], key=lambda one: (one[0], -one[1])
        )
        labels = _labels(sets, [self._run(name) for _, _, name in found])
        more: List[Match] = []
        for (start, end, name), label in zip(found, labels):
            if label is not None and (not more or start >= more[-1].end):
                more.append(Match(start, end, label.partition("\t")[0], name))
        if not more:
            return matches
        taken = Places((one.start, one.end) for one in more)
        return sorted([*more, *(match for match in matches if not taken.overlap(match.start, match.end))], key=lambda one: (one.start, -one.end))

    def _as_tests(self, matches: List[Match], text: str, sets: Sequence[Phrases]) -> List[Match]:
        """Make substances with a result into tests, if the name of the test is a name: "sodium 140" is looked up as "sodium level".

        In a list of medications, a number without a unit is a dose.
        """
        at = [
            i
            for i, one in enumerate(matches)
            if self._group(one.label) == DRUG
            and has_result(text[one.end : one.end + READ], one.corrected or text[one.start : one.end], text[max(0, one.start - READ) : one.start])
        ]
        if at:
            sections = find_sections(text)
            at = [i for i in at if (section := section_at(sections, matches[i].start)) is None or section.kind != MEDICATIONS]
        if not at:
            return matches
        names = [f"{matches[i].corrected or text[matches[i].start : matches[i].end]} {LEVEL}" for i in at]
        labels = _labels(sets, [self._run(name) for name in names])
        made = list(matches)
        for i, name, label in zip(at, names, labels):
            if label is not None:
                made[i] = made[i]._replace(label=label.partition("\t")[0], corrected=name)
        return made

    def _as_vaccines(self, matches: List[Match], text: str, sets: Sequence[Phrases]) -> List[Match]:
        """Make diseases and germs into vaccines where they stand for one, if its name is a name: "varicella given" is looked up as "varicella vaccine"."""
        at = list(vaccines(matches, [self._group(one.label) for one in matches], text))
        names = [f"{matches[i].corrected or text[matches[i].start : matches[i].end]} {VACCINE}" for i in at]
        made = list(matches)
        for i, name, label in zip(at, names, _labels(sets, [self._run(name) for name in names])):
            if label is not None:
                made[i] = made[i]._replace(label=label.partition("\t")[0], corrected=name)
        return made

    def _with_headings(self, matches: List[Match], text: str, sets: Sequence[Phrases], skipped: Places) -> List[Match]:
        """Add findings whose heading is a part of their name: "NECK: Supple". A finding replaces a name in its place: "ABDOMEN: tenderness"."""
        items = list(headed(text, find_sections(text)))
        each = [(one, name) for item in items for one in item for name in one.names]
        labels = dict(zip(each, _labels(sets, [self._run(name) for _, name in each])))
        places = Places((one.start, one.end) for one in matches)
        made: Dict[Tuple[int, int], Match] = {}
        for item in items:
            for one in item:
                found = ((name, label) for name in one.names if (label := labels[one, name]) is not None and self._group(label) in WHOLE)
                if (first := next(found, None)) is not None:
                    made[one.start, one.end] = Match(one.start, one.end, first[1].partition("\t")[0], first[0])
                    break
        if not made:
            return matches
        taken = {(one.start, one.end) for one in matches}
        fits = [one for place, one in made.items() if (place in taken or not places.overlap(*place)) and not skipped.overlap(*place)]
        instead = {(one.start, one.end) for one in fits}
        return sorted([*fits, *(one for one in matches if (one.start, one.end) not in instead)], key=lambda one: (one.start, -one.end))

    def _items(
        self, label: str, found: Sequence["re.Match[str]"], hashes: Sequence[int], at: int, sets: Sequence[Phrases]
    ) -> List[Tuple[range, str]]:
        """Return the items of a name that lists several disorders, each a name itself: "nausea and vomiting".

        Args:
            label: label of the name.
            found: its words.
            hashes: their hashes.
            at: position of its first word.
            sets: the phrases.

        Returns:
            For each item the positions of its words and its label; nothing if the name is no such list.
        """
        joins = [i for i, word in enumerate(found) if word.group().lower() in ("and", "&", ",")]
        if not joins or self._group(label) != LISTED or self._language not in ENGLISH:
            return []
        items = [range(first, end) for first, end in zip([0, *(i + 1 for i in joins)], [*joins, len(found)])]
        if not all(items):
            return []
        labels = _labels(sets, [[hashes[i] for i in item] for item in items])
        if any(each is None or self._group(each) != LISTED for each in labels):
            return []
        return [(range(at + item.start, at + item.stop), str(each)) for item, each in zip(items, labels)]

    def _group(self, label: str) -> str:
        """Return the semantic group of a label, without how the word must be written; "" if labels are neither types nor groups."""
        label = label.partition("\t")[0]
        if self.label == "group":
            return label
        kind = semantic_types.load().get(label) if self.label == "type" else None
        return kind.group if kind else ""

    def _is_site_of_longer(self, at: int, end: int, lengths: Any, labels: Any, phrases: Phrases) -> bool:
        """Return whether a finding begins in the name of a part of the body and goes beyond it: "leg edema" in "right leg edema"."""
        if self._language not in ENGLISH or end - at < 2 or self._group(phrases.names[labels[at]]) != BODY:
            return False
        return any(
            start + int(lengths[start]) > end and self._group(phrases.names[labels[start]]) in WHOLE for start in range(at + 1, end) if lengths[start]
        )

    def _overlaps_longer(self, at: int, end: int, lengths: Any, found: Sequence["re.Match[str]"], labels: Any, phrases: Phrases) -> bool:
        """Return whether a name with twice as many words begins in a name and goes beyond it: "oriented to person, place, and time" in "alert and oriented".

        In a finding, a word such as "and" must stand before it: in "back pain with lumbar flexion", the pain is in the back, and "pain with lumbar flexion" does
        not count. "disorder, complex partial seizure" goes beyond "seizure disorder" with a sign, and does not count either.
        """
        if self._language not in ENGLISH or end >= len(found) or not found[end].group()[0].isalnum():
            return False
        starts = [start for start in range(at + 1, end) if lengths[start] >= 2 * (end - at) and start + int(lengths[start]) > end]
        if not starts or self._group(phrases.names[labels[at]]) != FINDING:
            return bool(starts)
        return any(found[start - 1].group().lower() in CONJUNCTIONS for start in starts)

    def _run(self, name: str) -> List[int]:
        """Return the hashes of the words of a name."""
        return [_hash(word, self._language) for word in _WORD.findall(name)]

    def _is_body(self, text: str) -> bool:
        """Return whether a text is a name of a part of the body that is looked for; of any name, if labels are neither types nor groups."""
        run = self._run(text)
        label = self._phrases.find([run])[0] if self._phrases is not None and run else None
        return label is not None and self._group(label) in (BODY, "")

    def _is_in_capitals(self, words: Sequence["re.Match[str]"], text: str) -> bool:
        """Return whether one of the words of a name is a letter or a stop word in capitals, or hyphens join them: "IT band", "ca-125", but not "I stop"."""
        if "-" in text[words[0].end() : words[-1].start()]:
            return True
        first = 1 if words[0].group() == "I" else 0  # the person who speaks
        return any(word.group().isupper() and (len(word.group()) == 1 or word.group().lower() in self._stop_words) for word in words[first:])

    def _written_out(self, found: List["re.Match[str]"], words: Any, corrected: Dict[int, str], lengths: Any, labels: Any) -> Dict[int, str]:
        """Find names with shortened words ("abdo pain"), where the unchanged words give no name of that length. The arrays are changed in place.

        Args:
            found: words of the text.
            words: (m,) their hashes; for each returned word, set to the hash of its full form.
            corrected: position -> correct form of misspelt words.
            lengths: (m,) number of words of the longest name that begins at each word; updated for each name found here.
            labels: (m,) index of its label; updated for each name found here.

        Returns:
            Position -> full form of the word.
        """
        lowered = [match.group().lower() for match in found]
        pairs = enumerate(zip(lowered, [*lowered[1:], ""]))
        full = {at: form for at, (word, after) in pairs if at not in corrected and (form := self._other_form(word, after)) is not None}
        if not full or self._phrases is None:
            return {}
        other = words.copy()
        for at, form in full.items():
            other[at] = _hash(form, self._language)
        their_lengths, their_labels = self._phrases.longest(other)
        used: Dict[int, str] = {}
        taken = 0  # position after the last name
        for start in np.flatnonzero(their_lengths).tolist():
            end = start + int(their_lengths[start])
            places = [at for at in full if start <= at < end]
            if start < taken or not places or (end - start < 2 and found[start].group().lower() in SHORT):
                continue
            if any(lengths[at] and at + lengths[at] >= end for at in range(max(0, start - MAX_WORDS), start)):
                continue  # "septic emboli" is a name as it is written
            mine = max((at + int(lengths[at]) for at in range(start, end) if lengths[at]), default=0)
            if end - start > lengths[start] and (end >= mine or end - start > 1):
                lengths[start], labels[start], taken = end - start, their_labels[start], end
                for at in places:
                    used[at], words[at] = full[at], other[at]
        return used

    def _other_form(self, word: str, after: str) -> Optional[str]:
        """Return what a word of a text stands for; None if it stands for itself.

        A shortened word stands for its full form, "emboli" for "embolus", and "hypovolemic" for "hypovolemia" unless it describes the word after it.

        Args:
            word: the word in lower case.
            after: the word or mark after it in lower case; "" at the end.
        """
        if (full := written_out(word)) is not None or self._spelling is None or len(word) > _LONG:
            return full
        key = word, not after.isalpha() or after in self._stop_words
        noun = self._others.get(key)
        if noun is None:
            of_plural, of_adjective = _nouns(word)
            forms = [*of_plural, *(of_adjective if key[1] else ())]
            noun = next((form for form in forms if self._spelling.is_known(_form(form, self._language))), "")
            if len(self._others) >= _REMEMBERED // 10:
                self._others.clear()
            self._others[key] = noun
        return noun or None

    def _unlike(self, taken: List[Tuple[int, int]], lengths: Any) -> Iterator[Tuple[int, int]]:
        """Yield (first word, position after the last) of names that overlap a chosen one but are not in it: "kidney injury" beside "acute kidney"."""
        for at, end in taken:
            for start in range(at + 1, end):
                if lengths[start] and start + int(lengths[start]) > end:
                    yield start, start + int(lengths[start])

    def _corrections(self, found: List["re.Match[str]"], text: str) -> Dict[int, str]:
        """Return position -> correct form for the misspelt words of a text."""
        made: Dict[int, str] = {}
        if self._spelling is None:
            return made
        for at, match in enumerate(found):
            word = match.group()
            if MIN_LETTERS <= len(word) <= _LONG and _may_be_misspelt(match, text):
                if word not in self._corrected:
                    form = _form(word, self._language)
                    fixed = self._spelling.correct(form)
                    self._corrected[word] = None if fixed is None or is_other_word(form, fixed, casing.known_words()) else fixed
                right = self._corrected[word]
                if right is not None:
                    made[at] = right
        return made

    def set_annotations(self, docs: Iterable[Doc], predictions: List[List[Match]]) -> None:
        """Write the names that were found into the Docs. A token that holds more than the name ("GERD.3") is split."""
        for doc, matches in zip(docs, predictions):
            text = doc.text  # spaCy builds this text anew at each access
            cut = [trimmed(Match(ent.start_char, ent.end_char, ent.label_), text) for ent in doc.ents] if self.join and not self.spans_key else []
            _split(doc, [offset for match in [*matches, *cut] for offset in (match.start, match.end)])
            before = [] if self.spans_key else [Match(ent.start_char, ent.end_char, ent.label_, ent=ent) for ent in doc.ents]
            skipped = _skipped(text, self._is_body) if self.join and before else ()  # a recogniser also marks headings
            kept, others = chosen(before, matches, text=text, join=self.join, overwrite=self.overwrite, skipped=skipped)
            if self.all_key is not None:  # without this group, sites would be lost
                parts = [one for one in others if one.part]
                names = {(one.start, one.end) for one in matches}
                kept = with_items(kept, parts, names, join=self.join)
                chosen_ones, kept = kept, without_sites(kept, text, parts)
                places = {(one.start, one.end) for one in kept}
                others = [*others, *(one for one in chosen_ones if (one.start, one.end) not in places)]
            spans = filter_spans(span for match in kept if (span := _span(doc, match)) is not None)
            set_spans(doc, self.spans_key, spans)
            if self.all_key is not None:
                more = [span for match in others if (span := _span(doc, match)) is not None]
                every = {(span.start, span.end, span.id): span for span in [*more, *spans]}
                set_spans(doc, self.all_key, sorted(every.values(), key=lambda span: (span.start, -span.end, span.id)))

    def score(self, examples: Iterable[Any], **kwargs: Any) -> Dict[str, Any]:
        """Score annotated Docs with the scorer of the settings."""
        return dict(self.scorer(examples, **kwargs)) if self.scorer else {}

    def initialize(self, get_examples: Optional[Callable[[], Iterable[Example]]] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the names of the knowledge base again: now, or on first use if they come from a linker in the pipeline.

        The reason is that this linker may be initialised after this component.
        """
        self._phrases, self._spelling, self._added, self._more, self._stopped = None, None, {}, None, NOTHING
        self._forget_words()
        if self.linker_name is not None:
            self.load()

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the phrases as hashes, so that a saved pipeline finds names without a knowledge base. The hashes do not reveal the names."""
        whole = self._whole()
        with writing_folder(Path(path) / FOLDER) as folder:  # a new folder, because files of the old one may be memory-mapped
            _write(folder, whole, self._spelling)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E030, the folder is missing or damaged.
        """
        self._phrases, self._spelling = _read(Path(path) / FOLDER)
        self._forget_words()
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return what `to_disk` writes as bytes."""
        import srsly

        whole = self._whole().to_dict()  # called first, because it loads what has not been read yet
        return bytes(srsly.msgpack_dumps({**whole, "spelling": None if self._spelling is None else self._spelling.to_dict()}))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_bytes` returned.

        Raises:
            SapbertError: E030, the bytes cannot be read.
        """
        import srsly

        content = srsly.msgpack_loads(bytes_data)
        self._phrases = Phrases.from_dict(content)
        self._spelling = Spelling.from_dict(content["spelling"]) if content.get("spelling") else None
        self._forget_words()
        return self

    def _forget_words(self) -> None:
        """Forget what words stand for, because the names that are looked for change."""
        self._corrected.clear()
        self._others.clear()

    def _whole(self) -> Phrases:
        self.load()
        assert self._phrases is not None
        # removals that a linker of the pipeline saves are not applied to what is saved: the loaded linker brings them, and can take them back
        gone = [removed for name, (_, _, removed) in self._added.items() if name not in self.nlp.component_names]
        own = replace(self._phrases, stopped=union(gone).hashes if gone else NOTHING).whole()
        return own if self._more is None else union([own, self._more])


def _is_kb(folder: Path) -> bool:
    return (folder / "kb.sqlite").is_file()


def rules_fingerprint() -> str:
    """Return a hash of the rules of this version by which phrases are made from names."""
    groups = {tui: kind.group for tui, kind in semantic_types.load().items()}
    return default_linkers.fingerprint_of([RULES, sorted(sense_words.short_forms().items()), VERSION, MAX_WORDS, groups])


def _write(folder: Path, phrases: Phrases, spelling: Optional[Spelling]) -> None:
    if spelling is not None:
        spelling.to_disk(folder)
    phrases.to_disk(folder)  # last, because it writes the manifest of all files


def _read(folder: Path) -> Tuple[Phrases, Optional[Spelling]]:
    return Phrases.from_disk(folder), Spelling.from_disk(folder)


def _labels(sets: Sequence[Phrases], runs: List[List[int]]) -> List[Optional[str]]:
    """Return for each run of words the first label that one of several sets of phrases has; None if no set has the run."""
    return [next(filter(None, each), None) for each in zip(*(phrases.find(runs) for phrases in sets))]


def _span(doc: Doc, match: Match) -> Optional[Span]:
    if match.ent is not None:
        return match.ent  # type: ignore[no-any-return]
    identity = {"span_id": match.corrected} if match.part else {}
    span = doc.char_span(match.start, match.end, label=match.label, alignment_mode="expand", **identity)  # type: ignore[arg-type]
    if span is not None and match.corrected is not None and not match.part:
        span._.set(CORRECTED, match.corrected)
    return span


def _with_defined(matches: List[Match], text: str, language: str, skipped: Places) -> List[Match]:
    """Add all places of an abbreviation that the text defines right after a name that was found.

    Args:
        matches: the names that were found, in order.
        text: the text.
        language: language of the text, ISO 639-1.
        skipped: places (characters) in which nothing is looked for.
    """
    if "(" not in text and "[" not in text:
        return matches
    defined = definitions(text, english=language in ENGLISH)
    behind = ((match.label, _IN_BRACKETS.match(text, match.end)) for match in matches)
    forms = {bracket[1]: label for label, bracket in behind if bracket is not None and bracket[1] in defined}
    if not forms:
        return matches
    each = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    taken = Places([*((match.start, match.end) for match in matches), *skipped])
    every = re.finditer(rf"(?<!\w)(?:{each})(?!\w)", text)
    return sorted([*matches, *(Match(*found.span(), forms[found[0]]) for found in every if not taken.overlap(*found.span()))])


def _skipped(text: str, is_body: Optional[Callable[[str], bool]] = None) -> Places:
    """Return the places that hold no mention: known headings, TNM stages, and placeholders of de-identified notes ("[**Name**]").

    Args:
        text: the note.
        is_body: says whether a text is the name of a part of the body. Headings that are one ("Lungs: clear", but not "Heme: stable") are then not skipped.
    """
    kinds = ((section, kind_of(section.title)) for section in find_sections(text) if section.title)
    titles = [
        one
        for one, kind in kinds
        if kind is not None and one.title.lower().rstrip(".") not in _STATEMENTS and not (kind == PART and is_body is not None and is_body(one.title))
    ]
    headings = [(start := text.index(one.title, one.start), start + len(one.title)) for one in titles]
    return Places([*headings, *(match.span() for pattern in (_REMOVED, _STAGE) for match in pattern.finditer(text))])


def _tests(text: str) -> Set[Tuple[int, int]]:
    """Return the places of headings that may name a test or vital sign.

    A result follows on the line of the heading ("CXR: clear"), or nothing and no colon, so that it is a line of a list of tests ("PLAN:", "CBC", "MRI brain").
    """
    found = set()
    for section in find_sections(text):
        if section.title and (kind_of(section.title) in TESTS or section.title.lower() in _MEASURES):
            start = text.index(section.title, section.start)  # a list mark may stand before it: "- CXR: clear"
            end = start + len(section.title)
            after = text[end:].partition("\n")[0]
            many = names_many_tests(section.title)
            listed_alone = not many and not after.strip() and not text[end : section.end].strip()
            if listed_alone or (after.strip(" \t:-–—*_=>") and not (many and after.lstrip().startswith(":"))):
                found.update([(start, end), (start, about_contrast(text, start, end))])
    return found


def _stands_for_name(text: str, start: int, end: int, wanted: str) -> bool:
    """Return whether a word stands for the name that it equals: its case fits, it is not a unit, and not an ordinary word in a line of capitals."""
    word = text[start:end]
    if means_something_else(text, start, end):
        return False
    if wanted == casing.IN_PLURAL:
        if word.lower() in casing.plain_words():
            return False
        wanted = ""
    if wanted.endswith(casing.WITH_HINT):
        wanted = wanted.removesuffix(casing.WITH_HINT)
        if (len(word) == 2 and not word.isupper()) or next(sense_words.hints(text, start, end), None) is None:  # "As" is no "AS"
            return False
    if wanted.endswith(casing.WITH_VALUE):
        wanted = wanted.removesuffix(casing.WITH_VALUE)
        if not has_value(text[end : end + 24].removeprefix("+")):  # "K+ 5.6"
            return False
    before = text[max(0, start - 12) : start]
    is_unit = casing.is_unit(word, before) and not (word.isupper() and has_value(text[end : end + 24]))  # "T 36.4  HR 124"
    if not fits(word, wanted) or is_unit or (wanted == POSSESSIVE and _TITLE.search(before) is not None):
        return False
    if wanted != CAPITALS or not (word.lower() in casing.known_words() or casing.is_plain(word.lower())):
        return True
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    return not (in_capitals(text, start, end) if len(line) > 200 else is_mostly_capitals(line.replace(word, "")))


def _may_be_misspelt(match: "re.Match[str]", text: str) -> bool:
    """Return whether a word may be misspelt. "Johnsen" in the middle of a sentence may not: with its capital, it may be a name of a person."""
    word, before = match.group(), text[max(0, match.start() - 8) : match.start()]
    return word.islower() or word.isupper() or (before.rstrip(" \t")[-1:] in ("", ".", ":", "\n", "-", "•") and _TITLE.search(before) is None)


def _split(doc: Doc, offsets: Iterable[int]) -> None:
    """Split the tokens of a Doc at offsets that lie within them."""
    cuts: Dict[int, List[int]] = {}
    starts = [token.idx for token in doc]
    for offset in sorted(set(offsets)):
        at = bisect_right(starts, offset) - 1
        if at >= 0 and starts[at] < offset < starts[at] + len(doc[at]):
            cuts.setdefault(at, []).append(offset - starts[at])
    if not cuts:
        return
    with doc.retokenize() as retokenizer:
        for at, places in cuts.items():
            word = doc[at].text
            parts = [word[a:b] for a, b in zip([0, *places], [*places, len(word)])]
            retokenizer.split(doc[at], parts, heads=[(doc[at], 0)] * len(parts))
