"""The meanings of clinical abbreviations, joined from several lists, with frequencies, CUIs and counts of upper and lower case."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spacy_sapbert.context.sense_model import RARE, case_of, normal

from ..errors import fail

VANDERBILT = ("vanderbilt_clinic_notes.txt.gz", "vanderbilt_discharge_sums.txt.gz")
STETSON, WIKIPEDIA, COLUMBIA = "stetson_sense_distribution_448.txt.gz", "wikipedia_abbreviation_database.csv.gz", "columbia_obgyn.txt.gz"
FILES = (*VANDERBILT, STETSON, WIKIPEDIA, COLUMBIA)
SAME = 4  # words that share this many letters at their beginning count as forms of one word
LINKS = frozenset(["a", "and", "of", "or", "the"])
GENERAL = frozenset(
    ["disease", "level", "present", "status", "system", "therapy", "tract"]
)  # one of these words after a name does not change its meaning
MAX_NAME = 80  # greatest number of characters of a name
WRONG = frozenset(  # (abbreviation, CUI) that a list gives, but notes mean something else by it
    [
        ("etoh", "C0001975"),  # the class of alcohols; notes mean ethanol
        ("hct", "C0020261"),  # hydrochlorothiazide is HCTZ; HCT is hematocrit, or CT of the head
        ("m0", "C0027627"),  # metastasis; M0 is a stage without one
    ]
)
_CUI = re.compile(r"C\d{7}")
_WORD = re.compile(r"[^\W_]+")
_PARTS = re.compile(r"[^\W_]+(?:'s)?")


@dataclass
class Sense:
    """One meaning of one abbreviation.

    Attributes:
        names: Names, the most frequent first.
        cuis: CUIs of UMLS.
        shares: Source -> share of the abbreviation's uses there.
        cases: How often the abbreviation was written in lower case, in mixed case, and in capitals.
    """

    names: list[str]
    cuis: list[str]
    shares: dict[str, float] = field(default_factory=dict)
    cases: list[int] = field(default_factory=lambda: [0, 0, 0])


def read_inventory(folder: Path) -> dict[str, list[Sense]]:
    """Return abbreviation -> its meanings, the most frequent first.

    Meanings of one abbreviation are joined if they share a CUI or their words are forms of each other ("right atrium", "right atrial"). A
    meaning that a list gives without a CUI gets the CUI of the same words elsewhere. Meanings of WRONG are left out.

    Args:
        folder: Folder with `FILES`.

    Raises:
        SapbertError: E547 (a file is missing, or its lines have another form).
    """
    rows = [row for file in FILES for row in _rows(folder, file)]
    cui_of: dict[str, list[str]] = {}
    for _, name, cuis, _, _, _ in rows:
        if cuis:
            cui_of.setdefault(_key(name), cuis)
    inventory: dict[str, list[Sense]] = {}
    for abbreviation, name, cuis, share, cases, source in rows:
        if any((abbreviation, cui) in WRONG for cui in cuis):
            continue
        cuis = cuis or cui_of.get(_key(name), [])
        senses = inventory.setdefault(abbreviation, [])
        sense = next((s for s in senses if set(cuis) & set(s.cuis) or any(_same(name, known) for known in s.names)), None)
        if sense is None:
            senses.append(sense := Sense([], []))
        sense.names += [name] if name not in sense.names else []
        sense.cuis += [cui for cui in cuis if cui not in sense.cuis]
        if share is not None:
            sense.shares[source] = sense.shares.get(source, 0.0) + share
        sense.cases = [a + b for a, b in zip(sense.cases, cases)]
    for senses in inventory.values():
        _set_frequencies(senses)
    return inventory


def meanings_of_names(inventory: Mapping[str, list[Sense]]) -> dict[str, str]:
    """Return name -> name that represents its meaning, both in the form of `words`.

    Names of one meaning of any abbreviation, and names of one CUI, have the same meaning.
    """
    leads: dict[str, str] = {}

    def lead(name: str) -> str:
        while leads.setdefault(name, name) != name:
            name = leads[name]
        return name

    of_cui: dict[str, str] = {}
    for senses in inventory.values():
        for sense in senses:
            first = lead(words(sense.names[0]))
            only = sense.cuis if len(sense.cuis) == 1 else []
            for name in [*sense.names[1:], *(of_cui[cui] for cui in only if cui in of_cui)]:
                leads[lead(words(name))] = first = lead(first)
            for cui in only:
                of_cui.setdefault(cui, sense.names[0])
    return {name: lead(name) for name in leads}


def words(text: str) -> str:
    """Return the words of a text in lower case, separated by single spaces."""
    return " ".join(_PARTS.findall(text.lower()))


def _set_frequencies(senses: list[Sense]) -> None:
    """Set the share of source "" to the average over the sources that count the abbreviation.

    Meanings that no source counts get a small share; if no source counts the abbreviation, all meanings get the same share.
    """
    sources = {source for sense in senses for source in sense.shares}
    for sense in senses:
        known = sum(sense.shares.get(source, 0.0) for source in sources) / len(sources) if sources else 1.0
        sense.shares[""] = max(known, 10 * RARE)
    total = sum(sense.shares[""] for sense in senses)
    for sense in senses:
        sense.shares[""] /= total
    senses.sort(key=lambda sense: -sense.shares[""])


def _rows(folder: Path, file: str) -> Iterator[tuple[str, str, list[str], float | None, list[int], str]]:
    """Yield abbreviation, name, CUIs, share, cases and source of each line."""
    path = folder / file
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="") as lines:
            if file == WIKIPEDIA:
                for row in csv.DictReader(lines):
                    yield from _row(row["abr"], row["long_form"], [], None, [0, 0, 0], file)
            elif file == COLUMBIA:
                for line in lines:
                    short, _, long = line.strip().partition(" ")
                    yield from _row(short, long, [], None, [0, 0, 0], file)
            elif file == STETSON:
                for line in lines:
                    short, long, share = line.rstrip("\r\n").split("\t")
                    yield from _row(short, long, [], float(share), [0, 0, 0], file)
            else:
                next(lines)
                for line in lines:
                    short, long, variants, cuis, share = line.rstrip("\r\n").split("\t")
                    yield from _row(short, long, _CUI.findall(cuis.upper()), float(share), _cases(variants), file)
    except (OSError, ValueError, KeyError) as error:
        raise fail("E547", path=path, expected="a list of abbreviations", why=f"{type(error).__name__}: {error}") from error


def _row(
    short: str, long: str, cuis: list[str], share: float | None, cases: list[int], source: str
) -> Iterator[tuple[str, str, list[str], float | None, list[int], str]]:
    """Yield the rows of a line, unless it is of no use; "x aka y" gives two rows."""
    for name in re.split(r"\s+aka\s+", long.strip()):
        name = " ".join(re.sub(r"[(\[][^()\[\]]*[)\]]", " ", name).split()).strip(" .,;")
        if len(normal(short)) > 1 and 1 < len(name) <= MAX_NAME and normal(name) != normal(short):
            yield normal(short), name, cuis, share, cases, source


def _cases(variants: str) -> list[int]:
    """Read counts such as "ALT_6|Alt_1|alt_1". Return how often the abbreviation is in lower case, in mixed case, and in capitals."""
    counts = [0, 0, 0]
    for variant in variants.split("|"):
        text, _, count = variant.rpartition("_")
        case = case_of(text)
        if case >= 0 and count.isdigit():
            counts[case] += int(count)
    return counts


def _key(name: str) -> str:
    return " ".join(_WORD.findall(name.lower()))


def _same(a: str, b: str) -> bool:
    """Say whether two names are forms of the same name: "arteries" and "arterial", "disc" and "disk", "radiation" and "radiation therapy"."""
    x, y = ([word for word in _WORD.findall(name.lower()) if word not in LINKS] for name in (a, b))
    if len(x) < len(y):
        x, y = y, x
    if len(x) == len(y) + 1 > 1 and x[-1] in GENERAL:
        x = x[:-1]
    return len(x) == len(y) and all(p == q or (min(len(p), len(q)) >= SAME and (p[:SAME] == q[:SAME] or p[:-1] == q[:-1])) for p, q in zip(x, y))
