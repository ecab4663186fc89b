"""A signal that ends a command becomes one message with a code, and an exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from spacy_sapbert.cli.app import command
from spacy_sapbert.signals import Ended, describe_interrupt, raise_on_signals
from training.cli import guarded
from training.launcher import PARENT_SAYS


def send(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.sigtimedwait([], 1)  # Python calls the handler meanwhile


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    """Remove the handlers that other tests of this process set, as Ray does, and put them back."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "what", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143), (signal.SIGHUP, "SIGHUP", 129)]
)
def test_a_command_says_what_ended_it(number: int, what: str, code: int, tmp_path: Path) -> None:
    done = tmp_path / "done"

    def work() -> None:
        try:
            send(number)
        finally:
            done.touch()

    for wrap in (lambda app: command(app, "work")(work), lambda app: app.command("work")(guarded(work))):
        app = typer.Typer(pretty_exceptions_enable=False)
        app.callback()(lambda: None)
        wrap(app)
        done.unlink(missing_ok=True)
        result = CliRunner().invoke(app, ["work"])
        assert result.exit_code == code
        assert result.stderr == (
            f"[E058] Stopped by {what} before the end. What was there before is unchanged. Run the same command again: `annotate`, `index` and "
            "trainings continue after the last part that was finished, other commands begin again.\n"
        )
        assert done.exists()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signals_that_are_ignored_or_handled_stay_so() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with raise_on_signals():
            send(signal.SIGHUP)
            send(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert seen == [signal.SIGTERM]


def test_words_and_exit_codes() -> None:
    assert describe_interrupt(KeyboardInterrupt()) == ("Ctrl-C", 130)
    assert describe_interrupt(Ended(signal.SIGTERM)) == ("SIGTERM", 143)


def test_a_training_leaves_it_to_its_parent_to_say_what_ended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PARENT_SAYS, "1")
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("work")(guarded(lambda: send(signal.SIGINT)))
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stderr) == (130, "")
