"""Errors and warnings with codes, and what the library logs."""

from __future__ import annotations

import pickle
import string
import warnings
from pathlib import Path

import pytest

from spacy_sapbert import cli
from spacy_sapbert.errors import DamagedFile, Errors, SapbertError, SapbertWarning, fail, logger, warn


def test_an_error_has_its_code_and_survives_pickling() -> None:
    error = fail("E401", DamagedFile, path="notes")
    assert isinstance(error, SapbertError)
    assert (error.code, str(error)) == ("E401", "[E401] 'notes' does not exist.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, str(again)) == (DamagedFile, "E401", str(error))


def test_a_warning_has_its_code_and_shows_the_line_that_is_asked_for() -> None:
    def inner(level: int) -> None:
        warn("W007", stacklevel=level, what="2 shards", path="folder")  # 1: this line

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inner(1)
        inner(2)  # 2: this line
    first, second = caught
    assert isinstance(first.message, SapbertWarning)
    assert issubclass(first.category, UserWarning)
    assert first.message.code == "W007"
    assert str(first.message) == "[W007] 2 shards in 'folder' were damaged since they were written; these names are encoded again."
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert [lines[each.lineno - 1].partition("# ")[2] for each in (first, second)] == ["1: this line", "2: this line"]
    assert first.filename == second.filename == __file__


def test_every_template_can_be_filled_and_ends_with_a_full_stop() -> None:
    for code in (name for name in vars(Errors) if name[0] in "EW" and name[1:].isdigit()):
        template = getattr(Errors, code)
        assert list(string.Formatter().parse(template)), code
        assert template.rstrip("'`)")[-1] in ".}", code


def test_the_command_line_shows_what_the_library_logs_once(capsys: pytest.CaptureFixture[str]) -> None:
    cli._show_log()
    cli._show_log()
    logger.info("12 names need 1 GB")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "12 names need 1 GB\n")
