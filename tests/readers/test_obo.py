from __future__ import annotations

import re
from pathlib import Path

import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.readers.obo import own_prefix

from .helpers import DATA, by_id, error_code, hp_obo, read_all, real


@pytest.mark.filterwarnings("ignore:.*W001")
def test_every_scope_type_and_reference() -> None:
    concepts, stats = read_all(DATA / "tiny.obo")
    assert (stats.kind, stats.version, stats.concepts) == ("obo", "toy/releases/2020-02-02", 3)
    knee, oddity, replaced = concepts
    assert [(n.text, n.term_type, n.rank) for n in knee.names] == [
        ("wandering knee", "PT", 0),
        ("mobile knee", "SY", 1),
        ("knees, wandering", "SY", 1),
        ("walkabout knee", "LAY", 2),
        ("WK", "AB", 3),
        ("left wandering knee", "NRW", 4),
        ("restless leg", "REL", 5),
        ("knee trouble", "BRD", 6),  # a lay term, but broad
    ]
    assert knee.definition == 'A knee that "wanders".'
    assert knee.cuis == ["C9000002", "C9000001"]
    assert knee.codes == [("SNOMEDCT_US", "84757009"), ("MSH", "D012640"), ("ORDO", "124")]
    assert (knee.parents, knee.retired, knee.same_as) == (["TOY:0000002"], ["TOY:0000009"], ["Orphanet:124"])
    assert oddity.names[0].text == "joint oddity"
    # one replacement is used, two are ambiguous
    assert (replaced.concept_id, replaced.retired, replaced.names) == ("TOY:0000001", ["TOY:0000003"], [])


def test_a_bad_line_costs_only_itself() -> None:
    with pytest.warns(UserWarning, match=r"W001.*lines 24\)"):
        _, stats = read_all(DATA / "tiny.obo")
    line = (DATA / "tiny.obo").read_text().splitlines()[stats.bad_lines[0] - 1]
    assert line == r"xref: http://broken.example/a\:b"
    assert stats.malformed == 1


@pytest.mark.filterwarnings("ignore:.*W001")
def test_options() -> None:
    imported, _ = read_all(DATA / "tiny.obo", prefixes=["UBERON"])
    assert [(c.concept_id, c.source, c.codes) for c in imported] == [("UBERON:0001465", "UBERON", [("UBERON", "UBERON:0001465")])]
    knee = read_all(DATA / "tiny.obo", suppressed=True)[0][0]
    assert ("travelling patella", "OB", 9) in [(n.text, n.term_type, n.rank) for n in knee.names]


def test_relations_are_named_as_the_file_names_them(tmp_path: Path) -> None:
    path = tmp_path / "x.obo"
    lines = [
        'relationship: part_of X:2 {source="PMID:1"} ! leg',
        "relationship: BFO:0000051 X:3",
        "relationship: RO:0002200 mesh:D1 ! known without the file",
        "relationship: RO:9999999 X:4 ! nothing says what that is",
        "relationship: X:hasAgeOfOnset X:5",
        "relationship: innervated_by X:6",
    ]
    typedefs = "[Typedef]\nid: BFO:0000051\nname: has part\nname: another\n\n[Typedef]\nid: X:hasAgeOfOnset\nname: has_AgeOfOnset\n"
    path.write_text("[Term]\nid: X:1\nname: knee\n" + "\n".join(lines) + f"\n\n{typedefs}", encoding="utf-8")
    (knee,), stats = read_all(path)
    assert knee.relations == [
        ("part_of", "X:2"),
        ("has_part", "X:3"),
        ("has_phenotype", "MESH:D1"),
        ("has_age_of_onset", "X:5"),
        ("innervated_by", "X:6"),
    ]
    assert stats.left_out == {"relations without a name": 1}
    assert (knee.parents, stats.malformed) == ([], 0)


def test_own_prefix_without_a_helpful_header(tmp_path: Path) -> None:
    path = tmp_path / "x.obo"
    path.write_text("format-version: 1.2\nontology: something_else\n\n" + "".join(f"[Term]\nid: {i}\nname: n\n\n" for i in ("BFO:1", "HP:1", "HP:2")))
    assert own_prefix(path) == "HP"
    path.write_text("format-version: 1.2\n\n[Typedef]\nname: x\n")
    with pytest.raises(SapbertError) as error:
        own_prefix(path)
    assert error_code(error) == "E402"


def test_too_many_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.obo"
    path.write_text("ontology: hp\n\n" + "".join(f"[Term]\nid: HP:{i}\nname: n\nxref: http://a.b/c\\:d\n\n" for i in range(20)))
    with pytest.raises(SapbertError, match=r"20 of 80 rows.*lines 6, 11, 16, 21, 26") as error:
        read_all(path)
    assert error_code(error) == "E405"
    with pytest.warns(UserWarning, match="W001"):
        assert len(read_all(path, max_bad_share=0.5)[0]) == 20


@pytest.mark.e2e
def test_the_human_phenotype_ontology() -> None:
    path = hp_obo()
    concepts, stats = read_all(path)
    text = path.read_text(encoding="utf-8")
    obsolete = text.count("\nis_obsolete: true")
    terms = by_id([c for c in concepts if c.names])
    assert len(terms) == text.count("\n[Term]") - obsolete
    stanzas = [s for s in text.split("\n[Term]")[1:] if "\nis_obsolete: true" not in s]
    assert sum(len(c.cuis) for c in concepts) == sum(len(set(re.findall(r"\nxref: UMLS:(C\d{7})\b", s))) for s in stanzas) > 12_000
    replaced = [s for s in text.split("\n[Term]") if s.count("\nreplaced_by: ") == 1]
    assert len(replaced) == 355  # another one has two replacements
    assert sum(len(c.retired) for c in concepts) == text.count("\nalt_id: ") + 355
    seizure = terms["HP:0001250"][0]
    assert seizure.names[0].text == "Seizure"
    assert ("HPO", "HP:0001250") in seizure.codes
    assert "C0036572" in seizure.cuis
    assert stats.malformed == 0


@pytest.mark.filterwarnings("ignore:.*W001")
@pytest.mark.parametrize(
    ("name", "source", "terms", "with_cui"),
    [
        ("maxo/maxo.obo.gz", "MAXO", 1903, 1),
        ("uberon/UBERON.2015-04-23.obo.zip", "UBERON", 13_080, 2754),
        ("symp/symp.obo", "SYMP", 895, 175),
        ("semantic_types/sty.obo", "sty", 127, 0),
        ("pharmgkb/pharmgkb.drug.obo.gz", "PHARMGKB", 5134, 1834),
    ],
)
@pytest.mark.data
def test_real_ontologies(name: str, source: str, terms: int, with_cui: int) -> None:
    concepts, stats = read_all(real(f"ontologies/{name}"))
    assert {c.source for c in concepts} == {source}
    assert len({c.concept_id for c in concepts if c.names}) == terms
    assert len({c.concept_id for c in concepts if c.cuis}) == with_cui
    assert stats.malformed == (31 if source == "UBERON" else 0)
