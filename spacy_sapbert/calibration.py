"""Learn from annotated mentions how probable it is that the first candidate is right, given the `Evidence` for it.

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
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from .errors import fail
from .files import read_stored

FORMAT = 2
FIRST_FORMAT, FIRST_FEATURES = 1, 3  # a file of the first format has weights for the first three features only
FEATURES = ("score", "margin", "exact", "synonym", "other_form", "weak_name", "tied", "acronym", "short", "vocabularies")
MAX_MARGIN = 0.2  # wider margins are cut to this: few mentions have one, and it tells nothing more
MOST_VOCABULARIES = 3  # more do not make a link more probable in clinical notes
FEWEST = 50  # mentions that are needed; the share of right ones is then known to about ± 14 percentage points
NOISE = 1e-9  # rounding error of a share
_Floats = npt.NDArray[np.float64]

# Weights that a fit starts from: those of a fit without them on labeledin, ncbi-train, bc5cdr-train, bc5cdr-chemicals-train and notes (1,500 mentions of
# each) with the linker "open". Annotated mentions pull the weights away from these. `PULL` was chosen by fits on 50 to 500 mentions of one corpus and
# on 173 of GSC+ dev, with weights from the other corpora: 30 was better than 1, 3 and 10.
USUAL = (11.3, 3.6, 1.7, -0.8, -0.7, -1.4, -0.5, -0.1, -1.0, 1.6)
SPREAD = (0.1, 0.07, 0.4, 0.4, 0.2, 0.2, 0.4, 0.2, 0.2, 0.25)  # usual standard deviation of each feature
PULL = 30.0


class Evidence(NamedTuple):
    """What a calibration knows about the first candidate of a mention.

    Attributes:
        score: score of the candidate, -1 to 1.
        margin: margin to the runner-up; 0 for a tie.
        exact: whether the mention is an exact match.
        synonym: whether the exact match is not the concept's canonical name.
        other_form: whether only another form of the mention is an exact match, such as the singular.
        weak_name: whether the name is a narrower, related or broader one, or a lay one of a concept without a CUI.
        acronym: whether the name is written as an acronym.
        short: whether the mention has at most three characters.
        vocabularies: number of vocabularies in which the concept has a code.
    """

    score: float
    margin: float
    exact: bool
    synonym: bool = False
    other_form: bool = False
    weak_name: bool = False
    acronym: bool = False
    short: bool = False
    vocabularies: int = 0

    def features(self) -> tuple[float, ...]:
        """Return a number for each of FEATURES."""
        return (
            self.score,
            min(self.margin, MAX_MARGIN),
            float(self.exact),
            float(self.synonym),
            float(self.other_form),
            float(self.weak_name),
            float(self.margin == 0.0),
            float(self.acronym),
            float(self.short),
            math.log1p(min(self.vocabularies, MOST_VOCABULARIES)),
        )


class Observed(NamedTuple):
    """One annotated mention as the linker ranks it.

    Attributes:
        evidence: what is known about the first candidate.
        right: whether the first candidate is a gold concept.
        behind: how much lower the best gold concept scores than the first candidate: 0 if it is the first, inf if it is not a candidate, None if
            the knowledge base has no gold concept.
        concept: id of the first candidate, None without one.
    """

    evidence: Evidence
    right: bool
    behind: float | None
    concept: str | None = None


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

    def probability(self, evidence: Evidence) -> float:
        """Return how probable it is that the first candidate is right, 0 to 1."""
        return _logistic(_sum(self.weights, evidence.features()))

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
    format: Literal[1, 2]
    features: tuple[str, ...]
    weights: tuple[float, ...]
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
        known = FEATURES[:FIRST_FEATURES] if self.format == FIRST_FORMAT else FEATURES
        if self.features != known or len(self.weights) != 1 + len(known):
            raise ValueError(f"it must have an intercept and a weight for each of {', '.join(known)}")
        return self


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file. One of the first format knows only the first three features; the others have the weight 0.

    Raises:
        DamagedFile: E015.
        SapbertError: E106, the file is of another kind or format.
        FileNotFoundError: there is no such file.
    """
    stored = read_stored(path, _Stored, kind="calibration", version=FORMAT, older=(FIRST_FORMAT,), damaged="E015")
    behind = tuple(math.inf if value is None else value for value in stored.behind)
    weights = (*stored.weights, *[0.0] * (1 + len(FEATURES) - len(stored.weights)))
    return Calibration(**stored.model_dump(exclude={"kind", "format", "features", "weights", "behind"}), weights=weights, behind=behind)


def fit_calibration(
    observed: Iterable[Observed],
    *,
    fit_on: str,
    built_for: dict[str, str],
    settings: dict[str, Any],
    usual: Sequence[float] = USUAL,
    pull: float = PULL,
) -> Calibration:
    """Fit a logistic regression of `right` on the features of the evidence.

    The fit starts from the usual weights, so that few mentions are enough: it maximises the likelihood minus pull / 2 times the squared distances
    of the weights from the usual ones, each multiplied by the feature's usual standard deviation. The intercept is free.

    Args:
        observed: annotated mentions.
        fit_on: see `Calibration`.
        built_for: see `Calibration`.
        settings: see `Calibration`.
        usual: a weight for each of FEATURES.
        pull: how strongly the weights are kept near the usual ones.

    Raises:
        SapbertError: E012, too few mentions, or all of them are right or all are wrong.

    Source:
        Platt 1999, with more features than the score. Chelba and Acero, EMNLP 2004, for weights that start from those of other data.
    """
    rows = list(observed)
    right = [row.right for row in rows]
    if len(rows) < FEWEST or len(set(right)) < 2:
        raise fail("E012", n=len(rows), right=sum(right), fewest=FEWEST)
    features = [row.evidence.features() for row in rows]
    weights = _weights(np.array(features), np.array(right, dtype=np.float64), np.array(usual, dtype=np.float64), pull)
    probabilities = tuple(_logistic(_sum(weights, feature)) for feature in features)
    return Calibration(weights, fit_on, built_for, settings, probabilities, tuple(right), tuple(row.behind for row in rows if row.behind is not None))


def _weights(features: _Floats, right: _Floats, usual: _Floats, pull: float) -> tuple[float, ...]:
    """Return the intercept and the weights that maximise the penalised likelihood, see `fit_calibration`.

    Args:
        features: (n, f).
        right: (n,) 1 for a right link, else 0.
        usual: (f,) weights that the fit starts from.
        pull: see `fit_calibration`.
    """
    from scipy.optimize import minimize  # imported here, because it takes 30 MB, and only a fit needs it

    spread = np.array(SPREAD)
    scaled, start = features / spread, usual * spread

    def loss(x: _Floats) -> tuple[float, _Floats]:
        logits, away = scaled @ x[1:] + x[0], x[1:] - start
        wrong = np.exp(-np.logaddexp(0.0, -logits)) - right  # (n,) probability minus truth
        slope = np.r_[wrong.sum(), scaled.T @ wrong + pull * away]
        return float((np.logaddexp(0.0, logits) - right * logits).sum() + pull / 2 * away @ away), slope

    found = minimize(loss, np.r_[0.0, start], jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-12, "gtol": 1e-6}).x
    return tuple(float(value) for value in (found[0], *(found[1:] / spread)))


def _logistic(value: float) -> float:
    """Return 1 / (1 + exp(-value)), without overflow."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0 else small / (1.0 + small)


def _down(share: float) -> float:
    """Round down to three decimals, so that a message never promises more than can be reached."""
    return math.floor(1000 * share + NOISE) / 1000


def _sum(weights: Sequence[float], features: Sequence[float]) -> float:
    return weights[0] + sum(weight * value for weight, value in zip(weights[1:], features))
