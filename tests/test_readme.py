"""The README runs: every code block is executed, and what it says it prints is what it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

import pytest
from spacy.util import registry
from thinc.api import Config

from spacy_sapbert.build import default_linkers

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks() -> List[Tuple[str, str, str]]:
    """(language, code, the `text` block after it)."""
    found = [(m.group(1), m.group(2)) for m in BLOCK.finditer(README)]
    after = [code if language == "text" else "" for language, code in found[1:]] + [""]
    return [(language, code, output) for (language, code), output in zip(found, after) if language != "text"]


def of(language: str) -> List[Tuple[str, str]]:
    return [(code, output) for kind, code, output in blocks() if kind == language]


def test_every_block_is_of_a_kind_that_is_executed_here() -> None:
    assert {language for language, _, _ in blocks()} == {"bash", "ini", "python"}
    assert len(re.findall("^```", README, re.MULTILINE)) == 2 * len(BLOCK.findall(README))


def test_the_first_forty_lines_promise_command_and_example() -> None:
    top = "\n".join(README.splitlines()[:40])
    assert "make run" in top
    assert "make test" in top
    assert top.count("```") == 6


@pytest.mark.parametrize(("code", "output"), of("python"))
def test_python_prints_what_it_says(code: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in output.splitlines()]
    assert output


@pytest.mark.parametrize("line", [line for code, _ in of("bash") for line in code.splitlines() if line.strip()])
def test_commands(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "make":  # a dry run: `make test` is what is running
        run = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert run.returncode == 0, run.stderr
        return
    if words[:4] == ["python", "-m", "spacy", "project"]:  # tests/training/test_project.py runs the workflow `smoke`; here is looked what would run
        run = subprocess.run([sys.executable, *words[1:], "--dry"], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert run.returncode == 0, run.stderr
        return
    if words[2].startswith("training."):  # hours of work: the settings are looked at
        run = subprocess.run([sys.executable, *words[1:3], "--help"], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert run.returncode == 0, run.stderr
        named = [word for word in words[3:] if word.startswith("--") and "." not in word]
        assert all(option in run.stdout for option in named)
        assert all((ROOT / word).is_file() for word in words[3:] if word.endswith((".cfg", ".yml")))
        return
    assert words[:3] == ["python", "-m", "spacy_sapbert"]
    if words[3] == "annotate":  # a folder that an earlier version began would be refused
        shutil.rmtree(ROOT / words[5], ignore_errors=True)
    run = subprocess.run(
        [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert run.returncode == 0, run.stderr
    if words[3] == "annotate":
        assert (ROOT / words[5] / "_summary.json").is_file()
    elif "--out" in words:
        assert (ROOT / words[words.index("--out") + 1]).exists()
    else:
        assert len(run.stdout.splitlines()) > 2


@pytest.mark.parametrize("code", [code for code, _ in of("ini")])
def test_config_names_what_is_registered(code: str) -> None:
    parents = "[initialize]\n\n[initialize.components]\n\n[initialize.components.sapbert_linker]\n\n"
    section = Config().from_str(parents + code)["initialize"]["components"]["sapbert_linker"]
    loader = registry.resolve(section)["kb_loader"]
    assert callable(loader)
    assert default_linkers.hpo_file().is_file()
