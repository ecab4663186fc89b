"""`python -m training`: the commands, and how errors are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from trainings import command
from typer.testing import CliRunner

from spacy_sapbert.errors import MissingFile
from training.cli import app, guarded

ROOT = Path(__file__).parents[2]
COMMANDS = ["assets", "base", "check", "pairs", "mentions", "definitions", "train", "plan", "finetune", "soup", "compress", "static", "compare"]
MEASURING = ["evaluate", "ranker", "reranker", "close-calls", "calibrate", "end-to-end", "cross-lingual", "projection", "report"]


def test_every_command_has_help() -> None:
    group = typer.main.get_command(app)
    assert sorted(group.commands) == sorted([*COMMANDS, *MEASURING, "recogniser", "senses", "translations", "vocabulary"])  # type: ignore[attr-defined]
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


def every_command() -> list[tuple[str, Any]]:
    """Return all commands of `python -m training`, including those in groups, as typer runs them."""
    found, left = [], [("", typer.main.get_command(app))]
    while left:
        name, one = left.pop()
        below = getattr(one, "commands", None)
        if below is None:
            found.append((name.strip(), one))
        else:
            left += [(f"{name} {key}", value) for key, value in below.items()]
    return sorted(found)


def test_every_command_is_guarded(capsys: pytest.CaptureFixture[str]) -> None:
    """For every command, a `SapbertError` gives a message on stderr and exit code 1."""

    def missing(*_: Any, **__: Any) -> None:
        raise MissingFile("E101", "there is no such folder")

    assert len(every_command()) == len(COMMANDS) + len(MEASURING) + 3 + 5 + 1 + 4  # plus the commands of translations, recogniser, senses, vocabulary
    for name, one in every_command():
        run = one.callback.__wrapped__  # the function of typer around the registered one
        assert run.__code__ is guarded(missing).__code__, name
        (cell,) = run.__closure__
        before = cell.cell_contents
        cell.cell_contents = missing
        try:
            with pytest.raises(typer.Exit) as ended:
                run()
        finally:
            cell.cell_contents = before
        assert ended.value.exit_code == 1, name
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", "[E101] there is no such folder\n"), name


def test_no_module_but_main_is_run() -> None:
    text = 'if __name__ == "__main__"'
    assert [str(path) for path in (ROOT / "training").rglob("*.py") if text in path.read_text(encoding="utf-8")] == []
