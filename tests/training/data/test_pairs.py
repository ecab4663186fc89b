"""Pairs: which concepts count as one, which names are paired, and what is held out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data import pairs
from training.data.pairs import HELD_OUT, ZERO_SHOT, build_pairs, choose_pairs, read_labels, read_queries


def concept(concept_id: str, *names: str, cuis: Tuple[str, ...] = (), relations: Tuple[Tuple[str, str], ...] = ()) -> Concept:
    return Concept(concept_id, "T", names=[Name(n, "T", rank=i) for i, n in enumerate(names)], cuis=list(cuis), relations=list(relations))


def make_kb(folder: Path, *concepts: Concept) -> KnowledgeBase:
    return build_kb([Source("test", list(concepts))], folder / "kb")


def made(tmp_path: Path, *concepts: Concept, **settings: Any) -> Tuple[Dict[str, Any], List[Tuple[str, str, int]]]:
    kb = make_kb(tmp_path, *concepts)
    counts = build_pairs(kb, tmp_path / "pairs", **{"held_out": 0.0, "zero_shot": 0.0, **settings})
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    return counts, [(row["anchor"], row["positive"], row["label"]) for row in rows]


def test_all_pairs_of_lower_cased_names_once(tmp_path: Path) -> None:
    counts, rows = made(tmp_path, concept("A:1", "Fever", "FEVER", "Pyrexia", "High temperature"), concept("A:2", "Cough"))
    assert {frozenset(row[:2]) for row in rows} == {
        frozenset(p) for p in (("fever", "pyrexia"), ("fever", "high temperature"), ("pyrexia", "high temperature"))
    }
    assert len(rows) == 3
    assert len({label for _, _, label in rows}) == 1
    assert (counts["names"], counts["pairs"], counts["labels_in_pairs"], counts["names_in_pairs"]) == (4, 3, 1, 3)


def test_a_concept_of_many_names_is_trimmed(tmp_path: Path) -> None:
    names = [f"name {i}" for i in range(20)]  # 190 pairs
    counts, rows = made(tmp_path, concept("A:1", *names), max_pairs=50)
    assert len(rows) == len({row[:2] for row in rows}) == counts["pairs"] == 50
    assert counts["pairs_before_trimming"] == 190
    assert all(a != b for a, b, _ in rows)
    _, again = made(tmp_path / "b", concept("A:1", *names), max_pairs=50)
    _, other = made(tmp_path / "c", concept("A:1", *names), max_pairs=50, seed=1)
    assert again == rows
    assert other != rows


@pytest.mark.parametrize("n", [2, 3, 11, 12, 200])
def test_chosen_pairs_are_of_the_upper_triangle(n: int) -> None:
    chosen = choose_pairs(n, 50, (0, 7))
    assert len(chosen) == len(set(chosen)) == min(50, n * (n - 1) // 2)
    assert all(0 <= a < b < n for a, b in chosen)


def test_choice_reaches_every_pair() -> None:
    seen = {pair for seed in range(400) for pair in choose_pairs(6, 3, (seed, 0))}
    assert seen == {(a, b) for a in range(6) for b in range(a + 1, 6)}


def label_of(tmp_path: Path, kb: KnowledgeBase, concept_id: str) -> int:
    return int(read_labels(tmp_path / "pairs")[kb.row_of(concept_id)])


def test_concepts_that_share_a_source_term_are_one_label(tmp_path: Path) -> None:
    # X:1 maps to two CUIs; the second one is the concept of a term of another source
    first = Source("x", [concept("X:1", "seizure", "fits", cuis=("C0000001", "C0000002"))])
    second = Source(
        "y", [concept("Y:1", "epileptic seizure", "convulsion", cuis=("C0000002",)), concept("Y:2", "rash", "exanthem", cuis=("C0000003",))]
    )
    kb = build_kb([first, second], tmp_path / "kb")
    counts = build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0)
    assert counts["joined_by_source_term"] == 1
    assert counts["concepts"] == 3
    assert counts["labels"] == 2
    assert label_of(tmp_path, kb, "C0000001") == label_of(tmp_path, kb, "C0000002") != label_of(tmp_path, kb, "C0000003")
    assert counts["pairs"] == 6 + 1


def test_equal_canonical_names_are_one_label_unless_both_have_cuis(tmp_path: Path) -> None:
    kb = make_kb(
        tmp_path,
        concept("A:1", "Gout", "podagra"),
        concept("B:1", "gout", "urate arthritis"),
        concept("C0000001", "Cold", "common cold"),
        concept("C0000002", "cold", "low temperature"),
    )
    counts = build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0)
    assert counts["joined_by_canonical_name"] == 1
    assert label_of(tmp_path, kb, "A:1") == label_of(tmp_path, kb, "B:1")
    assert label_of(tmp_path, kb, "C0000001") != label_of(tmp_path, kb, "C0000002")
    # "cold" is a name of two labels, so it is in no pair, and neither label has a pair left
    assert counts["ambiguous_names"] == 1
    assert counts["pairs"] == 3


def test_names_of_several_concepts_are_in_the_pairs_of_each_where_asked(tmp_path: Path) -> None:
    concepts = (concept("C0000001", "Cold", "common cold"), concept("C0000002", "cold", "low temperature"), concept("C0000003", "flu", "grippe"))
    counts, rows = made(tmp_path, *concepts, several=True)
    assert {frozenset(row[:2]) for row in rows} == {frozenset(p) for p in (("cold", "common cold"), ("cold", "low temperature"), ("flu", "grippe"))}
    assert len({label for _, _, label in rows}) == 3
    assert (counts["ambiguous_names"], counts["pairs"]) == (1, 3)
    assert json.loads((tmp_path / "pairs" / "manifest.json").read_text())["settings"]["several"] is True
    _, without = made(tmp_path / "b", *concepts)
    assert {frozenset(row[:2]) for row in without} == {frozenset(("flu", "grippe"))}


def test_a_name_of_a_concept_that_is_kept_out_is_in_no_pair_of_another(tmp_path: Path) -> None:
    """ "cold" is a name of all three; the held-out concept also has two names that only it has."""
    names = [("cold", *(f"{word} {i}" for i in range(3))) for word in ("sneeze", "freeze", "chill")]
    kb = make_kb(tmp_path, *(concept(f"C000000{i}", *some) for i, some in enumerate(names)))
    build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0.34, several=True)
    (query,) = read_queries(tmp_path / "pairs")
    assert query.query != "cold"
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert len(rows) == 6  # three pairs of own names for each of the two others
    assert "cold" not in {row[column] for row in rows for column in ("anchor", "positive")}


@pytest.mark.parametrize("turned", [False, True])
def test_a_trade_name_of_one_drug_is_its_synonym(tmp_path: Path, turned: bool) -> None:
    def drug(cui: str, *names: str, brands: Tuple[str, ...] = ()) -> Concept:
        return concept(cui, *names, relations=() if turned else tuple(("has_tradename", b) for b in brands))

    def brand(cui: str, name: str, drugs: Tuple[str, ...]) -> Concept:
        return concept(cui, name, relations=tuple(("tradename_of", d) for d in drugs) if turned else ())

    kb = make_kb(
        tmp_path,
        drug("C0000001", "paracetamol", brands=("C0000011", "C0000012")),
        drug("C0000002", "hydrocodone", brands=("C0000012",)),
        brand("C0000011", "Tylenol", ("C0000001",)),
        brand("C0000012", "Vicodin", ("C0000001", "C0000002")),  # a brand with two ingredients, which must not become one concept
    )
    counts = build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0)
    rows = pq.read_table(tmp_path / "pairs" / "pairs.parquet").to_pylist()
    assert [{row["anchor"], row["positive"]} for row in rows] == [{"paracetamol", "tylenol"}]
    assert counts["joined_by_trade_name"] == 1
    assert counts["labels"] == 3


@pytest.fixture(scope="module")
def hpo(hpo_kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Tuple[KnowledgeBase, Path, Dict[str, Any]]:
    kb, folder = KnowledgeBase(hpo_kb), tmp_path_factory.mktemp("hpo") / "pairs"
    return kb, folder, build_pairs(kb, folder, seed=3)


def test_what_is_held_out_of_hpo_is_in_no_pair(hpo: Tuple[KnowledgeBase, Path, Dict[str, Any]]) -> None:
    kb, folder, counts = hpo
    table = pq.read_table(folder / "pairs.parquet")
    trained = set(table["anchor"].to_pylist()) | set(table["positive"].to_pylist())
    labels_trained = set(table["label"].to_pylist())
    queries = read_queries(folder)
    labels = read_labels(folder)
    assert len(labels) == len(kb)
    assert counts["labels"] == labels.max() + 1
    held, unseen = ([q for q in queries if q.split == split] for split in (HELD_OUT, ZERO_SHOT))
    # 5% and 2.5% of the labels that have a name of their own
    assert len(held) == counts["held_out_queries"] == pytest.approx(0.05 * counts["labels"], rel=0.01)
    assert len(unseen) == counts["zero_shot_queries"] == pytest.approx(0.025 * counts["labels"], rel=0.01)
    assert not {q.query for q in queries} & trained
    assert {q.label for q in held} <= labels_trained
    assert not {q.label for q in unseen} & labels_trained
    for query in (*held[:50], *unseen[:50]):  # a query is a name of its label, and the label has another name that can be found
        row = kb.find([query.query])[query.query]
        owners = {int(labels[c]) for c, _ in kb.names_of_surface_form(row)}
        assert owners == {query.label}
    assert counts["pairs"] == table.num_rows
    assert counts["names_in_pairs"] == len(trained)


def test_labels_lie_in_order_and_names_are_normalised(hpo: Tuple[KnowledgeBase, Path, Dict[str, Any]]) -> None:
    table = pq.read_table(hpo[1] / "pairs.parquet")
    labels = np.asarray(table["label"])
    assert (labels[1:] >= labels[:-1]).all()
    assert np.unique(labels, return_counts=True)[1].max() <= 50
    names = table["anchor"].to_pylist()
    assert all(name == name.lower().strip() for name in names)


def test_same_seed_same_files(hpo: Tuple[KnowledgeBase, Path, Dict[str, Any]], tmp_path: Path) -> None:
    kb, folder, counts = hpo
    assert build_pairs(kb, tmp_path / "again", seed=3) == counts
    for name in ("pairs.parquet", "queries.parquet", "labels.npy"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    build_pairs(kb, tmp_path / "other", seed=4)
    assert (tmp_path / "other" / "queries.parquet").read_bytes() != (folder / "queries.parquet").read_bytes()


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [("held_out", 1.0, "E503"), ("held_out", -0.1, "E503"), ("zero_shot", 2.0, "E503"), ("max_pairs", 0, "E503")],
)
def test_a_setting_that_makes_no_sense_is_refused(tmp_path: Path, setting: str, value: Any, code: str) -> None:
    kb = make_kb(tmp_path, concept("A:1", "fever", "pyrexia"))
    with pytest.raises(SapbertError, match=setting) as error:
        build_pairs(kb, tmp_path / "pairs", **{setting: value})
    assert error.value.code == code
    assert not (tmp_path / "pairs").exists()


def test_a_knowledge_base_of_one_name_each_is_refused(tmp_path: Path) -> None:
    kb = make_kb(tmp_path, concept("A:1", "fever"), concept("A:2", "cough"))
    with pytest.raises(SapbertError, match="2 concepts with 2 names") as error:
        build_pairs(kb, tmp_path / "pairs")
    assert error.value.code == "E501"
    assert not (tmp_path / "pairs").exists()


def test_a_folder_that_is_none_or_was_changed(tmp_path: Path, hpo: Tuple[KnowledgeBase, Path, Dict[str, Any]]) -> None:
    with pytest.raises(SapbertError) as error:
        read_queries(tmp_path)
    assert error.value.code == "E502"
    kb = make_kb(tmp_path, concept("A:1", "fever", "pyrexia"))
    build_pairs(kb, tmp_path / "pairs", held_out=0, zero_shot=0)
    (tmp_path / "pairs" / pairs.QUERIES).write_bytes(b"PAR1")
    with pytest.raises(SapbertError, match=r"queries\.parquet") as error:
        read_queries(tmp_path / "pairs")
    assert error.value.code == "E502"


# -- languages ------------------------------------------------------------------------------------------------------------


def spoken(concept_id: str, **names: str) -> Concept:
    return Concept(
        concept_id, "T", names=[Name(text, "T", language, rank=i) for language, of in names.items() for i, text in enumerate(of.split("|"))]
    )


@pytest.fixture
def many(tmp_path: Path) -> KnowledgeBase:
    concepts = [
        spoken("A:1", en="Fever|Pyrexia", de="Fieber", es="Fiebre"),
        spoken("A:2", en="Cough|Tussis", es="Tos"),
        spoken("A:3", en="Gift|Present", de="Geschenk"),
        spoken("A:4", en="Poison|Toxin", de="Gift"),  # an English name of A:3
    ]
    return build_kb([Source("test", concepts)], tmp_path / "kb", filters=Filters(languages=()))


def paired(kb: KnowledgeBase, out: Path, *languages: str) -> List[set[str]]:
    build_pairs(kb, out, held_out=0, zero_shot=0, **({"languages": languages} if languages else {}))
    return [{row["anchor"], row["positive"]} for row in pq.read_table(out / "pairs.parquet").to_pylist()]


def test_names_of_the_languages_that_are_asked_for(many: KnowledgeBase, tmp_path: Path) -> None:
    english = [{"fever", "pyrexia"}, {"cough", "tussis"}, {"gift", "present"}, {"poison", "toxin"}]
    assert paired(many, tmp_path / "a") == english
    german = paired(many, tmp_path / "b", "en", "de")
    # "gift" is a name of two concepts there, so in no pair
    assert [pair for pair in german if pair not in english] == [{"fever", "fieber"}, {"fieber", "pyrexia"}, {"geschenk", "present"}]
    assert {"gift", "present"} not in german
    with pytest.raises(SapbertError) as error:  # one name each
        paired(many, tmp_path / "c", "de")
    assert error.value.code == "E501"
    every = paired(many, tmp_path / "d", "all")
    assert len(every) == 6 + 3 + 1 + 1


def test_english_alone_says_nothing_of_languages(many: KnowledgeBase, tmp_path: Path) -> None:
    build_pairs(many, tmp_path / "a", held_out=0, zero_shot=0)
    build_pairs(many, tmp_path / "b", held_out=0, zero_shot=0, languages=["all"])
    settings = [json.loads((tmp_path / name / "manifest.json").read_text())["settings"] for name in "ab"]
    assert settings[0] == {"seed": 0, "held_out": 0, "zero_shot": 0, "max_pairs": 50}
    assert settings[1]["languages"] == ["en", "de", "es"]


def test_a_language_that_is_not_there_is_refused(many: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"'fr' .* en \(8\), de \(3\), es \(2\)") as error:
        build_pairs(many, tmp_path / "pairs", languages=["en", "fr"])
    assert error.value.code == "E107"
    with pytest.raises(SapbertError) as error:
        build_pairs(many, tmp_path / "pairs", languages=[])
    assert error.value.code == "E503"
    assert not (tmp_path / "pairs").exists()
    assert pairs.parse_languages("en+DE, es") == ["en", "de", "es"]


def test_command(tmp_path: Path, command: Callable[..., str]) -> None:
    make_kb(tmp_path, concept("A:1", "fever", "pyrexia", "high temperature"))
    found = command("pairs", tmp_path / "kb", tmp_path / "pairs", "--held-out", 0, "--zero-shot", 0)
    assert json.loads(found)["pairs"] == 3
    assert json.loads((tmp_path / "pairs" / "manifest.json").read_text())["settings"]["max_pairs"] == 50
    with pytest.raises(SapbertError, match="E101"):
        command("pairs", tmp_path / "nothing", tmp_path / "pairs")


def test_pairs_are_mapped_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"anchor": f"name {i}", "positive": f"another {i}", "label": i // 2} for i in range(1000)]
    pq.write_table(pa.Table.from_pylist(rows, schema=pairs.SCHEMA), tmp_path / pairs.PAIRS, compression="zstd", row_group_size=300)
    before = pa.total_allocated_bytes()
    table = pairs.mapped_pairs(tmp_path, "0123456789abcdef-and-more")
    assert pa.total_allocated_bytes() == before  # all columns are mapped from the file
    assert table.to_pylist() == rows
    assert (tmp_path / "pairs-1-0123456789abcdef.arrow").is_file()
    (tmp_path / pairs.PAIRS).unlink()
    assert pairs.mapped_pairs(tmp_path, "0123456789abcdef-and-more").num_rows == 1000  # it is made once
    pq.write_table(table.slice(0, 10), tmp_path / pairs.PAIRS)

    def read_only(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(pairs.os, "replace", read_only)
    assert pairs.mapped_pairs(tmp_path, "of other pairs").to_pylist() == rows[:10]
    assert [path.name for path in tmp_path.iterdir() if "other" in path.name] == []
