from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, List, Tuple

import pytest

from spacy_sapbert.errors import SapbertError, SapbertWarning
from spacy_sapbert.readers.rrf import LANGUAGES

from .helpers import RELEASE, atom, by_id, error_code, read_all, relation, write_release


@pytest.mark.parametrize("form", ["dir", "META", "gz", "zip"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_form_of_a_release_gives_the_same(tmp_path: Path, form: str, end: str) -> None:
    concepts, stats = read_all(write_release(tmp_path, form=form, end=end))
    assert stats.kind == "rrf"
    assert (stats.version, stats.versions) == ("2024AA", {"MTH": "2024AA", "TOY": "7"})
    assert (stats.rows, stats.malformed) == (sum(map(len, RELEASE.values())), 0)
    found = by_id(concepts)
    assert set(found) == {"C9000001", "C9000002", "C9000004"}  # C9000003 has no English name
    first = found["C9000001"][0]
    # MRRANK: MTH|PN 600 is the best (0), MSH|MH is 100 places behind, SNOMEDCT_US|PT 200, |SY 201; times 8, plus 7 for TS=S, STT=VO, ISPREF=N
    assert [(n.text, n.source, n.language, n.term_type, n.rank) for n in first.names] == [
        ("Toy cough", "SNOMEDCT_US", "en", "PT", 1600),
        ('"Dry" toy cough', "SNOMEDCT_US", "en", "SY", 1615),
        ("Tüftelhusten", "MSH", "en", "MH", 800),
    ]
    assert first.codes == [("SNOMEDCT_US", "84757009"), ("MSH", "D9")]
    assert found["C9000002"][0].codes == []  # NOCODE is not a code
    assert found["C9000004"][0].names[0].rank == 202 * 8  # (RXNORM, BN) is not in MRRANK: one place after its last


def test_parts_after_the_names(tmp_path: Path) -> None:
    concepts, _ = read_all(write_release(tmp_path))
    parts = by_id(concepts)["C9000001"][1:]
    assert [p.types for p in parts if p.types] == [["T184", "T033"]]
    assert [(p.source, p.definition) for p in parts if p.definition] == [("MSH", "A cough that toys have."), ("NCI", "Another.")]
    # PAR says that the second is a parent of the first; the duplicate row is read once, and the CHD row is the same edge from the other side
    assert [p.parents for p in parts if p.parents] == [["C9000002"], ["C9000002"]]
    assert [p.retired for p in parts if p.retired] == [["C9000007"]]
    assert [c.relations for c in concepts if c.relations] == [[("tradename_of", "C9000001")]]
    assert next(c.concept_id for c in concepts if c.relations) == "C9000004"  # the second concept is the one that has the relation


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_filters_leave_out_is_counted(tmp_path: Path) -> None:
    """The eight names are two of SCTSPA (Spanish), three of SNOMEDCT_US and one suppressed of TOY, one each of MSH, MTH and RXNORM."""
    path = write_release(tmp_path)
    _, stats = read_all(path)
    assert stats.filtered_in_words() == "language: SPA (2); suppressed: O (1)"
    _, stats = read_all(path, sources=["SNOMEDCT_US"], term_types=["PT"])
    assert stats.filtered_in_words() == "vocabulary: SCTSPA (2), MSH (1), MTH (1), RXNORM (1), TOY (1); term type: SY (1)"


def test_a_vocabulary_or_relation_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_release(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(path, sources=["SCTSPA"], languages=["ENG"])  # its names are in another language
        read_all(path, relations=["tradename_of"])
    with pytest.warns(SapbertWarning) as found:
        read_all(path, sources=["MSH", "XYZ", "MESH"], relations=["nosuch", "tradename_of"])
    assert [str(warning.message) for warning in found] == [
        f"[W016] The release '{path}' has no names of the vocabulary 'MESH, XYZ', which a filter asks for; it has: SCTSPA (2), "
        "SNOMEDCT_US (2), MTH (1), RXNORM (1), TOY (1). Correct the spelling of the filter.",
        f"[W016] The release '{path}' has no relation 'nosuch', which a filter asks for; it has: tradename_of (1). Correct the spelling of the filter.",
    ]


def test_further_relations(tmp_path: Path) -> None:
    rows = [
        relation("C9000001", "RO", "C9000002", rela="finding_site_of"),
        relation("C9000002", "RO", "C9000001", rela="has_finding_site"),
        relation("C9000002", "RO", "C9000001", rela="has_finding_site"),  # the same relation between other atoms
        relation("C9000002", "RB", "C9000001", rela="due_to", suppress="O"),
        relation("C9000001", "PAR", "C9000002", rela="inverse_isa"),
        relation("C9000001", "RO", "C9000004", rela="tradename_of", sab="RXNORM"),
        relation("C9000001", "RO", "C9000002"),
    ]
    path = write_release(tmp_path, {**RELEASE, "MRREL": rows})

    def related(**options: Any) -> List[Tuple[str, str, str]]:
        return [(c.concept_id, *r) for c in read_all(path, **options)[0] for r in c.relations]

    brand = ("C9000004", "tradename_of", "C9000001")
    site = ("C9000001", "has_finding_site", "C9000002")  # REL and RELA are relations of the second concept
    assert related() == [brand]
    assert related(relations=["has_finding_site"]) == [site, brand]
    assert related(relations=None) == [("C9000002", "finding_site_of", "C9000001"), site, brand]
    assert related(relations=["due_to"], suppressed=True) == [("C9000001", "due_to", "C9000002"), brand]
    assert [c.parents for c in read_all(path, relations=None)[0] if c.parents] == [["C9000002"]]


def test_filters(tmp_path: Path) -> None:
    path = write_release(tmp_path)
    texts = lambda **options: [n.text for c in read_all(path, **options)[0] for n in c.names]  # noqa: E731
    assert texts(languages=("SPA",)) == ["Tos de juguete", "Tos rara"]
    assert texts(sources=("MSH",)) == ["Tüftelhusten"]
    assert texts(term_types=("BN", "PN")) == ["Toy lung", "Coughex"]
    assert "Toy cough, NOS" in texts(suppressed=True)
    assert len(texts(languages=None)) == 7
    both, _ = read_all(path, languages=("SPA", "ENG"))
    names = sorted(by_id(both)["C9000001"][0].names, key=lambda n: n.rank)
    assert [n.language for n in names] == ["es", "en", "en", "en"]  # the canonical name is in the first of the wanted languages
    assert all(len(iso) == 2 for iso in LANGUAGES.values())
    without, _ = read_all(path, hierarchy=False)
    assert not any(c.parents or c.relations for c in without)
    everything, _ = read_all(path, only_named=False)
    assert [c.types for c in everything if c.concept_id == "C9000003"] == [["T184"]]


def test_ranks_without_mrrank(tmp_path: Path) -> None:
    concepts, _ = read_all(write_release(tmp_path, {"MRCONSO": RELEASE["MRCONSO"]}))
    ranks = {n.text: n.rank for c in concepts for n in c.names}
    assert ranks["Toy lung"] == 0  # PN is the first of TERM_TYPES
    assert ranks["Toy cough"] == 8 < ranks["Tüftelhusten"] == 16 < ranks['"Dry" toy cough']


def test_malformed_rows_are_counted_with_their_lines(tmp_path: Path) -> None:
    rows = [*RELEASE["MRCONSO"], "C9000001|ENG|too few|", atom("C123", "bad"), atom("C9000009", "a|b")]
    with pytest.warns(UserWarning, match="W001"):
        concepts, stats = read_all(write_release(tmp_path, {"MRCONSO": rows}))
    assert (stats.malformed, stats.bad_lines, stats.rows) == (3, [9, 10, 11], 11)
    assert "18 columns" in stats.reason
    assert "C9000009" not in by_id(concepts)


def test_rows_without_a_cui_are_malformed_wherever_they_stand(tmp_path: Path) -> None:
    rows = [atom("", "first"), atom("", "second"), *RELEASE["MRCONSO"], atom("", "last")]
    with pytest.warns(UserWarning, match="'' is not a CUI"):
        concepts, stats = read_all(write_release(tmp_path, {"MRCONSO": rows}))
    assert (stats.malformed, stats.bad_lines) == (3, [1, 2, len(rows)])
    assert "" not in by_id(concepts)


def test_a_bad_small_table_is_not_hidden_by_a_large_good_one(tmp_path: Path) -> None:
    many = [atom(f"C90{i:05}", f"toy {i}") for i in range(2000)]
    path = write_release(tmp_path, {"MRCONSO": many, "MRSTY": ["not a row"] * 11})
    with pytest.raises(SapbertError, match=r"MRSTY.*11 of 11") as error:
        read_all(path)
    assert error_code(error) == "E405"


def test_tables_of_different_releases_are_told(tmp_path: Path) -> None:
    """In a release, every concept has a semantic type; here, thirty of a thousand have none."""
    atoms = [atom(f"C90{i:05}", f"toy {i}") for i in range(1000)]
    types = [f"C90{i:05}|T184|A2.2.2|Sign or Symptom|AT{i}||" for i in range(30, 1000)]
    with pytest.warns(UserWarning, match=r"\[W012\] 30 of 1,000 concepts .*such as C9000000.*different releases"):
        read_all(write_release(tmp_path, {"MRCONSO": atoms, "MRSTY": types}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(write_release(tmp_path, {"MRCONSO": atoms[20:], "MRSTY": types}))  # ten without a type are accepted


def test_a_release_without_semantic_types_is_told(tmp_path: Path) -> None:
    folder = write_release(tmp_path, {"MRCONSO": RELEASE["MRCONSO"]})
    with pytest.warns(UserWarning, match=r"\[W013\] The release '.*' has no MRSTY, .*Add MRSTY\.RRF"):
        read_all(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(folder / "MRCONSO.RRF")  # who names this one table wants its names


def listed(tables: dict[str, list[str]], end: str = "\n") -> List[str]:
    """Return the rows of MRFILES for some tables."""
    return [f"{t}.RRF|{t}|CUI|{r[0].count('|')}|{len(r)}|{sum(len((row + end).encode()) for row in r)}|" for t, r in tables.items()]


@pytest.mark.parametrize("form", ["dir", "META", "gz", "zip"])
@pytest.mark.parametrize("table", ["MRCONSO", "MRSTY", "MRREL"])
def test_a_table_that_was_cut_at_a_line_end(tmp_path: Path, form: str, table: str) -> None:
    """Every row is whole, so only MRFILES shows that rows are missing."""
    files = {"MRFILES": listed(RELEASE)}
    assert len(read_all(write_release(tmp_path / "whole", {**RELEASE, **files}, form))[0]) == len(read_all(write_release(tmp_path / "plain"))[0])
    path = write_release(tmp_path / "cut", {**RELEASE, **files, table: RELEASE[table][:-1]}, form)
    with pytest.raises(SapbertError, match=rf"{table}.RRF.*MRFILES.RRF says .*cut short\. Copy or unpack the file again") as error:
        read_all(path)
    assert error_code(error) == "E412"
    (rows, what) = (len(RELEASE[table]), "rows") if form == "gz" else (int(listed(RELEASE)[list(RELEASE).index(table)].split("|")[5]), "bytes")
    assert f"says that it has {rows:,}" in str(error.value)
    assert what in str(error.value)


def test_other_line_ends_and_tables_that_are_not_there_agree_with_mrfiles(tmp_path: Path) -> None:
    files = {"MRFILES": [*listed(RELEASE), "MRSAT.RRF|Attributes|CUI|13|9|99|", "MRCONSO.RRF|no numbers|CUI|18|||"]}
    read_all(write_release(tmp_path, {**RELEASE, **files}, end="\r\n"))  # larger than listed
    names = {"MRCONSO": [*RELEASE["MRCONSO"][:-1], " " * 200], "MRFILES": listed(RELEASE)}  # enough bytes, too few rows
    with pytest.raises(SapbertError, match=r"has 7 rows, but MRFILES.RRF says that it has 8"):
        read_all(write_release(tmp_path / "cut", {**RELEASE, **names}))


def test_releases_that_mrfiles_does_not_describe_are_read(tmp_path: Path) -> None:
    """Other line ends, another encoding, a row for MRFILES itself, tables of the user's own beside META, rows without their last bar."""
    concepts = len(read_all(write_release(tmp_path / "plain"))[0])
    windows = {**RELEASE, "MRFILES": [*listed(RELEASE, end="\r\n"), "MRFILES.RRF|Files||6|99|9999|"]}
    assert len(read_all(write_release(tmp_path / "unix", windows))[0]) == concepts
    latin = write_release(tmp_path / "latin", {**RELEASE, "MRFILES": listed(RELEASE)})
    for path in latin.glob("*.RRF"):
        path.write_bytes(path.read_bytes().decode().encode("latin-1", "replace"))
    assert len(read_all(latin, encoding="latin-1")[0]) == concepts
    folder = write_release(tmp_path / "own", {**RELEASE, "MRFILES": listed(RELEASE)}, form="META")
    write_release(folder, {"MRCONSO": RELEASE["MRCONSO"][:1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert {concept.concept_id for concept in read_all(folder)[0] if concept.names} == {"C9000001"}
    bare = [row.removesuffix("|") for row in RELEASE["MRCONSO"]]
    assert len(read_all(write_release(tmp_path / "bare", {**RELEASE, "MRCONSO": bare}))[0]) == concepts


@pytest.mark.filterwarnings("ignore:.*W001")
@pytest.mark.parametrize("form", ["dir", "gz", "zip"])
@pytest.mark.parametrize("table", ["MRCONSO", "MRSTY", "MRREL"])
def test_a_table_that_was_cut_within_a_row(tmp_path: Path, form: str, table: str) -> None:
    """Without MRFILES, the last row shows it; also where rows are skipped unread."""
    rows = RELEASE[table]
    path = write_release(tmp_path, {**RELEASE, table: [*rows * 200, rows[-1][: len(rows[-1]) // 2]]}, form)
    with pytest.raises(SapbertError, match=rf"{table}.*ends in the middle of row {len(rows) * 200 + 1:,}") as error:
        read_all(path)
    assert error_code(error) == "E413"


def large(concepts: int) -> dict[str, list[str]]:
    """Return a release of so many concepts, each with a name, a type, a definition and a parent."""
    cuis = [f"C90{i:05}" for i in range(concepts)]
    return {
        "MRCONSO": [atom(cui, f"toy {cui}") for cui in cuis],
        "MRSTY": [f"{cui}|T184|A2.2.2|Sign or Symptom|AT{cui}||" for cui in cuis],
        "MRDEF": [f"{cui}|A1|AT1||MSH|A toy.|N||" for cui in cuis],
        "MRREL": [relation(cui, "PAR", cuis[0]) for cui in cuis],
    }


def test_tables_that_end_early_are_told(tmp_path: Path) -> None:
    whole = large(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(write_release(tmp_path / "whole", whole))
        read_all(write_release(tmp_path / "few", {**whole, "MRDEF": whole["MRDEF"][:900]}))  # too few rows to tell
        read_all(write_release(tmp_path / "late", {**whole, "MRREL": whole["MRREL"][:1800]}))  # exactly 10% come after its last concept
    with pytest.warns(UserWarning, match=r"\[W014\] 1,000 of 2,000 concepts of MRSTY are not in MRCONSO \(such as C9001000\)"):
        read_all(write_release(tmp_path / "names", {**whole, "MRCONSO": whole["MRCONSO"][:1000]}))
    for table in ("MRDEF", "MRREL"):
        with pytest.warns(UserWarning, match=rf"\[W015\] {table} in '.*' ends at C9001499, but 500 of 2,000 concepts of MRCONSO come after it"):
            read_all(write_release(tmp_path / table, {**whole, table: whole[table][:1500]}))


def test_definitions_of_a_newer_release_are_told(tmp_path: Path) -> None:
    old, new = large(1000), large(1011)
    with pytest.warns(UserWarning, match=r"\[W014\] 11 of 1,011 concepts of MRDEF are not in MRCONSO \(such as C9001000\).*of different releases"):
        read_all(write_release(tmp_path, {**old, "MRDEF": new["MRDEF"]}), languages=("SPA",))  # whatever names are wanted


def test_a_folder_without_mrconso(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match="MRCONSO") as error:
        read_all(write_release(tmp_path, {"MRSTY": RELEASE["MRSTY"]}))
    assert error_code(error) == "E402"


def test_mrconso_alone_finds_the_tables_beside_it(tmp_path: Path) -> None:
    folder = write_release(tmp_path)
    assert [c.concept_id for c in read_all(folder / "MRCONSO.RRF")[0]] == [c.concept_id for c in read_all(folder)[0]]
    copy = tmp_path / "atoms.txt"
    copy.write_bytes((folder / "MRCONSO.RRF").read_bytes())
    assert [c.concept_id for c in read_all(copy)[0]] == ["C9000001", "C9000002", "C9000004"]


def seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of three runs, which depends little on other processes and pauses."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.e2e
@pytest.mark.nightly
def test_speed(tmp_path: Path) -> None:
    """Reading takes three times as long as splitting the same lines into columns, about 200,000 rows per second."""
    rows = [atom(f"C9{i // 4:06}", f"toy name {i}", SAB="SNOMEDCT_US", TTY="SY") for i in range(60_000)]
    path = write_release(tmp_path, {"MRCONSO": rows})
    assert len(read_all(path)[0]) == 15_000

    def cut() -> list[list[str]]:
        with (path / "MRCONSO.RRF").open(encoding="utf-8") as lines:
            return [line.split("|") for line in lines]

    assert seconds(lambda: read_all(path)) < 10 * seconds(cut)
