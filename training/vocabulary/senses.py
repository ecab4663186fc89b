"""Read the senses of clinical abbreviations, with CUIs and frequencies, from the tables of Vanderbilt and Stetson."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.kb.concept import is_cui, normalise
from spacy_sapbert.readers.text import lines


class Sense(NamedTuple):
    """One meaning of an abbreviation.

    Attributes:
        abbreviation: The abbreviation in its most frequent spelling ("CP", "afib").
        long_form: The meaning in words.
        cui: CUI of the meaning; "" if the source gives none.
        frequency: Share of the occurrences of the abbreviation that have this meaning, 0 to 1.
        source: One of "vanderbilt_clinic_notes", "vanderbilt_discharge_sums" or "stetson".
    """

    abbreviation: str
    long_form: str
    cui: str
    frequency: float
    source: str


def read_senses(paths: Sequence[Path]) -> Iterator[Sense]:
    """Read tables of senses. Vanderbilt has the columns abbreviation, sense, variation, CUI and frequency; Stetson lacks variation and CUI."""
    for path in paths:
        source = path.name.split(".")[0]
        for _, line in lines(path):
            cells = line.split("\t")
            if len(cells) == 5 and cells[0] != "abbreviation":
                cuis = [cui for cui in cells[3].upper().split("|") if is_cui(cui)]
                yield Sense(_written(cells[0], cells[2]), cells[1].strip(), cuis[0] if cuis else "", _share(cells[4]), source)
            elif len(cells) == 3:
                yield Sense(cells[0].strip(), cells[1].strip(), "", _share(cells[2]), "stetson")


def _written(abbreviation: str, variations: str) -> str:
    """Return the most frequent spelling among variations such as "cp_1|CP_9"; without any, the abbreviation with "/" for Vanderbilt's "_"."""
    counted = [(int(count), text) for text, _, count in (v.strip().rpartition("_") for v in variations.split("|")) if count.isdigit() and text]
    return max(counted)[1].strip(".,;: ") if counted else abbreviation.replace("_", "/")


def _share(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def joined(senses: Iterable[Sense], preferred: dict[str, str]) -> list[Sense]:
    """Join the senses of all sources into one row for each abbreviation and CUI.

    The frequency of a row is the mean over the sources that have the abbreviation.

    Args:
        senses: Senses of all sources.
        preferred: CUI -> id of its concept in the vocabulary; CUIs that are not in it are not changed.

    Returns:
        Rows sorted by abbreviation, and then by frequency, the highest first. The long form is that of the most frequent row. A row without a CUI
        gets the CUI of a row with the same words.
    """
    rows = list(senses)
    words: dict[str, str] = {}
    for row in rows:
        if row.cui:
            words.setdefault(_stem(row.long_form), preferred.get(row.cui, row.cui))
    sources: dict[str, set[str]] = defaultdict(set)
    shares: dict[tuple[str, str], float] = defaultdict(float)
    best: dict[tuple[str, str], Sense] = {}
    for row in rows:
        short = normalise(row.abbreviation)
        sources[short].add(row.source)
        cui = preferred.get(row.cui, row.cui) or words.get(_stem(row.long_form), "")
        key = (short, cui or f"={_stem(row.long_form)}")
        shares[key] += row.frequency
        if key not in best or row.frequency > best[key].frequency:
            best[key] = row._replace(cui=cui)
    found = [best[key]._replace(frequency=round(share / len(sources[key[0]]), 4)) for key, share in shares.items()]
    return sorted(found, key=lambda row: (normalise(row.abbreviation), -row.frequency, row.cui, row.long_form))


def _stem(words: str) -> str:
    """Return words without the endings in which the sources differ, such as "bypass grafting" and "bypass graft"."""
    kept = [word for word in normalise(words).split() if word not in ("of", "the")]
    return " ".join(word.removesuffix("ing").removesuffix("s") for word in kept)
