"""project.yml, as weasel reads it, and the workflow `smoke` from a clean copy to a package that links."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Set

import pytest
from spacy.cli._util import app
from typer.testing import CliRunner
from weasel.util import load_project_config

from spacy_sapbert.errors import MissingFile

ROOT = Path(__file__).parents[2]
MADE = ("artifacts", "metrics", "packages")
COMMANDS = ["assets", "kb", "pairs", "definitions", "train", "assemble", "evaluate", "report", "package", "compare", "clean"]
LANGUAGES = ["languages-assets", "languages-kb", "languages-train", "languages-evaluate"]
NESTED = ["run-smoke", "run-umls"]  # they run the workflow `all` with other vars
# modules of which an edit does not make a trained encoder another one; pairs has a command of its own
NO_DEPENDENCY = {"errors", "card", "pairs"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with project.yml alone: loading it makes the folders it names."""
    shutil.copy(ROOT / "project.yml", tmp_path)
    return tmp_path


@pytest.fixture
def config(project: Path) -> Dict[str, Any]:
    return dict(load_project_config(project))


def commands(config: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    return {command["name"]: command for command in config["commands"]}


def test_commands_and_workflows(config: Dict[str, Any]) -> None:
    assert list(commands(config)) == [*COMMANDS[:-1], *LANGUAGES, "clean", *NESTED]
    assert config["workflows"] == {"all": COMMANDS[:-2], "smoke": ["run-smoke"], "umls": ["run-umls"], "languages": LANGUAGES}
    for name, command in commands(config).items():
        assert re.fullmatch(r"[A-Z].{20,}\.", command["help"]), name
        if name not in ["clean", *NESTED]:
            assert command["deps"], name
            assert command["outputs"], name


def test_variants_are_kept_apart(project: Path) -> None:
    """Another variant has other command names, hence other entries in project.lock, and other folders."""
    plain, other = (commands(load_project_config(project, overrides={"vars.variant": variant})) for variant in ("", "/smoke"))
    for name in COMMANDS:
        moved = other[f"{name}/smoke"]
        for key in ("script", "outputs"):
            back = [text.replace("/smoke/", "/").replace("/smoke", "") for text in moved.get(key, [])]
            assert back == plain[name].get(key, []), name
        assert all(path.split("/")[1] == "smoke" for path in moved.get("outputs", [])), name


def test_source_files_that_commands_depend_on_exist(config: Dict[str, Any]) -> None:
    given = [dep for command in config["commands"] for dep in command.get("deps", []) if dep.partition("/")[0] not in MADE]
    assert {"project.yml", "training/loop/losses.py", config["vars"]["recipe"], "spacy_sapbert/kb/builder.py"} <= set(given)
    assert [dep for dep in given if not (ROOT / dep).is_file()] == []


def test_what_is_made_is_made_before_it_is_used(config: Dict[str, Any]) -> None:
    made: Set[str] = set()
    for name in config["workflows"]["all"]:
        command = commands(config)[name]
        assert [dep for dep in command["deps"] if dep.partition("/")[0] in MADE and dep not in made] == [], name
        made.update(command["outputs"])


def imported(module: str) -> Set[str]:
    """Modules of the training package that one imports, directly or not, and itself; those of a folder as `corpora/tables`."""
    found: Set[str] = set()
    wanted = [module]
    while wanted:
        name = wanted.pop()
        if (ROOT / "training" / name / "__init__.py").is_file():
            name = f"{name}/__init__"
        path = ROOT / "training" / f"{name}.py"
        if name in found or not path.is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                folder = name.split("/")[: -node.level]
                wanted.extend("/".join([*folder, part]) for part in ([node.module] if node.module else [alias.name for alias in node.names]))
    return found


def test_imports_are_followed_into_folders() -> None:
    assert {"evaluate", "corpora/__init__", "corpora/tables", "corpora/ids", "errors", "metrics"} <= imported("evaluate")
    assert "evaluate" not in imported("corpora")


@pytest.mark.parametrize("name", ["assets", "pairs", "definitions", "train", "assemble", "evaluate", "report", "compare", *LANGUAGES])
def test_an_edited_module_runs_its_command_again(config: Dict[str, Any], name: str) -> None:
    command = commands(config)[name]
    modules = [words[2] for words in map(shlex.split, command["script"]) if words[:2] == ["python", "-m"] and words[2].startswith("training.")]
    found = set().union(*(imported(module.removeprefix("training.")) for module in modules))
    needed = {f"training/{part}.py" for part in found - (NO_DEPENDENCY - {name})}
    assert needed <= set(command["deps"])


def test_scripts_are_commands_without_code(config: Dict[str, Any]) -> None:
    modules = {"training", "spacy_sapbert", "spacy", "pip"}
    for command in config["commands"]:
        for words in map(shlex.split, command["script"]):
            if words[0] == "rm":
                made = [*MADE, f"packages/en_{config['vars']['name']}-{config['vars']['version']}"]
                assert words[:2] == ["rm", "-rf"]
                assert set(words[2:]) <= set(made)  # never training/
            else:
                assert words[:2] == ["python", "-m"]
                assert words[2].partition(".")[0] in modules
                assert "-c" not in words


def test_vars_that_the_readme_names(config: Dict[str, Any]) -> None:
    given = config["vars"]
    assert {key: given[key] for key in ("mirror", "gpu_id", "seed", "base")} == {"mirror": "", "gpu_id": -1, "seed": 0, "base": ""}
    assert given["recipe"].startswith("training/configs/")


def test_assets_are_pinned(config: Dict[str, Any]) -> None:
    address = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[^#\s]+(#[\w./]+)?")
    licence = re.compile(r"CC0|CC BY [34]\.0|CC BY-NC-SA [34]\.0|GPL-3|Public|LICENSE|terms of use|HPO licence")
    destinations: List[str] = []
    for asset in config["assets"]:
        assert address.fullmatch(asset["url"]), asset
        assert re.fullmatch(r"[0-9a-f]{32}", asset["checksum"]), asset
        assert licence.search(asset["description"]), asset
        destinations.append(asset["dest"])
    assert len(set(destinations)) == len(destinations)
    assert all(dest.startswith("assets/") for dest in destinations)
    sources = config["vars"]["sources"].split()
    assert sources[0] == "hpo"
    assert set(sources[1:]) <= set(destinations)
    assert {dest for dest in destinations if dest.startswith("assets/ontologies/")} <= set(sources)
    assert not any(source.startswith(("assets/corpora/", "assets/similarity/")) for source in sources)  # what is measured is not trained on


def test_checksums_are_those_of_the_mirror(config: Dict[str, Any], data_folder: Path, tmp_path: Path) -> None:
    from training.data.assets import Asset, in_place, provide

    wanted = [Asset(asset["dest"], asset["url"], asset["checksum"]) for asset in config["assets"]]
    provide(wanted, tmp_path, data_folder)
    assert all(in_place(tmp_path / asset.dest, asset.checksum) for asset in wanted)


def test_umls_without_files_says_where_to_get_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.data.commands import assets

    monkeypatch.chdir(project)
    (words,) = map(shlex.split, commands(load_project_config(project))["run-umls"]["script"])
    assert words[:7] == ["python", "-m", "spacy", "project", "run", "all", "."]
    given = dict(zip(words[7::2], words[8::2]))
    with pytest.raises(MissingFile, match=re.escape("https://www.nlm.nih.gov/research/umls/")):
        assets(given["--vars.inputs"].split(), umls=Path(given["--vars.umls"]))


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.e2e
def test_smoke(tmp_path: Path) -> None:
    """`python -m spacy project run smoke` on a clean copy: no assets, no network; again: all is there; then the wheel in an empty folder."""
    clone, target, elsewhere = tmp_path / "clone", tmp_path / "target", tmp_path / "elsewhere"
    for name in ("spacy_sapbert", "training"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "project.yml", clone)
    run(clone, "-m", "spacy", "project", "run", "smoke")
    assert not (clone / "assets").exists()
    assert 800 <= json.loads((clone / "artifacts/smoke/kb/manifest.json").read_text())["counts"]["concepts"] <= 1200
    assert (clone / "metrics/smoke/evaluation.json").is_file()
    assert "<table" in (clone / "artifacts/smoke/report/index.html").read_text()

    again = run(clone, "-m", "spacy", "project", "run", "smoke")
    assert re.findall(r"Skipping '(\w+)/smoke'", again) == COMMANDS[1:-2]

    (wheel,) = (clone / "packages/smoke").iterdir()
    elsewhere.mkdir()
    run(elsewhere, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target), str(wheel))
    (metadata,) = target.glob("*.dist-info/METADATA")
    assert re.search(r"^Requires-Dist: spacy-sapbert\b.*>=", metadata.read_text(), re.MULTILINE)
    shutil.rmtree(clone)  # the package needs nothing of it
    code = (
        f"import sys; sys.path[:0] = [{str(target)!r}, {str(ROOT)!r}]; import spacy; nlp = spacy.load('en_sapbert_smoke');"
        "print([(e.text, e.kb_id_) for e in nlp('She had a nephroblastoma; Wilms tumors and leukemia run in the family.').ents])"
    )
    assert run(elsewhere, "-c", code).strip() == "[('nephroblastoma', 'C0027708'), ('Wilms tumors', 'C0027708'), ('leukemia', 'C0023418')]"


def test_help_lists_every_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    shown = CliRunner().invoke(app, ["project", "run"]).output
    assert all(name in shown for name in [*COMMANDS, *NESTED])
