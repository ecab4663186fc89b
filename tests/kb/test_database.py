"""A database from others: it can run no code, write nothing, and not block a reader."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import checksum
from spacy_sapbert.kb import database as module
from spacy_sapbert.kb.database import Database
from spacy_sapbert.kb.knowledge_base import KnowledgeBase


@pytest.fixture
def folder(tiny_linker: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_linker / "kb", tmp_path / "kb"))


def seal(folder: Path, name: str) -> None:
    """Give the manifest the checksum of a changed file."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": (folder / name).stat().st_size, "blake2b": checksum(folder / name)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "kb.sqlite", isolation_level=None)
    for statement in statements:
        connection.executescript(statement)
    connection.close()
    seal(folder, "kb.sqlite")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS no, 'T047' AS members FROM n"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (f"DROP TABLE type_sets; CREATE VIEW type_sets AS {ENDLESS}", "it holds the view 'type_sets'"),
        ("CREATE TRIGGER x AFTER INSERT ON name BEGIN DELETE FROM name; END", "it holds the trigger 'x'"),
        ("DROP TABLE type_sets; CREATE VIRTUAL TABLE type_sets USING fts5(no, members)", "it holds the table 'type_sets'"),
        ("DROP TABLE parent", "it has no table 'parent'"),
        ("ALTER TABLE parent RENAME COLUMN parent TO x", "table 'parent' has the columns concept, x"),
        (
            "DROP TABLE vocabulary_sets; CREATE TABLE vocabulary_sets (no INTEGER PRIMARY KEY, x TEXT, members TEXT AS (hex(zeroblob(100000000))))",
            "table 'vocabulary_sets' has the columns no, x, members",
        ),
    ],
)
def test_only_plain_tables_are_read(folder: Path, statement: str, says: str) -> None:
    change(folder, statement)
    with pytest.raises(SapbertError, match=says) as error:
        KnowledgeBase(folder)
    assert error.value.code == "E102"


def test_a_statement_that_takes_too_long_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEPS", 1_000_000)
    database = Database(folder / "kb.sqlite")
    with pytest.raises(SapbertError, match="longer than the whole file could need") as error:
        database.sql(f"SELECT COUNT(*) FROM ({ENDLESS})").one()
    assert error.value.code == "E102"
    assert database.sql("SELECT COUNT(*) FROM concept").one()[0] > 50  # the next statement is not stopped


@pytest.mark.parametrize("statement", ["DELETE FROM name", "CREATE TABLE x (y)", "ATTACH ':memory:' AS other", "PRAGMA user_version = 7"])
def test_nothing_is_written(folder: Path, statement: str) -> None:
    before = (folder / "kb.sqlite").read_bytes()
    kb = KnowledgeBase(folder)
    with suppress(SapbertError):
        kb._sql(statement).fetchone()
    assert (folder / "kb.sqlite").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["kb.sqlite", "manifest.json", "names.npy"]


def test_text_that_is_no_text_is_told_while_rows_are_read(folder: Path) -> None:
    change(folder, "UPDATE string SET norm = CAST(x'66ff66' AS TEXT) WHERE row = 3")
    kb = KnowledgeBase(folder)
    with pytest.raises(SapbertError, match=r"E102.*kb\.sqlite"):
        list(kb.surface_forms())


def test_a_row_that_others_lead_to_is_missing(folder: Path) -> None:
    change(folder, "DELETE FROM concept WHERE row = 5")
    kb = KnowledgeBase(folder)
    with pytest.raises(SapbertError, match="a row that others lead to is missing"):
        kb.concept(5)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        (0, -1, "column 'surface_form' has values from -1"),
        (1, 10_000, "column 'concept' has values from 0 to 10,000"),
        (3, 999, "column 'types'"),
        (4, -7, "column 'vocabularies'"),
        (0, 1, "is not sorted"),
    ],
)
def test_a_name_table_that_leads_nowhere(folder: Path, column: int, value: int, says: str) -> None:
    table = np.load(folder / "names.npy")
    table[column, -1 if value != -1 else 0] = value
    np.save(folder / "names.npy", table)
    seal(folder, "names.npy")
    with pytest.raises(SapbertError, match=says) as error:
        KnowledgeBase(folder)
    assert error.value.code == "E102"


def test_verify_looks_at_every_page(folder: Path) -> None:
    data = bytearray((folder / "kb.sqlite").read_bytes())
    connection = sqlite3.connect(folder / "kb.sqlite")
    page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'relation'").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    data[(page - 1) * size : (page - 1) * size + 8] = b"\x00" * 8  # a table that is not read when the database is opened
    (folder / "kb.sqlite").write_bytes(bytes(data))
    seal(folder, "kb.sqlite")
    assert len(KnowledgeBase(folder)) > 50
    with pytest.raises(SapbertError, match="E102"):
        KnowledgeBase(folder, verify=True)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (("counts", "concepts"), "60", r"counts\.concepts"),
        (("counts", "strings"), None, r"counts\.strings"),
        (("counts",), [], "counts"),
        (("filters",), {}, r"filters\.languages"),
        (("sources",), ["x"], r"sources\.0"),
        (("files",), {}, "does not list 'kb.sqlite'"),
    ],
)
def test_a_manifest_that_says_something_else(folder: Path, at: tuple[str, ...], value: object, says: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    part = manifest
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SapbertError, match=says) as error:
        KnowledgeBase(folder)
    assert error.value.code == "E102"
