"""Learn from annotated mentions how probable it is that the first candidate is right, given its score, its margin and whether it is an exact match.

A calibration holds numbers and no clinical text. So it can be kept and shared even if the notes that it was fit on can't.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from .errors import fail
from .files import read_stored

FORMAT = 1
FEATURES = ("score", "margin", "exact")
MAX_MARGIN = 0.2  # wider margins are cut to this: few mentions have one, and it tells nothing more
FEWEST = 50  # mentions that are needed; the share of right ones is then known to about ± 14 percentage points
INVERSE_PENALTY = 1000.0  # scikit-learn's C; so large that the three weights are hardly penalised
NOISE = 1e-9  # rounding error of a share


class Observed(NamedTuple):
    """One annotated mention as the linker ranks it.

    Attributes:
        score: score of the first candidate, -1 to 1.
        margin: margin to the runner-up; 0 for a tie.
        exact: whether the mention is an exact match.
        right: whether the first candidate is a gold concept.
        behind: how much lower the best gold concept scores than the first candidate: 0 if it is the first, inf if it is not a candidate, None if
            the knowledge base has no gold concept.
    """

    score: float
    margin: float
    exact: bool
    right: bool
    behind: float | None


@dataclass(frozen=True)
class Calibration:
    """A logistic regression of "the first candidate is right", with the numbers of the mentions that it was fit on.

    Args:
        weights: the intercept, and one weight for each of FEATURES.
        fit_on: a description of the data, in words.
        built_for: fingerprints of the encoder, the knowledge base and, if there is one, the ranker.
        settings: the linker's settings that scores depend on.
        probabilities: (n,) probability for each mention that it was fit on.
        right: (n,) whether the first candidate was right.
        behind: (m,) see `Observed`; only for mentions whose concept is in the knowledge base.
    """

    weights: tuple[float, ...]
    fit_on: str
    built_for: dict[str, str]
    settings: dict[str, Any]
    probabilities: tuple[float, ...]
    right: tuple[bool, ...]
    behind: tuple[float, ...]

    def probability(self, score: float, margin: float, exact: bool) -> float:
        """Return how probable it is that the first candidate is right, 0 to 1."""
        return _logistic(_sum(self.weights, (score, min(margin, MAX_MARGIN), float(exact))))

    def lowest(self, precision: float) -> float:
        """Return the lowest p for which this share of the links is right, if all mentions with a probability of at least p are linked.

        The share is measured on the mentions that the calibration was fit on. One wrong link is added, so that a few lucky links are not enough.
        This does not guarantee the precision on new mentions. With a calibration of 173 mentions, it is one or two points below a target of 0.90
        in a third of the cases, and below a target of 0.95 in most.

        Args:
            precision: share of right links, 0 to 1.

        Raises:
            SapbertError: E011, no p reaches this precision.
        """
        order = np.argsort(-np.array(self.probabilities), kind="stable")
        p = np.array(self.probabilities)[order]
        wrong = np.cumsum(~np.array(self.right, dtype=np.bool_)[order])
        within = 1.0 - (wrong + 1) / (np.arange(len(p)) + 2)  # precision with one more wrong link
        whole = np.r_[p[1:] < p[:-1], True]  # mentions with equal probabilities are all linked or all not
        good = np.flatnonzero(whole & (within >= precision))
        if not len(good):
            best = float(within[whole].max())
            raise fail("E011", what="target_precision", value=precision, n=len(p), fit_on=self.fit_on, best=_down(best))
        return float(p[good[-1]])

    def score_gap(self, coverage: float) -> float:
        """Return how far behind the first candidate a concept may score, so that this share of mentions has the right concept as a candidate.

        This is split conformal prediction: of the n observed distances, the ceil((n + 1) * coverage)-th smallest. The coverage holds on average,
        for mentions that are like the annotated ones and whose concept is in the knowledge base.

        Args:
            coverage: share of mentions, 0 to 1.

        Raises:
            SapbertError: E011, this coverage can't be reached.

        Source:
            Vovk et al. 2005; Angelopoulos and Bates 2023, equation 1.
        """
        behind = np.sort(np.array(self.behind))
        rank = math.ceil((len(behind) + 1) * coverage - NOISE)  # because 100 * 0.55 is 55.00000000000001
        if rank > len(behind) or not math.isfinite(behind[rank - 1]):
            best = int(np.isfinite(behind).sum()) / (len(behind) + 1)
            raise fail("E011", what="coverage", value=coverage, n=len(behind), fit_on=self.fit_on, best=_down(best))
        return float(behind[rank - 1])

    def to_json(self) -> str:
        """Return the text that `read_calibration` reads. JSON has no `inf`; it is written as null."""
        content = {"kind": "calibration", "format": FORMAT, "features": FEATURES, **asdict(self)}
        content["behind"] = [value if math.isfinite(value) else None for value in self.behind]
        return json.dumps(content, ensure_ascii=False) + "\n"


_Probability = Annotated[float, Field(ge=0.0, le=1.0)]
_Distance = Annotated[float, Field(ge=0.0)]


class _Stored(BaseModel):
    """The content of a calibration file."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["calibration"]
    format: Literal[1]
    features: tuple[Literal["score"], Literal["margin"], Literal["exact"]]
    weights: tuple[float, float, float, float]
    fit_on: str
    built_for: dict[str, str]
    settings: dict[str, Any]
    probabilities: Annotated[tuple[_Probability, ...], Field(min_length=1)]
    right: tuple[bool, ...]
    behind: tuple[_Distance | None, ...]

    @model_validator(mode="after")
    def _same_mentions(self) -> _Stored:
        if len(self.probabilities) != len(self.right):
            raise ValueError("'probabilities' and 'right' are not of the same length")
        return self


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file.

    Raises:
        DamagedFile: E015.
        SapbertError: E106, the file is of another kind or format.
        FileNotFoundError: there is no such file.
    """
    stored = read_stored(path, _Stored, kind="calibration", version=FORMAT, damaged="E015")
    behind = tuple(math.inf if value is None else value for value in stored.behind)
    return Calibration(**stored.model_dump(exclude={"kind", "format", "features", "behind"}), behind=behind)


def fit_calibration(observed: Iterable[Observed], *, fit_on: str, built_for: dict[str, str], settings: dict[str, Any]) -> Calibration:
    """Fit a logistic regression of `right` on score, margin and exact match.

    Args:
        observed: annotated mentions.
        fit_on: see `Calibration`.
        built_for: see `Calibration`.
        settings: see `Calibration`.

    Raises:
        SapbertError: E012, too few mentions, or all of them are right or all are wrong; E013, scikit-learn is not installed.

    Source:
        Platt 1999, with margin and exact match in addition to the score.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise fail("E013", what="Fitting a calibration", package="scikit-learn") from error
    rows = list(observed)
    right = [row.right for row in rows]
    if len(rows) < FEWEST or len(set(right)) < 2:
        raise fail("E012", n=len(rows), right=sum(right), fewest=FEWEST)
    features = [(row.score, min(row.margin, MAX_MARGIN), float(row.exact)) for row in rows]
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=5000).fit(features, right)
    weights = tuple(float(value) for value in (*model.intercept_, *model.coef_[0]))
    probabilities = tuple(_logistic(_sum(weights, feature)) for feature in features)
    return Calibration(weights, fit_on, built_for, settings, probabilities, tuple(right), tuple(row.behind for row in rows if row.behind is not None))


def _logistic(value: float) -> float:
    """Return 1 / (1 + exp(-value)), without overflow."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0 else small / (1.0 + small)


def _down(share: float) -> float:
    """Round down to three decimals, so that a message never promises more than can be reached."""
    return math.floor(1000 * share + NOISE) / 1000


def _sum(weights: Sequence[float], features: Sequence[float]) -> float:
    return weights[0] + sum(weight * value for weight, value in zip(weights[1:], features))
