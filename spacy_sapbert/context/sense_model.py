"""A model of the meanings of abbreviations: how frequent each meaning is, and which words stand around it. It uses numpy, not spaCy.

It is a log-linear model. The evidence for a meaning is one number for each of `SIGNALS`. The softmax of the weighted sums, over the meanings of
an abbreviation, gives probabilities.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from ..errors import DamagedFile, MissingFile, fail
from ..types import Floats2d

MEANINGS, PROFILES, ABOUT = "meanings.tsv", "profiles.safetensors", "about.json"  # files of a model's folder
FORMAT = 1
ARRAYS = ("background", "bounds", "ids", "counts", "totals", "written")
COUNTED = ("words", "near", "values", "section")  # signals that are counted in contexts
SIGNALS = ("frequency", "written", *COUNTED, "case", "note")
WINDOW, WORDS = 150, 12  # characters and tokens that are read on each side
RARE = 1e-3  # lowest frequency of a meaning, also of one whose frequency is not known
_REMEMBERED = 8192  # texts whose normalised forms are remembered
MOST = 0.995  # highest probability: an abbreviation can always have a meaning that is in no list
_TOKEN = re.compile(r"[^\W\d_]+(?:['/&][^\W\d_]+)*|\d+(?:[.,/:]\d+)*|[%:<>=+]")
_SMALL = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "by",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "she",
        "that",
        "the",
        "their",
        "there",
        "this",
        "to",
        "was",
        "were",
        "with",
    ]
)


class Meaning(NamedTuple):
    """One meaning of one abbreviation.

    Attributes:
        abbreviation: normalised, see `normal`.
        name: the meaning in words.
        cuis: CUIs of the meaning, the best first; empty if no list has one.
        frequency: share of the abbreviation's uses with this meaning, 0 to 1.
        cases: how often it was written in lower case, mixed, in capitals.
        profile: number of its profile (counts of the text around it), -1 if nothing was counted. Abbreviations with the same meaning share one.
    """

    abbreviation: str
    name: str
    cuis: tuple[str, ...]
    frequency: float
    cases: tuple[int, int, int] = (0, 0, 0)
    profile: int = -1


class Context(NamedTuple):
    """The text around an abbreviation, as features.

    Attributes:
        features: signal of `COUNTED` -> features.
        case: case of the abbreviation: 0 lower case, 1 mixed, 2 capitals; -1 not known.
    """

    features: dict[str, list[str]]
    case: int = -1


@lru_cache(maxsize=_REMEMBERED)
def normal(abbreviation: str) -> str:
    """Return the normalised form of an abbreviation: "A.fib" and "afib" are the same, "s_p" and "s/p" too."""
    return "".join(abbreviation.split()).replace(".", "").replace("_", "/").lower()


def case_of(text: str) -> int:
    """Return the case of a text: 0 lower case, 1 mixed, 2 capitals (a plural "s" may follow), -1 no letters."""
    letters = [c for c in text if c.isalpha()]
    if not letters:
        return -1
    if len(letters) > 2 and letters[-1] == "s":
        letters = letters[:-1]
    capitals = sum(c.isupper() for c in letters)
    return 0 if capitals == 0 else 2 if capitals == len(letters) else 1


def read_context(text: str, start: int, end: int, section: str = "") -> Context:
    """Return the context of the abbreviation text[start:end].

    Args:
        text: a note.
        start: first character of the abbreviation.
        end: character after its last one.
        section: kind of its section, "" if not known.
    """
    left, right = tokens_of(text, start, end)
    before, after = left[-3:][::-1], right[:3]
    near = [f"-{i}:{token}" for i, token in enumerate(before[:2], 1)] + [f"+{i}:{token}" for i, token in enumerate(after[:2], 1)]
    near += ["-2-1:" + " ".join(before[:2][::-1]), "+1+2:" + " ".join(after[:2])]
    values = [f"-{i}:{token}" for i, token in enumerate(before, 1) if not token[0].isalpha()]
    values += [f"+{i}:{token}" for i, token in enumerate(after, 1) if not token[0].isalpha()]
    features = {
        "words": _words([*left, *right]),
        "near": near,
        "values": values or ["none"],
        "section": [section] if section else [],
    }
    return Context(features, case_of(text[start:end]))


def tokens_of(text: str, start: int, end: int) -> tuple[list[str], list[str]]:
    """Return the tokens before and after text[start:end], at most `WORDS` on each side: words in lower case, "#" for a number, and some signs.

    Args:
        text: a note.
        start: first character of the abbreviation.
        end: character after its last one.
    """
    return _tokens(text[max(0, start - WINDOW) : start])[-WORDS:], _tokens(text[end : end + WINDOW])[:WORDS]


def _tokens(text: str) -> list[str]:
    """Return words in lower case, "#" for a number, and some signs."""
    return ["#" if token[0].isdigit() else token for token in _TOKEN.findall(text.lower())]


def _words(tokens: Iterable[str]) -> list[str]:
    return sorted({token for token in tokens if token[0].isalpha() and token not in _SMALL})


@dataclass(frozen=True, eq=False)
class SenseModel:
    """The meanings of abbreviations, with counts of the text around them.

    Args:
        meanings: all of them, grouped by abbreviation.
        weights: signal -> weight.
        smoothing: signal -> weight of the background, in tokens.
        vocabulary: signal -> features. Ids of features are numbers in this order, over all signals of `COUNTED`.
        background: (f,) probability of each feature among the features of its signal.
        bounds: (p + 1,) where each profile begins in `ids` and `counts`; the last one is c.
        ids: (c,) ids of features, ascending in each profile.
        counts: (c,) how often the feature was seen in the profile.
        totals: (p, 4) number of features of each signal of `COUNTED` in each profile.
        written: (p,) how often notes write the meaning in full words.
        about: what the model was made from.

    Source:
        Dirichlet smoothing: Zhai and Lafferty, A study of smoothing methods for language models, SIGIR 2001.
    """

    meanings: list[Meaning]
    weights: Mapping[str, float]
    smoothing: Mapping[str, float]
    vocabulary: Mapping[str, list[str]]
    background: npt.NDArray[np.float32]
    bounds: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint16]
    totals: npt.NDArray[np.float32]
    written: npt.NDArray[np.float32]
    about: Mapping[str, Any]

    @cached_property
    def by_abbreviation(self) -> dict[str, list[Meaning]]:
        """Abbreviation -> its meanings."""
        found: dict[str, list[Meaning]] = {}
        for meaning in self.meanings:
            found.setdefault(meaning.abbreviation, []).append(meaning)
        return found

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        found, first = {}, 0
        for signal in COUNTED:
            found[signal] = {feature: first + i for i, feature in enumerate(self.vocabulary[signal])}
            first += len(found[signal])
        return found

    def meanings_of(self, text: str) -> list[Meaning]:
        """Return the known meanings of an abbreviation; a plural such as "PEs" has the meanings of "PE"."""
        key = normal(text)
        found = self.by_abbreviation.get(key, [])
        if not found and key.endswith("s") and len(key) > 2 and text[-1] == "s" and text[:-1].isupper():
            found = self.by_abbreviation.get(key[:-1], [])
        return found

    def evidence(self, meanings: Sequence[Meaning], context: Context, in_note: Sequence[bool] = ()) -> Floats2d:
        """Return the evidence for each meaning.

        Args:
            meanings: s meanings.
            context: the context of the abbreviation.
            in_note: for each meaning, whether the note writes it in words, or links its concept, elsewhere; empty: not known.

        Returns:
            (s, 8), a column for each of `SIGNALS`: log probabilities, or the log of how much more probable the context is with the meaning.
        """
        table = np.zeros((len(meanings), len(SIGNALS)), dtype=np.float32)
        for i, meaning in enumerate(meanings):
            table[i, 0] = math.log(max(meaning.frequency, RARE))
            table[i, 1] = math.log1p(float(self.written[meaning.profile]) if meaning.profile >= 0 else 0.0)
            seen = sum(meaning.cases)
            if context.case >= 0 and seen:
                table[i, -2] = math.log((meaning.cases[context.case] + 0.3) / (seen + 0.9) * 3.0)
            table[i, -1] = float(bool(in_note) and in_note[i])
        for column, signal in enumerate(COUNTED):
            known = self._ids[signal]
            ids = np.array(sorted({known[feature] for feature in context.features.get(signal, ()) if feature in known}), dtype=self.ids.dtype)
            if not len(ids):
                continue
            smooth = self.smoothing[signal] * self.background[ids]
            for i, meaning in enumerate(meanings):
                if meaning.profile < 0:
                    continue
                a, b = self.bounds[meaning.profile], self.bounds[meaning.profile + 1]
                row = self.ids[a:b]
                at = np.minimum(np.searchsorted(row, ids), max(len(row) - 1, 0))
                counts = np.where(row[at] == ids, self.counts[a:b][at], 0) if len(row) else 0.0
                total = self.totals[meaning.profile, column]
                like = np.log((counts + smooth) / (total + self.smoothing[signal]) / self.background[ids])
                table[i, 2 + column] = float(like.sum())
        return table

    def probabilities(self, evidence: Floats2d) -> npt.NDArray[np.float64]:
        """Return the probability of each meaning (s,), at most `MOST`, from the evidence (s, 8)."""
        scores = evidence.astype(np.float64) @ np.array([self.weights[signal] for signal in SIGNALS])
        shares = np.exp(scores - scores.max())
        found: npt.NDArray[np.float64] = np.minimum(shares / shares.sum(), MOST)
        return found

    # -- files ----------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the model's files into an existing folder."""
        lines = ["abbreviation\tname\tcuis\tfrequency\tlower\tmixed\tupper\tprofile"]
        for m in self.meanings:
            lines.append("\t".join([m.abbreviation, m.name, "|".join(m.cuis), f"{m.frequency:.5g}", *map(str, m.cases), str(m.profile)]))
        (folder / MEANINGS).write_text("\n".join(lines) + "\n", encoding="utf-8")
        arrays = {name: getattr(self, name) for name in ARRAYS}
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / PROFILES)
        about = {"kind": "senses", "format": FORMAT, "weights": dict(self.weights), "smoothing": dict(self.smoothing), **self.about}
        about["vocabulary"] = {signal: " ".join(feature.replace(" ", "_") for feature in self.vocabulary[signal]) for signal in COUNTED}
        (folder / ABOUT).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> SenseModel:
        """Read a model.

        Raises:
            MissingFile: E045, the folder has no sense model.
            DamagedFile: E046.
        """
        if not (folder / ABOUT).is_file():
            raise fail("E045", MissingFile, path=folder)
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if about.pop("kind") != "senses" or about.pop("format") != FORMAT:
                raise ValueError(f"it is not a sense model of format {FORMAT}")
            rows = [line.split("\t") for line in (folder / MEANINGS).read_text(encoding="utf-8").splitlines()[1:]]
            meanings = [
                Meaning(a, name.strip('"'), tuple(filter(None, cuis.split("|"))), float(share), (int(x), int(y), int(z)), int(profile))
                for a, name, cuis, share, x, y, z, profile in rows
            ]
            packed = about.pop("vocabulary")
            vocabulary = {signal: [feature.replace("_", " ") for feature in packed[signal].split()] for signal in COUNTED}
            weights = {signal: float(about["weights"][signal]) for signal in SIGNALS}
            arrays = load_file(folder / PROFILES)
            model = cls(
                meanings=meanings,
                weights=weights,
                smoothing={signal: float(about["smoothing"][signal]) for signal in COUNTED},
                vocabulary=vocabulary,
                about=about,
                **{name: arrays[name] for name in ARRAYS},
            )
            rows_of_profiles = len(model.bounds) - 1
            fits = len(model.background) == sum(map(len, vocabulary.values())) and len(model.ids) == len(model.counts) == int(model.bounds[-1])
            if (
                not fits
                or model.totals.shape != (rows_of_profiles, len(COUNTED))
                or model.written.shape != (rows_of_profiles,)
                or any(m.profile >= rows_of_profiles for m in meanings)
            ):
                raise ValueError("its files do not belong together")
        except Exception as error:  # json, safetensors and short lines raise different errors
            raise fail("E046", DamagedFile, path=folder, why=f"{type(error).__name__}: {error}") from error
        return model
