"""One direction: readers -> kb -> encoder -> index -> candidates -> linker -> doc. See the table in the house rules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Set

import pytest

PACKAGE = Path(__file__).parents[1] / "spacy_sapbert"
GROUND = {"types", "errors", "files", "concept", "about"}
ALLOWED = {
    "types": set(),
    "errors": set(),
    "about": set(),
    "concept": set(),
    "files": {"errors"},
    "semantic_types": {"errors"},
    "registry": set(),
    "additions": {"types", "errors", "concept", "files"},
    "kb": {"types", "errors", "concept", "files", "semantic_types", "additions"},
    "kb_builder": {"kb", "types", "errors", "concept", "files", "semantic_types"},
    "readers": {"concept", "errors", "readers"},
    "candidates": {"types", "errors", "files"},
    "calibration": {"errors"},
    "encoder": {"types", "errors", "files"},
    "static_encoder": {"types", "errors", "encoder"},
    "indexes": {"types", "errors", "files", "indexes"},
    "abbreviations": set(),
    "spans": {"errors", "abbreviations"},
    "name_vectors": {"types", "errors", "files", "kb"},
    "forecast": {"errors"},
    "update": {"additions", "about", "bundles", "encoder", "errors", "files", "kb", "kb_builder", "name_vectors", "types"},
    "notes": {"errors"},
    "pipeline": {"errors"},
    "annotator": {"errors", "files", "notes", "pipeline", "render", "bundles", "about"},
    "workers": {"annotator", "errors", "notes", "workers"},
    "annotate": {"annotator", "errors", "files", "notes", "workers"},
    # at the top of the file: it makes the default encoder and index inside its factory, and knows them by Protocol
    "linker": {
        "registry",
        "types",
        "errors",
        "spans",
        "candidates",
        "calibration",
        "concept",
        "files",
        "kb",
        "bundles",
        "semantic_types",
        "additions",
    },
}


def imports(path: Path, *, everywhere: bool) -> Set[str]:
    """Our modules (or folders) that a file imports: anywhere in it, or only when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.ImportFrom):
            above = list(path.relative_to(PACKAGE.parent).with_suffix("").parts[: -node.level]) if node.level else []
            names = [".".join([*above, *(node.module or "").split("."), alias.name]) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts = [[part for part in name.split(".") if part] for name in names]
        found |= {p[1] if p[0] == "spacy_sapbert" else p[0] for p in parts if p[0] == "training" or (p[0] == "spacy_sapbert" and len(p) > 1)}
    return found


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_go_one_way(room: str) -> None:
    files = sorted((PACKAGE / room).glob("*.py")) if (PACKAGE / room).is_dir() else [PACKAGE / f"{room}.py"]
    for file in files:
        extra = imports(file, everywhere=room != "linker") - ALLOWED[room]
        assert not extra, f"{file.name} imports {sorted(extra)}"


def test_training_stays_outside() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert "training" not in imports(file, everywhere=True), file


def test_the_reader_of_imports_sees_them() -> None:
    assert {"errors", "types"} <= imports(PACKAGE / "indexes" / "annoy.py", everywhere=False)
    assert "kb_builder" in imports(PACKAGE / "bundles.py", everywhere=False)
    assert "encoder" not in imports(PACKAGE / "bundles.py", everywhere=False)  # only where a linker is built
    assert "encoder" in imports(PACKAGE / "bundles.py", everywhere=True)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("spacy_sapbert", ["torch", "spacy", "annoy", "transformers", "numpy", "sqlite3"]),
        ("spacy_sapbert.readers", ["torch", "spacy", "annoy", "transformers", "fastobo"]),
        ("spacy_sapbert.kb", ["torch", "spacy", "annoy", "transformers"]),
        ("spacy_sapbert.cli", ["torch", "spacy", "annoy", "transformers", "pyarrow", "ray"]),
        ("spacy_sapbert.annotate", ["torch", "spacy", "annoy", "transformers", "pyarrow", "ray"]),
        ("spacy_sapbert.indexes.annoy", ["torch", "spacy", "annoy", "transformers"]),
    ],
)
def test_importing_is_light(module: str, heavy: list[str]) -> None:
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
