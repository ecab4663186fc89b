"""Cross-lingual distillation with a random XLM-R of two layers: what is held out, measured and learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

from spacy_sapbert.encoders.transformer import base_encoder
from spacy_sapbert.errors import SapbertError
from training import fit
from training.fit import read_recipe
from training.tasks import cross_lingual as task

pytestmark = pytest.mark.usefixtures("one_thread")
Row = Tuple[str, str, str, str, str]
ROWS: List[Row] = [
    ("fever", "fiebre", "es", "C1", "train"),
    ("fever", "fieber", "de", "C1", "train"),
    ("pyrexia", "pirexia", "es", "C1", "train"),
    ("gout", "gota", "es", "C2", "train"),
    ("rash", "erupción", "es", "C3", "train"),
    ("drop", "Podagra", "es", "C5", "train"),  # is queried below
    ("gout", "gicht", "de", "C2", "held_out"),
    ("podagra", "podagra", "es", "C4", "held_out"),  # the same as in English
    ("ataxia", "podagra", "es", "C6", "held_out"),
    ("rash", "ausschlag", "de", "C3", "held_out"),
]
RECIPE = """
[paths]
out = "out"
base = ""

[encoder]
pooling = "mean"
max_length = 16
dropout = 0.0

[task]
@tasks = "spacy-sapbert.CrossLingualDistillation.v1"
teacher = "teacher"
translations = "translations"
pairs = 4

[training]
max_steps = 4
eval_every = 2
log_every = 1
learning_rate = 1e-3
precision = "fp32"
"""


def write(folder: Path, rows: Sequence[Row]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(dict(zip(task.COLUMNS, map(list, zip(*rows))))), folder / "translations.parquet")
    return folder


def test_what_would_flatter_is_kept_apart(tmp_path: Path) -> None:
    splits = task.read_translations(write(tmp_path, ROWS) / "translations.parquet")
    learnt, asked, counts = task.apart(splits["train"], splits["held_out"])
    assert learnt.translation == ["fiebre", "fieber", "pirexia", "gota", "erupción"]
    assert asked.translation == ["gicht", "podagra", "ausschlag"]
    assert asked.concept == ["C2", "C6", "C3"]
    assert counts == {"held_out_in_training": 1, "held_out": 3, "held_out_same_as_english": 1}
    sample = task.held_out_translations(asked, splits, 0, 100, 100)
    assert sample.queries == asked.translation
    assert sample.splits == ["de", "es", "de"]
    assert sample.names == ["fever", "pyrexia", "gout", "rash", "drop", "podagra", "ataxia"]
    label = dict(zip(sample.names, sample.name_labels.tolist()))
    assert sample.query_labels.tolist() == [label["gout"], label["ataxia"], label["rash"]]
    assert label["fever"] == label["pyrexia"]  # two names of one concept
    few = task.held_out_translations(asked, splits, 0, 1, 0)
    assert len(few.queries) == len(few.names) == 1


def test_accuracy_of_all_and_of_each_language_by_hand() -> None:
    class Encodes:
        vectors = {"a": (1, 0), "b": (0, 1), "x": (0.8, 0.6), "y": (0.6, 0.8), "z": (0, 1)}

        def encode(self, texts: List[str], **_: Any) -> np.ndarray:
            return np.array([self.vectors[text] for text in texts], dtype=np.float32)

    data = task.HeldOut(["x", "y", "z"], np.array([0, 0, 1]), ["es", "de", "de"], ["a", "b"], np.array([0, 1]))
    evaluator = task.TranslationAccuracy(data)
    found = evaluator(Encodes())
    assert found == {"held_out_at1": 66.667, "held_out_at5": 100.0, "de_at1": 50.0, "de_at5": 100.0, "es_at1": 100.0, "es_at5": 100.0}
    assert evaluator.primary_metric == "held_out_at1"


@pytest.fixture
def settings(tmp_path: Path, tiny_base: Path) -> Dict[str, Any]:
    """Settings in which the student is a random XLM-R and the teacher the tiny BERT."""
    (tmp_path / "multilingual.cfg").write_text(RECIPE)
    folder = write(tmp_path / "translations", ROWS)
    return {"paths.out": str(tmp_path / "out"), "paths.base": student(tmp_path, 32), "task.teacher": str(tiny_base), "task.translations": str(folder)}


def student(tmp_path: Path, width: int) -> str:
    folder = tmp_path / f"xlm-r-{width}"
    torch.manual_seed(1)
    config = XLMRobertaConfig(
        vocab_size=30522,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
        pad_token_id=0,
    )
    XLMRobertaModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base_encoder()).save_pretrained(folder)
    return str(folder)


def run(settings: Dict[str, Any], tmp_path: Path, **more: Any) -> Dict[str, Any]:
    return fit.fit(read_recipe(tmp_path / "multilingual.cfg", {**settings, **{key.replace("__", "."): value for key, value in more.items()}}))


def test_the_student_comes_to_the_teachers_vectors(settings: Dict[str, Any], tmp_path: Path, tiny_base: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from training.tasks.targets import Teacher

    report = run(settings, tmp_path, training__max_steps=60, training__eval_every=60, training__learning_rate=1e-2)
    teacher = Teacher(str(tiny_base), 16).encode(["fever", "gout"])
    after = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(["fieber", "gota"])
    before = SentenceTransformer(settings["paths.base"], device="cpu").encode(["fieber", "gota"], normalize_embeddings=True)
    assert np.all((after * teacher).sum(axis=1) > 0.9)
    assert np.all((before * teacher).sum(axis=1) < 0.6)
    assert report["teacher"] == {"dimensions": 32, "linear_map": False}
    assert report["translations"]["languages"] == {"de": 1, "es": 4}
    assert report["names"] == 60 * 8
    assert set(report["after"]) == {f"{group}_at{k}" for group in ("held_out", "de", "es") for k in (1, 5)}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "language: [en, de, es]" in card
    assert "| all languages |" in card
    assert "are close to those of the teacher" in card


def test_a_student_of_another_width_learns_through_a_linear_layer(settings: Dict[str, Any], tmp_path: Path) -> None:
    report = run(settings, tmp_path, paths__base=student(tmp_path, 24))
    assert report["teacher"] == {"dimensions": 32, "linear_map": True}
    assert not list((tmp_path / "out").glob("*Dense*"))
    assert "make indexes with this encoder" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(*ROWS[0][:4], "test")], r"E610.*'test' is not one of train, held_out"),
        ([("fever", " ", "es", "C1", "train")], r"E610.*row 0 has an empty translation"),
        (ROWS[6:], r"E611.*no row of the split 'train'"),
    ],
)
def test_bad_tables(settings: Dict[str, Any], tmp_path: Path, rows: List[Row], said: str) -> None:
    write(tmp_path / "translations", rows)
    with pytest.raises(SapbertError, match=said):
        run(settings, tmp_path)


def test_bad_settings(settings: Dict[str, Any], tmp_path: Path) -> None:
    pq.write_table(pa.table({"english": ["a"], "translation": ["b"]}), tmp_path / "translations" / "translations.parquet")
    with pytest.raises(SapbertError, match=r"E610.*column language, concept_id, split is missing"):
        run(settings, tmp_path)
    with pytest.raises(SapbertError, match=r"E511.*task\.pairs"):
        run(settings, tmp_path, task__pairs=0)


def test_the_papers_multilingual_recipe_runs(settings: Dict[str, Any], tmp_path: Path) -> None:
    """The recipe names its student and teacher; here both are replaced by small ones."""
    path = Path(__file__).parents[3] / "training" / "configs" / "biolord_2023_multilingual.cfg"
    recipe = read_recipe(path)
    assert recipe["paths"]["base"] == "sentence-transformers/paraphrase-multilingual-mpnet-base-v2"
    assert "max_steps" not in recipe["training"]
    report = fit.fit(read_recipe(path, {**settings, "training.max_steps": 3, "training.eval_every": 3, "task.pairs": 4}))
    assert (report["steps"], report["teacher"]["linear_map"]) == (3, False)
