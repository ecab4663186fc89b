"""Behaviour of all readers: opening, recognising the format, counting, and clear errors for other files."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import zstandard

from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.readers import READERS, ReadStats, read, sniff
from spacy_sapbert.readers.text import lines

from .helpers import DATA, ROOT, error_code, read_all, write_release

MEDIC = (DATA / "tiny_medic.txt").read_bytes()
KINDS = {
    "tiny.obo": "obo",
    "tiny_babelon.tsv": "babelon",
    "tiny_graph.json": "obograph",
    "tiny_mondo.json": "mondo_json",
    "tiny.sssom.tsv": "sssom",
    "tiny_scispacy.jsonl": "scispacy",
    "tiny_table.tsv": "table",
    "tiny_medic.txt": "biosyn",
    "tiny_ctd.tsv": "ctd",
}


def packed(path: Path, data: bytes, form: str) -> Path:
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inside/file.txt", data)
        return path
    path.write_bytes({"plain": data, "gz": gzip.compress(data), "zst": zstandard.compress(data)}[form])
    return path


@pytest.mark.filterwarnings("ignore:.*W001")
@pytest.mark.parametrize("form", ["plain", "gz", "zst", "zip"])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_kind_comes_from_the_content_in_any_packing(tmp_path: Path, name: str, form: str) -> None:
    path = packed(tmp_path / "nameless", (DATA / name).read_bytes(), form)
    assert sniff(path) == KINDS[name]
    assert read_all(path)[0] == read_all(DATA / name)[0] == list(READERS[KINDS[name]](path, ReadStats()))


def test_every_kind_is_sniffed(tmp_path: Path) -> None:
    assert sniff(write_release(tmp_path)) == "rrf"
    assert {*KINDS.values(), "rrf"} == set(READERS)


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbf" + MEDIC.replace(b"\n", b"\r\n"))
    assert read_all(path)[0] == read_all(DATA / "tiny_medic.txt")[0]


def test_several_zstd_frames(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(zstandard.compress(b"one\ntw") + zstandard.compress(b"o\n"))
    assert list(lines(path)) == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("form", ["gz", "zst", "zip"])
def test_truncated_archives(tmp_path: Path, form: str) -> None:
    data = b"".join(b"D%06d||toy disease %d\n" % (i, i * i) for i in range(20_000))
    path = packed(tmp_path / "cut", data, form)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedFile, match="truncated or damaged") as error:
        list(read(path, kind="biosyn"))
    assert error_code(error) == "E402"


def test_latin1_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"D000001||a\n" * 2000 + "D000002||Ménière\n".encode("latin-1"))
    with pytest.raises(DamagedFile, match="near line 2001") as error:
        read_all(path)
    assert error_code(error) == "E404"
    assert read_all(path, encoding="latin-1")[0][-1].names[0].text == "Ménière"
    path.write_text("D000002||Ménière\n", encoding="utf-16")
    assert read_all(path, encoding="utf-16")[0][0].names[0].text == "Ménière"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),  # a fixed time, so that the test has the same name in each process
        (b"\x7fELF\x00\x00\x01", "binary"),
        (b"hello world\n", "hello world"),
        (b"{}", "{}"),
    ],
)
def test_unrecognised_content(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(SapbertError, match=why) as error:
        read(path)  # the error comes at once, not with the first concept
    assert error_code(error) == "E402"


@pytest.mark.parametrize("kind", sorted(set(READERS)))
@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02\x03" * 500])
def test_empty_and_binary_files_for_every_reader(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(SapbertError) as error:
        list(read(path, kind=kind))
    assert error_code(error) in {"E402", "E405"}


def test_missing_unknown_and_misspelt(tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as error:
        read(tmp_path / "nothing.obo")
    assert error_code(error) == "E401"
    with pytest.raises(SapbertError, match="babelon, biosyn, ctd, mondo_json, obo") as error:
        read(DATA / "tiny.obo", kind="owl")
    assert error_code(error) == "E406"
    with pytest.raises(SapbertError, match=r"'prefix' of 'reader 'obo''.*prefixes, suppressed, encoding") as error:
        read(DATA / "tiny.obo", prefix="HP")
    assert error_code(error) == "E002"
    with pytest.raises(SapbertError) as error:
        read(tmp_path)  # a folder, but not a UMLS release
    assert error_code(error) == "E402"


def test_a_zip_of_several_files(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.obo", "x")
        archive.writestr("b.obo", "x")
    with pytest.raises(SapbertError, match=r"holds 2 files: a.obo, b.obo") as error:
        read(path)
    assert error_code(error) == "E402"


def test_share_of_malformed_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("D000001||a\n" * 89 + "nonsense\n" * 11)
    with pytest.raises(
        SapbertError, match=r"11 of 100 rows are malformed \(first at lines 90, 91, 92, 93, 94\), more than the allowed 1.0%"
    ) as error:
        read_all(path)
    assert error_code(error) == "E405"
    path.write_text("D000001||a\n" + "nonsense\n" * 10)  # ten malformed lines never stop the reader …
    with pytest.warns(UserWarning, match="10 of 11"):
        assert len(read_all(path)[0]) == 1
    path.write_text("D000001|a\n")  # … unless the file has no other lines
    with pytest.raises(SapbertError) as error:
        read_all(path, kind="biosyn")
    assert error_code(error) == "E405"


@pytest.mark.e2e
def test_importing_is_light() -> None:
    code = "import sys, spacy_sapbert.readers; print([m for m in ('fastobo', 'ijson', 'zstandard', 'numpy', 'spacy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "[]"
