"""Reading parts of corpora to fit on and to measure on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import spacy

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.corpora import GOLD, Corpus
from training.corpora.mention import GoldMention
from training.evaluation.benchmarks import BenchmarkReader
from training.evaluation.parts import check_fit_and_test, gold_docs, known_gold, read_apart, without
from training.evaluation.reranker import make_search

TINY = Path(__file__).parents[2] / "data" / "tiny_clinic.tsv"


def test_gold_docs_carry_all_alternatives():
    corpus = Corpus(
        {"1": "Odd knees hurt."}, [GoldMention("1", 0, 9, "Odd knees", (("A:1",), ("A:2", "A:3"))), GoldMention("1", 3, 9, "knees", (("A:4",),))]
    )
    (doc,) = gold_docs(corpus, spacy.blank("en"))
    assert [(span.text, span.kb_id_) for span in doc.spans[GOLD]] == [("Odd knees", "A:1|A:2+A:3")]  # "knees" is not at offset 3


@pytest.mark.parametrize(
    ("fit", "test", "needed", "code", "said"),
    [
        (["gsc-dev", "biomap"], ["biomap"], "--fit", "E519", "'biomap'"),
        ([], ["gsc-test"], "--fit", "E548", "'--fit'"),
        (["gsc-dev"], [], "--test", "E548", "'--test'"),
        (["gsc-dev"], ["gsc"], "--fit", "E540", "'gsc'"),
        (["gsc-train"], [], "--fit", "E540", "'gsc-train'"),
        (["gsc-train"], [], "--fit", "E540", " biomap,"),  # known parts are listed as they are given; biomap has no "-"
        (["nowhere-dev"], ["gsc-test"], "--test", "E540", "'nowhere-dev'"),
    ],
)
def test_bad_parts(fit: list[str], test: list[str], needed: str, code: str, said: str) -> None:
    with pytest.raises(SapbertError, match=rf"\[{code}\].*{re.escape(said)}"):
        check_fit_and_test(fit, test, needed, "it is needed")


def test_documents_of_two_parts_count_in_the_first(tmp_path: Path) -> None:
    """Document 2 is in both by its id. Document 3 has the text of 1. Both are left out of the part that is named later, together with their mentions."""
    blocks = {
        "dev": ["1\nThe mitral valve leaks much.\n4\t16\tmitral valve\tHP_0001653", "2\nNo pain.\n3\t7\tpain\tHP_0012531"],
        "test": [
            "2\nShe has a fever.\n10\t15\tfever\tHP_0001945",
            "3\nThe MITRAL valve leaks much\n4\t16\tMITRAL valve\tHP_0001653",
            "4\nA cough.\n2\t7\tcough\tHP_0012735",
        ],
    }
    folder = tmp_path / "corpora" / "gsc_plus"
    folder.mkdir(parents=True)
    for part, texts in blocks.items():
        (folder / f"GSCplus_{part}_gold.tsv").write_text("\n\n".join(texts) + "\n")
    reader = BenchmarkReader(tmp_path, Path("none"), Path("none"), Path("none"))
    found = read_apart(reader, ["gsc-dev", "gsc-test"])
    assert {name: list(corpus.documents) for name, corpus in found.items()} == {"gsc-dev": ["1", "2"], "gsc-test": ["4"]}
    assert [mention.text for mention in found["gsc-test"].mentions] == ["cough"]
    other = read_apart(reader, ["gsc-test", "gsc-dev"])
    assert {name: list(corpus.documents) for name, corpus in other.items()} == {"gsc-test": ["2", "3", "4"], "gsc-dev": []}
    assert [mention.text for mention in without(found["gsc-dev"], ["2"]).mentions] == ["mitral valve"]


def test_only_gold_that_the_knowledge_base_has(tmp_path: Path) -> None:
    """An alternative that is not known does no harm; a composite has no row; a mention without a gold id is no annotation."""
    build_kb([read_source(TINY)], tmp_path / "kb", progress=False)
    kb = KnowledgeBase(tmp_path / "kb")
    one, two = kb.concept_id(0), kb.concept_id(1)
    text = "aa bb cc dd ee"
    golds = [((one,),), (("Z:9",),), (("Z:9",), (two,)), ((one, two),), ()]
    corpus = Corpus({"1": text}, [GoldMention("1", at * 3, at * 3 + 2, text[at * 3 : at * 3 + 2], gold) for at, gold in enumerate(golds)])
    queries, gold = known_gold(corpus, spacy.blank("en"), make_search(kb, NameEncoder().initialize()))
    assert [query[0] for query in queries] == ["aa", "cc"]
    assert gold == [one, f"Z:9|{two}"]
