"""Stamps: what an artefact was made from, and whether it has to be made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training import made
from training.made import Stamp, contents, contents_of, fingerprint, flat, stamp_of


def test_an_artefact_was_made_from_the_inputs_of_its_stamp(tmp_path: Path) -> None:
    stamp = Stamp(stamp_of(tmp_path / "encoder"))
    assert stamp.path == tmp_path / "encoder.made"
    assert not stamp.matches({})  # nothing was made yet
    assert stamp.differences({"seed": 1}) is None
    stamp.write({"seed": 1, "kinds": ("a", "b"), "base": ""})
    assert stamp.matches({"base": "", "kinds": ["a", "b"], "seed": 1})  # JSON has no tuples
    assert stamp.differences({"seed": 2, "base": "", "rank": 4}) == ["kinds: ['a', 'b'] -> None", "rank: None -> 4", "seed: 1 -> 2"]
    assert not stamp.matches({"seed": 1, "kinds": ["a", "b"]})
    stamp.remove()
    stamp.remove()  # removing a missing stamp is not an error
    assert stamp.read() is None


@pytest.mark.parametrize("text", ['{"seed": ', "[1]", ""])
def test_a_stamp_that_a_kill_cut_short_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.made").write_text(text)
    assert not Stamp(tmp_path / "x.made").matches({"seed": 1})


def test_inputs_are_flat_and_their_fingerprint_has_no_order() -> None:
    assert flat({"a": {"b": 1, "c": {"d": [2]}}, "e": None}) == {"a.b": 1, "a.c.d": [2], "e": None}
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint({}, size=8)) == 16


def test_contents_of_what_a_setting_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")
    one = contents(tmp_path / "file")
    (tmp_path / "file").write_text("b")
    assert contents(tmp_path / "file") not in ("", one)
    assert contents(tmp_path / "nothing") == ""
    assert contents("x" * 5000) == ""
    (tmp_path / "model.safetensors").write_text("weights")
    weights = contents(tmp_path)
    assert weights == contents(tmp_path / "model.safetensors")
    (tmp_path / "manifest.json").write_text(json.dumps({}))
    assert contents(tmp_path) == contents(tmp_path / "manifest.json") != weights
    assert contents_of(["cosent", "", str(tmp_path), str(tmp_path / "file")]) == {
        f"contents of {tmp_path}": contents(tmp_path),
        f"contents of {tmp_path / 'file'}": contents(tmp_path / "file"),
    }


def test_code_is_the_python_files(tmp_path: Path) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "losses.py").write_text("a = 1")
    (tmp_path / "fit.py").write_text("b = 2")
    before = made.code(tmp_path / "loop", tmp_path / "fit.py")
    (tmp_path / "loop" / "notes.txt").write_text("c")
    assert made.code(tmp_path / "loop", tmp_path / "fit.py") == before
    (tmp_path / "loop" / "losses.py").write_text("a = 2")
    assert made.code(tmp_path / "loop", tmp_path / "fit.py") != before
