"""The calibration: its formulas by hand, the fit, and a linker that uses it."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from typer.testing import CliRunner

from spacy_sapbert import bundle, render
from spacy_sapbert.build import default_linkers
from spacy_sapbert.calibration import FEATURES, PULL, SPREAD, USUAL, Calibration, Evidence, Observed, fit_calibration, read_calibration
from spacy_sapbert.cli import app
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import DamagedFile, SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.linker import SapBertLinker
from spacy_sapbert.registry import registry

pytestmark = pytest.mark.usefixtures("one_thread")
BLANK = spacy.blank("en")
ODD = ["Lisbon", "Monday", "the garden gate", "blue paint", "chess", "two bananas", "a long letter", "winter coat", "radio", "violin"]


NO_MORE = (0.0,) * 7  # weights of the features after score, margin and exact match


def made(probabilities: List[float], right: List[bool], behind: List[float]) -> Calibration:
    return Calibration((-1.0, 2.0, 3.0, 0.5, *NO_MORE), "hand", {"encoder": "e", "kb": "k"}, {}, tuple(probabilities), tuple(right), tuple(behind))


# -- by hand ------------------------------------------------------------------------------------------------------------


def test_probability():
    by_hand = made([0.5], [True], [0.0])
    steep = replace(by_hand, weights=(0.0, 1e6, 0.0, 0.0, *NO_MORE))
    assert (steep.probability(Evidence(-1.0, 0.0, False)), steep.probability(Evidence(1.0, 0.0, False))) == (0.0, 1.0)  # no overflow
    assert by_hand.probability(Evidence(0.8, 0.1, False)) == pytest.approx(1 / (1 + math.exp(-(-1 + 1.6 + 0.3))))
    wide = by_hand.probability(Evidence(0.8, 0.5, True))
    assert wide == pytest.approx(1 / (1 + math.exp(-(-1 + 1.6 + 0.6 + 0.5))))  # a margin above 0.2 counts as 0.2


def test_features_of_the_evidence():
    plain = Evidence(0.8, 0.1, False)
    assert dict(zip(FEATURES, plain.features())) == {**dict.fromkeys(FEATURES, 0.0), "score": 0.8, "margin": 0.1}
    rich = Evidence(1.0, 0.0, True, synonym=True, other_form=True, weak_name=True, acronym=True, short=True, vocabularies=2)
    assert dict(zip(FEATURES, rich.features())) == {**dict.fromkeys(FEATURES, 1.0), "margin": 0.0, "vocabularies": pytest.approx(math.log(3))}
    assert rich._replace(vocabularies=3).features() == rich._replace(vocabularies=9).features()  # more than three do not count
    assert plain._replace(margin=1e-5).features()[6] == 0.0  # only a margin of 0 is a tie


def test_each_weight_counts_for_its_feature():
    """With the weight 2 for one feature and 0 for all others, the log odds are twice this feature."""
    rich = Evidence(0.9, 0.0, True, synonym=True, other_form=True, weak_name=True, acronym=True, short=True, vocabularies=1)
    for i, value in enumerate(rich.features()):
        weights = [0.0] * (1 + len(FEATURES))
        weights[1 + i] = 2.0
        p = replace(made([0.5], [True], [0.0]), weights=tuple(weights)).probability(rich)
        assert p == pytest.approx(1 / (1 + math.exp(-2 * value)))


def test_lowest_probability_for_a_precision():
    """With one more wrong link, the precision of the first 1 … 7 links is 1/2 2/3 3/4 4/5 4/6 4/7 4/8."""
    seven = made([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], [True] * 4 + [False] * 3, [0.0])
    assert seven.lowest(0.8) == 0.6
    assert seven.lowest(0.6) == 0.5
    assert seven.lowest(0.5) == 0.3
    with pytest.raises(SapbertError, match=r"\[E011\] target_precision = 0.81 .* 7 mentions .*\(hand\): at most 0.800"):
        seven.lowest(0.81)


def test_equally_probable_links_stay_together():
    tied = made([0.9, 0.8, 0.8], [True, True, False], [0.0])  # 1/2, (2/3,) 2/4
    with pytest.raises(SapbertError, match=r"at most 0\.500"):
        tied.lowest(0.6)


def test_score_gap_for_a_coverage():
    """For six mentions, the gap is the ceil(7 c)-th smallest."""
    six = made([0.5], [True], [0.2, 0.0, math.inf, 0.0, 0.1, 0.0])
    assert [six.score_gap(c) for c in (0.1, 0.4, 0.5, 0.7)] == [0.0, 0.0, 0.1, 0.2]
    with pytest.raises(SapbertError, match=r"\[E011\] coverage = 0.8 .* at most 0.714"):
        six.score_gap(0.8)
    hundred = made([0.5], [True], [float(i) for i in range(99)])
    assert hundred.score_gap(0.55) == 54.0  # the 55th, although 100 * 0.55 is more than 55 in floating point
    with pytest.raises(SapbertError, match="E011"):
        made([0.5], [True], [0.0]).score_gap(0.9)  # it would need the second smallest of one


def test_the_farthest_mention_can_be_reached():
    """For three mentions, ceil(4 * 0.75) = 3, so the last one is enough."""
    three = made([0.5], [True], [0.1, 0.2, 0.3])
    assert three.score_gap(0.75) == 0.3
    with pytest.raises(SapbertError, match=r"\(hand\)"):
        three.score_gap(0.8)


def test_conformal_sets_cover_what_was_asked():
    """On fresh draws from the same distribution, on average over calibrations."""
    chance = np.random.default_rng(0)
    covered = [np.mean(chance.exponential(size=200) <= made([0.5], [True], list(chance.exponential(size=60))).score_gap(0.8)) for _ in range(300)]
    assert np.mean(covered) == pytest.approx(math.ceil(61 * 0.8) / 61, abs=0.01)


# -- the fit and the file -----------------------------------------------------------------------------------------------


def drawn(n: int, seed: int = 0) -> List[Observed]:
    """Draw mentions that are right with the probability from the weights (-6, 8, 5, 1)."""
    chance = np.random.default_rng(seed)
    rows = []
    for score, margin, exact, luck in zip(chance.uniform(0.4, 1, n), chance.uniform(0, 0.2, n), chance.random(n) < 0.3, chance.random(n)):
        right = luck < 1 / (1 + math.exp(-(-6 + 8 * score + 5 * margin + exact)))
        rows.append(Observed(Evidence(float(score), float(margin), bool(exact)), bool(right), 0.0 if right else None))
    return rows


def test_the_fit_finds_the_weights_that_made_the_data():
    found = fit_calibration(drawn(40_000), fit_on="drawn", built_for={}, settings={})
    assert found.weights[:4] == pytest.approx((-6, 8, 5, 1), abs=0.4)
    assert found.weights[4:] == pytest.approx(USUAL[3:], abs=1e-6)  # no mention has these features, so nothing moves their weights
    assert np.mean(found.probabilities) == pytest.approx(np.mean(found.right), abs=1e-4)  # a property of maximum likelihood with an intercept
    assert len(found.behind) == sum(found.right)  # None: the right concept is not in the knowledge base
    fresh = drawn(20_000, seed=1)
    p = np.array([found.probability(row.evidence) for row in fresh])
    for low in (0.2, 0.5, 0.8):
        inside = (p >= low) & (p < low + 0.1)
        assert np.mean([row.right for row, ok in zip(fresh, inside) if ok]) == pytest.approx(low + 0.05, abs=0.04)


@pytest.mark.parametrize("rows", [[], drawn(49), [row._replace(right=True) for row in drawn(60)]])
def test_too_little_to_fit_on(rows: List[Observed]):
    with pytest.raises(SapbertError, match=r"\[E012\].*at least 50"):
        fit_calibration(rows, fit_on="", built_for={}, settings={})


def test_fifty_mentions_are_enough_and_fewer_are_counted():
    fifty = drawn(50)
    assert len(fit_calibration(fifty, fit_on="", built_for={}, settings={}).right) == 50
    with pytest.raises(SapbertError, match=rf"\[E012\].*\b49\b.*\b{sum(row.right for row in fifty[:49])}\b"):
        fit_calibration(fifty[:49], fit_on="", built_for={}, settings={})


def test_the_weights_are_where_the_penalised_likelihood_is_flat():
    """At the optimum, the sum of (right - p) x feature is pull x spread^2 x (weight - usual weight), and 0 for the intercept, which is free."""
    rows = drawn(400)
    found = fit_calibration(rows, fit_on="", built_for={}, settings={})
    missing = np.array(found.right) - np.array(found.probabilities)
    features = np.array([(1.0, *row.evidence.features()) for row in rows])
    wanted = [0.0, *(PULL * spread**2 * (weight - usual) for weight, usual, spread in zip(found.weights[1:], USUAL, SPREAD))]
    assert missing @ features == pytest.approx(np.array(wanted), abs=1e-3)


def test_few_mentions_keep_the_usual_weights_and_many_do_not():
    """Fifty mentions that contradict the usual weights move them little; 20,000 move them to what made the data."""
    rows = [row._replace(evidence=row.evidence._replace(acronym=i % 2 == 0)) for i, row in enumerate(drawn(20_000, seed=3))]
    few, many = (fit_calibration(rows[:n], fit_on="", built_for={}, settings={}).weights[1:] for n in (50, 20_000))
    true = (8, 5, 1, *USUAL[3:7], 0.0, *USUAL[8:])  # acronyms are as often right as others
    assert few == pytest.approx(USUAL, abs=1.5)
    assert many == pytest.approx(true, abs=0.6)


def test_a_fit_without_usual_weights():
    """With no pull and usual weights of 0, features that no mention has get the weight 0."""
    found = fit_calibration(drawn(4_000), fit_on="", built_for={}, settings={}, usual=(0.0,) * len(FEATURES), pull=1e-6)
    assert found.weights[1:4] == pytest.approx((8, 5, 1), abs=1.5)
    assert found.weights[4:] == pytest.approx(NO_MORE, abs=1e-6)


def test_what_a_message_says_is_reached_is_reached():
    """1,999 right links and one added wrong link give 1,999 of 2,000, so the message must not say 1.000."""
    with pytest.raises(SapbertError, match=r"at most 0\.999\b"):
        made([0.5] * 1999, [True] * 1999, [0.0]).lowest(0.9999)


def test_file_there_and_back(tmp_path: Path):
    before = fit_calibration(drawn(80), fit_on="drawn", built_for={"kb": "k"}, settings={"k": 30})
    before = replace(before, behind=(0.0, math.inf, 0.25))
    (tmp_path / "c.json").write_text(before.to_json())
    assert read_calibration(tmp_path / "c.json") == before
    assert "Infinity" not in before.to_json()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda c: "{", "E015"),
        (lambda c: "[]", "E015"),
        (lambda c: json.dumps({**c, "weights": [float("nan")] * 4}), "E015"),
        (lambda c: json.dumps({**c, "probabilities": [7.0, 0.1]}), "E015"),
        (lambda c: json.dumps({**c, "behind": [-3.0]}), "E015"),
        (lambda c: json.dumps({**c, "behind": [float("nan")]}), "E015"),
        (lambda c: json.dumps({**c, "right": ["False", "True"]}), "E015"),
        (lambda c: json.dumps({**c, "kind": "linker"}), "E106"),
        (lambda c: json.dumps({**c, "format": 3}), "E106"),
        (lambda c: json.dumps({**c, "format": 1}), "E015"),
        (lambda c: json.dumps({**c, "features": c["features"][:3]}), "E015"),
        (lambda c: json.dumps({**c, "weights": [1.0]}), "E015"),
        (lambda c: json.dumps({**c, "right": [True]}), "E015"),
        (lambda c: json.dumps({key: value for key, value in c.items() if key != "behind"}), "E015"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, change: Callable[[Any], str], code: str):
    content = json.loads(made([0.5, 0.6], [True, False], [0.0]).to_json())
    (tmp_path / "c.json").write_text(change(content))
    with pytest.raises(SapbertError, match=code) as error:
        read_calibration(tmp_path / "c.json")
    assert str(tmp_path / "c.json") in str(error.value)
    assert isinstance(error.value, DamagedFile) == (code == "E015")


def test_a_damaged_file_says_what_is_wrong(tmp_path: Path):
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"JSONDecodeError: Expecting property name"):
        read_calibration(tmp_path / "c.json")
    content = json.loads(made([0.5, 0.6], [True, False], [0.0]).to_json())
    (tmp_path / "c.json").write_text(json.dumps({**content, "format": 3}))
    with pytest.raises(SapbertError, match=r"E106.*3.*2"):
        read_calibration(tmp_path / "c.json")
    (tmp_path / "c.json").write_text(json.dumps({**content, "right": "all"}))
    with pytest.raises(DamagedFile, match=r"E015.*right"):
        read_calibration(tmp_path / "c.json")


def test_a_file_of_the_first_format(tmp_path: Path):
    """It has weights for score, margin and exact match; the other features do not count."""
    content = json.loads(made([0.5, 0.6], [True, False], [0.0]).to_json())
    old = {**content, "format": 1, "features": ["score", "margin", "exact"], "weights": [-1.0, 2.0, 3.0, 0.5]}
    (tmp_path / "c.json").write_text(json.dumps(old))
    found = read_calibration(tmp_path / "c.json")
    assert found == made([0.5, 0.6], [True, False], [0.0])
    rich = Evidence(0.8, 0.0, True, synonym=True, acronym=True, short=True, vocabularies=2)
    assert found.probability(rich) == pytest.approx(1 / (1 + math.exp(-(-1 + 1.6 + 0.5))))


def test_a_file_is_utf_8_as_it_stands(tmp_path: Path):
    text = replace(made([0.5], [True], [0.0]), fit_on="Kopfschmerzen in Köln").to_json()
    assert "Köln" in text
    (tmp_path / "c.json").write_bytes(text.encode("utf-8"))
    assert read_calibration(tmp_path / "c.json").fit_on == "Kopfschmerzen in Köln"


# -- in a linker --------------------------------------------------------------------------------------------------------


def gold(text: str, kb_id: str) -> Doc:
    doc = BLANK.make_doc(text)
    doc.ents = [Span(doc, 0, len(doc), label="PROBLEM", kb_id=kb_id)]
    return doc


@pytest.fixture(scope="module")
def linker(tiny_linker: Path) -> Any:
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.5})
    linker.load()
    return linker


@pytest.fixture(scope="module")
def other(linker: SapBertLinker, tiny_linker: Path) -> Callable[..., SapBertLinker]:
    def build(folder: Path = tiny_linker, **settings: Any) -> SapBertLinker:
        other = SapBertLinker(linker.model, linker.index, "other", **{"threshold": 0.5, **settings})
        other.set_folder(folder, exclude=["model", "index"])
        return other

    return build


@pytest.fixture(scope="module")
def annotated(linker: Any) -> List[Doc]:
    """Return Docs with names plus one word, and with words that are not a concept."""
    names = [(entity.canonical_name, cui) for cui, entity in linker.kb.cui_to_entity.items()]
    return [gold(f"{name} today", cui) for name, cui in names] + [gold(word, "NIL") for word in ODD]


def test_no_calibration_no_probability(linker: Any):
    doc = linker(gold("heart attacks", ""))
    assert linker.calibration is None
    assert doc.ents[0]._.kb_prob is None
    assert "probability" not in doc.ents[0]._.kb_explain


def test_observed_mentions(linker: Any, monkeypatch: pytest.MonkeyPatch):
    right, wrong, unknown, composite, retired = linker.observe(
        [
            gold("congestive heart failure", "C9100002"),
            gold("congestive heart failure", "C9100001"),
            gold("congestive heart failure", "NIL"),
            gold("congestive heart failure", "C9100002+C9100001"),
            gold("congestive heart failure", "X1|C9100002"),
        ]
    )
    assert (right.evidence.score, right.evidence.exact, right.right, right.behind, right.concept) == (1.0, True, True, 0.0, "C9100002")
    assert retired == right
    assert (wrong.right, wrong.evidence.score) == (False, 1.0)
    monkeypatch.setattr(linker, "threshold", 0.2)  # so that the wrong concept is a candidate
    assert wrong.behind == pytest.approx(1.0 - dict(linker(gold("congestive heart failure", "")).ents[0]._.kb_ents)["C9100001"], abs=2e-5)
    assert (unknown.right, unknown.behind) == (False, None)
    assert (composite.right, composite.behind) == (False, None)
    assert 0 < right.evidence.margin < 1
    assert linker.observe([gold("fever", "")]) == []
    example = Example(BLANK.make_doc("fever"), gold("fever", "C9100001"))
    assert len(linker.observe([example])) == 1


def test_evidence_for_a_mention(linker: Any):
    """What the names of the tiny linker say: canonical name, synonym, acronym of two concepts, narrower name, plural, no name."""

    def evidence(text: str) -> Evidence:
        return linker.observe([gold(text, "C9100002")])[0].evidence

    name = evidence("congestive heart failure")
    assert name[2:] == (True, False, False, False, False, False, 3)  # ICD10CM, SNOMEDCT_US, and UMLS for the CUI
    assert evidence("decompensated heart failure")[2:5] == (True, True, False)
    acronym = evidence("ms")
    assert (acronym.margin, acronym.synonym, acronym.acronym, acronym.short) == (0.0, True, True, True)
    narrower = evidence("left wandering knee")
    assert (narrower.synonym, narrower.weak_name, narrower.acronym, narrower.short) == (True, True, False, False)
    assert evidence("lung inflammations")[2:5] == (True, True, True)
    near = evidence("congestive heart failure today")
    assert (near.exact, near.synonym, near.other_form) == (False, False, False)
    assert linker.observe([gold("???", "C9100002")])[0] == Observed(Evidence(-1.0, 0.0, False), False, math.inf)


def test_evidence_does_not_depend_on_threshold_or_batch(other: Any, annotated: List[Doc]):
    low, high = other(threshold=0.1), other(threshold=0.99)
    assert low.observe(annotated) == high.observe(annotated)
    assert [row.evidence.exact for doc in annotated[:5] for row in low.observe([doc])] == [row.evidence.exact for row in low.observe(annotated[:5])]
    for each, together in zip([row for doc in annotated[:5] for row in low.observe([doc])], low.observe(annotated[:5])):
        assert each.evidence.features() == pytest.approx(together.evidence.features(), abs=2e-5)


def test_calibrate_writes_probabilities(other: Any, annotated: List[Doc]):
    linker = other()
    found = linker.calibrate(annotated, fit_on="invented notes")
    assert linker.calibration is found
    assert found.fit_on == "invented notes"
    assert found.built_for == {"encoder": linker.model.fingerprint, "kb": linker.kb.fingerprint, "ranker": linker.ranker.fingerprint}
    assert len(found.right) == len(annotated)
    (known,) = linker(gold("heart attacks", "")).ents
    assert known._.kb_prob == known._.kb_explain["probability"]
    (row,) = linker.observe([gold("heart attacks", "C9100003")])
    assert known._.kb_prob == pytest.approx(found.probability(row.evidence), abs=1e-5)
    (odd,) = linker(gold("Lisbon", "")).ents
    assert odd._.kb_prob is None  # there is no link
    assert odd._.kb_explain["probability"] < 0.5 < known._.kb_prob


def test_target_precision_decides_instead_of_the_threshold(other: Any, annotated: List[Doc]):
    linker = other(threshold=0.999)
    assert linker(gold("heart attacked", "")).ents[0].kb_id_ == ""
    linker.calibrate(annotated, fit_on="invented notes")
    linker.set_targets(target_precision=0.9)
    lowest = linker.calibration.lowest(0.9)
    docs = [linker(gold(doc.text, "")) for doc in annotated]
    linked = [(doc.ents[0].kb_id_, given.ents[0].kb_id_) for doc, given in zip(docs, annotated) if doc.ents[0].kb_id_]
    assert len(linked) == sum(p >= lowest for p in linker.calibration.probabilities)
    assert np.mean([found == right for found, right in linked]) >= 0.9
    assert all((doc.ents[0]._.kb_explain["probability"] >= round(lowest, 5)) == bool(doc.ents[0].kb_id_) for doc in docs)
    explain = docs[0].ents[0]._.kb_explain
    assert (explain["threshold"], explain["target_precision"], explain["least_probability"]) == (None, 0.9, round(lowest, 5))
    linker.set_targets()
    assert linker(gold("heart attacked", "")).ents[0].kb_id_ == ""


def test_coverage_gives_candidates_without_a_link_too(other: Any, annotated: List[Doc]):
    linker = other(threshold=0.999, k=60)
    linker.calibrate(annotated, fit_on="invented notes")
    linker.set_targets(coverage=0.8)
    score_gap = linker.calibration.score_gap(0.8)
    hits = 0
    for each in annotated[: -len(ODD)]:
        (ent,) = linker(gold(each.text, "")).ents
        assert ent.kb_id_ == ""
        assert ent._.kb_prob is not None
        top = ent._.kb_ents[0][1]
        assert all(top - score <= score_gap + 1e-5 for _, score in ent._.kb_ents)
        hits += each.ents[0].kb_id_ in dict(ent._.kb_ents)
    assert hits / (len(annotated) - len(ODD)) >= 0.8
    (exact,) = linker(gold("congestive heart failure", "")).ents
    assert exact.kb_id_ == exact._.kb_ents[0][0] == "C9100002"


def test_without_a_calibration_targets_are_refused(other: Any, tiny_linker: Path):
    with pytest.raises(SapbertError, match=r"\[E010\] Setting 'target_precision' of 'other' needs a calibration"):
        other(target_precision=0.9)
    linker = other()
    with pytest.raises(SapbertError, match=r"\[E010\] Setting 'coverage'"):
        linker.set_targets(coverage=0.9)
    assert linker.coverage is None
    with pytest.raises(SapbertError, match=r"\[E014\].*doc.ents"):
        linker.calibrate([gold("fever", "")], fit_on="")


def test_calibrate_and_set_targets_on_a_linker_that_has_targets_and_no_calibration_yet(linker: Any, annotated: List[Doc], tiny_linker: Path):
    """This is what E010 tells the user to do."""
    eager = SapBertLinker(linker.model, linker.index, "eager", linker_name=str(tiny_linker), target_precision=0.8)
    assert len(eager.observe(annotated)) == len(annotated)
    with pytest.raises(SapbertError, match="E010"):
        eager(gold("fever", ""))
    eager = SapBertLinker(linker.model, linker.index, "eager", linker_name=str(tiny_linker), target_precision=0.8)
    eager.set_targets()
    assert eager(gold("congestive heart failure", "")).ents[0].kb_id_ == "C9100002"
    eager = SapBertLinker(linker.model, linker.index, "eager", linker_name=str(tiny_linker), target_precision=0.8)
    made = eager.calibrate(annotated, fit_on="invented notes")
    (ent,) = eager(gold("congestive heart failure", "")).ents
    assert ent._.kb_explain["least_probability"] == round(made.lowest(0.8), 5)


def test_gold_ids_that_the_knowledge_base_lacks_are_told(other: Any, annotated: List[Doc]):
    strange = [gold("odd ill", "X:1"), gold("odd ill", "X:1"), gold("fever", "X:2+X:3")]
    with pytest.warns(UserWarning, match=r"\[W005\] 3 of \d+ gold ids .*\(X:1, X:2\+X:3\)"):
        other().calibrate([*annotated, *strange], fit_on="invented notes")
    with pytest.raises(
        SapbertError, match=r"\[E016\] None of the 3 gold ids .*\(X:1, X:2\+X:3\).* of X \(4\); the knowledge base has UMLS, .*such as"
    ):
        other().calibrate(strange, fit_on="invented notes")


def test_other_settings_than_it_was_fit_with_are_told(other: Any, annotated: List[Doc], tmp_path: Path):
    linker = other()
    linker.calibrate(annotated, fit_on="invented notes")
    linker.to_disk(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other(tmp_path / "linker", threshold=0.9)
    with pytest.warns(UserWarning, match=r"\[W004\].*k=30, not 2.*exact_match=True, not False"):
        assert other(tmp_path / "linker", k=2, exact_match=False).calibration is not None


def test_settings_that_change_later_are_told_at_the_users_line(other: Any, annotated: List[Doc]):
    linker = other()
    with pytest.warns(UserWarning, match="W005") as told:
        linker.calibrate([*annotated, gold("odd ill", "X:1")], fit_on="invented notes")
    assert [each.filename for each in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.threshold = 0.6  # scores do not depend on the threshold
    with pytest.warns(UserWarning, match=r"\[W004\].*k=30, not 7") as told:
        linker.k = 7
    assert [each.filename for each in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker.threshold = 0.7  # the warning about k was already given


def test_observe_opens_the_linker_once(linker: Any, annotated: List[Doc], tiny_linker: Path, monkeypatch: pytest.MonkeyPatch):
    opened: List[Any] = []
    real = bundle.LinkerBundle.open
    monkeypatch.setattr(bundle.LinkerBundle, "open", lambda folder, *args, **more: opened.append(folder) or real(folder, *args, **more))
    made = SapBertLinker(linker.model, linker.index, "made", linker_name=str(tiny_linker), target_precision=0.8)
    assert len(made.observe(annotated)) == len(made.observe(iter(annotated))) == len(annotated)
    made.calibrate(iter(annotated), fit_on="invented notes")
    assert made(gold("congestive heart failure", "")).ents[0].kb_id_ == "C9100002"
    assert [Path(folder) for folder in opened] == [tiny_linker]


def test_the_row_of_a_link_that_someone_else_made_has_no_probability(other: Any, annotated: List[Doc]):
    linker = other(overwrite=False)
    linker.calibrate(annotated, fit_on="invented notes")
    (mine,) = render.rows(linker(gold("heart attacks", "")), linker.kb)
    (theirs,) = render.rows(linker(gold("heart attacks", "C9100001")), linker.kb)
    assert (mine["cui"], theirs["cui"]) == ("C9100003", "C9100001")
    assert mine["probability"] > 0.5
    assert theirs["probability"] is None
    page = render.to_html([(linker(gold("heart attacks", "")), "note")], linker.kb, "Notes")
    assert 0.995 <= mine["probability"] < 1
    assert "right with a probability of over 99%" in page


@pytest.mark.parametrize("share", [0, 1, 95, -0.5, True])
def test_shares_are_between_0_and_1(other: Any, share: float):
    for setting in ("target_precision", "coverage"):
        with pytest.raises(SapbertError, match=rf"\[E002\] Setting '{setting}'"):
            other(**{setting: share})


def test_what_can_not_be_reached_changes_nothing(other: Any, annotated: List[Doc]):
    linker = other()
    linker.calibrate(annotated, fit_on="invented notes")
    linker.set_targets(target_precision=0.5)
    with pytest.raises(SapbertError, match=r"\[E011\] target_precision = 0.999"):
        linker.set_targets(target_precision=0.999)
    assert linker.target_precision == 0.5
    assert linker(gold("heart attacks", "")).ents[0]._.kb_explain["target_precision"] == 0.5


def test_kept_in_the_pipelines_files_and_in_workers(other: Any, annotated: List[Doc], tmp_path: Path):
    linker = other()
    linker.calibrate(annotated, fit_on="invented notes")
    expected = linker(gold("heart attacks", "")).ents[0]._.kb_prob
    linker.set_targets(target_precision=0.8)
    copy = pickle.loads(pickle.dumps(linker))  # the calibration is not on disk yet
    assert (copy.calibration, copy.target_precision, copy.search.least_probability) == (linker.calibration, 0.8, linker.search.least_probability)
    linker.to_disk(tmp_path / "pipe")
    assert (tmp_path / "pipe" / "linker" / "calibration.json").is_file()
    again = other(tmp_path / "pipe" / "linker")
    assert again.calibration == linker.calibration
    assert again(gold("heart attacks", "")).ents[0]._.kb_prob == pytest.approx(expected, abs=1e-4)
    assert other().from_bytes(linker.to_bytes(exclude=["model", "index"]), exclude=["model", "index"]).calibration == linker.calibration
    other().to_disk(tmp_path / "pipe")  # a linker without a calibration, saved into the same folder
    assert not (tmp_path / "pipe" / "linker" / "calibration.json").exists()


def test_a_calibration_of_other_parts_is_left_out_with_a_warning(other: Any, annotated: List[Doc], tmp_path: Path):
    linker = other()
    linker.calibrate(annotated, fit_on="invented notes")
    linker.to_disk(tmp_path)
    folder = tmp_path / "linker"
    bundle.write_calibration(folder, replace(linker.calibration, built_for={**linker.calibration.built_for, "encoder": "another"}))
    with pytest.warns(UserWarning, match=r"\[W002\].*another encoder: probabilities are left out"):
        assert other(folder).calibration is None
    with pytest.warns(UserWarning, match=r"W002.*another encoder, or the encoder has no fingerprint, so this cannot be checked: prob"):
        bundle.open_calibration(folder, "", linker.kb.fingerprint, linker.ranker.fingerprint)
    with pytest.warns(UserWarning, match="W002"), pytest.raises(SapbertError, match=r"\[E010\].*that was fit for this encoder"):
        other(folder, coverage=0.5)


def test_batches_and_cache_give_the_same(tiny_linker: Path, annotated: List[Doc]):
    linker = SapBertLinker(NameEncoder(dtype="float32"), AnnoyIndex(), "other", threshold=0.5)  # in bfloat16, a vector depends on its batch
    linker.set_folder(tiny_linker)
    linker.calibrate(annotated, fit_on="invented notes")
    linker.set_targets(coverage=0.7)
    single = [linker(gold(doc.text, "")).ents[0] for doc in annotated]
    linker.forget()
    for doc, one in zip(linker.pipe([gold(doc.text, "") for doc in annotated], batch_size=7), single):
        (ent,) = doc.ents
        assert [c for c, _ in ent._.kb_ents] == [c for c, _ in one._.kb_ents]
        assert ent._.kb_prob == pytest.approx(one._.kb_prob, abs=1e-4)


# -- the command, and shipped files -------------------------------------------------------------------------------------


def test_command(other: Any, annotated: List[Doc], tmp_path: Path):
    other().to_disk(tmp_path)
    DocBin(docs=annotated).to_disk(tmp_path / "gold.spacy")
    folder = tmp_path / "linker"
    result = CliRunner().invoke(app, ["calibrate", str(folder), str(tmp_path / "gold.spacy"), "--target-precision", "0.7"])
    assert result.exit_code == 0, result.output
    found = read_calibration(folder / "calibration.json")
    assert found.fit_on == "gold.spacy"
    assert f"{len(annotated)} mentions, {sum(found.right)} with the right link" in result.output
    assert f"a probability of at least {found.lowest(0.7):.3f}" in result.output
    for change, code in ((["nowhere.spacy"], "E401"), (["linker/manifest.json"], "E402"), (["gold.spacy", "--target-precision", "95"], "E002")):
        result = CliRunner().invoke(app, ["calibrate", str(folder), str(tmp_path / change[0]), *change[1:]])
        assert (result.exit_code, code in result.output) == (1, True), result.output
    assert read_calibration(folder / "calibration.json") == found
    result = CliRunner().invoke(app, ["calibrate", str(folder), str(tmp_path / "gold.spacy"), "--target-precision", "0.999"])
    assert (result.exit_code, "[E011]" in result.output) == (0, True)
    (folder / "calibration.json").write_text("{")
    with pytest.raises(SapbertError, match="E015"):
        other(folder)
    result = CliRunner().invoke(app, ["calibrate", str(folder), str(tmp_path / "gold.spacy")])
    assert result.exit_code == 0, result.output
    assert read_calibration(folder / "calibration.json").right == found.right


def test_command_takes_a_registered_name(other: Any, annotated: List[Doc], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other().to_disk(tmp_path)
    DocBin(docs=annotated).to_disk(tmp_path / "gold.spacy")
    monkeypatch.chdir(tmp_path)
    registry.sapbert_linkers.register("mine", func=lambda: tmp_path / "linker")  # type: ignore[attr-defined]
    (tmp_path / "linker" / "calibration.json").unlink(missing_ok=True)
    refused = CliRunner().invoke(app, ["calibrate", "mine", "gold.spacy"])
    assert (refused.exit_code, "[E034]" in refused.stderr) == (1, True), refused.output
    for out in ("mine", "linker/inside", str(default_linkers.cache_folder() / "copy")):  # shared, inside the linker, among the shared ones
        refused = CliRunner().invoke(app, ["calibrate", "mine", "gold.spacy", "--out", out])
        assert (refused.exit_code, "[E002]" in refused.stderr) == (1, True), refused.output
        assert not Path(out).exists()
    copied = CliRunner().invoke(app, ["calibrate", "mine", "gold.spacy", "--out", "copy"])
    assert copied.exit_code == 0, copied.output
    assert "Written: copy/calibration.json" in copied.stdout
    assert (tmp_path / "copy" / "calibration.json").is_file()
    assert not (tmp_path / "linker" / "calibration.json").exists()
    result = CliRunner().invoke(app, ["calibrate", "mine", "gold.spacy", "--shared"])
    assert result.exit_code == 0, result.output
    assert read_calibration(tmp_path / "linker" / "calibration.json").right == read_calibration(tmp_path / "copy" / "calibration.json").right
    assert not (tmp_path / "mine").exists()


def test_a_pipeline_that_asks_for_a_precision_is_loaded_again(tiny_linker: Path, annotated: List[Doc], tmp_path: Path):
    nlp = spacy.blank("en")
    made: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "target_precision": 0.8})
    made.calibrate(annotated, fit_on="invented notes")
    nlp.to_disk(tmp_path)
    again: Any = spacy.load(tmp_path).get_pipe("sapbert_linker")
    assert (again.calibration, again.target_precision) == (made.calibration, 0.8)
    assert again.search.least_probability == made.search.least_probability


@pytest.mark.nightly  # encoding the names of HPO with the transformer takes minutes
def test_the_linker_of_hpo_ships_with_one(hpo_linker_folder: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": "hpo"})
        linker.load()
    assert "gsc-dev" in linker.calibration.fit_on
    inputs = {**default_linkers.hpo_inputs(), "ranker": linker.ranker.fingerprint}  # the build replaces the checksum of the ranker's file
    assert {key: linker.calibration.built_for[key] for key in inputs} == inputs
    (ent,) = linker(gold("low muscle tone", "")).ents
    assert 0.9 < ent._.kb_prob < 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 99), st.booleans()), min_size=5, max_size=60), st.floats(0.0, 0.9), st.floats(0.0, 0.9))
def test_a_higher_precision_never_links_less_probable_mentions(observed: list[tuple[int, bool]], one: float, other: float) -> None:
    fitted = Calibration((0.0, 1.0, 1.0, 1.0, *NO_MORE), "made up", {}, {}, [p / 100 for p, _ in observed], [right for _, right in observed], [])

    def lowest(precision: float) -> float:
        try:
            return fitted.lowest(precision)
        except SapbertError:  # it cannot be reached: nothing is linked
            return 1.0

    lower, higher = sorted((one, other))
    assert lowest(lower) <= lowest(higher)


@given(*[st.floats(-1.0, 1.0)] * 2, *[st.floats(0.0, 0.4)] * 2, st.booleans())
def test_a_higher_score_and_a_wider_margin_are_never_less_probable(score: float, more: float, margin: float, wider: float, exact: bool) -> None:
    fitted = Calibration((-3.0, *USUAL), "made up", {}, {}, [], [], [])
    lower, higher = Evidence(min(score, more), min(margin, wider), exact), Evidence(max(score, more), max(margin, wider), exact)
    assert fitted.probability(lower) <= fitted.probability(higher)
    assert fitted.probability(lower._replace(exact=False)) <= fitted.probability(lower._replace(exact=True))
