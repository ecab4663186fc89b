"""project.yml, as weasel reads it, and the workflow `smoke` from a clean copy to a package that links."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Dict, List, Set

import click
import pytest
import srsly
import typer
from spacy.cli._util import app, parse_config_overrides
from trainings import run_here
from typer.testing import CliRunner
from weasel.cli import run as weasel_run
from weasel.util import load_project_config

from spacy_sapbert.errors import MissingFile
from training import cli

ROOT = Path(__file__).parents[2]
MADE = ("artifacts", "metrics", "packages")
COMMANDS = [
    "assets",
    "kb",
    "pairs",
    "definitions",
    "train",
    "assemble",
    "evaluate",
    "report",
    "package",
    "compare",
    "finetune",
    "biosyn",
    "mentions",
    "xlbel",
    "clean",
]
ALL = COMMANDS[:9]
VOCABULARY = ["vocabulary-assets", "vocabulary-make", "senses", "ranker", "reranker", "cross-encoder"]
LANGUAGES = ["languages-assets", "languages-kb", "languages-train", "languages-evaluate"]
NESTED = ["run-smoke", "cross-encoder-small", "run-umls"]  # these run the workflow `all`, or the command `cross-encoder`, with other vars
CLEANS = "find spacy_sapbert training -type d -name __pycache__ -prune -exec rm -rf {} +"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with only project.yml, because loading it makes the folders that it names."""
    shutil.copy(ROOT / "project.yml", tmp_path)
    return tmp_path


@pytest.fixture
def config(project: Path) -> Dict[str, Any]:
    return dict(load_project_config(project))


def commands(config: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    return {command["name"]: command for command in config["commands"]}


def test_commands_and_workflows(config: Dict[str, Any]) -> None:
    assert list(commands(config)) == [*COMMANDS[:-1], *VOCABULARY, *LANGUAGES, "clean", *NESTED]
    assert config["workflows"] == {"all": ALL, "smoke": ["run-smoke"], "umls": ["run-umls"], "vocabulary": VOCABULARY[:2], "languages": LANGUAGES}
    for name, command in commands(config).items():
        assert re.fullmatch(r"[A-Z].{20,}\.", command["help"]), name
        if name not in ["clean", *NESTED]:
            assert command["deps"], name
            assert command["outputs"], name


def test_variants_are_kept_apart(project: Path) -> None:
    """Another variant has other command names, and therefore other entries in project.lock, and other folders."""
    plain, other = (commands(load_project_config(project, overrides={"vars.variant": variant})) for variant in ("", "/smoke"))
    for name in [*COMMANDS, "cross-encoder"]:
        moved = other[f"{name}/smoke"]
        for key in ("script", "outputs"):
            back = [text.replace("/smoke/", "/").replace("/smoke", "") for text in moved.get(key, [])]
            assert back == plain[name].get(key, []), name
        assert all(path.split("/")[1] == "smoke" for path in moved.get("outputs", [])), name


def test_sources_that_commands_depend_on_exist(config: Dict[str, Any]) -> None:
    given = [dep for command in config["commands"] for dep in command.get("deps", []) if dep.partition("/")[0] not in MADE]
    assert {"project.yml", "training/loop", config["vars"]["recipe"], "spacy_sapbert/kb"} <= set(given)
    assert [dep for dep in given if not (ROOT / dep).exists()] == []


def test_what_is_made_is_made_before_it_is_used(config: Dict[str, Any]) -> None:
    made: Set[str] = set()
    for name in config["workflows"]["all"]:
        command = commands(config)[name]
        assert [dep for dep in command["deps"] if dep.partition("/")[0] in MADE and dep not in made] == [], name
        made.update(command["outputs"])


# -- steps after an edit ------------------------------------------------------------------------------------------------

# an edited file -> the commands that are run again because of it, besides `assets`, which always runs
EDITS = {
    "spacy_sapbert/kb/builder.py": {*ALL[1:-1], "compare", "finetune", "biosyn", "mentions", "vocabulary-make", *LANGUAGES[1:]},
    "spacy_sapbert/readers/obo.py": {
        "kb",
        "assemble",
        "evaluate",
        "compare",
        "finetune",
        "biosyn",
        "mentions",
        "vocabulary-make",
        "languages-kb",
        "languages-evaluate",
    },
    "spacy_sapbert/files.py": {"kb", "languages-kb"},
    "spacy_sapbert/encoders/transformer.py": {
        *("train", "assemble", "evaluate", "report", "compare", "finetune", "biosyn", "mentions"),
        *("languages-train", "languages-evaluate"),
    },
    "spacy_sapbert/indexes/annoy.py": {"assemble", "evaluate"},
    "spacy_sapbert/build/tune.py": {"assemble"},
    "spacy_sapbert/doc/abbreviations.py": {"assemble", "evaluate", "compare", "finetune", "biosyn"},
    "spacy_sapbert/matcher/phrases.py": {"assemble", "evaluate", "mentions"},
    "spacy_sapbert/mentions/features.py": {"evaluate", "mentions"},
    "spacy_sapbert/acronyms.py": {"assemble", "evaluate"},
    "spacy_sapbert/data/branch_types.tsv": {"kb", "languages-kb", "assemble", "evaluate"},
    "spacy_sapbert/data/section_titles.tsv": {"assemble", "evaluate"},
    "spacy_sapbert/candidates.py": {"assemble", "evaluate"},
    "spacy_sapbert/calibration.py": {"assemble", "evaluate"},
    "spacy_sapbert/ranking/features.py": {"assemble", "evaluate"},
    "spacy_sapbert/search.py": {"assemble", "evaluate"},
    "spacy_sapbert/linker.py": {"assemble", "evaluate"},
    "spacy_sapbert/annotated.py": {"assemble", "evaluate"},
    "spacy_sapbert/state.py": {"assemble", "evaluate"},
    "spacy_sapbert/corpus/notes.py": {"evaluate"},  # used to measure the pipeline on whole texts
    "spacy_sapbert/context/sections.py": {"assemble", "evaluate"},
    "training/senses/fit.py": {"mentions"},  # pretraining reads notes with code of `senses`; the command `senses` itself always runs
    "training/vocabulary/sources.py": {"vocabulary-make"},
    "spacy_sapbert/render/html.py": set(),
    "spacy_sapbert/service/app.py": set(),
    "spacy_sapbert/review/store.py": set(),
    "spacy_sapbert/exports/fhir.py": set(),
    "spacy_sapbert/cli/link.py": set(),
    "training/corpora/brat.py": {"assemble", "evaluate", "report", "compare", "finetune", "biosyn", "mentions", "languages-evaluate"},
    "training/mentions/fit.py": {"mentions"},
    "training/configs/recogniser.cfg": {"mentions"},
    "training/data/pairs.py": {
        *("pairs", "definitions", "train", "evaluate", "report", "compare", "finetune", "biosyn"),
        *("languages-kb", "languages-train", "languages-evaluate"),
    },
    "training/loop/losses.py": {"train", "evaluate", "report", "compare", "finetune", "biosyn", "languages-train", "languages-evaluate"},
    "training/tasks/multitask.py": {"train", "report", "compare", "finetune", "biosyn", "languages-train"},
    "training/fit.py": {"train", "report", "compare", "finetune", "biosyn", "languages-train"},
    "training/recipe.py": {"train", "report", "compare", "finetune", "biosyn", "languages-train"},
    "training/soup.py": {"train", "compare", "finetune", "biosyn", "languages-train"},
    "training/compare.py": {"compare"},
    "training/finetune.py": {"finetune"},
    "training/evaluation/metrics.py": {"assemble", "evaluate", "report", "compare", "finetune", "biosyn", "languages-evaluate"},
    "training/report/page.py": {"report"},
    "training/cli.py": set(),
    "training/configs/sap_small.cfg": {"train", "compare"},
    "training/configs/compare.cfg": {"compare"},
    "training/configs/finetune.cfg": {"finetune"},
    "training/configs/biosyn.cfg": {"biosyn"},
    "training/configs/cross_encoder.cfg": {"cross-encoder"},
    "training/compress.py": {"cross-encoder"},
    "training/vocabulary/lay_names.tsv": {"vocabulary-make", "cross-encoder"},
    "training/configs/pipeline.cfg": {"assemble"},
}
for _file in (
    *("spacy_sapbert/kb/builder.py", "spacy_sapbert/readers/obo.py", "spacy_sapbert/encoders/transformer.py", "spacy_sapbert/candidates.py"),
    *("spacy_sapbert/ranking/features.py", "spacy_sapbert/search.py", "spacy_sapbert/annotated.py"),
    *("training/corpora/brat.py", "training/evaluation/metrics.py"),
):
    EDITS[_file] = EDITS[_file] | {"ranker", "reranker", "cross-encoder"}
for _file in ("spacy_sapbert/doc/abbreviations.py", "spacy_sapbert/indexes/annoy.py", "spacy_sapbert/linker.py"):
    EDITS[_file] = EDITS[_file] | {"ranker"}
for _file in (
    *("spacy_sapbert/doc/abbreviations.py", "training/data/pairs.py", "training/loop/losses.py", "training/tasks/multitask.py"),
    *("training/fit.py", "training/recipe.py", "training/soup.py"),
):
    EDITS[_file] = EDITS[_file] | {"cross-encoder"}


# imported everywhere, but without influence on results; build and corpus are imported only for a name, ranking/pairs.py only for the cross-encoder's task
IMPORTED_ONLY = {
    "spacy_sapbert/ranking/pairs.py",
    *("spacy_sapbert/devices.py", "spacy_sapbert/signals.py", "training/devices.py", "training/launcher.py"),
    *("spacy_sapbert/about.py", "spacy_sapbert/errors.py", "spacy_sapbert/files.py", "spacy_sapbert/registry.py", "spacy_sapbert/types.py"),
    *("spacy_sapbert/__init__.py", "spacy_sapbert/build", "spacy_sapbert/corpus", "training/__init__.py", "training/errors.py", "training/made.py"),
}
# for one command: rooms that its modules import only for other commands
IMPORTED_FOR_OTHERS = {
    "definitions": {"spacy_sapbert/readers"},
    "train": {"spacy_sapbert/doc", "spacy_sapbert/indexes", "spacy_sapbert/readers", "training/corpora"},
    "assemble": {"training/data", "training/loop", "training/paths.py"},
    "report": {
        "spacy_sapbert/bundle.py",
        "spacy_sapbert/doc",
        "spacy_sapbert/indexes",
        "spacy_sapbert/readers",
        "spacy_sapbert/search.py",
        "spacy_sapbert/settings.py",
        "training/paths.py",
        "training/registry.py",
    },
    "compare": {"spacy_sapbert/bundle.py", "spacy_sapbert/indexes", "spacy_sapbert/search.py", "spacy_sapbert/settings.py"},
    "finetune": {"spacy_sapbert/bundle.py", "spacy_sapbert/indexes", "spacy_sapbert/search.py", "spacy_sapbert/settings.py"},
    "biosyn": {"spacy_sapbert/bundle.py", "spacy_sapbert/indexes", "spacy_sapbert/search.py", "spacy_sapbert/settings.py"},
    "ranker": {
        *("spacy_sapbert/bundle.py", "spacy_sapbert/calibration.py", "training/data", "training/loop", "training/paths.py"),
        *("training/recipe.py", "training/registry.py", "training/tasks"),
    },
    "cross-encoder": {"spacy_sapbert/bundle.py", "spacy_sapbert/indexes"},
    "languages-kb": {"training/corpora"},
    "languages-train": {"spacy_sapbert/doc", "spacy_sapbert/indexes", "spacy_sapbert/readers", "training/corpora"},
    "languages-evaluate": {
        "spacy_sapbert/bundle.py",
        "spacy_sapbert/doc",
        "spacy_sapbert/indexes",
        "spacy_sapbert/search.py",
        "spacy_sapbert/settings.py",
    },
}


def file_of(module: str) -> str | None:
    path = ROOT / module.replace(".", "/")
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if module and file.is_file():
            return str(file.relative_to(ROOT))
    return None


@cache
def imports(file: str, function: str = "") -> frozenset[str]:
    """Return the files of both packages that a module, or one of its functions, imports; without imports only for annotations."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    chosen = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function] if function else tree.body
    chosen = [node for node in chosen if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))]
    found: Set[str] = set()
    for node in (below for top in chosen for below in ast.walk(top)):
        if isinstance(node, ast.ImportFrom):
            above = file.split("/")[: -node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return frozenset(file for module in found if (file := file_of(module)))


def needed(script: List[str]) -> Set[str]:
    """Return the modules of `training` that the lines of a command run, and the modules of `spacy_sapbert` that these import."""
    found: Set[str] = set()
    for words in map(shlex.split, script):
        if "training" not in words[:4]:
            continue
        ran: Any = typer.main.get_command(cli.app)
        for word in words[words.index("training") + 1 :]:
            if hasattr(ran, "commands"):
                ran = ran.commands[word]
        called = inspect.unwrap(ran.callback)
        file = file_of(called.__module__)
        assert file
        wanted = set(imports(file, called.__name__))
        while wanted:
            module = wanted.pop()
            if module not in found:
                found.add(module)
                wanted |= imports(module) if module.startswith("training/") else set()
    return found


def test_imports_are_followed() -> None:
    found = needed(["python -B -m training evaluate"])
    assert {"training/evaluation/evaluate.py", "training/corpora/tables.py", "training/data/pairs.py", "spacy_sapbert/kb/knowledge_base.py"} <= found
    assert "training/report/page.py" not in found


@pytest.mark.parametrize("name", [*ALL[2:-1], "compare", "finetune", "biosyn", "ranker", "cross-encoder", *LANGUAGES[1:]])
def test_what_a_command_imports_lies_under_one_of_its_deps(config: Dict[str, Any], name: str) -> None:
    command = commands(config)[name]
    under = tuple({*command["deps"], *IMPORTED_ONLY, *IMPORTED_FOR_OTHERS.get(name, set())})
    assert [file for file in sorted(needed(command["script"])) if not any(file == dep or file.startswith(f"{dep}/") for dep in under)] == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources, project.yml, outputs of every command, and the lock that says that they are up to date."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copy(ROOT / "project.yml", folder)
    for package in ("spacy_sapbert", "training"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "data" if package == "spacy_sapbert" else ""))
    (folder / "spacy_sapbert" / "data").mkdir()
    for table in (ROOT / "spacy_sapbert" / "data").glob("*.tsv"):  # without the encoders, which are large
        shutil.copy(table, folder / "spacy_sapbert" / "data")
    config = load_project_config(folder)
    for command in config["commands"]:
        for output in command.get("outputs", []):
            path = folder / output
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(output)
    for command in config["commands"]:
        weasel_run.update_lockfile(folder, command)
    return folder


def again(folder: Path) -> set[str]:
    """Return the commands that weasel would run, without those that always run. weasel decides, but each file is read only once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weasel_run, "get_checksum", cache(weasel_run.get_checksum))
        patch.setattr(srsly, "read_yaml", cache(srsly.read_yaml))
        given = [command for command in project_of(folder)["commands"] if command.get("outputs") and not command.get("no_skip")]
        return {command["name"] for command in given if weasel_run.check_rerun(folder, command)}


@cache
def project_of(folder: Path) -> Dict[str, Any]:
    return dict(load_project_config(folder))


def test_nothing_is_run_again_without_an_edit(made: Path) -> None:
    assert again(made) == set()


@pytest.mark.parametrize("file", EDITS)
def test_an_edit_runs_the_right_commands_again(made: Path, file: str) -> None:
    path = made / file
    before = path.read_bytes()
    path.write_bytes(before + b"\n# edited\n")
    try:
        assert again(made) == EDITS[file]
    finally:
        path.write_bytes(before)


def test_every_room_is_edited_above() -> None:
    rooms = {path.relative_to(ROOT).parts[:2] for package in ("spacy_sapbert", "training") for path in (ROOT / package).glob("*/*.py")}
    assert {"/".join(room) for room in rooms} <= {file.rpartition("/")[0] for file in EDITS}


def test_a_file_of_bytecode_in_a_room_is_removed_before_anything_is_compared(made: Path, config: Dict[str, Any]) -> None:
    """Weasel hashes all files in a folder. So no command writes bytecode, and the first command removes that of other runs of Python."""
    cache = made / "training" / "loop" / "__pycache__"
    cache.mkdir()
    (cache / "losses.cpython-311.pyc").write_bytes(b"bytecode")
    for first in ("assets", "languages-assets"):
        assert commands(config)[first]["script"][0] == CLEANS
        assert commands(config)[first]["no_skip"]
    subprocess.run(shlex.split(CLEANS), cwd=made, check=True)
    assert not cache.exists()
    assert again(made) == set()
    scripts = [line for command in config["commands"] for line in command["script"] if line.startswith("python")]
    assert [line for line in scripts if not line.startswith("python -B ") and "-m pip wheel" not in line] == []


def check_options(words: List[str]) -> None:
    """Parse the words of a command as `python -m training` does; an option or command that it does not know raises."""
    found: Any = typer.main.get_command(cli.app)
    context = click.Context(found)
    while isinstance(found, click.Group):
        found = found.get_command(context, words[0])
        assert found is not None, words[0]
        words = words[1:]
    context = click.Context(found, **found.context_settings)
    found.parse_args(context, list(words))


@pytest.mark.parametrize("baselines", ["baselines", "no-baselines"])
def test_baselines_are_a_word_without_dashes(project: Path, baselines: str) -> None:
    """Weasel would take a value that begins with dashes for an option of its own."""
    given = load_project_config(project, overrides=parse_config_overrides(["--vars.baselines", baselines]))
    words = shlex.split(commands(given)["evaluate"]["script"][0])
    assert words[-1] == f"--{baselines}"
    check_options(words[4:])


@pytest.mark.parametrize("several", ["several", "no-several"])
def test_names_of_several_concepts_are_chosen_for_the_pairs_of_a_release(project: Path, several: str) -> None:
    given = commands(load_project_config(project, overrides=parse_config_overrides(["--vars.several", several])))
    (nested,) = map(shlex.split, given["run-umls"]["script"])
    passed = load_project_config(project, overrides=parse_config_overrides(nested[8:]))
    (words,) = map(shlex.split, commands(passed)["pairs/umls"]["script"])
    assert f"--{several}" in words
    check_options(words[4:])


def test_a_small_run_of_the_cross_encoder(project: Path) -> None:
    """Its options are vars of the project, and those that they are passed on to. It needs no corpus besides GSC+, no notes and no phrases."""
    given = load_project_config(project)
    (nested,) = map(shlex.split, commands(given)["cross-encoder-small"]["script"])
    assert nested[:8] == ["python", "-B", "-m", "spacy", "project", "run", "cross-encoder/small", "."]
    overrides = parse_config_overrides(nested[8:])
    assert {key.removeprefix("vars.") for key in overrides} <= set(given["vars"])
    scripts = [shlex.split(line) for line in commands(load_project_config(project, overrides=overrides))["cross-encoder/small"]["script"]]
    for words in scripts:
        if words[3] == "training":
            check_options(words[4:])
    options = dict(zip(scripts[2][5::2], scripts[2][6::2]))
    assert (options["--fit"], options["--test"], options["--phrases"], options["--notes"]) == ("gsc-dev", "patients-dev", "", "")
    assert scripts[0][5:7] == ["hpo", "corpora/gsc_plus"]
    assert scripts[3][scripts[3].index("--training.max_steps") + 1] == "4"


def test_scripts_are_commands_without_code(config: Dict[str, Any]) -> None:
    modules = {"training", "spacy_sapbert", "spacy", "pip"}
    for command in config["commands"]:
        for words in map(shlex.split, command["script"]):
            if words[0] == "find":
                assert shlex.join(words) == shlex.join(shlex.split(CLEANS))  # it removes only bytecode
            elif words[0] == "rm":
                made = [*MADE, f"packages/en_{config['vars']['name']}-{config['vars']['version']}"]
                assert words[:2] == ["rm", "-rf"]
                assert set(words[2:]) <= set(made)  # never training/
            else:
                assert [word for word in words[:3] if word != "-B"][:2] == ["python", "-m"]
                module = words.index("-m") + 1
                assert words[module] in modules
                assert "-c" not in words
                if words[module] == "training":
                    check_options(words[module + 1 :])


def test_vars_that_the_readme_names(config: Dict[str, Any]) -> None:
    given = config["vars"]
    assert {key: given[key] for key in ("mirror", "gpu_id", "seed", "base")} == {"mirror": "", "gpu_id": -1, "seed": 0, "base": ""}
    assert given["recipe"].startswith("training/configs/")


def test_assets_are_pinned(config: Dict[str, Any]) -> None:
    address = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[^#\s]+(#[\w./]+)?")
    licence = re.compile(
        r"CC0|CC BY [34]\.0|CC BY-NC-SA [34]\.0|GPL-3|Public|LICENSE|terms of use|HPO licence|Courtesy of the U\.S\. National Library of Medicine"
    )
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
    only_vocabulary = {dest for dest in destinations if "oncotree" in dest or "icd10cm" in dest}  # only for the workflow `vocabulary`
    assert {dest for dest in destinations if dest.startswith("assets/ontologies/")} - only_vocabulary <= set(sources)
    assert not any(source.startswith(("assets/corpora/", "assets/similarity/")) for source in sources)  # benchmarks are not trained on


def test_checksums_are_those_of_the_mirror(config: Dict[str, Any], data_folder: Path, tmp_path: Path) -> None:
    from training.data.assets import Asset, in_place, provide

    wanted = [Asset(asset["dest"], asset["url"], asset["checksum"]) for asset in config["assets"]]
    provide(wanted, tmp_path, data_folder)
    assert all(in_place(tmp_path / asset.dest, asset.checksum) for asset in wanted)


def test_umls_without_files_says_where_to_get_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.data.commands import assets

    monkeypatch.chdir(project)
    (words,) = map(shlex.split, commands(load_project_config(project))["run-umls"]["script"])
    assert words[:8] == ["python", "-B", "-m", "spacy", "project", "run", "all", "."]
    given = dict(zip(words[8::2], words[9::2]))
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
@pytest.mark.first
def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run `smoke` on a clean copy without assets and network; run it again, which does nothing; then use the wheel in an empty folder."""
    clone, target, elsewhere = tmp_path / "clone", tmp_path / "target", tmp_path / "elsewhere"
    for name in ("spacy_sapbert", "training"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "project.yml", clone)
    recipe = clone / load_project_config(clone)["vars"]["recipe"]
    assert "\nprocesses = 2\n" in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("\nprocesses = 2\n", "\nprocesses = 1\n"))  # test_train tests two processes
    monkeypatch.chdir(clone)
    monkeypatch.setattr(weasel_run, "run_command", run_here)
    workflow = [sys.executable, "-m", "spacy", "project", "run", "smoke", "."]  # without ".", weasel would use the folder in which spaCy was imported
    run_here(workflow)
    assert not (clone / "assets").exists()
    assert 800 <= json.loads((clone / "artifacts/smoke/kb/manifest.json").read_text())["counts"]["concepts"] <= 1200
    assert (clone / "metrics/smoke/evaluation.json").is_file()
    assert "<table" in (clone / "artifacts/smoke/report/index.html").read_text()

    capsys.readouterr()
    run_here(workflow)
    assert re.findall(r"Skipping '(\w+)/smoke'", capsys.readouterr().out) == ALL[1:]

    (wheel,) = (clone / "packages/smoke").iterdir()
    elsewhere.mkdir()
    run(elsewhere, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target), str(wheel))
    (metadata,) = target.glob("*.dist-info/METADATA")
    assert re.search(r"^Requires-Dist: spacy-sapbert\b.*>=", metadata.read_text(), re.MULTILINE)
    shutil.rmtree(clone)  # the package does not need it
    code = (
        f"import sys; sys.path[:0] = [{str(target)!r}, {str(ROOT)!r}]; import spacy; nlp = spacy.load('en_sapbert_smoke');"
        "print([(e.text, e.kb_id_) for e in nlp('She had a nephroblastoma; Wilms tumors and leukemia run in the family.').ents])"
    )
    assert run(elsewhere, "-c", code).strip() == "[('nephroblastoma', 'C0027708'), ('Wilms tumors', 'C0027708'), ('leukemia', 'C0023418')]"


def test_help_lists_every_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    shown = CliRunner().invoke(app, ["project", "run"]).output
    assert all(name in shown for name in [*COMMANDS, *NESTED])
