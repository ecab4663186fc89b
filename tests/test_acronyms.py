"""The linker does not link a word in lower case to a name that its sources write as an acronym."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.context.base import Candidates, Choice
from spacy_sapbert.context.senses import DATA, Senses
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

ROWS = """concept_id\tname\tsource\tterm_type\ttypes
C9300001\tSCAR\tMINE\tAB\tT047
C9300001\tsevere cutaneous adverse reaction\tMINE\tPT\tT047
C9300002\tcicatrix\tMINE\tPT\tT033
C9300002\tscar\tMINE\tSY\tT033
C9300003\tARMS\tMINE\tAB\tT191
C9300003\talveolar rhabdomyosarcoma\tMINE\tPT\tT191
C9300004\tarm\tMINE\tPT\tT023
C9300006\tCOLD\tMINE\tAB\tT047
C9300006\tchronic obstructive lung disease\tMINE\tPT\tT047
C9300007\tupper respiratory infection\tMINE\tPT\tT047
C9300007\tcold\tMINE\tSY\tT047
C9300010\tpupils equal round and reactive\tMINE\tPT\tT033
C9300010\tpupils equal, reactive to light and accomodation\tMINE\tSY\tT033
C9300010\tPERLA\tMINE\tAB\tT033
C9300016\tG6PD deficiency\tMINE\tPT\tT047
C9300016\tglucose-6-phosphate dehydrogenase deficiency\tMINE\tSY\tT047
C9300016\tG6PD\tMINE\tAB\tT047
C9300017\tadult respiratory distress\tMINE\tPT\tT047
C9300017\tacute lung injury\tMINE\tSY\tT047
C9300017\tALI\tMINE\tAB\tT047
C9300011\tacidity of blood\tMINE\tPT\tT059
C9300011\tpH\tMINE\tSY\tT059
C9300012\tPhiladelphia chromosome\tMINE\tPT\tT046
C9300012\tPh\tMINE\tSY\tT046
C9300013\tpain that is dull\tMINE\tPT\tT184
C9300013\tache\tMINE\tSY\tT184
C9300014\tfailure of the head\tMINE\tPT\tT047
C9300014\tRHD\tMINE\tAB\tT047
MINE:7\tend stage renal disease\tMINE\tPT\tT047
C9300015\tkidneys that have failed\tMINE\tPT\tT047
C9300015\tend stage renal disease\tMINE\tSY\tT047
C9300015\tESRD\tMINE\tAB\tT047
C9300005\tPALE\tMINE\tAB\tT047
C9300005\tparaneoplastic limbic encephalitis\tMINE\tPT\tT047
"""


@pytest.fixture(scope="module")
def nlp(tmp_path_factory: pytest.TempPathFactory) -> Language:
    folder = tmp_path_factory.mktemp("acronyms")
    (folder / "names.tsv").write_text(ROWS, encoding="utf-8")
    build_linker([read_source(folder / "names.tsv")], folder / "linker", model=StaticEncoder(), index=ExactIndex(), progress=False)
    made = spacy.blank("en")
    made.add_pipe("sapbert_linker", config={"linker_name": str(folder / "linker")})
    return made


@pytest.mark.parametrize(
    ("word", "concept"),
    [
        ("SCAR", {"C9300001", "C9300002"}),  # in capitals, both are possible
        ("scar", {"C9300002"}),  # the concept whose name is not an acronym
        ("Scars", {"C9300002"}),
        ("ARMS", {"C9300003"}),
        ("arms", {"C9300004"}),  # no other concept has this name, so the concept of its singular is used
        ("PALE", {"C9300005"}),
        ("pale", {""}),
        ("Pale", {""}),
        ("COLD", {"C9300006", "C9300007"}),
        ("cold", {"C9300007"}),
    ],
)
def test_acronyms_in_small_letters(nlp: Language, word: str, concept: set[str]):
    doc = nlp.make_doc(f"It was {word} there")
    doc.set_ents([doc.char_span(7, 7 + len(word), label="DISO")])
    doc = nlp.get_pipe("sapbert_linker")(doc)  # type: ignore[operator]
    assert doc.ents[0].kb_id_ in concept
    assert doc.ents[0]._.kb_explain["linked"] == (doc.ents[0].kb_id_ != "")


@pytest.mark.parametrize(
    ("text", "word", "concept"),
    [
        ("ABDOMEN SOFT, SCAR IN THE RIF, LIVER NOT PALPABLE", "SCAR", "C9300002"),  # of two concepts, the one whose name is not an acronym
        ("MOVES BOTH ARMS AND LEGS NORMALLY", "ARMS", "C9300004"),
        ("HER SKIN WAS PALE ON EXAMINATION", "PALE", "C9300005"),  # there is no other concept
        ("Moves both arms, known to have ARMS of the left leg", "ARMS", "C9300003"),  # capitals in a text in lower case mean an acronym
    ],
)
def test_a_word_in_a_text_in_capitals_is_rather_no_acronym(nlp: Language, text: str, word: str, concept: str):
    doc = nlp.make_doc(text)
    doc.set_ents([doc.char_span(text.index(word), text.index(word) + len(word), label="DISO")])
    assert nlp.get_pipe("sapbert_linker")(doc).ents[0].kb_id_ == concept  # type: ignore[operator]


class Guess:
    """A disambiguator that always chooses the last meaning."""

    def choose(self, found: Sequence[Candidates], kb: KnowledgeBase, folder: Path | None) -> list[Choice | None]:
        asked.extend([concept for concept, _ in each.concepts] for each in found)
        return [Choice([(concept, 0.9) for concept, _ in reversed(each.concepts)], "", True) for each in found]


asked: list[list[str]] = []


def test_the_context_is_not_asked_about_acronyms_that_are_not_meant(nlp: Language):
    linker = nlp.get_pipe("sapbert_linker")
    linker.disambiguator, before = Guess(), linker.disambiguator  # type: ignore[attr-defined]
    asked.clear()
    try:
        doc = nlp.make_doc("a cold COLD")
        doc.set_ents([doc.char_span(2, 6, label="DISO"), doc.char_span(7, 11, label="DISO")])
        ids = [ent.kb_id_ for ent in linker(doc).ents]  # type: ignore[operator]
    finally:
        linker.disambiguator = before  # type: ignore[attr-defined]
    assert "C9300006" not in asked[0]
    assert {"C9300006", "C9300007"} <= set(asked[1])
    assert ids[0] == "C9300007"


def test_a_word_that_a_concept_is_named_is_no_abbreviation(nlp: Language):
    kb = nlp.get_pipe("sapbert_linker").kb  # type: ignore[attr-defined]
    senses = Senses("clinical")  # in this model, COLD, SCAR and ARMS are abbreviations
    model = senses._open(DATA)

    def options(mention: str, *concepts: str) -> set[str | None]:
        span = nlp.make_doc(mention)[:]
        found = Candidates(span, mention, [(concept, 1.0) for concept in concepts], exact=True, linked=True)
        return {option.concept for option in senses._options_of(model, found, kb, mention)}

    assert options("cold", "C9300007") == set()  # the link from the text alone is kept
    assert options("Cold", "C9300007") == set()
    assert "C9300006" in options("cold", "C9300006")  # only the concept of an acronym is known, so the lists of abbreviations are used
    assert {"C9300006", "C9300007"} <= options("COLD", "C9300006", "C9300007")


@pytest.mark.parametrize("disambiguator", [None, Senses("clinical")], ids=["no senses", "senses"])
@pytest.mark.parametrize("removed", ["cold", "Cold", "COLD"])
def test_a_word_whose_name_was_removed_does_not_mean_an_acronym(nlp: Language, removed: str, disambiguator: Senses | None):
    """Without the name "cold" of an infection, only COLD is left. It is found in capitals, and not by the word."""
    linker = nlp.get_pipe("sapbert_linker")
    before = linker.disambiguator, linker.bundle  # type: ignore[attr-defined]
    linker.disambiguator = disambiguator  # type: ignore[attr-defined]
    try:
        linker.remove_alias("C9300007", removed)  # type: ignore[attr-defined]
        assert linker.kb.removed_names(["cold"]) == ["cold"]  # type: ignore[attr-defined]
        found = {}
        for word in ("cold", "Cold", "colds", "COLD"):
            doc = nlp.make_doc(f"It was {word} there")
            doc.set_ents([doc.char_span(7, 7 + len(word), label="DISO")])
            found[word] = linker(doc).ents[0].kb_id_  # type: ignore[operator]
    finally:
        linker.disambiguator, linker.bundle = before  # type: ignore[attr-defined]
    assert found == {"cold": "", "Cold": "", "colds": "", "COLD": "C9300006"}


@pytest.mark.parametrize(
    ("text", "word", "concept"),
    [
        ("PERLA on examination", "PERLA", "C9300010"),  # the lists mean it, with another spelling
        ("Gas: pH 7.24 today", "pH", "C9300011"),  # the only concept that is written so
        ("an ache in the arm", "ache", "C9300013"),  # the lists say that it is no abbreviation, so the context has nothing to choose
        ("pain in the left arm", "arm", "C9300004"),  # in the lists also a rupture of membranes
        ("ESRD on dialysis", "ESRD", "C9300015"),  # the lists mean "end stage renal disease": of two concepts with this name, the one with a CUI
        ("G6PD was normal", "G6PD", ""),  # the lists mean the enzyme, not its deficiency
        ("ALI of the left leg", "ALI", ""),  # the lists mean an injury of a limb
        ("known RHD of the mitral valve", "RHD", ""),  # the lists mean "rheumatoid heart disease", which shares no word with the only concept
    ],
)
def test_a_listed_meaning_that_no_concept_has_by_its_name(nlp: Language, text: str, word: str, concept: str):
    linker = nlp.get_pipe("sapbert_linker")
    linker.disambiguator, before = Senses("clinical"), linker.disambiguator  # type: ignore[attr-defined]
    try:
        doc = nlp.make_doc(text)
        doc.set_ents([doc.char_span(text.index(word), text.index(word) + len(word), label="DISO")])
        assert linker(doc).ents[0].kb_id_ == concept  # type: ignore[operator]
    finally:
        linker.disambiguator = before  # type: ignore[attr-defined]
