"""The package that a user gets: the content of the wheel, its data files, and every registered name can be imported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email.parser import Parser
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parent.parent
EXPECTED_GROUPS = {
    "spacy_factories": ["clinical_mentions", "clinical_status", "concept_matcher", "sapbert_linker"],
    "spacy_architectures": ["spacy-sapbert.NameEncoder.v1", "spacy-sapbert.PairedEncoder.v1", "spacy-sapbert.StaticEncoder.v1"],
    "spacy_sapbert_indexes": [
        "spacy-sapbert.AnnoyIndex.v1",
        "spacy-sapbert.ExactIndex.v1",
        "spacy-sapbert.FaissIndex.v1",
        "spacy-sapbert.ListsIndex.v1",
        "spacy-sapbert.MilvusIndex.v1",
        "spacy-sapbert.UsearchIndex.v1",
    ],
    "spacy_sapbert_linkers": ["hpo", "hpo-fast", "open"],
    "spacy_scorers": ["spacy-sapbert.linker_scorer.v1"],
    "spacy_misc": ["spacy-sapbert.Folder.v1", "spacy-sapbert.Senses.v1", "spacy-sapbert.Sources.v1"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel, built without a network from a copy, so that an old build folder cannot hide or add a file."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md"):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, source)
    for name in ("spacy_sapbert", "training", "tests", "benchmarks"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
            # as if it were a package, which find_packages() without include= would include
            (source / name / "__init__.py").touch()
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), str(source)]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as file:
        yield file


def entry_points(wheel: zipfile.ZipFile) -> Dict[str, Dict[str, str]]:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    parser = ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their capitals
    parser.read_string(wheel.read(name).decode())
    return {group: dict(parser[group]) for group in parser.sections()}


def metadata(wheel: zipfile.ZipFile) -> List[Tuple[str, str]]:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode()).items()


def test_only_our_package(wheel: zipfile.ZipFile) -> None:
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"spacy_sapbert"}


def test_every_module_and_data_file(wheel: zipfile.ZipFile) -> None:
    files = (path for path in (ROOT / "spacy_sapbert").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    assert wanted <= set(wheel.namelist())  # a folder without __init__.py, or a data file that setup.py doesn't name
    assert {"spacy_sapbert/py.typed", "spacy_sapbert/data/plain_words.txt", "spacy_sapbert/data/known_words.txt.xz"} <= wanted


def test_version_and_licence(wheel: zipfile.ZipFile) -> None:
    about: Dict[str, str] = {}
    exec((ROOT / "spacy_sapbert" / "about.py").read_text(encoding="utf-8"), about)
    fields = dict(metadata(wheel))
    assert (fields["Name"], fields["Version"]) == ("spacy-sapbert", about["__version__"])
    assert any(name.endswith("LICENSE") for name in wheel.namelist())


def test_registered_names(wheel: zipfile.ZipFile) -> None:
    assert {group: sorted(names) for group, names in entry_points(wheel).items()} == EXPECTED_GROUPS


RESOLVE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
for module, attribute in json.loads(sys.argv[2]):
    found = importlib.import_module(module)
    assert found.__file__.startswith(sys.argv[1]), found.__file__
    assert callable(getattr(found, attribute)), (module, attribute)
print("resolved")
"""


def test_entry_points_resolve_in_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    # spaCy hides errors here, and only says that the name is not known
    targets = [target.split(":") for names in entry_points(wheel).values() for target in names.values()]
    command = [sys.executable, "-I", "-c", RESOLVE, str(tmp_path), json.dumps(targets)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.stdout == "resolved\n", done.stderr


def tracked_files() -> List[str]:
    """Return the files of the checkout that git tracks; skip if this is not a checkout."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_sdist_holds_what_its_tests_need(tmp_path: Path) -> None:
    """Build the sdist from the tracked files, unpack it, and run those tests in it that read files from every folder."""
    source, out = tmp_path / "source", tmp_path / "out"
    for name in tracked_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build = "from setuptools import build_meta; build_meta.build_sdist('../out')"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.tar.gz")
    with tarfile.open(path) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    folders = ("spacy_sapbert/", "training/", "tests/", "benchmarks/", "examples/", "docs/")
    needed = {name for name in tracked_files() if name.startswith(folders)} | {"project.yml", "Makefile", "README.md", "constraints.txt", "LICENSE"}
    assert {name for name in needed if not (unpacked / name).is_file()} == set()
    chosen = ["test_candidates.py", "readers/test_obo.py", "readers/test_rrf.py", "kb/test_concept.py", "kb/test_semantic_types.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "unit", *(f"tests/{name}" for name in chosen)]
    run = subprocess.run(command, cwd=unpacked, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    assert int(re.findall(r"(\d+) passed", run.stdout)[0]) > 100


def test_constraints_pin_every_direct_requirement(wheel: zipfile.ZipFile) -> None:
    pinned = {
        re.split(r"[=;<> ]", line)[0]
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    }
    required = {re.split(r"[ \[;<>=!~(]", value)[0].lower().replace("_", "-") for key, value in metadata(wheel) if key == "Requires-Dist"}
    assert required - pinned == set()


def test_the_lock_has_hashes_and_the_versions_of_the_constraints() -> None:
    lock = ROOT / "requirements.lock"
    if not lock.is_file():
        pytest.skip("not a checkout")
    text = lock.read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.+!-]+) \\$", text, re.MULTILINE))
    constraints = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if 'python_version < "3.11"' not in line]
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.+!-]+)", "\n".join(constraints), re.MULTILINE))
    assert len(locked) > 150
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    requirements = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert [requirement for requirement in requirements if "--hash=sha256:" not in requirement] == []
    assert "://" not in text
