"""A hub model when the hub does not answer: the cached copy is used, or an error says so within seconds."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spacy_sapbert.encoders.hub import folder_or_name
from spacy_sapbert.encoders.transformer import base_encoder
from spacy_sapbert.errors import SapbertError

NAME, COMMIT = "toy/encoder", "0" * 39 + "1"
CODE = f"""
from spacy_sapbert.encoders.static import is_static
from spacy_sapbert.encoders.transformer import NameEncoder
print(is_static("{NAME}"))
print(NameEncoder("{NAME}").initialize().encode(["cough"]).shape)
"""


def run(hub: Path, port: int) -> tuple[str, str, float]:
    """Load the model in a separate process, because the hub's client reads its settings when it is imported; return output, errors and seconds."""
    settings = {"HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HOME": str(hub), "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", CODE], env={**os.environ, **settings}, capture_output=True, text=True, timeout=170)
    return done.stdout, done.stderr, time.perf_counter() - start


@pytest.mark.e2e
@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "never answers"])
def test_the_cached_copy_is_used_and_a_missing_one_is_an_error(tmp_path: Path, silent: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if silent:
            server.listen()
        port = server.getsockname()[1]
        said, error, seconds = run(tmp_path, port)
        assert said == "False\n"
        assert f"[E301] Encoder '{NAME}' can't be loaded: the hub can't be reached (" in error
        assert "and the model is not in its cache. Give a Hugging Face" in error
        assert "Retrying" not in error  # the client would try six times for each of several files
        assert seconds < 60
        repository = tmp_path / "hub" / "models--toy--encoder"
        shutil.copytree(base_encoder(), repository / "snapshots" / COMMIT)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMIT)
        said, error, seconds = run(tmp_path, port)
        assert said == "False\n(1, 384)\n", error
        assert "Retrying" not in error


def test_a_folder_stays_and_an_impossible_name_is_said(tmp_path: Path) -> None:
    assert folder_or_name(str(tmp_path)) == str(tmp_path)
    with pytest.raises(SapbertError, match=r"E301.*'no/such/folder' can't be loaded: it is neither a folder nor a name that the hub can have\."):
        folder_or_name("no/such/folder")
