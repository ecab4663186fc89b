"""The steps of `spacy project run mentions` on tiny reports, up to a recogniser that a pipeline loads; and the recipe with a transformer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config
from typer.testing import CliRunner

from training.cli import app
from training.mentions.documents import split_of

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "training" / "configs"
PATIENT = "Zyxwvutsmith"
REPORT = f"He had fever and chest pain.\nAspirin was given; an ECG was normal. {PATIENT} went home."
MENTIONS = (("Sign_symptom", "fever"), ("Sign_symptom", "chest pain"), ("Medication", "Aspirin"), ("Diagnostic_procedure", "ECG"), ("Age", "He"))


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["recogniser", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.e2e
def test_from_brat_to_a_pipeline(tiny_linker: Path, tmp_path: Path) -> None:
    source = tmp_path / "maccrobat"
    source.mkdir()
    names = [f"{number}" for number in range(60)]
    assert {split_of(name) for name in names} == {"train", "dev", "test"}
    for name in names:
        (source / f"{name}.txt").write_text(REPORT)
        lines = [f"T{n}\t{kind} {REPORT.index(text)} {REPORT.index(text) + len(text)}\t{text}\n" for n, (kind, text) in enumerate(MENTIONS, 1)]
        (source / f"{name}.ann").write_text("".join(lines))
    counts = json.loads(run("documents", tmp_path / "documents", "--maccrobat", source, "--corpora", "maccrobat"))
    assert counts["maccrobat"]["of_no_kind"] == counts["maccrobat"]["documents"]
    assert "DISO" in run("lexicon", tiny_linker / "kb", tmp_path / "lexicon")
    fitted = ("fit", CONFIGS / "recogniser.cfg", tmp_path / "documents", tmp_path / "lexicon")
    with gzip.open(tmp_path / "notes.jsonl.gz", "wt") as notes:
        notes.writelines(json.dumps({"transcription": f"{REPORT} He had fever {number} times."}) + "\n" for number in range(200))
    foretold = run("pretrain", *fitted[1:], tmp_path / "first", "--notes", tmp_path / "notes.jsonl.gz", "--max-steps", 12)
    losses = [json.loads(line)["loss"] for line in foretold.splitlines()]
    assert losses[-1] < losses[0]
    shown = run(*fitted, tmp_path / "recogniser", "--max-steps", 30, "--start", tmp_path / "first")
    passes = [json.loads(line) for line in shown.splitlines()]
    assert passes[-1]["loss"] < passes[0]["loss"]  # the loss falls
    table = run("evaluate", tmp_path / "recogniser", tmp_path / "documents", "--part", "test", "--out", tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["part"] == "test"
    assert f"| all | {figures['figures']['all']['gold']} |" in table
    kept = [path for name in ("lexicon", "first", "recogniser") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert len(kept) > 5
    assert [path.name for path in kept if PATIENT.lower().encode() in path.read_bytes().lower()] == []  # no word of the notes
    assert PATIENT not in foretold + shown + table
    nlp = spacy.blank("en")
    nlp.add_pipe("clinical_mentions", config={"model": str(tmp_path / "recogniser")})
    assert nlp(REPORT) is not None


def test_wrong_recipes_and_parts_are_errors_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.cfg").write_text("[training]\nepochs = 0\n")
    for words, said in (
        (["fit", tmp_path / "bad.cfg", tmp_path, tmp_path, tmp_path / "out"], "training.epochs|epochs"),
        (["evaluate", tmp_path, tmp_path, "--part", "train"], "dev, test"),
        (["documents", tmp_path / "out", "--corpora", "anatem"], "maccrobat"),
    ):
        result = CliRunner().invoke(app, ["recogniser", *map(str, words)])
        assert result.exit_code == 1
        assert "E620" in result.output
        assert any(word in result.output for word in said.split("|"))


def test_the_transformers_recipe_is_a_whole_config(tmp_path: Path) -> None:
    """The recipe is filled as by `spacy init fill-config`; nothing is downloaded before training."""
    _, filled = fill_config(tmp_path / "filled.cfg", CONFIGS / "recogniser_transformer.cfg")
    nlp = spacy.util.load_model_from_config(filled, auto_fill=False, validate=True)
    assert nlp.pipe_names == ["transformer", "ner"]
    assert filled["corpora"]["train"]["max_length"] == 0  # otherwise long documents without sentences would be left out
