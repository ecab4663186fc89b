"""Errors and warnings with codes, and the log of the library."""

from __future__ import annotations

import copy
import pickle
import string
import warnings
from pathlib import Path

import pytest

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.cli.app import _show_log
from spacy_sapbert.errors import DamagedFile, Errors, SapbertError, SapbertWarning, fail, logger, warn
from spacy_sapbert.kb.builder import build_kb

DATA = Path(__file__).parent / "data"


def test_an_error_has_its_code_and_survives_pickling() -> None:
    error = fail("E401", DamagedFile, path="notes")
    assert isinstance(error, SapbertError)
    assert (error.code, str(error)) == ("E401", "[E401] 'notes' does not exist.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, str(again)) == (DamagedFile, "E401", str(error))


def test_a_warning_has_its_code_and_survives_pickling_and_copying() -> None:
    with pytest.warns(SapbertWarning) as caught:
        warn("W007", what="2 shards", path="folder")
    warning = caught[0].message
    assert isinstance(warning, SapbertWarning)
    text = "[W007] 2 shards in 'folder' were damaged since they were written; these names are encoded again."
    for each in (warning, pickle.loads(pickle.dumps(warning)), copy.copy(warning)):
        assert (type(each), each.code, str(each)) == (SapbertWarning, "W007", text)


def test_a_warning_shows_the_line_that_called_the_package(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build_kb([read_source(DATA / "tiny.obo")], tmp_path / "kb", progress=True)  # W001 is given here; tqdm is on the call stack, too
        warn("W007", what="2 shards", path="folder")  # W007 is given here
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert [each.message.code for each in caught if isinstance(each.message, SapbertWarning)] == ["W001", "W007"]
    assert [each.filename for each in caught] == [__file__, __file__]
    assert [lines[each.lineno - 1].partition("# ")[2][:4] for each in caught] == ["W001", "W007"]


def test_every_template_can_be_filled_and_ends_with_a_full_stop() -> None:
    for code in (name for name in vars(Errors) if name[0] in "EW" and name[1:].isdigit()):
        template = getattr(Errors, code)
        assert list(string.Formatter().parse(template)), code
        assert template.rstrip("'`)")[-1] in ".}", code


def test_the_command_line_shows_what_the_library_logs_once(capsys: pytest.CaptureFixture[str]) -> None:
    _show_log()
    _show_log()
    logger.info("12 names need 1 GB")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "12 names need 1 GB\n")
