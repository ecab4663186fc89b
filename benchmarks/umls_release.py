"""Write a synthetic UMLS release of any size from invented words. It holds no text and no identifier of the Metathesaurus.

`write_release(folder, concepts)` streams MRCONSO, MRSTY, MRDEF, MRREL, MRSAB, MRRANK, MRCUI and MRFILES in the real files' column layout and order
(sorted by CUI). The same concepts, seed and relations give the same bytes; memory does not grow with the size.

What resembles a real release. The totals are NLM's for the releases of 2023 and 2024, rounded (3.4 M concepts, 17 M rows of MRCONSO, 3.6 M
of MRSTY, 0.4 M of MRDEF; 70% of the names are English); all shares by language, vocabulary, term type and suppression are estimates.

- 5.1 rows of MRCONSO per concept, by a long-tailed distribution (log-normal; half of the concepts have three or fewer), 3 of them
  English and not suppressed: 4 M concepts have 12 M English names in 20 M rows. 1.05 rows of MRSTY per concept, 0.12 of MRDEF.
- Languages, vocabularies with the term types they use, preferred and other atoms, obsolete and suppressed rows, by their shares (`LANGUAGES`,
  `VOCABULARIES`, `SUPPRESSED`). In three of ten rows a vocabulary repeats the string of another; other rows have another case, ", NOS", words
  swapped around a comma, a plural, a qualifier in brackets, or a real synonym (`VARIANTS`).
- Words: a Zipf-like distribution over invented words, rare words (like species, chemicals, genes) composed when needed, codes and numbers. An
  English name has 4.3 words and 34 characters on average, half have no more than 26, one in a hundred over 145, one in two thousand over 500:
  our estimate, since NLM publishes none. At 4 M concepts one distinct name in a hundred belongs to several concepts.
- MRREL: `relations` rows per concept. The real table has 12 to 16; the reader takes about three of them (PAR, CHD, trade names) and skips the others
  without parsing. The default is 4: all rows that are taken, and fewer of the others, so reading looks slower per row than it is, not faster.

What does not: no words are near each other in meaning; LUI and SUI are shared only within a concept; a parent is any other concept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spacy_sapbert.readers.rrf_files import COLUMNS

MOST = 4_900_000  # concepts: a CUI has seven digits, and every second number is reserved for retired concepts
RELATIONS = 4.0
_BLOCK = 20_000  # concepts drawn at once

# language of MRCONSO, share of rows in 10,000
LANGUAGES = {
    "ENG": 7030, "SPA": 930, "FRE": 290, "JPN": 230, "POR": 290, "RUS": 190, "DUT": 190, "GER": 160, "ITA": 160, "CZE": 130, "KOR": 100,
    "HUN": 80, "CHI": 60, "NOR": 45, "POL": 40, "EST": 25, "SWE": 20, "FIN": 15, "SCR": 10, "TUR": 5,
}  # fmt: skip
# English vocabulary, share of its rows, and its term types, the preferred one first
VOCABULARIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "SNOMEDCT_US": (17, ("PT", "FN", "SY", "IS")),
    "NCBI": (22, ("SCN", "SY", "EQ")),
    "MSH": (10, ("MH", "NM", "ET", "PM", "PEP")),
    "MTH": (5, ("PN",)),
    "RXNORM": (6, ("IN", "SCD", "BN", "SY", "PSN")),
    "NCI": (6, ("PT", "SY", "AB")),
    "LNC": (9, ("LN", "LC", "LPN", "OSN")),
    "ICD10PCS": (4, ("PT", "AB", "HT")),
    "ICD10CM": (3, ("PT", "AB", "ET", "HT")),
    "MEDCIN": (5, ("PT", "XM", "SY")),
    "GO": (2, ("PT", "SY", "IS")),
    "OMIM": (2, ("PT", "ETAL", "ACR")),
    "FMA": (3, ("PT", "SY")),
    "HGNC": (3, ("PT", "ACR", "NA")),
    "MDR": (2, ("LLT", "PT", "HT")),
    "CHV": (3, ("PT", "SY")),
    "HPO": (1, ("PT", "SY", "ET")),
    "VANDF": (1, ("CD", "IN")),
}
FOREIGN = ("MDR", "MSH", "SCT", "LNC")  # translated vocabularies: MSHGER, SCTSPA
SUPPRESSED = (("N", 840), ("O", 110), ("Y", 45), ("E", 5))
VARIANTS = (
    ("same", 30), ("synonym", 32), ("lower", 7), ("upper", 4), ("title", 6), ("nos", 4), ("turned", 7), ("plural", 3), ("qualified", 6), ("short", 1),
)  # fmt: skip
WORDS = {
    1: 15,
    2: 22,
    3: 18,
    4: 13,
    5: 9,
    6: 6,
    7: 5,
    8: 4,
    9: 3,
    11: 2,
    14: 1.5,
    18: 0.8,
    25: 0.4,
    40: 0.15,
    75: 0.06,
}  # number of words of a name -> its share, of about 100
_QUALIFIERS = ("disorder", "finding", "procedure", "substance", "organism", "product", "body structure", "observable entity")
_OPENING = ("b", "br", "c", "ch", "d", "dr", "f", "g", "gl", "h", "l", "m", "n", "p", "ph", "pl", "r", "s", "st", "t", "th", "tr", "v", "x", "z")
_MIDDLE = ("a", "e", "i", "o", "u", "ae", "io", "y", "ou")
_CLOSING = ("", "", "", "", "", "", "n", "r", "l", "s", "m", "c", "t", "x")
_ENDING = ("itis", "oma", "osis", "al", "ic", "ia", "ine", "ate", "us", "um", "ol", "ide", "ase", "on", "ary", "", "", "")
_SMALL = ("of", "and", "with", "the", "in", "to", "by", "for", "or", "due", "left", "right", "type", "other", "mg")
_ACCENTS = str.maketrans("aeiou", "áéíóú")
_SCRIPTS = {"RUS": 0x430, "JPN": 0x30A2, "CHI": 0x4E00, "KOR": 0xAC00}  # first of the 30 letters in which words of these languages are written
_RELATIONS = ("RO", "RB", "RN", "SY", "RQ", "SIB")
_RELA = ("", "has_finding_site", "associated_with", "mapped_to", "has_ingredient", "inverse_isa", "part_of", "method_of")


class ReleaseCounts(NamedTuple):
    """Counts of a release.

    Attributes:
        rows: rows written, by table.
        names: number of English rows that are not suppressed.
        bytes: size of all files in bytes.
    """

    rows: dict[str, int]
    names: int
    bytes: int


def cui(number: int) -> str:
    """Return the CUI of the concept with this number, from 0. It is odd; retired concepts have the even numbers."""
    return f"C{2 * number + 1:07d}"


def write_release(folder: Path, concepts: int, *, seed: int = 0, relations: float = RELATIONS) -> ReleaseCounts:
    """Write a synthetic release.

    Args:
        folder: folder to write into.
        concepts: number of concepts.
        seed: seed of all random choices.
        relations: rows of MRREL for each concept, 0 for none.

    Raises:
        ValueError: `concepts` is not between 1 and MOST.
    """
    if not 0 < concepts <= MOST:
        raise ValueError(f"{concepts:,} concepts: it must be 1 to {MOST:,}")
    folder.mkdir(parents=True, exist_ok=True)
    lexicon = _Lexicon(seed)
    rows: dict[str, int] = {}
    atoms = _Atoms(lexicon, concepts, seed)
    tables: dict[str, Iterable[list[str]]] = {
        "MRCONSO": atoms,
        "MRSTY": _types(concepts, seed),
        "MRDEF": _definitions(lexicon, concepts, seed),
        "MRREL": _relations(concepts, seed, relations),
        "MRCUI": _retired(concepts, seed),
        "MRSAB": [_vocabularies()],
        "MRRANK": [_ranks()],
    }
    written, listed = 0, ""
    for table, blocks in tables.items():
        if table == "MRREL" and not relations:
            continue
        count = 0
        with open(folder / f"{table}.RRF", "w", encoding="utf-8", newline="\n") as file:
            for block in blocks:
                count += len(block)
                file.write("".join(block))
        rows[table] = count
        size = (folder / f"{table}.RRF").stat().st_size
        written += size
        listed += f"{table}.RRF|{table}||{COLUMNS[table][0]}|{count}|{size}|\n"
    (folder / "MRFILES.RRF").write_text(listed, encoding="utf-8")
    return ReleaseCounts(rows, atoms.names, written)


def _chance(seed: int, table: int, block: int) -> np.random.Generator:
    return np.random.default_rng([seed, table, block])


def _blocks(concepts: int) -> Iterator[tuple[int, int, int]]:
    """Yield for each block its number, its first concept, and one past its last concept."""
    for number, start in enumerate(range(0, concepts, _BLOCK)):
        yield number, start, min(start + _BLOCK, concepts)


def _pick(chance: np.random.Generator, shares: Iterable[float], size: int) -> list[int]:
    bounds = np.array(list(accumulate(shares)))
    return [int(place) for place in np.searchsorted(bounds, chance.random(size) * bounds[-1], side="right")]


class _Lexicon:
    """Invented words. `common` repeats each word by its frequency, so that a uniform draw from it has Zipf's distribution."""

    SIZE, PLACES = 60_000, 1 << 18

    def __init__(self, seed: int) -> None:
        chance = _chance(seed, 0, 0)
        syllables = [o + m + c for o in _OPENING for m in _MIDDLE for c in _CLOSING]
        drawn = chance.integers(0, len(syllables), (2 * self.SIZE, 3)).tolist()
        ends = chance.integers(0, len(_ENDING), 2 * self.SIZE).tolist()
        lengths = _pick(chance, (5, 4, 1), 2 * self.SIZE)
        made = (("".join(syllables[s] for s in row[: length + 1])) + _ENDING[end] for row, length, end in zip(drawn, lengths, ends))
        self.words = [*_SMALL, *list(dict.fromkeys(made))[: self.SIZE - len(_SMALL)]]
        self.syllables = [syllables[i] for i in chance.permutation(len(syllables)).tolist()]
        places = np.arange(1, len(self.words) + 1) ** -0.85
        shares = np.cumsum(places / places.sum())
        common = np.searchsorted(shares, (np.arange(self.PLACES) + 0.5) / self.PLACES)
        self.common: list[str] = [self.words[min(i, len(self.words) - 1)] for i in common.tolist()]


class _Draws:
    """Random words for one block. Each name takes the next ones."""

    def __init__(self, lexicon: _Lexicon, chance: np.random.Generator, names: int) -> None:
        self._words, self._syllables, self._ends = lexicon.common, lexicon.syllables, _ENDING
        sizes = list(WORDS)
        lengths = np.array(sizes)[_pick(chance, WORDS.values(), names)]
        self._lengths: Iterator[int] = iter(lengths.tolist())
        total = int(lengths.sum())
        self._common = chance.integers(0, len(lexicon.common), total).tolist()
        self._kind = _pick(chance, (76, 17, 4, 3), total)  # common, rare, number, letters and a number
        self._rare = chance.integers(0, len(lexicon.syllables) ** 3, total).tolist()
        self._at = 0

    def name(self) -> str:
        length = next(self._lengths)
        start = self._at
        self._at = end = start + length
        words = [self._words[i] for i in self._common[start:end]]
        for place, kind in enumerate(self._kind[start:end]):
            if length == 1 or kind:
                rare = self._rare[start + place]
                if kind < 2:
                    words[place] = self.rare(rare)
                elif length == 1 or kind == 3:  # such as genes and catalogue numbers
                    words[place] = f"{self._syllables[rare % 997].upper()}{rare // 997 % 9999}"
                else:
                    words[place] = str(rare % 500)
        words[0] = words[0].capitalize() if words[0].islower() else words[0]
        return " ".join(words)

    def rare(self, number: int) -> str:
        size = len(self._syllables)
        number, first = divmod(number, size)
        number, second = divmod(number, size)
        return str(self._syllables[first] + self._syllables[second] + self._ends[number % len(self._ends)])


class _Atoms:
    """Rows of MRCONSO. `names` counts the English rows that are not suppressed and were yielded so far."""

    def __init__(self, lexicon: _Lexicon, concepts: int, seed: int) -> None:
        self._lexicon, self._concepts, self._seed = lexicon, concepts, seed
        self.names = 0

    def __iter__(self) -> Iterator[list[str]]:
        atom = string = term = 0
        for number, start, end in _blocks(self._concepts):
            chance = _chance(self._seed, 1, number)
            counts = 1 + np.floor(np.minimum(chance.lognormal(0.97, 1.04, end - start), 400.0)).astype(np.int64)
            total = int(counts.sum())
            draws = _Draws(self._lexicon, chance, total)
            languages = iter(_pick(chance, LANGUAGES.values(), total))
            variants = iter(_pick(chance, (share for _, share in VARIANTS), total))
            suppressed = iter(_pick(chance, (share for _, share in SUPPRESSED), total))
            vocabularies = iter(_pick(chance, (share for share, _ in VOCABULARIES.values()), total))
            dice = iter(chance.integers(0, 1 << 30, total).tolist())
            rows: list[str] = []
            for concept, count in enumerate(counts.tolist(), start):
                rows_of, atom, string, term = self._concept(
                    cui(concept), count, draws, languages, variants, suppressed, vocabularies, dice, (atom, string, term)
                )
                rows.extend(rows_of)
            yield rows

    def _concept(
        self,
        concept: str,
        count: int,
        draws: _Draws,
        languages: Iterator[int],
        variants: Iterator[int],
        suppressed: Iterator[int],
        vocabularies: Iterator[int],
        dice: Iterator[int],
        numbers: tuple[int, int, int],
    ) -> tuple[list[str], int, int, int]:
        atom, string, term = numbers
        rows: list[str] = []
        seen: dict[str, tuple[int, int]] = {}  # string -> the numbers of its SUI and LUI
        first = preferred = ""
        last: tuple[str, tuple[int, int]] = ("", (0, 0))
        for place in range(count):
            lat, variant, dice_ = _LATS[next(languages)], _VARIANTS[next(variants)], next(dice)
            flag, (sab, types) = _FLAGS[next(suppressed)], _SABS[next(vocabularies)]
            if lat != "ENG":
                text = _foreign(draws.name(), lat)
                sab, types = _foreign_sab(lat, dice_), ("PT", "SY", "LLT")
            elif not first:
                text = first = draws.name()
            elif variant == "synonym":
                text = draws.name()
            else:
                text = last[0] if variant == "same" and last[0] else _FORMS[variant](first, dice_)
            if text not in seen:
                string += 1
                same_term = text.lower() == last[0].lower() and last[0]
                term += not same_term
                seen[text] = (string, last[1][1] if same_term else term)
            last = (text, seen[text]) if lat == "ENG" else last
            own = seen[text]
            best = lat == "ENG" and not preferred and flag == "N"
            preferred = preferred or (text if best else "")
            tty = types[0] if dice_ % 3 == 0 else types[dice_ // 3 % len(types)]
            atom += 1
            self.names += lat == "ENG" and flag == "N"
            code = f"{sab[0]}{dice_ % 900_000 + 100_000}" if place and dice_ % 5 else f"{sab[0]}{atom:07d}"
            rows.append(
                f"{concept}|{lat}|{'P' if best or dice_ % 4 == 1 else 'S'}|L{own[1]:07d}|{'PF' if best or dice_ % 5 < 3 else 'VO'}|S{own[0]:07d}|"
                f"{'Y' if best or dice_ % 2 else 'N'}|A{atom:08d}||{code if dice_ % 3 else ''}||{sab}|{tty}|{'NOCODE' if sab == 'MTH' else code}|"
                f"{text}|{dice_ % 5 if dice_ % 7 else 0}|{flag}|{'256' if dice_ % 9 == 0 else ''}|\n"
            )
        return rows, atom, string, term


def _turned(name: str, dice: int) -> str:
    """Swap the two parts of a name around a comma: "diabetes mellitus type 2" -> "type 2, diabetes mellitus"."""
    words = name.split(" ")
    if len(words) < 2:
        return f"{name} {dice % 9}"
    at = 1 + dice % (len(words) - 1)
    return f"{' '.join(words[at:])}, {' '.join(words[:at])}"


_FORMS: dict[str, Callable[[str, int], str]] = {
    "same": lambda name, dice: name,
    "lower": lambda name, dice: name.lower(),
    "upper": lambda name, dice: name.upper(),
    "title": lambda name, dice: name.title(),
    "nos": lambda name, dice: f"{name}, NOS",
    "turned": _turned,
    "plural": lambda name, dice: f"{name}s",
    "qualified": lambda name, dice: f"{name} ({_QUALIFIERS[dice % len(_QUALIFIERS)]})",
    "short": lambda name, dice: "".join(word[0] for word in name.split(" ")[:6]).upper() + str(dice % 90),
}
_LATS, _VARIANTS, _FLAGS = list(LANGUAGES), [name for name, _ in VARIANTS], [flag for flag, _ in SUPPRESSED]
_SABS = [(name, types) for name, (_, types) in VOCABULARIES.items()]


def _foreign(name: str, lat: str) -> str:
    base = _SCRIPTS.get(lat)
    if base is None:
        return name.translate(_ACCENTS) if len(name) % 2 else name
    return "".join(chr(base + ord(c) % 30) if c.isalpha() else c for c in name[: 24 if lat in ("JPN", "CHI", "KOR") else None])


def _foreign_sab(lat: str, dice: int) -> str:
    return f"{FOREIGN[dice % len(FOREIGN)]}{lat}"


def _types(concepts: int, seed: int) -> Iterator[list[str]]:
    """Yield the rows of MRSTY: one type for each concept, a second one for one in twenty. The types have a Zipf-like distribution."""
    from spacy_sapbert.kb import semantic_types

    kinds = list(semantic_types.load().values())
    shares = [1 / (place + 2) for place in range(len(kinds))]
    made = 0
    for number, start, end in _blocks(concepts):
        chance = _chance(seed, 2, number)
        first, second = (_pick(chance, shares, end - start) for _ in range(2))
        twice = (chance.random(end - start) < 0.05).tolist()
        rows: list[str] = []
        for place, concept in enumerate(range(start, end)):
            for kind in (first[place], second[place])[: 2 if twice[place] and first[place] != second[place] else 1]:
                made += 1
                rows.append(f"{cui(concept)}|{kinds[kind].tui}|{kinds[kind].stn}|{kinds[kind].name}|AT{made:08d}|256|\n")
        yield rows


def _definitions(lexicon: _Lexicon, concepts: int, seed: int) -> Iterator[list[str]]:
    """Yield the rows of MRDEF: one or two definitions of 5 to 60 words for one concept in ten; one in ten suppressed, one in eight Spanish or Czech."""
    made = 0
    for number, start, end in _blocks(concepts):
        chance = _chance(seed, 3, number)
        defined = np.flatnonzero(chance.random(end - start) < 0.1).tolist()
        size = len(defined)
        several = (chance.random(size) < 0.2).tolist()
        words = chance.integers(5, 61, 2 * size).tolist()
        drawn = iter(chance.integers(0, len(lexicon.common), sum(words)).tolist())
        sources = _pick(chance, (30, 40, 10, 8, 8, 4), 2 * size)
        flags = _pick(chance, (90, 10), 2 * size)
        rows: list[str] = []
        for place, offset in enumerate(defined):
            for at in range(2 * place, 2 * place + 1 + several[place]):
                made += 1
                text = " ".join([lexicon.common[next(drawn)] for _ in range(words[at])])
                sab = ("MSH", "NCI", "GO", "HPO", "MSHSPA", "MSHCZE")[sources[at]]
                rows.append(f"{cui(start + offset)}|A{made:08d}|AT{made:08d}||{sab}|{text.capitalize()}.|{'NO'[flags[at]]}||\n")
        yield rows


class _Shuffle:
    """A permutation of the numbers below n and its inverse, without a table, so that related concepts have distant CUIs."""

    def __init__(self, n: int, seed: int) -> None:
        factor = (0x9E3779B1 + 2 * seed) % n or 1
        while np.gcd(factor, n) != 1:
            factor += 1
        self._n, self._factor, self._back = n, factor, pow(factor, -1, n) if n > 1 else 0

    def there(self, i: int) -> int:
        return i * self._factor % self._n

    def back(self, i: int) -> int:
        return i * self._back % self._n


def _relations(concepts: int, seed: int, per_concept: float) -> Iterator[list[str]]:
    """Yield the rows of MRREL, each relation from both sides.

    PAR and CHD form a tree in which a concept has seven children. One concept in three has a second parent. One in twelve is a trade name of another.
    The partners of the other relations are computed by an exclusive or, which gives the same pair from both sides.
    """
    order = _Shuffle(concepts, seed)
    others = max(0.0, per_concept - 2.7) if per_concept < 3.7 else per_concept - 2.83
    made = 0
    for number, start, end in _blocks(concepts):
        dice = _chance(seed, 4, number).integers(0, 1 << 30, end - start).tolist()
        rows: list[str] = []
        for place, concept in enumerate(range(start, end)):
            at, own, chance = order.back(concept), cui(concept), dice[place]
            links: list[tuple[str, int, str, str]] = []
            if at:
                links.append(("PAR", (at - 1) // 7, "inverse_isa" if chance % 3 else "", "SNOMEDCT_US"))
            if at % 3 == 1 and at > 1:
                links.append(("PAR", at // 3, "", "MSH"))
            links.extend(("CHD", child, "isa" if chance % 3 else "", "SNOMEDCT_US") for child in range(7 * at + 1, min(7 * at + 8, concepts)))
            if 3 * at + 1 < concepts and at:
                links.append(("CHD", 3 * at + 1, "", "MSH"))
            if at % 12 < 2 and (at ^ 1) < concepts:
                links.append(("RO", at ^ 1, "has_tradename" if at % 2 else "tradename_of", "RXNORM"))
            for nth in range(int(others) + (chance % 1000 < 1000 * (others % 1))):
                partner = at ^ (8 + 2 * nth)
                if partner < concepts:
                    links.append((_RELATIONS[(at ^ partner) % len(_RELATIONS)], partner, _RELA[chance % len(_RELA)], "SNOMEDCT_US"))
            for rel, other, rela, sab in links:
                made += 1
                rows.append(
                    f"{own}|A{chance % 100_000_000:08d}|AUI|{rel}|{cui(order.there(other))}|A{made:08d}|AUI|{rela}|R{made:09d}||{sab}|{sab}|||"
                    f"{'O' if chance % 12 == 0 else 'N'}||\n"
                )
        yield rows


def _retired(concepts: int, seed: int) -> Iterator[list[str]]:
    """Yield the rows of MRCUI: one retired concept for every eight, two in three merged into a concept, the others deleted or split."""
    for number, start, end in _blocks(concepts):
        dice = _chance(seed, 5, number).integers(0, concepts, end - start).tolist()
        rows: list[str] = []
        for place in range(0, end - start, 8):
            old, target = f"C{2 * (start + place):07d}", cui(dice[place])
            kind = dice[place] % 6
            row = f"{old}|{2000 + dice[place] % 20}AA|"
            rows.append(row + (f"SY|||{target}|Y|\n" if kind < 4 else "DEL||||N|\n" if kind == 4 else f"RB|||{target}|Y|\n"))
        yield rows


def _vocabularies() -> list[str]:
    """Return the rows of MRSAB."""
    every: list[tuple[str, Any]] = [(sab, "ENG") for sab in VOCABULARIES]
    every.extend((f"{sab}{lat}", lat) for lat in LANGUAGES if lat != "ENG" for sab in FOREIGN)
    rows = []
    for place, (sab, lat) in enumerate(every):
        row = [cui(MOST + place), "", f"{sab}_7", sab, f"Invented {sab}", sab, "7", "", "", "7SYN", "", "someone;somewhere", "someone;somewhere", "0"]
        rows.append("|".join([*row, "1", "1", "FULL", "PT", "", lat, "UTF-8", "Y", "Y", sab, "invented"]) + "|\n")
    return rows


def _ranks() -> list[str]:
    """Return the rows of MRRANK. Larger is better; the preferred term types of all vocabularies come before the others."""
    pairs = [(sab, tty, types.index(tty)) for sab, (_, types) in VOCABULARIES.items() for tty in types]
    foreign = [(f"{sab}{lat}", tty, 5) for lat in LANGUAGES if lat != "ENG" for sab in FOREIGN for tty in ("PT", "SY", "LLT")]
    ordered = sorted([*pairs, *foreign], key=lambda pair: (pair[0] != "MTH", pair[2] > 0, pair[2]))
    return [f"{len(ordered) - place:04d}|{sab}|{tty}|N|\n" for place, (sab, tty, _) in enumerate(ordered)]
