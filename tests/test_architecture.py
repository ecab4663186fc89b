"""The architecture of both packages: every file is in a known room, imports go one way, and there are no circles.

A room is a folder or a single file of a package. `ORDER` lists the rooms: a room may import only itself and the rooms before it in the list.
Imports inside functions count too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = {
    "spacy_sapbert": [
        *("about", "types", "errors", "files", "arrays", "registry", "devices", "signals", "memory"),
        *("kb", "readers"),
        *("candidates", "calibration", "encoders", "indexes", "ranking", "doc", "context"),
        *("settings", "bundle", "search", "acronyms", "annotated", "build", "state", "linker", "matcher", "mentions"),
        *("render", "exports", "review", "corpus", "service", "cli", "__init__", "__main__"),
    ],
    "training": [
        *("__init__", "errors", "devices", "launcher", "registry", "made", "paths", "recipe"),
        *("corpora", "data", "loop", "tasks", "senses", "mentions"),
        *("evaluation", "fit", "soup", "compress", "phases", "train", "plan", "finetune", "preflight"),
        *("compare", "report", "vocabulary", "commands", "cli", "__main__"),
    ],
}
# imports that are allowed against the order: (room, imported room) -> reason
EXCEPTIONS: dict[tuple[str, str], str] = {}


def files_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room_of(package: str, parts: list[str]) -> str | None:
    """Return the room of a module, given as a list of parts; None for another package."""
    if len(parts) < 2 or parts[0] != package:
        return None
    path = ROOT / package / parts[1]
    return parts[1] if path.is_dir() or path.with_suffix(".py").is_file() else None


def imported(path: Path) -> Iterator[list[str]]:
    """Yield all modules and names that a file imports, also inside functions, as lists of parts."""
    here = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            for alias in node.names:
                yield [*base, *(node.module.split(".") if node.module else []), alias.name]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")


def module_file(parts: list[str]) -> Path | None:
    """Return the file of a module, or of the module that contains a name."""
    for count in (len(parts), len(parts) - 1):
        path = ROOT.joinpath(*parts[:count])
        if count and path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if count and (path / "__init__.py").is_file():
            return path / "__init__.py"
    return None


@pytest.mark.parametrize("package", ORDER)
def test_every_file_is_in_a_room(package: str) -> None:
    rooms = {path.relative_to(ROOT / package).parts[0].removesuffix(".py") for path in files_of(package)}
    assert rooms <= set(ORDER[package]), f"no place in ORDER: {sorted(rooms - set(ORDER[package]))}"


@pytest.mark.parametrize("package", ORDER)
def test_imports_go_one_way(package: str) -> None:
    order = {room: floor for floor, room in enumerate(ORDER[package])}
    against = set()
    for path in files_of(package):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for parts in imported(path):
            target = room_of(package, parts)
            if target is not None and order.get(target, 99) > order.get(room, 99) and (room, target) not in EXCEPTIONS:
                against.add(f"{path.relative_to(ROOT)} imports {'.'.join(parts)}")
    assert not against, "\n".join(sorted(against))


@pytest.mark.parametrize("package", ORDER)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    graph = {}
    for path in files_of(package):
        if path.name != "__init__.py":
            found = {module_file(parts) for parts in imported(path) if parts[0] == package}
            graph[path] = {target for target in found if target not in (None, path) and target.name != "__init__.py"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(str(path.relative_to(ROOT)) for path in error.args[1]))


def test_training_stays_outside() -> None:
    for path in files_of("spacy_sapbert"):
        assert not [parts for parts in imported(path) if parts[0] in ("training", "benchmarks", "tests")], path


def test_the_reader_of_imports_sees_them() -> None:
    found = {tuple(parts) for parts in imported(ROOT / "spacy_sapbert" / "indexes" / "annoy.py")}
    assert ("spacy_sapbert", "errors", "fail") in found
    inside = {room_of("spacy_sapbert", parts) for parts in imported(ROOT / "spacy_sapbert" / "cli" / "kb.py")}
    assert "build" in inside  # imported inside functions


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("spacy_sapbert", ["torch", "spacy", "annoy", "transformers", "numpy", "sqlite3"]),
        ("spacy_sapbert.readers", ["torch", "spacy", "annoy", "transformers", "fastobo"]),
        ("spacy_sapbert.kb.knowledge_base", ["torch", "spacy", "annoy", "transformers"]),
        ("spacy_sapbert.calibration", ["torch", "spacy", "scipy"]),
        ("spacy_sapbert.ranking.fit", ["torch", "spacy", "scipy"]),
        ("spacy_sapbert.cli", ["torch", "spacy", "annoy", "transformers", "pyarrow", "ray"]),
        ("spacy_sapbert.corpus.annotate", ["torch", "spacy", "annoy", "transformers", "pyarrow", "ray"]),
        ("spacy_sapbert.indexes.annoy", ["torch", "spacy", "annoy", "transformers"]),
        ("training.cli", ["torch", "spacy", "annoy", "transformers", "sklearn", "numpy"]),
        ("training.recipe", ["torch", "spacy", "transformers", "numpy"]),
    ],
)
def test_importing_is_light(module: str, heavy: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.e2e
def test_the_pipeline_of_a_command_imports_no_factories_of_others() -> None:
    code = (
        "import sys; from spacy_sapbert.corpus.pipeline import make_pipeline;"
        "made = make_pipeline({}, alone=True).pipe_names; print('transformers' in sys.modules, made == make_pipeline({}).pipe_names);"
        "import spacy; print(spacy.blank('en').has_factory('transformer'))"  # a pipeline that is made later finds them
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
