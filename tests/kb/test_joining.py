"""The rules that join terms into concepts, on a few invented terms."""

from __future__ import annotations

from pathlib import Path

from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.joining import Joins, several_of_one_source
from spacy_sapbert.kb.knowledge_base import KnowledgeBase


def term(term_id: str, source: str, *names: str, cuis: tuple[str, ...] = (), tui: str = "T047", **more: object) -> Concept:
    texts = [Name(name, source, term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, name in enumerate(names)]
    return Concept(term_id, source, names=texts, cuis=list(cuis), types=[tui], **more)  # type: ignore[arg-type]


def built(tmp_path: Path, *concepts: Concept, joins: Joins | None = None) -> tuple[KnowledgeBase, Joins]:
    joins = joins or Joins()
    return build_kb([Source("made up", list(concepts))], tmp_path / "kb", joins=joins), joins


def where(kb: KnowledgeBase, term_id: str) -> str:
    return kb.concept_id(kb.row_of(term_id))


def test_a_term_joins_the_concept_of_its_name(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("MONDO:1", "MONDO", "cardiac tamponade", cuis=("C0000001",)),
        term("HP:1", "HPO", "Cardiac tamponade"),
        term("NCIT:C1", "NCI", "Heart compression", "tamponade of heart"),
    )
    assert (where(kb, "HP:1"), where(kb, "NCIT:C1")) == ("C0000001", "NCIT:C1")
    assert [(d.what, d.term, d.concept, d.name) for d in joins.decisions] == [("joined", "HP:1", "C0000001", "cardiac tamponade")]


def test_an_exact_synonym_joins_but_a_related_one_does_not(tmp_path: Path) -> None:
    loose = Concept("MONDO:2", "MONDO", names=[Name("grippe", "MONDO", term_type="PT", rank=0), Name("ague", "MONDO", term_type="REL", rank=5)])
    loose.types, loose.cuis = ["T047"], ["C0000002"]
    kb, _ = built(
        tmp_path,
        term("MONDO:1", "MONDO", "thrombosis of a deep vein", "deep vein thrombosis", cuis=("C0000001",)),
        loose,
        term("NCIT:C1", "NCI", "Deep Vein Thrombosis"),
        term("NCIT:C2", "NCI", "Ague"),
    )
    assert (where(kb, "NCIT:C1"), where(kb, "NCIT:C2")) == ("C0000001", "NCIT:C2")


def test_what_speaks_against_joining(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("MONDO:1", "MONDO", "cold", cuis=("C0000001",)),
        term("MONDO:2", "MONDO", "tension", cuis=("C0000002",), codes=[("SNOMEDCT_US", "11")]),
        term("MONDO:3", "MONDO", "nail", cuis=("C0000003",)),
        term("UBERON:3", "UBERON", "nail", tui="T023"),  # another kind
        term("HP:2", "HPO", "tension", codes=[("SNOMEDCT_US", "22")]),  # another code of the same vocabulary
        term("MONDO:4", "MONDO", "Cold"),  # the concept has a term of MONDO
        term("DOID:5", "DOID", "flu", cuis=("C0000005",)),
        term("HP:5", "HPO", "flu"),  # shorter than SHORTEST
    )
    assert [where(kb, i) for i in ("UBERON:3", "HP:2", "MONDO:4", "HP:5")] == ["UBERON:3", "HP:2", "MONDO:4", "HP:5"]
    assert not joins.decisions


def test_a_name_of_two_concepts_joins_none(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("MONDO:1", "MONDO", "stroke", cuis=("C0000001",), codes=[("MSH", "D000001")]),
        term("DOID:1", "DOID", "stroke", cuis=("C0000002",), codes=[("MSH", "D000002")]),
        term("HP:1", "HPO", "Stroke"),
    )
    assert where(kb, "HP:1") == "HP:1"


def test_two_cuis_of_one_meaning_are_one_concept_for_a_term_of_that_name(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("HP:1", "HPO", "nausea", cuis=("C0000002",)),
        term("SYMP:1", "SYMP", "nausea", cuis=("C0000001",)),
        term("NCIT:C1", "NCI", "Nausea"),
        term("MESH:D000001", "MSH", "Nausea", codes=[("MSH", "D000001")]),
    )
    assert {where(kb, term_id) for term_id in ("HP:1", "SYMP:1", "NCIT:C1", "MESH:D000001")} == {"C0000001"}
    assert [d.term for d in joins.decisions if d.what == "joined"] == ["NCIT:C1", "MESH:D000001"]


def test_a_name_of_several_concepts_joins_the_one_that_nothing_tells_apart(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("MONDO:1", "MONDO", "atopic dermatitis", "eczema", cuis=("C0000001",), codes=[("MSH", "D1")]),
        term("MONDO:2", "MONDO", "eczematoid dermatitis", "eczema", cuis=("C0000002",)),
        term("MESH:D3", "MSH", "eczema", codes=[("MSH", "D3")]),
    )
    assert where(kb, "MESH:D3") == "C0000002"  # MeSH has another code for the first
    assert [(d.what, d.term, d.concept) for d in joins.decisions if d.term == "MESH:D3"] == [("joined", "MESH:D3", "C0000002")]


def test_two_terms_of_a_source_are_never_one(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("DRUGBANK:1", "DRUGBANK", "ardeparin", cuis=("C0000001",), tui="T121"),
        term("DRUGBANK:2", "DRUGBANK", "heparin", cuis=("C0000001",), tui="T121"),
        term("C0000001", "RXNORM", "Heparin", tui="T121"),
    )
    assert (where(kb, "DRUGBANK:1"), where(kb, "DRUGBANK:2")) == ("DRUGBANK:1", "C0000001")
    assert [(d.what, d.term) for d in joins.decisions] == [("kept apart", "DRUGBANK:1")]
    assert kb.manifest["counts"]["concepts_of_several_terms_of_a_source"] == 0


def test_a_mapping_between_terms_keeps_a_source_apart(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("MONDO:1", "MONDO", "anaemia", cuis=("C0000001",), same_as=["NCIT:C1", "NCIT:C2"]),
        term("NCIT:C1", "NCI", "Anemia of a kind"),
        term("NCIT:C2", "NCI", "Anaemia"),
    )
    assert (where(kb, "NCIT:C1"), where(kb, "NCIT:C2")) == ("NCIT:C1", "C0000001")


def test_the_cui_whose_name_is_the_terms_goes_first(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("HP:1", "HPO", "Seizure", "epilepsy", cuis=("C0014544", "C0036572")),
        term("MONDO:1", "MONDO", "epilepsy", cuis=("C0014544",)),
        term("NCIT:C1", "NCI", "Seizure", cuis=("C0036572",)),
    )
    assert (where(kb, "HP:1"), where(kb, "MONDO:1")) == ("C0036572", "C0014544")


def test_a_lone_mapping_that_names_contradict_gives_way(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("HP:1", "HPO", "Seizure", cuis=("C0014544",)),
        term("MONDO:1", "MONDO", "epilepsy", cuis=("C0014544",)),
        term("NCIT:C1", "NCI", "Seizure", cuis=("C0036572",)),
    )
    assert where(kb, "HP:1") == "C0036572"
    assert [(d.what, d.term, d.concept) for d in joins.decisions] == [("moved", "HP:1", "C0036572")]


def test_two_cuis_of_one_preferred_name_are_one_concept(tmp_path: Path) -> None:
    kb, joins = built(
        tmp_path,
        term("SYMP:1", "SYMP", "insomnia", cuis=("C0029645",), tui="T184"),
        term("MONDO:1", "MONDO", "insomnia", cuis=("C0917801",), codes=[("SNOMEDCT_US", "1")]),
        term("HP:1", "HPO", "Insomnia", cuis=("C0917801",), codes=[("SNOMEDCT_US", "2")]),
        term("UBERON:1", "UBERON", "insomnia", cuis=("C0000009",), tui="T023"),  # another kind
    )
    assert {where(kb, i) for i in ("SYMP:1", "MONDO:1", "HP:1", "C0029645")} == {"C0917801"}  # this CUI has more sources
    assert where(kb, "UBERON:1") == "C0000009"
    assert [(d.what, d.term, d.concept) for d in joins.decisions] == [("twin", "C0917801", "C0029645")]
    assert "C0029645" in kb.codes(kb.row_of("HP:1"))["UMLS"]


def test_what_keeps_two_cuis_apart(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("MONDO:1", "MONDO", "spinal stroke", "stroke", cuis=("C0000001",)),
        term("MONDO:2", "MONDO", "brain stroke", "stroke", cuis=("C0000002",)),  # a synonym
        term("MONDO:3", "MONDO", "fever", cuis=("C0000003",), codes=[("MSH", "D3")]),
        term("HP:3", "HPO", "fever", cuis=("C0000004",), codes=[("MSH", "D4")]),  # another code
        term("C0000005", "RXNORM", "heparin", tui="T121"),
        term("C0000006", "RXNORM", "heparin", tui="T121"),  # the source has both as different concepts
    )
    assert [where(kb, f"C000000{i}") for i in range(1, 7)] == [f"C000000{i}" for i in range(1, 7)]


def test_a_cui_of_a_list_of_names_joins_the_concept_that_bears_the_name(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("HP:1", "HPO", "Benign prostatic hyperplasia", "enlarged prostate", cuis=("C1704272", "C0005001")),
        term("MONDO:1", "MONDO", "benign prostatic hyperplasia", cuis=("C1704272",)),
        Concept(
            "C0005001", "ABBREVIATIONS", names=[Name("enlarged prostate", "ABBREVIATIONS"), Name("BPH", "ABBREVIATIONS", term_type="AB", rank=3)]
        ),
        Concept("C0005003", "ABBREVIATIONS", names=[Name("benign prostatic hyperplasia", "ABBREVIATIONS")]),
    )
    assert where(kb, "C0005001") == where(kb, "C0005003") == "C0005001"  # a CUI below C1000000 is preferred
    assert "BPH" in [name.text for name in kb.concept(kb.row_of("HP:1")).names]


def test_a_term_is_a_code_of_every_cui_that_its_source_lists(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("HP:365", "HPO", "Hearing impairment", cuis=("C0011053", "C1384666")),
        term("MONDO:1", "MONDO", "hearing loss disorder", cuis=("C1384666",)),
    )
    assert [kb.concept_id(row) for row in kb.rows_of("HP:365")] == ["C0011053", "C1384666"]  # the concept that the term belongs to comes first


def test_a_drug_joins_by_a_synonym(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("C0040165", "RXNORM", "Thyroxine", tui="T121"),
        term("DRUGBANK:1", "DRUGBANK", "Levothyroxine", "thyroxine", tui="T121"),
        term("C0000002", "MEDQUAD", "grippe"),
        term("MONDO:2", "MONDO", "influenza", "grippe"),  # it is not a drug
    )
    assert (where(kb, "DRUGBANK:1"), where(kb, "MONDO:2")) == ("C0040165", "MONDO:2")


def test_hidden_mappings_are_not_looked_at(tmp_path: Path) -> None:
    concepts = [term("MONDO:1", "MONDO", "gout", cuis=("C0000001",)), term("HP:1", "HPO", "Podagra", cuis=("C0000001",))]
    assert where(built(tmp_path / "a", *concepts)[0], "HP:1") == "C0000001"
    assert where(built(tmp_path / "b", *concepts, joins=Joins(hidden={"HP:1"}))[0], "HP:1") == "HP:1"


def test_the_list_joins_what_no_rule_joins_and_changes_nothing_else(tmp_path: Path) -> None:
    concepts = [
        term("MONDO:1", "MONDO", "diaper rash", cuis=("C0000001",)),
        term("NCIT:C1", "NCI", "Nappy rash"),
        term("SYMP:1", "SYMP", "nappy rash"),  # joins NCIt's term by its name
        term("MONDO:2", "MONDO", "rash of the buttocks"),
        term("HP:1", "HPO", "Gout", cuis=("C0000002",)),
        term("MESH:D1", "MSH", "itching"),
        term("MESH:D2", "MSH", "Rash from diapers"),
        term("MESH:D3", "MSH", "Rash from nappies"),
    ]
    one = "C0000001"
    listed = {"NCIT:C1": one, "MONDO:2": one, "HP:1": one, "MESH:D1": "C0000003", "MESH:D2": one, "MESH:D3": one, "MESH:D9": one}
    kb, joins = built(tmp_path / "a", *concepts, joins=Joins(listed=listed))
    assert where(kb, "NCIT:C1") == where(kb, "SYMP:1") == where(kb, "MONDO:1") == where(kb, "MESH:D2") == one
    assert where(kb, "MONDO:2") == "MONDO:2"  # the concept has a term of MONDO
    assert where(kb, "HP:1") == "C0000002"  # its source gives it a CUI
    assert where(kb, "MESH:D1") == "MESH:D1"  # no source has the CUI
    assert where(kb, "MESH:D3") == "MESH:D3"  # the first of MeSH's two terms is there
    assert [(d.what, d.term, d.concept) for d in joins.decisions if "the list" in d.reason] == [
        ("joined", "NCIT:C1", one),
        ("kept apart", "MONDO:2", one),
        ("kept apart", "MESH:D1", "C0000003"),
        ("joined", "MESH:D2", one),
        ("kept apart", "MESH:D3", one),
    ]
    without, _ = built(tmp_path / "b", *concepts)
    assert where(without, "NCIT:C1") == where(without, "SYMP:1") == "NCIT:C1"


def test_the_list_takes_the_next_cui_and_follows_twins(tmp_path: Path) -> None:
    concepts = [
        term("MONDO:1", "MONDO", "sleeplessness", cuis=("C0000001",)),
        Concept("C0000002", "RXNORM", names=[Name("sleeplessness", "RXNORM", term_type="PT", rank=0)], types=["T047"]),  # a twin of the first
        term("NCIT:C1", "NCI", "Cannot sleep"),
        term("MESH:D1", "MSH", "cannot sleep"),  # one concept with NCIt's
        term("MESH:D2", "MSH", "cough", cuis=("C0000003",)),
    ]
    kb, _ = built(tmp_path, *concepts, joins=Joins(listed={"NCIT:C1": "C0000003", "MESH:D1": "C0000002"}))
    assert where(kb, "C0000002") == where(kb, "MONDO:1") == "C0000001"
    assert where(kb, "NCIT:C1") == where(kb, "MESH:D1") == "C0000001"  # C0000003 has a term of MeSH
    assert where(kb, "MESH:D2") == "C0000003"


def test_without_the_rules_all_is_as_mapped(tmp_path: Path) -> None:
    concepts = [term("HP:1", "HPO", "one", cuis=("C0000001",)), term("HP:2", "HPO", "other", cuis=("C0000001",))]
    kb = build_kb([Source("made up", concepts)], tmp_path / "kb")
    assert where(kb, "HP:1") == where(kb, "HP:2") == "C0000001"
    assert kb.manifest["counts"]["concepts_of_several_terms_of_a_source"] == 1


def test_several_of_one_source() -> None:
    keys = [("HP:1", "C1"), ("HP:2", "C1"), ("MONDO:1", "C1"), ("HP:3", "C2"), ("HP:4", "C2")]
    assert several_of_one_source(keys, {"HP:1", "HP:2", "MONDO:1", "HP:3"}) == {"C1": ["HP:1", "HP:2"]}


def test_a_disease_is_no_finding_because_hpo_has_it(tmp_path: Path) -> None:
    def plain(term_id: str, source: str, name: str) -> Concept:
        return Concept(term_id, source, names=[Name(name, source, term_type="PT", rank=0)], cuis=["C0018099"])

    both = build_kb([Source("made up", [plain("HP:1", "HPO", "Gout"), plain("MONDO:1", "MONDO", "gout")])], tmp_path / "both")
    assert both.concept(0).types == ["T047"]
    alone = build_kb([Source("made up", [plain("HP:1", "HPO", "Gout")])], tmp_path / "alone")
    assert alone.concept(0).types == ["T033"]


def test_the_preferred_name_joins_before_a_synonym(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("HP:1", "HPO", "Fever", "Hyperthermia", cuis=("C0000001",)),
        term("MESH:D1", "MSH", "Hyperthermia"),
        term("MESH:D2", "MSH", "Fever"),
    )
    assert (where(kb, "MESH:D1"), where(kb, "MESH:D2")) == ("MESH:D1", "C0000001")


def test_a_mapping_between_terms_without_a_common_word_gives_way(tmp_path: Path) -> None:
    terms = (
        term("HP:1", "HPO", "Seizure", cuis=("C0000001",)),
        term("MONDO:1", "MONDO", "visual epilepsy", cuis=("C0000002",), same_as=["MESH:D1"]),
        term("MONDO:2", "MONDO", "psychiatric illness", cuis=("C0000003",), same_as=["MESH:D2"]),
        term("MESH:D1", "MSH", "seizure"),
        term("MESH:D2", "MSH", "mental disorder"),
    )
    kb, joins = built(tmp_path, *terms)
    assert (where(kb, "MESH:D1"), where(kb, "MESH:D2")) == ("C0000001", "C0000003")
    assert [(d.what, d.term, d.name) for d in joins.decisions] == [("kept apart", "MESH:D1", "seizure"), ("joined", "MESH:D1", "seizure")]
    epilepsy = term("MONDO:1", "MONDO", "visual epilepsy", "epileptic seizure", cuis=("C0000002",), same_as=["MESH:D1"])
    (tmp_path / "again").mkdir()
    kb, _ = built(tmp_path / "again", terms[0], epilepsy, *terms[2:])
    assert where(kb, "MESH:D1") == "C0000002"  # they share a word


def test_a_name_that_a_cui_blocks_joins_the_same_preferred_name_without_one(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("UBERON:1", "UBERON", "upper limb", "arm", cuis=("C0000001",), tui="T023", codes=[("SNOMEDCT_US", "2")]),
        term("UBERON:2", "UBERON", "arm", tui="T023"),
        term("NCIT:C1", "NCI", "Arm", tui="T023", codes=[("SNOMEDCT_US", "1")]),
        term("MESH:D1", "MSH", "Arm", tui="T023"),
        term("HP:1", "HPO", "flu"),
        term("MONDO:1", "MONDO", "flu"),  # too short, and not a part of the body
    )
    assert [where(kb, each) for each in ("UBERON:2", "NCIT:C1", "MESH:D1")] == ["UBERON:2", "UBERON:2", "C0000001"]
    assert [where(kb, each) for each in ("HP:1", "MONDO:1")] == ["HP:1", "MONDO:1"]


def test_tree_numbers_of_mesh_tell_nothing_apart(tmp_path: Path) -> None:
    kb, _ = built(
        tmp_path,
        term("UBERON:1", "UBERON", "arm", tui="T023", cuis=("C0000001",), codes=[("MSH", "A01.378.800")]),
        term("UBERON:2", "UBERON", "nail", tui="T023", cuis=("C0000002",), codes=[("MSH", "D000009")]),
        term("MESH:D1", "MSH", "Arm", tui="T023", codes=[("MSH", "D1")]),
        term("MESH:D2", "MSH", "Nail", tui="T023", codes=[("MSH", "D2")]),
    )
    assert (where(kb, "MESH:D1"), where(kb, "MESH:D2")) == ("C0000001", "MESH:D2")
