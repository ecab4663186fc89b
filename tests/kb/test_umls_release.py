"""The synthetic UMLS release: the layout of its files, its proportions, and what the reader and the knowledge base get from it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Dict, List

import pytest

from benchmarks import common, umls, umls_release
from benchmarks.umls_release import write_release
from spacy_sapbert.build.linker import read_source
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.concept import is_cui, normalise
from spacy_sapbert.kb.semantic_types import load
from spacy_sapbert.readers import ReadStats, read
from spacy_sapbert.readers.rrf import LANGUAGES
from spacy_sapbert.readers.rrf_files import COLUMNS

CONCEPTS = 3000
Tables = Dict[str, List[List[str]]]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    counts = write_release(folder, CONCEPTS, seed=5)
    (folder / "counts.json").write_text(json.dumps(counts._asdict()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tables(release: Path) -> Tables:
    return {
        path.stem: [line.split("|") for line in path.read_text(encoding="utf-8").splitlines()] for path in sorted(release.glob("*.RRF"))
    }  # fmt: skip


def test_every_table_has_the_real_columns_and_order(tables: Tables) -> None:
    assert set(tables) == set(COLUMNS)
    for table, rows in tables.items():
        width, cuis = COLUMNS[table]
        assert {len(row) for row in rows} == {width + 1}, table  # each row ends with `|`
        assert all(not row[-1] and all(is_cui(row[at]) for at in cuis) for row in rows), table
    for table in ("MRCONSO", "MRSTY", "MRDEF", "MRREL", "MRCUI"):
        assert [row[0] for row in tables[table]] == sorted(row[0] for row in tables[table]), table


def test_shares_are_those_of_the_docstring(tables: Tables) -> None:
    atoms = tables["MRCONSO"]
    assert len({row[0] for row in atoms}) == CONCEPTS
    assert 4.6 < len(atoms) / CONCEPTS < 5.6
    english = [row for row in atoms if row[1] == "ENG"]
    assert 0.67 < len(english) / len(atoms) < 0.73
    assert {row[1] for row in atoms} <= set(LANGUAGES)
    assert 0.13 < sum(row[16] != "N" for row in atoms) / len(atoms) < 0.19
    assert 2.6 < sum(row[16] == "N" for row in english) / CONCEPTS < 3.4
    lengths = sorted(len(row[14]) for row in english)
    assert 26 < sum(lengths) / len(lengths) < 40
    assert lengths[len(lengths) * 99 // 100] > 110
    words = [len(row[14].split()) for row in english]
    assert 3.5 < sum(words) / len(words) < 5
    distinct = len({row[14].lower() for row in english}) / len(english)
    assert 0.55 < distinct < 0.75  # the others repeat a name from another vocabulary, or in another case
    assert {row[12] for row in english if row[11] == "SNOMEDCT_US"} == {"PT", "FN", "SY", "IS"}
    # numbers of atoms, and of strings within a concept
    assert [row[7] for row in atoms] == [f"A{number:08d}" for number in range(1, len(atoms) + 1)]
    strings = {(row[0], row[5]): row[14] for row in atoms}
    assert all(strings[row[0], row[5]] == row[14] for row in atoms)
    assert len(strings) == len({(row[0], row[14]) for row in atoms})


def test_types_definitions_and_retired_concepts(tables: Tables) -> None:
    known = load()
    assert all((known[row[1]].stn, known[row[1]].name) == (row[2], row[3]) for row in tables["MRSTY"])
    assert len({row[0] for row in tables["MRSTY"]}) == CONCEPTS
    assert 1.02 < len(tables["MRSTY"]) / CONCEPTS < 1.08
    assert 0.09 < len(tables["MRDEF"]) / CONCEPTS < 0.15
    concepts = {row[0] for row in tables["MRCONSO"]}
    assert not concepts & {row[0] for row in tables["MRCUI"]}
    assert {row[5] for row in tables["MRCUI"] if row[2] == "SY"} <= concepts


def test_relations_are_there_from_both_sides(tables: Tables) -> None:
    rows = tables["MRREL"]
    assert 3.5 < len(rows) / CONCEPTS < 4.5
    sides = {"PAR": "CHD", "CHD": "PAR"}
    edges = Counter((row[0], row[3], row[4]) for row in rows if row[3] in sides)
    assert edges == Counter((second, sides[rel], first) for first, rel, second in edges.elements())
    assert 2.2 < sum(edges.values()) / CONCEPTS < 3
    brands = Counter((row[0], row[4]) for row in rows if "tradename" in row[7])
    assert brands == Counter((second, first) for first, second in brands.elements())
    assert not any(row[0] == row[4] for row in rows)


def test_the_seed_makes_the_bytes(release: Path, tmp_path: Path) -> None:
    write_release(tmp_path / "same", CONCEPTS, seed=5)
    write_release(tmp_path / "other", CONCEPTS, seed=6, relations=0)
    for path in release.glob("*.RRF"):
        assert (tmp_path / "same" / path.name).read_bytes() == path.read_bytes()
    assert (tmp_path / "other" / "MRCONSO.RRF").read_bytes() != (release / "MRCONSO.RRF").read_bytes()
    assert not (tmp_path / "other" / "MRREL.RRF").exists()


@pytest.mark.parametrize("concepts", [1, 2, 7])
def test_small_releases_are_whole(tmp_path: Path, concepts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(umls_release, "_BLOCK", 2)
    counts = write_release(tmp_path, concepts, relations=12)
    stats = ReadStats()
    found = list(read(tmp_path, kind="rrf", stats=stats, languages=None, suppressed=True))
    assert len({concept.concept_id for concept in found if concept.names}) == concepts
    assert (stats.rows, stats.malformed) == (sum(counts.rows.values()), 0)


@pytest.mark.parametrize("concepts", [0, umls_release.MOST + 1])
def test_sizes_that_cannot_be(tmp_path: Path, concepts: int) -> None:
    with pytest.raises(ValueError, match="it must be 1 to 4,900,000"):
        write_release(tmp_path, concepts)


def test_the_knowledge_base_holds_what_the_tables_say(release: Path, tables: Tables, tmp_path: Path) -> None:
    source = read_source(release)
    kb = build_kb([source], tmp_path / "kb")
    made = json.loads((release / "counts.json").read_text(encoding="utf-8"))
    assert source.stats is not None
    assert (source.stats.rows, source.stats.malformed) == (sum(made["rows"].values()), 0)
    kept = [row for row in tables["MRCONSO"] if row[1] == "ENG" and row[16] == "N"]
    assert len(kept) == made["names"]
    short = [(row, normalise(row[14], "en")) for row in kept if len(normalise(row[14], "en")) <= 500]
    named = sorted({row[0] for row, _ in short})
    counts = kb.manifest["counts"]
    assert [kb.concept_id(row) for row in range(len(kb))] == named
    assert list(kb.surface_forms()) == sorted({norm for _, norm in short})
    assert counts["names"] == len({(row[0], " ".join(row[14].split()), row[11]) for row, _ in short})
    assert counts["names_left_out"]["too_long"] == len(kept) - len(short)
    of_norm: Dict[str, set] = {}
    for row, norm in short:
        of_norm.setdefault(norm, set()).add(row[0])
    assert counts["strings_of_several_concepts"] == sum(len(cuis) > 1 for cuis in of_norm.values())
    codes = Counter(vocabulary for _, vocabulary, _ in {(row[0], row[11], row[13]) for row in kept if row[0] in set(named) and row[13] != "NOCODE"})
    assert counts["codes"] == {"UMLS": len(named), **codes}
    assert kb.vocabularies == sorted({"UMLS", *(row[11] for row in kept)})
    # MRREL has every edge twice; if one row is suppressed, the other one is still there
    edges = {(row[0], row[4]) if row[3] == "PAR" else (row[4], row[0]) for row in tables["MRREL"] if row[3] in ("PAR", "CHD") and row[14] == "N"}
    ids = set(named)
    assert {(kb.concept_id(row), parent) for row, parent in kb._sql("SELECT concept, parent FROM parent")} == {(c, p) for c, p in edges if c in ids}
    types: Dict[str, List[str]] = {}
    for row in tables["MRSTY"]:
        types.setdefault(row[0], []).append(row[1])
    for number in range(0, len(kb), 97):
        concept = kb.concept(number)
        assert concept.types == sorted(types[concept.concept_id])
        assert {name.text for name in concept.names} == {" ".join(row[14].split()) for row, _ in short if row[0] == concept.concept_id}


@pytest.mark.e2e
@pytest.mark.nightly
def test_the_section_measures_and_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(umls, "SIZE", 500)
    monkeypatch.setattr(umls, "ARTEFACTS", tmp_path / "artifacts")
    monkeypatch.setattr(common, "ARTEFACTS", tmp_path / "artifacts")
    monkeypatch.setattr(common, "ROOT", tmp_path)
    report = common.Report(tmp_path / "metrics.json")
    umls.run(tmp_path, report)
    table = json.loads(report.path.read_text(encoding="utf-8"))["umls"]["umls-500"]
    rows = {row["measure"]: row["value"] for row in table["rows"]}
    assert rows["rows: all tables"] > rows["rows: MRCONSO"] > 500
    assert rows["names (concept, text, source)"] <= rows["of these English, not suppressed"]
    assert rows["kb build, rows/s"] > rows["kb build, rows/s, those of MRREL not counted"] > 0
    assert sorted(path.name for path in (tmp_path / "artifacts").iterdir()) == ["umls-500", "umls-500-kb"]
