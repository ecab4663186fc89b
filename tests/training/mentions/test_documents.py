"""Corpora as training documents: quirks of MACCROBAT, the five kinds, tokens that a corpus does not annotate, and the lexicon."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import List

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.mentions.features import name_words
from spacy_sapbert.mentions.labels import KINDS
from spacy_sapbert.mentions.network import TAGS
from training.corpora.brat import read_brat
from training.mentions.documents import make_documents, read_maccrobat, split_of, write_documents
from training.mentions.fit import allowed_tags, batches, make_examples
from training.mentions.kinds import ALL, CORPORA, MACCROBAT
from training.mentions.lexicon import drug_names
from training.mentions.score import score

TEXT = "A 40-year-old man had chest and left arm pain.\nAn ECG (12-lead)showed ischaemia of the left ventricle; aspirin was given."
# in pieces (T2), overlapping and nested (T3, T4; T7, T8), within a token (T5: spaCy splits "(12-lead)showed" in three), of an unused type (T1), lines
# of events, attributes, relations and notes
ANN = """T1\tAge 2 13\t40-year-old
T2\tSign_symptom 22 27;41 45\tchest pain
T3\tBiological_structure 32 40\tleft arm
T4\tSign_symptom 32 45\tleft arm pain
T5\tDiagnostic_procedure 50 53\tECG
E1\tDiagnostic_procedure:T5\x20
T6\tDisease_disorder 70 79\tischaemia
A1\tNegation T6
T7\tBiological_structure 87 101\tleft ventricle
T8\tBiological_structure 92 101\tventricle
R1\tMODIFY Arg1:T7 Arg2:T6\t
T9\tMedication 103 110\taspirin
*\tOVERLAP E1 E1
#1\tAnnotatorNotes T9\tcheck this
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "maccrobat").mkdir()
    (tmp_path / "maccrobat" / "1.txt").write_text(TEXT)
    (tmp_path / "maccrobat" / "1.ann").write_text(ANN)
    return tmp_path / "maccrobat"


def ents(doc: Doc) -> List[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_maccrobats_quirks(folder: Path) -> None:
    docs, counts = make_documents(read_brat(folder), CORPORA["maccrobat"], spacy.blank("en"))
    assert ents(docs["1"]) == [
        ("chest and left arm pain", "problem"),  # from the first character to the last, and the longest of overlapping ones
        ("ECG", "test"),
        ("ischaemia", "problem"),
        ("left ventricle", "anatomy"),
        ("aspirin", "drug"),
    ]
    assert counts == {"of_no_kind": 1, "overlapping": 3, "mentions": 5}
    assert docs["1"][0].ent_iob_ == "O"  # the corpus annotates all kinds


def test_a_mention_within_a_token_grows_to_it(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("postchemotherapy fever")
    (tmp_path / "1.ann").write_text("T1\tTherapeutic_procedure 4 16\tchemotherapy\nT2\tSign_symptom 17 23\tfever\n")
    docs, counts = make_documents(read_brat(tmp_path), CORPORA["maccrobat"], spacy.blank("en"))
    assert ents(docs["1"]) == [("postchemotherapy", "treatment")]
    assert counts == {"grown": 1, "misplaced": 1, "mentions": 1}  # the second one ends after the end of the text


def test_a_type_that_nobody_wrote_down_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("fever")
    (tmp_path / "1.ann").write_text("T1\tFeeling 0 5\tfever\n")
    with pytest.raises(SapbertError, match=r"E621.*Feeling"):
        make_documents(read_brat(tmp_path), CORPORA["maccrobat"], spacy.blank("en"))


def test_forty_one_types_are_five_kinds() -> None:
    assert len(MACCROBAT) == 41
    assert {kind: sorted(name for name, k in MACCROBAT.items() if k == kind) for kind in KINDS} == {
        "problem": ["Disease_disorder", "Sign_symptom"],
        "drug": ["Medication"],
        "test": ["Diagnostic_procedure"],
        "treatment": ["Therapeutic_procedure"],
        "anatomy": ["Biological_structure"],
    }
    assert set(KINDS) == ALL
    assert next(iter(CORPORA)) == "maccrobat"


def test_an_archive_reads_as_its_folder(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=".")
    assert read_maccrobat(tmp_path / "all.tar.gz") == read_maccrobat(folder)
    (tmp_path / "broken.tar.gz").write_bytes((tmp_path / "all.tar.gz").read_bytes()[:200])
    with pytest.raises(SapbertError, match="E567"):
        read_maccrobat(tmp_path / "broken.tar.gz")
    with pytest.raises(MissingFile, match="Saieiei/NLP"):
        read_maccrobat(tmp_path / "nowhere")


@pytest.mark.parametrize(("name", "outside"), [("maccrobat", "O"), ("bc5cdr", ""), ("gsc_plus", "")])
def test_silence_is_missing_where_a_kind_is_not_annotated(name: str, outside: str) -> None:
    from training.corpora import Corpus

    docs, _ = make_documents(Corpus({"1": "fever"}, []), CORPORA[name], spacy.blank("en"))
    assert docs["1"][0].ent_iob_ == outside


def test_allowed_tags_by_hand() -> None:
    """BC5CDR annotates all problems and drugs, but no tests, treatments and anatomy: outside of its mentions, only these or O are allowed."""
    doc = Doc(spacy.blank("en").vocab, words=["severe", "heart", "failure", "today"])
    doc.ents = (Span(doc, 1, 3, label="problem"),)
    allowed = allowed_tags(doc, CORPORA["bc5cdr"].complete)
    tags = [{TAGS[i] for i, may in enumerate(row) if may} for row in allowed]
    unknown = {f"{place}-{kind}" for place in "BILU" for kind in ("test", "treatment", "anatomy")}
    assert tags == [{"O"} | unknown, {"B-problem"}, {"L-problem"}, {"O"} | unknown]
    assert allowed_tags(doc, ALL)[0].sum() == 1
    assert allowed_tags(doc, ())[0].all()


def test_examples_cover_long_documents_and_mend_cut_mentions(tmp_path: Path) -> None:
    from spacy_sapbert.mentions.features import WINDOW, make_lexicon

    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, words=["w"] * (WINDOW + 10))
    doc.set_ents([Span(doc, WINDOW - 2, WINDOW + 1, label="problem")], default="outside")
    DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SPACY"], docs=[doc]).to_disk(tmp_path / "maccrobat.spacy")
    first, second = make_examples(tmp_path, make_lexicon([("fever", "DISO")]))["maccrobat"]
    names = [[TAGS[i] for i, may in enumerate(row) if may] for row in (*first.allowed[-3:], *second.allowed[:2])]
    assert names == [["O"], ["B-problem"], ["L-problem"], ["U-problem"], ["O"]]
    assert sum(len(b) for b in batches([first, second], 10, np.random.default_rng(0))) == 2


def test_score_by_hand() -> None:
    gold = [[(0, 2, "problem"), (4, 5, "drug"), (7, 9, "problem")]]
    found = [[(0, 2, "problem"), (4, 5, "test"), (8, 9, "problem"), (10, 11, "problem")]]
    figures = score(gold, found, ("problem", "drug", "test"))
    assert figures["problem"]["exact"] == {"p": 33.3, "r": 50.0, "f": 40.0}
    assert figures["problem"]["overlapping"] == {"p": 66.7, "r": 100.0, "f": 80.0}
    assert figures["drug"]["exact"] == {"p": 0.0, "r": 0.0, "f": 0.0}
    assert figures["all"]["exact"] == {"p": 25.0, "r": 33.3, "f": 28.6}
    assert figures["any kind"]["exact"] == {"p": 50.0, "r": 66.7, "f": 57.1}
    assert figures["any kind"]["overlapping"] == {"p": 75.0, "r": 100.0, "f": 85.7}


def test_drug_names_of_both_tables(tmp_path: Path) -> None:
    bank, norm = tmp_path / "bank.csv.gz", tmp_path / "norm.csv"
    bank.write_bytes(gzip.compress(b'DrugBank ID,Common name,Synonyms\nDB1,Lepirudin,"Hirudin, a | Lepi"\nDB2,Other,\n'))
    norm.write_text(
        "Preferred Label,Semantic Types\nAspirin,http://x/T121|http://x/T109\nAspirin 81 MG,http://x/T200|http://x/T121\nA pump,http://x/T074\n"
    )
    assert list(drug_names(bank)) == ["Lepirudin", "Hirudin, a", "Lepi", "Other"]
    assert list(drug_names(norm)) == ["Aspirin"]
    norm.write_text("a,b\n1,2\n")
    with pytest.raises(SapbertError, match="E560"):
        list(drug_names(norm))


SPLIT = {"15939911": "train", "18561524": "dev", "18787726": "test", "19214295": "test", "19860925": "test", "21308977": "test", "21505579": "dev"}


def test_the_split_is_fixed() -> None:
    """The split must never change, because the recogniser of the package was trained on its part "train"."""
    assert {name: split_of(name) for name in SPLIT} == SPLIT
    assert [word for word, _, _ in name_words("Crohn's diseases, X-rays")] == ["crohn", "s", "disease", ",", "x", "ray"]


@pytest.mark.data
def test_the_real_maccrobat(data_folder: Path, tmp_path: Path) -> None:
    counts = write_documents(data_folder, data_folder / "corpora" / "maccrobat", tmp_path, ["maccrobat"])
    assert counts["maccrobat"]["documents"] == 199
    parts = {part: counts[f"maccrobat/{part}"]["documents"] for part in ("train", "dev", "test")}
    assert sum(parts.values()) == 199
    assert "misplaced" not in counts["maccrobat"]
