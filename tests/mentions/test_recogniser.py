"""The component `clinical_mentions`, with a small network whose weights are set by hand so that it finds the names of the lexicon."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError, SapbertWarning
from spacy_sapbert.matcher.phrases import Phrases
from spacy_sapbert.mentions.features import IN_NAME, WINDOW, hashed, in_names, in_names_of_all, make_lexicon, windows, words_of
from spacy_sapbert.mentions.labels import GROUP_OF, KINDS
from spacy_sapbert.mentions.model import MentionModel, shipped_encoder
from spacy_sapbert.mentions.network import TAGS, MentionNetwork, best_ways, follows, marginals
from spacy_sapbert.mentions.recogniser import ClinicalMentions

PLACES = {"DISO": "problem", "CHEM": "drug", "PROC": "test", "ANAT": "anatomy"}


class Dictionary(MentionNetwork):
    """Give each token the tag of its position in a name, so that exactly the names of the lexicon are found."""

    def forward(self, batch: Any, corpora: Any = None) -> torch.Tensor:
        tags = torch.zeros(IN_NAME, dtype=torch.int64)
        for group, (_, kind) in enumerate(PLACES.items()):
            for place, letter in enumerate("BILU"):
                tags[1 + 4 * group + place] = TAGS.index(f"{letter}-{kind}")
        return 8.0 * torch.nn.functional.one_hot(tags[torch.from_numpy(batch.names)], len(TAGS)).float()


@pytest.fixture(scope="module")
def lexicon() -> Phrases:
    return make_lexicon([("chest pain", "DISO"), ("fever", "DISO"), ("aspirin", "CHEM"), ("chest x-ray", "PROC"), ("left ventricle", "ANAT")])


@pytest.fixture(scope="module")
def model(lexicon: Phrases) -> MentionModel:
    torch.manual_seed(0)
    return MentionModel(Dictionary(width=8, hidden=4), lexicon)


def component(model: Any, nlp: Language | None = None, **settings: Any) -> ClinicalMentions:
    made = ClinicalMentions(nlp or spacy.blank("en"), **settings)
    made._model = model
    return made


def found(made: ClinicalMentions, text: str) -> List[Tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in made(made.nlp.make_doc(text)).ents]


# -- features -------------------------------------------------------------------------------------------------------------


def test_tokens_know_their_place_in_a_name(lexicon: Phrases) -> None:
    doc = spacy.blank("en")("Chest pains, fever; Chest X-ray of the left ventricle.")
    diso, proc, anat = 1, 9, 13
    assert list(zip([t.text for t in doc], in_names(doc, lexicon).tolist())) == [
        ("Chest", diso), ("pains", diso + 2), (",", 0), ("fever", diso + 3), (";", 0),
        ("Chest", proc), ("X", proc + 1), ("-", proc + 1), ("ray", proc + 2), ("of", 0), ("the", 0), ("left", anat), ("ventricle", anat + 2), (".", 0),
    ]  # fmt: skip


def test_a_name_within_a_token_and_two_names_in_one() -> None:
    doc = Doc(spacy.blank("en").vocab, words=["fever/aspirin", "x"], spaces=[True, False])
    assert in_names(doc, make_lexicon([("fever", "DISO"), ("aspirin", "CHEM")])).tolist() == [4, 0]  # the first name is kept


def test_the_lexicon_leaves_out_what_says_nothing() -> None:
    assert len(make_lexicon([("", "DISO"), ("ra", "DISO"), ("1 2", "DISO"), ("- /", "DISO"), ("a b c d e f g h i j k l m", "DISO")])) == 0
    assert make_lexicon([("gout", "GENE")]).names == ("OTHER",)


def test_windows_cover_every_token_once_and_end_at_a_line_where_one_ends() -> None:
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in ("", "a " * 1000, ("word " * 39 + "end . ") * 3, "short")]
    parts = list(windows([words_of(doc) for doc in docs]))
    for number, doc in enumerate(docs):
        mine = [part for part in parts if part.doc == number]
        assert [i for part in mine for i in range(part.start, part.end)] == list(range(len(doc)))
        assert all(0 < part.end - part.start <= WINDOW for part in mine)
    assert [part.end for part in parts if part.doc == 2] == [41, 82, 123]  # not 64, within a sentence


def test_words_have_rows_whatever_they_hold() -> None:
    assert hashed("Aspirin")[:4] == hashed("aspirin")[:4]
    assert hashed("Aspirin")[4] != hashed("aspirin")[4]  # the feature for the shape
    assert len(hashed("x" * 10_000)) == len(hashed("\ud800")) == 5


# -- tag sequences --------------------------------------------------------------------------------------------------------


def test_names_of_several_docs_do_not_cross_them() -> None:
    lexicon = make_lexicon([("chest pain", "DISO"), ("fever", "DISO")])
    docs = [spacy.blank("en")(text) for text in ("fever and chest", "", "pain", "chest pain")]
    assert [each.tolist() for each in in_names_of_all(docs, lexicon)] == [in_names(doc, lexicon).tolist() for doc in docs]
    assert [each.tolist() for each in in_names_of_all(docs, lexicon)] == [[4, 0, 0], [], [0], [1, 3]]


def test_legal_steps() -> None:
    assert follows("O", "B-drug")
    assert follows("B-drug", "L-drug")
    assert not follows("B-drug", "L-test")
    assert not follows("B-drug", "O")
    assert not follows("O", "I-drug")
    assert not follows("L-drug", "L-drug")


def legal(way: Tuple[int, ...]) -> bool:
    tags = [TAGS[t] for t in way]
    return tags[0][0] in "OBU" and tags[-1][0] in "OLU" and all(follows(a, b) for a, b in itertools.pairwise(tags))


def test_best_way_sums_and_marginals_are_those_of_all_ways_counted() -> None:
    """Compare with all 9,261 tag sequences of three tokens, each scored separately."""
    torch.manual_seed(1)
    network = MentionNetwork(width=8, hidden=4)
    torch.nn.init.normal_(network.steps)
    scores = torch.randn(2, 3, len(TAGS))
    lengths = np.array([3, 2])
    sums = network.log_sums(scores, torch.from_numpy(lengths))
    ways = best_ways(scores.numpy(), lengths, network)
    sure = marginals(scores.numpy(), lengths, network)
    steps, points = network.steps.detach().tolist(), scores.tolist()
    for row, length in enumerate(lengths.tolist()):
        every = {
            way: sum(points[row][at][t] for at, t in enumerate(way)) + sum(steps[a][b] for a, b in itertools.pairwise(way))
            for way in itertools.product(range(len(TAGS)), repeat=length)
            if legal(way)
        }
        total = math.log(sum(math.exp(score) for score in every.values()))
        assert float(sums[row].detach()) == pytest.approx(total, abs=1e-3)
        assert tuple(ways[row]) == max(every, key=lambda way: every[way])
        drug = TAGS.index("U-drug")
        share = sum(math.exp(score - total) for way, score in every.items() if way[0] == drug)
        assert math.exp(sure[row, 0, drug]) == pytest.approx(share, abs=1e-3)


def test_loss_is_minus_the_log_share_of_the_allowed_ways() -> None:
    network = MentionNetwork(width=8, hidden=4)
    scores = torch.zeros(1, 1, len(TAGS))
    allowed = torch.zeros(1, 1, len(TAGS), dtype=torch.bool)
    allowed[0, 0, [0, TAGS.index("U-drug")]] = True
    assert float(network.loss(scores, allowed, torch.tensor([1])).detach()) == pytest.approx(
        -math.log(2 / 6), abs=1e-4
    )  # O and five U- tags can be the only tag


# -- the component --------------------------------------------------------------------------------------------------------


def test_finds_mentions_with_the_labels_of_groups_or_kinds(model: MentionModel) -> None:
    text = "Chest pain and fever; aspirin given, chest x-ray: left ventricle large."
    groups = [("Chest pain", "DISO"), ("fever", "DISO"), ("aspirin", "CHEM"), ("chest x-ray", "PROC"), ("left ventricle", "ANAT")]
    assert found(component(model), text) == groups
    back = {"DISO": "problem", "CHEM": "drug", "PROC": "test", "ANAT": "anatomy"}
    assert found(component(model, label="kind"), text) == [(words, back[group]) for words, group in groups]
    assert found(component(model, kinds=["drug", "anatomy"]), text) == [groups[2], groups[4]]
    assert set(GROUP_OF) == set(KINDS)


def test_threshold_leaves_out_what_is_not_sure(model: MentionModel) -> None:
    doc = spacy.blank("en")("chest pain, aspirin")
    pain, aspirin = model.find([doc], scores=True)[0]
    assert 0.9 < aspirin.score < pain.score < 1  # for the pain, one tag makes the other one certain
    assert [m.score for m in model.find([doc])[0]] == [1, 1]
    assert found(component(model, threshold=1.0), doc.text) == []
    assert found(component(model, threshold=(aspirin.score + pain.score) / 2), doc.text) == [("chest pain", "DISO")]
    assert len(found(component(model, threshold=0.5), doc.text)) == 2


def test_span_group_has_scores_and_leaves_entities_alone(model: MentionModel) -> None:
    made = component(model, spans_key="mentions")
    doc = made(made.nlp.make_doc("Fever, then aspirin."))
    assert [span.text for span in doc.spans["mentions"]] == ["Fever", "aspirin"]
    assert len(doc.spans["mentions"].attrs["scores"]) == 2
    assert not doc.ents


@pytest.mark.parametrize(("overwrite", "expected"), [(False, ["pain and fever", "aspirin"]), (True, ["Chest pain", "fever", "aspirin"])])
def test_entities_that_are_there(model: MentionModel, overwrite: bool, expected: List[str]) -> None:
    made = component(model, overwrite=overwrite)
    doc = made.nlp.make_doc("Chest pain and fever; aspirin")
    doc.ents = (Span(doc, 1, 4, label="OLD"),)
    assert [ent.text for ent in made(doc).ents] == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\n\n", "???", "[**Name**]", "CHEST PAIN AND FEVER", "| a | b |\n|---|---|", "Fieber 発熱 лихорадка \U0001f912", "x" * 100_000],
)
def test_odd_notes(model: MentionModel, text: str) -> None:
    made = component(model)
    assert len(found(made, text)) == (2 if text.startswith("CHEST") else 0)


def test_pipe_is_what_one_by_one_is(model: MentionModel) -> None:
    made = component(model)
    texts = ["fever", "", "chest pain " * 60, "nothing here", "aspirin for chest pain. " * 30]
    one = [[(e.start, e.end, e.label_) for e in made(made.nlp.make_doc(text)).ents] for text in texts]
    assert [[(e.start, e.end, e.label_) for e in doc.ents] for doc in made.pipe(map(made.nlp.make_doc, texts), batch_size=2)] == one
    assert len(one[4]) == 60


def test_a_doc_that_fails_is_left_to_the_error_handler(model: MentionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    made = component(model)
    predict, handled = made.predict, []

    def failing(docs: Any) -> Any:
        if any(doc.text == "bad" for doc in docs):
            raise ValueError("no")
        return predict(docs)

    monkeypatch.setattr(made, "predict", failing)
    made.set_error_handler(lambda name, proc, docs, error: handled.append([doc.text for doc in docs]))
    assert [doc.text for doc in made.pipe(map(made.nlp.make_doc, ["fever", "bad", "aspirin"]))] == ["fever", "aspirin"]
    assert handled == [["bad"]]


@pytest.mark.parametrize(("settings", "said"), [({"kinds": ["disease"]}, "problem"), ({"label": "T047"}, "kind"), ({"threshold": 1.5}, "0 to 1")])
def test_wrong_settings(settings: Any, said: str) -> None:
    with pytest.raises(SapbertError, match="E002") as error:
        ClinicalMentions(spacy.blank("en"), **settings)
    assert said in str(error.value)


def test_one_kind_is_not_seven_letters(model: MentionModel) -> None:
    assert found(component(model, kinds="problem"), "fever, aspirin") == [("fever", "DISO")]


# -- files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def random_model(lexicon: Phrases) -> MentionModel:
    """Return a model with random weights, which finds mentions everywhere."""
    torch.manual_seed(3)
    return MentionModel(MentionNetwork(width=8, hidden=4, corpora=2), lexicon)


TEXT = "Fever and chest pain since Monday; echocardiogram of the left ventricle, aspirin 81 mg."


def test_disk_and_bytes_give_the_same_mentions(random_model: MentionModel, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    made = nlp.add_pipe("clinical_mentions")
    made._model = random_model  # type: ignore[attr-defined]
    before = [(e.start, e.end, e.label_) for e in nlp(TEXT).ents]
    assert before
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert [(e.start, e.end, e.label_) for e in loaded(TEXT).ents] == before
    other = spacy.blank("en")
    other.add_pipe("clinical_mentions")
    other.from_bytes(nlp.to_bytes())
    assert [(e.start, e.end, e.label_) for e in other(TEXT).ents] == before
    assert not list(tmp_path.rglob("*.pkl"))


def test_a_folder_can_be_the_model(random_model: MentionModel, tmp_path: Path) -> None:
    random_model.to_disk(tmp_path / "mine")
    nlp = spacy.blank("en")
    nlp.add_pipe("clinical_mentions", config={"model": str(tmp_path / "mine")})
    assert [(e.start, e.end) for e in nlp(TEXT).ents] == [(m.start, m.end) for m in random_model.find([nlp.make_doc(TEXT)])[0]]


def test_adding_reads_nothing(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("clinical_mentions", config={"model": str(tmp_path / "nowhere")})
    with pytest.raises(MissingFile, match="E040"):
        nlp("fever")


@pytest.mark.parametrize("damage", ["config", "weights", "kind"])
def test_damaged_folders(random_model: MentionModel, tmp_path: Path, damage: str) -> None:
    random_model.to_disk(tmp_path / "mine")
    config, weights = tmp_path / "mine" / "config.json", tmp_path / "mine" / "model.safetensors"
    if damage == "config":
        config.write_text("{")
    elif damage == "weights":
        weights.write_bytes(weights.read_bytes()[:100])
    else:
        config.write_text(config.read_text().replace("spacy-sapbert-mentions", "bert"))
    with pytest.raises(DamagedFile, match="E040"):
        MentionModel.from_disk(tmp_path / "mine")


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x93\x01\x02\x03", b"nonsense"])
def test_damaged_bytes(content: bytes) -> None:
    with pytest.raises(DamagedFile, match="E040"):
        ClinicalMentions(spacy.blank("en")).from_bytes(content)


def test_a_recogniser_that_was_trained_with_another_encoder_warns(lexicon: Phrases, tmp_path: Path) -> None:
    torch.manual_seed(0)
    mine = MentionModel(MentionNetwork(width=8, hidden=4, corpora=2), lexicon)
    mine.to_disk(tmp_path / "mine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = MentionModel.from_disk(tmp_path / "mine")
    assert again.trained_with == shipped_encoder().fingerprint != ""
    config = json.loads((tmp_path / "mine" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "mine" / "config.json").write_text(json.dumps({**config, "static_encoder": "0123"}), encoding="utf-8")
    with pytest.warns(SapbertWarning, match=r"\[W022\] The recogniser in '.*mine' was trained with another version"):
        other = MentionModel.from_disk(tmp_path / "mine")
    assert other.to_dict()["config.json"]["static_encoder"] == "0123"  # a copy keeps what it was trained with
    (tmp_path / "mine" / "config.json").write_text(json.dumps({**config, "static_encoder": 7}), encoding="utf-8")
    with pytest.raises(DamagedFile, match=r"E040.*static_encoder is 7, not a fingerprint"):
        MentionModel.from_disk(tmp_path / "mine")
    del config["static_encoder"]  # written by an earlier version
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert MentionModel.from_disk(tmp_path / "mine").trained_with == shipped_encoder().fingerprint
