"""The workflow `umls`, run on a small RRF release (HPO's names with codes of HPO and other vocabularies), also with kills at each step."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from readers.helpers import atom, sab, write_release
from trainings import run_here
from weasel.cli import run as weasel_run

from spacy_sapbert.build.default_linkers import hpo_file
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers import read

ROOT = Path(__file__).parents[2]
CONCEPTS = 300
QUICK = {
    "umls_inputs": "",  # no assets; the only corpus is written by this test
    "umls_recipe": "training/configs/one_process.cfg",
    "max_steps": "3",
    "limit": "50",
    "umls_benchmarks": "held_out,zero_shot,gsc-dev-codes",
    "calibrate_on": "gsc-dev",
    "calibrate_test": "gsc-test",
    "texts": "gsc-dev",
    "baselines": "no-baselines",
}

# step -> seconds from its beginning to its kill; test_train kills a training
KILLED = {
    "kb build": 2.0,
    "training pairs": 1.5,
    "training definitions": 1.5,
    "spacy_sapbert index": 6.0,
    "training calibrate": 4.0,
    "training evaluate": 6.0,
    "training report": 2.0,
    "spacy package": 1.0,
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the sources, project.yml, a release, and a corpus whose gold ids are HPO codes."""
    folder = tmp_path / "clone"
    for name in ("spacy_sapbert", "training"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "project.yml", folder)
    recipe = (ROOT / "training/configs/sap_small.cfg").read_text()
    assert "\nprocesses = 2\n" in recipe
    (folder / QUICK["umls_recipe"]).write_text(recipe.replace("\nprocesses = 2\n", "\nprocesses = 1\n"))  # test_train tests two processes
    atoms, types, chosen = [], [], {}
    for concept in read(hpo_file(), kind="obo"):
        cui = concept.cuis[0] if concept.cuis else ""
        if not cui or cui in chosen or len(concept.names) < 3 or len(chosen) == CONCEPTS:
            continue
        chosen[cui] = concept
        codes = {"HPO": concept.concept_id, **{v: c for v, c in reversed(concept.codes) if v in ("MSH", "SNOMEDCT_US")}}
        for name in concept.names:
            atoms.append(atom(cui, name.text.replace("|", " "), SAB="HPO", TTY=name.term_type, CODE=codes["HPO"]))
        for vocabulary, code in list(codes.items())[1:]:
            atoms.append(atom(cui, concept.names[0].text.replace("|", " "), SAB=vocabulary, TTY="PT", CODE=code))
        types.append(f"{cui}|T033|A2.2|Finding|AT{len(types):08}||")
    write_release(folder / "release", {"MRCONSO": sorted(atoms), "MRSTY": sorted(types), "MRREL": [], "MRDEF": [], "MRSAB": [sab("MTH", "2026AA")]})
    gsc = folder / "assets/corpora/gsc_plus"
    gsc.mkdir(parents=True)
    for part, word in (("dev", "mild"), ("test", "severe")):
        blocks = []
        for i, concept in enumerate(list(chosen.values())[:60]):
            name = concept.names[i % 2].text if i % 3 else f"letter of {i}"
            start = len(f"A {word} ")  # the texts of each part differ, because documents in both parts would be left out of the test part
            blocks.append(f"{part}{i}\nA {word} {name} was seen.\n{start}\t{start + len(name)}\t{name}\t{concept.concept_id}\n")
        (gsc / f"GSCplus_{part}_gold.tsv").write_text("\n".join(blocks), encoding="utf-8")
    return folder


def words(clone: Path, **more: str) -> list[str]:
    """Return the command of the workflow."""
    given = [word for name, value in {"umls": str(clone / "release"), **QUICK, **more}.items() for word in (f"--vars.{name}", value)]
    return [sys.executable, "-W", "ignore", "-m", "spacy", "project", "run", "umls", ".", *given]


def workflow(clone: Path, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(clone), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        words(clone, **more),
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(clone: Path, **more: str) -> str:
    with workflow(clone, **more) as process:
        shown = process.communicate()[0]
    assert process.returncode == 0, shown[-4000:]
    return shown


@pytest.mark.first
@pytest.mark.e2e
@pytest.mark.parametrize("steps", ["here", pytest.param("in processes of their own", marks=pytest.mark.nightly)])
def test_a_release_becomes_a_wheel_that_links(
    steps: str, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if steps == "here":
        monkeypatch.chdir(clone)
        monkeypatch.setattr(weasel_run, "run_command", run_here)
        run_here(words(clone))
        shown = "".join(capfd.readouterr())
        monkeypatch.undo()
    else:
        shown = finish(clone)
    assert (
        "base: all-MiniLM-L6-v2, because 'microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract-fulltext' can't be downloaded from the hub (" in shown
    )
    assert "--vars.base FOLDER" in shown
    made = clone / "artifacts/umls"
    kb = KnowledgeBase(made / "kb")
    assert len(kb) == CONCEPTS
    assert kb.vocabularies_by_size[0] in ("HPO", "UMLS")
    calibration = json.loads((clone / "metrics/umls/calibration.json").read_text())
    assert (calibration["n_fit"], calibration["n_test"]) == (60, 60)
    assert [part["missing_ids"] for part in calibration["counts"].values()] == [0, 0]  # HPO codes are found among CUIs
    codes = json.loads((clone / "metrics/umls/evaluation.json").read_text())["benchmarks"]["gsc-dev-codes"]
    assert (codes["n"], codes["counts"]["unanswerable"]) == (50, 0)
    whole = json.loads((clone / "metrics/umls/end-to-end.json").read_text())["systems"]["trained"]["benchmarks"]["gsc-dev"]
    assert whole["mention_exact"]["recall"] > 60  # two thirds of the gold mentions are names
    assert "gold ids that the knowledge base does not have: 0" in whole["note"]
    assert "base_model: sentence-transformers/all-MiniLM-L6-v2" in (made / "encoder/README.md").read_text()

    cui = kb.concept_id(0)
    name = kb[cui].canonical_name
    (wheel,) = (clone / "packages/umls").glob("*.whl")
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    shutil.rmtree(clone)  # the package does not need it
    code = (
        f"import sys; sys.path[:0] = [{str(target)!r}, {str(ROOT)!r}]; import spacy; nlp = spacy.load('en_sapbert_umls');"
        f"print([(e.text, e.kb_id_) for e in nlp('A note of {name} today.').ents])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([(name, cui)])


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_workflow_killed_at_each_step_is_taken_up_by_the_same_command(clone: Path) -> None:
    """All processes get SIGKILL shortly after a step began; then the same command does the rest, and complete results are not made again."""
    for step, seconds in KILLED.items():
        with workflow(clone) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "Running command" in line and step in line:
                    break
            else:
                pytest.fail(f"'{step}' was not run")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(seconds)
            os.killpg(process.pid, signal.SIGKILL)
        for left_over in (clone / "artifacts/umls").glob(".*.tmp"):
            os.utime(left_over, (0, 0))  # a minute has passed: younger folders may belong to a build that has just begun
    shown = finish(clone)
    assert "Skipping 'kb/umls'" in shown
    assert list((clone / "packages/umls").glob("*.whl"))
    left = [path.name for path in (clone / "artifacts/umls").iterdir()]
    assert [name for name in left if name.startswith(".") or name.endswith((".tmp", ".checkpoints", ".vectors"))] == []
