"""The open vocabulary: its sources, senses, counts, and the table in the package."""

from __future__ import annotations

import csv
import lzma
import re
from pathlib import Path

import pytest

from spacy_sapbert.build.default_linkers import OPEN_TABLE
from spacy_sapbert.kb import semantic_types
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, is_cui, normalise
from spacy_sapbert.readers import ReadStats, read
from training.corpora.mention import GoldMention
from training.vocabulary import coverage, held_out, make, mappings, sources
from training.vocabulary.senses import Sense, joined, read_senses

ABBREVIATIONS = OPEN_TABLE.with_name("abbreviations.tsv")


def test_senses_are_read_as_they_are_written_most_often(tmp_path: Path) -> None:
    file = tmp_path / "vanderbilt_clinic_notes.txt"
    file.write_text("abbreviation\tsense\tvariation\tCUI\tfrequency\ncp\tchest pain\tCP_15|cp_1\tc0008031\t0.6194\na_p\tassessment\tA/P_2\tnull\t1\n")
    assert list(read_senses([file])) == [
        Sense("CP", "chest pain", "C0008031", 0.6194, "vanderbilt_clinic_notes"),
        Sense("A/P", "assessment", "", 1.0, "vanderbilt_clinic_notes"),
    ]


def test_senses_of_several_sources_are_joined() -> None:
    rows = [
        Sense("CP", "chest pain", "C0008031", 0.6, "one"),
        Sense("cp", "chest pains", "C0008031", 0.2, "two"),
        Sense("cp", "cerebral palsy", "C0007789", 0.8, "two"),
        Sense("RA", "room air", "C2709070", 1.0, "one"),
        Sense("CABG", "coronary bypass graft", "C0000001", 1.0, "one"),
        Sense("cabg", "coronary bypass grafting", "", 1.0, "three"),
    ]
    found = {(row.abbreviation, row.cui): row.frequency for row in joined(rows, {"C0008031": "C0008031", "C2709070": "C9999999"})}
    assert found == {("CABG", "C0000001"): 1.0, ("CP", "C0008031"): 0.4, ("cp", "C0007789"): 0.4, ("RA", "C9999999"): 1.0}


def test_rxnorm_without_clinical_drugs(tmp_path: Path) -> None:
    file = tmp_path / "rxnorm.csv"
    kind = "http://purl.bioontology.org/ontology/STY/"
    file.write_text(
        "Class ID,Preferred Label,Synonyms,Definitions,Obsolete,CUI,Semantic Types,Parents\n"
        f"x/RXNORM/1,TURPENTINE,,,false,C0000001,{kind}T109|{kind}T121,\n"
        f"x/RXNORM/2,Fentanyl 0.3 MG Buccal Tablet,,,false,C0000002,{kind}T200,\n"
        f"x/RXNORM/3,a / b / c / d,,,false,C0000003,{kind}T121,\n"
        f"x/RXNORM/4,Aspirin,ASA|aspirin,,false,C0000004,{kind}T109,\n"
        f"x/RXNORM/5,Acetaminophen / Hydrocodone,,,false,C0000005,{kind}T121,\n"
        f"x/RXNORM/6,Hydrochlorothiazide / Losartan,,,false,C0000006,{kind}T121,\n"
    )
    found = [(c.concept_id, [n.text for n in c.names], c.types) for c in sources.read_rxnorm([file])]
    short = ["Losartan HCT", "Losartan HCTZ", "Losartan-HCT", "Losartan-HCTZ", "Losartan/HCT", "Losartan/HCTZ"]
    assert found == [
        ("C0000001", ["turpentine"], ["T109", "T121"]),
        ("C0000004", ["Aspirin", "ASA", "aspirin"], ["T109"]),
        ("C0000005", ["Acetaminophen / Hydrocodone", "Hydrocodone / Acetaminophen"], ["T121"]),
        ("C0000006", ["Hydrochlorothiazide / Losartan", "Losartan / Hydrochlorothiazide", *short], ["T121"]),
    ]


def test_medquad_without_what_a_program_took_for_the_subject(tmp_path: Path) -> None:
    file = tmp_path / "medquad.tsv"
    rows = (
        "ADAM\tHeart failure - discharge\tC0018801\t\tDisorders\tT047\t",
        "ADAM\tSickle-cell disease\tC0002895\t\tDisorders\tT047\t",
        "GARD\tRetroperitoneal inflammation\tC0021368\t\tDisorders\tT046\t",
        "GARD\tMondini dysplasia\tC0334044\t\tDisorders\tT019\t",
        "MPlusHealthTopics\tEnlarged Prostate (BPH)\tC0005001\t\tDisorders\tT046\tbig prostate",
    )
    file.write_text("source\tfocus\tcuis\tcategory\tsemgroup\tsemtypes\tsynonyms\n" + "\n".join(rows) + "\n")
    found = list(sources.read_medquad([file]))
    assert [(c.concept_id, c.names[0].text) for c in found] == [
        ("C0002895", "Sickle-cell disease"),
        ("C0334044", "Mondini dysplasia"),
        ("C0005001", "Enlarged Prostate"),
    ]
    others = [Concept("HP:1", "HPO", [Name("Dysplasia", "HPO")], ["C0334044"])]
    kept = sources.without_partial([Source("others", others, "obo"), Source("m", found, "medquad")])
    assert [c.concept_id for c in kept[1].concepts] == ["C0002895", "C0005001"]
    assert list(kept[0].concepts) == others


def test_a_cui_of_several_subjects_is_that_of_their_common_word() -> None:
    found = [Concept("C0000001", "MEDQUAD", [Name(text, "MEDQUAD")]) for text in ("Odd dysplasia", "Other dysplasia")]
    found += [Concept("C0000002", "MEDQUAD", [Name(text, "MEDQUAD")]) for text in ("flu", "influenza")]
    kept = sources.without_partial([Source("m", found, "medquad")])
    assert [c.names[0].text for c in kept[0].concepts] == ["flu", "influenza"]


def test_the_name_that_more_sources_give_wins_a_tie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "ORIGINS", ())

    def named(term: str, cui: str, *names: str) -> Concept:
        source = term.partition(":")[0]
        return Concept(
            term, source, [Name(text, source, term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, text in enumerate(names)], [cui], ["T047"]
        )

    concepts = [
        named("DOID:1", "C0000001", "first disease", "cold"),
        named("MONDO:2", "C0000002", "second disease", "cold"),
        named("HP:2", "C0000002", "second finding", "Cold"),
    ]
    first = build_kb([Source("made up", concepts)], tmp_path / "kb")
    make._write_table(first, tmp_path / "open.tsv.xz", tmp_path)
    kb = build_kb([Source("open", read(tmp_path / "open.tsv.xz", stats=ReadStats()))], tmp_path / "again")
    form = list(kb.surface_forms()).index("cold")
    table = kb.name_table
    assert [kb.concept_id(c) for c in table.concept[table.surface_form == form].tolist()] == ["C0000002", "C0000001"]


def test_a_name_has_its_strongest_term_type_and_ours_comes_before_that_of_uberon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "ORIGINS", ())
    thigh = [Name("hindlimb stylopod", "UBERON", term_type="PT", rank=0), Name("thigh", "UBERON", term_type="REL", rank=2)]
    ours = [Name("thigh", "SAPBERT", term_type="PT", rank=0), Name("thighs", "SAPBERT", rank=1)]
    lung = [Name("lung organ", "NCI", term_type="PT", rank=0), Name("lung", "NCI", term_type="REL", rank=2)]
    concepts = [
        Concept("UBERON:1", "UBERON", thigh, ["C0000001"], ["T029"]),
        Concept("C0000001", "SAPBERT", ours, ["C0000001"], ["T029"]),
        Concept("NCIT:2", "NCI", lung, ["C0000002"], ["T023"]),
        Concept("C0000002", "SAPBERT", [Name("lung", "SAPBERT")], ["C0000002"], ["T023"]),
    ]
    make._write_table(build_kb([Source("made up", concepts)], tmp_path / "kb"), tmp_path / "open.tsv.xz", tmp_path)
    rows = [line.split("\t")[:4] for line in lzma.decompress((tmp_path / "open.tsv.xz").read_bytes()).decode().splitlines() if line.startswith("C0")]
    assert rows == [
        ["C0000001", "thigh", "SAPBERT", "PT"],  # not UBERON's
        ["C0000001", "hindlimb stylopod", "UBERON", "SY"],
        ["C0000001", "thighs", "SAPBERT", "SY"],
        ["C0000002", "lung organ", "NCI", "PT"],  # the preferred name of another source stays
        ["C0000002", "lung", "SAPBERT", "SY"],  # exact, although NCI calls it related
    ]


def _name(text: str, source: str, term_type: str = "PT") -> Name:
    return Name(text, source, term_type=term_type)


def test_the_name_that_most_sources_prefer_comes_first() -> None:
    hpo, mondo, mesh = _name("high growth hormone", "HPO"), _name("acromegaly", "MONDO"), _name("Acromegaly", "MSH")
    assert make._agreed_first([hpo, mondo, mesh]) == [mondo, hpo, mesh]
    assert make._agreed_first([hpo, mondo]) == [hpo, mondo]  # one source each
    assert make._agreed_first([hpo, mondo, _name("acromegaly", "DOID", "SY")]) == [
        hpo,
        mondo,
        _name("acromegaly", "DOID", "SY"),
    ]  # a synonym is not preferred
    agreed = [hpo, _name("High growth hormone", "NCI"), mondo, mesh, _name("acromegaly", "DOID")]
    assert make._agreed_first(agreed) == agreed  # two sources prefer the first
    assert make._agreed_first([hpo, mondo, mesh], {"acromegaly"}) == [hpo, mondo, mesh]  # another concept has this name first
    longer = [_name("ectopia lentis", "HPO"), _name("isolated ectopia lentis", "MONDO"), _name("isolated ectopia lentis", "ORDO")]
    assert make._agreed_first(longer) == longer


def test_a_phrase_of_patients_comes_first_only_without_another_name() -> None:
    lay, other = Name("itchy bum", "PATIENTS", term_type="LAY", rank=2), Name("bum itches", "PATIENTS", term_type="LAY", rank=2)
    mesh, synonym = _name("Pruritus Ani", "MSH"), _name("Anal Itching", "MSH", "SY")
    assert make._plain_first([lay, other, mesh, synonym]) == [mesh, synonym, lay, other]
    assert make._plain_first([lay, other]) == [lay, other]


def test_wrong_mappings_are_left_out() -> None:
    tss = Concept("MONDO:0001881", "MONDO", [_name("toxic shock syndrome", "MONDO")], ["C0600327"], codes=[("MSH", "D012772"), ("DOID", "14115")])
    artery = Concept("UBERON:0004363", "UBERON", [_name("pharyngeal arch artery", "UBERON")], ["C0003489", "C0000001"])
    same = Concept("DOID:14115", "MSH", same_as=["MESH:D012772", "MESH:D000001"])
    tss, artery, same = mappings.without_wrong_mappings(Source("made up", [tss, artery, same])).concepts
    assert (tss.cuis, tss.codes) == (["C0600327"], [("DOID", "14115")])
    assert artery.cuis == ["C0000001"]
    assert same.same_as == ["MESH:D000001"]


def test_our_own_cuis_of_terms_are_well_formed() -> None:
    rows = [line.split("\t") for line in sources.SAME.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == len(sources.listed_cuis()) > 100  # no term twice
    assert all(re.fullmatch(r"[A-Za-z0-9]+:\S+", term) and re.fullmatch(r"C\d{7}", cui) and name for term, cui, name in rows)


def test_our_own_names_have_known_types_and_no_concept_twice() -> None:
    found = list(sources.read_own([sources.HERE / "supplement.tsv"]))
    assert len(found) > 500
    assert {tui for concept in found for tui in concept.types} <= set(semantic_types.load())
    ids = [concept.concept_id for concept in found]
    assert len(ids) == len(set(ids))
    assert all(concept.types and concept.names for concept in found)


def test_our_own_names_for_a_concept_of_another_source_have_no_preferred_one(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("concept_id\ttypes\tnames\nC0009806\tT184\t|constipated|hard stools\nC0013103\tT061\tdrainage|draining\n", encoding="utf-8")
    first, second = sources.read_own([path])
    assert [(name.text, name.term_type, name.rank) for name in first.names] == [("constipated", "SY", 1), ("hard stools", "SY", 1)]
    assert [(name.text, name.term_type) for name in second.names] == [("drainage", "PT"), ("draining", "SY")]


def test_what_patients_say_is_read_as_lay_names(tmp_path: Path) -> None:
    path = tmp_path / "lay.tsv"
    path.write_text("# ours\nconcept_id\tnames\nC0013404\tcan't catch my breath|out of puff\nHP:0001\tsee double\n", encoding="utf-8")
    first, second = sources.read_lay([path])
    assert first.concept_id == "C0013404"
    assert first.types == []
    assert [(n.text, n.source, n.term_type) for n in first.names] == [
        ("can't catch my breath", "PATIENTS", "LAY"),
        ("out of puff", "PATIENTS", "LAY"),
    ]
    assert (second.concept_id, [n.text for n in second.names]) == ("HP:0001", ["see double"])


def test_a_phrase_of_patients_gives_way_to_another_concept_with_that_name(tmp_path: Path) -> None:
    lay = [Name(text, "PATIENTS", term_type="LAY", rank=2) for text in ("see double", "Whoozy", "no puff")]
    concepts = [
        Concept("C0000001", "HPO", [_name("diplopia", "HPO"), *lay], types=["T184"]),
        Concept("C0000002", "HPO", [_name("dizziness", "HPO"), Name("whoozy", "HPO", term_type="SY", rank=1)], types=["T184"]),
        Concept("C0000003", "HPO", [_name("dyspnea", "HPO"), Name("no puff", "PATIENTS", term_type="LAY", rank=2)], types=["T184"]),
    ]
    kb = build_kb([Source("made up", concepts)], tmp_path / "kb")
    borne = make._borne(kb)

    def kept(concept_id: str) -> list[str]:
        row = kb.row_of(concept_id)
        return [name.text for name in kb.concept(row).names if not make._yields(name, row, borne)]

    assert kept("C0000001") == ["diplopia", "see double"]
    assert kept("C0000002") == ["dizziness", "whoozy"]
    assert kept("C0000003") == ["dyspnea"]  # two concepts have the phrase from patients only, so neither keeps it


def test_every_phrase_of_patients_belongs_to_one_concept_and_is_short() -> None:
    found = list(sources.read_lay([sources.HERE / "lay_names.tsv"]))
    phrases = [normalise(name.text) for concept in found for name in concept.names]
    assert len(phrases) > 3000
    assert len(phrases) == len(set(phrases))
    assert all(phrase and len(phrase) <= 60 for phrase in phrases)
    ids = [concept.concept_id for concept in found]
    assert len(ids) == len(set(ids))


def test_the_table_is_read_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "ORIGINS", ())
    concepts = [
        Concept("HP:1", "HPO", [Name("Gout", "HPO", term_type="PT", rank=0)], ["C0018099", "C0000009"], ["T047"], "Painful.", retired=["HP:9"]),
        Concept("DOID:7", "DOID", [Name("odd", "DOID", term_type="PT", rank=0), Name("ODD", "DOID"), Name("queer", "DOID", term_type="REL", rank=5)]),
        Concept("C0000003", "ABBREVIATIONS", [Name("weekly", "ABBREVIATIONS")]),  # without a kind it is left out
    ]
    first = build_kb([Source("made up", concepts)], tmp_path / "kb")
    assert make._write_table(first, tmp_path / "open.tsv.xz", tmp_path)["concepts"] == 2
    second = build_kb([Source("open", read(tmp_path / "open.tsv.xz", stats=ReadStats()))], tmp_path / "again")
    gout = second.concept(second.row_of("C0018099"))
    assert (gout.types, gout.definition, gout.names[0].text) == (["T047"], "Painful.", "Gout")
    assert {second.concept_id(second.row_of(i)) for i in ("HP:1", "HP:9", "C0000009")} == {"C0018099"}
    assert [(n.text, n.term_type) for n in second.concept(second.row_of("DOID:7")).names] == [("odd", "PT"), ("queer", "REL")]


def test_coverage_counts_mentions_and_concepts(tmp_path: Path) -> None:
    kb = build_kb([Source("made up", [Concept("C0000001", "X", [Name("gout", "X")])])], tmp_path / "kb")
    golds = [(("C0000001",),), (("C0000001",),), (("C0000002",),), (("-1",),), (("C0000002",), ("C0000001",))]
    found = coverage.covered([GoldMention("d", 0, 1, "x", gold) for gold in golds], kb)
    assert found == {"mentions": 4, "mentions_covered": 3, "mentions_share": 0.75, "concepts": 3, "concepts_covered": 2, "concepts_share": 2 / 3}
    assert "| A | all | 4 | 3 | 75.0% | 66.7% |" in coverage.table({"open": {"A": {"all": found}}})


def test_held_out_counts_precision_and_recall() -> None:
    cuis = {"HP:1": {"C0000001"}, "HP:2": {"C0000002"}, "DOID:3": {"C0000003"}, "DOID:4": {"C0000004"}}
    found = {"HP:1": "C0000001", "HP:2": "C0000009", "DOID:3": "C0000003", "DOID:4": "DOID:4"}
    counts = held_out.counted(cuis, set(cuis), found, {"HP:1", "HP:2", "DOID:3"}, {"C0000001", "C0000003", "C0000004"})
    assert (counts["HP"]["precision"], counts["DOID"]["precision"], counts["DOID"]["recall"]) == (0.5, 1.0, 0.5)
    assert (counts["all"]["joined"], counts["all"]["right"], counts["all"]["findable"]) == (3, 2, 3)
    assert counts["all"]["wrong"] == ["HP:2 C0000009"]
    assert (counts["HP"]["precision_findable"], counts["all"]["precision_findable"]) == (1.0, 1.0)  # no other source has the CUI of HP:2


def test_what_ships_names_the_licence_of_each_source_and_is_small() -> None:
    assert OPEN_TABLE.stat().st_size <= 12_000_000
    with lzma.open(OPEN_TABLE, "rt", encoding="utf-8") as file:
        head = []
        for line in file:
            if not line.startswith("#"):
                break
            head.append(line)
        named = {line[2:].partition(":")[0] for line in head[1:] if "Licence: " in line}
        used = {row["source"] for row in csv.DictReader(file, fieldnames=line.rstrip("\n").split("\t"), delimiter="\t", quoting=csv.QUOTE_NONE)}
    assert used <= named
    assert not {"PHARMGKB", "SNOMEDCT_US", "UMLS"} & used  # MeSH may be used, because it is free and not taken from UMLS


def test_the_abbreviations_that_ship() -> None:
    lines = [line for line in ABBREVIATIONS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert all(0 <= float(row["frequency"]) <= 1 and (not row["cui"] or is_cui(row["cui"])) for row in rows)
    assert {row["cui"] for row in rows if row["abbreviation"].lower() == "sob"} == {"C0013404"}


def test_names_that_mean_something_else_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "wrong.tsv"
    file.write_text("# a comment\nconcept_id\tname\twhat notes mean by it\nC0000001\tThe  Gland\tthe organ\n")
    assert make.wrong_names(file) == {("C0000001", "the gland")}
    with lzma.open(OPEN_TABLE, "rt", encoding="utf-8") as table:
        rows = [line.rstrip("\n").split("\t") for line in table if not line.startswith("#")]
    named = {(row[0], normalise(row[1])) for row in rows}
    assert ("C0032005", "pituitary") in named  # the gland
    assert not named & make.wrong_names()  # such as ("C0342409", "pituitary"): an inflammation of the gland
