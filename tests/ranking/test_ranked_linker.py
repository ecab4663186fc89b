"""A linker with a ranker: the order of candidates, the explanation, saving it, and errors."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build.linker import DEFAULT, FAST, OPEN_RANKER, OPEN_TABLE, PAIRED, SHIPPED_RANKERS, build_linker, read_source, shipped_ranker
from spacy_sapbert.build.update import update_linker
from spacy_sapbert.calibration import read_calibration
from spacy_sapbert.candidates import Candidate, Hits, Rules, Standing, rank
from spacy_sapbert.encoders.paired import PairedEncoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError, SapbertWarning
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.kb.name_table import NameTable
from spacy_sapbert.linker import SapBertLinker
from spacy_sapbert.ranking.fit import FEWEST
from spacy_sapbert.ranking.ranker import FEATURES, Ranker, read_ranker

pytestmark = pytest.mark.usefixtures("one_thread")
DATA = Path(__file__).parents[1] / "data"
BLANK = spacy.blank("en")
ALL = Rules(threshold=-2.0, max_entities=10)
WEIGHTS = (1.0, *(0.0 for _ in FEATURES[1:]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linker of tiny_clinic.tsv and tiny.obo with the fast encoder, and therefore with the ranker of the package."""
    out = tmp_path_factory.mktemp("ranked") / "linker"
    sources = [read_source(DATA / name) for name in ("tiny_clinic.tsv", "tiny.obo")]
    return build_linker(sources, out, model=StaticEncoder(), index=ExactIndex(), progress=False)


def linker(folder: Path, **settings: Any) -> Any:
    return spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder), "threshold": 0.3, **settings})


def gold(text: str, kb_id: str) -> Doc:
    doc = BLANK(text)
    doc.set_ents([Span(doc, 0, len(doc), label="X", kb_id=kb_id)])
    return doc


def copied(folder: Path, target: Path, ranker: Ranker | None) -> Path:
    shutil.copytree(folder, target)
    (target / "ranker.json").unlink()
    if ranker is not None:
        (target / "ranker.json").write_text(ranker.to_json())
    return target


# -- candidates ---------------------------------------------------------------------------------------------------------


def table() -> NameTable:
    """Return a name table: concepts 0, 1 and 2 have the names 0, 1 and 2; concept 0 also has name 3."""
    return NameTable.from_rows([(0, 0, 0, 0, 0, 1), (1, 1, 0, 0, 0, 1), (2, 2, 0, 0, 0, 1), (3, 0, 50_000, 0, 0, 1)])


def reverse(hits: Hits) -> Standing:
    """Rank the last first."""
    scores = -hits.score[hits.starts]
    return Standing(scores, np.stack([hits.score[hits.starts], 2 * scores], axis=1))


def test_a_ranker_orders_and_scores_stay_cosines() -> None:
    rows = np.array([[0, 3, 1, 2]])
    ranking = rank(rows, np.array([[0.9, 0.85, 0.8, 0.7]], dtype=np.float32), table(), ALL, ranker=reverse)[0]
    assert ranking.kept == [
        Candidate(2, 0.7, 2, -0.7, (0.7, -1.4)),
        Candidate(1, 0.8, 1, -0.8, (0.8, -1.6)),
        Candidate(0, 0.9, 0, -0.9, (0.9, -1.8)),
    ]
    assert ranking.runner_up == ranking.kept[1]


def test_a_ranker_sees_all_names_of_a_concept_the_best_first() -> None:
    seen: list[Hits] = []

    def watch(hits: Hits) -> Standing:
        seen.append(hits)
        return reverse(hits)

    rank(np.array([[3, 0, 1], [1, 2, -1]]), np.array([[0.9, 0.8, 0.7], [0.6, 0.5, -np.inf]], dtype=np.float32), table(), ALL, ranker=watch)
    assert seen[0].query.tolist() == [0, 0, 0, 1, 1]
    assert seen[0].concept.tolist() == [0, 0, 1, 1, 2]
    assert seen[0].surface_form.tolist() == [3, 0, 1, 1, 2]
    assert seen[0].place.tolist() == [50_000, 0, 0, 0, 0]
    assert seen[0].starts.tolist() == [0, 2, 3, 4]


def test_an_exact_match_is_not_ranked() -> None:
    rows, cosines = np.array([[0, 1, 2], [0, 1, 2]]), np.array([[0.9, 0.8, 0.7]] * 2, dtype=np.float32)
    exact, ranked = rank(rows, cosines, table(), ALL, exact=[1, None], ranker=reverse)
    assert [c.concept for c in exact.kept] == [1, 0, 2]
    assert exact.kept[0] == Candidate(1, 1.0, 1)
    assert [c.concept for c in ranked.kept] == [2, 1, 0]


def test_ties_are_those_of_the_ranker() -> None:
    def alike(hits: Hits) -> Standing:
        return Standing(np.full(len(hits.starts), 0.5), np.ones((len(hits.starts), 1)))

    ranking = rank(np.array([[0, 1]]), np.array([[0.9, 0.8]], dtype=np.float32), table(), ALL, ranker=alike)[0]
    assert ranking.tied == [0, 1]


def test_nothing_found_is_nothing_ranked() -> None:
    assert rank(np.full((1, 2), -1), np.full((1, 2), -np.inf, dtype=np.float32), table(), ALL, ranker=reverse)[0].kept == []


# -- linker -------------------------------------------------------------------------------------------------------------


def test_the_fast_encoder_brings_its_ranker(folder: Path) -> None:
    shipped, kept = read_ranker(SHIPPED_RANKERS[FAST]), read_ranker(folder / "ranker.json")
    assert kept.weights == shipped.weights
    assert kept.weights[0] == 1.0
    component = linker(folder)
    assert component.ranker.encoder == component.model.fingerprint != ""


def test_each_encoder_of_the_package_has_its_ranker() -> None:
    """The fast encoder has another one for the open vocabulary. The weights of the two cosines add up to 1."""

    def shipped(encoder: Any, source: str = "hp.obo") -> Ranker | None:
        return shipped_ranker(encoder, cast("KnowledgeBase", SimpleNamespace(manifest={"sources": [{"name": "mine.tsv"}, {"name": source}]})))

    class Known(NameEncoder):
        fingerprint = "known"  # so that its weights are not read

    class Paired(PairedEncoder):
        fingerprint = "pair"

    fast = StaticEncoder().initialize()
    for encoder, file in ((fast, SHIPPED_RANKERS[FAST]), (Known(), SHIPPED_RANKERS[DEFAULT]), (Paired(), SHIPPED_RANKERS[PAIRED])):
        found = shipped(encoder)
        assert found == replace(read_ranker(file), encoder=encoder.fingerprint)
        assert sum(weight for name, weight in zip(found.features, found.weights) if name in ("cosine", "static")) == pytest.approx(1.0)
    assert shipped(fast, OPEN_TABLE.name) == replace(read_ranker(OPEN_RANKER), encoder=fast.fingerprint)
    assert shipped(Paired(share=0.4)) is None
    assert shipped(Known("another")) is None


def test_the_shares_add_up_to_what_orders(folder: Path) -> None:
    doc = linker(folder)(gold("sudden heart attak", "C0027051"))
    rank_of = doc.ents[0]._.kb_explain["rank"]
    assert list(rank_of) == ["score", *FEATURES]
    assert rank_of["score"] == pytest.approx(sum(rank_of[name] for name in FEATURES), abs=1e-4)
    assert doc.ents[0]._.kb_explain["score"] == doc.ents[0]._.kb_ents[0][1] == rank_of["cosine"]
    cosine = linker(folder, rank="cosine")(gold("sudden heart attak", "C0027051"))
    assert "rank" not in cosine.ents[0]._.kb_explain


def test_an_exact_match_has_no_shares(folder: Path) -> None:
    component = linker(folder)
    name = next(iter(component.kb.cui_to_entity.values())).canonical_name
    explain = component(gold(name, "X")).ents[0]._.kb_explain
    assert explain["exact"] is True
    assert "rank" not in explain


def test_cosine_is_the_order_without_a_ranker(folder: Path, tmp_path: Path) -> None:
    without = copied(folder, tmp_path / "without", None)
    mentions = ["sudden heart attak", "type 2 diabets", "head pain", "low sodium level", "heart not failing"]
    one, other = linker(folder, rank="cosine"), linker(without)
    by_cosine = [one(gold(text, "X")).ents[0]._.kb_ents for text in mentions]
    assert by_cosine == [other(gold(text, "X")).ents[0]._.kb_ents for text in mentions]
    assert all(list(found) == sorted(found, key=lambda pair: -pair[1]) for found in by_cosine)


def test_a_ranker_changes_the_order(folder: Path) -> None:
    """A ranker with a negative weight for the cosine reverses the order; the candidates keep their cosines."""
    component = linker(folder, max_entities_per_mention=30)
    first = component(gold("sudden heart attak", "X")).ents[0]._.kb_ents
    component.bundle = replace(component.bundle, ranker=replace(component.ranker, weights=(-1.0, *WEIGHTS[1:])))
    other = component(gold("sudden heart attak", "X")).ents[0]._.kb_ents
    assert dict(first) == dict(other)
    assert [score for _, score in other] == sorted(score for _, score in first)


def test_a_first_candidate_below_the_threshold_is_passed_over(folder: Path) -> None:
    """A misspelt word needs 0.95: if the first candidate has less, the next one with this score is linked, without a margin."""
    component = linker(folder, max_entities_per_mention=30, threshold=0.3)
    name = next(e.canonical_name for e in component.kb.cui_to_entity.values() if e.canonical_name.isalpha() and len(e.canonical_name) > 8)
    word = name[:-1] + name[-1] * 2
    found = component(gold(word, "X")).ents[0]._.kb_explain
    assert found["threshold"] == 0.95
    component.bundle = replace(component.bundle, ranker=replace(component.ranker, weights=(-1.0, *WEIGHTS[1:])))
    turned = component(gold(word, "X")).ents[0]
    assert bool(turned.kb_id_) == found["linked"]
    assert all(score > 0.95 for _, score in turned._.kb_ents)
    assert turned._.kb_explain["margin"] == 0.0


def test_added_names_are_ranked(folder: Path) -> None:
    """The feature `cui` also counts for an added name, if its concept has a CUI."""
    component = linker(folder)
    concept = next(iter(component.kb.cui_to_entity))
    component.add_alias(concept, "Mollusc's hiccup, type 2")
    component.add_concept("OWN:1", ["a snail's sneeze"])
    found = component(gold("molluscs hiccups of type 2", "X")).ents[0]
    assert found._.kb_ents[0][0] == concept
    assert found._.kb_explain["rank"]["number_added"] == 0.0
    assert found._.kb_explain["rank"]["cui"] == pytest.approx(component.ranker.weights[FEATURES.index("cui")], abs=1e-5)
    own = component(gold("snails sneezes", "X")).ents[0]
    assert own._.kb_ents[0][0] == "OWN:1"
    assert own._.kb_explain["rank"]["cui"] == 0.0


@pytest.mark.parametrize("mention", ["12345", "2", "no", "the", "ii"])
def test_mentions_without_much_to_say(folder: Path, mention: str) -> None:
    ent = linker(folder, threshold=-1.0)(gold(mention, "X")).ents[0]
    scores = [score for _, score in ent._.kb_ents]
    assert all(-1.0 <= score <= 1.0 for score in scores)
    assert bool(scores) == bool(ent.kb_id_)


def test_all_candidates_filtered_away(folder: Path) -> None:
    assert linker(folder, types=["T204"])(gold("sudden heart attak", "X")).ents[0]._.kb_ents == []


def test_a_ranker_of_another_encoder_is_not_used(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path / "other", replace(read_ranker(folder / "ranker.json"), encoder="another"))
    component = linker(other)
    with pytest.warns(SapbertWarning, match="W010"):
        component.load()
    assert component.ranker is None
    with pytest.raises(SapbertError, match=r"\[E050\].*that was trained for this encoder"), pytest.warns(SapbertWarning, match="W010"):
        linker(other, rank="learned").load()


def test_learned_needs_a_ranker(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"\[E050\].*has none\. Train one"):
        linker(copied(folder, tmp_path / "none", None), rank="learned").load()


def test_rank_is_checked() -> None:
    with pytest.raises(SapbertError, match=r"\[E002\].*'rank'.*'best'.*'learned', 'cosine', or null"):
        SapBertLinker(StaticEncoder(), ExactIndex(), rank="best")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"features": ["cosine", "width"]}, "E049"),
        ({"features": ["cui", "cosine"]}, "E049"),
        ({"features": ["cosine", "cosine"]}, "E049"),
        ({"features": []}, "E049"),
        ({"weights": [0.0, *WEIGHTS[1:]]}, "E048"),
        ({"format": 2}, "E106"),
        ({"kind": "calibration"}, "E106"),
        ({"weights": [1.0]}, "E048"),
        ({"weights": "many"}, "E048"),
        ({"weights": [*WEIGHTS[:-1], float("nan")]}, "E048"),
        ({"more": 1}, "E048"),
    ],
)
def test_a_damaged_file_is_refused(folder: Path, tmp_path: Path, change: dict[str, Any], code: str) -> None:
    content = {**json.loads((folder / "ranker.json").read_text()), **change}
    (tmp_path / "ranker.json").write_text(json.dumps(content))
    with pytest.raises(SapbertError, match=code):
        read_ranker(tmp_path / "ranker.json")


def test_a_cut_file_is_refused(folder: Path, tmp_path: Path) -> None:
    cut = copied(folder, tmp_path / "cut", None)
    (cut / "ranker.json").write_text((folder / "ranker.json").read_text()[:100])
    with pytest.raises(SapbertError, match=r"\[E048\].*cut"):
        linker(cut).load()


def test_a_weight_for_each_feature() -> None:
    with pytest.raises(ValueError, match="5 weights for 9 features"):
        Ranker((1.0, 0.0, 0.0, 0.0, 0.0), "e", "hand")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    ranker = Ranker(tuple(0.1 * (i + 1) for i in range(len(FEATURES))), "e", "ward 7, März")
    (tmp_path / "ranker.json").write_text(ranker.to_json(), encoding="utf-8")
    assert read_ranker(tmp_path / "ranker.json") == ranker
    assert read_ranker(tmp_path / "ranker.json").fingerprint == ranker.fingerprint
    assert replace(ranker, weights=(2.0, *ranker.weights[1:])).fingerprint != ranker.fingerprint


def test_a_ranker_of_an_earlier_version_is_used(folder: Path, tmp_path: Path) -> None:
    """It has five features. Its fingerprint is the same as before, so that the calibration of its linker still fits."""
    earlier = (1.0, 0.15, -0.08, -0.07, -0.14)
    content = {**json.loads((folder / "ranker.json").read_text()), "features": FEATURES[:5], "weights": earlier}
    old = copied(folder, tmp_path / "old", None)
    (old / "ranker.json").write_text(json.dumps(content))
    component = linker(old)
    assert component.ranker.weight_of_all == (*earlier, *[0.0] * (len(FEATURES) - 5))
    assert component.ranker.fingerprint == hashlib.blake2b(repr((FEATURES[:5], earlier)).encode(), digest_size=16).hexdigest()
    assert list(component(gold("sudden heart attak", "X")).ents[0]._.kb_explain["rank"]) == ["score", *FEATURES[:5]]
    component.bundle.save(tmp_path / "saved")
    assert read_ranker(tmp_path / "saved" / "ranker.json") == component.ranker


# -- training -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def annotated(folder: Path) -> list[Doc]:
    """Return Docs with names plus one word, annotated with the right concept, and some of them with a wrong one."""
    component = linker(folder)
    names = [(entity.canonical_name, cui) for cui, entity in component.kb.cui_to_entity.items()]
    words = ["today", "since Monday", "of the left side", "suspected", "recurrent"]
    return [gold(f"{name} {word}", cui) for name, cui in names for word in words]


def test_a_linker_learns_from_docs(folder: Path, annotated: list[Doc], tmp_path: Path) -> None:
    none = copied(folder, tmp_path / "none", None)
    component = linker(none)
    assert len(annotated) >= FEWEST
    made = component.train_ranker(annotated, fit_on="ward 7")
    assert made.weights[0] == 1.0
    assert (made.fit_on, made.encoder) == ("ward 7", component.model.fingerprint)
    assert component.calibration is None
    again = linker(none).train_ranker(annotated, fit_on="ward 7")
    assert again == made  # the same data, the same ranker
    nlp = spacy.blank("en")
    kept = nlp.add_pipe("sapbert_linker", config={"linker_name": str(none), "threshold": 0.3})
    kept.bundle = component.bundle
    nlp.to_disk(tmp_path / "saved")
    loaded: Any = spacy.load(tmp_path / "saved").get_pipe("sapbert_linker")
    assert loaded.ranker == made
    mention = annotated[7].text
    assert loaded(gold(mention, "X")).ents[0]._.kb_ents == component(gold(mention, "X")).ents[0]._.kb_ents
    unpacked: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(none)})
    unpacked.from_bytes(kept.to_bytes())
    assert unpacked.ranker == made


def test_a_calibration_belongs_to_its_ranker(folder: Path, annotated: list[Doc], tmp_path: Path) -> None:
    own = copied(folder, tmp_path / "own", read_ranker(folder / "ranker.json"))
    component = linker(own)
    wrong = [gold(text, "NIL") for text in ("Lisbon", "a garden gate", "blue paint")]
    calibration = component.calibrate([*annotated, *wrong], fit_on="hand")
    assert calibration.built_for["ranker"] == component.ranker.fingerprint
    component.bundle.save(own)
    assert linker(own).calibration == calibration
    weights = (1.0, *(2.0 for _ in FEATURES[1:]))
    (own / "ranker.json").write_text(replace(component.ranker, weights=weights).to_json())
    with pytest.warns(SapbertWarning, match=r"\[W002\].*ranker"):
        assert linker(own).calibration is None


def test_training_is_refused(folder: Path, annotated: list[Doc]) -> None:
    component = linker(folder)
    before = component.ranker
    with pytest.raises(SapbertError, match=r"\[E014\]"):
        component.train_ranker([spacy.blank("en")("nothing here")], fit_on="x")
    with pytest.raises(SapbertError, match=r"\[E016\]"):
        component.train_ranker([gold("heart attak", "Q1")], fit_on="x")
    with pytest.raises(SapbertError, match=r"\[E047\] A ranker can't be trained on these 20"):
        component.train_ranker(annotated[:20], fit_on="x")
    with pytest.raises(SapbertError, match=r"\[E002\].*with this value no ranker is used"):
        linker(folder, rank="cosine").train_ranker(annotated, fit_on="x")
    assert component.ranker is before


def test_a_ranker_of_another_version_is_not_used(folder: Path, tmp_path: Path) -> None:
    old = copied(folder, tmp_path / "old", None)
    content = {**json.loads((folder / "ranker.json").read_text()), "features": ["cosine", "width"]}
    (old / "ranker.json").write_text(json.dumps(content))
    component = linker(old)
    with pytest.warns(SapbertWarning, match="W011"):
        component.load()
    assert component.ranker is None


def test_a_ranker_is_kept_by_an_update_and_by_a_copy_for_a_process(folder: Path, tmp_path: Path) -> None:
    own = copied(folder, tmp_path / "own", replace(read_ranker(folder / "ranker.json"), weights=(1.0, 0.5, *WEIGHTS[2:])))
    component = linker(own)
    assert pickle.loads(pickle.dumps(component)).ranker == component.ranker
    updated, _ = update_linker(own, [read_source(DATA / "tiny_clinic.tsv")], tmp_path / "new", progress=False)
    assert read_ranker(updated / "ranker.json") == component.ranker


def test_an_encoder_without_a_fingerprint_has_no_ranker(folder: Path, annotated: list[Doc]) -> None:
    component = linker(folder)
    component.load()
    component.model.fingerprint = ""
    with pytest.raises(SapbertError, match=r"\[E051\]"):
        component.train_ranker(annotated, fit_on="x")


@pytest.mark.parametrize(
    ("calibration", "inputs"), [("OPEN_CALIBRATION", "open_inputs"), ("HPO_FAST_CALIBRATION", "hpo_fast_inputs"), ("HPO_CALIBRATION", "hpo_inputs")]
)
def test_the_calibrations_that_ship_were_fit_with_the_ranker_that_ships(calibration: str, inputs: str) -> None:
    built_for = read_calibration(getattr(default_linkers, calibration)).built_for
    assert {key: built_for.get(key) for key in getattr(default_linkers, inputs)()} == getattr(default_linkers, inputs)()


@pytest.mark.e2e
def test_the_command_trains_and_removes_the_calibration(folder: Path, annotated: list[Doc], tmp_path: Path) -> None:
    own = copied(folder, tmp_path / "own", read_ranker(folder / "ranker.json"))
    component = linker(own)
    component.calibrate([*annotated, *(gold(text, "NIL") for text in ("Lisbon", "a garden gate"))], fit_on="hand")
    component.bundle.save(own)
    assert (own / "calibration.json").is_file()
    (own / "ranker.json").write_text("{")  # a damaged file: the command warns and replaces it
    DocBin(docs=annotated).to_disk(tmp_path / "gold.spacy")
    command = [sys.executable, "-m", "spacy_sapbert", "train-ranker", str(own), str(tmp_path / "gold.spacy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[E048]" in done.stderr
    assert f"Written: {own / 'ranker.json'}" in done.stdout
    assert "The calibration was removed" in done.stdout
    assert not (own / "calibration.json").is_file()
    assert read_ranker(own / "ranker.json").fit_on == "gold.spacy"
