"""A definition's text: made readable, cut to what an encoder reads, and rid of its concept's own names. No concepts, no files.

A grounding text must say what a concept is without naming it, or a model learns that a name is like a text that holds it (BioLORD: Remy et
al., Findings of EMNLP 2022, grounds names in definitions for names that do not explain themselves). The rule here: a concept's names become
"it", as a glossary would go on ("Gout is a disease of …" -> "It is a disease of …"), so that what the text says is kept; a text that says
nothing without them is left out.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import Callable, Dict, List, NamedTuple, Tuple

from spacy_sapbert.kb.concept import normalise

MAX_CHARS = 1000  # about 250 word pieces; 98% of the open ontologies' definitions are under 600 characters
MIN_WORDS, MIN_CHARS = 3, 25  # a text with less of both is a name: "Joint pain."
SHORT = 5  # characters of an abbreviation
EMPTY, NAME, TOO_SHORT, NO_END, ONLY_NAMES, NAMED = "empty", "equal_to_a_name", "too_short", "enormous", "only_its_names", "names_itself"

_MARKUP = re.compile(r"</?(?:p|b|i|em|ul|ol|li|br|a|sub|sup|strong|h\d|div|span)\b[^<>]*>", re.IGNORECASE)  # of MRDEF's MEDLINEPLUS
_REMARK = re.compile(  # of UBERON's editors: where a definition comes from; of ORDO's: that a word is a term
    r"\s*\[(?:automatically generated definition|(?-i:[A-Z])\w*(?::\w+)?(?:,\s*(?:unvetted|vetted|modified))?)\]|\s*\(see (?:this term|these terms)\)|[,;]\s*see (?:this term|these terms)(?=\))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)(?<!\bal)(?<!\bapprox)(?<!\bspp)[.!?][\"')\]]*(?=\s|$)")
_SUFFIX = r"(?:['’]?s|es)?(?!\w)"  # a plural or possessive names the concept too
_END = re.compile(_SUFFIX)
_DASH, _QUOTE = "[-\u2010-\u2015\u2212\ufe58\ufe63\uff0d]", "['\u2018\u2019\u201b\u02bc\u00b4`]"
_APART = re.compile(r"\s*[(\[]\s*(?:or |also |also called |abbreviated )?its?\s*[)\]]", re.IGNORECASE)  # "It (it) is"
_ALSO = re.compile(r",?\s*\b(?:also|sometimes|formerly|commonly|otherwise)\s+(?:known as|called|termed|referred to as|abbreviated as)\s+it\b,?")
_AGAIN = re.compile(r"\b(it)(?:(?:,| or| and|, or|, and|;|/)\s*it\b)+", re.IGNORECASE)
_THIN = frozenset({"it", "its", "a", "an", "the", "is", "are", "of", "in", "any", "or", "and"})
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # zero-width spaces and soft hyphens, within which a name would not be seen


class Judged(NamedTuple):
    """text: to be used, empty where `why` says why it is not. cut: it was enormous. renamed: a name of the concept became "it"."""

    text: str
    why: str = ""
    cut: bool = False
    renamed: bool = False


def judge(text: str, own: OwnNames, is_name: Callable[[str], bool] = lambda text: False) -> Judged:
    """What becomes of a concept's definition. own: its names. is_name: whether a text is a name of any concept.

    In this order: left out where empty; where it equals a name; where it has fewer than MIN_WORDS words and MIN_CHARS characters; cut after the
    last sentence that ends within MAX_CHARS, or left out where none does; own names become "it", and it is left out where fewer than two
    words are left beside "it" and articles.
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
    if own.within(text):  # "Cockayne (CS) syndrome" has become a name by losing its brackets
        text = own.replaced(text)
    if own.within(text):  # written in a way that `replaced` does not see
        return Judged("", NAMED)
    if sum(word not in _THIN for word in re.findall(r"\w+", text.lower())) < 2:
        return Judged("", ONLY_NAMES)
    return Judged(text, cut=cut, renamed=True)


def tidy(text: str) -> str:
    """Without markup, entities, editors' remarks and invisible characters; single spaces."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _HIDDEN)
    return " ".join(_REMARK.sub("", _MARKUP.sub(" ", text)).split())


def first_sentences(text: str, limit: int) -> str:
    """As many whole sentences as fit into `limit` characters; "" where the first does not."""
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, limit + 1) if match.end() <= limit]
    return text[: ends[-1]] if ends else ""


class OwnNames:
    """All names of one concept, to be found in a text as whole words, however they are normalised, also in the plural or possessive.

    A short name that may be an ordinary word (MEN, ALL, CHILD: one word of at most five characters with a capital after the first) is not
    found where the text has no capital after the first letter ("men", "All"), unless the concept has the name in that form too. Names
    of one character are not looked for.
    """

    def __init__(self, names: Iterable[str]) -> None:
        written: Dict[str, bool] = {}  # normalised -> whether it is written as an abbreviation only
        for name in names:
            norm = normalise(name)
            written[norm] = written.get(norm, True) and _is_abbreviation(name)
        self._known = frozenset(written)
        self._names = [(name, short) for name, short in sorted(written.items(), key=lambda pair: (-len(pair[0]), pair[0])) if len(name) > 1]

    def equal(self, text: str) -> bool:
        return normalise(text) in self._known

    def within(self, text: str, *, cased: bool = True) -> bool:
        """Whether one of the names stands in the text. cased: False where the text is lower-cased throughout, so that capitals tell nothing."""
        folded = normalise(text)
        return any(_stands(name, folded) and (not (short and cased) or bool(_pattern([(name, True)]).search(text))) for name, short in self._names)

    def replaced(self, text: str) -> str:
        """Names with their article -> "it", the longest first; "(it)" and "also known as it" fall away."""
        folded = normalise(text)
        found = [pair for pair in self._names if pair[0] in folded]
        if not found:
            return text
        text = _pattern(found).sub(_pronoun, text)
        text = _AGAIN.sub(r"\1", _ALSO.sub("", _APART.sub("", text)))
        return " ".join(text.split())


def _is_abbreviation(name: str) -> bool:
    return len(name) <= SHORT and " " not in name and any(c.isupper() for c in name[1:])


def _stands(name: str, text: str) -> bool:
    at = text.find(name)
    while at >= 0:
        if (at == 0 or not _is_word(text[at - 1])) and _END.match(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _pattern(names: List[Tuple[str, bool]]) -> re.Pattern[str]:
    """Any of these normalised names, with its article. Those marked as abbreviations need a capital after their first character."""
    parts = []
    for name, short in names:
        part = "".join(r"\s+" if c == " " else _DASH if c == "-" else _QUOTE if c == "'" else re.escape(c) for c in name)
        parts.append((rf"(?=.{{2,{len(name)}}}(?<=[A-Z]))" if short else "") + f"(?i:{part})")
    return re.compile(rf"(?i:(?<!\w)(?:an?|the)\s+)?(?<!\w)(?:{'|'.join(parts)}){_SUFFIX}")


def _pronoun(match: re.Match[str]) -> str:
    before = match.string[: match.start()].rstrip()
    word = "its" if match[0].endswith(("'s", "’s")) else "it"
    return word.capitalize() if not before or before[-1] in ".!?" else word
