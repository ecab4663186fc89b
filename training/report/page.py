"""Write the evaluation as one HTML page: `python -m training report --metrics metrics --encoder artifacts/encoder --out artifacts/report/index.html`.

The page has no script and loads nothing: it can be opened from disk, on a phone, and printed, in light and dark mode. evaluation/results.py reads
the files, figures.py draws, templates/ holds the page, and this module collects the data. A section without data shows the command that makes it.
This module has, in this order: reading, the answer, the sections, the page.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from spacy_sapbert.files import write_text

from ..errors import fail
from ..evaluation.baselines import NAMES as BASELINES
from ..evaluation.evaluate import cell, own_protocol, remarks
from ..evaluation.results import (
    CalibrationResult,
    EndToEndResult,
    ProjectionResult,
    Results,
    read_results,
)
from ..loop.encoders import check_encoder
from . import figures
from .figures import Curve, FigurePair, Picture, SystemRow

LOG, CARD = "train_log.jsonl", "README.md"
STEPS_SHOWN = 12
CONFUSIONS_SHOWN = 12
PAIRS_DRAWN = 16  # rows of a dumbbell plot
TEMPLATES = Path(__file__).parent / "templates"
# published figures, and the benchmark that is counted in the same way (Liu et al., NAACL 2021, table 1: @1/@5 on NCBI-disease)
PUBLISHED_SET, PUBLISHED, PUBLISHED_AT_5 = "ncbi-test-sapbert", 92.0, 95.6
PUBLISHED_BY = "SapBERT (PubMedBERT, 110M parameters, UMLS 2020AA)"
PUBLISHED_F1 = {"gsc-test": (76.0, "FastHPOCR, published: 76.0")}
# benchmarks for the short answer, the most interesting first
HEADLINES = (
    "ncbi-test-sapbert",
    "ncbi-test-abbreviations",
    "ncbi-test",
    "ncbi-dev-sapbert",
    "ncbi-dev-abbreviations",
    "ncbi-dev",
    "held_out",
    "zero_shot",
)
CONTENTS = (
    ("results", "Results"),
    ("change", "Before and after training"),
    ("benchmarks", "Each benchmark, with its protocol"),
    ("groups", "Where it is right and where not"),
    ("calibration", "What a probability means"),
    ("confusions", "Most frequent confusions"),
    ("paper", "Names in the plane and in a batch"),
    ("training", "Training"),
    ("end-to-end", "End to end"),
    ("throughput", "Throughput"),
    ("card", "Model card"),
    ("versions", "Measured with"),
)


class TrainingLog(NamedTuple):
    """The log of a training.

    Attributes:
        columns: Keys with numbers, in the order in which they first appear.
        rows: The lines that are shown, one cell for each column.
        total: Number of lines in the file.
        lines: All lines of the file.
    """

    columns: list[str]
    rows: list[list[str]]
    total: int
    lines: list[dict[str, Any]]


# -- reading ------------------------------------------------------------------------------------------------------------


def read_log(path: Path, shown: int = STEPS_SHOWN) -> TrainingLog | None:
    """Read train_log.jsonl.

    Args:
        path: The file.
        shown: Number of lines that are shown, evenly spaced.

    Returns:
        The log; None if there is no file or it is empty.

    Raises:
        SapbertError: E547.
    """
    if not path.is_file():
        return None
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                lines.append(dict(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise fail("E547", path=path, expected="a JSON object on each line", why=f"line {number}: {error}") from error
    if not lines:
        return None
    places = sorted({round(i * (len(lines) - 1) / max(1, min(shown, len(lines)) - 1)) for i in range(min(shown, len(lines)))})
    columns = list(dict.fromkeys(key for i in places for key, value in lines[i].items() if isinstance(value, (int, float))))
    return TrainingLog(columns, [[show(lines[i].get(column)) for column in columns] for i in places], len(lines), lines)


def show(value: Any) -> str:
    """Return a value of a table as text."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else str(value)


def read_card(path: Path) -> list[str]:
    """Read a model card. Return its settings (the YAML header, unchanged) and its text as HTML, without raw HTML or images."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    settings = ""
    if text.startswith("---\n") and "\n---\n" in text[3:]:
        settings, _, text = text[4:].partition("\n---\n")
    return [settings.strip(), MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)]


# -- systems and figures ------------------------------------------------------------------------------------------------


def main_key(entry: dict[str, Any]) -> str:
    """Return the key of the figure by which systems are compared on a benchmark."""
    return "at1" if entry["metric"] == "accuracy" else str(entry["metric"])


def best(entry: dict[str, Any]) -> list[str]:
    """Return the systems of a benchmark with the highest figure, rounded to a tenth."""
    rounded = {system: round(found[main_key(entry)], 1) for system, found in entry["systems"].items()}
    return [system for system, value in rounded.items() if value == max(rounded.values())]


def systems_of(result: dict[str, Any]) -> list[str]:
    """Return all systems of an evaluation: the encoder that the page is about, the base, other encoders, then baselines."""
    names = list(dict.fromkeys(system for entry in result["benchmarks"].values() for system in entry["systems"]))
    mine, base = mine_and_base(result)
    return sorted(names, key=lambda name: (name != mine, name != base, name in BASELINES, names.index(name)))


def mine_and_base(result: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the encoder that the page is about (the last one that is not the base) and the base; None if there is none."""
    encoders = list(dict.fromkeys(name.partition("#")[0] for name in result["encoders"]))
    bases = [name.partition("#")[0] for name, used in result["encoders"].items() if name == "base" or used.get("base_package")]
    others = [name for name in encoders if name not in bases]
    base = bases[0] if bases else None
    return (others[-1] if others else base), (base if others else None)


def interval(entry: dict[str, Any], system: str, key: str) -> str:
    """Return an interval such as `[81.0, 85.7]`; "" if there is none."""
    ends = (entry["systems"].get(system) or {}).get(f"{key}_ci")
    return f"[{ends[0]:.1f}, {ends[1]:.1f}]" if ends else ""


def figure(entry: dict[str, Any], system: str) -> str:
    """Return the main figure of a system on a benchmark, or a dash if it has none."""
    found = entry["systems"].get(system)
    return "–" if found is None else f"{found[main_key(entry)]:.1f}"


def has(entry: dict[str, Any], key: str) -> bool:
    """Say whether any system of a benchmark has a figure."""
    return any(found.get(key) is not None for found in entry["systems"].values())


def other(entry: dict[str, Any]) -> str:
    """Return the rule that @1 and @5 do not follow, "lenient" or "strict"; "" if its figures are missing."""
    name = {"strict": "lenient", "lenient": "strict"}.get(entry.get("rule") or "", "")
    return name if name and all(f"{name}_at5" in found for found in entry["systems"].values()) else ""


def plain(value: Any, form: str) -> str:
    """Return a value in a printf format, or a dash for None."""
    return "–" if value is None else form % value


def percent(share: float | None) -> str:
    """Return a share in per cent; "not reached" for None."""
    return "not reached" if share is None else f"{100 * share:.1f}"


def _row(entry: dict[str, Any], system: str, mine: str | None) -> SystemRow:
    low, high = entry["systems"][system].get(f"{main_key(entry)}_ci") or (None, None)
    return SystemRow(system, entry["systems"][system][main_key(entry)], low, high, system == mine)


# -- the answer ---------------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """The short answer at the top of the page: sentences and a picture."""

    sentences: list[str]
    pictures: list[Picture]


def headline(evaluations: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], str] | None:
    """Choose the evaluation and the benchmark of the short answer: the first of HEADLINES, else the first benchmark of accuracy."""
    for name in HEADLINES:
        for result in evaluations.values():
            if name in result["benchmarks"]:
                return result, name
    found = ((result, name) for result in evaluations.values() for name, entry in result["benchmarks"].items() if entry["metric"] == "accuracy")
    return next(found, None)


def answer_of(evaluations: dict[str, dict[str, Any]]) -> Summary:
    """Return the short answer: the figure of the encoder, compared with the base, the baselines and the published figure."""
    about = headline(evaluations)
    if about is None:
        return Summary([], [])
    result, name = about
    entry = result["benchmarks"][name]
    named, base = mine_and_base(result)
    mine = named if named is not None and named in entry["systems"] else best(entry)[0]
    found = entry["systems"][mine]
    sentence = f"“{mine}” finds the right concept first for {found['at1']:.1f}%"
    sentence += f" (95% interval {interval(entry, mine, 'at1')[1:-1].replace(', ', ' to ')})" if interval(entry, mine, "at1") else ""
    sentence += f", and among the first five for {found['at5']:.1f}%, of {entry['n']:,} queries of {entry['title']} ({name})."
    others = []
    if base in entry["systems"] and base != mine:
        others.append(f"“{base}”, the encoder before training, {entry['systems'][base]['at1']:.1f}%")
    others += [f"{system} {entry['systems'][system]['at1']:.1f}%" for system in entry["systems"] if system not in (mine, base)]
    sentences = [sentence, f"On the same queries and dictionary: {'; '.join(others)}."] if others else [sentence]
    line = None
    if name == PUBLISHED_SET:
        sentences.append(
            f"{_published(found)} Published: {PUBLISHED_BY}, {PUBLISHED:.1f}% and {PUBLISHED_AT_5:.1f}%; this benchmark is counted in the same way, with another dictionary."
        )
        line = (PUBLISHED, f"SapBERT, published: {PUBLISHED:.1f}")
    if result["limit"] or result["pool"]:
        sentences.append("These figures are of a sample of the queries or of the dictionary, not of the full evaluation: do not quote them.")
    if len(result["benchmarks"]) > 1:
        sentences.append("Figures of other benchmarks and stricter rules are in the section Results.")
    order = sorted((_row(entry, system, mine) for system in entry["systems"]), key=lambda row: -row.value)
    return Summary(sentences, [figures.systems("answer-systems", f"{name}: right concept first", order, "@1, per cent of queries", line)])


def _published(found: dict[str, Any]) -> str:
    gap = found["at1"] - PUBLISHED
    if found.get("at1_ci") and found["at1_ci"][0] <= PUBLISHED <= found["at1_ci"][1]:
        return f"That is {abs(gap):.1f} points {'above' if gap >= 0 else 'below'} the published figure, which is within the interval."
    return f"That is {abs(gap):.1f} points {'above' if gap >= 0 else 'below'} the published figure."


# -- sections -----------------------------------------------------------------------------------------------------------


def changes_of(evaluations: dict[str, dict[str, Any]]) -> list[Picture]:
    """Draw base and trained encoder next to each other: accuracies and correlations of each evaluation that has both."""
    made = []
    for stem, result in evaluations.items():
        mine, base = mine_and_base(result)
        if mine is None or base is None:
            continue
        for metric, title, xlabel in (
            ("accuracy", "Accuracy by benchmark", "@1, per cent of queries"),
            ("spearman", "Similarity of terms", "Spearman's correlation × 100"),
            ("pearson", "Similarity of sentences", "Pearson's correlation × 100"),
        ):
            pairs = [
                FigurePair(name, entry["systems"][base][main_key(entry)], row.value, row.low, row.high, entry["n"])
                for name, entry in result["benchmarks"].items()
                if entry["metric"] == metric and {mine, base} <= set(entry["systems"])
                for row in [_row(entry, mine, mine)]
            ]
            made += [
                figures.dumbbells(f"change-{slug(stem)}-{metric}-{i}", _part(title, i, len(pairs)), part, xlabel, base, mine)
                for i, part in _parts(pairs)
            ]
    return made


def _parts(pairs: list[FigurePair]) -> Iterator[tuple[int, list[FigurePair]]]:
    """Split rows into equal parts of at most PAIRS_DRAWN, so that no picture is taller than a page."""
    count = math.ceil(len(pairs) / PAIRS_DRAWN)
    size = math.ceil(len(pairs) / count) if count else 1
    yield from ((start // size + 1, pairs[start : start + size]) for start in range(0, len(pairs), size))


def _part(title: str, number: int, total: int) -> str:
    return f"{title}, part {number}" if total > PAIRS_DRAWN else title


def slug(text: str) -> str:
    """Return a text as part of an HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def groups_of(evaluations: dict[str, dict[str, Any]]) -> tuple[list[Picture], list[dict[str, Any]]]:
    """Draw the groups of the benchmark of the short answer, and make a table of groups for each benchmark."""
    drawn: list[Picture] = []
    tables = []
    about = headline(evaluations)
    for stem, result in evaluations.items():
        for name, entry in result["benchmarks"].items():
            groups = entry.get("groups") or {}
            shown = [system for system in mine_and_base(result) if system is not None and system in groups] or list(groups)[:1]
            is_about = about is not None and about[0] is result and about[1] == name
            parts = [_grouping(groups, shown, grouping) for grouping in (groups[shown[0]] if shown else {})]
            if not parts:
                continue
            tables.append({"title": name, "systems": shown, "parts": parts, "open": is_about})
            for part in parts if is_about and len(shown) == 2 else []:
                pairs = [
                    FigurePair(row["label"], row["found"][1]["at1"], row["found"][0]["at1"], n=row["n"]) for row in part["rows"] if all(row["found"])
                ]
                if pairs:
                    title, own = f"{name}, by {part['title']}", f"group-{slug(stem)}-{slug(part['title'])}"
                    drawn.append(figures.dumbbells(own, title, pairs[:PAIRS_DRAWN], "@1, per cent of queries", shown[1], shown[0]))
    return drawn, sorted(tables, key=lambda table: not table["open"])


def _grouping(groups: dict[str, Any], shown: list[str], grouping: str) -> dict[str, Any]:
    """Return a title, and rows with label, n, the figures of the shown systems (None if a system has none) and their cells."""
    rows = []
    for group, first in groups[shown[0]][grouping].items():
        found = [groups[system].get(grouping, {}).get(group) for system in shown]
        cells = [f"{one['at1']:.1f}/{one['at5']:.1f}" if one else "–" for one in found]
        rows.append({"label": group, "n": first["n"], "found": found, "cells": cells})
    return {"title": grouping.replace("_", " "), "rows": rows}


def calibrations_of(found: dict[str, CalibrationResult]) -> list[dict[str, Any]]:
    """Return the parts of the page about each calibration: its data and pictures."""
    parts = []
    for stem, one in found.items():
        drawn = (
            [figures.reliability(f"{slug(stem)}-reliability", "Stated and true probability", one.bins, one.n_test, one.ece)]
            if any(b.n for b in one.bins)
            else []
        )
        if one.curve:
            drawn.append(figures.coverage(f"{slug(stem)}-coverage", "Precision against coverage", one.curve, one.targets))
        parts.append({"data": one, "pictures": drawn})
    return parts


def confusions_of(evaluations: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the most frequent wrong answers of the encoder that the page is about, for each benchmark."""
    parts = []
    about = headline(evaluations)
    for result in evaluations.values():
        mine, _ = mine_and_base(result)
        for name, entry in result["benchmarks"].items():
            rows = (entry.get("confusions") or {}).get(mine) or []
            ordered = sorted(rows, key=lambda one: -one["count"])[:CONFUSIONS_SHOWN]
            if ordered:
                is_about = about is not None and about[0] is result and about[1] == name
                parts.append({"title": name, "system": mine, "rows": [_confusion(one) for one in ordered], "open": is_about})
    return sorted(parts, key=lambda part: not part["open"])


def _confusion(one: dict[str, Any]) -> dict[str, Any]:
    gold = f"{_words(one.get('gold_names'))} ({_words(one.get('gold'))})" if one.get("gold_names") else _words(one.get("gold"))
    if one.get("predicted"):
        predicted = f"{_words(one.get('predicted_name'))} ({_words(one['predicted'])})" if one.get("predicted_name") else _words(one["predicted"])
        predicted += f", {one['score']:.2f}" if isinstance(one.get("score"), (int, float)) else ""
    else:
        predicted = "nothing"
    return {"mention": one["mention"], "count": one["count"], "gold": gold, "predicted": predicted, "why": one["why"]}


def _words(value: Any) -> str:
    """Return a name or id, or nested lists of them, as text."""
    if isinstance(value, (list, tuple)):
        return ", ".join(filter(None, map(_words, value)))
    return "" if value is None else str(value)


def projections_of(found: dict[str, ProjectionResult]) -> list[dict[str, Any]]:
    """Return the parts of the page about each projection: maps before and after training, and pairs of a batch."""
    parts = []
    for stem, one in found.items():
        of = [point.concept for point in one.points]
        plane = [
            figures.map_of_names(f"{slug(stem)}-{key}", title, [getattr(point, key) for point in one.points], of, one.concepts, one.note)
            for key, title in (("before", "Names before training"), ("after", "Names after training"))
        ]
        batch = []
        if one.pairs:
            for key, title, note in (
                ("before", "All pairs, before training", "All pairs of the batch, encoder before training."),
                ("mined", "Pairs that mining keeps, before training", "Of these pairs, those that mining keeps because they are hard."),
                ("after", "All pairs, after training", "All pairs of the batch, encoder after training."),
            ):
                counts = getattr(one.pairs, key)
                batch.append(figures.similarities(f"{slug(stem)}-batch-{key}", title, one.pairs.edges, counts.positive, counts.negative, note))
        parts.append({"data": one, "plane": plane, "batch": batch})
    return parts


CURVES: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    ("loss", "Loss", "loss (no unit)", (("loss", "loss"),)),
    (
        "accuracy",
        "Held-out accuracy",
        "@1, per cent of queries",
        (("eval_held_out_at1", "held-out synonym"), ("eval_zero_shot_at1", "held-out concept")),
    ),
    ("speed", "Speed", "names encoded per second", (("names_per_second", "names/s"),)),
)


def curves_of(log: TrainingLog | None) -> list[Picture]:
    """Draw loss, held-out accuracy and speed against steps, if the log has them at two steps or more."""
    drawn = []
    for name, title, ylabel, keys in CURVES if log is not None else ():
        lines = []
        for key, label in keys:
            points = [(line["step"], line[key]) for line in log.lines if _finite(line.get("step")) and _finite(line.get(key))]  # type: ignore[union-attr]
            if len(points) > 1:
                lines.append(Curve(label, [x for x, _ in points], [y for _, y in points]))
        if lines:
            drawn.append(figures.course(f"training-{name}", title, lines, ylabel))
    return drawn


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


COUNTED = (("mention_exact", "mentions, exact"), ("mention_overlap", "mentions, overlap"), ("document", "documents"))


def end_to_end_of(found: dict[str, EndToEndResult]) -> tuple[list[Picture], list[dict[str, Any]]]:
    """Draw F1 for each benchmark of whole texts, and make a table for each."""
    sets: dict[str, list[tuple[str, Any]]] = {}
    for one in found.values():
        for system, measured in one.systems.items():
            for name, figures_of_set in measured.benchmarks.items():
                sets.setdefault(name, []).append((system, figures_of_set))
    drawn, parts = [], []
    for name, all_of_set in sets.items():
        rows, dots = [], []
        for system, measured_set in all_of_set:
            for key, counted in COUNTED:
                if (score := getattr(measured_set, key)) is not None:
                    speed = (
                        f"{measured_set.documents_per_second:.1f}"
                        if measured_set.documents_per_second is not None and key == _first(measured_set)
                        else ""
                    )
                    rows.append({"system": system, "counted": counted, "found": score, "speed": speed})
                    if key != "document" or not _of_mentions(all_of_set):  # the published line is for mentions, not for documents
                        low, high = score.f1_ci or (None, None)
                        dots.append(SystemRow(f"{system}: {counted}", score.f1, low, high, key == "mention_exact"))
        sizes = (
            f"{name}: {all_of_set[0][1].n_documents:,} documents, {all_of_set[0][1].n_gold:,} gold; found: "
            + ", ".join(f"{s} {m.n_predicted:,}" for s, m in all_of_set)
            + "."
        )
        notes = [sizes, *(f"{system}: {m.note}" for system, m in all_of_set if m.note)]
        if name in PUBLISHED_F1:
            notes.append(f"{PUBLISHED_F1[name][1]}, F1 of mentions; its protocol may differ.")
        parts.append({"set": name, "rows": rows, "notes": notes})
        if dots:
            drawn.append(
                figures.systems(
                    f"end-{slug(name)}",
                    f"{name}: F1, spans found by the pipeline",
                    dots,
                    "F1, per cent",
                    PUBLISHED_F1.get(name) if _of_mentions(all_of_set) else None,
                )
            )
    return drawn, parts


def _of_mentions(all_of_set: list[tuple[str, Any]]) -> bool:
    return any(measured.mention_exact is not None for _, measured in all_of_set)


def _first(measured: Any) -> str:
    return next((key for key, _ in COUNTED if getattr(measured, key) is not None), "")


# -- the page -----------------------------------------------------------------------------------------------------------


def render(results: Results, encoder: Path) -> str:
    """Return the page as HTML.

    Args:
        results: All results.
        encoder: Folder of the trained encoder, for its log and model card.

    Raises:
        SapbertError: E547 (its log).
    """
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    settings, card = read_card(encoder / CARD)
    log = read_log(encoder / LOG)
    group_pictures, groups = groups_of(results.evaluations)
    end_pictures, end_parts = end_to_end_of(results.end_to_end)
    page = environment.get_template("report.html.jinja").render(
        contents=CONTENTS,
        answer=answer_of(results.evaluations),
        evaluations=results.evaluations,
        changes=changes_of(results.evaluations),
        groups=groups,
        group_pictures=group_pictures,
        calibrations=calibrations_of(results.calibrations),
        confusions=confusions_of(results.evaluations),
        projections=projections_of(results.projections),
        log=log,
        curves=curves_of(log),
        log_name=LOG,
        end_to_end=end_parts,
        end_pictures=end_pictures,
        end_protocols=[one.protocol for one in results.end_to_end.values() if one.protocol]
        + [
            f"{name}: {', '.join(system.components)}."
            for one in results.end_to_end.values()
            for name, system in one.systems.items()
            if system.components
        ],
        benchmarks=list(results.benchmarks.values()),
        tables=results.tables,
        ignored=results.ignored,
        reasons=results.absent,
        settings=settings,
        card=Markup(card),  # markdown-it has escaped it
        **{
            function.__name__: function
            for function in (best, cell, figure, has, interval, main_key, other, own_protocol, percent, plain, remarks, show, systems_of)
        },
    )
    return page.strip() + "\n"


def write_report(metrics: Path, encoder: Path, out: Path) -> None:
    """Write all results as one HTML page.

    Args:
        metrics: Folder of results, *.json.
        encoder: Folder of the trained encoder, for its log and model card.
        out: HTML file.

    Raises:
        SapbertError: E541 (encoder), E545 (no results), E547 (a damaged file).
    """
    results = read_results(metrics)
    check_encoder(encoder)
    write_text(out, render(results, encoder))
