"""The settings of a workflow are checked before its first step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import srsly
from typer.testing import CliRunner

from spacy_sapbert.errors import SapbertError
from training.cli import app
from training.preflight import check_base, preflight

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "training/configs/sap_small.cfg"
GOOD: dict[str, Any] = {
    "base": "",
    "gpu_id": -1,
    "encode_on": "",
    "engine": "default",
    "benchmarks": "codes",
    "calibrate_on": "ncbi-train",
    "calibrate_test": "ncbi-dev,gsc-dev",
    "texts": "gsc-dev",
}


def test_the_settings_of_the_project_are_good(tmp_path: Path) -> None:
    preflight(RECIPE, **GOOD)
    preflight(RECIPE, **{**GOOD, "calibrate_on": "", "calibrate_test": "", "texts": "", "encode_on": "-1", "engine": "auto"})
    check_base("sentence-transformers/all-MiniLM-L6-v2")  # the installed one, by its name
    check_base(str(tmp_path))
    (tmp_path / "base.txt").write_text("\n")
    preflight(RECIPE, **{**GOOD, "base": f"@{tmp_path / 'base.txt'}"})


@pytest.mark.parametrize(
    ("setting", "value", "code", "said"),
    [
        ("gpu_id", 63, "E513", "GPU 63 was requested"),
        ("encode_on", "63", "E305", "no GPU 63"),
        ("encode_on", "0,", "E315", "empty part"),
        ("engine", "nosuch", "E002", "known are auto, default, spacy-sapbert.AnnoyIndex.v1"),
        ("benchmarks", "held_out,nosuch", "E540", "'nosuch' is not known"),
        ("calibrate_on", "nosuch", "E540", "'nosuch' is not known"),
        ("calibrate_on", "ncbi-dev", "E519", "'ncbi-dev' can't be used both"),
        ("calibrate_test", "", "E548", "give a part"),
        ("texts", "nosuch", "E540", "'nosuch' is not known"),
        ("base", "no/such/folder", "E512", "it is no folder, and the hub doesn't have it"),
        ("base", "toy/no-such-base", "E512", "can't be reached"),  # HF_HUB_OFFLINE of the tests
    ],
)
def test_each_mistake_is_said(setting: str, value: Any, code: str, said: str) -> None:
    with pytest.raises(SapbertError, match=re.escape(said)) as error:
        preflight(RECIPE, **{**GOOD, setting: value})
    assert error.value.code == code


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SapbertError, match=r"E510.*nosuch\.cfg"):
        preflight(tmp_path / "nosuch.cfg", **GOOD)


def test_the_workflow_checks_in_its_first_step() -> None:
    """The step passes each setting that a later step reads; and the command refuses a bad one."""
    project = srsly.read_yaml(ROOT / "project.yml")
    script = next(step for step in project["commands"] if step["name"].startswith("assets"))["script"]
    line = next(line for line in script if "training check" in line)
    for name in ("recipe", "gpu_id", "devices", "engine", "benchmarks", "calibrate_on", "calibrate_test", "texts"):
        assert f"${{vars.{name}}}" in line
    assert CliRunner().invoke(app, ["check", str(RECIPE), "--engine", "auto"]).exit_code == 0
    refused = CliRunner().invoke(app, ["check", str(RECIPE), "--engine", "nosuch"])
    assert (refused.exit_code, "[E002]" in refused.output) == (1, True)
