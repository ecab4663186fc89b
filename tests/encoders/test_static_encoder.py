"""The static encoder: sums computed by hand, folders of model2vec, the fast encoder of the package, and linkers with it."""

from __future__ import annotations

import gc
import json
import pickle
import shutil
import subprocess
import sys
import textwrap
import weakref
import zlib
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import spacy
import torch
from safetensors.torch import save_file
from spacy import registry
from spacy.tokens import Doc, Span
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from typer.testing import CliRunner

from spacy_sapbert import bundle
from spacy_sapbert.build import linker as building
from spacy_sapbert.build.update import update_linker
from spacy_sapbert.cli import app
from spacy_sapbert.encoders import static as module
from spacy_sapbert.encoders.static import KIND, StaticEncoder, is_static, split
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import MissingFile, SapbertError

DATA = Path(__file__).parents[1] / "data"
WORDS = ["heart", "failure", "2"]
BUCKETS = 5
CONFIG = {"model_type": KIND, "shortest": 3, "longest": 3, "buckets": BUCKETS}
STRANGE = ["", " ", "?!", "🤒", "\u200b", "+/-"]
NAMES = ["heart failure", "Fever", "acute lymphoblastic leukaemia of childhood", "mi", "left-sided weakness", "type 2 diabetes mellitus", *STRANGE]


def write(folder: Path, config: Dict[str, Any], tensors: Dict[str, torch.Tensor], **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A table with three words and five buckets for 3-grams, in four dimensions, with 8 bits for each number."""
    numbers = torch.from_numpy(np.random.default_rng(0).integers(-127, 128, (len(WORDS) + BUCKETS, 4), dtype=np.int8))
    scales = torch.tensor([0.01 * (row + 1) for row in range(len(numbers))])
    return write(tmp_path / "ours", CONFIG, {"embeddings": numbers, "scales": scales}, words_txt="\n".join(WORDS))


def loaded(name: Any = "", **settings: Any) -> Any:
    return StaticEncoder(str(name), **settings).initialize()


@pytest.fixture(scope="module")
def shipped() -> Any:
    return loaded()


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_encoders_with_the_same_files_share_their_table(ours: Path, tmp_path: Path) -> None:
    copy, other = shutil.copytree(ours, tmp_path / "copy"), shutil.copytree(ours, tmp_path / "other")
    (other / "words.txt").write_text("heart\nfailure\n3")
    first, second, third = loaded(ours), loaded(copy, max_length=1), loaded(other)
    assert first.shim.table is second.shim.table
    assert first.shim.parts is second.shim.parts
    assert first.fingerprint != second.fingerprint  # max_length stays that of each encoder
    assert np.array_equal(second.encode(["heart failure"]), first.encode(["heart"]))
    assert third.shim.table is not first.shim.table
    assert not np.array_equal(third.encode(["2"]), first.encode(["2"]))
    table = weakref.ref(first.shim.table)
    del first, second
    gc.collect()
    assert table() is None  # when no encoder uses it any more, it is freed


# -- before initialize ---------------------------------------------------------------------------------------------------


def test_nothing_is_read_before_initialize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("the constructor reads")

    monkeypatch.setattr(module, "_read_files", refuse)
    for name in ("", "no-such-org/no-such-model", str(tmp_path / "nowhere")):
        model = StaticEncoder(name)
        assert model.has_dim("nO") is None
        for act in (lambda m: m.predict(["a"]), lambda m: m.encode(["a"]), lambda m: m.save(tmp_path)):
            with pytest.raises(SapbertError, match=r"initialize\(\)") as error:
                act(model)
            assert error.value.code == "E302"


def test_it_is_registered_and_its_setting_is_checked() -> None:
    model = registry.resolve({"model": {"@architectures": "spacy-sapbert.StaticEncoder.v1", "max_length": 3}})["model"]
    assert (model.name, model.architecture, model.max_length) == ("", bundle.STATIC_ENCODER, 3)
    with pytest.raises(SapbertError) as error:
        StaticEncoder(max_length=0)
    assert error.value.code == "E002"


# -- vectors -------------------------------------------------------------------------------------------------------------


def test_words() -> None:
    assert split("Crohn's disease, type-2 (Ménière)") == ["crohn", "s", "disease", "type", "2", "meniere"]
    assert split("β2_x ﬁbre") == ["β2", "x", "fibre"]
    assert [split(name) for name in STRANGE] == [[]] * len(STRANGE)


def test_a_vector_is_the_sum_of_words_and_n_grams(ours: Path) -> None:
    tensors = module.load_safetensors((ours / "model.safetensors").read_bytes())
    table = tensors["embeddings"].numpy().astype(np.float64) * tensors["scales"].numpy()[:, None]

    def word(text: str) -> np.ndarray:
        grams = [f"<{text}>"[i : i + 3] for i in range(len(text))]  # as many as letters, because of the marks at both ends
        rows = [len(WORDS) + zlib.crc32(gram.encode()) % BUCKETS for gram in grams] + ([WORDS.index(text)] if text in WORDS else [])
        return table[rows].sum(axis=0)

    vectors = loaded(ours).predict(["heart failure", "Heart, heart?", "fever 2"])
    expected = [word("heart") + word("failure"), word("heart"), word("fever") + word("2")]
    np.testing.assert_allclose(vectors, [unit(v) for v in expected], atol=1e-6)
    assert vectors.dtype == np.float32
    cut = loaded(ours, max_length=1).predict(["heart failure"])
    np.testing.assert_allclose(cut[0], unit(word("heart")), atol=1e-6)


def test_a_name_of_which_nothing_is_known_is_zeros(ours: Path) -> None:
    for model in (loaded(ours), loaded()):
        vectors = model.predict(["heart", *STRANGE, "failure", "x" * 100_000, "word " * 20_000, "a\x00b", "a\ud800"])
        assert np.isfinite(vectors).all()
        assert not vectors[1 : 1 + len(STRANGE)].any()
        np.testing.assert_allclose(np.linalg.norm(vectors[[0, *range(1 + len(STRANGE), len(vectors))]], axis=1), 1.0, atol=1e-5)
        assert model.predict([]).shape == (0, vectors.shape[1])
        assert model.predict(["?"]).shape == (1, vectors.shape[1])


def test_alone_and_in_a_batch_a_vector_is_the_same(shipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = shipped.predict(NAMES * 3)
    np.testing.assert_array_equal(together[: len(NAMES)], np.concatenate([shipped.predict([name]) for name in NAMES]))
    monkeypatch.setattr(module, "SLAB", 4)
    np.testing.assert_array_equal(shipped.predict(NAMES * 3), together)
    np.testing.assert_array_equal(shipped.encode(NAMES * 3, progress=True), together)


# -- model2vec -----------------------------------------------------------------------------------------------------------

TOKENS = ["[PAD]", "[UNK]", "heart", "failure", "fe", "##ver"]


def model2vec(folder: Path, key: str = "embeddings", **more: torch.Tensor) -> Path:
    tokenizer = Tokenizer(WordPiece({token: i for i, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    rows = 3 if "mapping" in more else len(TOKENS)
    table = torch.arange(rows * 2, dtype=torch.float16).reshape(rows, 2) - 3
    return write(folder, {"model_type": "model2vec", "normalize": True}, {key: table, **more}, tokenizer_json=tokenizer.to_str())


def test_a_model2vec_folder(tmp_path: Path) -> None:
    model = loaded(model2vec(tmp_path / "m"))
    # rows: heart (1, 2), failure (3, 4), fe (5, 6), ##ver (7, 8); an unknown word adds nothing
    np.testing.assert_allclose(
        model.predict(["Heart failure", "fever", "heart zzz", "zzz"]), [unit(np.array(v)) for v in ([4, 6], [12, 14], [1, 2])] + [[0, 0]], atol=1e-6
    )
    assert is_static(str(tmp_path / "m"))
    assert not is_static(str(DATA))
    np.testing.assert_array_equal(loaded(model2vec(tmp_path / "s", "embedding.weight")).predict(["fever"]), model.predict(["fever"]))


def test_model2vecs_weights_and_shared_rows(tmp_path: Path) -> None:
    mapping, weights = torch.tensor([0, 0, 1, 2, 2, 1]), torch.tensor([1.0, 1.0, 0.5, 2.0, 3.0, 1.0])
    model = loaded(model2vec(tmp_path / "m", mapping=mapping, weights=weights))
    # rows: (-3, -2), (-1, 0), (1, 2): heart is row 2 with weight 1/2, failure row 3 with weight 2, fe with weight 3, ##ver row 2
    np.testing.assert_allclose(model.predict(["heart failure", "fever"]), [unit(np.array(v)) for v in ([1.5, 4.0], [2.0, 6.0])], atol=1e-6)


# -- folders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ours", "model2vec"])
def test_folders_and_bytes(tmp_path: Path, ours: Path, kind: str) -> None:
    source = ours if kind == "ours" else model2vec(tmp_path / "m")
    model = loaded(source, max_length=5)
    expected = model.predict(NAMES)
    out = tmp_path / "out"
    out.mkdir()
    bundle.save_encoder(model, out)
    for again in (bundle.open_encoder(out, StaticEncoder()), bundle.open_encoder(out, NameEncoder()), StaticEncoder().from_bytes(model.to_bytes())):
        np.testing.assert_array_equal(again.predict(NAMES), expected)
        assert {key: getattr(again, key) for key in ("name", "max_length")} == {"name": str(source), "max_length": 5}
        assert again.fingerprint == model.fingerprint
    assert loaded(source).fingerprint != model.fingerprint  # with another max_length it reads other words
    for file in ("config.json", "model.safetensors"):
        assert (out / file).read_bytes() == (source / file).read_bytes()


def damage(folder: Path, what: str) -> None:
    table = folder / "model.safetensors"
    if what == "nothing there":
        shutil.rmtree(folder)
    elif what == "no words":
        (folder / "words.txt").unlink()
    elif what == "truncated":
        table.write_bytes(table.read_bytes()[:100])
    elif what == "config":
        (folder / "config.json").write_text("{")
    elif what == "no n-grams":
        (folder / "config.json").write_text(json.dumps({**CONFIG, "shortest": 4}))
    elif what == "too few rows":
        save_file({"embeddings": torch.zeros(7, 4)}, table)
    elif what == "nan":
        save_file({"embeddings": torch.full((8, 4), float("nan"))}, table)
    elif what == "a transformer":
        save_file({"embeddings.word_embeddings.weight": torch.zeros(8, 4)}, table)


@pytest.mark.parametrize("what", ["nothing there", "no words", "truncated", "config", "no n-grams", "too few rows", "nan", "a transformer"])
def test_a_damaged_folder_is_refused(ours: Path, what: str) -> None:
    damage(ours, what)
    with pytest.raises(MissingFile) as error:
        loaded(ours)
    assert error.value.code == "E301"
    assert str(ours) in str(error.value)


# -- the encoder of the package ------------------------------------------------------------------------------------------


def test_what_ships_is_small_and_knows_synonyms(shipped: Any) -> None:
    assert sum(path.stat().st_size for path in Path(module.fast_encoder()).iterdir()) < 20_000_000  # the most that the table may take in the wheel
    names = ["myocardial infarction", "hypertension", "neoplasm of the kidney", "dyspnea", "seizure"]
    asked = ["heart attack", "high blood pressure", "renal tumour", "shortness of breath", "epileptic fits"]
    cosines = shipped.predict(asked) @ shipped.predict(names).T
    assert [names[i] for i in cosines.argmax(axis=1)] == names
    noisy = shipped.predict(["infarction, myocardial", "myocardial infarctoin"]) @ shipped.predict(names).T
    assert noisy.argmax(axis=1).tolist() == [0, 0]


# -- linkers -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fast_linker(tmp_path_factory: pytest.TempPathFactory, tiny_linker: Path) -> Path:
    return building.build_linker([], tmp_path_factory.mktemp("fast") / "linker", kb=tiny_linker / "kb", model=StaticEncoder(), progress=False)


def doc_of(nlp: Any, *mentions: str) -> Doc:
    doc = nlp.make_doc(" ; ".join(mentions))
    at = 0
    spans: List[Span] = []
    for mention in mentions:
        spans.append(doc.char_span(at, at + len(mention), label="PROBLEM"))
        at += len(mention) + 3
    doc.ents = spans
    return doc


def pipeline(folder: Path, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), **config})
    return nlp


def links(nlp: Any, *mentions: str) -> List[str]:
    (doc,) = nlp.pipe([doc_of(nlp, *mentions)])
    return [ent.kb_id_ for ent in doc.ents]


MENTIONS = ("arterial hypertension", "elevated temperature", "+/-", "diabetes mellitus type 2")


def test_a_linker_with_the_fast_encoder(fast_linker: Path, tiny_linker: Path) -> None:
    nlp = pipeline(fast_linker, encoder="fast")
    linker = nlp.get_pipe("sapbert_linker")
    found = links(nlp, *MENTIONS)
    assert linker.model.architecture == bundle.STATIC_ENCODER
    assert found[2] == ""  # it has no link, because the linker knows nothing similar
    slow = links(pipeline(tiny_linker), *MENTIONS)
    assert found[3] == slow[3] != ""
    # the encoder of the folder is used, whatever the default of `model` is
    unasked = pipeline(fast_linker)
    assert links(unasked, *MENTIONS) == found
    assert unasked.get_pipe("sapbert_linker").model.architecture == bundle.STATIC_ENCODER


def test_it_survives_disk_bytes_and_worker_processes(fast_linker: Path, tmp_path: Path) -> None:
    nlp = pipeline(fast_linker, encoder="fast")
    expected = links(nlp, *MENTIONS)
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert again.get_pipe_config("sapbert_linker")["encoder"] == "fast"
    assert links(again, *MENTIONS) == expected
    from_bytes = pipeline(fast_linker, encoder="fast").from_bytes(nlp.to_bytes())
    assert links(from_bytes, *MENTIONS) == expected
    linker = pickle.loads(pickle.dumps(nlp.get_pipe("sapbert_linker")))
    assert linker.model.architecture == bundle.STATIC_ENCODER
    docs = list(nlp.pipe([doc_of(nlp, *MENTIONS) for _ in range(4)], n_process=2, batch_size=2))
    assert [[ent.kb_id_ for ent in doc.ents] for doc in docs] == [expected] * 4


FORKED = """
    import sys
    import spacy
    import torch
    from spacy.tokens import Span

    torch.set_num_threads(2)
    a = torch.ones(2000, 2000)
    float((a @ a).sum()), float((a + a).exp().sum())  # the parent's threads are there now, and do not come along
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker", config={"linker_name": sys.argv[1]})  # loaded by the workers, each for itself
    docs = [nlp.make_doc("heart failure") for _ in range(4)]
    for doc in docs:
        doc.ents = [Span(doc, 0, 2, label="X")]
    print(*{ent.kb_id_ for doc in nlp.pipe(docs, n_process=2, batch_size=1) for ent in doc.ents})
"""


@pytest.mark.e2e
def test_workers_load_it_for_themselves(fast_linker: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(FORKED))
    done = subprocess.run([sys.executable, str(script), str(fast_linker)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == links(pipeline(fast_linker), "heart failure")


def test_what_the_encoder_does_not_know_is_near_to_nothing(tiny_linker: Path, tmp_path: Path) -> None:
    model = StaticEncoder(str(model2vec(tmp_path / "m")))
    folder = building.build_linker([], tmp_path / "m2v", kb=tiny_linker / "kb", model=model, progress=False)
    linker = pipeline(folder, threshold=-1.0).get_pipe("sapbert_linker")
    linker.load()
    assert not linker.model.predict(["zzqx"]).any()
    assert linker.find([("zzqx", None)])[0].answer.candidates == []
    assert linker.candidate_generator(["zzqx"], 5) == [[]]


def test_the_configured_encoder_comes_back_after_a_folder_of_the_other_kind(fast_linker: Path, tiny_linker: Path) -> None:
    linker = pipeline(tiny_linker, model={"@architectures": "spacy-sapbert.NameEncoder.v1", "dtype": "float32"}).get_pipe("sapbert_linker")
    linker.set_folder(fast_linker)
    assert linker.model.architecture == bundle.STATIC_ENCODER
    linker.set_folder(tiny_linker)
    assert (linker.model.architecture, linker.model.dtype) == (bundle.NAME_ENCODER, "float32")


def test_the_wrong_encoder_is_refused(fast_linker: Path, tiny_linker: Path, tmp_path: Path) -> None:
    def code(folder: Path, **config: Any) -> str:
        with pytest.raises(SapbertError) as error:
            pipeline(folder, **config).get_pipe("sapbert_linker").load()
        return f"{error.value.code} {error.value}"

    static = {"@architectures": "spacy-sapbert.StaticEncoder.v1"}
    for config in ({"encoder": "fast"}, {"model": static}):
        said = code(tiny_linker, **config)
        assert said.startswith("E203")
        assert "all-MiniLM-L6-v2" in said
        assert "encoder fast" in said
    assert code(fast_linker, model={**static, "name": "minishlab/potion-base-8M"}).startswith("E203")
    assert code(fast_linker, model={"@architectures": "spacy-sapbert.NameEncoder.v1", "name": "some/bert"}).startswith("E203")
    assert code(fast_linker, encoder="faster").startswith("E002")
    assert "Leave linker_name out" in code(Path("hpo"), encoder="fast")
    assert code(fast_linker, encoder="fast", model={"@architectures": "spacy-sapbert.NameEncoder.v1", "name": "some/bert"}).startswith("E002")
    assert code(fast_linker, encoder="fast", model={**static, "name": "minishlab/potion-base-8M"}).startswith("E002")
    other = building.build_linker([], tmp_path / "m2v", kb=tiny_linker / "kb", model=StaticEncoder(str(model2vec(tmp_path / "m"))), progress=False)
    assert code(other, encoder="fast").startswith("E203")
    assert links(pipeline(other, threshold=0.5), "heart failure")[0] != ""


def test_an_update_keeps_the_encoder(fast_linker: Path, tmp_path: Path) -> None:
    sources = [building.read_source(DATA / "tiny_clinic.tsv")]
    folder, _ = update_linker(fast_linker, sources, tmp_path / "new", progress=False)
    assert links(pipeline(folder, encoder="fast"), "diabetes mellitus type 2") == links(pipeline(fast_linker), "diabetes mellitus type 2")


@pytest.mark.e2e  # it builds the linker "hpo-fast" if the cache is empty
def test_out_of_the_box() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": "hpo-fast"})
    linker: Any = nlp.add_pipe("sapbert_linker", config={"encoder": "fast", "linker_name": "hpo-fast"})
    doc = nlp("Recurrent seizures and short stature were noted.")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("seizures", "C0014544"), ("short stature", "C0349588")]
    assert linker.folder.name.startswith("hpo-fast-")
    assert linker.calibration is not None
    assert doc.ents[0]._.kb_prob > 0.8


# -- commands ------------------------------------------------------------------------------------------------------------


def test_index_and_link_take_it(tiny_linker: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    kb, out = str(tiny_linker / "kb"), tmp_path / "linker"
    exact = ["--engine", "spacy-sapbert.ExactIndex.v1"]
    done = run(app, ["index", kb, "--out", str(out), "--encoder", "fast", *exact])
    assert done.exit_code == 0, done.output
    assert json.loads((out / "encoder" / "manifest.json").read_text())["architecture"] == bundle.STATIC_ENCODER
    told = run(app, ["link", "Known hypertension.", "--linker-name", str(out), "--encoder", "fast", "--format", "jsonl"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output.splitlines()[-1])["mention"] == "hypertension"
    wrong = run(app, ["link", "Fever.", "--linker-name", str(tiny_linker), "--encoder", "fast"])
    assert wrong.exit_code == 1
    assert "E203" in wrong.output
    wrong = run(app, ["index", kb, "--out", str(out), "--encoder", "fast", "--pooling", "mean"])
    assert wrong.exit_code == 1
    assert "E002" in wrong.output
    own = run(app, ["index", kb, "--out", str(out), "--encoder", str(model2vec(tmp_path / "m")), *exact])
    assert own.exit_code == 0, own.output
    assert json.loads((out / "encoder" / "manifest.json").read_text())["name"] == str(tmp_path / "m")
