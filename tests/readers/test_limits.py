"""Small files that become very large when they are unpacked or parsed are refused, and the limits can be set."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.readers import limits
from spacy_sapbert.readers.json_files import items
from spacy_sapbert.readers.text import lines

from .helpers import error_code, read_all

MB = 1_000_000


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.obo", data)
    return file.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress, "zip": zipped}


@pytest.mark.parametrize("kind", PACKERS)
def test_an_archive_that_unpacks_to_too_much(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_BYTES", 4 * MB)
    path = tmp_path / f"x.{kind}"
    path.write_bytes(PACKERS[kind](b"x\n" * 5 * MB))  # 10 MB in some kilobytes
    with pytest.raises(SapbertError, match=r"unpacks to more than 200 times.*SPACY_SAPBERT_MAX_RATIO") as error:
        for _ in lines(path):
            pass
    assert error_code(error) == "E411"
    monkeypatch.setenv(limits.RATIO_VARIABLE, "1000000")
    assert sum(1 for _ in lines(path)) == 5 * MB


def test_a_zstd_bomb_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_BYTES", 4 * MB)
    path = tmp_path / "x.zst"
    path.write_bytes(zstandard.compress(b" " * 400 * MB))
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    with pytest.raises(SapbertError, match="E411"):
        for _ in lines(path):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * MB


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_a_line_that_is_too_long(tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.obo"
    path.write_bytes(pack(b"format-version: 1.2\n\n[Term]\nid: A:1\nname: " + b"x" * 3 * MB + b"\n"))
    monkeypatch.setenv(limits.LINE_VARIABLE, "2")
    with pytest.raises(SapbertError, match=r"line 5: it has more than 2 MB.*SPACY_SAPBERT_MAX_LINE_MB") as error:
        read_all(path)
    assert error_code(error) == "E410"
    monkeypatch.setenv(limits.LINE_VARIABLE, "4")
    assert sum(1 for _ in lines(path)) == 5


def test_lines_are_the_same_at_the_edges_of_blocks(tmp_path: Path) -> None:
    text = "".join(f"{number} {'é' * (number % 700)}\n" for number in range(3000)) + "last"
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode())
    assert [line for _, line in lines(path)] == text.split("\n")


@pytest.mark.parametrize("value", ["0", "-1", "many", "nan"])
def test_a_limit_that_is_no_number(tmp_path: Path, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_text("x\n")
    monkeypatch.setenv(limits.LINE_VARIABLE, value)
    with pytest.raises(SapbertError, match=rf"'SPACY_SAPBERT_MAX_LINE_MB' of 'the environment' is '{value}'"):
        list(lines(path))


@pytest.mark.parametrize(("depth", "taken"), [(190, True), (201, False), (100_000, False)])
@pytest.mark.parametrize("opens", ["[", '{"a":'])
def test_json_that_is_nested_too_deeply(tmp_path: Path, depth: int, taken: bool, opens: str) -> None:
    path = tmp_path / "x.json"
    inner = opens * (depth - 3) + "1" + {"[": "]", '{"a":': "}"}[opens] * (depth - 3)
    path.write_text(f'{{"graphs": [[{inner}]]}}')
    if taken:
        assert len(list(items(path, "graphs.item"))) == 1
        return
    with pytest.raises(SapbertError, match="nested more than 200 levels deep") as error:
        list(items(path, "graphs.item"))
    assert error_code(error) == "E402"


def test_brackets_in_texts_are_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    texts = ["[" * 5000, '\\"[[[' * 300, "\\" * 7 + '"' + "{" * 900, "é\\["]
    path.write_text(json.dumps({"graphs": texts * 30}))
    assert list(items(path, "graphs.item")) == texts * 30


def test_a_line_of_json_that_is_nested_too_deeply_is_a_malformed_row(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = json.dumps({"concept_id": "C0000001", "canonical_name": "a", "aliases": ["b"], "types": []})
    path.write_text(good + "\n" + '{"concept_id": ' + "[" * 100_000 + "\n")
    with pytest.warns(UserWarning, match=r"1 of 2 rows.*nested too deeply"):
        assert [concept.concept_id for concept in read_all(path)[0]] == ["C0000001"]


@pytest.mark.parametrize("wrong", [{"aliases": [1]}, {"types": {"a": 1}}, {"definition": 5}])
def test_a_record_with_values_of_another_type_is_a_malformed_row(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = tmp_path / "x.jsonl"
    record = {"concept_id": "C0000001", "canonical_name": "a"}
    path.write_text(json.dumps(record) + "\n" + json.dumps({**record, **wrong}) + "\n")
    with pytest.warns(UserWarning, match=rf"1 of 2 rows.*wrong type of {next(iter(wrong))}"):
        assert len(read_all(path)[0]) == 1
