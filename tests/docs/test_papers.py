"""The tables of the papers' settings: the column "ours" has the values of the files and the commands."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import typer
from spacy.util import load_config

from training import cli

from .pages import DOCS, ROOT

PAGE = DOCS / "training" / "papers.md"
CONFIGS = ROOT / "training" / "configs"
ROW = re.compile(r"\| (?P<setting>[^|]+) \| (?P<paper>[^|]*)\| (?P<ours>[^|]+) \| (?P<where>[^|]+) \| (?P<why>[^|]*)\|")


def rows() -> list[re.Match[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and not line.startswith("| setting ")]
    found = [ROW.fullmatch(line) for line in lines]
    assert None not in found, [line for line, match in zip(lines, found) if match is None]
    return [match for match in found if match is not None]


def said(cell: str) -> Any:
    """Return the value of a cell: a number, a word, or a list."""
    text = cell.strip().strip("`")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def in_file(file: str, key: str) -> Any:
    found: Any = load_config(CONFIGS / file, interpolate=True)
    for part in key.split("."):
        found = found[part]
    return found


def in_command(command: str, option: str) -> Any:
    found: Any = typer.main.get_command(cli.app)
    for word in command.split():
        found = found.commands[word]
    return next(parameter.default for parameter in found.params if option in parameter.opts)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['where'].strip()}-{row['setting']}")
def test_ours_is_what_the_files_say(row: re.Match[str]) -> None:
    ours, where = said(row["ours"]), re.findall(r"`([^`]+)`", row["where"])
    if not where:
        assert (ours, row["where"].strip()) == ("—", "—")
        assert row["why"].strip(), "what stands nowhere is explained"
        return
    if len(where) == 1:
        command, _, option = where[0].rpartition(" ")
        found = in_command(command, option)
    else:
        found = in_file(*where)
    assert (len(found) if isinstance(found, list) and isinstance(ours, int) else found) == ours


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['where'].strip()}-{row['setting']}")
def test_a_value_that_differs_says_why(row: re.Match[str]) -> None:
    """If our number differs from the paper's, the row says why."""
    paper, ours = said(re.sub(r"\(.*?\)|, of .*", "", row["paper"])), said(row["ours"])
    if isinstance(paper, (int, float)) and paper != ours:
        assert row["why"].strip(), (paper, ours)


def test_every_recipe_of_a_paper_is_on_the_page() -> None:
    named = {path.name for path in CONFIGS.glob("*.cfg") if re.match(r"sap(_cross_lingual|_bitext|bert_\w+)?\.cfg|finetune|biolord_2023", path.name)}
    text = PAGE.read_text(encoding="utf-8")
    assert len(named) == 10
    assert [name for name in sorted(named) if f"`{name}`" not in text] == []
