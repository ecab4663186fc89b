"""The encoder compared with sentence-transformers and transformers; tests that need no real weights use a tiny random BERT."""

from __future__ import annotations

import inspect
import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import torch
from spacy import registry
from thinc.api import Adam
from tiny_encoders import VOCAB, change_json, make_bert, with_code
from transformers import AutoModel, AutoTokenizer

from spacy_sapbert.encoders import transformer as encoder_module
from spacy_sapbert.encoders.base import Encoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import BASE_NAME, NameEncoder, base_encoder, pass_tokens, pool, read_pooling
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import folder_to_bytes

NAMES = ["heart failure", "fever", "acute lymphoblastic leukaemia of childhood", "mi", "left-sided weakness", "type 2 diabetes mellitus", "fever"]
STRANGE = ["", " ", "?!", "🤒", "الركبة", "a\x00b", "\u200b", "x" * 100_000, "word " * 20_000]


@pytest.fixture(scope="module")
def default() -> Any:
    model = NameEncoder(dtype="float32")
    model.initialize()
    return model


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("bert") / "tiny")


def tiny(name: Path, **settings: Any) -> Any:
    model = NameEncoder(str(name), dtype="float32", **settings)
    model.initialize()
    return model


def opened(model: NameEncoder, folder: Path) -> NameEncoder:
    model.load(folder)
    return model


def reference(folder: Path, names: List[str], pooling: str, max_length: int = 25) -> np.ndarray:
    """Encode one name at a time with transformers alone."""
    tokenizer, transformer = AutoTokenizer.from_pretrained(str(folder)), AutoModel.from_pretrained(str(folder)).eval()
    vectors = []
    for name in names:
        with torch.no_grad():
            hidden = transformer(**tokenizer(name, truncation=True, max_length=max_length, return_tensors="pt")).last_hidden_state[0]
        vector = hidden[0] if pooling == "cls" else hidden.mean(dim=0)
        vectors.append((vector / vector.norm()).numpy())
    return np.stack(vectors)


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1)


# -- before initialize ---------------------------------------------------------------------------------------------------


def test_nothing_is_read_before_initialize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the constructor reads")

    monkeypatch.setattr(AutoModel, "from_pretrained", refuse)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    monkeypatch.setattr(encoder_module, "default_encoder", refuse)
    for name in ("", "no-such-org/no-such-model", str(tmp_path / "nowhere")):
        model = NameEncoder(name)
        assert model.has_dim("nO") is None
        for act in (lambda m: m.predict(["a"]), lambda m: m.begin_update(["a"]), lambda m: m.encode(["a"]), lambda m: m.save(tmp_path)):
            with pytest.raises(SapbertError, match=r"initialize\(\)") as error:
                act(model)
            assert error.value.code == "E302"


def test_it_is_registered_and_built_from_a_config() -> None:
    model = registry.resolve({"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "max_length": 12, "pooling": "mean"}})["model"]
    assert isinstance(model, Encoder)
    assert (model.name, model.max_length, model.pooling) == ("", 12, "mean")


@pytest.mark.parametrize("make", [NameEncoder, StaticEncoder])
def test_annotations_are_types(make: Any) -> None:
    """Older versions of spaCy's config library cannot resolve annotations that are strings."""
    assert [name for name, setting in inspect.signature(make).parameters.items() if isinstance(setting.annotation, str)] == []


def test_a_copy_is_an_encoder_of_its_own(bert: Path) -> None:
    model = tiny(bert, max_length=9)
    copied = model.copy()
    assert isinstance(copied, NameEncoder)
    assert (copied.fingerprint, copied.max_length, copied.dim) == (model.fingerprint, 9, 32)
    assert (copied.predict(NAMES) == model.predict(NAMES)).all()
    copied.max_length = 8
    assert model.max_length == 9


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"pooling": "max"}, "E303"), ({"max_length": 2}, "E002"), ({"batch_tokens": 0}, "E002"), ({"dtype": "float16"}, "E002")],
)
def test_settings_are_checked_at_once(settings: dict, code: str) -> None:
    with pytest.raises(SapbertError) as error:
        NameEncoder(**settings)
    assert error.value.code == code
    assert str(next(iter(settings.values()))) in str(error.value)


def damage_nothing_there(folder: Path) -> None:
    shutil.rmtree(folder)


def damage_no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def damage_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def damage_truncated(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])


def damage_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def damage_is_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


@pytest.mark.parametrize("damage", [damage_nothing_there, damage_no_config, damage_config, damage_truncated, damage_no_weights, damage_is_a_file])
def test_what_cannot_be_loaded_is_named(bert: Path, tmp_path: Path, damage: Any) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    damage(folder)
    model = NameEncoder(str(folder))
    with pytest.raises(MissingFile, match=r"config\.json") as error:
        model.initialize()
    assert error.value.code == "E301"
    assert str(folder) in str(error.value)
    with pytest.raises(SapbertError, match="E302"):
        model.predict(["a"])


def test_without_the_default_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "DEFAULT_PACKAGE", "no_such_package")
    with pytest.raises(SapbertError, match="pip install no-such-package") as error:
        NameEncoder().initialize()
    assert error.value.code == "E004"


def test_several_threads_may_load_at_once(bert: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(lambda _: tiny(bert).predict(NAMES), range(8)))
    assert all((v == vectors[0]).all() for v in vectors)


# -- vectors -------------------------------------------------------------------------------------------------------------


def test_shape_type_and_length(default: Any) -> None:
    vectors = default.predict(NAMES)
    assert (vectors.shape, vectors.dtype, default.get_dim("nO")) == ((7, 384), np.float32, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors[1] == vectors[6]).all()  # equal names
    assert default.predict([]).shape == (0, 384)
    assert default.predict([]).dtype == np.float32
    meaning = default.predict(["heart attack", "myocardial infarction", "broken toe"])
    assert meaning[0] @ meaning[1] > meaning[0] @ meaning[2] + 0.2


def test_the_base_is_sentence_transformers_own() -> None:
    ours = NameEncoder(BASE_NAME, dtype="float32").initialize()  # by its public name, from the installed package
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(base_encoder(), device="cpu")
    expected = theirs.encode(NAMES, normalize_embeddings=True, show_progress_bar=False)
    assert cosines(ours.predict(NAMES), expected).min() > 0.9999
    assert np.abs(ours.predict(NAMES) - expected).max() < 1e-5


# a lay name, its concept, and a concept whose name looks more similar
LAY_NAMES = [
    ("small jaw", "micrognathia", "large jaw"),
    ("wide-set eyes", "hypertelorism", "deep-set eyes"),
    ("webbed fingers", "syndactyly", "clubbed fingers"),
    ("low blood sugar", "hypoglycemia", "hyperglycemia"),
]


def test_the_default_is_trained(default: Any) -> None:
    base = NameEncoder(BASE_NAME).initialize()
    for one, other, unlike in LAY_NAMES:
        margins = []
        for model in (default, base):
            vectors = model.predict([one, other, unlike])
            margins.append(float(vectors[0] @ vectors[1] - vectors[0] @ vectors[2]))
        assert margins[0] > margins[1], one
    assert default.fingerprint != base.fingerprint


def test_order_and_batches_do_not_matter(bert: Path) -> None:
    names = [f"{'heart ' * (n % 9)}{'abc' * (n % 5)} {n}" for n in range(45)]
    model = tiny(bert)
    together = model.predict(names)
    assert np.abs(together - np.concatenate([model.predict([name]) for name in names])).max() < 1e-5
    assert np.abs(together - model.predict(names[::-1])[::-1]).max() < 1e-5
    for batch_tokens in (30, 100_000):
        assert np.abs(together - tiny(bert, batch_tokens=batch_tokens).predict(names)).max() < 1e-5
    assert np.abs(together - reference(bert, names, "cls")).max() < 1e-5


@pytest.mark.parametrize(
    ("batch_tokens", "on_gpu", "tokens"),
    [(1024, False, 1024), (1024, True, 65_536), (16_384, True, 131_072), (500_000, True, 500_000), (500_000, False, 500_000)],
)
def test_tokens_of_a_pass(batch_tokens: int, on_gpu: bool, tokens: int) -> None:
    """On a GPU the number is multiplied by 64, but a number that is already large stays, because it would fill the memory."""
    assert pass_tokens(batch_tokens, on_gpu) == tokens


def test_equal_names_are_encoded_once(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(bert)
    seen: List[int] = []
    monkeypatch.setattr(encoder_module, "_batches", lambda ids, *more, real=encoder_module._batches: seen.append(len(ids)) or real(ids, *more))
    vectors = model.predict(["fever", "heart", "fever", "fever", "heart"])
    assert seen == [2]
    assert (vectors[[0, 2, 3]] == vectors[0]).all()
    assert (vectors[1] == vectors[4]).all()
    assert (vectors[0] != vectors[1]).any()


def test_batches_are_full_but_no_fuller() -> None:
    ids = [[1] * length for length in [3, 9, 4, 3, 3, 25, 4, 7] * 10]
    batches = list(encoder_module._batches(ids, 60))
    assert sorted(row for rows, _ in batches for row in rows) == list(range(80))
    for rows, batch in batches:
        assert [ids[row] for row in rows] == batch
        assert len(rows) * max(map(len, batch)) <= 60 or len(rows) == 1
    lengths = [len(tokens) for _, batch in batches for tokens in batch]
    assert lengths == sorted(lengths)
    assert list(encoder_module._batches([], 60)) == []


def test_only_names_of_equal_padded_length_share_a_batch() -> None:
    """Lengths 3, 16, 17, 32 and 33 are padded to 16, 16, 32, 32 and 48 tokens. 64 tokens hold two names of 32, but not three."""
    ids = [[1] * length for length in (17, 3, 33, 16, 32, 20)]
    found = list(encoder_module._batches(ids, 64, 16))
    assert [rows for rows, _ in found] == [[1, 3], [0, 5], [4], [2]]
    tokens = encoder_module._pad(found[0][1], 9, torch.device("cpu"), 16)
    assert tokens["input_ids"].shape == (4, 16)
    assert tokens["input_ids"][0].tolist() == [1, 1, 1, *[9] * 13]
    assert tokens["attention_mask"].sum(dim=1).tolist() == [3, 16, 3, 3]


def test_padding_changes_no_vector(bert: Path) -> None:
    names = ["heart " * n for n in range(1, 20)]
    model = tiny(bert)
    assert np.abs(model.encode(names, pad_to=16) - model.encode(names)).max() < 1e-5


def test_strange_names_give_finite_vectors(default: Any) -> None:
    vectors = default.predict(STRANGE)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)  # both have no token


def test_names_are_cut_at_max_length(bert: Path) -> None:
    names = ["heart fever failure a b c", "heart fever failure x y z", "heart fever"]
    vectors = tiny(bert, max_length=5).predict(names)  # [CLS], three words, [SEP]
    assert (vectors[0] == vectors[1]).all()
    assert np.abs(vectors - reference(bert, names, "cls", max_length=5)).max() < 1e-5
    longer = tiny(bert, max_length=6).predict(names)
    assert (longer[0] != longer[1]).any()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling_of_a_plain_transformer(bert: Path, pooling: str) -> None:
    expected = reference(bert, NAMES, pooling)
    assert np.abs(tiny(bert, pooling=pooling).predict(NAMES) - expected).max() < 1e-5
    auto = tiny(bert, pooling="auto").predict(NAMES)
    assert np.abs(auto - reference(bert, NAMES, "cls")).max() < 1e-5  # as in SapBERT
    assert tiny(bert).pooling == "auto"


def test_pool_by_hand() -> None:
    hidden = torch.tensor([[[3.0, 4.0], [1.0, 0.0], [99.0, 99.0]]])
    mask = torch.tensor([[1, 1, 0]])
    np.testing.assert_allclose(pool(hidden, mask, "cls"), [[0.6, 0.8]], atol=1e-6)
    np.testing.assert_allclose(pool(hidden, mask, "mean"), [[2**-0.5, 2**-0.5]], atol=1e-6)  # (4, 4) / 2


def settings_folder(folder: Path, kinds: List[str], pooling: Any) -> str:
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean"}, "mean"),  # the format of sentence-transformers 5
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_pooling_is_read_from_the_models_own_settings(tmp_path: Path, pooling: dict, expected: str) -> None:
    assert read_pooling(settings_folder(tmp_path, ["Transformer", "Pooling", "Normalize"], pooling)) == expected


@pytest.mark.parametrize(
    ("kinds", "pooling"),
    [
        (["Transformer", "Pooling", "Dense"], {"pooling_mode_mean_tokens": True}),
        (["Transformer", "Pooling"], {"pooling_mode_max_tokens": True}),
        (["Transformer", "Pooling"], None),
    ],
)
def test_settings_it_cannot_compute_are_refused(tmp_path: Path, kinds: List[str], pooling: Any) -> None:
    with pytest.raises(SapbertError, match="only Transformer, cls or mean Pooling") as error:
        read_pooling(settings_folder(tmp_path, kinds, pooling))
    assert error.value.code == "E301"


def test_the_default_pools_as_its_settings_say() -> None:
    assert read_pooling(base_encoder()) == "mean"


def test_bfloat16_is_near(default: Any) -> None:
    model = NameEncoder(dtype="bfloat16")
    model.initialize()
    vectors = model.predict(NAMES)
    assert vectors.dtype == np.float32
    assert cosines(vectors, default.predict(NAMES)).min() > 0.99
    assert (vectors != default.predict(NAMES)).any()  # the setting has an effect
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_weights_that_are_not_finite_are_said(bert: Path) -> None:
    model = tiny(bert)
    word = model.layers[0].shims[0]._hfmodel.tokenizer.convert_tokens_to_ids("fever")
    with torch.no_grad():
        model.layers[0].shims[0]._hfmodel.transformer.embeddings.word_embeddings.weight[word] = float("nan")
    assert np.isfinite(model.predict(["heart", "failure"])).all()
    with pytest.raises(SapbertError, match="NaN or infinite values for 2 of 3 names") as error:
        model.predict(["heart", "fever", "heart fever", "fever"])
    assert error.value.code == "E304"


# -- training ------------------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_a_finite_difference(bert: Path) -> None:
    model = tiny(bert, pooling="mean")
    wanted = np.random.default_rng(0).normal(size=(len(NAMES), 32)).astype(np.float32)
    transformer = model.layers[0].shims[0]._hfmodel.transformer
    vectors, backprop = model.begin_update(NAMES)
    np.testing.assert_allclose(vectors, model.predict(NAMES), atol=1e-5)  # training and prediction give the same vectors
    assert backprop(wanted) == []  # the loss is (vectors * wanted).sum()
    places = [(transformer.encoder.layer[0].output.dense.weight, (3, 5)), (transformer.embeddings.LayerNorm.bias, (7,))]
    for weights, place in places:
        step, losses = 1e-2, []
        for change in (step, -2 * step):
            with torch.no_grad():
                weights[place] += change
            losses.append(float((model.predict(NAMES).astype(np.float64) * wanted).sum()))
        with torch.no_grad():
            weights[place] += step
        assert float(weights.grad[place]) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=0.02, abs=1e-3)


def test_steps_make_the_loss_smaller_and_dropout_stays_out_of_predictions(tmp_path: Path) -> None:
    model = tiny(make_bert(tmp_path, dropout=0.1))
    names = ["heart attack", "myocardial infarction", "broken toe"]
    fingerprint = model.fingerprint
    before = model.predict(names)
    optimizer = Adam(1e-3)
    for _ in range(5):
        vectors, backprop = model.begin_update(names)
        gradient = np.zeros_like(vectors)
        gradient[0], gradient[1] = vectors[1], vectors[0]  # the loss is the cosine of the first two: push them apart
        backprop(gradient)
        model.finish_update(optimizer)
    after = model.predict(names)
    assert after[0] @ after[1] < before[0] @ before[1] - 0.02
    assert (model.begin_update(names)[0] != model.begin_update(names)[0]).any()  # dropout is on in training
    assert (after == model.predict(names)).all()
    assert encoder_module._fingerprint(model) != fingerprint


# -- bytes and folders ---------------------------------------------------------------------------------------------------


def refuse_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("pickle")

    for module, name in ((torch, "save"), (torch, "load"), (pickle, "dumps"), (pickle, "loads"), (pickle, "dump"), (pickle, "load")):
        monkeypatch.setattr(module, name, refuse)


def test_bytes_bring_the_same_vectors_without_pickle(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(bert, pooling="mean", max_length=7)
    expected = model.predict(NAMES)
    refuse_pickle(monkeypatch)
    data = model.to_bytes()
    again = NameEncoder(dtype="float32").from_bytes(data)
    assert (again.predict(NAMES) == expected).all()
    for attr in ("name", "pooling", "max_length", "fingerprint"):
        assert getattr(again, attr) == getattr(model, attr)
    assert again.get_dim("nO") == 32
    again.initialize()  # it already has its weights, so nothing is read again
    assert (again.predict(NAMES) == expected).all()
    assert (NameEncoder(dtype="float32").from_bytes(again.to_bytes()).predict(NAMES) == expected).all()


def test_an_encoder_without_weights_has_bytes_too() -> None:
    again = NameEncoder().from_bytes(NameEncoder().to_bytes())
    with pytest.raises(SapbertError, match="E302"):
        again.predict(["a"])


def test_a_folder_is_read_by_all_three_libraries(default: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        refuse_pickle(patch)
        default.save(tmp_path)
        again = opened(NameEncoder(dtype="float32", pooling="cls", max_length=9), tmp_path)
    expected = default.predict(NAMES)
    assert (again.predict(NAMES) == expected).all()
    assert (again.max_length, again.fingerprint) == (25, default.fingerprint)
    assert not list(tmp_path.rglob("*.bin"))
    assert np.abs(reference(tmp_path, NAMES, "mean") - expected).max() < 1e-5
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path), device="cpu")
    assert theirs.max_seq_length == 25
    assert np.abs(theirs.encode(NAMES, show_progress_bar=False) - expected).max() < 1e-5


def test_a_cls_folder_is_cls_for_sentence_transformers(bert: Path, tmp_path: Path) -> None:
    model = tiny(bert)
    model.save(tmp_path)
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path), device="cpu")
    assert np.abs(theirs.encode(NAMES, show_progress_bar=False) - model.predict(NAMES)).max() < 1e-5
    assert np.abs(tiny(tmp_path).predict(NAMES) - model.predict(NAMES)).max() < 1e-6  # read_pooling reads what to_folder wrote


def test_a_folder_of_another_width_takes_the_place_of_what_was_there(bert: Path, tmp_path: Path) -> None:
    wide = tiny(make_bert(tmp_path / "wide", seed=5, width=48))
    (tmp_path / "written").mkdir()
    wide.save(tmp_path / "written")
    model = opened(tiny(bert), tmp_path / "written")
    assert model.get_dim("nO") == 48
    assert (model.predict(NAMES) == wide.predict(NAMES)).all()


def test_what_is_written_does_not_depend_on_where_it_was_read(bert: Path, tmp_path: Path) -> None:
    written = []
    for place in ("a", "b"):
        model = tiny(Path(shutil.copytree(bert, tmp_path / place / "model")))
        model.name = "mine"
        (tmp_path / place / "out").mkdir()
        model.save(tmp_path / place / "out")
        written.append((model.to_bytes(), folder_to_bytes(tmp_path / place / "out")))
    assert written[0] == written[1]


def test_a_folder_that_is_no_linkers(bert: Path) -> None:
    with pytest.raises(MissingFile, match=r"spacy_sapbert_encoder\.json") as error:
        opened(NameEncoder(), bert)
    assert error.value.code == "E301"


def test_fingerprints(bert: Path, tmp_path: Path) -> None:
    prints = [tiny(bert, **settings).fingerprint for settings in ({}, {"pooling": "mean"}, {"max_length": 24})]
    prints.append(tiny(make_bert(tmp_path / "other", seed=1)).fingerprint)
    vocabulary = Path(shutil.copytree(bert, tmp_path / "vocabulary"))
    swapped = [*VOCAB]
    swapped[5], swapped[6] = swapped[6], swapped[5]
    for file in ("tokenizer.json", "vocab.txt"):
        (vocabulary / file).unlink()
    (vocabulary / "vocab.txt").write_text("\n".join(swapped) + "\n")
    prints.append(tiny(vocabulary).fingerprint)
    assert len(set(prints)) == 5
    assert all(prints)
    assert prints[0] == tiny(bert, pooling="cls", batch_tokens=99).fingerprint  # equal vectors
    moved = Path(shutil.copytree(bert, tmp_path / "moved"))
    assert prints[0] == tiny(moved).fingerprint


def test_a_folder_written_after_training_has_the_fingerprint_of_its_weights(bert: Path, tmp_path: Path) -> None:
    model = tiny(bert)
    before = model.fingerprint
    with torch.no_grad():
        model.layers[0].shims[0]._hfmodel.transformer.embeddings.LayerNorm.bias += 0.1
    model.save(tmp_path)
    after = opened(NameEncoder(), tmp_path).fingerprint
    assert after == model.fingerprint != before
    assert after == tiny(tmp_path, pooling="cls").fingerprint


@pytest.mark.parametrize("with_tokenizer", [False, True])
def test_peft_adapters_are_merged(default: Any, tmp_path: Path, with_tokenizer: bool) -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    adapted = peft.get_peft_model(AutoModel.from_pretrained(base_encoder()), config).eval()
    adapted.save_pretrained(str(tmp_path))
    tokenizer = AutoTokenizer.from_pretrained(base_encoder())
    if with_tokenizer:
        tokenizer.save_pretrained(str(tmp_path))
    model = tiny(tmp_path)
    with torch.no_grad():
        tokens = tokenizer(NAMES, padding=True, return_tensors="pt")
        expected = pool(adapted(**tokens).last_hidden_state, tokens["attention_mask"], "mean").numpy()  # the base's own pooling
    assert cosines(model.predict(NAMES), expected).min() > 0.9999
    assert cosines(model.predict(NAMES), default.predict(NAMES)).max() < 0.999  # the adapters have an effect
    assert model.fingerprint != default.fingerprint


def test_adapters_without_peft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bert: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(bert)}))
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(SapbertError, match="pip install peft") as error:
        NameEncoder(str(tmp_path)).initialize()
    assert error.value.code == "E301"


# -- code of a repository ------------------------------------------------------------------------------------------------

TRUSTED = {"trust_remote_code": True}


@pytest.fixture
def no_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> List[str]:
    """Record the questions on standard input and answer each with yes. Modules of repositories are copied into a folder of the test."""
    asked: List[str] = []

    def answer(prompt: str = "") -> str:
        asked.append(prompt)
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    return asked


@pytest.mark.parametrize("settings", [{}, {"transformer_config": TRUSTED, "tokenizer_config": TRUSTED}], ids=["plain", "trusting"])
@pytest.mark.parametrize("needs", [{"config": True}, {"config": False, "tokenizer": True}], ids=["model", "tokenizer"])
def test_code_in_a_linkers_folder_is_never_run(bert: Path, tmp_path: Path, no_answers: List[str], settings: dict, needs: dict) -> None:
    saved = tmp_path / "encoder"
    saved.mkdir()
    tiny(bert).save(saved)
    with_code(saved, tmp_path / "marker", **needs)
    for code_is_there in (True, False):
        with pytest.raises(SapbertError, match="never run") as error:
            opened(NameEncoder(dtype="float32", **settings), saved)
        assert error.value.code == "E307"
        assert str(saved) in str(error.value)
        assert (no_answers, (tmp_path / "marker").exists()) == ([], False)
        if code_is_there:
            (saved / "own.py").unlink()  # without the file, the settings still name code


def test_code_beside_a_known_architecture_is_refused_too(bert: Path, tmp_path: Path, no_answers: List[str]) -> None:
    """`auto_map` with a known model_type: transformers would use its own class, which would be another model."""
    saved = tmp_path / "encoder"
    saved.mkdir()
    tiny(bert).save(saved)
    with_code(saved, tmp_path / "marker")
    change_json(saved / "config.json", model_type="bert")
    with pytest.raises(SapbertError) as error:
        opened(NameEncoder(transformer_config=TRUSTED), saved)
    assert (error.value.code, no_answers, (tmp_path / "marker").exists()) == ("E307", [], False)


def test_settings_that_say_where_to_read_are_not_those_of_a_folder(bert: Path, tmp_path: Path) -> None:
    """Settings such as subfolder and revision are used for the hub, but not when the saved model is loaded from a linker folder."""
    saved = tmp_path / "encoder"
    saved.mkdir()
    tiny(bert).save(saved)
    expected = tiny(bert).predict(NAMES)
    where = {"subfolder": "elsewhere", "revision": "v2", "cache_dir": str(tmp_path / "cache")}
    other = {"vocab_file": str(tmp_path / "other.txt"), "tokenizer_file": str(tmp_path / "other.json")}
    model = NameEncoder(dtype="float32", transformer_config={**where, "attn_implementation": "eager"}, tokenizer_config={**where, **other})
    assert np.allclose(opened(model, saved).predict(NAMES), expected, atol=1e-6)
    assert model.layers[0].shims[0]._hfmodel.transformer.config._attn_implementation == "eager"  # settings of the computation are still used


def test_a_name_whose_code_is_not_trusted(bert: Path, tmp_path: Path, no_answers: List[str]) -> None:
    folder = with_code(Path(shutil.copytree(bert, tmp_path / "own")), tmp_path / "marker")
    with pytest.raises(SapbertError, match="--trust-remote-code") as error:
        NameEncoder(str(folder)).initialize()
    assert (error.value.code, no_answers, (tmp_path / "marker").exists()) == ("E306", [], False)


def test_a_name_whose_code_is_trusted(bert: Path, tmp_path: Path, no_answers: List[str]) -> None:
    """It can encode, but it cannot be saved, because a saved one could not be loaded."""
    folder = with_code(Path(shutil.copytree(bert, tmp_path / "own")), tmp_path / "marker")
    model = tiny(folder, transformer_config=TRUSTED)
    assert (tmp_path / "marker").read_text() == "run"
    assert np.allclose(model.predict(NAMES), tiny(bert).predict(NAMES), atol=1e-6)
    with pytest.raises(SapbertError, match="OwnModel") as error:
        model.save(tmp_path / "saved")
    assert error.value.code == "E308"
    assert not (tmp_path / "saved").exists()


def test_what_is_saved_does_not_name_code(bert: Path, tmp_path: Path, no_answers: List[str]) -> None:
    """A model that names code, but that transformers can load without the code."""
    folder = Path(shutil.copytree(bert, tmp_path / "own"))
    change_json(folder / "config.json", auto_map={"AutoModel": "someone/model--own.OwnModel"})
    change_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "someone/model--own.OwnTokenizerFast"]})
    (tmp_path / "saved").mkdir()
    tiny(folder).save(tmp_path / "saved")
    assert "auto_map" not in "".join((tmp_path / "saved" / file).read_text() for file in ("config.json", "tokenizer_config.json"))
    assert np.allclose(opened(NameEncoder(dtype="float32"), tmp_path / "saved").predict(NAMES), tiny(bert).predict(NAMES), atol=1e-6)
    assert no_answers == []


def test_bytes_run_no_code(bert: Path, tmp_path: Path, no_answers: List[str]) -> None:
    import srsly

    model = tiny(bert)
    shim = model.layers[0].shims[0]
    message = srsly.msgpack_loads(shim.to_bytes())
    auto_map = {"AutoConfig": "someone/model--own.OwnConfig", "AutoModel": "someone/model--own.OwnModel"}
    message["config"] = json.dumps({**json.loads(message["config"]), "model_type": "own-bert", "auto_map": auto_map})
    with pytest.raises(SapbertError) as error:
        shim.from_bytes(srsly.msgpack_dumps(message))
    assert (error.value.code, no_answers) == ("E307", [])


# -- a folder that names files outside ------------------------------------------------------------------------------------


@pytest.fixture
def saved(bert: Path, tmp_path: Path) -> Path:
    """A linker's encoder, and next to it in `other` a different model with the same vocabulary."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    tiny(bert).save(folder)
    make_bert(tmp_path / "other", seed=1)
    return folder


def by_adapter(folder: Path) -> str:
    change_json(folder / "adapter_config.json", base_model_name_or_path=str(folder.parent / "other"), peft_type="LORA")
    return "adapter_config.json"


def by_adapter_of_a_name(folder: Path) -> str:
    change_json(folder / "adapter_config.json", base_model_name_or_path="someone/model", peft_type="LORA")
    return "adapter_config.json"


def by_vocabulary(folder: Path) -> str:
    change_json(folder / "tokenizer_config.json", tokenizer_file=str(folder.parent / "other" / "tokenizer.json"))
    return "tokenizer_file"


def by_versioned_tokenizer(folder: Path) -> str:
    shutil.copyfile(folder.parent / "other" / "tokenizer.json", folder.parent / "other" / "tokenizer.4.0.json")
    change_json(folder / "tokenizer_config.json", fast_tokenizer_files=["../other/tokenizer.4.0.json"])
    return "fast_tokenizer_files"


def by_first_argument(folder: Path) -> str:
    change_json(folder / "tokenizer_config.json", init_inputs=[str(folder.parent / "other" / "vocab.txt")])
    return "init_inputs"


def by_shard(folder: Path) -> str:
    from safetensors import safe_open

    with safe_open(str(folder / "model.safetensors"), framework="pt") as file:
        keys = list(file.keys())
    (folder / "model.safetensors").unlink()
    weight_map = dict.fromkeys(keys, "../other/model.safetensors")
    change_json(folder / "model.safetensors.index.json", metadata={"total_size": 1}, weight_map=weight_map)
    return "model.safetensors.index.json"


def by_kernel(folder: Path) -> str:
    change_json(folder / "config.json", attn_implementation="someone/kernels:forward")
    return "attn_implementation"


def by_backbone(folder: Path) -> str:
    change_json(folder / "config.json", model_type="detr", backbone="someone/model", use_pretrained_backbone=True, use_timm_backbone=False)
    return "backbone"


def by_code_of_a_part(folder: Path) -> str:
    part = {"model_type": "bert", "auto_map": {"AutoModel": "someone/model--own.OwnModel"}}
    change_json(folder / "config.json", model_type="llava", text_config=part)
    return "auto_map"


WAYS_OUT = [by_adapter, by_adapter_of_a_name, by_vocabulary, by_versioned_tokenizer, by_first_argument, by_shard, by_kernel, by_backbone]


@pytest.mark.parametrize("way_out", [*WAYS_OUT, by_code_of_a_part])
def test_a_folder_that_leads_outside_is_refused(saved: Path, way_out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before transformers reads anything."""
    said = way_out(saved)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("it is read")

    monkeypatch.setattr(AutoModel, "from_pretrained", refuse)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    with pytest.raises(SapbertError, match="outside") as error:
        opened(NameEncoder(dtype="float32"), saved)
    assert error.value.code == "E309"
    assert said in str(error.value)


def test_what_leads_nowhere_is_no_harm(saved: Path, bert: Path) -> None:
    """Models of the hub have keys that name no file, or a file of the folder; these are accepted."""
    change_json(saved / "tokenizer_config.json", tokenizer_file=None, special_tokens_map_file="/home/someone/special_tokens_map.json")
    change_json(saved / "config.json", _name_or_path="someone/model", attn_implementation="eager", backbone=None)
    weights = (saved / "model.safetensors").rename(saved / "model-00001-of-00001.safetensors")
    from safetensors import safe_open

    with safe_open(str(weights), framework="pt") as file:
        weight_map = dict.fromkeys(file.keys(), weights.name)
    change_json(saved / "model.safetensors.index.json", metadata={"total_size": 1}, weight_map=weight_map)
    assert np.allclose(opened(NameEncoder(dtype="float32"), saved).predict(NAMES), tiny(bert).predict(NAMES), atol=1e-6)


def test_weights_that_may_hold_code_are_not_read(saved: Path) -> None:
    """`to_folder` writes only safetensors; PyTorch's own files are pickles."""
    from safetensors.torch import load_file

    torch.save(load_file(str(saved / "model.safetensors")), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    with pytest.raises(SapbertError, match="safetensors") as error:
        opened(NameEncoder(dtype="float32"), saved)
    assert error.value.code == "E301"


def test_bytes_that_lead_outside_are_refused(bert: Path, tmp_path: Path) -> None:
    import srsly

    shim = tiny(bert).layers[0].shims[0]
    message = srsly.msgpack_loads(shim.to_bytes())
    settings = json.loads(message["tokenizer"]["tokenizer_config.json"])
    message["tokenizer"]["tokenizer_config.json"] = json.dumps({**settings, "tokenizer_file": str(bert / "tokenizer.json")}).encode()
    with pytest.raises(SapbertError, match="tokenizer_file") as error:
        shim.from_bytes(srsly.msgpack_dumps(message))
    assert error.value.code == "E309"


def test_a_gpu_whose_memory_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = NameEncoder(str(make_bert(tmp_path / "bert")), batch_tokens=77).initialize()

    def full(*_: Any, **__: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. And more words.")

    monkeypatch.setattr(encoder_module, "pool", full)
    with pytest.raises(SapbertError, match=r"\[E316\] The memory of cpu is full \(CUDA out of memory\).* 2 names: lower .*batch_tokens \(77\)"):
        model.encode(["fever", "gout"])
