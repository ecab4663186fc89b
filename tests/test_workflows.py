"""The GitHub workflows: the commands that they run exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import srsly

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))  # an sdist has none


def jobs(path: Path) -> dict[str, Any]:
    return dict(srsly.read_yaml(path)["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_commands_of_a_workflow_exist(path: Path) -> None:
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    run = " ".join(step.get("run", "") for step in steps)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"\bmake ([\w-]+)", run)) <= set(targets)
    assert [script for script in re.findall(r"\bbash (\S+)", run) if not (ROOT / script).is_file()] == []
    assert all(("run" in step) != ("uses" in step) for step in steps)


@pytest.mark.skipif(not WORKFLOWS, reason="not a checkout")
def test_the_nightly_run_tries_every_row_of_versions() -> None:
    script = (ROOT / "tests" / "try_versions.sh").read_text(encoding="utf-8")
    rows = re.findall(r"^  \[([\w.-]+)\]=", script, re.MULTILINE)
    assert jobs(ROOT / ".github" / "workflows" / "nightly.yml")["versions"]["strategy"]["matrix"]["row"] == rows


@pytest.mark.skipif(not WORKFLOWS, reason="not a checkout")
def test_the_oldest_row_has_the_oldest_versions_that_setup_allows() -> None:
    script = (ROOT / "tests" / "try_versions.sh").read_text(encoding="utf-8")
    tried = dict(re.findall(r"([\w-]+)==(\d+\.\d+)", script.split("[oldest]=", 1)[1].splitlines()[0]))
    least = dict(re.findall(r'"([\w-]+)>=(\d+\.\d+)', (ROOT / "setup.py").read_text(encoding="utf-8")))
    assert {name: least[name] for name in tried if name != "spacy-transformers"} == {
        name: tried[name] for name in tried if name != "spacy-transformers"
    }
