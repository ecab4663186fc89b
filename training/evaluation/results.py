"""What `metrics/*.json` hold, read by their `kind` and checked: a file that lacks something is named, with the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.files import write_text

from ..errors import fail


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


# -- evaluation: checked here, used as the dictionary it is (`training.evaluation.evaluate.as_result` writes it) --------------------


class _SystemResult(_Strict):
    seeds: int
    at1: Optional[float] = None
    at5: Optional[float] = None
    spearman: Optional[float] = None
    at1_ci: Optional[Tuple[float, float]] = None
    at5_ci: Optional[Tuple[float, float]] = None
    spearman_ci: Optional[Tuple[float, float]] = None
    mrr: Optional[float] = None
    answerable_at1: Optional[float] = None


class _GroupResult(_Strict):
    n: int
    at1: float
    at5: float


class _Comparison(_Strict):
    a: str
    b: str
    difference: float
    p: float


class _Confusion(_Strict):
    mention: str
    count: int
    why: str


class _BenchmarkResult(_Strict):
    title: str
    protocol: str
    n: int
    counts: Dict[str, Any]
    metric: str
    rule: Optional[str] = None
    systems: Dict[str, _SystemResult]
    groups: Dict[str, Dict[str, Dict[str, _GroupResult]]] = {}
    comparisons: List[_Comparison] = []
    confusions: Dict[str, List[_Confusion]] = {}

    @model_validator(mode="after")
    def _figures(self) -> _BenchmarkResult:
        needed = ("at1", "at5") if self.metric == "accuracy" else ("spearman",)
        lacks = [f"{system}: {key}" for system, found in self.systems.items() for key in needed if getattr(found, key) is None]
        if lacks or not self.systems:
            raise ValueError(f"no figure of {', '.join(lacks) or 'any system'}")
        return self


class EvaluationResult(_Strict):
    search: str
    versions: Dict[str, str]
    seed: int
    limit: int
    pool: int
    encoders: Dict[str, Dict[str, Any]]
    sets: Dict[str, _BenchmarkResult]


# -- the others ---------------------------------------------------------------------------------------------------------


class FittedOn(_Strict):
    """What a calibration was fitted on, and tested on, in words."""

    fit: str
    test: str


class ReliabilityBin(_Strict):
    """Links whose stated probability is in [low, high]. confidence, accuracy: shares, None for an empty bin."""

    low: float
    high: float
    n: int
    confidence: Optional[float] = None
    accuracy: Optional[float] = None


class CurvePoint(_Strict):
    """precision, kept: shares at this threshold."""

    threshold: float
    precision: float
    kept: float


class TargetResult(_Strict):
    """What a user asked for and got, shares; None where no threshold gives it."""

    target_precision: float
    precision: Optional[float] = None
    kept: Optional[float] = None


class CoverageResult(_Strict):
    """asked, covered: shares of mentions whose candidates hold the right concept. size: mean number of candidates."""

    asked: float
    covered: float
    size: float


class CalibrationResult(_Strict):
    """ece, ece_raw: expected calibration error of the probability, and of the bare score, shares."""

    data: FittedOn
    n_fit: int
    n_test: int
    ece: float
    ece_raw: Optional[float] = None
    bins: List[ReliabilityBin]
    curve: List[CurvePoint] = []
    targets: List[TargetResult] = []
    conformal: List[CoverageResult] = []
    protocol: str = ""
    not_reached: List[str] = []
    index: Dict[str, Any] = {}


class MatchScores(_Strict):
    """Per cent. f1_ci: 95% interval."""

    precision: float
    recall: float
    f1: float
    f1_ci: Optional[Tuple[float, float]] = None


class EndToEndBenchmark(_Strict):
    n_documents: int
    n_gold: int
    n_predicted: int
    mention_exact: Optional[MatchScores] = None
    mention_overlap: Optional[MatchScores] = None
    document: Optional[MatchScores] = None
    documents_per_second: Optional[float] = None
    note: str = ""


class EndToEndSystem(_Strict):
    sets: Dict[str, EndToEndBenchmark]
    components: List[str] = []


class EndToEndResult(_Strict):
    systems: Dict[str, EndToEndSystem]
    protocol: str = ""


class NamePoint(_Strict):
    """concept: which of the projection's concepts, from 0. before, after: places in the plane."""

    name: str
    concept: int = Field(ge=0)
    before: Tuple[float, float]
    after: Tuple[float, float]


class PairCounts(_Strict):
    """Pairs of names in each bin of cosine."""

    positive: List[int]
    negative: List[int]


class BatchPairs(_Strict):
    """edges: of the bins, one more than counts."""

    edges: List[float]
    before: PairCounts
    mined: PairCounts
    after: PairCounts
    note: str = ""

    @model_validator(mode="after")
    def _lengths(self) -> BatchPairs:
        for key in ("before", "mined", "after"):
            counts: PairCounts = getattr(self, key)
            if {len(counts.positive), len(counts.negative)} != {len(self.edges) - 1}:
                raise ValueError(f"{len(self.edges)} edges, but not {len(self.edges) - 1} counts in '{key}'")
        return self


class ProjectionResult(_Strict):
    title: str
    concepts: List[str]
    points: List[NamePoint]
    note: str = ""
    pairs: Optional[BatchPairs] = None

    @model_validator(mode="after")
    def _known(self) -> ProjectionResult:
        if any(point.concept >= len(self.concepts) for point in self.points):
            raise ValueError("a point's concept is not among the concepts")
        return self


class PerformanceFigure(_Strict):
    name: str
    value: float
    unit: str = ""
    note: str = ""


class Performance(_Strict):
    rows: List[PerformanceFigure]


KINDS: Dict[str, type[_Strict]] = {
    "evaluation": EvaluationResult,
    "calibration": CalibrationResult,
    "end-to-end": EndToEndResult,
    "projection": ProjectionResult,
    "benchmarks": Performance,
}
PEERS = ("throughput", "load")  # the parts of what `python -m benchmarks` prints that are about speed and size


class Results(NamedTuple):
    """By the file's name without its ending. tables: of `python -m benchmarks` (title, protocol, rows). ignored: files of no known kind.
    absent: kind -> why its step made none."""

    evaluations: Dict[str, Dict[str, Any]]
    calibrations: Dict[str, CalibrationResult]
    end_to_end: Dict[str, EndToEndResult]
    projections: Dict[str, ProjectionResult]
    benchmarks: Dict[str, Performance]
    tables: List[Dict[str, Any]]
    ignored: List[str]
    absent: Dict[str, str]


def read_results(folder: Path) -> Results:
    """Every JSON file of a folder. RAISES: SapbertError E545 (nothing of a known kind), E547 (a damaged file)."""
    found = Results({}, {}, {}, {}, {}, [], [], {})
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stem != "evaluation", path.stem)):
        content = _read(path)
        kind = content.get("kind")
        if kind in KINDS and "absent" in content:  # a step that had nothing to do says so
            found.absent[str(kind)] = str(content["absent"])
        elif kind in KINDS:
            made = _checked(path, kind, content)
            of_kind: Dict[str, Dict[str, Any]] = {
                "evaluation": found.evaluations,
                "calibration": found.calibrations,
                "end-to-end": found.end_to_end,
                "projection": found.projections,
                "benchmarks": found.benchmarks,
            }
            of_kind[kind][path.stem] = content if kind == "evaluation" else made
        elif path.stem.startswith("evaluation"):
            raise fail("E547", path=path, expected="what `python -m training evaluate` writes", why="its kind is not 'evaluation'")
        elif path.stem == "benchmarks" and kind is None:
            found.tables.extend(_tables(content))
        else:
            found.ignored.append(path.name)
    if not any((found.evaluations, found.calibrations, found.end_to_end, found.projections, found.benchmarks)):
        raise fail("E545", MissingFile, path=folder)
    return found


def write_absent(path: Path, kind: str, why: str) -> str:
    """Write why a step has no results, in place of these; the report shows it.

    Returns:
        The reason, to be shown.
    """
    write_text(path, json.dumps({"kind": kind, "format": 1, "absent": why}, ensure_ascii=False) + "\n")
    return why


def _read(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise fail("E547", path=path, expected="JSON", why=str(error)) from error
    if not isinstance(content, dict):
        raise fail("E547", path=path, expected="a JSON object", why=f"it holds a {type(content).__name__}")
    return content


def _checked(path: Path, kind: str, content: Dict[str, Any]) -> _Strict:
    try:
        return KINDS[kind].model_validate(content)
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc'])) or kind}: {e['msg']}" for e in error.errors()[:3])
        raise fail("E547", path=path, expected=f"a file of the kind '{kind}'", why=why) from error


def _tables(content: Dict[str, Any]) -> List[Dict[str, Any]]:
    parts = [part for name in PEERS if isinstance(part := content.get(name), dict)]
    return [table for part in parts for table in part.values() if isinstance(table, dict) and {"title", "rows"} <= set(table) and table["rows"]]
