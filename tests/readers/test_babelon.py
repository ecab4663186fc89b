"""Translations in three layouts: what is read, what is left out and counted, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.readers.babelon import garbled
from spacy_sapbert.readers.languages import language_code

from .helpers import DATA, error_code, read_all, real

HEADER = "subject_id\tpredicate_id\ttranslation_language\ttranslation_value\ttranslation_status\n"


def write(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "x.tsv"
    path.write_bytes(text.encode(encoding))
    return path


def test_labels_and_synonyms_of_a_babelon_table() -> None:
    concepts, stats = read_all(DATA / "tiny_babelon.tsv")
    assert [(c.concept_id, [(n.text, n.source, n.language, n.term_type, n.rank) for n in c.names]) for c in concepts] == [
        ("TOY:0000001", [("Wanderknie", "TOY", "de", "PT", 100_000)]),
        ("TOY:0000002", [('"Eigenartiges" Gelenk', "TOY", "de", "PT", 100_000)]),
        ("TOY:0000001", [("bewegliches Knie", "TOY", "de", "SY", 100_001), ("loses Knie", "TOY", "de", "SY", 100_001)]),
        ("TOY:0000001", [("Knieleiden", "TOY", "de", "BRD", 100_006)]),
        ("TOY:0000003", [("Streunendes Knie", "TOY", "de", "PT", 100_000)]),
    ]
    assert (stats.rows, stats.malformed) == (9, 0)
    assert stats.left_out == {"definitions": 1, "not translated": 1, "without a text": 1, "predicate rdfs:comment": 1}


def test_definitions_and_candidates_are_settings() -> None:
    concepts, _ = read_all(DATA / "tiny_babelon.tsv", definitions=True)
    assert [c.definition for c in concepts if c.definition] == ["Ein Knie, das wandert."]
    concepts, stats = read_all(DATA / "tiny_babelon.tsv", candidates=False)
    assert all(c.concept_id != "TOY:0000002" for c in concepts)
    assert stats.left_out["candidates"] == 1


def test_a_template_of_synonyms(tmp_path: Path) -> None:
    rows = "HP:0000020\tinkontinence|únik moči\thttp://purl.obolibrary.org/obo/hp#layperson\tOFFICIAL\nHP:0000021\tMegacystis\t\tNOT_TRANSLATED\n"
    path = write(tmp_path, f"subject_id\ttranslation_value\tsynonym_type\tcomment\nID\tAL oboInOwl:hasExactSynonym@cs SPLIT=|\t\t\n{rows}")
    concepts, stats = read_all(path)
    assert [[tuple(n) for n in c.names] for c in concepts] == [
        [("inkontinence", "HPO", "cs", "LAY", 100_002), ("únik moči", "HPO", "cs", "LAY", 100_002)]
    ]
    assert (stats.rows, stats.left_out) == (2, {"not translated": 1})


def test_the_disease_ontology_has_cells_of_several_lines(tmp_path: Path) -> None:
    text = (
        "source_id\tpredicate\tsource_text\ttranslation_text\ttranslation_lang\tstatus\treview_notes\tsynonym_type\n"
        'DOID:1\toboInOwl:hasExactSynonym\tTA\tAT\tes\tMANUALLY TRANSLATED\t"[JAB]\nnot sure"\tobo:OMO_0003012\n'
        "DOID:2\trdfs:label\tx\tequis | y\tes\tMANUALLY TRANSLATED\t\t\n"
    )
    concepts, stats = read_all(write(tmp_path, text))
    assert [[tuple(n) for n in c.names] for c in concepts] == [[("AT", "DOID", "es", "AB", 100_003)], [("equis | y", "DOID", "es", "PT", 100_000)]]
    assert stats.rows == 2


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("HP:1\trdfs:label\tzz\tx\tOFFICIAL", "'zz' is not a language code"),
        ("HP:1\trdfs:label\tgerman\tx\tOFFICIAL", "'german' is not a language code"),
        ("HP0000001\trdfs:label\tde\tx\tOFFICIAL", "'HP0000001' is not a CURIE"),
        ("HP:1\trdfs:label\tfr\tdysplasie rÃ©nale\tOFFICIAL", "wrong encoding"),
        ("HP:1\trdfs:label\tde\tx\tOFFICIAL\tmore", "6 cells under 5 columns"),
    ],
)
def test_a_bad_row_is_counted_and_named(tmp_path: Path, row: str, why: str) -> None:
    good = "HP:2\trdfs:label\tde\tNiere\tOFFICIAL\n"
    with pytest.warns(UserWarning, match=rf"W001.*1 of 2 rows.*lines 3.*{why}"):
        concepts, stats = read_all(write(tmp_path, f"{HEADER}{good}{row}\n"))
    assert ([c.names[0].text for c in concepts], stats.malformed) == (["Niere"], 1)
    with pytest.raises(SapbertError, match=why) as error:  # the file has no other rows
        read_all(write(tmp_path, f"{HEADER}{row}\n"))
    assert error_code(error) == "E405"


def test_files_that_are_refused(tmp_path: Path) -> None:
    def refused(text: str, match: str, encoding: str = "utf-8", language: Optional[str] = None) -> str:
        with pytest.raises(SapbertError, match=match) as error:
            read_all(write(tmp_path, text, encoding), **({"language": language} if language else {}))
        return error_code(error)

    assert refused("concept\ttranslation_value\nHP:1\tx\n", "subject_id or source_id is missing; found: concept, translation_value") == "E402"
    assert refused("subject_id\ttranslation_value\nHP:1\tx\n", "it names no language") == "E402"
    assert refused("subject_id\ttranslation_value\nHP:1\tx\n", "not an ISO 639 code", language="german") == "E002"
    assert refused(HEADER + "HP:1\trdfs:label\tde\tNiere\t\nHP:2\trdfs:label\tfr\trénal\t\n", "near line 3", "latin-1") == "E404"
    assert refused(HEADER + 'HP:1\trdfs:label\tde\t"Niere\t\n', "unexpected end of data") == "E403"
    concepts, _ = read_all(write(tmp_path, "subject_id\ttranslation_value\nHP:1\tx\n"), language="DE")
    assert concepts[0].names[0].language == "de"


@pytest.mark.parametrize(
    ("text", "wrong"), [("rÃ©nal", True), ("â€™", True), ("r\ufffdnal", True), ("rénal", False), ("São", False), ("异常", False), ("böbrek", False)]
)
def test_garbled(text: str, wrong: bool) -> None:
    assert garbled(text) is wrong


@pytest.mark.parametrize(
    ("text", "code"),
    [("de", "de"), (" PT-br ", "pt"), ("zh_Hant", "zh"), ("nna", "nna"), ("zz", None), ("deutsch", None), ("", None), ("d", None), ("42", None)],
)
def test_language_code(text: str, code: Optional[str]) -> None:
    assert language_code(text) == code


@pytest.mark.parametrize(
    ("name", "rows", "names", "left_out"),
    [
        ("translations/hp-ja.babelon.tsv.gz", 17_868, 17_649, {"not translated": 219}),
        ("translations/hp-nl.synonyms.tsv.gz", 20_735, 65, {"not translated": 20_670}),
        ("ontologies/doid/doid-es-translated.tsv.gz", 5_981, 3_935, {"definitions": 2_046}),
    ],
)
@pytest.mark.data
def test_real_translations(name: str, rows: int, names: int, left_out: dict[str, int]) -> None:
    concepts, stats = read_all(real(name))
    assert (stats.rows, stats.malformed, stats.left_out) == (rows, 0, left_out)
    assert sum(len(c.names) for c in concepts) == names
