"""The image of the service: its file is linted, the files that it copies exist, and its commands also run outside a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import srsly
import typer

from spacy_sapbert.cli import app

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "Containerfile"
pytestmark = pytest.mark.skipif(not CONTAINERFILE.is_file(), reason="not a checkout")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the file with their arguments."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def values(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def test_the_linter_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(CONTAINERFILE)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_copied_is_there_and_goes_to_the_builder() -> None:
    sources = [word for rest in values("COPY") if not rest.startswith("--from") for word in shlex.split(rest)[:-1]]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    assert set(sources) == allowed
    extras = re.search(r"\.\[([\w,]+)\]", " ".join(values("RUN")))
    assert extras is not None
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{extra}":' in setup for extra in extras[1].split(","))


def test_it_does_not_run_as_root_and_its_commands_are_ours() -> None:
    last = instructions()[[i for i, (word, _) in enumerate(instructions()) if word == "FROM"][-1] :]
    names = [word for word, _ in last]
    assert names.index("USER") < names.index("CMD")
    for command in (json.loads(values("CMD")[0]), next(shlex.split(rest) for rest in values("RUN") if "spacy_sapbert warm" in rest)):
        assert command[:3] == ["python", "-m", "spacy_sapbert"]
        found: Any = typer.main.get_command(app).commands[command[3]]  # type: ignore[attr-defined]
        found.make_context(command[3], command[4:])


def test_the_compose_file_asks_for_a_key_and_gives_time_to_stop() -> None:
    service = srsly.read_yaml(ROOT / "compose.yaml")["services"]["sapbert"]
    assert service["build"]["dockerfile"] == CONTAINERFILE.name
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert values("EXPOSE") == ["8000"]
    assert service["environment"]["SPACY_SAPBERT_API_KEY"].startswith("${SPACY_SAPBERT_API_KEY:?")
    assert int(service["stop_grace_period"].removesuffix("s")) > 60 + 5  # the timeout of the service, plus the time that uvicorn adds


@pytest.mark.e2e
def test_its_commands_run_outside_a_container(tiny_linker: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [port if word == "8000" else word for word in json.loads(values("CMD")[0])[1:]]
    check = [word.replace("8000", port) for word in json.loads(values("HEALTHCHECK")[0].partition("CMD ")[2])[1:]]
    environment = {**os.environ, "SPACY_SAPBERT_API_KEY": "sesame"}
    service = subprocess.Popen([sys.executable, *command, "--linker-name", str(tiny_linker)], env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while subprocess.run([sys.executable, *check], capture_output=True, timeout=60).returncode:
            assert time.monotonic() < end
            assert service.poll() is None
        service.terminate()
        assert service.wait(120) == 0
        assert subprocess.run([sys.executable, *check], capture_output=True, timeout=60).returncode != 0
    finally:
        service.kill()
