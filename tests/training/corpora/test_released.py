"""Readers of licensed corpora, on small files in the released layouts, with their quirks."""

from __future__ import annotations

import csv

import pytest

from spacy_sapbert.errors import SapbertError
from training import corpora
from training.corpora.mention import GoldMention

from .released import (
    CADEC_TEXT,
    PORTELLI,
    PSYTAR,
    SMM4H_2017,
    SMM4H_LATER,
    cadec_folder,
    psytar_folder,
    twimed_folder,
)


def snomed(*codes):
    return tuple(f"SNOMEDCT_US:{code}" for code in codes)


def meddra(*codes):
    return tuple(f"MEDDRA:{code}" for code in codes)


# -- CADEC --------------------------------------------------------------------------------------------------------------


def test_cadec_with_snomed(tmp_path):
    corpus = corpora.read_corpus(cadec_folder(tmp_path))
    assert corpus.documents == {"LIPITOR.1": CADEC_TEXT}
    assert corpus.mentions == [
        GoldMention("LIPITOR.1", 10, 20, "bit drowsy", (snomed("271782001"),), "ADR"),
        GoldMention("LIPITOR.1", 30, 38, "weird eye", (("-1",),), "Symptom"),
        GoldMention("", 0, 0, "pain joints", (snomed("76948002", "57676002"),), "ADR"),  # in pieces
        GoldMention("LIPITOR.1", 62, 67, "agony", (snomed("102498003"), snomed("76948002")), ""),  # not in `original`
        GoldMention("LIPITOR.1", 71, 74, "B12", (snomed("2297011000036108"),), "Drug"),  # an id of AMT; spaces instead of a tab
    ]
    assert corpus.counts == {"in_pieces": 1, "other_lines": 1}


def test_cadec_with_meddra(tmp_path):
    corpus = corpora.read_corpus(cadec_folder(tmp_path), "cadec", terminology="meddra", kinds=["ADR"])
    assert [(m.text, m.gold) for m in corpus.mentions] == [
        ("bit drowsy", (meddra("10013649"),)),
        ("pain joints", (meddra("10033371", "10003239", "10003240"),)),
    ]


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("sct/LIPITOR.1.ann", "TT1\t271782001 | Drowsy |\tbit drowsy\n", r"E560.*sct/LIPITOR\.1\.ann', line 1 "),
        ("sct/LIPITOR.1.ann", "TT1\tDrowsy 10 20\tbit drowsy\n", r"E560.*line 1 "),
        ("text/LIPITOR.1.txt", None, r"E567.*its text 'LIPITOR\.1\.txt' is not in the folder 'text'"),
        ("sct/LIPITOR.1.ann", None, r"E567.*no \.ann in 'sct'"),
    ],
)
def test_a_damaged_cadec_is_named(tmp_path, file, content, expected):
    path = cadec_folder(tmp_path) / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content, encoding="latin-1")
    with pytest.raises(SapbertError, match=expected) as error:
        corpora.read_corpus(tmp_path, "cadec")
    assert "drowsy" not in str(error.value)


def test_a_terminology_that_cadec_and_psytar_do_not_have(tmp_path):
    for layout in ("cadec", "psytar"):
        with pytest.raises(SapbertError, match=rf"E568.*'terminology' of layout '{layout}' is 'icd'"):
            corpora.read_corpus(tmp_path, layout, terminology="icd")


# -- PsyTAR -------------------------------------------------------------------------------------------------------------

PSYTAR_MENTIONS = [
    GoldMention("lexapro.1", 0, 0, "no sleep", (("C0917801",),), "ADR"),
    GoldMention("lexapro.1", 0, 0, "fat, tired", (("C0043094", "C0015672"),), "ADR"),
    GoldMention("zoloft.7", 0, 0, "odd", (), "ADR"),
    GoldMention("zoloft.7", 0, 0, "brain zaps", (("C0000001",),), "WD"),
    GoldMention("zoloft.7", 0, 0, "panic", (("C0030319",),), "DI"),
]


def test_psytar_as_csv_files(tmp_path):
    corpus = corpora.read_corpus(psytar_folder(tmp_path))
    assert corpus == corpora.Corpus({}, PSYTAR_MENTIONS, {"without_concept": 1})
    golds = [mention.gold for mention in corpora.read_psytar(tmp_path, terminology="snomed").mentions]
    assert golds == [(snomed("193462001"),), (snomed("8943002", "84229001"),), (), (), (snomed("35489007"),)]  # row 2 ends with a float id


def test_psytar_as_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Sample"
    for sheet, text in PSYTAR.items():
        made = book.create_sheet(sheet)  # the space in `WD-Mapped ` is kept
        for row in csv.reader(text.splitlines()):
            made.append([float(cell) if cell.endswith(".0") else cell or None for cell in row])
    book.save(tmp_path / "PsyTAR_dataset.xlsx")
    assert corpora.read_corpus(tmp_path / "PsyTAR_dataset.xlsx").mentions == PSYTAR_MENTIONS
    (tmp_path / "PsyTAR_dataset.xlsx").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(SapbertError, match=r"E567.*it is not a workbook"):
        corpora.read_corpus(tmp_path / "PsyTAR_dataset.xlsx")


def test_psytar_without_its_sheets_or_columns(tmp_path):
    (tmp_path / "Sample.csv").write_text("drug_id\n", encoding="utf-8")
    with pytest.raises(SapbertError, match=r"E567.*none of the sheets ADR_Mapped, WD-Mapped"):
        corpora.read_corpus(tmp_path, "psytar")
    (tmp_path / "ADR_Mapped.csv").write_text("drug_id,ADR\n1,x\n", encoding="utf-8")
    with pytest.raises(SapbertError, match=r"E567.*sheet ADR_Mapped has no column ADRs"):
        corpora.read_corpus(tmp_path)


# -- SMM4H --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "counts"),
    [
        (SMM4H_2017, [("44675", "so sleepy", "10041349"), ("40103", "weird dreams", "10000125")], {}),
        (SMM4H_LATER, [("7", "so sleepy", "10041349")], {"without_mention": 1}),
        (PORTELLI, [("341", "so sleepy", "10041349"), ("342", "veins, too", "10047184")], {}),
    ],
)
def test_smm4h(tmp_path, text, expected, counts):
    path = tmp_path / "corpus"
    path.write_text(text, encoding="utf-8-sig")
    corpus = corpora.read_corpus(path)
    assert corpora.recognise(path) == "smm4h"
    assert corpus.mentions == [GoldMention(document, 0, 0, mention, (meddra(code),)) for document, mention, code in expected]
    assert corpus.counts == counts


@pytest.mark.parametrize("text", ["7\tso sleepy\n", "7\tso sleepy\t10041349\tx\n", "7\tso sleepy\t\n"])
def test_a_row_of_smm4h_that_does_not_fit(tmp_path, text):
    (tmp_path / "corpus").write_text(SMM4H_2017 + text, encoding="utf-8")
    with pytest.raises(SapbertError, match=r"E560.*line 3 ") as error:
        corpora.read_corpus(tmp_path / "corpus", "smm4h")
    assert "sleepy" not in str(error.value)


# -- TwiMed, MedMentions, BioSyn ----------------------------------------------------------------------------------------


def test_twimed(tmp_path):
    corpus = corpora.read_corpus(twimed_folder(tmp_path), "brat", optional_texts=True)
    assert list(corpus.documents) == ["PMC1_1"]
    assert corpus.mentions == [
        GoldMention("641", 0, 0, "low as", (("C0011570",),), "Symptom"),  # a tweet that was not downloaded
        GoldMention("PMC1_1", 4, 12, "Placebum", (("Concepts:5376",),), "Drug"),  # a number of TwiMed's own list
        GoldMention("PMC1_1", 22, 30, "too hazy", (("C0022107",),), "Symptom"),
        GoldMention("PMC1_1", 35, 38, "flu", (("-1",),), "Disease"),  # its annotators disagreed
    ]
    assert corpus.counts["without_text"] == 1
    with pytest.raises(SapbertError, match=r"E567.*641\.ann.*its text 641\.txt"):
        corpora.read_corpus(tmp_path, "brat")


def test_a_cui_behind_a_vocabulary_stays_a_code():
    assert corpora.gold_id("Concepts:C0022107") == "C0022107"
    assert corpora.gold_id("NCIT:C1234567") == "NCIT:C1234567"  # an id of NCIt, which is known


def test_documents_of_a_split(tmp_path):
    (tmp_path / "corpus").write_text(
        "7|t|A fit.\n7|a|\n7\t2\t5\tfit\tT184\tC0036572\n\n8|t|Flu.\n8|a|\n8\t0\t3\tFlu\tT047\tUMLS:C0021400\n", encoding="utf-8"
    )
    (tmp_path / "corpus_pubtator_pmids_test.txt").write_text("8\n9\n\n", encoding="utf-8")
    split = corpora.read_split(tmp_path / "corpus_pubtator_pmids_test.txt")
    assert split == {"8", "9"}
    corpus = corpora.read_corpus(tmp_path / "corpus", documents=split)
    assert corpus == corpora.Corpus({"8": "Flu. "}, [GoldMention("8", 0, 3, "Flu", (("C0021400",),), "T047")])
    with pytest.raises(SapbertError, match="E563"):
        corpora.read_corpus(tmp_path / "corpus", documents=["9"])


def test_sapberts_copies_have_snomed_numbers_behind_bars(tmp_path):
    """AskAPatient's queries are `id||mention`; without a vocabulary, ids without a prefix are read as MeSH or OMIM."""
    (tmp_path / "queries").write_text("22298006||my heart stopped\n", encoding="utf-8")
    assert corpora.read_corpus(tmp_path / "queries", "dictionary", vocabulary="SNOMEDCT_US").mentions[0].gold == (snomed("22298006"),)
    assert corpora.read_corpus(tmp_path / "queries").mentions[0].gold == (("OMIM:22298006",),)
    (tmp_path / "0.concept").write_text("-1||0|0||Disease||my heart||22298006\n", encoding="utf-8")
    assert corpora.read_corpus(tmp_path / "0.concept", vocabulary="SNOMEDCT_US").mentions[0].gold == (snomed("22298006"),)


def test_vocabularies_that_layouts_take_for_granted():
    found = {layout: corpora.vocabulary_of_layout(layout) for layout in corpora.LAYOUTS}
    assert {layout: name for layout, name in found.items() if name} == {"askapatient": "SNOMEDCT_US", "cometa": "SNOMEDCT_US", "smm4h": "MDR"}
