"""Split a note into words, lines, sentences and clauses, and tell what its signs mean."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from .sections import Section, find_sections

Span = tuple[int, int]  # first and last character + 1

TOKEN = re.compile(
    r"\d+(?:[.,]\d+)*|(?P<verb>\b(?:do|does|did|is|are|was|were|has|have|had|ca|could|wo|would|should)(?=n['’]?t\b))|(?P<no>(?<=[a-z])n['’]?t\b)"
    r"|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)?|['’]s\b|-ve\b|\+ve\b|[^\s\w]|_",
    re.IGNORECASE,
)
_VERBS = {"ca": "can", "wo": "will"}  # the verbs of "can't" and "won't"
HEADING = "heading:"  # what rules write before the title of a section
# sign -> the name that triggers use for it
SIGN = {"?": "<query>", "+": "<plus>", "-": "<minus>", "–": "<minus>", "−": "<minus>"}
_ABBREVIATED = frozenset("dr mr mrs ms vs st approx resp temp min max wt ht dx hx rx tx sx fx no pt pts neg pos inc jr sr ed al fig".split())  # noqa: SIM905
_ANSWERS = frozenset(["no", "neg", "pos"])
_ASKS = re.compile(r"(?:\A|[\n,;:(/•*.–-])[ \t]*\Z")  # before the "?" of "- ? PE"
_EXPLAINS = frozenset([("i", ".", "e"), ("e", ".", "g")])
_HARD = frozenset(";|•*!")
_ENDS = frozenset(".?!")  # marks that may end a sentence
_QUESTION_MARKS = 6  # together, at most
_QUOTES = frozenset("\"'”’»")  # marks that end a quotation, also after its full stop
_JOINS = frozenset(["and", "but", "nor", "or", "with"])  # words with which a sentence goes on after a quotation: 'denies "fever." and "cough."'
_MARKS = frozenset([*SIGN, *_HARD, ".", ")"])
_ITEM = re.compile(r"[-*•>+]\s|\d{1,3}[.)]\s|[(\[]?[a-z][.)]\s", re.IGNORECASE)
_DOUBTED = re.compile(r"[ \t](?!(?:yes|no|y|n|none|if|when)\b)(?:[a-z]|[A-Z]{2})")  # after the "?" of "pustules ? rosacea"
_CONTINUES = frozenset("a an the of or and nor for with without in on to any by from at as her his their is was has had have denies".split())  # noqa: SIM905
_SIGNED = re.compile(r"\)?[ \t]{0,3}(?=[,;\n]|\.?\s{0,3}\Z)")  # after a sign that ends its item
_SIGNS = re.compile(r"\w ?[+–−-][ \t]{0,3}(?:[,;]|\.?\s{0,3}\Z)")
_SPACED = re.compile(r"[ \t]\w")
_SPACED_SIGNS = re.compile(r"(?:(?<![^\n])|[,;:] )[ \t]{0,3}(?P<sign>[+–−-])[ \t]\w")
_SIGNED_LINE = 200  # characters
_PLUS = re.compile(r"[^\n]{0,200}[ ,;]\+[A-Za-z]")  # in the rest of a line
_COUNTED_LINE = 500  # characters between two numbers of a list inside a line
_IN_BRACKETS = 15  # words and marks; an opening bracket is looked for among as many
_LONG_LINE = 50  # characters; a line of this length may have been wrapped


def find_sentences(text: str) -> list[Span]:
    """Return (start, end) in characters of the sentences of a note, in order. White space between them is in none.

    A sentence also ends where a line, a list item or a section ends. A line break inside a sentence does not end it.
    """
    return TokenizedNote(text, find_sections(text)).sentences()


class TokenizedNote:
    """A note as tokens: its words and marks.

    Args:
        text: a note.
        sections: its sections, in order.

    Attributes:
        words: the tokens in lower case, as triggers write them.
        starts: the first character of each token.
        ends: the last character + 1 of each token.
        marks: the tokens that may be a sign, or end a clause.
    """

    def __init__(self, text: str, sections: list[Section]) -> None:
        self.text, self.sections = text, sections
        self.section_starts = [section.start for section in sections]
        lowered = text.lower()
        if len(lowered) != len(text):  # "İ" becomes two characters
            lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
        matches = list(TOKEN.finditer(lowered))
        self.starts = [match.start() for match in matches]
        self.ends = [match.end() for match in matches]
        self.words = list(map(word_of, matches))
        self.marks = [at for at, word in enumerate(self.words) if word in _MARKS]
        for at in self.marks:
            if self.words[at] in SIGN:
                self.words[at] = self._sign(at)

    def _sign(self, at: int) -> str:
        """Return the name that triggers use for a sign directly before a word: "<query>" for the "?" of "?PE"; otherwise the sign itself."""
        start, end = self.starts[at], self.ends[at]
        word, before = self.words[at], self.text[start - 1] if start else "\n"
        if word == "?" and before in " \t" and _DOUBTED.match(self.text, end) is not None:
            return SIGN[word]  # "pustules ? rosacea"
        if word != "?" and _SIGNED.match(self.text, end) and (answer := self._answer(at)):
            return answer
        if word != "?" and _SPACED.match(self.text, end) is not None and self._is_spaced_sign(start):
            return SIGN[word]
        if not self.text[end : end + 1].isalpha() or before not in " \t,;(:/\n":
            return word
        sign = SIGN[word]
        # a dash at the beginning of a line is an item of a list, if no "+" in the line says that it is a sign: "-chills, +fever"
        return word if sign == "<minus>" and before == "\n" and _PLUS.match(self.text, end) is None else sign

    def _is_spaced_sign(self, start: int) -> bool:
        """Return whether the sign at a character begins an item of a line of items with both signs: "- CP, - SOB, + cough"."""
        line = max(self.text.rfind("\n", max(start - _SIGNED_LINE, 0), start) + 1, start - _SIGNED_LINE, 0)
        end = self.text.find("\n", start, start + _SIGNED_LINE)
        signs = [
            (sign.start("sign"), sign["sign"] == "+") for sign in _SPACED_SIGNS.finditer(self.text, line, end if end >= 0 else start + _SIGNED_LINE)
        ]
        return any(place == start for place, _ in signs) and len({plus for _, plus in signs}) > 1

    def _answer(self, at: int) -> str:
        """Return "+ve" or "-ve" for a sign at the end of its item, which is about what stands before it: "fever +, chills -", "fever (-)"; or ""."""
        text, start = self.text, self.starts[at]
        line = text.rfind("\n", max(start - _SIGNED_LINE, 0), start) + 1 or max(start - _SIGNED_LINE, 0)
        end = text.find("\n", start, start + _SIGNED_LINE)
        line_text = text[line : end if end >= 0 else start + _SIGNED_LINE]
        alone = text[start - 1 : start] == "(" or len(_SIGNS.findall(line_text)) > 1
        if not alone or re.search(r"\w ?\(?\Z", text[max(start - 3, 0) : start]) is None:
            return ""
        return "+ve" if self.words[at] == "+" else "-ve"

    def fixed(self, breaks: Iterable[int]) -> set[int]:
        """Return the tokens that begin a line, a section or a known sentence. No trigger crosses these boundaries."""
        starts = self.starts
        fixed = {bisect_left(starts, place) for place in breaks}
        for section in self.sections:
            fixed.add(bisect_left(starts, section.start))
            fixed.add(bisect_left(starts, section.body))
        return fixed | self._lines()

    def _lines(self) -> set[int]:
        """Return the tokens that begin a line, without those where a long line was only wrapped."""
        starts, text = self.starts, self.text
        found: set[int] = set()
        place = text.find("\n")
        while place >= 0:
            at = bisect_left(starts, place)
            if at < len(starts) and self._ends_line(at, place):
                found.add(at)
            place = text.find("\n", starts[at] if at < len(starts) else len(text))
        return found

    def sentences(self) -> list[Span]:
        """Return (start, end) in characters of the sentences. A sentence also ends at the end of a line, a list item and a section."""
        n = len(self.words)
        begins = {0} | self._lines() | {bisect_left(self.starts, section.start) for section in self.sections}
        numbers = {at + 1 for at in begins if at < n and self.words[at].isdigit()}  # the full stop of "1. Asthma"
        begins |= {self._after(at) for at in self.marks if self.words[at] in _ENDS and at not in numbers and at + 1 < n and self._ends_sentence(at)}
        first = sorted(begins - {n})
        return [(self.starts[one], self.ends[other - 1]) for one, other in zip(first, [*first[1:], n]) if one < other]

    def bounds(self, fixed: set[int], triggers: Iterable[tuple[int, int, object]]) -> list[int]:
        """Return the tokens that begin a clause (sentences, lines, list items, table cells and sections), in order, and at the end the number of tokens.

        Args:
            fixed: the tokens that begin a line, a section or a known sentence, from the method `fixed`.
            triggers: (first token, last token + 1, …) of each trigger; no mark inside a trigger ends a clause.
        """
        words, n = self.words, len(self.words)
        triggers = list(triggers)
        inside = {token for first, last, _ in triggers if last > first + 1 for token in range(first, last)}
        bounds = {0} | fixed
        counted = self._counted({last for _, last, _ in triggers} - fixed)
        for at in self.marks:
            word = words[at]
            if word in _HARD or ((word == "." or word == "?") and at + 1 < n and (at not in inside or self._asks(at)) and self._ends_sentence(at)):
                bounds.add(self._after(at))
            elif at and at not in inside and (at in counted or (word == ")" and self._numbers(at))):
                bounds.add(at - 1)
        for first, second in zip(self.ends, self.starts[1:]):  # table cells
            if second - first == 1 and self.text[first] == "\t":
                bounds.add(bisect_left(self.starts, second))
        return sorted(bounds | {n})

    def _after(self, at: int) -> int:
        """Return the token that begins the next sentence after a mark: the mark that closes a quotation belongs to the sentence in it."""
        after = at + 1
        while after < len(self.words) and self.words[after] in _QUOTES and self.starts[after] == self.ends[after - 1]:
            after += 1
        return after

    def _asks(self, at: int) -> bool:
        """Return whether a token is the last of several question marks that touch the word before them: "pancreatitis??", but not "mass ?? Lipoma"."""
        start = at
        while start > 0 and at - start < _QUESTION_MARKS and self.words[start] == "?" and self.ends[start - 1] == self.starts[start]:
            start -= 1
        return 1 < at - start < _QUESTION_MARKS and self.words[start][0].isalnum() and self.text[self.ends[at] : self.ends[at] + 1] != "?"

    def _numbers(self, at: int) -> bool:
        """Return whether a bracket ends the number of an item inside a line: "5)venous stasis, 6)gout"."""
        number, start = self.words[at - 1], self.starts[at - 1]
        if not number.isdigit() or len(number) > 2 or self.ends[at - 1] != self.starts[at] or (start and self.text[start - 1] not in " \t\n,;.:"):
            return False
        before = next((word for word in reversed(self.words[max(at - 1 - _IN_BRACKETS, 0) : at - 1]) if word in ("(", ")")), ")")
        return before == ")"  # not "(grade 2)"

    def _counted(self, told: set[int]) -> set[int]:
        """Return the full stops of the numbers, from the second one, of a list inside a line: "1. pneumonia 2. AKI 3. anaemia".

        A list is whole if a trigger stands directly before it: "denies 1. fever 2. cough", "risks include: 1. bleeding 2. infection".

        Args:
            told: the tokens after triggers, without those that begin a line or section.
        """
        found: set[int] = set()
        last, expected = 0, ""  # the character where the last number begins, and what the next one is
        for at in self.marks:
            if self.words[at] != "." or at + 1 == len(self.words) or not at or self.words[at - 1] not in (expected, "1"):
                continue
            number, start = self.words[at - 1], self.starts[at - 1]
            touches = self.ends[at - 1] == self.starts[at] and (not start or self.text[start - 1].isspace() or self.text[start - 1] == ":")
            if not touches or not self.text[self.ends[at] : self.ends[at] + 1].isspace():
                continue
            if number == expected:
                if start - last > _COUNTED_LINE:
                    continue
                if "\n" not in self.text[last:start]:
                    found.add(at)
                elif self.text[self.ends[at - 2] : start].count("\n") == 0:  # the list goes on only with a number that begins a line
                    continue
            elif at - 1 in told or (at > 1 and self.words[at - 2] == ":" and at - 2 in told):
                expected = ""
                continue
            last, expected = start, str(int(number) + 1)
        return found

    def _ends_sentence(self, at: int) -> bool:
        """Return whether a full stop ends a sentence."""
        end = self.ends[at]
        after = self.text[end : end + 1]
        before = self.words[at - 1] if at else ""
        if after and not after.isspace() and after not in ",)]" and after not in _QUOTES:
            return after.isupper() and len(before) > 2 and self.starts[at] == self.ends[at - 1]  # "fever.Cough"
        if self.words[at] == "?" and _ASKS.search(self.text, max(self.starts[at] - 4, 0), self.starts[at]) is not None:
            return False
        if after == "," and tuple(self.words[max(at - 3, 0) : at]) in _EXPLAINS:
            return False
        following = self.text[self.starts[at + 1]] if after != "," else "A"
        if after in _QUOTES and (next_one := self._after(at)) < len(self.words) and self.words[next_one] in _JOINS:
            return False
        if before in _ANSWERS and following.isupper():  # "Chest pain: no. Cough: yes"
            return True
        return before not in _ABBREVIATED and (len(before) > 1 or not following.islower())

    def _ends_line(self, at: int, place: int) -> bool:
        """Return whether the line break before a token ends a clause. It does not where a long line was only wrapped."""
        text, start = self.text, self.starts[at]
        if text.count("\n", place, start) > 1 or _ITEM.match(text, start):
            return True
        before = self.words[at - 1] if at else ""
        if text[start].islower() or before in _CONTINUES:
            return False
        line = text[max(0, place - _LONG_LINE) : place]
        return not ("\n" not in line and len(line) == _LONG_LINE and line.isupper() and line[-1] not in ".:")

    def kind(self, char: int) -> str:
        """Return the kind of the section that holds a character (offset in the note)."""
        place = bisect_right(self.section_starts, char) - 1
        return self.sections[place].kind if place >= 0 else ""

    def names(self, char: int) -> tuple[str, ...]:
        """Return what rules call the section that holds a character: its kind, and its heading."""
        place = bisect_right(self.section_starts, char) - 1
        section = self.sections[place] if place >= 0 else None
        return (section.kind, f"{HEADING}{section.title.lower()}") if section is not None else ()


def word_of(match: re.Match[str]) -> str:
    """Return the word of a token in lower case, as triggers write it: "not" for the end of "isn't", "isn’t" and "isnt"."""
    if match.lastgroup is None:
        return match[0].replace("’", "'")
    return "not" if match.lastgroup == "no" else _VERBS.get(match[0], match[0])
