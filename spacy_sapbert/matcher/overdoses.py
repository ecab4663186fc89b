"""Where "OD" is an overdose: beside tablets or drugs, and in "took an OD", but not in "senna 2 tabs OD" (once a day) and "acuity 20/40 OD" (the right eye)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from .beside import DRUG
from .joining import Match
from .listed import Listed

OVERDOSE = "overdose"
MANY = 10  # tablets; so many are no dose of one day
_BEFORE_READ, _AFTER_READ, _EYES_READ = 48, 40, 60  # characters
_OD = re.compile(r"(?<![\w/.-])(?:OD(?P<verb>['’]?d|ed|ing)|OD['’]?s?)(?![\w/-])")
_EYES = re.compile(
    r"\b(?:O[SU]|IOP|VA|BCVA|LASIK|PPV|PK|gtts?|drops?|ointment|acuity|eye(?:s|d|lids?)?|vis(?:ion|ual)|ophth\w*|opti(?:c|cal)|cornea\w*|kerat\w*|lens|fund(?:us|i)|"
    r"retin\w*|macul\w*|cataracts?|pseudophak\w*|glaucoma\w*|vitre\w*|intravitreal|conjunctiv\w*|scler\w*|iri(?:s|tis)|uveitis|blepharit\w*|chalazion|diplopia|ptosis|"
    r"amblyop\w*|myop\w*|hyperop\w*|injections?|laser|surgery|\w+prost|timolol|brimonidine|dorzolamide|20/\d{2,3}|"
    # narrow pupils are a sign of an overdose
    r"(?<!pinpoint )(?<!constricted )(?<!miotic )pupils?(?![ \t]+(?:(?:are|were)[ \t]+)?(?:constricted|miotic|pin-?point))|"
    # drugs that are given only into the eye
    r"aflibercept|ranibizumab|eylea|lucentis|ozurdex|cosopt|trusopt|azopt|xalatan|lumigan|travatan|combigan|alphagan|vigamox|pred[ \t]forte|durezol|tobradex|maxitrol|restasis|"
    r"artificial[ \t]tears)\b",
    re.IGNORECASE,
)
_UNITS = r"(?:tab(?:let)?s?|cap(?:sule)?s?|pills?)"
_SUBSTANCE = (
    r"(?:alcohol|benzos?|cocaine|drugs?|etoh|fentanyl|heroin|meds|medications?|opiates?|opioids?|pcm|poly-?(?:drug|pharmacy|substance)|tylenol)"
)
_ON = re.compile(
    rf"[ \t]+(?:on|of|with)[ \t]+(?=(?P<words>(?:[^\s.;,]+[ \t]+){{0,5}}))(?:(?:[^\s.;,]+[ \t]+){{0,4}}?(?P<named>{_UNITS}|{_SUBSTANCE})\b)?",
    re.IGNORECASE,
)
_COUNT_BEFORE = re.compile(rf"(?<![\d.])(?P<count>\d+)(?!\d)[ \t]*(?:x[ \t]*)?(?:\d+[ \t]?m?g[ \t]+)?{_UNITS}[ \t]+$", re.IGNORECASE)
_COUNT_AFTER = re.compile(
    rf"[ \t]*[,:–-]?[ \t]*(?:(?P<times>x)[ \t]*|approx\.?[ \t]*|~[ \t]*)?(?P<count>\d+)(?!\d)[ \t]*(?:x[ \t]*)?(?:\d+[ \t]?m?g[ \t]+)?{_UNITS}\b",
    re.IGNORECASE,
)
_TIMES = re.compile(r"(?P<count>\d+)[ \t]*x[ \t]*$", re.IGNORECASE)  # before the drug: "30 x paracetamol OD"
_KIND = (
    r"(?:accidental|acute|another|attempted|deliberate|fatal|impulsive|intentional|large|massive|mixed|multiple|near-?fatal|non-?fatal|past|possible|previous|prior|recent|"
    r"second|significant|staggered|suicidal|suspected|unintentional)"
)
_TAKEN = re.compile(
    rf"(?:\b(?:took|taken|taking|takes?|had|having)[ \t]+an?[ \t]+(?:{_KIND}[ \t]+)?|\b{_KIND}[ \t]+(?:{_KIND}[ \t]+)?"
    rf"|\b(?:admitted|attended|attends|brought in|presented|presenting|presents|seen)[ \t]+(?:after|following|post|with)[ \t]+(?:an?[ \t]+)?"
    rf"|\b(?:PC|presenting complaint|reason for admission)[ \t]*[:-]?[ \t]*|(?<![\w/])\?[ \t]?|\b(?:after|following)[ \t]+(?:an?|her|his)[ \t]+)$",
    re.IGNORECASE,
)
# without "an": "took OD", but "takes ramipril OD" and "to be taken OD" are once a day
_TOOK = re.compile(r"\b(?:took|had|ha(?:d|s|ve|ving)[ \t]+taken)[ \t]+$", re.IGNORECASE)
_ROUTE = r"(?:PO|p\.o\.|by mouth|orally|IV|IM|SC|subcut|SL|PR|NG|PEG|inh|neb)"
# between a drug and "OD": "aspirin 75 OD", "furosemide 40 mg PO OD", "Laxido 1 sachet OD"
_DOSED = re.compile(rf"(?:[ \t]+[A-Z]{{2}})?[ \t]+\d[\d.,/-]*[ \t]?[a-z]{{0,8}}(?:[ \t]+[a-z]+)?(?:[ \t]+{_ROUTE})?[ \t]*\??[ \t]*", re.IGNORECASE)
# directly before "OD"; the dose of an unknown drug, or a route
_DOSE_BEFORE = re.compile(rf"(?:\d[ \t]?(?:mcg|mg|g|iu|ml|units?|puffs?)|(?<![\w.]){_ROUTE})[ \t]+\??[ \t]*$", re.IGNORECASE)
_TREATED = re.compile(
    r"\b(?:add(?:ed)?|advised|beg[au]n|chang|commenc|continu|dispensed|gave|given|increas|initiat|on|prescri|reduc|restart|resum|start|stopp|switch|uptitrat)"
    r"[a-z]*[ \t]+(?:(?:back|her|him|on|the|to|with)[ \t]+){0,2}$",
    re.IGNORECASE,
)
_KNOWN = re.compile(rf"\b(?:{_SUBSTANCE}|acetaminophen|apap|paracetamol)[ \t]+$", re.IGNORECASE)
_TOLD = re.compile(
    r"[ \t]*\(?(?:attempts?\b|x[ \t]?\d{1,2}\b(?![ \t]*(?:/|daily|d(?:ays?|oses?)?\b|per\b|w(?:ee)?ks?\b|m(?:on)?ths?\b|tab|cap|pill))|\d+(?:/(?:7|52|12)|[ \t]*(?:h|hrs?|hours?|d|days?|wks?|weeks?|months?|mths?|years?|yrs?))[ \t]+ago\b|"
    r"(?:last|this)[ \t]+(?:evening|month|morning|night|week|year)\b|today\b|tonight\b|yesterday\b|in[ \t]+(?:19|20)\d\d\b|aged?\b)",
    re.IGNORECASE,
)
_SUPPLY = re.compile(r"[ \t]*\(?x(?![ \t]?[2-4]\b)", re.IGNORECASE)  # "omeprazole OD x 28", but "sertraline OD x2" is how often


def overdoses(text: str, names: Sequence[Match], groups: Sequence[str]) -> Iterator[Listed]:
    """Yield each "OD" that is an overdose.

    These are "OD on paracetamol", "took an OD", "intentional OD", "paracetamol OD", "OD x2 in 2019", "16 tabs OD", "OD'd on aspirin". Where the text beside it is
    about an eye, after the dose of a drug, and in "takes ramipril OD", it is none.

    Args:
        text: the note.
        names: the names that were found in it, from left to right.
        groups: their semantic groups.
    """
    drugs: list[Match] | None = None
    for found in _OD.finditer(text):
        start, end = found.span()
        if not found["verb"] and is_about_eyes(text, start, end):
            continue
        if drugs is None:
            drugs = [one for one, group in zip(names, groups) if group == DRUG]
        if found["verb"] or _is_overdose(text, start, end, drugs):
            yield Listed(start, end, OVERDOSE)


def is_about_eyes(text: str, start: int, end: int) -> bool:
    """Return whether the words beside "OD" in its line are about an eye: "IOP OD 14", "cataract OD", "OD 20/40, OS 20/20".

    Args:
        text: the note.
        start: first character of "OD".
        end: the character after it.
    """
    low, high = max(0, start - _EYES_READ), min(len(text), end + _EYES_READ)
    first, line = max(text.rfind("\n", low, start) + 1, low), text.find("\n", end, high)
    last = line if line >= 0 else high
    return _EYES.search(text, first, start) is not None or _EYES.search(text, end, last) is not None


def _is_overdose(text: str, start: int, end: int, drugs: Sequence[Match]) -> bool:
    low = max(0, start - _BEFORE_READ)
    before = bisect_left(drugs, start, key=lambda one: one.start) - 1
    drug = drugs[before] if before >= 0 and not text[drugs[before].end : start].strip(" \t") else None  # "paracetamol OD"
    is_told = _TOLD.match(text, end) is not None
    many_after = (count := _COUNT_AFTER.match(text, end, end + _AFTER_READ)) is not None and int(count["count"]) >= MANY
    is_supply = count is not None and count["times"] is not None  # "omeprazole OD x 28 capsules"
    if drug is not None:
        times = _TIMES.search(text, max(0, drug.start - _BEFORE_READ), drug.start)
        many = (many_after and not is_supply) or (times is not None and int(times["count"]) >= MANY)
        return (
            many
            or (is_told and not _SUPPLY.match(text, end) and _TREATED.search(text, max(0, drug.start - _BEFORE_READ), drug.start) is None)
            or _TAKEN.search(text, max(0, drug.start - _BEFORE_READ), drug.start) is not None
            or _KNOWN.search(text, low, start) is not None
        )
    if before >= 0 and start - drugs[before].end <= _BEFORE_READ and _DOSED.fullmatch(text, drugs[before].end, start):
        return False
    on = _is_on(text, end, drugs)
    if (count := _COUNT_BEFORE.search(text, low, start)) is not None:
        of_drug = before >= 0 and not text[drugs[before].end : count.start()].strip(" \t")  # "senna 2 x 30 mg tabs OD"
        return not of_drug and (on or int(count["count"]) >= MANY)
    if _DOSE_BEFORE.search(text, low, start):
        return False
    return (
        on
        or many_after
        or is_told
        or _TAKEN.search(text, low, start) is not None
        or _TOOK.search(text, low, start) is not None
        or _KNOWN.search(text, low, start) is not None
        or text[start:end] == "ODs"
    )


def _is_on(text: str, end: int, drugs: Sequence[Match]) -> bool:
    """Return whether "on", "of" or "with" and a drug or tablets follow: "OD on her sertraline", "OD of 20 tabs"."""
    on = _ON.match(text, end, end + 2 * _AFTER_READ)
    if on is None:
        return False
    if on["named"]:
        return True
    after = bisect_left(drugs, end, key=lambda one: one.start)
    return after < len(drugs) and drugs[after].start <= on.start("words") + len(on["words"])
