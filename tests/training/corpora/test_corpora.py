"""Readers of corpora, offsets, and abbreviations over a text."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_sapbert.errors import SapbertError
from training import corpora
from training.corpora.mention import GoldMention

from .released import SMM4H_2017, cadec_folder, psytar_folder

NLP = spacy.blank("en")
GSC = """100
Short stature and low muscle tone.
0\t13\tShort stature\tHP:0004322
18\t33\tlow muscle tone\tHP:0001252

200
No finding here.

300
Tone.
0\t4\tTone\tHP:1
"""
PUBTATOR = """7|t|WD and cancer.
7|a|Wilson disease (WD) is rare.
7\t0\t2\tWD\tSpecificDisease\tD006527
7\t15\t29\tWilson disease\tSpecificDisease\tOMIM:277900|C535918+D006527

8|t|Nothing.
8|a|
"""


def test_gsc():
    corpus = corpora.read_gsc(GSC.splitlines())
    assert list(corpus.documents) == ["100", "200", "300"]
    assert corpus.mentions[1] == GoldMention("100", 18, 33, "low muscle tone", (("HP:0001252",),))
    assert len(corpus.mentions) == 3


def test_pubtator_with_spaces_that_the_offsets_leave_out():
    """NCBI-disease has such a mention. Spaces inside the offsets are kept, and other mentions that do not fit are still rejected."""
    lines = ["1|t|An odd cold", "1\t3\t6\todd  \tX\tD000001", "1\t3\t7\todd \tX\tD000001", "1\t3\t6\todd c\tX\tD000001"]
    found = corpora.read_pubtator(lines)
    assert [mention.text for mention in found.mentions] == ["odd", "odd ", "odd c"]
    assert [mention.text for mention in corpora.fitting(found)[1]] == ["odd c"]


def test_pubtator():
    corpus = corpora.read_pubtator(PUBTATOR.splitlines())
    assert corpus.documents == {"7": "WD and cancer. Wilson disease (WD) is rare.", "8": "Nothing. "}
    assert corpus.mentions[0] == GoldMention("7", 0, 2, "WD", (("MESH:D006527",),), "SpecificDisease")
    assert corpus.mentions[1].gold == (("OMIM:277900",), ("MESH:C535918", "MESH:D006527"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D001943", (("MESH:D001943",),)),
        ("D001943|D010051", (("MESH:D001943",), ("MESH:D010051",))),
        ("D007674+D006222", (("MESH:D007674", "MESH:D006222"),)),
        ("OMIM:300322+OMIM:102600", (("OMIM:300322", "OMIM:102600"),)),
        ("D1+D1", (("D1",),)),  # an id of an unknown form is kept, only once
        (" ", ()),
        ("UMLS:C0011849", (("C0011849",),)),  # MedMentions ST21pv; the full corpus has ids without a prefix
        ("C0011849", (("C0011849",),)),  # ids with seven digits are CUIs, with six or nine digits MeSH
        ("C535918|mesh:C535918", (("MESH:C535918",),)),  # the same alternative twice
        (" 277900 | MIM:277900 ", (("OMIM:277900",),)),
        ("D000001+D000002|D000002+D000001", (("MESH:D000001", "MESH:D000002"),)),
        ("D000001,D000002", (("MESH:D000001", "MESH:D000002"),)),
        ("CUI-less", (("-1",),)),
        ("-1", (("-1",),)),
        ("D000001|-1", (("MESH:D000001",), ("-1",))),
        ("http://purl.obolibrary.org/obo/HP_0001250", (("HP:0001250",),)),
    ],
)
def test_gold_ids(text, expected):
    assert corpora.gold_ids(text) == expected


def test_bare_ids_of_a_vocabulary():
    assert corpora.gold_ids("22298006|SCTID:22298006|C0027051x", "SNOMEDCT_US") == (("SNOMEDCT_US:22298006",), ("SNOMEDCT_US:C0027051x",))
    assert corpora.gold_ids("-1", "SNOMEDCT_US") == (("-1",),)


def test_docs_have_spans_at_the_gold_offsets_even_within_tokens_and_overlapping():
    text = "The BCCs/tumours are many."
    mentions = [GoldMention("1", 4, 7, "BCC", ()), GoldMention("1", 4, 16, "BCCs/tumours", ()), GoldMention("1", 9, 16, "tumours", ())]
    ((doc, same),) = corpora.make_docs(corpora.Corpus({"1": text}, mentions), NLP)
    assert doc.text == text
    assert [span.text for span in doc.spans[corpora.GOLD]] == ["BCC", "BCCs/tumours", "tumours"]
    assert same == mentions


def test_offsets_that_do_not_fit_the_text_are_refused():
    corpus = corpora.Corpus({"1": "some text"}, [GoldMention("1", 0, 4, "other", ())])
    with pytest.raises(SapbertError, match=r"\[E543\] Document 1: the text at 0-4 is not that of the mention, which has 5 characters"):
        corpora.make_docs(corpus, NLP)


def test_lines_end_only_at_line_ends(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("a\fb\r\nc\u2028d\n\ne\n".encode()))
    assert list(corpora.open_lines(path)) == ["a\fb", "c\u2028d", "", "e"]


def test_notes_are_distinct(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"transcription": text}) for text in ["a", " a ", None, "b", "c"]), encoding="utf-8")
    assert corpora.read_notes(path, 2) == ["a", "b"]
    assert corpora.read_notes(path, 9) == ["a", "b", "c"]


def test_a_mention_off_its_offsets_is_told_from_those_that_fit():
    good = GoldMention("1", 0, 4, "some", ())
    bad = [
        GoldMention("1", 1, 5, "text", ()),
        GoldMention("1", 4, 4, "some", ()),
        GoldMention("1", 4, 0, "some", ()),
        GoldMention("1", 5, 10, "text", ()),
    ]
    fits, misfits = corpora.fitting(corpora.Corpus({"1": "some text"}, [good, *bad]))
    assert (fits.mentions, misfits) == ([good], bad)
    for mention in bad:
        with pytest.raises(SapbertError, match="E543"):
            corpora.make_docs(corpora.Corpus({"1": "some text"}, [mention]), NLP)


def test_bc5cdr_names_the_parts_of_a_composite():
    lines = [
        "1|t|Liver and lung disease by lithium.",
        "1|a|",
        "1\t0\t22\tLiver and lung disease\tDisease\tD000001|D000002\tLiver disease|lung disease",
        "1\t26\t33\tlithium\tChemical\tD000003",
        "1\tCID\tD000003\tD000001",
    ]
    assert [m.gold for m in corpora.read_pubtator(lines).mentions] == [(("MESH:D000001", "MESH:D000002"),), (("MESH:D000003",),)]
    assert [m.text for m in corpora.read_pubtator(lines, ("Disease",)).mentions] == ["Liver and lung disease"]


def test_biomap():
    assert corpora.read_biomap(["pmid,mention,cui,mondo_id", '7,"cancer, lung",C1,MONDO:1']).mentions == [
        GoldMention("7", 0, 0, "cancer, lung", (("MONDO:1",),))
    ]


LABELEDIN = (
    '10|a-1| For <br> <div> <annotation cui="C0000001">Acid <i>reflux</i></annotation> (<annotation cui="C0000001">GERD</annotation>) </div> if '
    '<18 years; <annotation cui="C0000002;C0000003">skin and bone ills</annotation><li>no <annotation cui="">id</annotation>|a-1;b-2;'
)


def test_labeledin():
    found = corpora.read_labeledin([LABELEDIN, LABELEDIN.replace("10|a-1", "11|b-2"), ""])
    assert found.documents == {"10-a-1": " For \n \n Acid reflux (GERD) \n if <18 years; skin and bone ills\nno id"}
    assert [(m.text, m.gold) for m in found.mentions] == [
        ("Acid reflux", (("C0000001",),)),
        ("GERD", (("C0000001",),)),
        ("skin and bone ills", (("C0000002", "C0000003"),)),
    ]
    text = found.documents["10-a-1"]
    assert all(text[m.start : m.end] == m.text for m in found.mentions)
    assert found.counts == {"documents_with_a_text_seen_before": 1, "mentions_without_id": 1}
    with pytest.raises(SapbertError, match=r"E560.*line 1"):
        corpora.read_labeledin(["10|a-1"])


BIONNE = """document_id\ttext\tentity_type\tspans\tUMLS_CUI
7_en\tcleft lip\tDISO\t2-11\tC0000001
7_en\tlip\tANATOMY\t8-11\tC0000002
7_en\tcleft palate\tDISO\t2-7,16-22\tC0000003
8_en\tgone\tDISO\t0-4\tC0000004
"""


def bionne(folder, table=BIONNE):
    (folder / "texts/en").mkdir(parents=True)
    (folder / "texts/en/7_en.txt").write_text("A cleft lip and palate.", encoding="utf-8")
    (folder / "tsv").mkdir()
    (folder / "tsv/train.tsv").write_text(table, encoding="utf-8")
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_bionne(tmp_path, packed):
    path = bionne(tmp_path / "b")
    if packed:
        with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
            archive.add(path, "b")
        path = tmp_path / "b.tar.gz"
    found = corpora.read_corpus(path, "bionne")
    assert found.documents == {"7_en": "A cleft lip and palate."}
    assert [(m.start, m.end, m.text, m.kind) for m in found.mentions] == [
        (2, 11, "cleft lip", "DISO"),
        (8, 11, "lip", "ANATOMY"),
        (2, 22, "cleft lip and palate", "DISO"),  # a mention in pieces goes from its first character to its last
    ]
    assert found.mentions[2].gold == (("C0000003",),)
    assert found.counts == {"mentions_in_pieces": 1, "mentions_without_text": 1}
    assert corpora.recognise(path) == "bionne"


@pytest.mark.parametrize(
    ("table", "code"), [("a\tb\n", "E560"), (BIONNE.replace("2-11", "2 to 11"), "E560"), (BIONNE.replace("\tC0000002", ""), "E560")]
)
def test_a_table_of_bionne_that_does_not_fit(tmp_path, table, code):
    with pytest.raises(SapbertError, match=code):
        corpora.read_corpus(bionne(tmp_path / "b", table), "bionne")


def test_a_damaged_archive_of_bionne(tmp_path):
    (tmp_path / "b.tar.gz").write_bytes(b"no archive")
    with pytest.raises(SapbertError, match="E567"):
        corpora.read_corpus(tmp_path / "b.tar.gz", "bionne")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SapbertError, match="0 tables"):
        corpora.read_corpus(tmp_path / "empty", "bionne")


def test_abbreviations_are_resolved_whole_and_within_mentions():
    text = "Ventricular septal defect (VSD) was seen. VSD repair and VSD."
    spans = [(42, 52), (57, 60), (0, 25)]
    corpus = corpora.Corpus({"1": text}, [GoldMention("1", a, b, text[a:b], ()) for a, b in spans])
    words, whole = corpora.resolved_texts(corpus)
    assert words == ["Ventricular septal defect repair", "Ventricular septal defect", "Ventricular septal defect"]
    assert whole == ["VSD repair", "Ventricular septal defect", "Ventricular septal defect"]


def test_mentions_are_in_the_order_of_documents():
    first, second, third = GoldMention("b", 0, 1, "x", ()), GoldMention("a", 0, 1, "x", ()), GoldMention("b", 1, 2, "y", ())
    found = corpora.by_document(corpora.Corpus({"a": "x", "b": "xy"}, [first, second, third]))
    assert found == {"a": [second], "b": [first, third]}


# -- layouts ------------------------------------------------------------------------------------------------------------

MEDMENTIONS = """1|t|DCTN4 in cystic fibrosis
1|a|Pseudomonas infection.
1\t0\t5\tDCTN4\tT116,T123\tC4308010
1\t9\t24\tcystic fibrosis\tT047\tUMLS:C0010674
"""
BIORED = """2|t|BRCA1 and TP53 in mice.
2|a|Breast and ovarian cancer.
2\t0\t5\tBRCA1\tGeneOrGeneProduct\t672
2\t18\t22\tmice\tOrganismTaxon\t10090
2\t24\t49\tBreast and ovarian cancer\tDiseaseOrPhenotypicFeature\tD001943,D010051
2\t10\t14\tTP53\tSequenceVariant\tc|SUB|G|1064|A
2\tAssociation\t672\tD001943\tNovel
"""
ANN = """T1\tDisease 8 13;23 30\tliver disease
T2\tDisease 18 30\tlung disease
T3\tSymptom 32 37\tfever
T4\tSymptom 39 44\tchill
T5\tOrgan 8 22\tliver and lung
N1\tReference T1 UMLS:C0023895\tLiver diseases
N2\tReference T1 MESH:D008107\tLiver Diseases
#1\tAnnotatorNotes T2\tC0024115
#2\tAnnotatorNotes T3\tcheck: again
R1\tWith Arg1:T1 Arg2:T3
"""
BRAT_TEXT = "He has: liver and\nlung disease. Fever, chills."
COMETA = """ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\tExample
11\theart attack\tMI\t22298006\tMI\t22298006\t"My ""Heart attack"" was no heart attack."
12\ticky\tNausea\t422587007\tFeels ill\t367391008\tQuite unwell
"""


def biosyn_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "10.concept").write_text(
        "10||0|13||CompositeMention||liver disease|lung disease||D008107|D008171\n10||20|22||Modifier||wd||D006527|C535918\n"
    )
    (folder / "9.concept").write_text("9||0|5||Disease||fever||CUI-less\n")
    return folder


def brat_folder(folder: Path) -> Path:
    (folder / "ward").mkdir(parents=True)
    (folder / "ward/a.ann").write_text(ANN)
    (folder / "ward/a.txt").write_text(BRAT_TEXT)
    return folder


def jax_folder(folder: Path) -> Path:
    folder.mkdir()
    gold = {"1": {"HP:0000256": "Macrocephaly", "HP:0001332": "Dystonia"}, "2": {"HP:0001250": "Seizure"}}
    (folder / "JAX_gold.json").write_text(json.dumps(gold))
    with tarfile.open(folder / "jax_txt.tar.gz", "w:gz") as archive:
        for name, text in (("txt/1.txt", "A large head\r\nand dystonia."), ("txt/3.txt", "Nothing.")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return folder


def docbin_file(path: Path, *, links: bool = True) -> Path:
    nlp = NLP
    doc = nlp.make_doc("Wilson disease and cystic fibrosis.")
    doc.ents = [Span(doc, 0, 2, label="Disease", kb_id="D006527" if links else ""), Span(doc, 3, 5, label="Disease")]
    doc.spans["sc"] = [Span(doc, 1, 2, label="Noun", kb_id="UMLS:C0012634" if links else "")]
    DocBin(docs=[doc]).to_disk(path)
    return path


def test_medmentions_full_and_st21pv():
    corpus = corpora.read_pubtator(MEDMENTIONS.splitlines())
    assert corpus.mentions == [
        GoldMention("1", 0, 5, "DCTN4", (("C4308010",),), "T116,T123"),
        GoldMention("1", 9, 24, "cystic fibrosis", (("C0010674",),), "T047"),
    ]
    assert corpora.fitting(corpus)[1] == []
    assert [m.text for m in corpora.read_pubtator(MEDMENTIONS.splitlines(), ("T123", "T999")).mentions] == ["DCTN4"]


def test_biored_ids_of_each_kind_and_relations():
    corpus = corpora.read_pubtator(BIORED.splitlines())
    assert [m.gold for m in corpus.mentions] == [
        (("NCBIGene:672",),),
        (("NCBITaxon:10090",),),
        (("MESH:D001943", "MESH:D010051"),),
        (("c|SUB|G|1064|A",),),
    ]
    assert corpora.fitting(corpus)[1] == []
    assert corpus.counts == {"relations": 1}


def test_a_document_that_comes_twice_is_counted():
    assert corpora.read_pubtator([*PUBTATOR.splitlines(), "", *PUBTATOR.splitlines()]).counts == {"documents_twice": 2}


def test_jax_gives_ids_of_documents(tmp_path):
    corpus = corpora.read_jax(jax_folder(tmp_path / "jax"))
    assert corpus.documents == {"1": "A large head\nand dystonia.", "3": "Nothing."}
    assert corpus.mentions == [GoldMention("1", 0, 0, "", (("HP:0000256",),)), GoldMention("1", 0, 0, "", (("HP:0001332",),))]
    assert corpus.counts == {"documents_without_text": 1, "texts_without_gold": 1}
    assert corpora.fitting(corpus) == (corpus, [])
    assert [(doc.text, len(doc.spans[corpora.GOLD]), mentions) for doc, mentions in corpora.make_docs(corpus, NLP)] == [
        (text, 0, []) for text in corpus.documents.values()
    ]


def test_biosyn_without_texts_parts_composites_by_the_mention(tmp_path):
    corpus = corpora.read_biosyn(biosyn_folder(tmp_path / "processed_train"))
    assert corpus.documents == {}
    assert corpus.mentions == [
        GoldMention("10", 0, 13, "liver disease|lung disease", (("MESH:D008107", "MESH:D008171"),), "CompositeMention"),
        GoldMention("10", 20, 22, "wd", (("MESH:D006527",), ("MESH:C535918",)), "Modifier"),
        GoldMention("9", 0, 5, "fever", (("-1",),), "Disease"),
    ]


def test_biosyn_with_texts_counts_one_character_between_title_and_abstract(tmp_path):
    (tmp_path / "7.concept").write_text("7||0|2||Modifier||WD||D006527\n7||15|29||Disease||Wilson disease||D006527\n")
    (tmp_path / "7.txt").write_text("WD and cancer.\n\nWilson disease (WD) is rare.\n")
    corpus = corpora.read_biosyn(tmp_path)
    assert corpus.documents == {"7": "WD and cancer.\nWilson disease (WD) is rare."}
    assert corpora.fitting(corpus)[1] == []


def test_dictionaries_and_xlbel_without_sentences():
    corpus = corpora.read_dictionary(["D006527|277900||Wilson disease", "D006527||hepatolenticular degeneration|WD"])
    assert [(m.text, m.gold) for m in corpus.mentions] == [
        ("Wilson disease", (("MESH:D006527",), ("OMIM:277900",))),
        ("hepatolenticular degeneration", (("MESH:D006527",),)),
        ("WD", (("MESH:D006527",),)),
    ]
    assert corpora.read_xlbel(["C0000001|C0000002||Ortalis", ""]) == corpora.Corpus(
        {}, [GoldMention("", 0, 0, "Ortalis", (("C0000001",), ("C0000002",)))]
    )


def test_xlbel_reads_what_is_usable_of_every_line():
    """The quirks of the published files: CUIs of MedGen, provisional CUIs, an id of another vocabulary, and broken lines."""
    lines = [
        "C0000001|CN029274||Beispiel-Myopathie",
        "90058||脊髓",
        "CL448688|C0000002||epitelio",
        "C0000003|90058|C0000003||x|y",
        "C0000004",
        "||fort",
        "C0000005||",
        "",
        "C0000006||Nacht||Es ist Nacht.",
        "C0000007|||drei",
    ]
    corpus = corpora.read_xlbel(lines)
    assert [(m.text, m.gold) for m in corpus.mentions] == [
        ("Beispiel-Myopathie", (("C0000001",), ("CN029274",))),
        ("脊髓", (("90058",),)),  # not OMIM:090058
        ("epitelio", (("CL448688",), ("C0000002",))),
        ("x|y", (("C0000003",), ("90058",))),
        ("Nacht", (("C0000006",),)),
        ("drei", (("C0000007",),)),
    ]
    assert corpus.documents == {}
    assert corpus.counts == {"ids_that_are_no_cui": 2, "lines_without_id_or_mention": 3, "sentences_without_a_mark": 1}
    assert corpora.layouts._by_lines(lines) == "xlbel"
    assert corpora.layouts._by_lines(["D1||a", "C0000001||b"]) == "dictionary"


def test_xlbel_with_sentences():
    lines = [
        "C0000001||ciegos||De los  <tgt>ciegos</tgt> (los <tgt>ciegos</tgt>).",
        "C0000002||oro||El <tgt>Oro</tgt>.",
        "C0000003||plata||El <tgt>Oro</tgt>.",
    ]
    corpus = corpora.read_xlbel(lines)
    assert corpus.documents == {"#1": "De los  ciegos (los ciegos).", "#2": "El Oro.", "#3": "El Oro."}
    assert corpus.mentions[:2] == [GoldMention("#1", 8, 14, "ciegos", (("C0000001",),)), GoldMention("#2", 3, 6, "Oro", (("C0000002",),))]
    assert corpus.counts == {"marked_more_than_once": 1}
    assert [m.text for m in corpora.fitting(corpus)[1]] == ["plata"]


def test_brat_pieces_references_and_notes(tmp_path):
    corpus = corpora.read_brat(brat_folder(tmp_path / "brat"))
    assert corpus.documents == {"ward/a": BRAT_TEXT}
    assert corpus.mentions == [
        GoldMention("ward/a", 8, 30, "liver and\nlung disease", (("C0023895",), ("MESH:D008107",)), "Disease"),
        GoldMention("ward/a", 18, 30, "lung disease", (("C0024115",),), "Disease"),
        GoldMention("ward/a", 32, 37, "fever", (), "Symptom"),  # the text has Fever
        GoldMention("ward/a", 39, 44, "chill", (), "Symptom"),
        GoldMention("ward/a", 8, 22, "liver and\nlung", (), "Organ"),
    ]
    assert corpora.fitting(corpus)[1] == [corpus.mentions[2]]
    assert corpus.counts == {"in_pieces": 1, "other_lines": 2}


def test_brat_counts_both_characters_of_a_windows_line_end(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"One.\r\nFever")
    (tmp_path / "a.ann").write_bytes(b"T1\tSymptom 6 11\tFever\r\n#1\tAnnotatorNotes T1\t386661006\r\n")
    corpus = corpora.read_brat(tmp_path / "a.ann", vocabulary="SNOMEDCT_US")
    assert corpus.mentions == [GoldMention("a", 6, 11, "Fever", (("SNOMEDCT_US:386661006",),), "Symptom")]
    assert corpora.fitting(corpus)[1] == []


@pytest.mark.parametrize("offsets", ["5 12", "11 11", "9 6", "200 205", "0 4;2 5", "0 3;9 12"])
def test_brat_offsets_that_are_not_in_the_text_are_refused_for_a_doc(tmp_path, offsets):
    (tmp_path / "a.txt").write_text("Fever today")  # 11 characters
    (tmp_path / "a.ann").write_text(f"T1\tSymptom 0 5\tFever\n\nT2\tSymptom {offsets}\tSmith\n")
    corpus = corpora.read_brat(tmp_path)
    assert [mention.text for mention in corpora.fitting(corpus)[1]] == ["Smith"]
    with pytest.raises(SapbertError, match=r"E543.*Document a: the text at \d+-\d+ is not that of the mention") as info:
        corpora.make_docs(corpus, spacy.blank("en"))
    assert "Smith" not in str(info.value)


def test_brat_allows_offsets_up_to_the_end_of_the_text(tmp_path):
    (tmp_path / "a.txt").write_text("Fever today")
    (tmp_path / "a.ann").write_text("T1\tSymptom 0 5;6 11\tFever today\nT2\tSymptom 6 11\ttoday\n")
    assert [(m.start, m.end) for m in corpora.read_brat(tmp_path).mentions] == [(0, 11), (6, 11)]


def test_cometa_finds_terms_in_their_examples():
    corpus = corpora.read_cometa(COMETA.splitlines())
    assert corpus.documents == {"11": 'My "Heart attack" was no heart attack.'}
    assert corpus.mentions == [
        GoldMention("11", 4, 16, "Heart attack", (("SNOMEDCT_US:22298006",),)),
        GoldMention("", 0, 0, "icky", (("SNOMEDCT_US:422587007",),)),
    ]
    assert corpus.counts == {"in_their_example_more_than_once": 1, "not_in_their_example": 1}
    assert corpora.read_cometa(COMETA.splitlines(), granularity="specific").mentions[1].gold == (("SNOMEDCT_US:367391008",),)


def test_askapatient_and_tsv():
    assert corpora.read_askapatient(["22298006\tMyocardial infarction\tmy heart stopped"]).mentions == [
        GoldMention("", 0, 0, "my heart stopped", (("SNOMEDCT_US:22298006",),))
    ]
    assert corpora.read_tsv(['5" scar\tC0000001|C0000002']).mentions == [GoldMention("", 0, 0, '5" scar', (("C0000001",), ("C0000002",)))]
    rows = ["ids\tmention\tstart\tend\tdocument", "D006527\tWD\t3\t5\tn1"]
    corpus = corpora.read_tsv(rows, texts={"n1": "No WD."})
    assert corpus == corpora.Corpus({"n1": "No WD."}, [GoldMention("n1", 3, 5, "WD", (("MESH:D006527",),))])
    assert corpora.read_tsv(["WD\tD006527\tn1\t3\t5"]).mentions == corpus.mentions


def test_docbin_of_entities_and_of_a_group(tmp_path):
    path = docbin_file(tmp_path / "a.spacy")
    corpus = corpora.read_docbin(path)
    assert corpus.documents == {"#1": "Wilson disease and cystic fibrosis."}
    assert corpus.mentions == [
        GoldMention("#1", 0, 14, "Wilson disease", (("MESH:D006527",),), "Disease"),
        GoldMention("#1", 19, 34, "cystic fibrosis", (), "Disease"),
    ]
    assert corpus.counts == {"without_kb_id": 1}
    assert corpora.read_docbin(path, group="sc").mentions == [GoldMention("#1", 7, 14, "disease", (("C0012634",),), "Noun")]


# -- read_corpus--------------------------------------------------------------------------------------------------------


def every_layout(folder: Path) -> dict[str, Path]:
    """One corpus of each layout; the file names do not reveal the layout."""
    texts = {
        "gsc": GSC,
        "pubtator": PUBTATOR,
        "cometa": COMETA,
        "biomap": "pmid,mention,cui,mondo_id\n7,cancer,C1,MONDO:1\n",
        "tsv": "Wilson disease\tD006527\n",
        "askapatient": "22298006\tMyocardial infarction\tmy heart stopped\n",
        "xlbel": "C0000001||ciegos||Los <tgt>ciegos</tgt>.\n",
        "dictionary": "D006527|277900||Wilson disease\n",
        "smm4h": SMM4H_2017,
        "labeledin": LABELEDIN + "\n",
    }
    for name, text in texts.items():
        (folder / f"of-{name}").write_text(text)
    made = {
        "jax": jax_folder,
        "biosyn": biosyn_folder,
        "brat": brat_folder,
        "cadec": cadec_folder,
        "docbin": docbin_file,
        "psytar": psytar_folder,
        "bionne": bionne,
    }
    return {name: folder / f"of-{name}" for name in texts} | {name: make(folder / f"of-{name}") for name, make in made.items()}


def test_every_layout_is_recognised_and_makes_docs(tmp_path):
    paths = every_layout(tmp_path)
    assert set(paths) == set(corpora.LAYOUTS)
    for name, path in paths.items():
        assert corpora.recognise(path) == name
        corpus = corpora.read_corpus(path)
        assert corpus == corpora.read_corpus(path, name)
        fits, _ = corpora.fitting(corpus)
        docs = corpora.make_docs(fits, NLP)
        for doc, mentions in docs:
            assert [span.text for span in doc.spans[corpora.GOLD]] == [mention.text for mention in mentions]
        assert sum(len(mentions) for _, mentions in docs) == (0 if name == "jax" else len(fits.mentions))


def test_a_mention_without_a_text_is_a_doc_of_its_own():
    corpus = corpora.Corpus(
        {"1": "fever"}, [GoldMention("2", 7, 9, "WD!", ()), GoldMention("1", 0, 5, "fever", ()), GoldMention("2", 0, 0, "flu", ())]
    )
    docs = corpora.make_docs(corpus, NLP)
    assert [(doc.text, [span.text for span in doc.spans[corpora.GOLD]]) for doc, _ in docs] == [
        ("fever", ["fever"]),
        ("WD!", ["WD!"]),
        ("flu", ["flu"]),
    ]
    assert corpora.resolved_texts(corpus)[0] == ["fever", "WD!", "flu"]


def test_options_of_the_door(tmp_path):
    paths = every_layout(tmp_path)
    assert corpora.read_corpus(paths["docbin"], group="sc").mentions[0].text == "disease"
    assert corpora.read_corpus(paths["cometa"], granularity="specific").mentions[1].gold == (("SNOMEDCT_US:367391008",),)
    assert [m.kind for m in corpora.read_corpus(paths["biosyn"], kinds=["Modifier"]).mentions] == ["Modifier"]
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(MEDMENTIONS.encode()))
    assert [m.kind for m in corpora.read_corpus(packed, kinds=["T123"]).mentions] == ["T116,T123"]
    latin = tmp_path / "latin"
    latin.write_bytes("22298006\tMénière\tmy Ménière\n".encode("latin-1"))
    assert corpora.read_corpus(latin, encoding="latin-1").mentions[0].text == "my Ménière"
    with pytest.raises(SapbertError, match="E404"):
        corpora.read_corpus(latin)


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        ("7|t|A.\n7|a|B.\n7\t0\tJohn Smith has\n", None, "E560.*line 3 is not .*: it has 3 fields by tab: 7, 0, 14 characters"),
        (
            "7|t|A.\n7\t0\tx\tJohn Smith\tDisease\tD006527\n",
            None,
            "E560.*line 2 .* 6 fields by tab: 7, 0, 1 characters, 10 characters, 7 characters, D006527",
        ),
        ("7|t|A.\n8\t0\t1\tA\tDisease\tD006527\n", None, "E566.*mentions of 1 documents without a text: 8"),
        ("100\n\n", "gsc", "E560.*line 1 is not a block"),
        ("100\nJohn Smith\n0\tJohn\n", "gsc", "E560.*line 3 .*2 fields by tab: 0, 4 characters"),
        ("John Smith came\n", None, "E562.*line 1 has 1 field: 15 characters. Known: askapatient, biomap, .*xlbel"),
        ("\nD1||b\nD2||c\n", "xlbel", "E560.*line 2 .*2 fields by ||"),
        ("C0000001||\n||a\n", "xlbel", "E560.*line 1"),
        ("D1||\n", "dictionary", "E560.*line 1"),
        ("7||0||x||D1\n", "biosyn", "E560.*line 1"),
        ("ID\tTerm\n", "cometa", "E560.*line 1 is not a header with `General SNOMED ID`"),
        ("Term\tGeneral SNOMED ID\na\t1\nb\n", None, "E560.*line 3 is not as many cells"),
        ("pmid,mention\n", "biomap", "E560.*`mondo_id`"),
        ("a\tD006527\nb\n", "tsv", "E560.*line 2"),
        ("a\tD006527\tn1\tx\t5\n", "tsv", "E560.*line 1"),
        ("1\ta\n", "askapatient", "E560.*line 1"),
        ("T1\tDisease x 5\tJohn\n", "brat", "E567.*its text"),
        ("not json", "docbin", "E567.*damaged, or not a DocBin"),
        ("", None, "E563"),
        ("", "pubtator", "E563.*holds no mentions .0 documents.: an empty split"),
        ("7|t|A.\n", None, "E563.*1 documents"),
        ("7|t|A.\n7\t0\t1\tA\tDisease\t-1\n", None, "E564.*1 mentions in layout 'pubtator', and no id"),
        ("7|t|A.\n", "pubtater", "E561.*'pubtater' is not known. Known: askapatient, .*"),
    ],
)
def test_bad_corpora_are_named_without_their_text(tmp_path, text, layout, expected):
    path = tmp_path / "corpus"
    path.write_text(text)
    with pytest.raises(SapbertError, match=expected) as error:
        corpora.read_corpus(path, layout)
    assert "John" not in str(error.value)


def test_bad_folders_docbins_and_options(tmp_path):
    paths = every_layout(tmp_path)
    (tmp_path / "empty").mkdir()

    def refused(pattern: str, *arguments: object, **options: object) -> None:
        with pytest.raises(SapbertError, match=pattern):
            corpora.read_corpus(*arguments, **options)

    refused("E401", tmp_path / "nowhere")
    refused("E562.*a folder without", tmp_path / "empty")
    refused("E567.*no .ann", tmp_path / "empty", "brat")
    refused("E567.*no .*concept", tmp_path / "empty", "biosyn")
    refused("E567.*0 files", tmp_path / "empty", "jax")
    refused("E564.*2 mentions in doc.ents", docbin_file(tmp_path / "unlinked", links=False))
    refused("E565.*'gold'. It has the groups: sc", paths["docbin"], group="gold")
    refused("E568.*'group' of layout 'gsc' is 'x': there is no such option. It has: none", paths["gsc"], group="x")
    refused("E568.*granularity.*must be one of general, specific", paths["cometa"], granularity="fine")
    refused("E563.*of the kinds T999", paths["pubtator"], kinds=["T999"])
    refused("E566.*1 documents without a text: n1", _written(tmp_path, "WD\tD006527\tn1\t3\t5\n"), texts={})
    (paths["brat"] / "ward/a.ann").write_text(ANN + "T9\tSymptom John Smith\n")
    refused("E560.*a.ann', line 11 is not a line of brat .*2 fields by tab: 2 characters, 18 characters", paths["brat"])
    (paths["brat"] / "ward/a.txt").unlink()
    refused("E567.*its text a.txt is not next to it", paths["brat"])
    (paths["jax"] / "jax_txt.tar.gz").write_bytes(b"\x1f\x8b00")
    refused("E567.*is damaged", paths["jax"])


def _written(folder: Path, text: str) -> Path:
    (folder / "written").write_text(text)
    return folder / "written"


# -- what a corpus holds, and what corpora share ------------------------------------------------------------------------


def test_describe_counts_what_is_there_and_what_is_wrong():
    text = "liver and lung disease, fever"
    mentions = [
        GoldMention("1", 0, 22, "liver and lung disease", (("A", "B"),), "Disease"),
        GoldMention("1", 10, 22, "lung disease", (("B",), ("C",)), "Disease"),
        GoldMention("1", 24, 29, "Fever", (("-1",),)),  # the text at its offsets differs in case
        GoldMention("1", 0, 0, "", (("D",),)),
        GoldMention("2", 0, 5, "fever", ()),
    ]
    assert corpora.describe(corpora.Corpus({"1": text}, mentions, {"relations": 3})) == {
        "documents": 1,
        "mentions": 5,
        "alternatives": 1,
        "composites": 1,
        "without_id": 1,
        "nil": 1,
        "of_documents": 1,
        "without_text": 1,
        "overlapping": 2,
        "off_their_offsets": 1,
        "kinds": {"": 3, "Disease": 2},
        "read": {"relations": 3},
    }


@pytest.mark.parametrize(
    ("spans", "expected"),
    [([], 0), ([(0, 3), (3, 5)], 0), ([(0, 3), (2, 5), (5, 6)], 2), ([(0, 9), (1, 2), (3, 4)], 3), ([(1, 2), (1, 2)], 2), ([(0, 0), (0, 1)], 0)],
)
def test_overlapping(spans, expected):
    assert corpora.overlapping([GoldMention("1", a, b, "", ()) for a, b in spans]) == expected


def test_documents_shared_by_id_and_by_text():
    abstract = "Wilson disease is a rare disorder of copper transport that damages the liver and the brain, and can be treated if found early."
    train = corpora.Corpus({"1": f"A title. {abstract}", "2": "Short text.", "#3": "one"}, [])
    test = corpora.Corpus({"x": abstract.upper(), "2": "Another text.", "#3": "two", "y": "short  TEXT", "z": ""}, [])
    bare = corpora.Corpus({}, [GoldMention("1", 0, 0, "WD", ()), GoldMention("", 0, 0, "flu", ())])
    other = corpora.Corpus({}, [GoldMention("", 0, 0, "flu", ())])
    shared = corpora.shared_documents({"train": train, "test": test, "bare": bare, "other": other})
    assert shared == [
        corpora.Shared("train", "test", ("2",), (("1", "x"), ("2", "y"))),
        corpora.Shared("train", "bare", ("1",), ()),
    ]
    assert (shared[0].documents_of("train"), shared[0].documents_of("test")) == (("2", "1"), ("2", "x", "y"))
    report = corpora.sharing_report(shared)
    assert report[0] == {"corpora": ["train", "test"], "documents": 2, "by_id": 1, "by_text": 2, "ids": ["2", "1"]}
    assert "copper" not in json.dumps(report)


def test_real_splits(data_folder):
    read = {part: corpora.read_corpus(data_folder / f"corpora/biomap/mondo_{part}.csv") for part in ("train", "dev", "test")}
    assert [(len(pair.by_id), len(pair.by_text)) for pair in corpora.shared_documents(read)] == [(174, 0), (171, 0), (48, 0)]
    jax = corpora.describe(corpora.read_corpus(data_folder / "corpora/jax"))
    assert (jax["documents"], jax["mentions"], jax["of_documents"], jax["read"]) == (131, 1776, 1776, {"documents_without_text": 158})
    train = corpora.describe(corpora.read_corpus(data_folder / "corpora/ncbi_disease/train.pubtator.txt.gz"))
    assert (train["documents"], train["mentions"], train["off_their_offsets"], train["read"]) == (592, 5145, 0, {"documents_twice": 1})
