"""Contexts of abbreviations whose meaning is known: a long form in a note is hidden, as if one of its abbreviations were there."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.context.sections import Section, find_sections, section_at
from spacy_sapbert.context.sense_model import Context, normal, read_context

from ..errors import fail
from .inventory import Sense, meanings_of_names, words

LONGEST = 8  # greatest number of words of a long form
MOST = 200  # greatest number of contexts of one meaning
PARTS = {**dict.fromkeys(range(6), "train"), 6: "dev", 7: "dev", 8: "test", 9: "test"}  # tenth of the notes -> part
AROUND = 400  # characters on each side of a long form that are read
_PARTS = re.compile(r"[^\W_]+(?:'s)?")


@dataclass(frozen=True)
class Labelled:
    """A context of a known meaning.

    Attributes:
        part: "train", "dev" or "test", by the note.
        name: Name of the meaning, see `meanings_of_names`.
        context: Context of the place, with the long forms of this meaning hidden everywhere.
        others: Meanings that are written out elsewhere in the note; this meaning is among them if it is written out again.
        abbreviation: The abbreviation that the note has here; "" if the note has the long form here.
    """

    part: str
    name: str
    context: Context
    others: frozenset[str]
    abbreviation: str = ""


class Place(NamedTuple):
    """A long form, or an abbreviation, in a note. Places sort in the order in which they are drawn, by `order`."""

    order: str
    note: int
    start: int
    end: int
    name: str
    abbreviation: str
    others: frozenset[str]


def read_notes(path: Path) -> list[str]:
    """Return the distinct notes of a file of JSON lines with `transcription`.

    Raises:
        SapbertError: E547.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            notes = dict.fromkeys((json.loads(line)["transcription"] or "").strip() for line in lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise fail("E547", path=path, expected="notes as JSON lines with 'transcription'", why=f"{type(error).__name__}: {error}") from error
    return [note for note in notes if note]


def part_of(note: str) -> str:
    """Return the part of a note, chosen by its hash: six tenths are for training, two for dev, two for test."""
    return PARTS[int(hashlib.blake2b(note.encode(), digest_size=4).hexdigest(), 16) % 10]


def find_contexts(notes: Sequence[str], inventory: Mapping[str, list[Sense]]) -> tuple[list[Labelled], dict[tuple[str, str], int]]:
    """Return contexts of the meanings of ambiguous abbreviations, and how often each meaning is written out: (part, name) -> times.

    At most `MOST` contexts of one meaning and part are taken, drawn by a hash. An abbreviation with a capital letter also gives a context if the note
    has the long form of exactly one of its meanings.

    Args:
        notes: Distinct texts.
        inventory: Abbreviation -> meanings.
    """
    meaning_of = meanings_of_names(inventory)
    ambiguous = {short: {meaning_of[words(sense.names[0])] for sense in senses} for short, senses in inventory.items() if len(senses) > 1}
    wanted = set().union(*ambiguous.values())
    texts = [re.sub(r",(?=[A-Z][A-Z /]+:)", "\n", note) for note in notes]
    drawn: dict[tuple[str, str, str], list[Place]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for number, text in enumerate(texts):
        part, tokens = part_of(notes[number]), list(_PARTS.finditer(text))
        places = list(_places([token[0].lower() for token in tokens], meaning_of))
        occurrences = Counter(meaning_of[name] for _, _, name in places)
        alone = frozenset(occurrences)
        once = {name: alone - {name} for name, count in occurrences.items() if count == 1}
        for i, j, form in places:
            name = meaning_of[form]
            times[part, name] += 1
            if name in wanted:
                start, end = tokens[i].start(), tokens[j - 1].end()
                drawn.setdefault((part, name, ""), []).append(Place(_draw(start, text), number, start, end, name, "", once.get(name, alone)))
        for token in tokens:
            short = normal(token[0])
            if short in ambiguous and any(c.isupper() for c in token[0]):
                here = ambiguous[short] & alone
                if len(here) == 1:
                    (name,) = here
                    place = Place(_draw(token.start(), text), number, token.start(), token.end(), name, short, alone)
                    drawn.setdefault((part, name, short), []).append(place)
    taken = [place for _, places in sorted(drawn.items()) for place in sorted(places)[:MOST]]
    sections = {number: find_sections(texts[number]) for number in sorted({place.note for place in taken})}
    forms: dict[str, list[str]] = {}
    for form, name in meaning_of.items():
        forms.setdefault(name, []).append(form)
    return [_labelled(place, texts[place.note], part_of(notes[place.note]), sections[place.note], forms[place.name]) for place in taken], dict(times)


def _draw(start: int, text: str) -> str:
    return hashlib.blake2b(f"{start} {text[max(0, start - 50) : start + 50]}".encode(), digest_size=8).hexdigest()


def _labelled(place: Place, text: str, part: str, sections: list[Section], forms: list[str]) -> Labelled:
    section = section_at(sections, place.start)
    kind = "" if section is None else section.kind
    if place.abbreviation:
        context = read_context(text, place.start, place.end, kind)
    else:
        left, right = (_hide(side, forms) for side in (text[max(0, place.start - AROUND) : place.start], text[place.end : place.end + AROUND]))
        context = read_context(f"{left}X{right}", len(left), len(left) + 1, kind)._replace(case=-1)
    return Labelled(part, place.name, context, place.others, place.abbreviation)


def _hide(text: str, forms: list[str]) -> str:
    """Return a text in which long forms are replaced by "X"."""
    pattern = "|".join(r"[\W_]+".join(map(re.escape, form.split())) for form in sorted(forms, key=len, reverse=True))
    return re.sub(rf"\b(?:{pattern})\b", "X", text, flags=re.IGNORECASE)


def _places(tokens: list[str], meaning_of: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """Yield first word, one past the last word, and name of the longest long forms, from left to right."""
    i = 0
    while i < len(tokens):
        for n in range(min(LONGEST, len(tokens) - i), 0, -1):
            name = " ".join(tokens[i : i + n])
            if name in meaning_of:
                yield i, i + n, name
                i += n
                break
        else:
            i += 1
