"""Names that are not mentions where they stand: beside certain words, in a compound, or as the title of a part of a note."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from spacy.lang.en.stop_words import STOP_WORDS

from ..kb.writing import is_acronym
from .torn import is_of_tissue

_FILE = Path(__file__).parents[1] / "data" / "beside_words.tsv"
# a word with one of these and a hyphen before it is a part of another word
_PARTS_BEFORE = ("non", "intra", "extra", "inter", "trans", "retro", "supra", "infra", "anti", "bi", "de", "para", "peri", "pre", "sub", "un")
_FIRST_PART = re.compile(
    r"anti|de|ex|inter|intra|non|para|peri|post|pre|re|sub|supra|trans|un", re.IGNORECASE
)  # a name that is the first part of a word: "PRE-OP"
_TITLE_ENDS = ("history", "hx", "pmh")
_TITLE = re.compile(r"(?:past |family )?(?:family|medical|social|surgical) history|past history|(?:f|fam|fm|pm|ps|soc|s)hx|pmh", re.IGNORECASE)
DRUG = "CHEM"  # semantic group of substances
FINDING, FINDINGS = "DISO", "<finding>"  # semantic group of disorders and findings, and how the table names all of them
_PERSON = re.compile(r"(?:Dr|Mr|Mrs|Ms|Prof)\b(?:\.[ \t]*|[ \t]+)[A-Z]")
_PERSON_BEFORE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)(?:\.\s*|\s+)$")
_GENERAL = re.compile(
    r"(?:bloods?|blood (?:tests|work)|vital signs?|vitals|physical exam(?:ination)?|lab(?:oratory)?s?(?: (?:data|studies|results|values|findings|tests?|work))?|studies|imaging)",
    re.IGNORECASE,
)
_WORD_AFTER = re.compile(r"[ \t\-–]*([A-Za-z]+)")
_WORD_BEFORE = re.compile(r"([A-Za-z]+(?:['’]s)?)[ \t\-–]*$")
_NEXT_WORD = re.compile(r"[ \t]([A-Za-z]+)")
_ADJECTIVE = re.compile(r"(?!canal)[a-z]+(?:al|ic|ous|ular)", re.IGNORECASE)
_PAIRED = re.compile(r"[A-Za-z]{2}/$")  # before the second of two words with a slash
_AFTER_PART = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(_PARTS_BEFORE)})[-–]$", re.IGNORECASE)
# a single letter and a hyphen before a short name are a part of it, except a side or a mark: "E-PAP", "Perm-A-Cath", but not "R-knee", "M-breast cancer" and "C-spine"
_LETTER = re.compile(r"(?<![^\W\d_])[A-KM-QS-WYZ][-–]$", re.IGNORECASE)
_DEVICE = re.compile(r"arms?|caths?|pap|ports?|sections?|tubes?|wires?", re.IGNORECASE)
# after a substance that a device holds: "antibiotic-impregnated beads", "antibiotic-coated catheter"
_HELD = re.compile(r"[-–][ ]?(?:coated|impregnated|laced|loaded|soaked)\b", re.IGNORECASE)
# after a drug to which something responds or not: "diuretic responsive ascites"
_RESPONSE = re.compile(r"[ \t–-]?(?:na[iï]ve|refractory|resistant|(?:un)?responsive(?![ \t]+to\b))\b", re.IGNORECASE)
_RATIO = re.compile(r"[ \t]+to[ \t]+(?:[a-z]+[ \t]+){1,3}ratio\b", re.IGNORECASE)  # "albumin to creatinine ratio"
_JOINED = " \t-–/"  # what the three patterns of what is joined to a name begin with
_WORD_PART = re.compile(r"-(?:[ \t]*/|,?[ \t]+(?:and|or|to)\b)|[ \t]?/[ \t]?hyp(?:o|er)[a-z]", re.IGNORECASE)  # "hypo" in "hypo- or hyperthyroidism"
_AIM_AFTER = re.compile(
    r"[ \t-]+(?:attempts?|clinic|counsel(?:ing|ling)|diets?|efforts?|goals?|medications?|methods?|operations?|options?|pills?|plans?|procedures?|program(?:me)?s?|"
    r"regimens?|strateg(?:y|ies)|surger(?:y|ies)|treatments?)\b",
    re.IGNORECASE,
)
_AIM_BEFORE = re.compile(r"\b(?:diets?|exercises?|medications?|pills|program(?:me)?s?|surger(?:y|ies)|treatments?)[ \t]+for[ \t]+$", re.IGNORECASE)
_IS_FALL = re.compile(r"(?:[a-z]+[ \t]+){0,3}falls?", re.IGNORECASE)
OF_VALUE = re.compile(  # what is measured, after "fall": "had a fall in hemoglobin"
    r"[ \t]+in[ \t]+(?:(?:the|his|her|their)[ \t]+)?(?:amount|blood|bp|counts?|creatinine|ejection|e?gfr|ha?emoglobin|ha?ematocrit|hb|hct|hgb|levels?|number|o2|output|oxygen|"
    r"platelets?|potassium|pressures?|pulse|rate|saturations?|sats|serum|sodium|systolic|temperature|urine|wbc|weight|white)\b",
    re.IGNORECASE,
)
_RADIATION = re.compile(r"radiation to [a-z ]+", re.IGNORECASE)
_TREATED_BEFORE = re.compile(  # "received radiation to the neck"
    r"\b(?:adjuvant|beam|chemo(?:therapy)?(?:[ \t]+and)?|completed|completing|courses?[ \t]+of|cycles?[ \t]+of|dose[ \t]+of|finished|gy|h/o|history[ \t]+of|hx[ \t]+of|"
    r"palliative|post|previous|prior|rads|received|receiving|s/p|surgery[ \t]+and|undergo(?:es|ing)?|underwent|xrt[ \t:,-]*)[ \t]*$",
    re.IGNORECASE,
)
_TREATED_AFTER = re.compile(  # "radiation to the neck for lymphoma", "radiation to the neck, 60 Gy"
    r"[^.,;\n]{0,30}?\b(?:cancer|carcinoma|lymphoma|metasta\w+|sarcoma|tumou?r)\b|[^.;\n\d]{0,20}\d+[ \t]?(?:c?gy|fractions)\b", re.IGNORECASE
)
_BIOPSY_AFTER = re.compile(r"[ \t]+(?:biops(?:y|ies)|forceps)\b", re.IGNORECASE)  # "cold" before these is an instrument
_KIND = (
    r"(?:any|auditory|central|deep|external|firm|her|his|loud|my|noxious|painful|peripheral|physical|sternal|tactile|the|their|verbal|visual|vocal)\b"
)
_TO_STIMULUS = re.compile(
    rf"[ \t]+to[ \t]+(?:{_KIND}[ \t]*(?:,|/|\b(?:and|or)\b)?[ \t]*)*"
    r"(?:(?:calling|commands?|noises?|pain(?![ \t]+(?:control|kill|manag|med|relie))|questions?|rub(?:s|bing)?|shak(?:e|es|ing)|shout(?:s|ing)?|sounds?|speech|touch|voices?)\b|"
    r"stimul|(?<=noxious)|(?<=painful)|(?<=sternal)|(?<=tactile)|(?<=verbal)|(?<=vocal))"
    # the words that are joined to it may end in a treatment: "verbal or physical therapy"
    r"(?!(?:[ \t]*(?:,[ \t]*(?:(?:and|or)\b)?|/|\b(?:and|or)\b)[ \t]*[a-z]+){0,3}[ \t]*[-–]?[ \t]*(?:pills?|therap(?:y|ies)|treatments?)\b)",
    re.IGNORECASE,
)
_SERVICES = ("infectious disease", "infectious diseases")  # also a medical service
_SERVES_AFTER = re.compile(
    r"[ \t]+(?:(?:attending|department|division|doctor|fellow|physician|provider)s?|docs?)\b"
    r"|[ \t]+(?:(?:has|have|had|is|are|was|were|will|be|been|also|then|currently|subsequently)[ \t]+)*"
    r"(?:agreed|agrees|asked|called|consulted|contacted|felt|followed|following|involved|notified|recommended|recommends|suggested|suggests)\b",
    re.IGNORECASE,
)
_SERVES_BEFORE = re.compile(
    r"\b(?:called|consult(?:ation|ed|ing|s)?|contacted|(?:discuss(?:ed|ion)|follow(?:ed|[ -]?up)?|input|per|recommendations|recs|seen))[ \t]+(?:(?:by|from|of|to|with)[ \t]+)?"
    r"(?:(?:an|our|the)[ \t]+)?$",
    re.IGNORECASE,
)
# "surgery" and "anesthesia" are also services, the first also a practice: "General Surgery was consulted", "discussed with surgery", "seen in surgery today"
# The last letter is compared first, because the pattern is slow
_DEPARTMENT = re.compile(r"(?:[a-z]+[ \t-]+){0,2}?(?:surgery|ana?esthesia)", re.IGNORECASE)
_DEPARTMENT_AFTER = re.compile(
    r"[ \t]+(?:attendings?|clinics?|consult(?:ant|ation|ing)?s?|departments?|dept|division|fellow|residents?|service|teams?)\b(?![ \t]+for)"
    r"|[ \t]+(?:(?:has|have|had|is|are|was|were|will|be|been|also|then)[ \t]+)+(?:aware|consulted|contacted|following|notified|on[ \t]+board|paged)\b",
    re.IGNORECASE,
)
_DEPARTMENT_BEFORE = re.compile(
    r"\b(?:(?:called|consult(?:ed|ing|s)?|contacted|paged|per)|consult(?:ation|ed|s)?[ \t]+(?:by|from|to|with)|(?:input|opinion|review)[ \t]+(?:by|from)|(?:department|dept|division|opinion)[ \t]+of|"
    r"(?:d/w|discuss(?:ed|ion)[ \t]+with|spoken?[ \t]+(?:to|with))|(?:assessed|evaluated|reviewed|seen)[ \t]+by|(?:follow(?:ed)?[ -]?up|f/u)[ \t]+(?:by|with)|refer(?:ral|red)?[ \t]+to|"
    # a patient is followed by a service, but "chemotherapy followed by surgery" is a treatment
    r"(?:(?:(?:he|patient|pt|she)[ \t]+(?:(?:has[ \t]+been|is|was)[ \t]+)?|being[ \t]+|closely[ \t]+)followed|(?-i:Followed))[ \t]+by)"
    r"[ \t]+(?:(?:our|the)[ \t]+)?(?:(?:cardiac|cardiothoracic|colorectal|emergency|general|oral|orthop(?:a)?edic|pa?ediatric|plastic|thoracic|transplant|trauma|vascular)[ \t]+)?$",
    re.IGNORECASE,
)
_PRACTICE_BEFORE = re.compile(
    r"\b(?:(?:assessed|reviewed|seen)[ \t]+(?:at|in)|attend(?:ed|ing|s)?)[ \t]+(?:(?:his|her|my|our|the|their)[ \t]+)?(?:GP[ \t]+)?$", re.IGNORECASE
)

_TESTS = {
    "BP": "blood pressure",
    "HR": "heart rate",
    "RR": "respiratory rate",
    "WBC": "white blood cell count",
    "HGB": "hemoglobin",
    "HCT": "hematocrit",
    "PLT": "platelet count",
    "BUN": "blood urea nitrogen",
    "INR": "INR",
    "GCS": "Glasgow coma scale",
}
_LETTER_AND_DIGIT = re.compile(rf"[{''.join(sorted({test[-1] + test[-1].lower() for test in _TESTS}))}]\d")  # most notes hold no such pair
_GLUED = re.compile(rf"(?<![\w/-])({'|'.join(_TESTS)})(?=\d)", re.IGNORECASE)


class Glued(NamedTuple):
    """A test or vital sign that is written together with its value, such as "HR91".

    Attributes:
        start: its place in the text, in characters.
        end: the character after it, which is the first of the value.
        name: what it stands for.
    """

    start: int
    end: int
    name: str


def glued(text: str) -> Iterator[Glued]:
    """Yield the tests and vital signs of a text that are written together with their values, from left to right."""
    for match in _GLUED.finditer(text) if _LETTER_AND_DIGIT.search(text) else ():
        yield Glued(match.start(), match.end(), _TESTS[match[1].upper()])


def means_something_else(text: str, start: int, end: int, group: str = "") -> bool:
    """Return whether a name is no mention, because of what is beside it: "cold knife", "stress test", "weight loss diet", "fall in hemoglobin", "received radiation to the neck".

    Args:
        text: the text.
        start: first character of the name.
        end: the character after the last one.
        group: semantic group of the name.
    """
    if text[start - 1 : start] in ("-", "–") and (
        _AFTER_PART.search(text, max(0, start - 8), start) or _goes_on_from_letter(text, start, end, group)
    ):
        return True
    if text[end : end + 1] == "-" and text[end + 1 : end + 2].isalpha() and _FIRST_PART.fullmatch(text, start, end):
        return True
    name, rules = text[start:end].lower(), _beside()
    if text[start] in "DMP" and _PERSON.match(text, start):  # "Ms. Q" is no mental status
        return True
    if text[end : end + 1] in _JOINED and (_WORD_PART.match(text, end) or _HELD.match(text, end) or _RATIO.match(text, end)):
        return True
    if group == DRUG and _RESPONSE.match(text, end):
        return True
    if name in ("weight loss", "losing weight") and (_AIM_AFTER.match(text, end) or _AIM_BEFORE.search(text, max(0, start - 24), start)):
        return True  # "weight loss diet", "surgery for weight loss" are no symptoms
    if name.endswith(("fall", "falls")) and OF_VALUE.match(text, end) and _IS_FALL.fullmatch(text, start, end):
        return True
    if name == "tearing" and is_of_tissue(text, end):
        return True
    if name in _SERVICES and (_SERVES_AFTER.match(text, end) or _SERVES_BEFORE.search(text, max(0, start - 24), start)):
        return True
    if (
        name.startswith("radiation")
        and _RADIATION.fullmatch(text, start, end)
        and (_TREATED_BEFORE.search(text, max(0, start - 24), start) or _TREATED_AFTER.match(text, end))
    ):
        return True  # a treatment, no pain that radiates
    if name == "cold" and _BIOPSY_AFTER.match(text, end):
        return True
    words = [rules[each] for each in (name, FINDINGS if group == FINDING else "") if each in rules]
    if not words or (name == "unresponsive" and _TO_STIMULUS.match(text, end)):
        return False
    sides = (("before", _WORD_BEFORE.search(text, max(0, start - 24), start)), ("after", _WORD_AFTER.match(text, end)))
    beside = [(side, found[1].lower().replace("’", "'")) for side, found in sides if found is not None]
    return any(each in those for each in beside for those in words)


def is_department(text: str, start: int, end: int) -> bool:
    """Return whether a name is a service of a hospital or a practice, and no treatment: "General Surgery was consulted", "seen in surgery today".

    Args:
        text: the text.
        start: first character of the name.
        end: the character after the last one.
    """
    if text[end - 1].lower() not in "ya" or _DEPARTMENT.fullmatch(text, start, end) is None:
        return False
    if _DEPARTMENT_AFTER.match(text, end) or _DEPARTMENT_BEFORE.search(text, max(0, start - 48), start):
        return True
    return end - start == len("surgery") and _PRACTICE_BEFORE.search(text, max(0, start - 32), start) is not None


def _goes_on_from_letter(text: str, start: int, end: int, group: str) -> bool:
    """Return whether a name is the end of a word with a single letter and a hyphen: "PAP" in "E-PAP", but not "CVA" in "F-CVA", where F is the father."""
    if _LETTER.search(text, max(0, start - 3), start) is None:
        return False
    return _DEVICE.fullmatch(text, start, end) is not None or (group != FINDING and is_acronym(text[start:end]))


def is_after_title(before: str) -> bool:
    """Return whether a text ends in the title of a person, after which a name of this person follows: "seen by Dr. "."""
    return _PERSON_BEFORE.search(before) is not None


def is_named_after_finding(name: str) -> bool:
    """Return whether a name ends with a word after which a finding is no mention: "hepatitis C titer", "stroke team" are no findings."""
    words = name.lower().split()
    return len(words) > 1 and ("after", words[-1]) in _beside()[FINDINGS]


def is_adjective(text: str, start: int, end: int) -> bool:
    """Return whether a name of one word is an adjective before another word, or after a slash: "facial" in "facial features" is no face, "AD/vascular" no vessel."""
    if _ADJECTIVE.fullmatch(text, start, end) is None:
        return False
    after = _NEXT_WORD.match(text, end)
    return (after is not None and after[1].lower() not in STOP_WORDS) or _PAIRED.search(text, max(0, start - 3), start) is not None


@lru_cache(maxsize=1)
def _beside() -> dict[str, frozenset[tuple[str, str]]]:
    """Read the table. Return name -> (side, word) pairs."""
    rows = [line.split("\t") for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")][1:]
    names = dict.fromkeys(name for name, _, _ in rows)
    return {each: frozenset((side, word) for name, side, words in rows if name == each for word in words.split()) for each in names}


def is_title(name: str) -> bool:
    """Return whether a name is the title of a part of a note, such as "family history"."""
    return name.rstrip().lower().endswith(_TITLE_ENDS) and _TITLE.fullmatch(" ".join(name.split())) is not None


def names_many_tests(title: str) -> bool:
    """Return whether a title says only that results of several tests follow: "VITAL SIGNS", "Laboratory data"."""
    return _GENERAL.fullmatch(" ".join(title.split())) is not None
