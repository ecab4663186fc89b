"""The workflow `supply` fails on a known vulnerability, unless it is in the list of accepted ones; each of these has a reason and a date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

GITHUB = Path(__file__).parents[1] / ".github"
ACCEPTED = GITHUB / "accepted-vulnerabilities.txt"
TODAY = "2030-01-31"
pytestmark = pytest.mark.skipif(not GITHUB.is_dir() or shutil.which("bash") is None, reason="not a checkout, or no bash")


def steps() -> list[dict[str, str]]:
    workflow = yaml.safe_load((GITHUB / "workflows" / "supply.yml").read_text(encoding="utf-8"))
    found: list[dict[str, str]] = workflow["jobs"]["lock"]["steps"]
    return found


def audit(folder: Path, accepted: str, exit_code: int) -> tuple[int, str]:
    """Run the step of the audit on the day `TODAY`, with a `pip-audit` that writes its arguments and ends with an exit code."""
    (folder / ".github").mkdir()
    (folder / ".github" / ACCEPTED.name).write_text(accepted, encoding="utf-8")
    for name, script in {"pip-audit": f'echo "$@"\nexit {exit_code}', "date": f'test "$*" = +%F && echo {TODAY}'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (step,) = (step["run"] for step in steps() if "look for known vulnerabilities" in step.get("name", ""))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", step], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip()


def test_a_vulnerability_fails_the_step(tmp_path: Path) -> None:
    assert audit(tmp_path, ACCEPTED.read_text(encoding="utf-8"), 1)[0] == 1


def test_accepted_vulnerabilities_are_passed_on_without_their_reasons(tmp_path: Path) -> None:
    accepted = "# known\n\nCVE-2030-12345  # not used; until 2030-01-31\nGHSA-aaaa-bbbb-cccc # another; until 2030-02-01\n"
    assert audit(tmp_path, accepted, 0) == (
        0,
        "--require-hashes --disable-pip -r requirements.lock --ignore-vuln CVE-2030-12345 --ignore-vuln GHSA-aaaa-bbbb-cccc",
    )


@pytest.mark.parametrize(
    "line", ["CVE-2030-12345  # not used; until 2030-01-30", "CVE-2030-12345  # not used", "CVE-2030-12345", "# CVE-2030-12345; until 2031-01-01"]
)
def test_a_line_that_is_expired_or_has_no_date_accepts_nothing(tmp_path: Path, line: str) -> None:
    assert (
        audit(tmp_path, f"{line}\nCVE-2030-54321  # not used; until 2030-02-01\n", 0)[1].partition("requirements.lock ")[2]
        == "--ignore-vuln CVE-2030-54321"
    )


def test_each_accepted_vulnerability_has_a_reason_and_a_date() -> None:
    lines = [line for line in ACCEPTED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w-]+  # \S.*; until \d{4}-\d\d-\d\d", line)] == []


def test_the_list_of_packages_is_kept_also_if_the_audit_fails() -> None:
    order = [step.get("name") or step["uses"].partition("@")[0] for step in steps()]
    audited = next(place for place, name in enumerate(order) if "look for known vulnerabilities" in name)
    assert order.index("actions/upload-artifact") < audited
