"""`python -m training`: the commands, and the one way in which errors are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from trainings import command
from typer.testing import CliRunner

from spacy_sapbert.errors import MissingFile
from training.cli import app, guarded

ROOT = Path(__file__).parents[2]
COMMANDS = ["assets", "pairs", "mentions", "definitions", "train", "soup", "compress", "static", "compare"]
MEASURING = ["evaluate", "calibrate", "end-to-end", "cross-lingual", "projection", "report"]


def test_every_command_has_help() -> None:
    group = typer.main.get_command(app)
    assert sorted(group.commands) == sorted([*COMMANDS, *MEASURING, "translations"])  # type: ignore[attr-defined]
    for name, found in group.commands.items():  # type: ignore[attr-defined]
        assert len(found.help) > 20, name
    assert sorted(group.commands["translations"].commands) == ["cross-lingual", "general", "pairs"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "words",
    [
        ["pairs", "nowhere", "out"],
        ["translations", "pairs", "nowhere", "nowhere", "out"],
        ["train", "nowhere.cfg"],
        ["soup", "out", "nowhere", "nowhere-else"],
        ["static", "nowhere", "nowhere", "out"],
        ["compare", "nowhere.cfg"],
        ["evaluate"],
    ],
)
def test_an_error_is_a_message_and_exit_code_1(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = command(*words)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("[E")
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_other_errors_are_not_hidden() -> None:
    def broken() -> None:
        raise KeyError("a fault of ours")

    def missing() -> None:
        raise MissingFile("E101", "there is no such folder")

    ours = typer.Typer(pretty_exceptions_enable=False)
    ours.command("broken")(guarded(broken))
    ours.command("missing")(guarded(missing))
    assert isinstance(CliRunner().invoke(ours, ["broken"]).exception, KeyError)
    ended = CliRunner().invoke(ours, ["missing"])
    assert (ended.exit_code, ended.stderr) == (1, "[E101] there is no such folder\n")


def test_no_module_but_main_is_run() -> None:
    text = 'if __name__ == "__main__"'
    assert [str(path) for path in (ROOT / "training").rglob("*.py") if text in path.read_text(encoding="utf-8")] == []
