"""The paired encoder: its cosine is the mean of the cosines of its two encoders, and a linker folder holds both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy import registry
from typer.testing import CliRunner

from spacy_sapbert import bundle
from spacy_sapbert.cli import app
from spacy_sapbert.encoders.base import Encoder
from spacy_sapbert.encoders.paired import PairedEncoder
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ["heart failure", "cardiac insufficiency", "fever", "fever", "+/-"]


@pytest.fixture(scope="module")
def encoder() -> Any:
    return PairedEncoder().initialize()


def test_nothing_is_read_before_initialize_and_it_is_registered() -> None:
    made = registry.resolve({"model": {"@architectures": "spacy-sapbert.PairedEncoder.v1", "share": 0.7}})["model"]
    assert isinstance(made, Encoder)
    assert (made.dim, made.fingerprint, made.get_config()) == (0, "", {"name": "", "static": "", "share": 0.7})
    with pytest.raises(SapbertError, match="E302"):
        made.encode(["fever"])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(SapbertError, match=r"E002.*share"):
        PairedEncoder(share=share)


def test_a_cosine_is_the_weighted_mean_of_both(encoder: Any) -> None:
    near, far = (of.encode(NAMES) for of in (encoder.transformer, encoder.static))
    for share in (0.5, 0.8):
        paired = PairedEncoder(share=share)
        paired.transformer, paired.static = encoder.transformer, encoder.static
        vectors = paired.encode(NAMES)
        assert vectors.dtype == np.float32
        assert vectors.shape == (5, paired.dim)
        assert paired.dim == encoder.transformer.dim + encoder.static.dim
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
        expected = share * near[:4] @ near[:4].T + (1 - share) * far[:4] @ far[:4].T
        np.testing.assert_allclose(vectors[:4] @ vectors[:4].T, expected, atol=1e-6)
    assert not far[4].any()  # the name has no letter, so only the transformer has a vector
    np.testing.assert_allclose(vectors[4, : near.shape[1]], near[4], atol=1e-6)
    assert not vectors[4, near.shape[1] :].any()


def test_fingerprints_tell_shares_and_parts_apart(encoder: Any) -> None:
    other = PairedEncoder(share=0.6)
    other.transformer, other.static = encoder.transformer, encoder.static
    prints = {encoder.fingerprint, other.fingerprint, encoder.transformer.fingerprint, encoder.static.fingerprint}
    assert len(prints) == 4
    assert other.max_length == encoder.transformer.max_length == 25
    assert encoder.weight_bytes() == encoder.transformer.weight_bytes() + encoder.static.weight_bytes()


def test_what_is_saved_is_loaded_with_its_share(encoder: Any, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    loaded = PairedEncoder(share=0.9)
    loaded.load(tmp_path)
    assert (loaded.share, loaded.fingerprint) == (0.5, encoder.fingerprint)
    np.testing.assert_allclose(loaded.encode(NAMES), encoder.encode(NAMES), atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        "{",
        '{"architecture": "spacy-sapbert.PairedEncoder.v1"}',
        '{"architecture": "spacy-sapbert.PairedEncoder.v1", "share": 2.0}',
        '{"architecture": "x", "share": 0.5}',
    ],
)
def test_damaged_settings_are_refused(settings: str, tmp_path: Path) -> None:
    (tmp_path / "spacy_sapbert_encoder.json").write_text(settings)
    with pytest.raises(SapbertError, match="E301"):
        PairedEncoder().load(tmp_path)


def test_an_encoder_alone_is_no_pair(encoder: Any, tmp_path: Path) -> None:
    encoder.static.save(tmp_path)
    with pytest.raises(SapbertError, match="E301"):
        PairedEncoder().load(tmp_path)


@pytest.fixture(scope="module")
def linker(tiny_linker: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("paired") / "linker"
    ended = CliRunner().invoke(app, ["index", str(tiny_linker / "kb"), "--encoder", "paired", "--out", str(out)])
    assert ended.exit_code == 0, ended.output
    return out


def test_a_linker_folder_brings_both(linker: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "coronary heart attack"}])
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(linker), "threshold": 0.3})
    text = "A coronary heart attack."
    (ent,) = nlp(text).ents
    assert ent.kb_id_
    assert isinstance(nlp.get_pipe("sapbert_linker").model, PairedEncoder)  # type: ignore[attr-defined]
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert again(text).ents[0]._.kb_ents == ent._.kb_ents
    other: Any = spacy.blank("en").add_pipe("sapbert_linker")
    other.from_bytes(nlp.get_pipe("sapbert_linker").to_bytes())  # type: ignore[attr-defined]
    assert other.model.fingerprint == nlp.get_pipe("sapbert_linker").model.fingerprint  # type: ignore[attr-defined]


@pytest.mark.parametrize("asked", [{"encoder": "fast"}, {"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "name": "some/bert"}}])
def test_another_encoder_than_was_asked_for_is_an_error(linker: Path, asked: Any) -> None:
    made: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(linker), **asked})
    with pytest.raises(SapbertError, match="E203"):
        _ = made.kb


@pytest.mark.parametrize("option", [["--pooling", "cls"], ["--max-length", "12"], ["--trust-remote-code"]])
def test_options_of_one_encoder_are_refused(option: list[str], tiny_linker: Path, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["index", str(tiny_linker / "kb"), "--encoder", "paired", "--out", str(tmp_path / "no"), *option])
    assert ended.exit_code == 1
    assert f"E002 Setting '{option[0]}'" in ended.output or option[0] in ended.output


def test_it_is_built_of_the_two_that_ship(encoder: Any) -> None:
    assert isinstance(encoder.transformer, NameEncoder)
    assert isinstance(encoder.static, StaticEncoder)
    assert bundle.is_fast(encoder.static)
    assert not bundle.is_fast(encoder)
