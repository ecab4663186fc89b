"""Short names of syndromes that are named after several people, as notes write them: "Lesch-Nyhan", "von Hippel-Lindau".

Short names after one person ("Tourette's") are in supplement.tsv, because many of these words mean something else ("Baker's", "Taylor's").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from spacy_sapbert.kb.concept import Name, normalise
from spacy_sapbert.readers.names import RANKS

MIN_SHARE = 0.6  # of all names that begin with the same words, this share must belong to the concept
_PEOPLE = re.compile(r"((?:[a-z]+ )?[A-ZÀ-Þ][A-Za-zÀ-ÿ]+(?:-[A-ZÀ-Þ][A-Za-zÀ-ÿ]+)+)(?:'s)? (?:disease|syndrome|disorder)")


def short_names(concepts: Mapping[int, Sequence[Name]]) -> dict[int, list[Name]]:
    """Return the short names of concepts: row -> names. "Lesch-Nyhan syndrome" gives "Lesch-Nyhan".

    A short name is left out if a concept has it already, or if less than MIN_SHARE of all names that begin with it are names of the concept.

    Args:
        concepts: row -> its names, the canonical one first.
    """
    known = {normalise(name.text) for names in concepts.values() for name in names}
    found: dict[str, dict[int, Name]] = defaultdict(dict)  # normalised short name -> row -> short name
    for row, names in concepts.items():
        for name in names:
            if match := _PEOPLE.fullmatch(name.text.replace("’", "'")):
                short = match.group(1)
                found[normalise(short)].setdefault(row, Name(short, name.source, term_type="SY", rank=RANKS["SY"]))
    beginning: dict[str, Counter[int]] = {short: Counter() for short in found}  # short name -> row -> names that begin with it
    longest = max((len(short.split()) for short in found), default=0)
    for row, names in concepts.items():
        for name in names:
            words = normalise(name.text).replace("'s ", " ").split()
            for count in range(1, longest + 1):
                if (first := " ".join(words[:count])) in beginning:
                    beginning[first][row] += 1
    given: dict[int, list[Name]] = defaultdict(list)
    for short, names_of in sorted(found.items()):
        row, most = beginning[short].most_common(1)[0]
        if short not in known and row in names_of and most >= MIN_SHARE * sum(beginning[short].values()):
            given[row].append(names_of[row])
    return dict(given)
