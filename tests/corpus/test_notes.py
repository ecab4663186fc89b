"""Corpora: what one pass finds, what each partition reads, and what is not a corpus."""

from __future__ import annotations

import io
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any, List, Optional

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.cli import read_notes
from spacy_sapbert.corpus.notes import NoteReader, open_corpus
from spacy_sapbert.errors import SapbertError

TEXTS = ["one", "two\u2028lines", "", "vier", "fünf"]


def read_all(source: Path, size: int = 1000, text_field: str = "text", id_field: Optional[str] = None) -> List[Any]:
    """Return (id, text or None) of every note; each partition is read separately, as by another worker."""
    corpus = open_corpus(source, size, text_field=text_field, id_field=id_field)
    found = []
    for number, partition in enumerate(corpus.partitions):
        notes = list(NoteReader(text_field, id_field).read(pickle.loads(pickle.dumps(partition))))
        assert (partition.number, partition.notes) == (number, len(notes))
        assert len(notes) == size or number == len(corpus.partitions) - 1
        assert all((note.text is None) == bool(note.error) for note in notes)
        found += [(note.note_id, note.text) for note in notes]
    assert corpus.notes == len(found)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_every_kind_is_read_whole_whatever_the_size(tmp_path: Path, size: int):
    texts, lines, tables = tmp_path / "texts", tmp_path / "lines", tmp_path / "tables"
    for folder in (texts, lines / "a", tables / "a"):
        folder.mkdir(parents=True)
    for i, text in enumerate(TEXTS):
        (texts / f"n{i}.TXT").write_text(text, encoding="utf-8")
    wanted = [(f"n{i}", text) for i, text in enumerate(TEXTS)]
    for part, file in ((wanted[:3], "a/x"), (wanted[3:], "y")):
        rows = [{"text": text, "id": note_id} for note_id, text in part]
        (lines / f"{file}.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
        pq.write_table(pa.Table.from_pylist(rows), tables / f"{file}.parquet", row_group_size=2)
    (tables / "_SUCCESS").touch()
    (tables / "_old").mkdir()
    pq.write_table(pa.table({"note": ["not read"]}), tables / "_old" / "part.parquet")
    assert read_all(texts, size) == read_all(lines, size) == read_all(tables, size) == wanted
    assert read_all(lines / "y.jsonl", size) == read_all(tables / "y.parquet", size) == wanted[3:]
    assert [(note_id, text) for text, note_id in read_notes([str(texts)])] == wanted


@pytest.mark.parametrize("size", [1, 2, 100])
def test_lines_are_found_where_they_are(tmp_path: Path, size: int):
    file = tmp_path / "c.jsonl"
    lines = [
        b'\xef\xbb\xbf{"text": "first"}\r\n',
        b"\n",
        b'{"text": "b", "id": 7}\n',
        b'{"text": "no end"\n',
        b'  {"text": null, "id": "x"}\n',
        b'{"text": "caf\xe9"}\n',
        b"[1]\n",
        b'{"text": "last", "id": null}',
    ]
    file.write_bytes(b"".join(lines))
    found = read_all(file, size)
    assert found == [("c:1", "first"), ("7", "b"), ("c:4", None), ("x", None), ("c:6", None), ("c:7", None), ("c:8", "last")]
    notes = [note for part in open_corpus(file, size).partitions for note in NoteReader().read(part) if note.error]
    assert [note.place for note in notes] == [f"{file}, line {n}" for n in (4, 5, 6, 7)]
    for note, why in zip(notes, ["not JSON", "no field 'text'", "not valid UTF-8", "no field 'text'"]):
        assert why in note.error
        assert "no end" not in note.error


def test_fields_by_name(tmp_path: Path):
    rows = [{"note": "a", "row_id": 11, "text": 5}, {"note": None, "row_id": None, "text": 6}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    wanted = [("11", "a"), ("c:2", None)]
    for name in ("c.parquet", "c.jsonl"):
        assert read_all(tmp_path / name, 10, "note", "row_id") == wanted
        assert read_all(tmp_path / name, 10, "note") == [("c:1", "a"), ("c:2", None)]


def test_parquet_text_of_other_types_and_bytes(tmp_path: Path):
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array(["ab", "é"]).buffers()[:2] + [pa.py_buffer(b"ab\xe9\xe9")])
    for column, wanted in (
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        (bad, ["ab", None]),
    ):
        pq.write_table(pa.table({"text": column}), tmp_path / "t.parquet")
        assert [text for _, text in read_all(tmp_path / "t.parquet")] == wanted


def test_rows_are_read_in_any_order_by_one_reader(tmp_path: Path):
    wanted = [f"note {i}" for i in range(1000)]
    pq.write_table(pa.table({"text": wanted}), tmp_path / "t.parquet", row_group_size=300)
    parts = open_corpus(tmp_path / "t.parquet", 70).partitions
    reader = NoteReader()
    for order in (range(0, 15, 2), (3, 4, 9, 1, 14, 14, 0)):
        for i in order:
            assert [note.text for note in reader.read(parts[i])] == wanted[70 * i : 70 * i + 70], i


def test_a_note_that_is_gone_or_another_encoding_is_an_error_of_its_own(tmp_path: Path):
    for name, data in (("a.txt", b"caf\xe9"), ("b.txt", b"fine"), ("c.md", b"gone")):
        (tmp_path / name).write_bytes(data)
    (part,) = open_corpus(tmp_path).partitions
    (tmp_path / "c.md").unlink()
    a, b, c = NoteReader().read(part)
    assert (a.note_id, a.text, "UTF-8" in a.error) == ("a", None, True)
    assert (b.text, b.error) == ("fine", "")
    assert (c.text, "No such file" in c.error) == (None, True)


def test_two_files_never_have_one_id(tmp_path: Path):
    for name in ("a.txt", "a.md", "b.txt"):
        (tmp_path / name).write_text(name)
    assert sorted(read_all(tmp_path)) == [("a.md", "a.md"), ("a.txt", "a.txt"), ("b", "b.txt")]
    assert sorted(note_id for _, note_id in read_notes([str(tmp_path)])) == ["a.md", "a.txt", "b"]


def test_the_description_tells_inputs_apart(tmp_path: Path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"text": "one"}\n{"text": "two"}\n')
    before = open_corpus(file).description
    assert (before["files"], before["bytes"], before["notes"]) == (1, 32, 2)
    assert open_corpus(file).description == before
    file.write_text('{"text": "one"}\n{"text": "six"}\n')
    assert open_corpus(file).description != before


def refused(source: Path, **options: Any) -> str:
    with pytest.raises(SapbertError) as info:
        open_corpus(source, **options)
    return str(info.value)


def test_what_is_no_corpus(tmp_path: Path):
    assert refused(tmp_path / "none").startswith(f"[E401] '{tmp_path / 'none'}'")
    assert "no such file" in refused(tmp_path)
    for name, content, why in (
        ("notes.rtf", "text\n", "'.rtf' is not read"),
        ("notes.parquet", "text", "not a Parquet file"),
        ("notes.jsonl", "\n\n", "holds no note"),
    ):
        (tmp_path / name).write_text(content)
        message = refused(tmp_path / name)
        assert message.startswith(f"[E402] '{tmp_path / name}' is not a")
        assert why in message
    (tmp_path / "notes.txt").write_text("a note")
    message = refused(tmp_path)
    assert "of one kind" in message
    assert "1 .txt/.text/.md, 1 .jsonl, 1 .parquet/.pq files" in message
    assert refused(tmp_path / "notes.txt", size=0).startswith("[E002] Setting 'partition_size'")


def test_fields_that_are_not_there(tmp_path: Path):
    (tmp_path / "c.jsonl").write_text('{"body": "a", "id": 1}\nno json\n')
    message = refused(tmp_path / "c.jsonl")
    assert message.startswith("[E408]")
    assert "no text field 'text' (--text-field). It has: body" in message
    assert "no text field 'id' (--text-field). It has: body" in refused(tmp_path / "c.jsonl", text_field="id")
    pq.write_table(pa.table({"body": ["a"], "n": [1]}), tmp_path / "c.parquet")
    assert "no column 'text' (--text-field). It has: body, n" in refused(tmp_path / "c.parquet")
    assert "no column 'id' (--id-field)" in refused(tmp_path / "c.parquet", text_field="body", id_field="id")
    assert "holds int64, not text" in refused(tmp_path / "c.parquet", text_field="n")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=6) | st.none(), max_size=6), min_size=1, max_size=4), st.integers(1, 7))
def test_no_note_is_lost_or_read_twice(files: List[List[Optional[str]]], size: int) -> None:
    """JSON Lines in several files, with blank lines (None), in partitions of any size."""
    expected = [(f"f{i}:{number}", text) for i, lines in enumerate(files) for number, text in enumerate(lines, 1) if text is not None]
    with tempfile.TemporaryDirectory() as folder:
        for i, lines in enumerate(files):
            rows = ["" if text is None else json.dumps({"text": text}, ensure_ascii=i % 2 == 0) for text in lines]
            (Path(folder) / f"f{i}.jsonl").write_text("\n".join(rows), encoding="utf-8", newline="")
        if expected:
            assert read_all(Path(folder), size) == expected
        else:
            with pytest.raises(SapbertError, match="E402"):
                open_corpus(folder, size)


# -- tables and compressed files ------------------------------------------------------------------------------------------

TEXTS_OF_TABLE = ['say "fever",\nor not', "cough", "naïve 🤒", "", "x" * 200_000]


def packed(path: Path, data: bytes) -> Path:
    """Write a file with the compression that its name says."""
    import gzip
    import lzma

    import zstandard

    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def table(delimiter: str = ",") -> bytes:
    import csv
    import io

    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerow(["nr", "note", "id"])
    writer.writerows([i, text, f"n{i}" if i else ""] for i, text in enumerate(TEXTS_OF_TABLE))
    return b"\xef\xbb\xbf" + stream.getvalue().encode()


def parquet_bytes(columns: dict[str, list[Any]]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.CSV.zst", "a.tsv.xz", "a.jsonl.gz", "a.jsonl.zst", "a.parquet.gz", "a.pq.zst"])
def test_tables_and_compressed_files_are_read_whole_whatever_the_size(tmp_path: Path, name: str, size: int) -> None:
    if "jsonl" in name:
        lines = [json.dumps({"note": text, **({"id": f"n{i}"} if i else {})}) for i, text in enumerate(TEXTS_OF_TABLE)]
        data = "\n".join(lines).encode()
    elif ".p" in name:
        data = parquet_bytes({"note": TEXTS_OF_TABLE, "id": [f"n{i}" if i else None for i in range(len(TEXTS_OF_TABLE))]})
    else:
        data = table("\t" if ".tsv" in name else ",")
    corpus = open_corpus(packed(tmp_path / name, data), size, text_field="note")
    wanted = [("a:1", TEXTS_OF_TABLE[0]), *((f"n{i}", text) for i, text in enumerate(TEXTS_OF_TABLE) if i)]
    for parts in (corpus.partitions, corpus.partitions[::-1]):  # a worker may get any of them, in any order
        reader = NoteReader("note", None)
        found = {part.number: [(note.note_id, note.text) for note in reader.read(part)] for part in parts}
        assert [note for number in sorted(found) for note in found[number]] == wanted
    assert [part.notes for part in corpus.partitions] == [size] * (5 // size) + [5 % size] * (5 % size > 0)


def test_compressed_texts_keep_their_names(tmp_path: Path) -> None:
    packed(tmp_path / "b.txt.gz", b"\xef\xbb\xbffever")
    packed(tmp_path / "a.txt", b"cough")
    (tmp_path / "c.txt.gz").write_bytes(b"\x1f\x8b\x08broken")
    corpus = open_corpus(tmp_path)
    found = [(note.note_id, note.text, note.error) for part in corpus.partitions for note in NoteReader().read(part)]
    assert found == [("a", "cough", ""), ("b", "fever", ""), ("c", None, "it is damaged.")]


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.csv", b"id,txt\n1,fever\n", "E408"),
        ("a.csv", b"", "E408"),
        ("a.csv", b"text\n", "E402"),  # it has no note
        ("a.csv", b"text\nfi\xe8vre\n", "E404"),
        ("a.jsonl.gz", b'{"txt": "fever"}\n', "E408"),
        ("a.parquet.gz", b"", "E402"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, code: str) -> None:
    with pytest.raises(SapbertError, match=code):
        open_corpus(packed(tmp_path / name, data))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.csv.gz", b"text\n" + b"fever and cough\n" * 10_000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SapbertError, match=r"E402.*a\.csv\.gz"):
        open_corpus(path)


def test_a_truncated_compressed_parquet_file_is_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.parquet.gz", parquet_bytes({"text": ["fever"] * 1000}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SapbertError, match=r"E402.*a\.parquet\.gz"):
        open_corpus(path)


def test_rows_of_a_table_without_a_text_fail_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1\n2,fever\n")
    (part,) = open_corpus(tmp_path / "a.csv").partitions
    assert [(note.note_id, note.text) for note in NoteReader().read(part)] == [("1", None), ("2", "fever")]
