"""Bad input on the command line: a message with a code, no traceback, and the rest of the work is done."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from rich.markup import MarkupError
from typer.testing import CliRunner, Result

from spacy_sapbert import cli
from spacy_sapbert.build import default_linkers
from spacy_sapbert.corpus.local import _suspects
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import MANIFEST, changed_files, checksum
from spacy_sapbert.render import CSV_COLUMNS, to_csv

DATA = Path(__file__).parent / "data"


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.app, list(args))


def failed(result: Result, code: str) -> str:
    """Check that a command ended with a coded message, and return the message."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"[{code}]" in result.stderr
    return result.stderr


def test_a_note_that_fails_does_not_take_the_others_with_it(tmp_path: Path, tiny_linker: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"id": "a", "text": "fever"}\n{"id": "b", "text": "half \\ud800 a pair SECRETWORD"}\n{"id": "c", "text": "dry cough"}\n')
    out = tmp_path / "out.jsonl"
    said = failed(run("link", str(notes), "--linker-name", str(tiny_linker), "--format", "jsonl", "--out", str(out)), "E054")
    assert "1 of 3 notes could not be linked (the others were); the first that failed is 'b': UnicodeEncodeError" in said
    assert "SECRETWORD" not in said
    assert {json.loads(line)["note"] for line in out.read_text().splitlines()} == {"a", "c"}


def test_names_of_files_that_are_no_utf_8(tmp_path: Path, tiny_linker: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/n\xff"
    os.mkdir(folder)
    for name in (b"\xfe.txt", b"b.txt"):
        with open(folder + b"/" + name, "wb") as file:
            file.write(b"fever")
    result = run("link", os.fsdecode(folder), "--linker-name", str(tiny_linker), "--format", "jsonl")
    assert (result.exit_code, {json.loads(line)["note"] for line in result.stdout.splitlines()}) == (0, {"\\udcfe", "b"})
    failed(run("link", os.fsdecode(folder + b"/missing.txt")), "E401")
    with open(folder + b"/\xfd.tsv", "wb") as file:
        file.write((DATA / "tiny_clinic.tsv").read_bytes())
    result = run("kb", "build", os.fsdecode(folder + b"/\xfd.tsv"), "--out", str(tmp_path / "kb"))
    assert result.exit_code == 0
    assert json.loads((tmp_path / "kb" / MANIFEST).read_text())["sources"][0]["name"] == "\\udcfd.tsv"


@pytest.mark.parametrize("occupied", ["file", "below"])
def test_a_cache_that_cant_be_used(tmp_path: Path, occupied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    place = tmp_path / "cache" if occupied == "file" else tmp_path / "cache" / "deeper"
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(place))
    said = failed(run("lookup", "fever"), "E055")
    assert f"The cache '{place}' can't be used" in said
    assert "SPACY_SAPBERT_CACHE" in said


def test_what_the_system_refuses_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    said = failed(run("kb", "build", str(DATA / "tiny_clinic.tsv"), "--out", str(tmp_path / "file" / "kb")), "E053")
    assert str(tmp_path / "file") in said


def test_markup_in_names_and_versions_is_shown_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "[bold]x[" / "a[b].obo"
    source.parent.mkdir()
    source.write_text("format-version: 1.2\ndata-version: [/x]\n\n[Term]\nid: A:1\nname: fever [/y]\n")
    result = run("kb", "build", str(source), "--out", str(tmp_path / "[red]kb"))
    assert not isinstance(result.exception, MarkupError)
    assert result.exit_code == 0
    assert "a[b].obo" in result.stdout
    assert "[/x]" in run("kb", "info", str(tmp_path / "[red]kb")).stdout


@pytest.mark.parametrize("begins", ["=1+1", "+1", "-1+1", "@x", "\tx", "\rx"])
def test_cells_are_no_formulas(begins: str) -> None:
    row: dict[str, Any] = dict.fromkeys(CSV_COLUMNS, "")
    row.update(mention=begins, name="-", start=-1, status=["negated"], nested=False, types=[], type_names=[], score=-0.25, probability=None, codes={})
    row["candidates"] = [["C1", "-", -0.25]]
    row["extensions"] = {"mine": begins, "number": -0.5}
    found = {}
    for raw in (False, True):
        stream = io.StringIO(newline="")
        to_csv([row], stream, ["mine", "number"], raw=raw)
        found[raw] = next(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))
    assert (found[True]["mention"], found[True]["mine"], found[True]["name"]) == (begins, begins, "-")
    assert (found[False]["mention"], found[False]["mine"], found[False]["name"]) == (f"'{begins}", f"'{begins}", "'-")
    stream = io.StringIO(newline="")
    to_csv([row | {"extensions": {"=h": "x"}}], stream, ["=h"])
    assert "'=h" in next(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    for each in found.values():  # numbers and plain texts are not changed
        assert (each["start"], each["score"], each["number"], each["status"]) == ("-1", "-0.2500", "-0.5", "negated")


@pytest.mark.parametrize(
    "command",
    [
        ["kb", "build", str(DATA / "tiny_clinic.tsv"), "--out", "{path}"],
        ["lookup", "fever", "--linker-name", "{path}"],
        ["link", "fever", "--linker-name", "{path}"],
    ],
    ids=["build", "lookup", "link"],
)
def test_a_folder_whose_name_is_not_utf_8(tmp_path: Path, tiny_linker: Path, command: list[str]) -> None:
    path = tmp_path / "caf\udce9"  # é in Latin-1
    if command[0] != "kb":
        shutil.copytree(tiny_linker, path)
    said = failed(run(*(arg.format(path=path) for arg in command)), "E053")
    assert "caf\\udce9' (its name is not valid UTF-8)" in said


def test_the_name_of_a_note_is_no_formula(tiny_linker: Path, tmp_path: Path) -> None:
    note = tmp_path / "=1+1.txt"
    note.write_text("fever")
    for more, name in (([], "'=1+1"), (["--raw"], "=1+1")):
        shown = run("link", str(note), "--linker-name", str(tiny_linker), "--format", "csv", *more).stdout
        assert [row["note"] for row in csv.DictReader(io.StringIO(shown))] == [name]


def test_every_byte_is_looked_at_when_it_is_asked_for(tiny_linker: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_linker, tmp_path / "linker"))
    path = folder / "index" / "vectors.npy"
    vectors = np.load(path)
    vectors[1, 1] += 0.01
    np.save(path, vectors)
    manifest = json.loads((folder / "index" / MANIFEST).read_text())
    manifest["files"][path.name]["sampled"] = checksum(path)  # as for a large file in which no sample has changed
    (folder / "index" / MANIFEST).write_text(json.dumps(manifest))
    for verify, fits in (("sampled", True), ("full", False)):
        linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder), "verify": verify})
        if fits:
            assert len(linker.kb) > 50
        else:
            with pytest.raises(SapbertError, match=r"E202.*checksum of 'vectors\.npy'"):
                len(linker.kb)


def test_files_that_changed_are_named(tiny_linker: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_linker, tmp_path / "linker"))
    assert changed_files(folder) == []
    assert "are as they were built" in _suspects(folder)
    with open(folder / "index" / "forest.ann", "r+b") as file:
        file.truncate(1000)
    (folder / "kb" / "names.npy").unlink()
    assert changed_files(folder) == ["index/forest.ann", "kb/names.npy"]
    assert "index/forest.ann, kb/names.npy changed since it was built" in _suspects(folder)  # `annotate` says this if a worker died
    (folder / "encoder" / MANIFEST).write_text("[")
    assert changed_files(folder) == ["encoder/manifest.json", "index/forest.ann", "kb/names.npy"]
