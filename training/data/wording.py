"""Prepare the text of a definition: clean it, cut it to the length that an encoder reads, and remove the names of its own concept.

A grounding text must say what a concept is without naming it. Otherwise a model learns only that a name is similar to a text that contains
it (BioLORD: Remy et al., Findings of EMNLP 2022). So the names of the concept become "it": "Gout is a disease of …" becomes "It is a disease
of …". A text that says nothing without the names is left out.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from spacy_sapbert.kb.concept import normalise

MAX_CHARS = 1000  # about 250 word pieces; 98% of the open ontologies' definitions are under 600 characters
MIN_WORDS, MIN_CHARS = 3, 25  # a text below both is a name, not a definition: "Joint pain."
SHORT = 5  # most characters of an abbreviation
EMPTY, NAME, TOO_SHORT, NO_END, ONLY_NAMES, NAMED = "empty", "equal_to_a_name", "too_short", "enormous", "only_its_names", "names_itself"

_MARKUP = re.compile(
    r"</?(?:p|b|i|em|ul|ol|li|br|a|sub|sup|strong|h\d|div|span)\b[^<>]*>", re.IGNORECASE
)  # in the definitions of MEDLINEPLUS in MRDEF
_REMARK = re.compile(  # remarks of editors: UBERON marks the origin of a definition, ORDO marks that a word is a term
    r"\s*\[(?:automatically generated definition|(?-i:[A-Z])\w*(?::\w+)?(?:,\s*(?:unvetted|vetted|modified))?)\]|\s*\(see (?:this term|these terms)\)|[,;]\s*see (?:this term|these terms)(?=\))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)(?<!\bal)(?<!\bapprox)(?<!\bspp)[.!?][\"')\]]*(?=\s|$)")
_SUFFIX = r"(?:['’]?s|es)?(?!\w)"  # a plural or possessive names the concept too
_END = re.compile(_SUFFIX)
_DASH, _QUOTE = "[-\u2010-\u2015\u2212\ufe58\ufe63\uff0d]", "['\u2018\u2019\u201b\u02bc\u00b4`]"
_IT_IN_BRACKETS = re.compile(r"\s*[(\[]\s*(?:or |also |also called |abbreviated )?its?\s*[)\]]", re.IGNORECASE)  # "It (it) is"
_ALSO_KNOWN_AS_IT = re.compile(
    r",?\s*\b(?:also|sometimes|formerly|commonly|otherwise)\s+(?:known as|called|termed|referred to as|abbreviated as)\s+it\b,?"
)
_REPEATED_IT = re.compile(r"\b(it)(?:(?:,| or| and|, or|, and|;|/)\s*it\b)+", re.IGNORECASE)
_EMPTY_WORDS = frozenset({"it", "its", "a", "an", "the", "is", "are", "of", "in", "any", "or", "and"})
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # zero-width spaces and soft hyphens: a name that contains them would not be found


class Judged(NamedTuple):
    """The decision about a definition.

    Attributes:
        text: The text to use; empty if it is left out.
        why: Why it is left out.
        cut: Whether it was too long and was cut.
        renamed: Whether a name of the concept was replaced by "it".
    """

    text: str
    why: str = ""
    cut: bool = False
    renamed: bool = False


def judge(text: str, own: OwnNames, is_name: Callable[[str], bool] = lambda text: False) -> Judged:
    """Decide whether and how a concept's definition is used.

    The rules, in this order:
    - An empty text, a text that is a name, and a text of fewer than MIN_WORDS words and MIN_CHARS characters are left out.
    - A text of more than MAX_CHARS characters is cut after the last sentence that ends within them; if none does, it is left out.
    - Names of the concept become "it". If fewer than two words other than "it", articles and the like are left, the text is left out.

    Args:
        text: The definition.
        own: The concept's names.
        is_name: Whether a text is a name of any concept.
    """
    text = tidy(text)
    if not any(c.isalnum() for c in text):
        return Judged("", EMPTY)
    bare = text.rstrip(" .;:,")
    if own.equal(bare) or is_name(bare):
        return Judged("", NAME)
    if len(text.split()) < MIN_WORDS and len(text) < MIN_CHARS:
        return Judged("", TOO_SHORT)
    cut = len(text) > MAX_CHARS
    if cut and not (text := first_sentences(text, MAX_CHARS)):
        return Judged("", NO_END)
    renamed = own.within(text)
    if not renamed:
        return Judged(text, cut=cut)
    text = own.replaced(text)
    if own.within(text):  # after brackets are removed, "Cockayne (CS) syndrome" is a name
        text = own.replaced(text)
    if own.within(text):  # a name is written in a way that `replaced` does not find
        return Judged("", NAMED)
    if sum(word not in _EMPTY_WORDS for word in re.findall(r"\w+", text.lower())) < 2:
        return Judged("", ONLY_NAMES)
    return Judged(text, cut=cut, renamed=True)


def tidy(text: str) -> str:
    """Remove markup, entities, remarks of editors and invisible characters; keep single spaces."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _HIDDEN)
    return " ".join(_REMARK.sub("", _MARKUP.sub(" ", text)).split())


def first_sentences(text: str, limit: int) -> str:
    """Return as many whole sentences as fit into `limit` characters; "" if the first does not fit."""
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, limit + 1) if match.end() <= limit]
    return text[: ends[-1]] if ends else ""


class OwnNames:
    """All names of one concept, for finding them in a text.

    They are found as whole words, also as plurals and possessives, without regard to case, dashes and quotes.
    An abbreviation that may also be an ordinary word (MEN, ALL, CHILD: one word of at most five characters with a capital after the first)
    is found only if the text also has a capital after the first letter: not in "men" or "All". If the concept also has the name in lower
    case, this rule does not apply. Names of one character are not found.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Store the names as their sources write them."""
        written: dict[str, bool] = {}  # normalised -> whether it is always written as an abbreviation
        for name in names:
            norm = normalise(name)
            written[norm] = written.get(norm, True) and _is_abbreviation(name)
        self._known = frozenset(written)
        self._names = [(name, short) for name, short in sorted(written.items(), key=lambda pair: (-len(pair[0]), pair[0])) if len(name) > 1]

    def equal(self, text: str) -> bool:
        """Whether the text is one of the names."""
        return normalise(text) in self._known

    def within(self, text: str, *, cased: bool = True) -> bool:
        """Whether the text contains one of the names.

        Args:
            text: The text.
            cased: False if the text is all in lower case, so that it cannot show which words are abbreviations.
        """
        folded = normalise(text)
        return any(
            _contains_words(name, folded) and (not (short and cased) or bool(_pattern([(name, True)]).search(text))) for name, short in self._names
        )

    def replaced(self, text: str) -> str:
        """Replace names and their articles by "it", the longest first; remove "(it)" and "also known as it"."""
        folded = normalise(text)
        found = [pair for pair in self._names if pair[0] in folded]
        if not found:
            return text
        text = _pattern(found).sub(_pronoun, text)
        text = _REPEATED_IT.sub(r"\1", _ALSO_KNOWN_AS_IT.sub("", _IT_IN_BRACKETS.sub("", text)))
        return " ".join(text.split())


def _is_abbreviation(name: str) -> bool:
    """Whether a name may be an abbreviation: one short word with a capital after the first character."""
    return len(name) <= SHORT and " " not in name and any(c.isupper() for c in name[1:])


def _contains_words(name: str, text: str) -> bool:
    """Whether a normalised text contains a normalised name as whole words."""
    at = text.find(name)
    while at >= 0:
        if (at == 0 or not _is_word(text[at - 1])) and _END.match(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _is_word(character: str) -> bool:
    """Whether the character belongs to a word."""
    return character.isalnum() or character == "_"


def _pattern(names: list[tuple[str, bool]]) -> re.Pattern[str]:
    """Return a pattern that finds any of these names, with its article.

    Args:
        names: Normalised names, each with True if it is an abbreviation, which needs a capital after its first character.
    """
    parts = []
    for name, short in names:
        part = "".join(r"\s+" if c == " " else _DASH if c == "-" else _QUOTE if c == "'" else re.escape(c) for c in name)
        parts.append((rf"(?=.{{2,{len(name)}}}(?<=[A-Z]))" if short else "") + f"(?i:{part})")
    return re.compile(rf"(?i:(?<!\w)(?:an?|the)\s+)?(?<!\w)(?:{'|'.join(parts)}){_SUFFIX}")


def _pronoun(match: re.Match[str]) -> str:
    """Return "it" or "its" for a name that was found, with a capital at the beginning of a sentence."""
    before = match.string[: match.start()].rstrip()
    word = "its" if match[0].endswith(("'s", "’s")) else "it"
    return word.capitalize() if not before or before[-1] in ".!?" else word
