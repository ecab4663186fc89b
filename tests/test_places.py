"""Where files are: no home folder, folders that can't be written, another user's cache, and names with spaces and other characters."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_sapbert.build import default_linkers
from spacy_sapbert.build.default_linkers import cache_folder, cached
from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.annoy import AnnoyIndex
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.faiss import FaissIndex
from spacy_sapbert.indexes.usearch import UsearchIndex

DATA = Path(__file__).parent / "data"
STRANGER = 54321  # id of a user that has no name
ODD = "50% of #1? ä 漢 'x' & ~"


def as_stranger(run: Callable[[], object]) -> str:
    """Run a function as another user, in a forked process. Return the code of its error, or "whole"."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "whole"
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            run()
        except SapbertError as error:
            said = str(error)
        except BaseException as error:
            said = f"uncoded {type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(pid, 0)
    return said


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all users can reach. pytest's own folders can be reached by one user only."""
    folder = Path(tempfile.mkdtemp(prefix="spacy-sapbert-"))
    folder.chmod(0o755)
    if not all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        pytest.skip("other users can't reach the folder for temporary files")
    yield folder
    shutil.rmtree(folder)


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def test_without_a_home_the_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> Any:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "SPACY_SAPBERT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "spacy-sapbert"
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(SapbertError, match=r"E055.*the user has no home folder.*Set SPACY_SAPBERT_CACHE"):
        cache_folder()
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")


def test_a_full_disk_at_the_lock_of_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path))
    monkeypatch.setattr(default_linkers.FileLock, "acquire", full)
    with pytest.raises(SapbertError, match="E008"):
        cached("x", [], lambda out: out.mkdir())


def test_vectors_that_a_build_left_after_its_end_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path))
    folder = cached("x", [], lambda out: (out.mkdir(), (out / "manifest.json").touch()))
    left = folder.with_name(f"{folder.name}.vectors")
    left.mkdir()
    (left / "vectors.npy").write_bytes(b"x" * 1000)
    held = default_linkers.FileLock(left / "lock")
    with held:  # a build goes on
        assert cached("x", [], lambda out: None) == folder
    assert (left / "vectors.npy").is_file()
    assert cached("x", [], lambda out: None) == folder
    assert not left.exists()


@needs_root
@pytest.mark.parametrize("home_mode", [0o555, 0o700])
def test_a_home_that_cannot_be_written(shared: Path, monkeypatch: pytest.MonkeyPatch, home_mode: int) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(shared / "home" / "cache"))
    (shared / "home").mkdir()
    (shared / "home").chmod(home_mode)
    assert as_stranger(lambda: cached("x", [], lambda out: out.mkdir())).startswith("[E055]")


@needs_root
def test_the_cache_of_another_user_is_read_but_not_written(shared: Path, monkeypatch: pytest.MonkeyPatch, tiny_linker: Path) -> None:
    cache = shared / "cache"
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(cache))
    made = cached("mine", [], lambda out: shutil.copytree(tiny_linker, out))
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(made)})
    assert len(linker.kb) > 50  # imports everything

    def opens() -> None:
        fresh: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(cached("mine", [], lambda out: out.mkdir()))})
        assert len(fresh.kb) == len(linker.kb)

    assert as_stranger(opens) == "whole"
    made.with_name(made.name + ".vectors").mkdir()  # a build was killed just after its end
    assert as_stranger(opens) == "whole"
    assert as_stranger(lambda: cached("yours", [], lambda out: out.mkdir())).startswith("[E055]")
    cache.chmod(0o777)  # a shared cache, in which another user's process was killed while it held its lock
    name = cached("ours", [], lambda out: (out.mkdir(), (out / "manifest.json").touch()))
    name.with_name(name.name + ".lock").chmod(0o644)
    shutil.rmtree(name)
    said = as_stranger(lambda: cached("ours", [], lambda out: out.mkdir()))
    assert said.startswith("[E055]")
    assert name.name + ".lock" in said
    monkeypatch.setattr(default_linkers, "checksum", lambda path: str(path))  # as if this package had another sense model
    cache.chmod(0o755)
    assert as_stranger(lambda: default_linkers.with_senses(made)).startswith("[E055]")


@pytest.mark.parametrize("engine", [AnnoyIndex, ExactIndex, FaissIndex, UsearchIndex])
def test_any_characters_in_paths(tmp_path: Path, engine: Any) -> None:
    source = tmp_path / f"{ODD}.tsv"
    shutil.copyfile(DATA / "tiny_clinic.tsv", source)
    more = {"tune": False} if engine is not ExactIndex else {}
    folder = build_linker([read_source(source)], tmp_path / ODD / "linker", model=StaticEncoder(), index=engine(**more), progress=False, check=False)
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(folder)})
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder)})
    nlp.to_disk(tmp_path / ODD / "nlp")
    doc = spacy.load(tmp_path / ODD / "nlp")("She has a fever.")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("fever", "C9100027")]
