"""Find the sections of a clinical note by their headings: "PMHx:", "FAMILY HISTORY:", "Meds -", "## Plan". It works on plain text, without spaCy."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

TITLES = Path(__file__).parents[1] / "data" / "section_titles.tsv"
MAX_TITLE = 60  # characters
REMEMBERED = 50_000  # characters; the sections of longer notes are not cached
PART, OTHER = "part", "other"
BACKGROUND = "background"  # "Background: IHD, BPH" is the past history, "Background: This man has had a cough" is not
# "Mother:" begins a family history that ends at the end of its line, or where the text is about the patient again
RELATIVE, FAMILY = "relative", "family_history"
MEDICATIONS = "medications"  # kind of the sections that list drugs
# in these sections a heading such as "Skin:" is a part of the section; in other sections it begins an examination
WITH_PARTS = frozenset(["review_of_systems", "exam", "findings", "labs", "assessment", "plan"])
# in these sections an unknown heading, such as "ROMBERG:", is a part of the section
WITH_ITEMS = WITH_PARTS | {"vitals", MEDICATIONS}
TESTS = frozenset(["findings", "vitals", "labs"])  # "CXR: clear", "Weight 71 kg": the heading also names the test

_LINE = re.compile(
    r"^[ \t]*(?P<mark>#{1,6}[ \t]*|[*_=]{2,3}[ \t]*)?(?P<number>[-*•>][ \t]+|\d{1,2}[.)][ \t]*)?(?P<title>[^\W\d_][^\n:]{0,60})", re.MULTILINE
)
_DASH = re.compile(r"[ \t]+(?:-{1,2}|–|—|=+>?)[ \t]+")
_BRACKET = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_BOUNDS = frozenset(",.;:!?\n\t()|*")
# between a title and what follows it; the "-" of "ROS: -fever, +chills" is a sign of what follows
_AFTER = re.compile(r"(?:[\s:,*_=]|-(?![A-Za-z][^\n]{0,200}[ ,;]\+[A-Za-z]))*")
_LINE_START = re.compile(r"[#>*\-•=_ \t]*(?:\d{1,2}[.)][ \t]*)?[#>*\-•=_ \t]*")  # marks and numbers before a title
_WORD = re.compile(r"[^\W\d_]+")
_SAYS = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|shows?|showed|reveals?|revealed|demonstrates?|demonstrated)\b", re.IGNORECASE
)  # a sentence
# a verb, an age or a duration: what follows is no list of diseases
_TELLS = re.compile(
    rf"{_SAYS.pattern}|\b(?:presents|presented|presenting|admitted|admission|diagnosed|referred|this|these|we|\d{{1,3}}[ -]?(?:y|yo|yrs?|years?|[mf])\b(?! ago)|"
    r"\d{1,2}/(?:7|52|12)|(?:patient|pt|man|woman|lady|gentleman)\b)",
    re.IGNORECASE,
)
# as `_TELLS`, in a line after the first one; or the line has a title: "Chest: wheeze"
_GOES_ON = re.compile(
    rf"{_TELLS.pattern}|\b(?:complains|complained|c/o|reports|reported|denies|denied|describes|described|feels|felt|noticed|woke|developed|seen|saw|came|"
    r"attended|brought|today|now|(?:for|past|last) (?:the )?(?:past |last )?(?:\d{1,3}|a|one|two|three|few) (?:h|hrs?|hours?|d|days?|wks?|weeks?|months?|yrs?|years?)\b|"
    r"\d{1,3} ?(?:days?|d|hours?|hrs?)\b)|o/e\b|(?<![^\n])[ \t]*[A-Z][^\n:,;.()]{0,30}:",
    re.IGNORECASE,
)
# the beginning of a sentence about the patient, after one about a relative
_PATIENT = re.compile(
    r"(?<=[.;!?])[ \t]+(?=(?:(?:the[ ]|this[ ]|our[ ])?(?:patient|pt)|i(?!\.)|we|today|here|(?:now[ ])?(?:presents|presenting|denies|reports)|now[ ](?:here|admitted)|"
    r"complains|c/o|endorses|on[ ]exam|\d{1,3}[ -]?(?:(?:years?|yrs?)(?:[ -]?old)?|y(?:[/.]?o\.?)?)[ ,-]{1,2}(?:male|female|man|woman|boy|girl|gentleman|lady|[mf]|here|presents|presenting|who)|"
    r"\d{1,3}(?:y/?o?)?[mf])\b|(?P<pronoun>he|she)[ ](?P<verb>\w+))",
    re.IGNORECASE,
)
_MEN, _WOMEN = frozenset(["father", "brother", "grandfather", "uncle"]), frozenset(["mother", "sister", "grandmother", "aunt"])
_SEVERAL = frozenset(["parents", "siblings", "cousins", "relatives"])
# verbs of what a patient says or does in a visit: "Father: MI at 50. He denies chest pain."
_IN_A_VISIT = frozenset(
    ["complains", "complained", "denies", "denied", "endorses", "presents", "presented", "reports", "reported", "states", "stated"]
)
# "Mother: had MI. Today she is well": how a relative is, unless the sentence is about a visit ("Today she is well and denies pain")
_IS_WELL = re.compile(
    rf"today,?[ ](?P<pronoun>he|she|they)[ ](?:is|are|remains?)[ ](?:still[ ])?(?:alive|living|well|healthy|doing[ ]well)\b"
    rf"(?![^.;!?\n]*\b(?:{'|'.join(sorted(_IN_A_VISIT))}|c/o|complaining|here|visit|exam)\b)",
    re.IGNORECASE,
)
# words at the beginning of a title that do not change its meaning
_IGNORED_FIRST_WORDS = frozenset(
    [
        *("additional", "admission", "admit", "brief", "clinical", "complete", "current", "detailed", "ed", "er", "extended", "focused", "full"),
        *("further", "icu", "initial", "inpatient", "new", "other", "outpatient", "patient", "patients", "pertinent", "previous", "prior"),
        *("problem-focused", "recent", "relevant", "significant", "updated", "the"),
    ]
)
_NO_TITLE = re.compile(
    r"[ \t]+(?:(?:is|are|was|were|of|from|with|has|have|had|and|or|as|not|no|on|in|to|for|reviewed|pending|stable|drawn|show|showed)\b|[\s:]|\Z)"
)


class Section(NamedTuple):
    """A section of a note. Offsets are characters of the note.

    Attributes:
        kind: complaint, present_illness, history (the past medical one), surgical_history, family_history, social_history, medications,
            allergies, review_of_systems, vitals, exam, labs, findings (of imaging), procedures, indication, assessment, differential, plan, instructions
            (to the patient, such as when to come back), or other.
        title: the heading as it is written; "" for text without a heading.
        start: where the heading begins.
        body: where the text after the heading begins.
        end: where the next section begins, or the note ends.
    """

    kind: str
    title: str
    start: int
    body: int
    end: int


@lru_cache(maxsize=256)
def _remembered(text: str) -> tuple[Section, ...]:
    return tuple(_find_sections(text))


class _Heading(NamedTuple):
    start: int
    end: int
    kind: str


def find_sections(text: str) -> list[Section]:
    """Find the sections of a note, in order; see `_find_sections`. The result is cached, because several components need it for the same note."""
    return list(_remembered(text) if len(text) <= REMEMBERED else _find_sections(text))


def _find_sections(text: str) -> list[Section]:
    """Find the sections of a note, in order. Together they cover the whole text.

    A heading is a title of data/section_titles.tsv that stands before a colon or a dash, or alone on its line; inside a line it must also begin
    with a capital letter. Other words in capitals before a colon are headings of the kind "other". A text without headings is one section
    without a title.

    Args:
        text: a note; lines may be joined by commas, as MTSamples' are.
    """
    headings = _in_order(text)
    if not text:
        return []
    sections = []
    if not headings or headings[0].start:
        sections.append(Section(OTHER, "", 0, 0, headings[0].start if headings else len(text)))
    around = OTHER
    for heading, end in zip(headings, [*(following.start for following in headings[1:]), len(text)]):
        kind = heading.kind
        if kind == RELATIVE:  # the section before it continues on the next line, or with the next sentence about the patient
            line = text.find("\n", heading.end)
            if not (0 <= line < end and text[heading.end : line].strip(" \t:*_") and text[line:end].strip()):
                line = end
            if around != FAMILY:
                line = _about_patient(text, heading, line)
            sections.append(_section(text, heading, FAMILY, line))
            if line < end:
                sections.append(Section(around, "", line, line, end))
            continue
        if kind == PART:
            kind = around if around in WITH_PARTS else "exam"
        elif kind == BACKGROUND:
            listed = _list_end(text, heading, end)
            kind = "history" if listed > heading.end else "present_illness"
            if heading.end < listed < end:
                sections.append(_section(text, heading, kind, listed))
                sections.append(Section("present_illness", "", listed, listed, end))
                around = "present_illness"
                continue
        elif kind == "":
            kind = around if around in WITH_ITEMS else OTHER
        sections.append(_section(text, heading, kind, end))
        around = kind
    return sections


def _list_end(text: str, heading: _Heading, end: int) -> int:
    """Return where a list of diseases after a heading ends: before the first line with a verb, an age, a duration or a title of its own.

    It is the end of the heading, if the first line is no list: "Background: IHD (PCI 2016), BPH" is one, "Background: 72F with a cough" is not.
    """
    body = _AFTER.match(text, heading.end)
    assert body is not None  # it matches the empty text
    start = min(body.end(), end)
    line = text.find("\n", start, end)
    if _TELLS.search(text, start, line if line >= 0 else end) is not None:
        return heading.end
    while line >= 0:
        after = text.find("\n", line + 1, end)
        if _GOES_ON.search(text, line + 1, after if after >= 0 else end) is not None:
            return line
        line = after
    return end


def _section(text: str, heading: _Heading, kind: str, end: int) -> Section:
    after = _AFTER.match(text, heading.end)
    assert after is not None  # it matches the empty text
    return Section(kind, _title(text[heading.start : heading.end]), heading.start, min(after.end(), end), end)


def _about_patient(text: str, relative: _Heading, end: int) -> int:
    """Return where the first sentence about the patient begins after a heading such as "Mother:"; `end` if there is none before it.

    "He" and "she" are the relative if they can be, unless the verb is one of a visit.
    """
    words = frozenset(_WORD.findall(text[relative.start : relative.end].lower()))
    for sentence in _PATIENT.finditer(text, relative.end, end):
        pronoun = sentence["pronoun"]
        if (well := _IS_WELL.match(text, sentence.end())) is not None and _may_be(words, well["pronoun"]):
            continue
        if pronoun is None or sentence["verb"].lower() in _IN_A_VISIT or not _may_be(words, pronoun):
            return sentence.end()
    return end


def _may_be(relative: frozenset[str], pronoun: str) -> bool:
    """Return whether "he", "she" or "they" may be a relative who is named with some words."""
    if pronoun.lower() == "they":
        return bool(relative & _SEVERAL)
    return not relative & (_SEVERAL | (_WOMEN if pronoun.lower() == "he" else _MEN))


def _title(heading: str) -> str:
    return heading.lstrip(" \t#*_=->•0123456789.)").rstrip(" \t#*_=-")


def section_at(sections: list[Section], char: int) -> Section | None:
    """Return the section that holds a character (offset in the note); None if there are no sections."""
    place = bisect_right(sections, char, key=lambda section: section.start)
    return sections[max(place - 1, 0)] if sections else None


def _in_order(text: str) -> list[_Heading]:
    """Return the headings from left to right, without overlap."""
    found: list[_Heading] = []
    for heading in sorted(chain(_at_lines(text), _at_colons(text), _bare(text))):
        if not found or heading.start >= found[-1].end:
            found.append(heading)
    return found


def _at_lines(text: str) -> Iterator[_Heading]:
    """Yield headings without a colon: headings alone on their line, or before a dash."""
    for line in _LINE.finditer(text):
        start, title = line.start("title"), line["title"]
        if text[line.end() : line.end() + 1] == ":":
            continue  # `_at_colons` reads it
        marked = line["mark"] is not None
        if (dash := _DASH.search(title)) is not None:
            title = title[: dash.start()]
        elif line["number"] or text[line.end() : line.end() + 1] not in ("", "\n"):
            continue
        title = title.rstrip(" \t*_=#\r")
        # "No known drug allergies." is a statement
        said = title.endswith(".") or title.lower().startswith("no ") or _SAYS.search(title) is not None
        wild = (marked or len(title.split()) < 5) and not said
        kind = kind_of(title, wild=wild) if len(title) > 1 else None
        if kind and (dash is None or kind != PART) and (marked or title[0].isupper()):
            yield _Heading(line.start(), start + len(title), kind)
        elif marked and dash is None and title and line["mark"].startswith("#"):
            yield _Heading(line.start(), start + len(title), "")


def _at_colons(text: str) -> Iterator[_Heading]:
    """Yield headings before a colon, at the beginning of a line or inside it."""
    colon = text.find(":")
    while colon >= 0:
        heading = _before(text, colon)
        if heading is not None:
            yield heading
        colon = text.find(":", colon + 1)


def _before(text: str, colon: int) -> _Heading | None:
    """Return the heading that ends at a colon."""
    low = max(0, colon - MAX_TITLE)
    before = text[low:colon].rstrip(" \t*_")
    end = low + len(before)
    if not before or not (before[-1].isalnum() or before[-1] in ")]"):
        return None
    if before[-1] in ")]":  # "PREOPERATIVE DIAGNOSIS (ES):"
        bare = _BRACKET.sub(lambda bracket: "x" * len(bracket[0]), before)
    else:
        bare = before
    begin = next((place for place in range(len(bare), 0, -1) if bare[place - 1] in _BOUNDS), 0)
    if not begin and low:
        return _last_words(text, low, before)
    first = _WORD.search(before, begin)
    if first is None:
        return None
    start, title = low + first.start(), before[first.start() :]
    line = text.rfind("\n", max(0, start - 12), start) + 1
    newline = (line > 0 or start <= 12) and _LINE_START.fullmatch(text, line, start) is not None
    kind = kind_of(title)
    strong = _in_capitals(title)
    capital = len(title) > 1 and (strong or (title[0].isupper() and kind_of(title, wild=False) is not None))
    if kind and (newline or capital):
        return _Heading(line if newline else start, end, kind)
    if strong and (" " in title or len(title) > 5):  # not "AST: 31"
        return _Heading(start, end, "")
    return _last_words(text, low + begin, before[begin:])


def _last_words(text: str, low: int, before: str) -> _Heading | None:
    """Return the longest known title at the end of a text: "Allergies" in "Meds: aspirin Allergies"."""
    for word in list(_WORD.finditer(before))[-6:]:
        title = before[word.start() :]
        if len(title) > 2 and title[0].isupper() and (not word.start() or before[word.start() - 1].isspace()):
            kind = kind_of(title, wild=False)
            if kind and kind != PART:
                return _Heading(low + word.start(), low + len(before), kind)
    return None


def _bare(text: str) -> Iterator[_Heading]:
    """Yield abbreviated titles without a colon: "PMH HTN, DM2"."""
    for form in _bare_forms():
        start = text.find(form)
        while start >= 0:
            end = start + len(form)
            before = text[max(0, start - 8) : start].rstrip(" \t")
            begins = not before or before[-1] in ".;\n" or (before[-1] == "," and start > 0 and text[start - 1] == " ")
            if begins and text[end : end + 1] in (" ", "\t") and _NO_TITLE.match(text, end) is None:
                kind = kind_of(form, wild=False)
                if kind:
                    yield _Heading(start, end, kind)
            start = text.find(form, end)


# -- titles -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def titles() -> dict[str, tuple[str, bool]]:
    """Return title -> (kind, whether the title may stand without a colon), from data/section_titles.tsv."""
    lines = TITLES.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")][1:]
    return {title: (kind, bare == "yes") for title, kind, bare in rows}


@lru_cache(maxsize=1)
def section_kinds() -> frozenset[str]:
    """Return the kinds that a section may have."""
    return frozenset(kind for kind, _ in titles().values() if kind not in (PART, RELATIVE, BACKGROUND)) | {OTHER, FAMILY}


@lru_cache(maxsize=1)
def _bare_forms() -> list[str]:
    """Return the titles that may stand without a colon, in all spellings that notes use: "PMHX", "PMHx", "Pmhx"."""
    shorts = [title for title, (_, bare) in titles().items() if bare]
    return sorted({form for title in shorts for form in (title.upper(), title.capitalize(), title.upper().replace("HX", "Hx"))})


@lru_cache(maxsize=1)
def _wild_patterns() -> list[tuple[re.Pattern[str], str]]:
    wild = [(title, kind) for title, (kind, _) in titles().items() if "*" in title]
    return [(re.compile(re.escape(title).replace(r"\*", ".*")), kind) for title, kind in wild]


@lru_cache(maxsize=8192)
def kind_of(title: str, wild: bool = True) -> str | None:
    """Return the kind of a title, None if it is not known.

    Args:
        title: a heading without its colon.
        wild: also try the titles with a wildcard ("*").
    """
    plain = _normal(title)
    if not plain:
        return None
    words = plain.split()
    while words:
        known = titles().get(" ".join(words))
        if known is not None:
            return known[0]
        if words[0] not in _IGNORED_FIRST_WORDS:
            break
        words = words[1:]
    if not wild or len(words) > 7:
        return None
    return next((kind for pattern, kind in _wild_patterns() if pattern.fullmatch(" ".join(words))), None)


def _normal(title: str) -> str:
    """Return a title in lower case, without brackets, with one spelling of "hx" and "&"."""
    plain = _BRACKET.sub(" ", title.lower()).replace("’", "'").strip(" \t*_#-.=")
    if plain in titles():
        return plain
    plain = re.sub(r"\bhx\b", "history", re.sub(r"\s*(?:&|/|\+)\s*", " and ", plain))
    plain = re.sub(r"\bx-?rays?\b", "x-ray", plain).replace("patient's", "patient")
    return " ".join(plain.split())


def _in_capitals(title: str) -> bool:
    letters = [c for c in title if c.isalpha()]
    return len(letters) > 2 and all(c.isupper() for c in letters) and len(title.split()) < 8
