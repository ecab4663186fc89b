"""Read and check the results in metrics/*.json by their `kind`; an error names the file and the place in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.files import write_text

from ..errors import fail


class _Checked(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


# -- evaluation: only checked here; callers use the plain dict (`training.evaluation.evaluate.as_result` makes it) -------


class _SystemResult(_Checked):
    seeds: int
    at1: float | None = None
    at5: float | None = None
    spearman: float | None = None
    at1_ci: tuple[float, float] | None = None
    at5_ci: tuple[float, float] | None = None
    spearman_ci: tuple[float, float] | None = None
    pearson: float | None = None
    pearson_ci: tuple[float, float] | None = None
    mrr: float | None = None
    answerable_at1: float | None = None


class _GroupResult(_Checked):
    n: int
    at1: float
    at5: float


class _Comparison(_Checked):
    a: str
    b: str
    difference: float
    p: float
    t_p: float | None = None


class _Confusion(_Checked):
    mention: str
    count: int
    why: str


class _BenchmarkResult(_Checked):
    title: str
    protocol: str
    n: int
    counts: dict[str, Any]
    metric: Literal["accuracy", "spearman", "pearson"]
    rule: str | None = None
    systems: dict[str, _SystemResult]
    groups: dict[str, dict[str, dict[str, _GroupResult]]] = {}
    comparisons: list[_Comparison] = []
    confusions: dict[str, list[_Confusion]] = {}

    @model_validator(mode="after")
    def _figures(self) -> _BenchmarkResult:
        needed = ("at1", "at5") if self.metric == "accuracy" else (self.metric,)
        lacks = [f"{system}: {key}" for system, found in self.systems.items() for key in needed if getattr(found, key) is None]
        if lacks or not self.systems:
            raise ValueError(f"no figure of {', '.join(lacks) or 'any system'}")
        return self


class EvaluationResult(_Checked):
    """The file that `evaluate` writes.

    Attributes:
        search: How names are searched, in words.
        versions: Versions of Python and packages, and the commit.
        seed: Seed of samples and resamples.
        limit: Greatest number of queries of a benchmark; 0: all.
        pool: Number of names of a dictionary in addition to those of the gold concepts; 0: all.
        encoders: Encoder -> facts about it.
        benchmarks: Benchmark -> figures of all systems.
    """

    search: str
    versions: dict[str, str]
    seed: int
    limit: int
    pool: int
    encoders: dict[str, dict[str, Any]]
    benchmarks: dict[str, _BenchmarkResult]


# -- the others ---------------------------------------------------------------------------------------------------------


class FittedOn(_Checked):
    """The data that a calibration was fitted on and tested on, in words."""

    fit: str
    test: str


class ReliabilityBin(_Checked):
    """Links whose stated probability is in [low, high].

    Attributes:
        confidence: Mean stated probability; None for an empty bin.
        accuracy: Share of right links; None for an empty bin.
    """

    low: float
    high: float
    n: int
    confidence: float | None = None
    accuracy: float | None = None


class CurvePoint(_Checked):
    """Precision and share of links at one threshold.

    Attributes:
        threshold: Lowest probability of a link.
        precision: Share of right links among those that are kept.
        kept: Share of mentions that keep a link.
    """

    threshold: float
    precision: float
    kept: float


class TargetResult(_Checked):
    """A target for precision, and what was reached.

    Attributes:
        target_precision: The target, a share.
        precision: Share of right links; None if no threshold reaches the target.
        kept: Share of mentions that keep a link; None if no threshold reaches the target.
    """

    target_precision: float
    precision: float | None = None
    kept: float | None = None


class CoverageResult(_Checked):
    """A target for coverage, and what was reached.

    Attributes:
        asked: The target, a share.
        covered: Share of mentions whose candidates hold the right concept.
        size: Mean number of candidates.
    """

    asked: float
    covered: float
    size: float


class CalibrationResult(_Checked):
    """The figures of a calibration.

    Attributes:
        ece: Expected calibration error of the probabilities, a share.
        ece_raw: The same for the scores themselves, a share.
    """

    data: FittedOn
    n_fit: int
    n_test: int
    ece: float
    ece_raw: float | None = None
    bins: list[ReliabilityBin]
    curve: list[CurvePoint] = []
    targets: list[TargetResult] = []
    conformal: list[CoverageResult] = []
    protocol: str = ""
    not_reached: list[str] = []
    index: dict[str, Any] = {}


class MatchScores(_Checked):
    """Precision, recall and F1, in per cent.

    Attributes:
        f1_ci: 95% interval of F1, in per cent.
    """

    precision: float
    recall: float
    f1: float
    f1_ci: tuple[float, float] | None = None


class EndToEndBenchmark(_Checked):
    """Figures of a pipeline on one corpus.

    Attributes:
        n_documents: Number of documents.
        n_gold: Number of gold mentions, or of gold concepts of documents.
        n_predicted: Number of found mentions, or found concepts of documents, with a link.
        mention_exact: Figures over mentions with equal spans.
        mention_overlap: Figures over mentions with overlapping spans.
        document: Figures over the concepts of documents.
        documents_per_second: Speed.
        judged: For the gold notes: by kind, numbers of mentions that are found, right, and have the right status, and of false links.
        note: Remarks, in words.
    """

    n_documents: int
    n_gold: int
    n_predicted: int
    mention_exact: MatchScores | None = None
    mention_overlap: MatchScores | None = None
    document: MatchScores | None = None
    span_exact: MatchScores | None = None
    span_overlap: MatchScores | None = None
    kinds: dict[str, dict[str, MatchScores | int]] = {}
    outcomes: dict[str, int] = {}
    judged: dict[str, dict[str, int]] = {}
    documents_per_second: float | None = None
    note: str = ""


class EndToEndSystem(_Checked):
    """A pipeline: its figures by corpus, and the names of its components."""

    benchmarks: dict[str, EndToEndBenchmark]
    components: list[str] = []


class EndToEndResult(_Checked):
    """The file that `end-to-end` writes: figures by pipeline, and the protocol in words."""

    systems: dict[str, EndToEndSystem]
    protocol: str = ""


class NamePoint(_Checked):
    """A name in the plane, before and after training.

    Attributes:
        concept: Number of its concept in the projection, from 0.
        before: Its position before training (2,).
        after: Its position after training (2,).
    """

    name: str
    concept: int = Field(ge=0)
    before: tuple[float, float]
    after: tuple[float, float]


class PairCounts(_Checked):
    """Numbers of pairs of names in the bins of their cosine."""

    positive: list[int]
    negative: list[int]


class BatchPairs(_Checked):
    """The pairs of a batch by their cosine, before and after training.

    Attributes:
        edges: Edges of the bins, one more than there are bins.
    """

    edges: list[float]
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


class ProjectionResult(_Checked):
    """The file that `projection` writes: names in the plane, and the pairs of one batch.

    Attributes:
        title: Title of the picture.
        concepts: Names of the concepts.
        points: The positions of the names.
        note: What is shown, in words.
        pairs: Pairs of a batch by their cosine.
    """

    title: str
    concepts: list[str]
    points: list[NamePoint]
    note: str = ""
    pairs: BatchPairs | None = None

    @model_validator(mode="after")
    def _known(self) -> ProjectionResult:
        if any(point.concept >= len(self.concepts) for point in self.points):
            raise ValueError("a point's concept is not among the concepts")
        return self


class PerformanceFigure(_Checked):
    """A row of speed or size: what was measured, its value with a unit, and how."""

    name: str
    value: float
    unit: str = ""
    note: str = ""


class Performance(_Checked):
    """Rows of speed and size."""

    rows: list[PerformanceFigure]


KINDS: dict[str, type[_Checked]] = {
    "evaluation": EvaluationResult,
    "calibration": CalibrationResult,
    "end-to-end": EndToEndResult,
    "projection": ProjectionResult,
    "benchmarks": Performance,
}
PEERS = ("throughput", "load")  # sections of `python -m benchmarks` that are about speed and size


class Results(NamedTuple):
    """The results of a folder, by file name without the extension.

    Attributes:
        evaluations: Evaluations and comparisons of encoders.
        calibrations: Calibrations.
        end_to_end: Pipelines on whole texts.
        projections: Names in the plane.
        benchmarks: Speed and size.
        tables: Tables of `python -m benchmarks`: title, protocol and rows.
        ignored: Names of files of an unknown kind.
        absent: Kind -> why the step wrote no results.
    """

    evaluations: dict[str, dict[str, Any]]
    calibrations: dict[str, CalibrationResult]
    end_to_end: dict[str, EndToEndResult]
    projections: dict[str, ProjectionResult]
    benchmarks: dict[str, Performance]
    tables: list[dict[str, Any]]
    ignored: list[str]
    absent: dict[str, str]


def read_results(folder: Path) -> Results:
    """Read every JSON file of a folder.

    Args:
        folder: The folder.

    Raises:
        SapbertError: E545 (no file of a known kind), E547 (a damaged file).
    """
    found = Results({}, {}, {}, {}, {}, [], [], {})
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stem != "evaluation", path.stem)):
        content = _read(path)
        kind = content.get("kind")
        if kind in KINDS and "absent" in content:  # a step that had nothing to do writes the reason
            found.absent[str(kind)] = str(content["absent"])
        elif kind in KINDS:
            made = _checked(path, kind, content)
            of_kind: dict[str, dict[str, Any]] = {
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
    """Write the reason why a step has no results, instead of results. The report shows it.

    Args:
        path: The JSON file.
        kind: Kind of the results, a key of KINDS.
        why: The reason.

    Returns:
        The reason.
    """
    write_text(path, json.dumps({"kind": kind, "format": 1, "absent": why}, ensure_ascii=False) + "\n")
    return why


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise fail("E547", path=path, expected="JSON", why=str(error)) from error
    if not isinstance(content, dict):
        raise fail("E547", path=path, expected="a JSON object", why=f"it holds a {type(content).__name__}")
    return content


def _checked(path: Path, kind: str, content: dict[str, Any]) -> _Checked:
    try:
        return KINDS[kind].model_validate(content)
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc'])) or kind}: {e['msg']}" for e in error.errors()[:3])
        raise fail("E547", path=path, expected=f"a file of the kind '{kind}'", why=why) from error


def _tables(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [part for name in PEERS if isinstance(part := content.get(name), dict)]
    return [table for part in parts for table in part.values() if isinstance(table, dict) and {"title", "rows"} <= set(table) and table["rows"]]
