"""Every figure that README and docs/ give is in docs/figures/data, and the generated pages hold what they are made from."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from .pages import DOCS, ROOT, name_of, pages, prose, tables

DATA = sorted((DOCS / "figures" / "data").glob("*.json"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s?(?:%|×|(?:times as|MB|GB|ms|names/s|notes/s|words/s|rows/s|queries/s|minutes)\b)")
WISHES = {"95", "90"}  # of the settings target_precision and coverage: asked for, not measured


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
    """Return the numbers of a text, as they are written."""
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
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        assert len({row[0] for row in table["rows"]}) == len(table["rows"])


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_tables_of_figures_are_those_of_the_files(page: Path) -> None:
    for table in (table for table in tables(page) if table.name):
        known = read(DOCS / "figures" / "data" / f"{table.name}.json")["tables"]
        source = next(given for given in known if given["name"] == (table.table or known[0]["name"]))
        rows = {row[0]: dict(zip(source["columns"], row)) for row in source["rows"]}
        for row in table.rows:
            for column, cell in zip(table.header, row, strict=True):
                assert bare(cell) == bare(rows[row[0]][column]), (row[0], column)


def test_tables_of_the_readme_hold_no_number_by_hand() -> None:
    unnamed = [table for table in tables(ROOT / "README.md") if not table.name]
    assert [cell for table in unnamed for row in table.rows for cell in row if numbers(cell)] == []
    assert sum(bool(table.name) for table in tables(ROOT / "README.md")) == 2


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_measured_numbers_of_the_text_are_in_the_files(page: Path) -> None:
    known = set().union(*(numbers(path.read_text(encoding="utf-8")) for path in DATA)) | WISHES
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
    assert [name for name, text in made.items() if (DOCS / name).read_text(encoding="utf-8") != text] == []  # else: make docs-pages


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
