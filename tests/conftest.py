"""Fixtures of several test modules: a tiny linker with a real encoder and a real index, the linker hpo, the shared data."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # set before the hub's client is imported; without a network it would retry for most of a minute
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each pytest worker has one core; must be set before PyTorch is imported
DATA = Path(__file__).parent / "data"
SHARED = Path(os.environ.get("SPACY_SAPBERT_DATA", Path(__file__).parents[2] / "shared" / "data"))
RINGS = ("unit", "e2e", "data")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put every test into one ring: `data` if it reads the shared data, `e2e` if it needs the whole HPO, otherwise its marker, otherwise `unit`."""
    for item in items:
        uses = getattr(item, "fixturenames", ())
        if "data_folder" in uses:
            item.add_marker("data")
        elif "hpo_kb" in uses or "hpo_linker_folder" in uses:
            item.add_marker("e2e")
        if not any(item.get_closest_marker(ring) for ring in RINGS):
            item.add_marker("unit")
    items.sort(key=lambda item: item.get_closest_marker("first") is None)  # longest tests first, so that no worker is left running one at the end


@pytest.fixture(autouse=True)
def collect_everything() -> Iterator[None]:
    """Undo `leave_out_of_collections`, which commands that link call in this process."""
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Use one PyTorch thread: for one or two mentions, a second thread costs more time than it saves."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return `once(name, make)`: a folder that all workers share; the first worker makes it with `make(folder)`."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # recipe of pytest-xdist: the folder of a worker is inside that of the run

    def made_once(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared / "once" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(shared / f"once-{name.replace('/', '-')}.lock"):
            if not folder.exists():  # `make` writes a complete folder or nothing
                make(folder)
        return folder

    return made_once


@pytest.fixture(scope="session")
def tiny_linker(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A linker folder with the 60 clinical concepts of tiny_clinic.tsv and tiny.obo; default encoder, tuned Annoy. Do not write into it."""
    from spacy_sapbert.build.linker import build_linker, read_source

    def make(folder: Path) -> None:
        build_linker([read_source(DATA / name) for name in ("tiny_clinic.tsv", "tiny.obo")], folder, progress=False)

    return once("tiny/linker", make)


@pytest.fixture(scope="session")
def tiny_kb(tiny_linker: Path) -> KnowledgeBase:
    """The knowledge base of the tiny linker."""
    return KnowledgeBase(tiny_linker / "kb")


@pytest.fixture(scope="session")
def hpo_linker_folder() -> Path:
    """The linker "hpo", built on first use (a minute) into $SPACY_SAPBERT_CACHE or the user's cache."""
    from spacy_sapbert.build.default_linkers import find_linker

    return find_linker("hpo")


@pytest.fixture(scope="session")
def hpo_kb(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A knowledge base of the whole of HPO, which one worker builds."""
    from spacy_sapbert.build.default_linkers import hpo_file
    from spacy_sapbert.build.linker import read_source
    from spacy_sapbert.kb.builder import build_kb

    return once("hpo-kb", lambda out: build_kb([read_source(hpo_file())], out))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the shared data; skip the test if there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there; set SPACY_SAPBERT_DATA")
    return SHARED


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser; skip if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    from benchmarks.browser import NO_CHROMIUM, find_chromium

    chromium = find_chromium()
    if chromium is None:
        pytest.skip(NO_CHROMIUM)
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
