"""In which letter case a text must write a name, judged by how its sources write it, and whether a word of a text is written so.

The requirement is a text that stands in the label of a phrase after a tab: how the word must be written ("" is any way), and what else must be there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ..context import sense_words
from ..kb.knowledge_base import MatchableName
from ..kb.no_words import is_no_word
from ..kb.writing import CAPITALS, MEASURED, NOT_LOWER, POSSESSIVE, fits, has_value, in_capitals, is_acronym, is_mostly_capitals, is_possessive
from .beside import is_after_title
from .plain_findings import PLAIN_FINDINGS, is_finding
from .units import is_unit
from .word_lists import abbreviations, begins_word, is_plain, known_words, meant_abbreviations, plain_words
from .words import form_of

SYMBOL_LETTERS = 3  # "Mg", "Pap", "Na"; a longer word with one capital is an ordinary word at the beginning of a name
WITH_HINT = " with hint"  # the name counts only if words around it point to a meaning, see `context.sense_words`: "SRS" near "brain"
WITH_VALUE = " with value"  # the name counts only if a value follows: "Hb 98", "weight 71 kg"
WITH_WORDS = " with words"  # a plain word that is a finding only with certain words around it, see `plain_findings`
WITH_S = " with s"  # the name ends in a capital "S", which is no plural: "CRMS" is not found as "CRM"
IN_PLURAL = "in plural"  # the singular is a plain word, and no name: "palps" is, "palp" is palpation
ONLY_PLURAL = "only plural"  # the singular is an adjective or a person: "retrogrades" is a name, "retrograde" is none
CAPITALS_IN_PLURAL = CAPITALS + " in plural"  # the same of an acronym: "SIRS" is a name, "SIR" is none
OR_PLURAL = " or plural"  # the plural may be written in any way: "pons" beside "PON", "plts" beside "Plt"
_VALUE_READ = 24  # characters after a word in which its value begins
_ACRONYMS = frozenset(["dress", "pad"])  # acronyms whose capitals tell them from a plain word
_HORMONE = "T125"  # a semantic type that is measured, too: "LH 12"
_INHIBITOR = re.compile(r"[A-Z]{3,}\d?i|[A-Z]{2,}\d[A-Z]*i")  # "ACEi", "SGLT2i"
_DONE = frozenset(["T058", "T059", "T060", "T061", "T201"])  # types of tests and procedures
_ADJECTIVE = re.compile(r"[a-z]{3,}(?:ade|al|ar|ic|ous)")
_MISSING = re.compile(r"[^\W\d_]{3,}s")  # a name of a disease without its apostrophe: "Hashimotos"
_PEOPLE = frozenset(["bells", "graves", "isaacs", "simmonds", "williams"])  # people whose names end in "s"
_LONG_LINE = 200  # characters; of a longer line only the text near the word is read

# -- names --------------------------------------------------------------------------------------------------------------


def required_case(
    name: MatchableName, words: Sequence[str], language: str, stop_words: Collection[str], *, hinted: bool = False, short_form: bool = False
) -> str | None:
    """Return how a text must write a name to be found; None if the name is not looked for.

    Args:
        name: the name.
        words: its words.
        language: its language, ISO 639-1.
        stop_words: words that are no names.
        hinted: whether it counts only if words around it point to a meaning.
        short_form: whether words around it can point to a meaning, see `context.sense_words`.
    """
    if is_symbol(name):
        return CAPITALS + WITH_VALUE
    if len(words) == 1 and name.texts:  # a name that a user added has no texts, and counts in any case
        return _case_of_word(name, language, hinted, short_form)
    if are_joined_letters(words) or (name.texts and has_word_in_capitals(words, name.texts, stop_words)):
        return CAPITALS
    return ""


def _case_of_word(name: MatchableName, language: str, hinted: bool, short_form: bool) -> str | None:
    """Return the same for a name of one word. A plain word, or two letters, that are no clinical abbreviation need a value or a hint."""
    case = case_in_sources(name.texts)
    if hinted:
        return case + WITH_HINT
    if not case and name.name in PLAIN_FINDINGS:
        return WITH_WORDS
    known = bool(case) and not abbreviations().isdisjoint(name.texts)
    if not known and (is_plain(name.name) or (case and len(name.name) == 2)):
        if (
            case == CAPITALS
            and len(name.name) > 2
            and not short_form
            and (name.name in _ACRONYMS or (name.name.endswith("s") and name.name not in plain_words()))
        ):
            return CAPITALS if name.name in _ACRONYMS else CAPITALS_IN_PLURAL
        if not MEASURED.isdisjoint(name.tuis) or (case and _HORMONE in name.tuis):
            return case + WITH_VALUE
        return CAPITALS + WITH_HINT if short_form else None
    if not case and _is_plural_of_adjective(name, language):
        return ONLY_PLURAL
    return IN_PLURAL if not case and form_of(name.name, language) in plain_words() else case


def _is_plural_of_adjective(name: MatchableName, language: str) -> bool:
    """Return whether a name of a test or procedure is an adjective with an "s": "retrogrades", "orthostatics"."""
    is_test = not _DONE.isdisjoint(name.tuis) and name.name.endswith("s") and any(map(str.islower, name.texts))
    return is_test and _ADJECTIVE.fullmatch(form_of(name.name, language)) is not None


def is_possessive_without_sign(name: MatchableName) -> bool:
    """Return whether a name of one word may be the possessive of a person without its apostrophe: "Murphys"."""
    return bool(name.texts) and all(text.istitle() and _MISSING.fullmatch(text) is not None for text in name.texts) and name.name not in _PEOPLE


def of_both(label: str | None, other: str, name: MatchableName) -> str:
    """Return the label of a word that two names share, because one is the plural of the other, as in "Apgars" and "APGAR".

    Args:
        label: label of the first name; None if there is no such name.
        other: label of the second name.
        name: the second name.
    """
    if label is None or label.endswith((CAPITALS_IN_PLURAL, ONLY_PLURAL)):  # of "ACTS" and "ACT", the latter counts
        return other
    if other.endswith(ONLY_PLURAL):
        return label
    group, _, case = label.partition("\t")
    is_plural = name.name.endswith("s") and len(name.name) > SYMBOL_LETTERS and any(text[1:].islower() for text in name.texts)
    return f"{label}{OR_PLURAL}" if is_plural and other == group and case in (CAPITALS, NOT_LOWER) else label


def case_in_sources(texts: Iterable[str]) -> str:
    """Return the case in which all sources write a word.

    Args:
        texts: the word as the sources write it: "COPD", "copd".

    Returns:
        CAPITALS for an acronym ("CHILD", "DVTs"), NOT_LOWER for a short symbol ("Mg"), POSSESSIVE for the short name of a disease ("Graves'"),
        "" for an ordinary word in any case.
    """
    texts = list(texts)
    if texts and all(is_possessive(text) for text in texts):
        return POSSESSIVE
    if all(is_acronym(text) for text in texts):
        return CAPITALS
    if all(len(text) <= SYMBOL_LETTERS and text != text.lower() for text in texts):
        return NOT_LOWER
    return ""


def ends_in_capital_s(texts: Iterable[str]) -> bool:
    """Return whether all sources write a word as an acronym that ends in a capital "S": "CRMS", but not "DVTs".

    If the word without it is an abbreviation whose meanings are known, it may be meant: "AAA" is found although the name is "AAAS".
    """
    texts = list(texts)
    return bool(texts) and all(is_acronym(text) and text.endswith("S") and text[:-1].lower() not in meant_abbreviations() for text in texts)


def has_word_in_capitals(words: Sequence[str], texts: Iterable[str], stop_words: Collection[str]) -> bool:
    """Return whether all sources write a stop word of a name in capitals: "HER family" is not "her family", "IT band" is not "it band".

    "I" after another stop word is the person who speaks, and may be small: "burning when i pee".

    Args:
        words: the words of the name in lower case.
        texts: the name as the sources write it.
        stop_words: words that are no names.
    """
    likely = [word for at, word in enumerate(words) if word in stop_words and not (word == "i" and at and words[at - 1] in stop_words)]
    return bool(likely) and any(all(word.upper() in re.findall(r"[^\W_]+", text) for text in texts) for word in likely)


def is_symbol(name: MatchableName) -> bool:
    """Return whether a name is one letter, which all sources write as a capital, and which has a value: "K" in "K 5.9"."""
    if len(name.name) != 1 or MEASURED.isdisjoint(name.tuis):
        return False
    return bool(name.texts) and all(len(text) == 1 and text.isupper() for text in name.texts)


def are_joined_letters(words: Sequence[str]) -> bool:
    """Return whether a name is two letters with "&" between them: "D&C", "U&Es"."""
    return len(words) == 3 and words[1] == "&" and len(words[0]) == len(words[2].removesuffix("s") or "s") == 1


# -- texts --------------------------------------------------------------------------------------------------------------


def is_written_so(text: str, start: int, end: int, required: str) -> bool:
    """Return whether a word stands for the name that it equals: its case fits, it is not a unit, and not an ordinary word in a line of capitals.

    Args:
        text: the text.
        start: first character of the word.
        end: the character after it.
        required: what `required_case` returned.
    """
    word, after = text[start:end], text[end : end + _VALUE_READ]
    if required.startswith(CAPITALS + WITH_S):
        if not word.lower().endswith("s"):
            return False
        required = required.replace(WITH_S, "", 1)
    if required == WITH_WORDS:
        return is_finding(text, start, end)
    if required == ONLY_PLURAL:
        return word.lower().endswith("s")
    if required == IN_PLURAL:
        if word.lower() in plain_words():
            return False
        required = ""
    if required.endswith(OR_PLURAL):
        required = "" if word.endswith("s") and len(word) > SYMBOL_LETTERS else required.removesuffix(OR_PLURAL)
    if required == CAPITALS_IN_PLURAL:
        if word.lower() in plain_words():
            return False
        required = CAPITALS
    if required.endswith(WITH_HINT):
        required = required.removesuffix(WITH_HINT)
        if required == CAPITALS and word[0].isupper() and sum(map(str.isupper, word)) > 1:  # "CaP", which the table may write so
            required = ""
        if (len(word) == 2 and not word.isupper()) or next(sense_words.hints(text, start, end), None) is None:  # "As" is no "AS"
            return False
    if required.endswith(WITH_VALUE):
        required = required.removesuffix(WITH_VALUE)
        if not has_value(after.removeprefix("+")):  # "K+ 5.6"
            return False
    before = text[max(0, start - 12) : start]
    is_of_number = is_unit(word, before) and not (word.isupper() and has_value(after))  # "T 36.4  HR 124"
    if not _is_written(word, required) or is_of_number or (required == POSSESSIVE and is_after_title(before)):
        return False
    return required != CAPITALS or not _is_ordinary(word) or not _is_in_line_of_capitals(text, start, end)


def _is_written(word: str, required: str) -> bool:
    """Return whether the case of a word fits, see `fits`.

    Acronyms may end in "i" for "inhibitor", and be written in small letters if these are no word ("copd") and do not begin one ("incl"). Short names of diseases may lack their apostrophe.
    """
    if fits(word, required):
        return True
    if required == CAPITALS:
        return _INHIBITOR.fullmatch(word) is not None or (word[1:].islower() and is_no_word(lowered := word.lower()) and not begins_word(lowered))
    return required == POSSESSIVE and word.istitle() and _MISSING.fullmatch(word) is not None and word.lower() not in _PEOPLE


def _is_ordinary(word: str) -> bool:
    lowered = word.lower()
    return lowered in known_words() or is_plain(lowered)


def _is_in_line_of_capitals(text: str, start: int, end: int) -> bool:
    """Return whether the line around a word is written in capitals. Then its capitals do not show that it is an acronym."""
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    return in_capitals(text, start, end) if len(line) > _LONG_LINE else is_mostly_capitals(line.replace(text[start:end], ""))


def has_capitals(words: Sequence[re.Match[str]], text: str, stop_words: Collection[str]) -> bool:
    """Return whether one of the words of a name is a letter or a stop word in capitals, or hyphens join them to a number: "IT band", "ca-125", but not "I stop", "b-all".

    Args:
        words: the words, as they were found in the text.
        text: the text.
        stop_words: words that are no names.
    """
    if "-" in text[words[0].end() : words[-1].start()] and not all(
        word.group().islower() and (len(word.group()) == 1 or word.group() in stop_words) for word in words
    ):
        return True
    first = 1 if words[0].group() == "I" else 0  # the person who speaks
    return any(word.group().isupper() and (len(word.group()) == 1 or word.group().lower() in stop_words) for word in words[first:])
