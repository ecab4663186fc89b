"""Words around an abbreviation that decide its meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.context.sense_model import COUNTED, SIGNALS, Meaning, SenseModel, normal
from spacy_sapbert.context.sense_words import NEAR, _rows, hints
from spacy_sapbert.context.senses import Option, Senses, _with_hints
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.linker import SapBertLinker


@pytest.mark.parametrize(
    ("text", "abbreviation", "meanings"),
    [
        ("Cirrhosis with ascites, treated for SBP.", "SBP", ["spontaneous bacterial peritonitis"]),
        ("SBP in the 90s.", "SBP", []),
        ("ascites. " + "a b c d e f g h i j k l " + "SBP", "SBP", []),  # more than twelve words before
        ("ER/PR positive", "ER", ["estrogen receptor"]),
        ("ER+", "ER", ["estrogen receptor"]),
        ("seen in the ER, strep positive", "ER", ["emergency department"]),  # not directly beside it
        ("HCT 25 mg daily", "HCT", ["hydrochlorothiazide"]),
        ("HCT 34, weight 70 kg, aspirin 81 mg", "HCT", []),  # not among the next three words
        ("BM 5.6 mmol", "BM", ["blood glucose"]),
        ("bm biopsy", "bm", ["bone marrow"]),
        ("S2 and S3 nerve roots at the sacral foramen", "S3", ["third sacral vertebra"]),
        ("heart: no S3", "S3", ["third heart sound"]),
        ("CP near ascites", "CP", []),  # not in the table
        ("throat clear, no LAD", "LAD", ["lymphadenopathy"]),
        ("LAD stenosis of 70%", "LAD", ["left anterior descending artery"]),
        ("hurt, no loc", "loc", ["loss of consciousness"]),
        ("LOC: alert", "LOC", []),  # a level
        ("Denies: LOC", "LOC", ["loss of consciousness"]),
        ("Sats: RA", "RA", ["room air", "room air"]),  # before it, and near it
        ("Denies falls: LOC", "LOC", []),
        ("RE clear, DR nil", "DR", ["diabetic retinopathy"]),
        ("seen by Dr nil", "Dr", []),
        ("Seen in ER. Positive troponin.", "ER", ["emergency department"]),  # another sentence
        ("went to the ER on tamoxifen", "ER", ["emergency department", "estrogen receptor"]),
        ("Last BM yesterday.\nBiopsy pending", "BM", []),
        ("Hct in the morning for the subdural hematoma", "Hct", []),  # a head CT is in capitals
        ("HCT for the subdural hematoma", "HCT", ["head CT"]),
        ("GI bleed, Hct dropped from 30 to 25", "Hct", ["hematocrit"]),
        ("Fusion of T4 to T6.", "T4", ["fourth thoracic vertebra"]),
        ("Fusion of T4. Gout. Asthma. Hypertension. Diabetes. Obesity. Anemia. Asthma. Cough. T6", "T4", []),  # too far away
        ("Screws at S1 and L5", "S1", ["first sacral vertebra"]),
        ("plaque in the carotid artery", "plaque", ["atherosclerotic plaque"]),
        ("a red plaque on the elbow", "plaque", []),
        ("urgent drainage of a pleural effusion", "drainage", ["drainage procedure"]),
        ("drainage from the abscess", "drainage", ["drainage procedure", "discharge"]),  # both: the link stays
        ("no erythema, drainage or fluid collection", "drainage", ["drainage procedure", "discharge"]),
        ("Serous drainage, small fluid collection", "drainage", ["drainage procedure", "discharge"]),
        ("scaly plaques on the elbows. Femoral pulses 2+", "plaques", ["atherosclerotic plaque", "skin plaque"]),
        ("oxygen by nasal cannula. The antrum showed gastritis", "antrum", ["maxillary sinus", "pyloric antrum"]),
        ("maxillary antrum", "antrum", ["maxillary sinus"]),
        ("chemotherapy without radiation", "radiation", ["radiating pain", "radiotherapy"]),
        ("chest pain without radiation", "radiation", ["radiating pain"]),
        ("glucose checks AC and HS for gestational diabetes", "AC", []),
        ("BPD 85 mm, AC 30 cm", "AC", ["abdominal circumference"]),
        ("Smoking 1-2 PPD, skin dry", "PPD", ["packs per day"]),
        ("RIF, INH and PZA for TB, joint pain", "RIF", ["right iliac fossa", "rifampin"]),
        ("pain in the RIF", "RIF", ["right iliac fossa"]),
        ("PPD 12 mm", "PPD", ["tuberculin skin test"]),
        ("Born at 25 weeks gestation, has BPD, on oxygen", "BPD", ["bronchopulmonary dysplasia"]),
        ("Echo: RA mildly dilated.", "RA", ["right atrium"]),
        ("TTE: RA and RV enlarged.", "RA", ["right atrium", "right atrium"]),
        ("RA on methotrexate", "RA", ["rheumatoid arthritis"]),
        ("RA, echo normal", "RA", []),
        ("demyelinating plaques near the carotid canal", "plaques", ["atherosclerotic plaque", "demyelinating plaque"]),
        ("plaques in the periventricular white matter", "plaques", ["demyelinating plaque"]),
    ],
)
def test_meanings_by_the_words_around(text: str, abbreviation: str, meanings: list[str]) -> None:
    start = text.index(abbreviation)
    assert [hint.meaning for hint in hints(text, start, start + len(abbreviation))] == meanings


def test_the_table_is_well_formed() -> None:
    for abbreviation, rows in _rows().items():
        assert abbreviation == normal(abbreviation)
        for hint, words, _ in rows:
            assert hint.side in ("before", "after", "next", NEAR)
            assert words
            assert all(word == word.lower() for word in words)


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> SapBertLinker:
    """A linker whose model knows the blood pressure (T201) only; peritonitis (T047) is in the knowledge base, under another name."""
    folder = tmp_path_factory.mktemp("hints")
    rows = ["C0871470\tsystolic blood pressure\tSBP\tT201", "C0275551\tperitonitis of cirrhosis\t\tT047"]
    rows += ["C0202691\thead CT\t\tT060", "C0018935\thematocrit\t\tT059", "C1269890\tright atrium\t\tT023", "C0003873\trheumatoid arthritis\t\tT047"]
    (folder / "names.tsv").write_text("concept_id\tname\tsynonyms\ttypes\n" + "\n".join(rows) + "\n")
    build_linker([read_source(folder / "names.tsv")], folder / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    (folder / "linker" / "senses").mkdir()
    SenseModel(
        [Meaning("sbp", "systolic blood pressure", ("C0871470",), 0.9, (0, 0, 1), 0)],
        dict.fromkeys(SIGNALS, 1.0),
        dict.fromkeys(COUNTED, 10.0),
        {"words": ["mmhg"], "near": [], "values": [], "section": []},
        np.array([1.0], dtype=np.float32),
        np.array([0, 1]),
        np.array([0], dtype=np.uint16),
        np.array([4], dtype=np.uint16),
        np.array([[4, 0, 0, 0]], dtype=np.float32),
        np.array([9], dtype=np.float32),
        {"made_of": "by hand"},
    ).save(folder / "linker" / "senses")
    return SapBertLinker(StaticEncoder(), ExactIndex(), disambiguator=Senses(), linker_name=str(folder / "linker"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Admitted with SBP today.", "C0871470"),
        ("Ascites and SBP today.", "C0275551"),
        ("Ascites, SBP 110.", "C0871470"),  # a value follows, and peritonitis is not measured
        ("Ascites, SBP dropped to the low 80s.", "C0871470"),
        ("Ascites, man in his 60s, SBP in his 50s.", "C0275551"),  # an age is no value
    ],
)
def test_the_linker_uses_them(linker: SapBertLinker, text: str, expected: str) -> None:
    doc = spacy.blank("en")(text)
    span = doc.char_span(text.index("SBP"), text.index("SBP") + 3, label="DISO")
    assert span is not None
    doc.ents = [span]
    (ent,) = linker(doc).ents
    assert ent.kb_id_ == expected


def test_words_decide_the_meaning_of_a_word(tmp_path: Path) -> None:
    rows = [
        "C0338474\tCNS demyelination\t\tT033",
        "C0241148\tSkin plaque\tplaque\tT033",
        "MESH:D058226\tAtherosclerotic Plaque\t\tT190",
        "C0003842\tartery\t\tT023",
    ]
    (tmp_path / "names.tsv").write_text("concept_id\tname\tsynonyms\ttypes\n" + "\n".join(rows) + "\n")
    build_linker([read_source(tmp_path / "names.tsv")], tmp_path / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    linker = SapBertLinker(StaticEncoder(), ExactIndex(), disambiguator=Senses(model="clinical"), linker_name=str(tmp_path / "linker"))

    def linked(text: str) -> list[tuple[str, float]]:
        doc = spacy.blank("en")(text)
        span = doc.char_span(text.index("plaque"), text.index("plaque") + 6, label="DISO")
        assert span is not None
        doc.ents = [span]
        return [*linker(doc).ents[0]._.kb_ents]

    assert [cui for cui, _ in linked("a red plaque on the elbow")][:1] == ["C0241148"]
    carotid = linked("calcified plaque of the carotid")
    assert [cui for cui, _ in carotid][:2] == ["MESH:D058226", "C0241148"]  # the other candidate stays
    assert carotid[0][1] > 0.8  # the cosine of the meaning, "plaque" itself has less
    # words near it point to two meanings: the nearest word decides
    assert linked("demyelinating plaque near the carotid canal")[0][0] == "C0338474"
    assert linked("known demyelination. Carotid ultrasound shows plaque")[0][0] == "MESH:D058226"


@pytest.mark.parametrize(("text", "expected"), [("HCT, SDH", {"C0202691"}), ("HCT 33, SDH", set()), ("HCT 33, WBC 8", {"C0018935"})])
def test_a_value_is_no_result_of_an_imaging(linker: SapBertLinker, text: str, expected: set[str]) -> None:
    known = [Option(Meaning("hct", "hematocrit", ("C0018935",), 1.0), "C0018935")]
    _, hinted = _with_hints(known, text, 0, 3, linker.kb)
    assert hinted == expected


def test_a_value_decides_only_between_meanings_of_which_one_is_measured(linker: SapBertLinker) -> None:
    assert _with_hints([], "HCT 33, SDH", 0, 3, linker.kb)[1] == {"C0202691"}  # as "TOF 4" is no heart defect near sugammadex


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RA dilated, COPD", {"C1269890"}),  # "dilated" is directly beside it
        ("RA mildly dilated COPD", {"C1269890", "C0003873"}),  # no word is, so both count
        ("RA, COPD", {"C0003873"}),
    ],
)
def test_words_directly_beside_it_count_more(linker: SapBertLinker, text: str, expected: set[str]) -> None:
    _, hinted = _with_hints([], text, 0, 2, linker.kb)
    assert hinted == expected
