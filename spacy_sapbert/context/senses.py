"""The disambiguator of this package: it chooses the meaning of an abbreviation by the text around it."""

import re
from difflib import get_close_matches
from pathlib import Path  # no `from __future__ import annotations`: spaCy reads the types of registered functions
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import fail
from ..kb.concept import OWN, is_cui, normalise, other_numbers
from ..kb.knowledge_base import KnowledgeBase
from ..kb.no_words import is_no_word
from ..kb.writing import CAPITALS, MEASURED, fits, has_value, in_capitals, is_acronym, texts_of
from .base import Candidates, Choice
from .sections import find_sections, section_at
from .sense_model import MOST, Meaning, SenseModel, normal, read_context
from .sense_words import BESIDE, NEAR, hints

_LETTERS = re.compile(r"[^\W\d_]+")
CLINICAL = "clinical"
DATA = Path(__file__).parents[1] / "data" / "senses"  # made by `python -m training senses`
MIN_PROBABILITY = 0.5
VALUE_ODDS = 10.0  # a test is so many times as probable if a value follows
UPPER, SEEN_IN_CASE = 2, 3  # index of capitals in `Meaning.cases`; case counts only if the lists have the abbreviation in capitals at least so often
OTHER_CASE = 0.02  # factor for a meaning that the lists never have in capitals, if the text is in capitals
WORD_LETTERS = 4  # a shorter word is often an abbreviation even in lower case: "pt", "cp"
# a value without its last digit: "SBP in the low 90s", "dropped to the 80s", but not "in his 60s"
_TENS = re.compile(r"[ \t]+(?:(?!his\b|her\b|their\b)[a-z]+[ \t]+){0,5}\d{1,2}0'?s\b", re.IGNORECASE)
_VALUE_READ = 24  # characters after an abbreviation in which its value begins
_AMOUNTS = MEASURED - {"T060"}  # a value is no result of an imaging: "HCT 33" is no head CT
PERCENT_ODDS = (
    100.0  # a receptor is so many times as probable if a percentage or a score of 8 follows: "ER 95%" is the share of cells, "ER 8/8" Allred's score
)
_PERCENT = re.compile(r"[ \t]*[:=]?[ \t]*[<>~≈]?[ \t]*(?:\d{1,3}(?:[ \t]?[-–][ \t]?\d{1,3})?[ \t]?%|[0-8]/8(?![\d/]))")
HINT_ODDS = 1e6  # a meaning is so many times as probable if words around the abbreviation point to it, see `sense_words`
SHORT_WORDS = frozenset(["arm", "ear", "eye", "leg", "hip", "toe", "jaw", "lip", "rib", "sad"])  # but these are words
NO_ABBREVIATION = "not an abbreviation"  # how the lists mark a word that is what it says: "ache", "pH"
# words that make another thing of a meaning
OTHER_THINGS = frozenset(
    [
        "absence",
        "cystitis",
        "deficiency",
        "disease",
        "disorder",
        "elevation",
        "gene",
        "infection",
        "lobe",
        "pain",
        "reduction",
        "space",
        "syndrome",
        "tenderness",
    ]
)
_SMALL_WORDS = frozenset(["and", "for", "from", "the", "with"])
WORD_START, ALIKE = 7, 0.8  # words with the same first letters, or this similar (difflib's ratio), count as the same word
UNLISTED = 0.02  # frequency of a concept that has the abbreviation as a name but is in no list of clinical abbreviations


class Option(NamedTuple):
    """A meaning and its concept in the knowledge base; None if the knowledge base does not have it."""

    meaning: Meaning
    concept: Optional[str]


class Senses:
    """Chooses between the meanings of clinical abbreviations: `spacy-sapbert.Senses.v1`.

    Args:
        model: folder of a sense model; "clinical": the model of this package; None: the model in the linker folder, and no choice if it has none.
        min_probability: 0 to 1; an abbreviation is NIL if its best meaning is less probable than this.

    Raises:
        SapbertError: E002, `min_probability` is not between 0 and 1.
    """

    def __init__(self, model: Union[str, Path, None] = None, min_probability: float = MIN_PROBABILITY) -> None:
        if not 0.0 <= min_probability <= 1.0:
            why = "it must be a share, between 0 and 1."
            raise fail("E002", setting="min_probability", component="spacy-sapbert.Senses.v1", value=min_probability, why=why)
        self.model, self.min_probability = model, min_probability
        self._opened: Dict[Path, SenseModel] = {}
        self._options: WeakKeyDictionary[KnowledgeBase, Dict[Any, List[Option]]] = WeakKeyDictionary()  # each addition makes a new knowledge base

    def choose(self, found: Sequence[Candidates], kb: KnowledgeBase, folder: Optional[Path]) -> List[Optional[Choice]]:
        """Return a choice for each span that is a known abbreviation, or a word to whose meaning the words around it point; None for the others.

        Raises:
            MissingFile: E045, there is no model at `model`.
            DamagedFile: E046.
        """
        place = folder if self.model is None else DATA if self.model == CLINICAL else Path(self.model)
        if place is None or not found:
            return [None] * len(found)
        model = self._open(place)
        text = found[0].span.doc.text
        options = [self._options_of(model, each, kb, text) for each in found]
        if not any(options):
            return [_by_words(each, text, kb) for each in found]
        lowered = text.lower()
        sections = find_sections(text)
        linked = {each.concepts[0][0] for each, known in zip(found, options) if each.linked and each.concepts and not known}
        chosen: List[Optional[Choice]] = []
        for each, known in zip(found, options):
            if not known:
                chosen.append(_by_words(each, text, kb))
                continue
            span = each.span
            section = section_at(sections, span.start_char)
            context = read_context(text, span.start_char, span.end_char, "" if section is None else section.kind)
            if each.mention.islower() and is_no_word(each.mention):  # "mrsa" is MRSA in small letters, so they say nothing
                context = context._replace(case=-1)
            known, hinted = _with_hints(known, text, span.start_char, span.end_char, kb)
            in_note = [option.concept in linked or option.meaning.name.lower() in lowered for option in known]
            meanings = [option.meaning for option in known]
            probabilities = model.probabilities(model.evidence(meanings, context, in_note))
            if _has_value(text, span.end_char):
                probabilities = self._measured(known, probabilities, kb, percent=_has_percent(text, span.end_char))
            if context.case == UPPER and not in_capitals(text, span.start_char, span.end_char):
                probabilities = _in_their_case(known, probabilities)
            if hinted:
                raised = probabilities * np.where([option.concept in hinted for option in known], HINT_ODDS, 1.0)
                probabilities = np.minimum(raised / raised.sum(), MOST)
            chosen.append(None if known[int(np.argmax(probabilities))].meaning.name == NO_ABBREVIATION else self._choice(known, probabilities))
        return chosen

    def _measured(self, known: Sequence[Option], probabilities: Any, kb: KnowledgeBase, *, percent: bool) -> Any:
        """Return the probabilities if a value follows ("ALT 190"): tests and vital signs become more probable; with a percentage, receptors, too ("ER 95%")."""
        rows = [None if option.concept is None else kb.row_of(option.concept) for option in known]
        tests = [row is not None and not MEASURED.isdisjoint(kb.types_of(row)) for row in rows]
        receptors = [percent and row is not None and _is_receptor(row, kb) for row in rows]
        raised = probabilities * np.where(receptors, PERCENT_ODDS, np.where(tests, VALUE_ODDS, 1.0))
        return np.minimum(raised / raised.sum(), MOST)

    def _choice(self, known: Sequence[Option], probabilities: Any) -> Choice:
        order = np.argsort(-probabilities, kind="stable").tolist()
        best = known[order[0]]
        concepts: Dict[str, float] = {}
        for i in order:
            concept = known[i].concept
            if concept is not None:
                concepts[concept] = concepts.get(concept, 0.0) + float(probabilities[i])
        decided = best.concept is not None and concepts[best.concept] >= self.min_probability
        first = [] if best.concept is None else [best.concept]
        ranked = [*first, *(concept for concept in sorted(concepts, key=lambda c: -concepts[c]) if concept not in first)]
        return Choice([(concept, min(concepts[concept], 1.0)) for concept in ranked], best.meaning.name, decided)

    def _options_of(self, model: SenseModel, found: Candidates, kb: KnowledgeBase, text: str) -> List[Option]:
        """Return the meanings of a span's text: those that the model knows, and the concepts that have it as a name."""
        meanings = model.meanings_of(found.mention)
        if not meanings or text[found.span.start_char : found.span.end_char] != found.mention:  # if the text defines it, there is nothing to choose
            return []
        best = found.concepts[0][1] if found.concepts else 0.0
        tied = [concept for concept, score in found.concepts if score == best] if found.exact else []
        key, cached = (id(model), found.mention, tuple(tied)), self._options.setdefault(kb, {})
        if key not in cached and _is_word(found.mention, tied, kb):
            cached[key] = []
        elif key not in cached and (exact := _only_one_written_so(found.mention, tied, kb)) is not None:
            name = kb.canonical_name_of(kb.row_of(exact))
            cached[key] = [Option(Meaning(normal(found.mention), name, (exact,), 1.0), exact)]
        elif key not in cached:
            options = [Option(meaning, _concept_of(meaning, kb) or _tied_concept_of(meaning, tied, kb)) for meaning in meanings]
            own = [concept for concept in tied if _is_own_name(found.mention, concept, kb)]
            if own:
                options = [option for option in options if option.concept is not None or not _only_listed(option.meaning)]
            known, listed = {option.concept for option in options}, all(_only_listed(option.meaning) for option in options)
            for concept in tied:
                if concept not in known:
                    name = kb.canonical_name_of(kb.row_of(concept))
                    frequency = 1.0 if listed and concept in own else UNLISTED
                    options.append(Option(Meaning(normal(found.mention), name, (concept,), frequency), concept))
            cached[key] = options
        return cached[key]

    def _open(self, folder: Path) -> SenseModel:
        if folder not in self._opened:
            self._opened[folder] = SenseModel.load(folder)
        return self._opened[folder]

    # pickled for a worker process, which opens the model again
    def __getstate__(self) -> Dict[str, Any]:
        return {"model": self.model, "min_probability": self.min_probability}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _is_word(mention: str, concepts: Sequence[str], kb: KnowledgeBase) -> bool:
    """Return whether a mention is an ordinary word that one of the concepts has as a name, and not an abbreviation: "cold" is not COLD.

    A name that a user removed from a concept counts, too: "cold" stays a word if it may not mean a common cold any more.
    """
    if (len(mention) < WORD_LETTERS and mention.lower() not in SHORT_WORDS) or not mention.isalpha() or fits(mention, CAPITALS):
        return False
    forms = {normalise(mention), *other_numbers(normalise(mention))}
    texts = [text for concept in concepts for text in texts_of(kb, concept, forms)]
    return not all(map(is_acronym, [*texts, *kb.removed_names(forms)]))


def _by_words(found: Candidates, text: str, kb: KnowledgeBase) -> Optional[Choice]:
    """Return the choice for a word that is no abbreviation, if words around it point to exactly one meaning: "plaque" near "carotid" is no skin plaque.

    If only words "near" it point to several meanings, those of the nearest word count. The other candidates stay behind it. None: the result of the
    linker stays.
    """
    span = found.span
    if text[span.start_char : span.end_char] != found.mention:
        return None
    near = [(kb.concept_id(rows[0]), hint) for hint in hints(text, span.start_char, span.end_char) if (rows := kb.rows_of(hint.concept))]
    if not near:
        return None
    if all(hint.side == NEAR for _, hint in near):
        nearest = min(hint.distance for _, hint in near)
        near = [(concept, hint) for concept, hint in near if hint.distance == nearest]
    meant = {concept: hint.meaning for concept, hint in near}
    if len(meant) != 1:
        return None
    concept, meaning = next(iter(meant.items()))
    if found.linked and found.concepts and found.concepts[0][0] == concept:
        return None
    rest = [(other, min(score, 1 - MOST)) for other, score in found.concepts if other != concept]
    return Choice([(concept, MOST), *rest], meaning, True)


def _with_hints(known: List[Option], text: str, start: int, end: int, kb: KnowledgeBase) -> Tuple[List[Option], Set[str]]:
    """Return the options with the meanings to which words around the abbreviation point, and the concepts of these meanings.

    Words directly beside it count more than others: "Echo: RA dilated, COPD". If a value follows, and the abbreviation may stand for something that is
    measured, words that stand only near it count for what is measured: "SBP 110" is a blood pressure in a note on ascites, too.

    Args:
        known: the options of the abbreviation.
        text: the note.
        start: first character of the abbreviation.
        end: character after its last one.
        kb: the knowledge base; meanings that it does not have do not count.
    """

    percent = _has_percent(text, end)

    def is_measured(row: int) -> bool:
        return not _AMOUNTS.isdisjoint(kb.types_of(row)) or (percent and _is_receptor(row, kb))

    valued = _has_value(text, end) or _TENS.match(text, end) is not None
    valued = valued and any(option.concept is not None and is_measured(kb.row_of(option.concept)) for option in known)
    more, hinted = list(known), set()
    around = list(hints(text, start, end))
    for hint in [hint for hint in around if hint.side in BESIDE] or around:
        rows = kb.rows_of(hint.concept)
        if not rows or (valued and hint.side == NEAR and not is_measured(rows[0])):
            continue
        concept = kb.concept_id(rows[0])
        hinted.add(concept)
        if all(option.concept != concept for option in more):
            more.append(Option(Meaning(normal(text[start:end]), hint.meaning, (hint.concept,), UNLISTED), concept))
    return more, hinted


def _has_value(text: str, end: int) -> bool:
    """Return whether a value follows the abbreviation that ends before a character."""
    return has_value(text[end : end + _VALUE_READ])


def _has_percent(text: str, end: int) -> bool:
    """Return whether a percentage or a score of 8 follows the abbreviation that ends before a character."""
    return _PERCENT.match(text, end, end + _VALUE_READ) is not None


def _is_receptor(row: int, kb: KnowledgeBase) -> bool:
    return kb.canonical_name_of(row).lower().endswith(" receptor")


def _in_their_case(known: Sequence[Option], probabilities: Any) -> Any:
    """Return the probabilities for an abbreviation in capitals: meanings that the lists have in capitals more often become more probable.

    A meaning that the lists have only in lower case is improbable: "CT" is not count, "ALT" is not alternate, "PT 19" is not patient.
    """
    capitals = np.array([option.meaning.cases[UPPER] for option in known], dtype=np.float64)
    if capitals.sum() < SEEN_IN_CASE:
        return probabilities
    small = [sum(option.meaning.cases) >= 2 and not option.meaning.cases[UPPER] for option in known]
    changed = probabilities * (capitals + 0.5) * np.where(small, OTHER_CASE, 1.0)
    return np.minimum(changed / changed.sum(), MOST)


def _concept_of(meaning: Meaning, kb: KnowledgeBase) -> Optional[str]:
    """Return the concept of a meaning: by its CUIs, or else by its name; None if there is none.

    If no concept of the CUIs has the meaning as a name, but another concept with a CUI has, it is this one: a vocabulary may have "tender to palpation" as
    a name of tenderness, and not of C0030247, which is palpation. By name, a concept with a CUI comes first, then one whose canonical name it is.
    """
    own = [kb.concept_id(rows[0]) for cui in meaning.cuis if (rows := kb.rows_of(cui))]
    for row in kb.find([meaning.name]).values():
        named = [concept for concept, _ in kb.names_of_surface_form(row)]
        best = kb.concept_id(
            min(named, key=lambda row: (not is_cui(kb.concept_id(row)), kb.canonical_name_of(row).lower() != meaning.name.lower(), row))
        )
        ids = {kb.concept_id(concept) for concept in named}
        return next((concept for concept in own if concept in ids), own[0] if own and not is_cui(best) else best)
    return own[0] if own else None


def _only_one_written_so(mention: str, tied: Sequence[str], kb: KnowledgeBase) -> Optional[str]:
    """Return the only concept that has a mention with small and capital letters, such as "pH" or "HbA1c", as a name in just these letters."""
    if mention.isupper() or mention.islower() or mention.istitle():
        return None
    so = [concept for concept in tied if any(name.text == mention for name in kb.names_of(kb.row_of(concept)))]
    return so[0] if len(so) == 1 else None


def _is_own_name(mention: str, concept: str, kb: KnowledgeBase) -> bool:
    """Return whether this project wrote a mention as a name of a concept."""
    forms = {normalise(mention), *other_numbers(normalise(mention))}
    return any(name.source == OWN and normalise(name.text) in forms for name in kb.names_of(kb.row_of(concept)))


def _only_listed(meaning: Meaning) -> bool:
    """Return whether a meaning is only in a list, and nobody has counted it in notes: "split beam radiation therapy" for SBRT."""
    return meaning.name != NO_ABBREVIATION and meaning.profile < 0 and not any(meaning.cases)


def _tied_concept_of(meaning: Meaning, tied: Sequence[str], kb: KnowledgeBase) -> Optional[str]:
    """Return the only concept with the abbreviation as a name that has the meaning in almost the same words; None if there is none.

    A name of it must have the letters of the meaning ("broncho-pulmonary"), or all of its words, in this or another form ("rapidly progressive
    glomerulonephritis" for "rapidly progressing glomerulonephritis"), also misspelt. It may have one word more ("oxygen saturation" for
    "saturation"), but none that makes another thing of it: "G6PD deficiency" is not glucose-6-phosphate dehydrogenase.
    """
    names = {concept: [name.text for name in kb.names_of(kb.row_of(concept))] for concept in tied}
    letters = _bare(meaning.name)
    same = [concept for concept, texts in names.items() if letters in map(_bare, texts)]
    if len(same) == 1:
        return same[0]
    wanted = _content_words(meaning.name)
    fitting: Dict[str, int] = {}  # concept -> smallest number of additional words
    for concept, texts in names.items():
        for text in texts:
            more = None if normal(text) == meaning.abbreviation else _additional(wanted, _content_words(text))
            if more is not None and len(more) <= 1 and OTHER_THINGS.isdisjoint(more):
                fitting[concept] = min(fitting.get(concept, len(more)), len(more))
    best = [concept for concept, count in fitting.items() if count == min(fitting.values())]
    return best[0] if len(best) == 1 else None


def _bare(text: str) -> str:
    """Return the letters and digits of a text in lower case: "broncho-pulmonary" and "bronchopulmonary" are the same."""
    return re.sub(r"[\W_]+", "", text.lower())


def _additional(wanted: Sequence[str], there: Sequence[str]) -> Optional[List[str]]:
    """Return the words of a name that are not in a meaning; None if the name does not have all words of the meaning."""
    rest = list(there)
    for word in wanted:
        same = [other for other in rest if other[:WORD_START] == word[:WORD_START]] or get_close_matches(word, rest, 1, ALIKE)
        if not same:
            return None
        rest.remove(same[0])
    return rest if wanted else None


def _content_words(text: str) -> List[str]:
    """Return the words of a text in lower case, without words of one or two letters, "and" and the like."""
    return [word for word in _LETTERS.findall(text.lower()) if len(word) > 2 and word not in _SMALL_WORDS]
