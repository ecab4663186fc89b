"""Names and concepts that are added to a linker are found at once, saved with it, and exported."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from functools import partial
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.errors import DamagedFile, SapbertError
from spacy_sapbert.files import checksum
from spacy_sapbert.kb.builder import Filters, build_kb
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

pytestmark = pytest.mark.usefixtures("one_thread")

DIABETES, HYPERTENSION, NEW = "C9100007", "C9100009", "C9990001"


def pipeline(linker: Path, **settings: Any) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(linker), "spans_key": "x", **settings})
    return nlp


def linked(nlp: Language, *texts: str) -> List[str]:
    """Return the concept of each text, when the whole text is one mention."""
    docs = []
    for text in texts:
        doc = nlp.make_doc(text)
        doc.spans["x"] = [doc[:]]
        docs.append(doc)
    return [doc.spans["x"][0].kb_id_ for doc in nlp.pipe(docs)]


def explained(nlp: Language, text: str) -> Any:
    doc = nlp.make_doc(text)
    doc.spans["x"] = [doc[:]]
    return nlp(doc).spans["x"][0]._


@pytest.fixture
def nlp(tiny_linker: Path) -> Language:
    return pipeline(tiny_linker)


def test_an_alias_is_found_from_the_next_doc_on(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    assert linked(nlp, "the sweet trouble", "zucker") == ["", ""]  # this answer is remembered
    linker.add_alias(HYPERTENSION, "The sweet  trouble", "Zucker")
    assert linked(nlp, "the sweet trouble", "ZUCKER") == [HYPERTENSION, HYPERTENSION]
    found = explained(nlp, "Zucker")
    assert found.kb_ents[0] == (HYPERTENSION, 1.0)
    assert {key: found.kb_explain[key] for key in ("exact", "name", "source", "linked")} == {
        "exact": True, "name": "Zucker", "source": "ADDED", "linked": True,
    }  # fmt: skip
    assert found.kb_codes["UMLS"] == [HYPERTENSION]
    near = explained(nlp, "the sweetest trouble")  # found by its vector
    assert near.kb_ents[0][0] == HYPERTENSION
    assert 0.8 < near.kb_ents[0][1] < 1.0
    assert near.kb_explain["name"] == "The sweet trouble"
    assert "Zucker" in linker.kb.cui_to_entity[HYPERTENSION].aliases
    assert linker.kb.alias_to_cuis["Zucker"] == {HYPERTENSION}
    assert linker.candidate_generator(["zucker"], 3)[0][0].concept_id == HYPERTENSION
    row = linker.kb.row_of(HYPERTENSION)
    assert linker.kb.names_that_begin("ZUCK", 5) == [(row, "Zucker")]
    assert linker.kb.names_that_begin("hypertens", 5) == [(row, "hypertension"), (row, "hypertensive disease")]  # the shortest name first
    assert linker.kb.names_that_begin("hypertens", 1) == [(row, "hypertension")]
    assert linker.kb.names_that_begin(" ", 5) == []


def test_an_alias_without_a_name_is_refused(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    with pytest.raises(SapbertError, match=r"E002.*no name was given for 'C9100009'"):
        linker.add_alias(HYPERTENSION)
    assert linker.additions.names == []


def test_a_code_names_the_concept_that_gets_an_alias(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias("icd10cm:I10", "Zucker")
    assert linked(nlp, "Zucker") == [HYPERTENSION]
    assert linker.additions.names[0].concept_id == HYPERTENSION  # `kb build` reads the name for this concept
    with pytest.raises(
        SapbertError, match=r"\[E022\] No name can be added to concept 'ICD10CM:X99': no concept has the code 'ICD10CM:X99' of ICD10CM"
    ):
        linker.add_alias("ICD10CM:X99", "Zucker")
    with pytest.raises(SapbertError, match=r"\[E025\].*ICD10CM:I10"):
        linker.add_concept("ICD10CM:I10", "Zucker")
    linker.add_concept("TOY:1", "toy ill", codes=[("ICD10CM", "Z99.9"), ("ICD10CM", "I10")])
    kb = linker.kb
    assert [kb.concept_id(row) for code in ("ICD10CM:Z99.9", "icd10cm:I10") for row in kb.rows_of(code)] == ["TOY:1", HYPERTENSION, "TOY:1"]


def test_scores_of_other_mentions_stay(tiny_linker: Path) -> None:
    plain, more = pipeline(tiny_linker, exact_match=False), pipeline(tiny_linker, exact_match=False)
    linker: Any = more.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "an entirely unrelated sequence of words")
    for text in ("fevers", "high blood pressure of long standing", "common colds"):
        assert explained(plain, text).kb_ents == explained(more, text).kb_ents


def test_an_added_name_comes_before_others_of_the_same_words(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    name = linker.kb.cui_to_entity[HYPERTENSION].canonical_name
    assert linked(nlp, name) == [HYPERTENSION]
    linker.add_alias(DIABETES, name)  # an existing name does not get another row
    assert linked(nlp, name) == [DIABETES]
    assert [concept for concept, _ in explained(nlp, name).kb_ents[:2]] == [DIABETES, HYPERTENSION]
    assert explained(nlp, name).kb_explain["ties"] == [DIABETES, HYPERTENSION]
    assert len(linker.kb.added.vectors) == 0


def test_a_new_concept(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    before = len(linker.kb)
    linker.add_concept(NEW, ["Morning grumpiness", "grumpy mornings"], types=["T184"], definition="No speech before coffee.", codes=[("LOCAL", "7")])
    linker.add_alias(NEW, "morning mood")
    assert linked(nlp, "morning grumpiness", "grumpy mornings", "Morning mood") == [NEW] * 3
    assert explained(nlp, "morning mood").kb_codes == {"UMLS": [NEW], "LOCAL": ["7"]}
    entity = linker.kb.cui_to_entity[NEW]
    assert (entity.canonical_name, entity.aliases) == ("Morning grumpiness", ["Morning grumpiness", "grumpy mornings", "morning mood"])
    assert (entity.types, entity.definition) == (["T184"], "No speech before coffee.")
    rows = linker.kb.row_of(NEW), linker.kb.row_of(DIABETES)
    assert linker.kb.types_of_all(rows) == {rows[0]: ["T184"], rows[1]: linker.kb.types_of(rows[1])}
    assert (len(linker.kb), NEW in linker.kb, list(linker.kb.cui_to_entity)[-1]) == (before + 1, True, NEW)


def test_settings_hold_for_what_was_added(tiny_linker: Path) -> None:
    def of(**settings: Any) -> List[str]:
        nlp = pipeline(tiny_linker, **settings)
        linker: Any = nlp.get_pipe("sapbert_linker")
        linker.add_concept(NEW, "morning grumpiness", types=["T184"])
        linker.add_alias(HYPERTENSION, "the sweet trouble")
        return linked(nlp, "morning grumpiness", "the sweet trouble")

    assert of() == [NEW, HYPERTENSION]
    assert of(types=["T184"]) == [NEW, ""]
    assert of(types=["T047"]) == ["", HYPERTENSION]
    assert of(vocabularies=["TOY"]) == ["", ""]
    assert of(languages=["en"]) == [NEW, HYPERTENSION]
    assert of(filter_for_definitions=True) == [NEW, HYPERTENSION]  # an exact match is above no_definition_threshold


def test_the_matcher_finds_added_names(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    text = "Fever and the sweet trouble, with morning grumpiness."
    assert [ent.text for ent in nlp(text).ents] == ["Fever"]
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "sweet trouble")
    linker.add_concept(NEW, "Morning grumpiness", types=["T184"])
    assert [(ent.text, ent.kb_id_, ent.label_) for ent in nlp(text).ents][1:] == [
        ("sweet trouble", HYPERTENSION, "DISO"),
        ("morning grumpiness", NEW, "DISO"),
    ]


def test_the_matcher_with_a_linker_name_of_its_own_finds_saved_ones_in_the_first_doc(tiny_linker: Path, tmp_path: Path) -> None:
    made: Any = pipeline(tiny_linker).get_pipe("sapbert_linker")
    made.add_concept(NEW, "Morning grumpiness", types=["T184"])
    made.to_disk(tmp_path)
    nlp = spacy.blank("en")
    for name in ("concept_matcher", "sapbert_linker"):
        nlp.add_pipe(name, config={"linker_name": str(tmp_path / "linker")})
    assert [ent.kb_id_ for ent in nlp("A morning grumpiness.").ents] == [NEW]


def test_the_matcher_follows_each_linker_of_its_pipeline(tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    one: Any = nlp.add_pipe("sapbert_linker", "one", config={"linker_name": str(tiny_linker)})
    other: Any = nlp.add_pipe("sapbert_linker", "other", config={"linker_name": str(tiny_linker), "attr_name": "others"})
    one.add_alias(HYPERTENSION, "sweet trouble")
    text = "The sweet trouble and honey trouble."
    assert [ent.text for ent in nlp(text).ents] == ["sweet trouble"]
    other.add_alias(DIABETES, "honey trouble")
    assert [ent.text for ent in nlp(text).ents] == ["sweet trouble", "honey trouble"]
    read: list[int] = []
    monkeypatch.setattr("spacy_sapbert.matcher.linkers.added_names", lambda *_: read.append(1) or iter([]))
    nlp(text)
    assert read == []  # nothing has changed, so nothing is read again
    monkeypatch.undo()
    one.set_folder(tiny_linker)  # a folder without additions
    assert [ent.text for ent in nlp(text).ents] == ["honey trouble"]


def test_saved_with_the_linker_and_read_again(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    linker.add_concept(NEW, "morning grumpiness", types=["T184"])
    texts = ["the sweet trouble", "the sweet troubles", "morning grumpiness of old"]
    expected = [explained(nlp, text).kb_ents for text in texts]
    assert expected[1][0][0] == HYPERTENSION
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert [explained(again, text).kb_ents for text in texts] == expected
    other = pipeline(linker.folder)
    other.get_pipe("sapbert_linker").from_bytes(linker.to_bytes())  # type: ignore[attr-defined]
    assert [explained(other, text).kb_ents for text in texts] == expected
    assert not (linker.folder / "additions.json").exists()  # the folder of the linker is shared, so it is not changed
    more: Any = again.get_pipe("sapbert_linker")
    more.add_alias(NEW, "mood at seven")
    again.to_disk(tmp_path / "pipeline")  # into the folder that it was loaded from
    assert linked(spacy.load(tmp_path / "pipeline"), "mood at seven", "the sweet trouble") == [NEW, HYPERTENSION]


def answer(nlp: Language, text: str) -> List[str]:
    return linked(nlp, text)


@pytest.mark.e2e
def test_worker_processes_have_them_too(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_concept(NEW, "morning grumpiness")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(answer, (nlp, "morning grumpiness")) == [NEW]


def test_bad_input_adds_nothing(nlp: Language) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    acts = {
        "E022": [lambda: linker.add_alias("C0000000", "a name")],
        "E024": [partial(linker.add_alias, HYPERTENSION, "good", name) for name in ("", "  ", "--", "x" * 501, 7)],
        "E025": [lambda: linker.add_concept(HYPERTENSION, "again"), lambda: linker.add_concept(HYPERTENSION, "good")],
        "E104": [lambda: linker.add_concept(NEW, "good", types=["T999"])],
        "E002": [
            lambda: linker.add_concept(NEW, []),
            lambda: linker.add_concept(" ", "good"),
            lambda: linker.add_concept(NEW, "good", definition=float("nan")),
        ],
    }
    for code, every in acts.items():
        for act in every:
            with pytest.raises(SapbertError) as error:
                act()
            assert error.value.code == code
    assert [name.text for name in linker.additions.names] == ["the sweet trouble"]
    assert NEW not in linker.kb
    assert linked(nlp, "the sweet trouble", "good") == [HYPERTENSION, ""]
    linker.add_alias(HYPERTENSION, "the sweet trouble")  # once more
    assert len(linker.additions.names) == 1


@pytest.mark.parametrize("damage", ["json", "format", "concept"])
def test_damaged_files(nlp: Language, tmp_path: Path, damage: str) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    linker.to_disk(tmp_path)
    file = tmp_path / "linker" / "additions.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    if damage == "json":
        file.write_text(file.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    elif damage == "format":
        file.write_text(json.dumps({**content, "format": 3}), encoding="utf-8")
    else:
        file.write_text(json.dumps({**content, "names": [["C0000000", "x", "en"]], "strings": []}), encoding="utf-8")
    with pytest.raises(SapbertError) as error:
        linked(pipeline(tmp_path / "linker"), "x")
    assert error.value.code == ("E022" if damage == "concept" else "E023")
    assert isinstance(error.value, DamagedFile) == (damage != "concept")
    # a linker in use must not get parts of both
    with pytest.raises(SapbertError):
        linker.from_disk(tmp_path)
    assert linked(nlp, "the sweet trouble", "hypertension")[1] == HYPERTENSION


@pytest.mark.parametrize("damage", ["other", "missing"])
def test_vectors_of_a_write_that_was_stopped_are_made_again(nlp: Language, tmp_path: Path, damage: str) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    linker.to_disk(tmp_path)
    vectors = tmp_path / "linker" / "additions.npy"
    if damage == "other":
        np.save(vectors, np.zeros((7, 384), dtype=np.float32))
    else:
        vectors.unlink()
    assert linked(pipeline(tmp_path / "linker"), "the sweet trouble", "the sweet troubles") == [HYPERTENSION] * 2


def test_a_definition_counts_for_an_added_name_too(tiny_linker: Path) -> None:
    plain = pipeline(tiny_linker)
    kb: Any = plain.get_pipe("sapbert_linker").kb  # type: ignore[attr-defined]
    assert kb.cui_to_entity[DIABETES].definition
    assert not kb.cui_to_entity[HYPERTENSION].definition
    nlp = pipeline(tiny_linker, filter_for_definitions=True, no_definition_threshold=0.99)
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(DIABETES, "the honey trouble")
    linker.add_alias(HYPERTENSION, "pressure of the seventh floor")
    linker.add_concept(NEW, "morning grumpiness of nurses", definition="Before coffee.")
    near = ["that honey trouble", "pressure on the seventh floor", "morning grumpiness of a nurse"]  # found by their vectors, with scores over 0.8
    assert linked(nlp, *near) == [DIABETES, "", NEW]


def test_halves_of_surrogate_pairs_are_left_out(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet\ud83d trouble")
    linker.to_disk(tmp_path)
    assert linked(pipeline(tmp_path / "linker"), "the sweet trouble") == [HYPERTENSION]


def test_in_a_pipeline_of_many_languages_names_are_english(tiny_linker: Path) -> None:
    nlp = spacy.blank("xx")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "spans_key": "x", "languages": ["en"]})
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    assert linked(nlp, "the sweet trouble") == [HYPERTENSION]


def test_of_another_encoder_vectors_are_made_again(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    vector = linker.additions.vectors["the sweet trouble"]
    linker.to_disk(tmp_path)
    file = tmp_path / "linker" / "additions.json"
    np.save(tmp_path / "linker" / "additions.npy", np.zeros((1, 384), dtype=np.float32))
    content = {**json.loads(file.read_text(encoding="utf-8")), "encoder": "another", "vectors": checksum(tmp_path / "linker" / "additions.npy")}
    file.write_text(json.dumps(content), encoding="utf-8")
    again = pipeline(tmp_path / "linker")
    assert linked(again, "the sweet troubles") == [HYPERTENSION]
    made: Any = again.get_pipe("sapbert_linker")
    assert made.additions.vectors["the sweet trouble"] @ vector > 0.999


def test_exported_as_a_source_that_gives_training_its_pairs(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    linker.add_concept(NEW, ["Morning grumpiness", "grumpy | mornings"], types=["T184"], definition="Before coffee.", codes=[("LOCAL", "7")])
    assert linker.export_additions(tmp_path / "added.tsv") == 2
    kb = build_kb([read_source(tmp_path / "added.tsv")], tmp_path / "kb")
    names = {c.concept_id: [(n.text, n.term_type) for n in c.names] for c in kb.concepts()}
    assert names[NEW] == [("Morning grumpiness", "SY"), ("grumpy | mornings", "SY")]
    old = [(name.text, name.term_type) for name in KnowledgeBase(linker.folder / "kb").names_of(linker.kb.row_of(HYPERTENSION))]
    assert set(names[HYPERTENSION]) == {*old, ("the sweet trouble", "SY")}
    assert (kb.cui_to_entity[NEW].types, kb.cui_to_entity[NEW].definition) == (["T184"], "Before coffee.")
    assert kb.codes(kb.row_of(NEW)) == {"UMLS": [NEW], "LOCAL": ["7"]}


def test_an_exported_name_keeps_its_language(tiny_linker: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("de")
    linker: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    linker.add_concept(NEW, "Morgenmuffel")
    linker.export_additions(tmp_path / "added.tsv")
    kb = build_kb([read_source(tmp_path / "added.tsv")], tmp_path / "kb", filters=Filters(["de"]))
    assert [(name.text, name.language) for name in kb.names_of(kb.row_of(NEW))] == [("Morgenmuffel", "de")]


def test_nothing_added_writes_no_file(nlp: Language, tmp_path: Path) -> None:
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.to_disk(tmp_path)
    assert not list((tmp_path / "linker").glob("additions*"))
    linker.add_alias(HYPERTENSION, "x1")
    linker.to_disk(tmp_path)
    assert len(list((tmp_path / "linker").glob("additions*"))) == 2
    fresh: Any = pipeline(linker.folder).get_pipe("sapbert_linker")
    fresh.to_disk(tmp_path)  # into the other's folder, whose additions must not stay
    assert not list((tmp_path / "linker").glob("additions*"))
    shutil.rmtree(tmp_path / "linker")


def test_a_doc_is_not_needed(nlp: Language) -> None:
    """Names can be added before the linker has processed a Doc."""
    linker: Any = nlp.get_pipe("sapbert_linker")
    linker.add_alias(HYPERTENSION, "the sweet trouble")
    doc = Doc(nlp.vocab, words=["the", "sweet", "trouble"])
    doc.spans["x"] = [doc[:]]
    assert nlp(doc).spans["x"][0].kb_id_ == HYPERTENSION
