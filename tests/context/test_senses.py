"""The meanings of abbreviations: the sense model computed by hand, and the linker with it."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.context.base import Candidates, Choice, Disambiguator
from spacy_sapbert.context.sections import find_sections, section_at
from spacy_sapbert.context.sense_model import COUNTED, MOST, SIGNALS, Context, Meaning, SenseModel, case_of, normal, read_context
from spacy_sapbert.context.senses import DATA, Option, Senses, _concept_of, _in_their_case, _tied_concept_of
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.kb.writing import in_capitals
from spacy_sapbert.linker import SapBertLinker

SHORTHAND = Path(__file__).parents[1] / "data" / "shorthand.tsv"
LEAST = 0.8  # least share of right lines in each half; it is below the measured shares, see the test
CHEST, PALSY = Meaning("cp", "chest pain", ("C9300001",), 0.5, (1, 0, 2), 0), Meaning("cp", "cerebral palsy", ("C9300002",), 0.3, (0, 0, 0), 1)


@pytest.fixture
def model() -> SenseModel:
    """A model with two profiles: chest pain was seen 4 times with "c/o", cerebral palsy 3 times with "spastic"."""
    return SenseModel(
        [CHEST, PALSY, Meaning("ra", "room air", ("C9300003",), 1.0)],
        dict.fromkeys(SIGNALS, 1.0),
        dict.fromkeys(COUNTED, 10.0),
        {"words": ["c/o", "spastic"], "near": [], "values": [], "section": []},
        np.array([0.6, 0.4], dtype=np.float32),
        np.array([0, 1, 2]),
        np.array([0, 1], dtype=np.uint16),
        np.array([4, 3], dtype=np.uint16),
        np.array([[4, 0, 0, 0], [3, 0, 0, 0]], dtype=np.float32),
        np.array([9, 0], dtype=np.float32),
        {"made_of": "by hand"},
    )


def test_evidence_by_hand(model: SenseModel) -> None:
    table = model.evidence([CHEST, PALSY], Context({"words": ["c/o", "unseen"]}, case=2), [False, True])
    chest = [math.log(0.5), math.log(10), math.log((4 + 6) / 14 / 0.6), 0, 0, 0, math.log(2.3 / 3.9 * 3), 0]
    palsy = [math.log(0.3), 0, math.log(6 / 13 / 0.6), 0, 0, 0, 0, 1]
    assert table == pytest.approx(np.array([chest, palsy]), abs=1e-5)
    odds = math.exp(sum(chest) - sum(palsy))
    assert model.probabilities(table).tolist() == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], abs=1e-5)


def test_what_is_sure_is_not_certain(model: SenseModel) -> None:
    only = model.meanings_of("RA")
    assert model.probabilities(model.evidence(only, Context({}))).tolist() == [MOST]


def test_abbreviations_are_compared_without_periods_and_in_the_singular(model: SenseModel) -> None:
    assert [normal(text) for text in ("A.fib", "s_p", "S/P", "DM 2")] == ["afib", "s/p", "s/p", "dm2"]
    assert [meaning.name for meaning in model.meanings_of("CPs")] == ["chest pain", "cerebral palsy"]
    assert model.meanings_of("cps") == []


@pytest.mark.parametrize(("text", "case"), [("ALT", 2), ("alt", 0), ("Alt", 1), ("PEs", 2), ("12", -1), ("DM2", 2)])
def test_case(text: str, case: int) -> None:
    assert case_of(text) == case


def test_context_of_values() -> None:
    text = "VS: SpO2 91% RA, HR 80"
    start = text.index("RA")
    found = read_context(text, start, start + 2, "vitals")
    assert found.features["near"][:4] == ["-1:%", "-2:#", "+1:hr", "+2:#"]
    assert found.features["values"] == ["-1:%", "-2:#", "-3:#", "+2:#"]  # also the 2 of SpO2
    assert found.features["words"] == ["hr", "spo", "vs"]
    assert found.features["section"] == ["vitals"]
    assert found.case == 2


def test_an_abbreviation_alone_has_no_context() -> None:
    assert read_context("CP", 0, 2).features == {"words": [], "near": ["-2-1:", "+1+2:"], "values": ["none"], "section": []}


# -- files --------------------------------------------------------------------------------------------------------------


def test_saved_and_loaded(model: SenseModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = SenseModel.load(tmp_path)
    assert again.meanings == model.meanings
    context = Context({"words": ["c/o", "spastic"]}, case=0)
    assert again.evidence([CHEST, PALSY], context).tolist() == model.evidence([CHEST, PALSY], context).tolist()


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="E045"):
        SenseModel.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("about.json", "{}"),
        ("about.json", "no JSON"),
        ("meanings.tsv", "head\ncp\tchest pain\n"),
        ("meanings.tsv", "head\ncp\tchest pain\tC9300001\t1\t0\t0\t0\t7\n"),  # a profile that does not exist
        ("profiles.safetensors", "no tensors"),
    ],
)
def test_a_damaged_model(model: SenseModel, tmp_path: Path, file: str, content: str) -> None:
    model.save(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(DamagedFile, match="E046"):
        SenseModel.load(tmp_path)


# -- the linker ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(once: Callable[[str, Callable[[Path], object]], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linker of four concepts, two of them named CP; cerebral palsy comes first by its id."""
    table = tmp_path_factory.mktemp("senses") / "names.tsv"
    rows = ["C9300002\tcerebral palsy\tCP", "C9300001\tchest pain\tCP", "C9300004\tchordoma of the pelvis\tCP", "C9300005\tcough\t"]
    table.write_text("concept_id\tname\tsynonyms\n" + "\n".join(rows) + "\n")
    return once("senses/linker", lambda out: build_linker([read_source(table)], out, model=StaticEncoder(), index=ExactIndex(), progress=False))


@pytest.fixture
def with_senses(folder: Path, model: SenseModel, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(folder, tmp_path / "linker")
    (tmp_path / "linker" / "senses").mkdir()
    model.save(tmp_path / "linker" / "senses")
    return tmp_path / "linker"


def sensed_linker(folder: Path, table: str, model: SenseModel) -> SapBertLinker:
    """Build a linker from a table of names with a sense model, in a folder."""
    (folder / "names.tsv").write_text(table, encoding="utf-8")
    build_linker([read_source(folder / "names.tsv")], folder / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    (folder / "linker" / "senses").mkdir()
    model.save(folder / "linker" / "senses")
    return linker_of(folder / "linker", Senses())


def linker_of(folder: Path, disambiguator: Disambiguator | None, **settings: object) -> SapBertLinker:
    return SapBertLinker(StaticEncoder(), ExactIndex(), disambiguator=disambiguator, linker_name=str(folder), **settings)  # type: ignore[arg-type]


def marked(text: str, *mentions: str) -> Doc:
    doc = spacy.blank("en")(text)
    spans = [doc.char_span(text.index(mention), text.index(mention) + len(mention), label="DISO") for mention in mentions]
    doc.ents = [span for span in spans if span is not None]
    return doc


def linked(doc: Doc) -> list[str]:
    return [ent.kb_id_ for ent in doc.ents]


def test_the_context_decides(with_senses: Path) -> None:
    linker = linker_of(with_senses, Senses())
    assert linked(linker(marked("72M c/o CP today", "CP"))) == ["C9300001"]
    (ent,) = linker(marked("spastic spastic CP", "CP")).ents
    assert ent._.kb_explain["meaning"] == "chest pain"  # it is more frequent, and 'spastic' counts once
    assert [concept for concept, _ in ent._.kb_explain["meanings"]] == ["C9300001", "C9300002", "C9300004"]


def test_a_test_is_ten_times_as_probable_before_a_value(model: SenseModel, tmp_path: Path) -> None:
    rows = ["C9300002\tcerebral palsy\tCP\tT059", "C9300001\tchest pain\tCP\tT184"]  # T059: the first is a laboratory procedure, a test
    linker = sensed_linker(tmp_path, "concept_id\tname\tsynonyms\ttypes\n" + "\n".join(rows) + "\n", model)

    def palsy(text: str) -> float:
        (ent,) = linker(marked(text, "CP")).ents
        return float(dict(map(tuple, ent._.kb_explain["meanings"]))["C9300002"])

    before = palsy("CP today")
    assert before < 0.1
    for text in ("CP 41", "CP: 41", "CP is <4.1"):
        assert palsy(text) == pytest.approx(10 * before / (10 * before + 1 - before), abs=2e-3)


def test_a_receptor_is_a_hundred_times_as_probable_before_a_percentage(model: SenseModel, tmp_path: Path) -> None:
    rows = ["C9300002\testrogen receptor\tCP\tT116", "C9300001\tchest pain\tCP\tT184"]
    linker = sensed_linker(tmp_path, "concept_id\tname\tsynonyms\ttypes\n" + "\n".join(rows) + "\n", model)

    def receptor(text: str) -> float:
        (ent,) = linker(marked(text, "CP")).ents
        return float(dict(map(tuple, ent._.kb_explain["meanings"]))["C9300002"])

    before = receptor("CP today")
    assert before < 0.1
    for text in ("CP 95%", "CP: 95 %", "CP >90%", "CP 5-10%", "CP 8/8"):
        assert receptor(text) == pytest.approx(100 * before / (100 * before + 1 - before), abs=2e-3)
    for text in ("CP 95", "CP today 95%", "CP 8/80", "CP 8/8/26"):
        assert receptor(text) < 0.1


def test_in_capitals_what_is_written_so_more_often_is_more_probable() -> None:
    cases = {"count": (2, 0, 0), "tomography": (1, 0, 35), "cardiothoracic": (0, 0, 1)}
    known = [Option(Meaning("ct", name, (), 0.3, each), None) for name, each in cases.items()]
    found = _in_their_case(known, np.array([0.9, 0.06, 0.04]))
    parts = np.array([0.9 * 0.5 * 0.02, 0.06 * 35.5, 0.04 * 1.5])  # the first is never in capitals
    assert found.tolist() == pytest.approx((parts / parts.sum()).tolist())
    rare = [known[0], known[2]]  # one occurrence in capitals is not enough
    assert _in_their_case(rare, np.array([0.9, 0.1])).tolist() == [0.9, 0.1]


@pytest.mark.parametrize(("text", "expected"), [("A CT SCAN OF THE HEAD", True), ("A CT scan of the head", False), ("CT", False)])
def test_capitals_among_capitals_say_nothing(text: str, expected: bool) -> None:
    at = text.index("CT")
    assert in_capitals(text, at, at + 2) is expected


def test_equal_mentions_of_one_batch_differ_by_their_docs(with_senses: Path, model: SenseModel) -> None:
    linker = linker_of(with_senses, Senses())
    one, other = linker.pipe([marked("c/o CP", "CP"), marked("spastic CP, spastic cerebral palsy", "CP")])
    before, after = (ent._.kb_explain["meanings"] for doc in (one, other) for ent in doc.ents)
    assert dict(map(tuple, after))["C9300002"] > dict(map(tuple, before))["C9300002"]


def test_where_nothing_decides_nothing_is_linked(with_senses: Path) -> None:
    sure = linker_of(with_senses, Senses(min_probability=0.99))
    (ent,) = sure(marked("c/o CP", "CP")).ents
    assert (ent.kb_id_, ent._.kb_ents, ent._.kb_explain["linked"]) == ("", [], False)


def test_a_meaning_that_the_knowledge_base_lacks_is_no_link(with_senses: Path) -> None:
    (ent,) = linker_of(with_senses, Senses())(marked("91% RA", "RA")).ents
    assert (ent.kb_id_, ent._.kb_explain["meaning"]) == ("", "room air")


def test_small_letters_that_are_no_word_say_nothing_about_the_meaning(model: SenseModel, tmp_path: Path) -> None:
    meaning = Meaning("mrsa", "methicillin-resistant organism", ("X:1",), 1.0, (0, 0, 344))  # notes have it in capitals alone
    rows = ["X:1\tmethicillin-resistant organism\tMRSA", "X:2\tmethicillin-resistant infection\tMRSA"]
    linker = sensed_linker(tmp_path, "concept_id\tname\tsynonyms\n" + "\n".join(rows) + "\n", replace(model, meanings=[meaning]))
    for text in ("hx of MRSA", "hx of mrsa"):
        assert linked(linker(marked(text, text[-4:]))) == ["X:1"]


def test_what_is_no_abbreviation_is_left_alone(with_senses: Path, folder: Path) -> None:
    text = "a cough and cerebral palsy (CP) and CP"
    docs = [linker_of(with_senses, each)(marked(text, "cough", "cerebral palsy", "(CP)", "and CP")) for each in (Senses(), None)]
    assert linked(docs[0]) == linked(docs[1])


def test_a_linker_without_a_model_is_as_without_a_disambiguator(folder: Path) -> None:
    docs = [linker_of(folder, each)(marked("72M c/o CP, cough", "CP", "cough")) for each in (Senses(), None)]
    assert [ent._.kb_explain for ent in docs[0].ents] == [ent._.kb_explain for ent in docs[1].ents]
    assert linked(docs[0]) == ["C9300001", "C9300005"]


def test_types_and_vocabularies_hold_for_chosen_meanings(with_senses: Path) -> None:
    linker = linker_of(with_senses, Senses(), types=["T047"])  # no concept of the table has a type
    assert linked(linker(marked("c/o CP", "CP"))) == [""]


def test_saved_with_its_model(with_senses: Path, tmp_path: Path) -> None:
    linker = linker_of(with_senses, Senses())
    linker.to_disk(tmp_path / "saved")
    again = linker_of(with_senses, Senses()).from_disk(tmp_path / "saved")
    assert again.bundle.senses == tmp_path / "saved" / "linker" / "senses"
    assert linked(again(marked("c/o CP", "CP"))) == ["C9300001"]
    assert linked(pickle.loads(pickle.dumps(again))(marked("c/o CP", "CP"))) == ["C9300001"]


class Last:
    """A disambiguator of another author: it always chooses the last concept."""

    def choose(self, found: Sequence[Candidates], kb: KnowledgeBase, folder: Path | None) -> list[Choice | None]:
        return [Choice([(each.concepts[-1][0], 0.75)], "the last", True) if len(each.concepts) > 1 else None for each in found]


def test_another_disambiguator(folder: Path) -> None:
    (ent,) = linker_of(folder, Last())(marked("c/o CP", "CP")).ents
    assert (ent.kb_id_, ent._.kb_prob, ent._.kb_explain["meaning"]) == ("C9300004", 0.75, "the last")


def test_something_else_is_refused(folder: Path) -> None:
    with pytest.raises(SapbertError, match="E006"):
        linker_of(folder, "senses")  # type: ignore[arg-type]
    with pytest.raises(SapbertError, match="E002"):
        Senses(min_probability=50)


def test_the_setting_of_a_pipeline() -> None:
    def disambiguator(**config: object) -> object:
        nlp: Language = spacy.blank("en")
        return nlp.add_pipe("sapbert_linker", config=dict(config)).disambiguator  # type: ignore[attr-defined]

    assert isinstance(disambiguator(), Senses)
    assert disambiguator(disambiguator=None) is None
    given = disambiguator(disambiguator={"@misc": "spacy-sapbert.Senses.v1", "model": "clinical", "min_probability": 0.7})
    assert isinstance(given, Senses)
    assert (given.model, given.min_probability) == ("clinical", 0.7)


# -- the model of the package -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> SenseModel:
    return SenseModel.load(DATA)


def test_it_is_small(shipped: SenseModel) -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 5_000_000
    assert "CC BY 4.0" in json.loads((DATA / "about.json").read_text())["made_of"]


@pytest.mark.parametrize("part", ["dev", "test"])
def test_short_lines_of_notes(shipped: SenseModel, part: str) -> None:
    """When the model was made, 34 of 40 lines were right in the dev half, and 33 of 40 in the other. The goal of 90% is not reached."""
    lines = [line.split("\t") for line in SHORTHAND.read_text().splitlines()[1:]]
    wrong = []
    for _, text, mention, cuis, name in [line for line in lines if line[0] == part]:
        start, meanings = text.index(mention), shipped.meanings_of(mention)
        section = section_at(find_sections(text), start)
        context = read_context(text, start, start + len(mention), "" if section is None else section.kind)
        in_note = [meaning.name.lower() in text.lower() for meaning in meanings]
        best = meanings[int(np.argmax(shipped.probabilities(shipped.evidence(meanings, context, in_note))))]
        if best.name != name and not set(best.cuis) & set(cuis.split("|")):
            wrong.append((text, best.name))
    assert len(wrong) <= (1 - LEAST) * 40, wrong


@pytest.mark.usefixtures("one_thread")
def test_a_meaning_in_the_same_letters_is_the_concept(tmp_path: Path) -> None:
    table = tmp_path / "lungs.tsv"
    table.write_text("concept_id\tname\tsynonyms\nX:1\tallergic bronchopulmonary aspergillosis\tABPA\nX:2\tasthma\tABPA\n", encoding="utf-8")
    kb = build_kb([read_source(table)], tmp_path / "kb", progress=False)
    meaning = Meaning("abpa", "allergic broncho-pulmonary aspergillosis", (), 1.0)
    assert _tied_concept_of(meaning, ["X:1", "X:2"], kb) == "X:1"
    assert _tied_concept_of(meaning, ["X:2"], kb) is None


@pytest.mark.usefixtures("one_thread")
def test_a_concept_that_has_the_meaning_as_a_name_comes_before_one_that_has_only_its_cui(tmp_path: Path) -> None:
    table = tmp_path / "hands.tsv"
    table.write_text(
        "concept_id\tname\tsynonyms\nC9000001\tpalpation\t\nC9000002\ttenderness\ttender to palpation\nX:1\tno tenderness\tnontender\n",
        encoding="utf-8",
    )
    kb = build_kb([read_source(table)], tmp_path / "kb", progress=False)
    assert _concept_of(Meaning("ttp", "tender to palpation", ("C9000001",), 1.0), kb) == "C9000002"
    assert _concept_of(Meaning("ttp", "tender to palpation", ("C9000001", "C9000002"), 1.0), kb) == "C9000002"
    assert _concept_of(Meaning("ttp", "tender when palpated", ("C9000003", "C9000001"), 1.0), kb) == "C9000001"  # no concept has this name
    assert _concept_of(Meaning("ttp", "tender when palpated", ("C9000003",), 1.0), kb) is None
    assert _concept_of(Meaning("nt", "nontender", ("C9000001",), 1.0), kb) == "C9000001"  # the concept of this name has no CUI
    assert _concept_of(Meaning("nt", "nontender", (), 1.0), kb) == "X:1"


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("concept", "cases", "expected"),
    [
        ("SAPBERT:sbrt", (0, 0, 0), "SAPBERT:sbrt"),  # the project's own name, and nobody has seen the other meaning
        ("SAPBERT:sbrt", (0, 0, 3), ""),  # notes mean the other one
        ("X:1", (0, 0, 0), ""),  # an acronym of an ontology
    ],
)
def test_a_meaning_of_a_list_alone_does_not_hide_the_projects_own_name(
    tmp_path: Path, model: SenseModel, concept: str, cases: tuple[int, int, int], expected: str
) -> None:
    names = f"concept_id\tname\tsynonyms\n{concept}\tstereotactic radiotherapy\tSBRT\nX:2\tcough\t\n"
    meaning = Meaning("sbrt", "split beam radiation therapy", (), 1.0, cases)
    linker = sensed_linker(tmp_path, names, replace(model, meanings=[meaning]))
    assert linked(linker(marked("s/p SBRT in 2023", "SBRT"))) == [expected]
