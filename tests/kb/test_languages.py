"""A knowledge base in several languages: how translations are joined, and how a linker in a pipeline of another language uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest
import spacy
from fake_names import Names
from readers.helpers import RELEASE, atom, write_release
from spacy.language import Language
from spacy.tokens import Doc
from typer.testing import CliRunner

from spacy_sapbert.build import linker as building
from spacy_sapbert.cli import app
from spacy_sapbert.doc.abbreviations import definitions
from spacy_sapbert.doc.spans import get_mention, long_forms
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase, MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher

DATA = Path(__file__).parents[1] / "data"


def named(concept_id: str, **names: str) -> Concept:
    """Return a concept with names by language; names of one language are separated by `|`."""
    made = [Name(text, "T", language, rank=i) for language, texts in names.items() for i, text in enumerate(texts.split("|"))]
    return Concept(concept_id, "T", names=made)


CONCEPTS = [
    named("T:1", en="Ataxia|Incoordination", es="Ataxia", it="Atassia"),
    named("T:2", en="Short stature", tr="KISA boy|İki", es="Talla baja"),
    named("T:3", es="Tos rara"),
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb([Source("test", CONCEPTS)], tmp_path_factory.mktemp("languages") / "kb", filters=Filters(languages=()))


# -- the knowledge base -----------------------------------------------------------------------------------------------------


def test_translations_join_what_is_there(tmp_path: Path) -> None:
    sources = [building.read_source(DATA / name) for name in ("tiny.obo", "tiny_babelon.tsv")]
    with pytest.warns(UserWarning, match="W001"):
        kb = build_kb(sources, tmp_path / "kb", filters=Filters(languages=("en", "de")))
    knee = kb.concept(kb.row_of("TOY:0000001"))
    assert knee.names[0].text == "wandering knee"
    german = [(name.text, name.language, name.term_type) for name in knee.names if name.language == "de"]
    assert sorted(german) == [
        ("Knieleiden", "de", "BRD"),
        ("Streunendes Knie", "de", "PT"),  # a name of TOY:0000003, which was replaced by TOY:0000001
        ("Wanderknie", "de", "PT"),
        ("bewegliches Knie", "de", "SY"),
        ("loses Knie", "de", "SY"),
    ]
    assert kb.manifest["sources"][1]["left_out"] == {"definitions": 1, "not translated": 1, "without a text": 1, "predicate rdfs:comment": 1}
    assert kb.manifest["counts"]["names_left_out"]["unknown_concept"] == 0
    assert kb.languages == {"en": 9, "de": 6}


def test_translations_that_are_given_first_name_no_concept(tmp_path: Path) -> None:
    sources = [building.read_source(DATA / name) for name in ("tiny_babelon.tsv", "tiny.obo")]
    with pytest.warns(UserWarning, match="W001"):
        kb = build_kb(sources, tmp_path / "kb", filters=Filters(languages=("en", "de")))
    assert kb.concept(kb.row_of("TOY:0000001")).names[0].text == "wandering knee"


def test_regions_of_a_language_are_one(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("concept_id\tname\tlanguage\nX:1\tresfriado\tpt-BR\nX:1\tcold\ten\n", encoding="utf-8")
    kb = build_kb([building.read_source(tmp_path / "x.tsv")], tmp_path / "kb", filters=Filters(languages=("en", "pt")))
    assert kb.languages == {"en": 1, "pt": 1}


def test_a_translation_of_what_no_source_names_is_left_out_and_named(tmp_path: Path) -> None:
    english = Source("english", [named("T:1", en="Ataxia"), Concept("T:8", "T", same_as=["U:8"]), named("T:8", en="Cough")])
    foreign = Source("foreign", [named("T:1", de="Ataxie"), named("T:7", de="Husten|Reizhusten"), named("U:8", de="Husten")], only_adds=True)
    with pytest.warns(UserWarning, match=r"W006\] 2 translations are left out, .* 1 ids \(T:7\)"):
        kb = build_kb([english, foreign], tmp_path / "kb", filters=Filters(languages=("en", "de")))
    assert len(kb) == 2
    assert {name.text for name in kb.concept(kb.row_of("T:8")).names} == {"Cough", "Husten"}  # mapped to it
    assert kb.manifest["counts"]["names_left_out"]["unknown_concept"] == 2
    with pytest.warns(UserWarning, match="W006"), pytest.raises(SapbertError) as error:
        build_kb([Source("foreign", [named("T:1", de="Ataxie")], only_adds=True)], tmp_path / "none", filters=Filters(languages=("de",)))
    assert error.value.code == "E103"


def test_a_name_written_alike_is_a_name_in_each_language(kb: KnowledgeBase) -> None:
    assert kb.languages == {"en": 3, "es": 3, "tr": 2, "it": 1}
    names = kb.concept(kb.row_of("T:1")).names
    assert [(name.text, name.language) for name in names] == [("Ataxia", "en"), ("Ataxia", "es"), ("Atassia", "it"), ("Incoordination", "en")]


def test_names_are_normalised_by_their_own_language(kb: KnowledgeBase) -> None:
    assert list(kb.surface_forms()) == ["atassia", "ataxia", "iki", "incoordination", "kısa boy", "short stature", "talla baja", "tos rara"]
    assert list(kb.find(["KISA BOY"], "tr")) == ["KISA BOY"]
    assert kb.find(["KISA BOY"]) == {}
    assert kb.alias_to_cuis["KISA boy"] == kb.alias_to_cuis["İki"] == {"T:2"}


def test_rows_of_languages(kb: KnowledgeBase) -> None:
    strings = list(kb.surface_forms())

    def said(*languages: str) -> List[Any]:
        mask = kb.rows_of_languages(languages)
        return [(strings[s], kb.concept_id(c)) for s, c in zip(kb.name_table.surface_form[mask].tolist(), kb.name_table.concept[mask].tolist())]

    assert said("es") == [("ataxia", "T:1"), ("talla baja", "T:2"), ("tos rara", "T:3")]
    assert said("en") == [("ataxia", "T:1"), ("incoordination", "T:1"), ("short stature", "T:2")]
    assert len(said("en", "es", "it", "tr")) == len(kb.name_table) == 8
    with pytest.raises(SapbertError, match=r"'de' is not in this knowledge base. It has names in: en \(3\), es \(3\), tr \(2\), it \(1\)") as error:
        kb.rows_of_languages(["en", "de"])
    assert error.value.code == "E107"


def test_names_of_umls_keep_their_language(tmp_path: Path) -> None:
    release = {**RELEASE, "MRCONSO": [*RELEASE["MRCONSO"], atom("C9000001", "Mänginõukoha", LAT="XXX", SAB="TOY")]}
    path = str(write_release(tmp_path / "umls", release))

    def built(languages: str) -> Dict[str, int]:
        ran = CliRunner().invoke(app, ["kb", "build", path, "--out", str(tmp_path / languages), "--languages", languages])
        assert ran.exit_code == 0, ran.output
        return KnowledgeBase(tmp_path / languages).languages

    assert built("en") == {"en": 5}
    assert built("en,es") == {"en": 5, "es": 2}
    assert built("all") == {"en": 5, "es": 2, "xxx": 1}  # a language that the reader has no code for is not lost
    wrong = CliRunner().invoke(app, ["kb", "build", path, "--out", str(tmp_path / "x"), "--languages", "en,german"])
    assert (wrong.exit_code, "E002" in wrong.output, "'german'" in wrong.output) == (1, True, True)


# -- rules of English -------------------------------------------------------------------------------------------------------


def matched(language: str, text: str, *names: str) -> List[str]:
    component = ConceptMatcher(spacy.blank(language))
    component.set_kb(Names(MatchableName(name, "T047") for name in names))  # type: ignore[arg-type]
    return [ent.text for ent in component(component.nlp.make_doc(text)).ents]


def test_english_plurals_are_cut_in_english_alone() -> None:
    assert matched("en", "Cleft palates, seizures.", "cleft palate", "seizure") == ["Cleft palates", "seizures"]
    assert matched("xx", "Cleft palates", "cleft palate") == ["Cleft palates"]
    assert matched("es", "El tos rara y las toses", "tos rara", "tos") == ["tos rara"]
    assert matched("es", "Las crisis", "crisi") == []
    assert matched("de", "Cleft palates", "cleft palate") == []


def test_turkish_letters_and_stop_words_of_the_text() -> None:
    assert matched("tr", "KISA BOY, İKİ omur", "kısa boy", "iki omur") == ["KISA BOY", "İKİ omur"]
    assert matched("en", "KISA BOY", "kısa boy") == []
    assert matched("es", "Sin para una tos", "para", "tos") == ["tos"]  # "para" is a stop word of Spanish
    assert matched("fr", "mal de l’oreille", "mal de l'oreille") == ["mal de l’oreille"]


def test_abbreviations_by_letters_in_any_language() -> None:
    spanish = "Tiene enfermedad pulmonar obstructiva crónica (EPOC)."
    assert definitions(spanish, english=False) == {"EPOC": "enfermedad pulmonar obstructiva crónica"}
    plural = "ventricular septal defects (VSDs)"
    assert definitions(plural) == {"VSDs": "ventricular septal defects", "VSD": "ventricular septal defects"}
    assert definitions(plural, english=False) == {"VSDs": "ventricular septal defects"}
    assert definitions("acute of the lung (AL)") == definitions("acute of the lung (AL)", english=False)
    assert definitions("failure of the lung (FTL)", english=False) == {"FTL": "failure of the lung"}


def test_a_mention_is_no_english_plural_elsewhere() -> None:
    doc = spacy.blank("de")("zwei VSDs")
    assert get_mention(doc[1:2], {"VSD": "Ventrikelseptumdefekt"}).text == "Ventrikelseptumdefekt"
    assert get_mention(doc[1:2], {"VSD": "Ventrikelseptumdefekt"}, english=False).text == "VSDs"
    assert long_forms(spacy.blank("de")("Ventrikelseptumdefekte (VSDs)"), english=False).keys() <= {"VSDs"}


# -- the linker -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.build_linker([], tmp_path_factory.mktemp("linker") / "linker", kb=kb.path, index=ExactIndex(), progress=False)


def pipeline(language: str, folder: Path, **settings: Any) -> Language:
    nlp = spacy.blank(language)
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "index": {"@sapbert_indexes": "spacy-sapbert.ExactIndex.v1"}, **settings})
    return nlp


def linked(nlp: Language, text: str) -> Doc:
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(0, len(text), label="X")]
    return nlp.get_pipe("sapbert_linker")(doc)


@pytest.mark.usefixtures("one_thread")
def test_the_pipeline_chooses_the_normalisation(folder: Path) -> None:
    turkish, english = (linked(pipeline(language, folder), "KISA BOY").ents[0] for language in ("tr", "en"))
    assert (turkish.kb_id_, turkish._.kb_explain["exact"]) == ("T:2", True)
    assert english._.kb_explain["exact"] is False


@pytest.mark.usefixtures("one_thread")
def test_a_name_that_is_found_in_plain_lower_case_alone_is_found_in_turkish_too(folder: Path) -> None:
    assert linked(pipeline("tr", folder), "INCOORDINATION").ents[0]._.kb_explain["exact"] is True
    assert linked(pipeline("tr", folder), "LIMB").ents[0]._.kb_explain["exact"] is False


@pytest.mark.usefixtures("one_thread")
def test_links_among_names_of_some_languages(folder: Path) -> None:
    assert linked(pipeline("es", folder), "talla baja").ents[0]._.kb_explain["exact"] is True
    english = linked(pipeline("es", folder, languages=["en"], threshold=-1.0), "talla baja").ents[0]
    assert english._.kb_explain["exact"] is False
    assert {concept for concept, _ in english._.kb_ents} == {"T:1", "T:2"}  # T:3 has no English name
    spanish = pipeline("es", folder, languages=["es"], threshold=-1.0)
    assert linked(spanish, "short stature").ents[0]._.kb_explain["exact"] is False
    assert spanish.get_pipe("sapbert_linker").settings.scores_depend_on()["languages"] == ["es"]  # type: ignore[attr-defined]


def test_a_language_that_is_not_there_is_refused_at_once(folder: Path) -> None:
    with pytest.raises(SapbertError) as error:
        pipeline("en", folder, languages=["de"]).get_pipe("sapbert_linker").load()  # type: ignore[attr-defined]
    assert error.value.code == "E107"
    with pytest.raises(SapbertError, match="languages") as error:
        pipeline("en", folder, languages=[])
    assert error.value.code == "E002"


def test_the_array_of_a_knowledge_base_in_english_has_no_new_lines(tmp_path: Path) -> None:
    english = build_kb([Source("test", CONCEPTS)], tmp_path / "en")
    assert english.languages == {"en": 3}
    assert len(english.name_table) == 3
