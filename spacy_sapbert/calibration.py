"""What a score is worth: cosine, margin and exactness -> the probability that the top link is right, learnt from annotated mentions.

Numbers only, no text: a calibration can be kept and passed on where the notes it was fit on can't.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .errors import DamagedFile, fail

FORMAT = 1
FEATURES = ("score", "margin", "exact")
WIDE = 0.2  # a wider lead over the runner-up says no more, and few mentions have one
FEWEST = 50  # mentions; a share of right ones is known to about ± 14 points then
PENALTY = 1000.0  # scikit-learn's C: next to no penalty for three weights
NOISE = 1e-9


class Observed(NamedTuple):
    """One annotated mention as the linker sees it.

    score (float): of the top concept, -1 … 1. margin (float): to the runner-up, 0 for a tie. exact (bool): its name is the mention.
    right (bool): the top concept is a gold one. behind (Optional[float]): by how much the best gold concept scores lower than the top one,
    0 where it is the top one, inf where it is not among the candidates, None where no gold concept is in the knowledge base.
    """

    score: float
    margin: float
    exact: bool
    right: bool
    behind: Optional[float]


@dataclass(frozen=True)
class Calibration:
    """weights: intercept and one for each of FEATURES, of a logistic regression. fit_on: which data, in words. built_for: fingerprints of
    encoder and knowledge base. settings: of the linker at that time. probabilities, right (n,): of the mentions it was fit on; behind (m,): of
    those whose concept is in the knowledge base."""

    weights: Tuple[float, ...]
    fit_on: str
    built_for: Dict[str, str]
    settings: Dict[str, Any]
    probabilities: Tuple[float, ...]
    right: Tuple[bool, ...]
    behind: Tuple[float, ...]

    def probability(self, score: float, margin: float, exact: bool) -> float:
        """That the top link is right, 0 … 1."""
        return _logistic(_sum(self.weights, (score, min(margin, WIDE), float(exact))))

    def lowest(self, precision: float) -> float:
        """The lowest probability p so that of the links with at least p the share `precision` (0 … 1) is right.

        As measured on the mentions it was fit on, with a wrong link more, so that a few lucky ones do not do; no guarantee on new ones: with
        173 mentions, precision there falls short of 0.90 by a point or two in a third of the cases, of 0.95 in most. RAISES: SapbertError E011 where no p gives it.
        """
        order = np.argsort(-np.array(self.probabilities), kind="stable")
        p = np.array(self.probabilities)[order]
        wrong = np.cumsum(~np.array(self.right, dtype=np.bool_)[order])
        within = 1.0 - (wrong + 1) / (np.arange(len(p)) + 2)  # precision with one wrong link more
        whole = np.r_[p[1:] < p[:-1], True]  # equal probabilities are kept or left together
        good = np.flatnonzero(whole & (within >= precision))
        if not len(good):
            best = float(within[whole].max())
            raise fail("E011", what="target_precision", value=precision, n=len(p), fit_on=self.fit_on, best=_down(best))
        return float(p[good[-1]])

    def reach(self, coverage: float) -> float:
        """How far behind the top one a concept may score so that the candidates hold the right one for the share `coverage` of mentions.

        Split conformal prediction: the ceil((n + 1) coverage)-th smallest of the n observed (Vovk et al. 2005; Angelopoulos and Bates
        2023, equation 1). It holds on average over mentions like those it was fit on, whose concept is in the knowledge base.
        RAISES: SapbertError E011.
        """
        behind = np.sort(np.array(self.behind))
        rank = math.ceil((len(behind) + 1) * coverage - NOISE)  # 100 * 0.55 is 55.00000000000001
        if rank > len(behind) or not math.isfinite(behind[rank - 1]):
            best = int(np.isfinite(behind).sum()) / (len(behind) + 1)
            raise fail("E011", what="coverage", value=coverage, n=len(behind), fit_on=self.fit_on, best=_down(best))
        return float(behind[rank - 1])

    def to_json(self) -> str:
        """What `read_calibration` reads. `inf`, which JSON has not, is null."""
        content = {"kind": "calibration", "format": FORMAT, "features": list(FEATURES), **asdict(self)}
        content["behind"] = [value if math.isfinite(value) else None for value in self.behind]
        return json.dumps(content, ensure_ascii=False) + "\n"


def read_calibration(path: Path) -> Calibration:
    """RAISES: DamagedFile E015, SapbertError E106."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["format"] if content["kind"] == "calibration" else None
        if found == FORMAT:
            behind = tuple(math.inf if value is None else float(value) for value in content["behind"])
            made = Calibration(
                tuple(map(float, content["weights"])),
                str(content["fit_on"]),
                dict(content["built_for"]),
                dict(content["settings"]),
                tuple(map(float, content["probabilities"])),
                tuple(map(bool, content["right"])),
                behind,
            )
            if len(made.weights) != 1 + len(FEATURES) or not len(made.probabilities) == len(made.right) > 0:
                raise ValueError("its lists have not the lengths they should have")
            if not all(map(math.isfinite, made.weights)) or not all(0.0 <= p <= 1.0 for p in made.probabilities):
                raise ValueError("a weight or probability is out of range")
            if not all(value >= 0.0 for value in behind) or not all(isinstance(value, bool) for value in content["right"]):
                raise ValueError("'behind' or 'right' holds what it can't")
            return made
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise fail("E015", DamagedFile, path=path, why=f"{type(error).__name__}: {error}") from error
    raise fail("E106", path=path, found=found, expected=FORMAT)


def fit_calibration(observed: Iterable[Observed], *, fit_on: str, built_for: Dict[str, str], settings: Dict[str, Any]) -> Calibration:
    """Platt's way (1999), with margin and exactness beside the score: a logistic regression of `right` on the three.

    RAISES: SapbertError E012 for too few mentions, or only right or only wrong ones; E013 without scikit-learn.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise fail("E013", what="Fitting a calibration", package="scikit-learn") from error
    rows: List[Observed] = list(observed)
    right = [row.right for row in rows]
    if len(rows) < FEWEST or len(set(right)) < 2:
        raise fail("E012", n=len(rows), right=sum(right), fewest=FEWEST)
    features = [(row.score, min(row.margin, WIDE), float(row.exact)) for row in rows]
    model = LogisticRegression(C=PENALTY, max_iter=5000).fit(features, right)
    weights = tuple(float(value) for value in (*model.intercept_, *model.coef_[0]))
    probabilities = tuple(_logistic(_sum(weights, feature)) for feature in features)
    return Calibration(weights, fit_on, built_for, settings, probabilities, tuple(right), tuple(row.behind for row in rows if row.behind is not None))


def _logistic(value: float) -> float:
    """1 / (1 + exp(-value)), without overflow."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0 else small / (1.0 + small)


def _down(share: float) -> float:
    """To three decimals, never up: what a message calls reached must be."""
    return math.floor(1000 * share + NOISE) / 1000


def _sum(weights: Sequence[float], features: Sequence[float]) -> float:
    return weights[0] + sum(weight * value for weight, value in zip(weights[1:], features))
