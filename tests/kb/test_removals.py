"""Names that are removed from concepts are not linked any more: by exact match, by similar names, by context, and not found by the matcher."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.build.update import update_linker
from spacy_sapbert.context.base import Choice
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.additions import Additions
from spacy_sapbert.kb.removals import RemovedName, same_name

pytestmark = pytest.mark.usefixtures("one_thread")

INFARCTION, MITRAL, DIABETES, HYPERTENSION, NEW = "C9100003", "C9100005", "C9100007", "C9100009", "C9990001"


def pipeline(linker: Path, **settings: Any) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(linker), "spans_key": "x", **settings})
    return nlp


def marked(nlp: Language, text: str) -> Doc:
    doc = nlp.make_doc(text)
    doc.spans["x"] = [doc[:]]
    return doc


def linked(nlp: Language, *texts: str, batch_size: int = 128) -> list[str]:
    """Return the concept of each text, when the whole text is one mention."""
    return [doc.spans["x"][0].kb_id_ for doc in nlp.pipe([marked(nlp, text) for text in texts], batch_size=batch_size)]


def candidates(nlp: Language, text: str) -> list[tuple[str, float]]:
    doc = nlp(marked(nlp, text))
    found: list[tuple[str, float]] = doc.spans["x"][0]._.kb_ents
    return found


def linker_of(nlp: Language) -> Any:
    return nlp.get_pipe("sapbert_linker")


@pytest.fixture
def nlp(tiny_linker: Path) -> Language:
    return pipeline(tiny_linker)


def test_names_are_compared_without_case_and_plural() -> None:
    assert same_name("Heart  Attacks") == same_name("heart attack") == "heart attack"
    assert same_name("biopsies") == "biopsy"
    assert same_name("stasis") == "stasis"


def test_a_removed_name_is_not_linked_from_the_next_doc_on(nlp: Language) -> None:
    linker = linker_of(nlp)
    assert linked(nlp, "heart attack", "Heart attacks", "infarction of heart muscle") == [INFARCTION] * 3  # these answers are remembered
    linker.remove_alias(INFARCTION, "Heart Attack")
    assert linked(nlp, "infarction of heart muscle") == [INFARCTION]
    for text in ("heart attack", "Heart attacks", "HEART ATTACK"):
        assert INFARCTION not in [concept for concept, _ in candidates(nlp, text)], text
        found = linker.candidate_generator([text], 10)[0]
        assert INFARCTION not in [each.concept_id for each in found]
        assert found  # the other concepts are still found
    assert "heart attack" not in linker.kb.cui_to_entity[INFARCTION].aliases
    assert "heart attack" not in linker.kb.alias_to_cuis
    assert linker.kb.find(["heart attack"]) == {}
    assert linker.kb.names_that_begin("heart att", 5) == []


def test_another_mention_is_not_linked_by_a_removed_name(tiny_linker: Path) -> None:
    nlp = pipeline(tiny_linker, exact_match=False)
    (concept, score), *_ = candidates(nlp, "a sugar sickness")
    assert (concept, score > 0.8) == (DIABETES, True)
    linker_of(nlp).remove_alias(DIABETES, "sugar sickness")
    assert (DIABETES, score) not in candidates(nlp, "a sugar sickness")
    assert all(name.text != "sugar sickness" for row in range(len(linker_of(nlp).kb)) for name in linker_of(nlp).kb.names_of(row))


def test_other_concepts_keep_the_name(nlp: Language) -> None:
    linker = linker_of(nlp)
    first = linked(nlp, "MI")[0]
    assert first in (INFARCTION, MITRAL)
    other = MITRAL if first == INFARCTION else INFARCTION
    linker.remove_alias(first, "MI")
    assert linked(nlp, "MI") == [other]
    doc = nlp(marked(nlp, "MI"))
    assert doc.spans["x"][0]._.kb_explain["ties"] == []
    assert linker.kb.alias_to_cuis["MI"] == {other}
    linker.remove_alias(other, "MI")
    assert linked(nlp, "MI") == [""]
    assert linker.kb.find(["MI"]) == {}


def test_a_stop_name_is_linked_to_nothing(nlp: Language) -> None:
    linker = linker_of(nlp)
    linker.add_stop_names("MI", "no name at all of anything")
    assert linked(nlp, "MI", "mi", "MIs") == [""] * 3
    assert candidates(nlp, "MI") == []
    assert linker.candidate_generator(["MI"], 5) == [[]]
    assert linked(nlp, "myocardial infarction") == [INFARCTION]
    linker.add_alias(DIABETES, "MI")  # what is added later counts, for its concept
    assert linked(nlp, "MI") == [DIABETES]
    assert [concept for concept, _ in candidates(nlp, "MI")] == [DIABETES]
    linker.remove_alias(DIABETES, "MI")
    assert linked(nlp, "MI") == [""]
    linker.remove_stop_names("mi")
    assert linked(nlp, "MI")[0] in (INFARCTION, MITRAL)


def test_add_alias_brings_a_name_back(nlp: Language) -> None:
    linker = linker_of(nlp)
    before = linker.additions
    linker.remove_alias(INFARCTION, "heart attack")
    linker.add_alias(INFARCTION, "heart attack")
    assert linked(nlp, "heart attack", "heart attacks") == [INFARCTION] * 2
    assert linker.additions.removed == before.removed == []


def test_an_added_name_is_removed(nlp: Language) -> None:
    linker = linker_of(nlp)
    linker.add_alias(HYPERTENSION, "the squeeze", "pressure of the seventh floor")
    linker.remove_alias(HYPERTENSION, "The Squeeze")
    assert linked(nlp, "the squeeze", "pressure of the seventh floor") == ["", HYPERTENSION]
    assert [name.text for name in linker.additions.names] == ["pressure of the seventh floor"]
    assert list(linker.additions.vectors) == ["pressure of the seventh floor"]


def test_an_added_concept_goes_with_its_last_name(nlp: Language) -> None:
    linker = linker_of(nlp)
    linker.add_concept(NEW, ["morning grumpiness", "grumpy mornings"], types=["T184"])
    linker.remove_alias(NEW, "morning grumpiness")
    assert (linked(nlp, "grumpy mornings"), linker.kb.cui_to_entity[NEW].canonical_name) == ([NEW], "grumpy mornings")
    linker.remove_alias(NEW, "grumpy morning")
    assert NEW not in linker.kb
    assert not linker.additions
    assert linker.additions.concepts == {}


def test_the_canonical_name_is_removed_but_still_shown(nlp: Language) -> None:
    linker = linker_of(nlp)
    linker.remove_alias("ICD10CM:I10", "hypertension")  # a code names the concept
    assert HYPERTENSION not in [concept for concept, _ in candidates(nlp, "hypertension")]
    assert linked(nlp, "high blood pressure") == [HYPERTENSION]
    assert linker.kb.cui_to_entity[HYPERTENSION].canonical_name == "hypertension"


def test_bad_input_removes_nothing(nlp: Language) -> None:
    linker = linker_of(nlp)
    acts: dict[str, list[Callable[[], None]]] = {
        "E002": [partial(linker.remove_alias, INFARCTION), linker.add_stop_names, linker.remove_stop_names],
        "E024": [partial(linker.remove_alias, INFARCTION, "MI", name) for name in ("", "--", 7)]
        + [partial(act, name) for act in (linker.add_stop_names, linker.remove_stop_names) for name in (" ", 7, None)],
        "E031": [partial(linker.remove_alias, "C0000000", "MI")],
        "E032": [partial(linker.remove_alias, INFARCTION, "MI", "asthma")],
        "E033": [partial(linker.remove_stop_names, "MI")],
    }
    for code, every in acts.items():
        for act in every:
            with pytest.raises(SapbertError) as error:
                act()
            assert error.value.code == code
    assert linker.additions.removed == []
    with pytest.raises(SapbertError, match=r"'asthma' is no name of concept 'C9100003'.*Its names: myocardial infarction"):
        linker.remove_alias(INFARCTION, "asthma")
    with pytest.raises(SapbertError, match=r"`python -m spacy_sapbert lookup NAME --linker-name FOLDER` shows those of a name"):
        linker.remove_alias("C0000000", "MI")
    with pytest.raises(SapbertError, match=r"has: nothing\..*linker\.add_alias\(concept_id, name\) brings back"):
        linker.remove_stop_names("MI")


@pytest.mark.parametrize("settings", [{}, {"types": ["T047"]}, {"vocabularies": ["ICD10CM"]}, {"languages": ["en"]}, {"exact_match": False}])
def test_with_each_filter_and_in_batches_of_any_size(tiny_linker: Path, settings: dict[str, Any]) -> None:
    nlp = pipeline(tiny_linker, k=4, **settings)
    linker = linker_of(nlp)
    texts = ["heart attack", "MI", "asthma", "a heart attack", "MS", "cardiac failure", "PE", "fevers"]
    linker.remove_alias(INFARCTION, "heart attack", "MI", "myocardial infarction")
    linker.add_stop_names("MS")
    expected = [candidates(nlp, text) for text in texts]
    for text, found in zip(texts, expected):
        if text in ("heart attack", "MI"):
            assert INFARCTION not in [concept for concept, _ in found]
    assert expected[4] == []
    for size in (1, 3, 8):
        linker.forget()
        docs = list(nlp.pipe([marked(nlp, text) for text in texts], batch_size=size))
        assert [doc.spans["x"][0]._.kb_ents for doc in docs] == expected, size


def test_mentions_far_from_the_name_keep_their_answers(tiny_linker: Path) -> None:
    plain, less = pipeline(tiny_linker, exact_match=False), pipeline(tiny_linker, exact_match=False)
    linker_of(less).remove_alias(DIABETES, "sugar sickness")
    for text in ("fevers", "high blood pressure of long standing", "common colds"):
        assert candidates(plain, text) == candidates(less, text)


def test_no_context_links_a_removed_name(nlp: Language) -> None:
    linker = linker_of(nlp)
    search = linker.search
    answer = search.find([("MI", None)])[0].answer
    choice = Choice([(INFARCTION, 0.9), (MITRAL, 0.1)], "myocardial infarction", True)
    assert search.decided(answer, choice, None, "MI").candidates[0][0] == INFARCTION
    linker.remove_alias(INFARCTION, "MI")
    search = linker.search
    decided = search.decided(search.find([("MI", None)])[0].answer, choice, None, "MI")
    assert not decided.linked
    assert INFARCTION not in [concept for concept, _ in decided.candidates]


def test_the_matcher_does_not_find_what_is_linked_to_nothing(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    text = "Heart attacks, sugar sickness and an MI."
    ends = [("Heart attacks", INFARCTION), ("sugar sickness", DIABETES)]
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents][:2] == ends
    linker = linker_of(nlp)
    linker.remove_alias(INFARCTION, "heart attack")
    linker.add_stop_names("sugar sickness")
    assert "MI" in [ent.text for ent in nlp(text).ents]
    assert not {"Heart attacks", "sugar sickness"} & {ent.text for ent in nlp(text).ents}
    linker.remove_alias(INFARCTION, "MI")
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents if ent.text == "MI"] == [("MI", MITRAL)]  # another concept has the name
    linker.add_alias(INFARCTION, "heart attack")
    linker.remove_stop_names("sugar sickness")
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents][:2] == ends


def test_the_matcher_finds_a_spelling_that_is_still_a_name(tmp_path: Path) -> None:
    table = tmp_path / "drugs.tsv"
    rows = ["concept_id\tname\tsynonyms", "C9200001\tpressure pill\tbeta-blocker|beta blocker", "C9200002\trash\tred hot-spot rash|red hot spot rash"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    build_linker([read_source(table)], tmp_path / "linker", progress=False)
    for concept, first, second in (("C9200001", "beta-blocker", "beta blocker"), ("C9200002", "red hot-spot rash", "red hot spot rash")):
        for gone, left in ((first, second), (second, first)):
            nlp = spacy.blank("en")
            nlp.add_pipe("concept_matcher")
            nlp.add_pipe("sapbert_linker", config={"linker_name": str(tmp_path / "linker")})
            linker_of(nlp).remove_alias(concept, gone)
            assert [(ent.text, ent.kb_id_) for ent in nlp(f"Has a {left}.").ents] == [(left, concept)]
            linker_of(nlp).remove_alias(concept, left)
            assert [ent.text for ent in nlp(f"Has a {left}, a {gone}.").ents if ent.text in (gone, left)] == []


def test_a_saved_pipeline_keeps_removed_names(tiny_linker: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    linker = linker_of(nlp)
    linker.remove_alias(INFARCTION, "heart attack")
    linker.add_stop_names("fever")
    text = "Heart attack, fever, asthma."
    expected = [(ent.text, ent.kb_id_) for ent in nlp(text).ents]
    assert [found for found, _ in expected][-1] == "asthma"
    assert "fever" not in [found for found, _ in expected]
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert [(ent.text, ent.kb_id_) for ent in again(text).ents] == expected
    assert linker_of(again).additions.removed == [RemovedName(INFARCTION, "heart attack", "en"), RemovedName(None, "fever", "en")]
    stored = json.loads((tmp_path / "sapbert_linker" / "linker" / "additions.json").read_text(encoding="utf-8"))
    assert (stored["format"], stored["removed"]) == (2, [[INFARCTION, "heart attack", "en"], [None, "fever", "en"]])
    other = pipeline(tiny_linker)
    linker_of(other).from_bytes(linker.to_bytes())
    assert linked(other, "fever") == [""]


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_loaded_pipeline_takes_a_removed_name_back(tiny_linker: Path, tmp_path: Path, as_bytes: bool) -> None:
    def made() -> Language:
        nlp = spacy.blank("en")
        nlp.add_pipe("concept_matcher")
        nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
        return nlp

    nlp, text = made(), "Heart attack, fever, asthma."
    expected = [(ent.text, ent.kb_id_) for ent in nlp(text).ents]
    linker_of(nlp).remove_alias(INFARCTION, "heart attack")
    linker_of(nlp).add_stop_names("fever")
    assert {"Heart attack", "fever"} & {ent.text for ent in nlp(text).ents} == set()
    if as_bytes:
        again = made().from_bytes(nlp.to_bytes())
    else:
        nlp.to_disk(tmp_path)
        again = spacy.load(tmp_path)
    assert {"Heart attack", "fever"} & {ent.text for ent in again(text).ents} == set()
    linker_of(again).add_alias(INFARCTION, "heart attack")
    linker_of(again).remove_stop_names("fever")
    assert [(ent.text, ent.kb_id_) for ent in again(text).ents] == expected


def test_a_matcher_that_is_saved_without_its_linker_keeps_removals(tiny_linker: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    linker_of(nlp).add_stop_names("fever")
    assert "fever" not in [ent.text for ent in nlp("Fever, fever, asthma.").ents]
    nlp.remove_pipe("sapbert_linker")
    nlp.to_disk(tmp_path)
    assert [ent.text for ent in spacy.load(tmp_path)("Has fever, asthma.").ents] == ["asthma"]


def test_initialize_forgets_removals_of_a_linker_that_is_gone(tiny_linker: Path) -> None:
    nlp = spacy.blank("en")
    matcher = nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker)})
    linker_of(nlp).add_stop_names("fever")
    assert [ent.text for ent in nlp("Has fever, asthma.").ents] == ["asthma"]
    nlp.remove_pipe("sapbert_linker")
    matcher.initialize()  # type: ignore[attr-defined]
    assert [ent.text for ent in nlp("Has fever, asthma.").ents] == ["fever", "asthma"]


def test_without_removed_names_the_file_has_the_format_of_earlier_versions(nlp: Language, tmp_path: Path) -> None:
    linker = linker_of(nlp)
    linker.add_alias(HYPERTENSION, "the squeeze")
    linker.to_disk(tmp_path)
    stored = json.loads((tmp_path / "linker" / "additions.json").read_text(encoding="utf-8"))
    assert (stored["format"], "removed" in stored) == (1, False)


def answer(nlp: Language, text: str) -> list[str]:
    return linked(nlp, text)


@pytest.mark.e2e
def test_worker_processes_know_them_too(nlp: Language) -> None:
    linker_of(nlp).add_stop_names("fever")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(answer, (nlp, "fever")) == [""]


def test_a_concept_of_another_linker_is_ignored(nlp: Language) -> None:
    linker = linker_of(nlp)
    linker.bundle = linker.bundle.with_additions(Additions(removed=[RemovedName("C0000000", "fever", "en")]))
    assert linked(nlp, "fever") == ["C9100027"]


def test_kb_update_keeps_removed_names(tmp_path: Path) -> None:
    table = tmp_path / "ward.tsv"
    rows = ["concept_id\tname\tsynonyms", "C9200001\theadache\tsore head|tired head", "C9200002\trash\tred skin"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    build_linker([read_source(table)], tmp_path / "old", progress=False)
    nlp = pipeline(tmp_path / "old")
    linker = linker_of(nlp)
    linker.remove_alias("C9200001", "tired head")
    linker.remove_alias("C9200002", "red skin")
    linker.add_stop_names("sore head")
    linker.additions.to_disk(tmp_path / "old")
    removed = [RemovedName("C9200001", "tired head", "en"), RemovedName("C9200002", "red skin", "en"), RemovedName(None, "sore head", "en")]
    assert linker.additions.removed == removed
    table.write_text("\n".join(rows[:2]) + "\n", encoding="utf-8")
    update_linker(tmp_path / "old", [read_source(table)], out=tmp_path / "new", progress=False)
    new = pipeline(tmp_path / "new")
    assert linked(new, "headache", "tired head", "sore head") == ["C9200001", "", ""]
    assert linker_of(new).additions.removed == removed
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")  # a later release has the other concept again
    update_linker(tmp_path / "new", [read_source(table)], out=tmp_path / "newer", progress=False)
    assert linked(pipeline(tmp_path / "newer"), "rash", "red skin") == ["C9200002", ""]
