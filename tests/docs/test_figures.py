"""Every figure in README and docs/ is in docs/figures/data, and the generated pages are current."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import string
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from .pages import DOCS, ROOT, name_of, pages, prose, tables

DATA = sorted((DOCS / "figures" / "data").glob("*.json"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s?(?:%|×|(?:times as|MB|GB|ms|names/s|notes/s|words/s|rows/s|queries/s|minutes)\b)")
TARGETS = {"95", "90"}  # values of the settings target_precision and coverage, which are not measured


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def generate() -> Any:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(text: str) -> set[str]:
    """Return the numbers of a text as strings."""
    return {number.rstrip(",") for number in NUMBER.findall(text)}


def bare(cell: str) -> str:
    """Return a cell without bold signs."""
    return cell.replace("**", "")


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_each_file_says_how_its_figures_were_made(path: Path) -> None:
    data = read(path)
    assert set(data) == {"title", "command", "protocol", "machine", "date", "tables", "facts"}
    assert data["command"].startswith(("python -m benchmarks ", "python -m training ", "python -m spacy project run "))
    assert data["protocol"]
    assert data["machine"]
    assert data["date"]
    for table in data["tables"]:
        assert set(table) - {"source", "measured"} == {"name", "title", "columns", "rows"}
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        assert len({row[0] for row in table["rows"]}) == len(table["rows"])


def test_commits_that_figures_name_are_in_the_history() -> None:
    """A commit that was rebased after the measurement has another hash."""
    asked = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    if asked.stdout.strip() != "false":
        pytest.skip("the history is not here")
    named = {commit for path in DATA for commit in re.findall(r"\bcommits? ([0-9a-f]{7,40})\b", path.read_text(encoding="utf-8"))}
    known = subprocess.run(["git", "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert named
    assert {commit for commit in named if not any(one.startswith(commit) for one in known)} == set()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_tables_of_figures_are_those_of_the_files(page: Path) -> None:
    for table in (table for table in tables(page) if table.name):
        known = read(DOCS / "figures" / "data" / f"{table.name}.json")["tables"]
        source = next(given for given in known if given["name"] == (table.table or known[0]["name"]))
        rows = {row[0]: dict(zip(source["columns"], row)) for row in source["rows"]}
        for row in table.rows:
            for column, cell in zip(table.header, row, strict=True):
                assert bare(cell) == bare(rows[row[0]][column]), (row[0], column)


def test_bold_figures_of_encoders_are_the_best_of_their_column() -> None:
    """A figure of a page keeps its bold signs when a new run changes another row of its column."""

    def bold_and_best(column: Iterable[str], place: int) -> tuple[set[float], float]:
        bold, every = set(), []
        for cell in column:
            part = bare(cell).split(" [")[0].split(" / ")[place]
            every.append(float(part))
            if re.search(rf"\*\*(?:[\d.]+ / )?{re.escape(part)}(?: / [\d.]+)?\*\*", cell):
                bold.add(float(part))
        return bold, max(every)

    rows = next(table.rows for table in tables(DOCS / "guides" / "fast-encoder.md") if table.name == "accuracy")
    columns = [column for column in zip(*rows, strict=True) if " / " in column[0]]
    assert len(columns) == 3
    for bold, best in (bold_and_best(column, place) for column in columns for place in (0, 1)):
        assert bold == {best}


def test_tables_of_the_readme_hold_no_number_by_hand() -> None:
    unnamed = [table for table in tables(ROOT / "README.md") if not table.name]
    assert [cell for table in unnamed for row in table.rows for cell in row if numbers(cell)] == []
    assert sum(bool(table.name) for table in tables(ROOT / "README.md")) == 3


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_measured_numbers_of_the_text_are_in_the_files(page: Path) -> None:
    module = generate()
    known = set().union(*(numbers(module.figures_page(read(path))) for path in DATA)) | TARGETS
    assert [number for number in MEASURED.findall(prose(page)) if number not in known] == []


def test_a_page_of_figures_holds_every_number_of_its_file() -> None:
    module = generate()
    for path in DATA:
        data = read(path)
        page = module.figures_page(data)
        said = numbers(page)
        assert numbers(" ".join([*data["protocol"], *data["facts"].values()])) <= said
        assert all(cell in page for table in data["tables"] for row in table["rows"] for cell in row)


def test_the_generated_pages_are_current() -> None:
    made = generate().pages()
    assert {path.stem for path in (DOCS / "figures").glob("*.md")} == {"index", *(path.stem for path in DATA)}
    assert [name for name, text in made.items() if (DOCS / name).read_text(encoding="utf-8") != text] == []  # if this fails, run `make docs-pages`


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_each_table_says_where_new_results_have_its_figures(path: Path) -> None:
    module = generate()
    for table in read(path)["tables"]:
        if table["name"] in ("annotate", "steps"):  # written by hand: no command measures them yet
            continue
        assert list(table["source"]["rows"]) == [row[0] for row in table["rows"]]
        given = [table["source"]["cells"], *(row for row in table["source"]["rows"].values() if isinstance(row, dict))]
        assert {column for cells in given for column in cells} <= set(table["columns"][1:])
        for row, cells in zip(table["rows"], module.templates(table)):
            assert [cell for cell, template in zip(row[1:], cells, strict=True) if cell and not template] == []


def fields(path: Path) -> set[str]:
    """Return the fields in the templates of a data file, such as `accuracy[benchmarks][biomap][systems][base][at1]`."""
    module = generate()
    cells = "".join(cell for table in read(path)["tables"] for row in module.templates(table) for cell in row)
    return {name for _, name, _, _ in string.Formatter().parse(cells) if name}


def test_sources_of_figures_name_what_the_commands_measure() -> None:
    from benchmarks import filters
    from benchmarks.engines import SERVED, SETTINGS, M, setting_of
    from benchmarks.kb import SOURCES
    from training.evaluation.catalogue import benchmark_names

    every = set().union(*(fields(path) for path in DATA))
    asked = {match[1] for name in every if (match := re.search(r"\[benchmarks\]\[([^]]*)\]\[systems\]", name))}
    assert {name for name in asked if not re.fullmatch(r"held_out_\w\w", name)} <= set(benchmark_names())
    engines = {match[1] for name in every if (match := re.search(r"^benchmarks\[engines\]\[engines-\d+\]\[rows\]\[([^]]*)\]", name))}
    served = [(M, {**settings, "uri": ""}, 0) for settings in SERVED]
    assert engines <= {f"{engine.split('.')[1]}, {setting_of(settings)}" for engine, settings, _ in [*SETTINGS, *served]}
    filtered = {match[1] for name in every if (match := re.search(r"^benchmarks\[engines\]\[filters\]\[rows\]\[([^]]*)\]", name))}
    assert filtered == {f"{group}, {way}" for group in filters.GROUPS for way in ("here", *(f"server, {times}" for times in filters.BUDGETS))}
    rows = {match[1] for name in every if (match := re.search(r"^benchmarks\[kb\]\[kb\]\[rows\]\[([^]]*)\]", name))}
    assert rows == {*SOURCES, "union, with all mappings"}
    trained = {match[1] for name in every if (match := re.search(r"^compare\[benchmarks\]\[held_out\]\[systems\]\[([^]]*)\]", name))}
    known = (ROOT / "training" / "configs" / "compare.cfg").read_text(encoding="utf-8")
    assert [row for row in trained - {"base"} if f"[rows.{row}" not in known] == []


SPEED = {
    "name": "speed",
    "title": "Speed",
    "columns": ["engine", "names/s", "right"],
    "rows": [["ours", "1,000", "**50.0%**"], ["theirs", "", "20.0%"]],
    "source": {
        "linkers": {"trial": "hpo"},
        "rows": {"ours": "fast, i8", "theirs": {"right": "{trial[targets][0.8][share]:.1%}"}},
        "cells": {"names/s": "{benchmarks[engines][big][rows][ROW][names/s]:,.0f}", "right": "{trial[targets][0.9][share]:.1%}"},
    },
}
RUN = {"rows": [{"engine": "fast", "setting": "i8", "names/s": 2345.6}], "measured": "2026-12-01 10:00", "on": {"CPU cores": 4, "commit": "abc"}}
TRIAL = {"linker": "hpo", "versions": {"CPU cores": "2", "commit": "def"}, "targets": [{"asked": 0.8, "share": 0.25}, {"asked": 0.9, "share": 0.5}]}


@pytest.fixture
def figures(tmp_path: Path) -> tuple[Any, Path]:
    """Return the module for a temporary folder with one data file and a README that quotes it, and a folder of results."""
    module = generate()
    module.DOCS, module.DATA = tmp_path / "docs", tmp_path / "docs" / "figures" / "data"
    module.DATA.mkdir(parents=True)
    (module.DATA / "fast.json").write_text(json.dumps({"tables": [SPEED], "facts": {}}), encoding="utf-8")
    quoted = "# Us\n\n<!-- figures: fast speed -->\n| engine | right | names/s |\n| --- | --- | --- |\n| ours | **50.0%** | 1,000 |\n\n| a |\n| --- |\n| 1 |\n"
    (tmp_path / "README.md").write_text(quoted, encoding="utf-8")
    metrics = tmp_path / "metrics"
    (metrics / "run").mkdir(parents=True)
    (metrics / "benchmarks.json").write_text(json.dumps({"engines": {"big": RUN}}), encoding="utf-8")
    (metrics / "run" / "trial.json").write_text(json.dumps(TRIAL), encoding="utf-8")
    os.utime(metrics / "run" / "trial.json", (0, 0))  # measured in 1970
    return module, metrics


def test_new_results_are_written_with_their_commit_date_and_machine(figures: tuple[Any, Path]) -> None:
    module, metrics = figures
    origin = "commit abc, 2026-12-01, 4 CPU cores; commit def, 1970-01-01, 2 CPU cores"
    assert module.take_results(metrics) == [f"fast speed: measured at {origin}"]
    (made,) = read(module.DATA / "fast.json")["tables"]
    assert made == {**SPEED, "rows": [["ours", "2,346", "50.0%"], ["theirs", "", "25.0%"]], "measured": origin}
    page = module.figures_page({**read(module.DATA / "fast.json"), "title": "", "command": "", "machine": "", "date": "", "protocol": []})
    assert f"| theirs |  | 25.0% |\n\nMeasured at {origin}.\n" in page
    readme = (metrics.parent / "README.md").read_text(encoding="utf-8")
    assert "| ours | **50.0%** | 2,346 |\n\n| a |\n| --- |\n| 1 |\n" in readme  # an unchanged figure keeps its bold signs


def test_counts_that_no_machine_changes_have_a_date_only(figures: tuple[Any, Path]) -> None:
    module, metrics = figures
    (metrics / "run" / "trial.json").write_text(json.dumps({"linker": "hpo", "targets": TRIAL["targets"]}), encoding="utf-8")
    os.utime(metrics / "run" / "trial.json", (0, 0))
    assert module.take_results(metrics) == ["fast speed: measured at commit abc, 2026-12-01, 4 CPU cores; 1970-01-01"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"targets": [{"asked": 0.8, "share": 0.25}]}, "'0.9'"),
        ({"targets": [{"asked": 0.8, "share": None}, {"asked": 0.9, "share": 0.5}]}, "format string"),
        ({"limit": 100}, "a whole run: trial.json is over a sample"),
        ({"pool": 500}, "a whole run: trial.json is over a sample"),
        ({"linker": "open"}, "the linker hpo: trial.json is of open"),
    ],
)
def test_a_table_stays_as_it_is_when_results_are_not_whole(figures: tuple[Any, Path], change: dict[str, Any], why: str) -> None:
    module, metrics = figures
    (metrics / "run" / "trial.json").write_text(json.dumps({**TRIAL, **change}), encoding="utf-8")
    readme = (metrics.parent / "README.md").read_text(encoding="utf-8")
    (said,) = module.take_results(metrics)
    assert said.startswith("fast speed: kept, the results lack ")
    assert why in said
    assert read(module.DATA / "fast.json")["tables"] == [SPEED]
    assert (metrics.parent / "README.md").read_text(encoding="utf-8") == readme


def test_a_table_is_written_as_markdown() -> None:
    assert generate().table(["a", "b|c"], [["1", "2"]]) == ["| a | b\\|c |", "| --- | --- |", "| 1 | 2 |"]


def test_every_error_of_both_packages_is_on_the_page() -> None:
    from spacy_sapbert.errors import Errors
    from training.errors import Errors as TrainingErrors

    page = generate().errors_page()
    codes = [name for owner in (Errors, TrainingErrors) for name in vars(owner) if re.fullmatch(r"[EW]\d{3}", name)]
    assert len(codes) > 100
    assert [code for code in codes if f"### {code}\n" not in page] == []


@pytest.mark.parametrize(
    ("template", "cause", "remedy"),
    [
        ("'{path}' is damaged: {why}. Build it again.", "'*path*' is damaged: *why*.", "Build it again."),
        ("k must be at least 1; got {k}.", "k must be at least 1; got *k*.", ""),
        ("{n} are missing:\n{all}\nGive `run . --x A. B`. Or stop.", "*n* are missing: *all*", "Give `run . --x A. B`. Or stop."),
        ("'{path}' is not whole: {why} Save it again.", "'*path*' is not whole: *why*", "Save it again."),
        ("Bad names: {n}. Use `kb build {path}`.", "Bad names: *n*.", "Use `kb build PATH`."),
        ("{n:,} of <b>[x]</b> in kb_id. Use `a_b <c>`.", r"*n* of \<b\>\[x\]\</b\> in kb\_id.", "Use `a_b <c>`."),
    ],
)
def test_a_message_becomes_cause_and_remedy(template: str, cause: str, remedy: str) -> None:
    module = generate()
    assert tuple(module.in_markdown(part) for part in module.cause_and_remedy(template)) == (cause, remedy)


def test_every_command_of_both_packages_is_on_the_page() -> None:
    page = generate().command_line_page()
    for command in ("kb build", "kb update", "kb info", "index", "calibrate", "link", "annotate", "lookup", "demo", "train", "evaluate", "report"):
        assert f"### {command}\n" in page
    assert "| `--threshold` |  | Score that a link must be above. |" in page
    assert "| `--weak-names` / `--no-weak-names` | `True` |" in page
