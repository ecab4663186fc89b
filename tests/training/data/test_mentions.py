"""A task's mentions as pairs with the names of their concepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.mentions import build_mention_pairs, read_mentions
from training.data.pairs import read_queries

TEXT = "1|t|Myotonic dystrophy (DM) and tumours\n1|a|DM runs in families.\n1\t36\t38\tDM\tDisease\tD009223\n1\t28\t35\ttumours\tDisease\tD009369\n"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    def concept(concept_id: str, *names: str) -> Concept:
        return Concept(concept_id, "MSH", names=[Name(n, "MSH", rank=i) for i, n in enumerate(names)])

    concepts = [concept("MESH:D009223", "Dystrophia myotonica", "Steinert disease"), concept("MESH:D009369", "Neoplasms", "Tumors")]
    return build_kb([Source("test", concepts)], tmp_path_factory.mktemp("mentions") / "kb")


def test_pubtator_mentions_with_abbreviations_resolved(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(TEXT)
    assert sorted(read_mentions(tmp_path / "corpus.txt")) == [("Myotonic dystrophy", (("MESH:D009223",),)), ("tumours", (("MESH:D009369",),))]
    with pytest.raises(SapbertError, match=r"E563.*Chemical"):
        read_mentions(tmp_path / "corpus.txt", kinds=["Chemical"])


def test_mentions_of_other_layouts(tmp_path: Path) -> None:
    """Layouts with and without texts: ids of whole texts are not mentions, and a mention with wrong offsets is kept."""
    (tmp_path / "a.ann").write_text(
        "T1\tDisease 19 21\tMD\nN1\tReference T1 MESH:D009223\tx\nT2\tDisease 0 5\tTumor\nN2\tReference T2 MESH:D009369\tx\n"
    )
    (tmp_path / "a.txt").write_text("Muscular dystrophy (MD).")
    assert read_mentions(tmp_path / "a.ann") == [("MD", (("MESH:D009223",),)), ("Tumor", (("MESH:D009369",),))]
    (tmp_path / "ask.txt").write_text("22298006\tMyocardial infarction\theart attack\n")
    assert read_mentions(tmp_path / "ask.txt", "askapatient") == [("heart attack", (("SNOMEDCT_US:22298006",),))]
    cometa = "ID\tTerm\tGeneral SNOMED ID\tSpecific SNOMED ID\tExample\n7\tsad\t1\t2\tso sad\n"
    (tmp_path / "cometa.tsv").write_text(cometa)
    assert read_mentions(tmp_path / "cometa.tsv", granularity="specific") == [("sad", (("SNOMEDCT_US:2",),))]


def test_a_mention_that_is_a_name_makes_pairs_with_the_other_names_where_asked(kb: KnowledgeBase, tmp_path: Path) -> None:
    known, other = ("Steinert disease", (("MESH:D009223",),)), ("tumour", (("MESH:D009369",),))
    counts = build_mention_pairs(kb, [known, other], tmp_path / "pairs", known_names=True, queries=[known, ("neoplasia", (("MESH:D009369",),))])
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert [(row["anchor"], row["positive"]) for row in rows] == [
        ("steinert disease", "dystrophia myotonica"),
        ("tumour", "neoplasms"),
        ("tumour", "tumors"),
    ]
    # if a query is a name of its concept, it would find itself
    assert [query.query for query in read_queries(tmp_path / "pairs")] == ["neoplasia"]
    assert (counts["already_a_name"], counts["held_out_queries"], counts["pairs"]) == (1, 1, 3)


def test_capitals_are_kept_where_the_names_are_cased(tmp_path: Path) -> None:
    named = Concept("MESH:D009369", "MSH", names=[Name("Neoplasms", "MSH", rank=0), Name("TUMOR", "MSH")])
    cased = build_kb([Source("test", [named])], tmp_path / "kb", filters=Filters(cased=True))
    build_mention_pairs(cased, [("Growth", (("MESH:D009369",),))], tmp_path / "pairs")
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert [(row["anchor"], row["positive"]) for row in rows] == [("Growth", "Neoplasms"), ("Growth", "TUMOR")]


def test_each_mention_with_each_name_of_its_concept(kb: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "mentions.tsv").write_text("Myotonic dystrophy\tD009223\ntumour\tD009369\nTUMORS\tD009369\n")
    counts = build_mention_pairs(kb, read_mentions(tmp_path / "mentions.tsv", "tsv"), tmp_path / "pairs", held_out=0)
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert {(row["anchor"], row["positive"]) for row in rows} == {
        ("myotonic dystrophy", "dystrophia myotonica"),
        ("myotonic dystrophy", "steinert disease"),
        ("tumour", "neoplasms"),
        ("tumour", "tumors"),
    }
    assert len({row["label"] for row in rows}) == 2
    assert counts["already_a_name"] == 1
    assert counts["pairs"] == 4


def test_what_can_be_no_pair_is_counted(kb: KnowledgeBase, tmp_path: Path) -> None:
    known, both = ("MESH:D009223",), ("MESH:D009223", "MESH:D009369")
    mentions = [("dm", (known,)), ("both", (both,)), ("nowhere", (("MESH:D000001",),)), ("it", (known,)), ("it", (("MESH:D009369",),))]
    counts = build_mention_pairs(kb, mentions, tmp_path / "pairs", held_out=0)
    assert (counts["mentions"], counts["composite"], counts["not_in_kb"], counts["several_concepts"], counts["pairs"]) == (5, 1, 1, 1, 2)


def test_held_out_mentions_are_in_no_pair(kb: KnowledgeBase, tmp_path: Path) -> None:
    mentions = [(f"mention {i}", (("MESH:D009223",),)) for i in range(20)]
    build_mention_pairs(kb, mentions, tmp_path / "pairs", held_out=0.25, max_pairs=1)
    queries = {query.query for query in read_queries(tmp_path / "pairs")}
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert len(queries) == 5
    assert len(rows) == 15
    assert not queries & {row["anchor"] for row in rows}


def test_bad_input(kb: KnowledgeBase, tmp_path: Path, command: Callable[..., str]) -> None:
    with pytest.raises(SapbertError, match="1 not in kb") as error:
        build_mention_pairs(kb, [("x", (("MESH:D000001",),))], tmp_path / "pairs")
    assert error.value.code == "E504"
    assert not (tmp_path / "pairs").exists()
    with pytest.raises(SapbertError) as error:
        build_mention_pairs(kb, [], tmp_path / "pairs", held_out=1.0)
    assert error.value.code == "E503"
    (tmp_path / "bad.tsv").write_text("good\tD009223\nno tab\n")
    with pytest.raises(SapbertError, match="line 2") as error:
        read_mentions(tmp_path / "bad.tsv", "tsv")
    assert error.value.code == "E560"
    with pytest.raises(SapbertError, match="E401"):
        command("mentions", tmp_path / "none.txt", kb.path, tmp_path / "out")


def test_a_list_of_documents_chooses_a_part(kb: KnowledgeBase, tmp_path: Path, command: Callable[..., str]) -> None:
    """Both documents are in one file; only the mention of the second one becomes pairs."""
    other = "2|t|Tumours of the lung\n2|a|None.\n2\t0\t7\tTumours\tDisease\tD009369\n"
    (tmp_path / "corpus.txt").write_text(f"{TEXT}\n{other}")
    (tmp_path / "part.txt").write_text("2\n")
    given = ("mentions", tmp_path / "corpus.txt", kb.path)
    every = json.loads(command(*given, tmp_path / "all", "--held-out", 0))
    part = json.loads(command(*given, tmp_path / "part", "--held-out", 0, "--split", tmp_path / "part.txt"))
    assert (every["mentions"], part["mentions"]) == (3, 1)
