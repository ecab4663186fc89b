"""What is a name only with the text around it: letters of a list, findings under a heading, tests with a result, vaccines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ..context.sections import MEDICATIONS, find_sections, section_at
from .beside import DRUG, FINDING, glued
from .contrast import PROCEDURE
from .hash_fractures import hash_fractures
from .headed import headed
from .hyphenated import hyphenated
from .interrupted import interrupted
from .joining import WHOLE, Match, Places
from .letter_pairs import letter_pairs
from .letters import letters
from .levels import levels, vertebrae
from .listed import Listed, listed
from .lookup import Lookup
from .on_air import on_air
from .overdoses import overdoses
from .results import LEVEL, READ, has_result
from .rhythms import rhythms
from .short_lists import short_lists
from .sutures import sutures
from .torn import torn
from .vaccines import VACCINE, vaccines
from .valued import valued
from .vital_signs import vital_signs
from .worded import worded

NORMAL = "nothing abnormal detected"


def with_letters(matches: list[Match], text: str, lookup: Lookup) -> list[Match]:
    """Add what is a name only with the text around it.

    These are letters for findings ("N/V/D") or vital signs ("T 37.2"), words for findings in a list ("urgency, frequency") or in a phrase ("after a fall"),
    tests before values, names that an abbreviation interrupts, levels of the spine ("L5 root", "L4-L5"), sutures ("7-0 Vicryl"), torn tissue ("tearing of the
    meniscus"), names with a hyphen ("E-PAP"), room air ("sats 98% OA"), overdoses ("OD on aspirin"), rhythms ("AF controlled"), fractures with their sign ("# L radius"), and items of short lists ("replace K + Mg").

    Names that were found in their place are removed.

    Args:
        matches: the names that were found, from left to right.
        text: the text.
        lookup: what is looked for.
    """
    starts = [match.start for match in matches]

    def is_inside_name(one: Listed) -> bool:
        before = bisect_right(starts, one.start)
        return before > 0 and one.end <= matches[before - 1].end

    def is_inside_longer_name(one: Listed) -> bool:
        before = bisect_right(starts, one.start)
        return is_inside_name(one) and matches[before - 1][:2] != one[:2]

    in_words = [one for one in worded(text) if not is_inside_name(one)]  # "fall at home" is a name
    one_letter = ((one.start, one.start + 1, one.name) for one in (*letters(text), *vital_signs(text)))
    in_doses = overdoses(text, matches, [lookup.group_of(match.label) for match in matches]) if "OD" in text else ()
    in_measures = [
        one for one in (*vertebrae(text), *torn(text), *in_doses, *rhythms(text)) if not is_inside_longer_name(one)
    ]  # "L4-5 disc herniation" is a name
    in_parts = [one for one in (*hyphenated(text), *sutures(text)) if not is_inside_name(one)]
    others = (*in_measures, *in_parts, *listed(text), *letter_pairs(text), *glued(text), *in_words, *interrupted(text), *levels(text), *on_air(text))
    in_values = [one for one in valued(text) if not is_inside_longer_name(one)]
    in_signs = (*hash_fractures(text), *short_lists(text), *in_values)
    found = sorted([*one_letter, *others, *in_signs], key=lambda one: (one[0], -one[1]))
    more: list[Match] = []
    for (start, end, name), label in zip(found, lookup.labels_of([name for _, _, name in found])):
        if label is not None and (not more or start >= more[-1].end):
            more.append(Match(start, end, label.partition("\t")[0], name))
    if not more:
        return matches
    taken = Places((one.start, one.end) for one in more)
    return _left_to_right([*more, *(match for match in matches if not taken.overlap(match.start, match.end))])


def as_tests(matches: list[Match], text: str, lookup: Lookup) -> list[Match]:
    """Make substances with a result into tests, if the name of the test is a name: "sodium 140" is looked up as "sodium level".

    In a list of medications, a number without a unit is a dose.

    Args:
        matches: the names that were found, from left to right.
        text: the text.
        lookup: what is looked for.
    """
    at = [
        i
        for i, one in enumerate(matches)
        if lookup.group_of(one.label) == DRUG
        and has_result(text[one.end : one.end + READ], one.corrected or text[one.start : one.end], text[max(0, one.start - READ) : one.start])
    ]
    if at:
        sections = find_sections(text)
        at = [i for i in at if (section := section_at(sections, matches[i].start)) is None or section.kind != MEDICATIONS]
    return _with_word(matches, at, LEVEL, text, lookup)


def as_normal(matches: list[Match], text: str, lookup: Lookup) -> list[Match]:
    """Make "NAD" directly after a test "nothing abnormal detected", if this is a name: "CT head NAD". Elsewhere it may be no acute distress.

    Args:
        matches: the names that were found, from left to right.
        text: the text.
        lookup: what is looked for.
    """
    at = [
        i
        for i, (test, one) in enumerate(zip(matches, matches[1:]), 1)
        if text[one.start : one.end] == "NAD" and lookup.group_of(test.label) == PROCEDURE and text[test.end : one.start].strip(" \t:-") == ""
    ]
    return _looked_up(matches, dict.fromkeys(at, NORMAL), lookup)


def as_vaccines(matches: list[Match], text: str, lookup: Lookup) -> list[Match]:
    """Make diseases and germs into vaccines where they stand for one, if its name is a name: "varicella given" is looked up as "varicella vaccine".

    Args:
        matches: the names that were found, from left to right.
        text: the text.
        lookup: what is looked for.
    """
    return _with_word(matches, vaccines(matches, [lookup.group_of(one.label) for one in matches], text), VACCINE, text, lookup)


def _with_word(matches: list[Match], at: Iterable[int], word: str, text: str, lookup: Lookup) -> list[Match]:
    """Return the matches; those at some positions are looked up with a word after them, if this is a name."""
    return _looked_up(matches, {i: f"{matches[i].corrected or text[matches[i].start : matches[i].end]} {word}" for i in at}, lookup)


def _looked_up(matches: list[Match], names: dict[int, str], lookup: Lookup) -> list[Match]:
    """Return the matches; those at the positions in `names` are looked up as these, if they are names."""
    if not names:
        return matches
    made = list(matches)
    for (i, name), label in zip(names.items(), lookup.labels_of(list(names.values()))):
        if label is not None:
            made[i] = made[i]._replace(label=label.partition("\t")[0], corrected=name)
    return made


def with_headings(matches: list[Match], text: str, lookup: Lookup, skipped: Places) -> list[Match]:
    """Add findings whose heading is a part of their name: "NECK: Supple". A finding replaces a name in its place: "ABDOMEN: tenderness".

    Args:
        matches: the names that were found, from left to right.
        text: the text.
        lookup: what is looked for.
        skipped: places (characters) that hold no mention.
    """
    items = list(headed(text, find_sections(text)))
    each = [(one, name) for item in items for one in item for name in one.names]
    labels = dict(zip(each, lookup.labels_of([name for _, name in each])))
    places = Places((one.start, one.end) for one in matches)
    made: dict[tuple[int, int], Match] = {}
    for item in items:
        for one in item:
            found = ((name, label) for name in one.names if (label := labels[one, name]) is not None and lookup.group_of(label) in WHOLE)
            if (first := next(found, None)) is not None:
                made[one.start, one.end] = Match(one.start, one.end, first[1].partition("\t")[0], first[0])
                break
    if not made:
        return matches
    taken = {(one.start, one.end) for one in matches}
    findings = {(one.start, one.end) for one in matches if lookup.group_of(one.label) == FINDING}
    of_system = {(one.start, one.end) for item in items for one in item if one.of_system}
    made = {place: one for place, one in made.items() if not (place in findings and place in of_system)}
    fitting = [one for place, one in made.items() if (place in taken or not places.overlap(*place)) and not skipped.overlap(*place)]
    instead = {(one.start, one.end) for one in fitting}
    return _left_to_right([*fitting, *(one for one in matches if (one.start, one.end) not in instead)])


def _left_to_right(matches: Sequence[Match]) -> list[Match]:
    return sorted(matches, key=lambda one: (one.start, -one.end))
