"""The cache folder: what is shown of it, and what `cache --clean` removes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from filelock import FileLock
from typer.testing import CliRunner

from spacy_sapbert.build import cache as cached
from spacy_sapbert.build import default_linkers
from spacy_sapbert.build.cache import State
from spacy_sapbert.build.default_linkers import lock_of
from spacy_sapbert.cli import app
from spacy_sapbert.matcher import stored

VERSION = default_linkers.__version__
OPEN, NAMES = f"open-v1-{VERSION}", f"names-v1-{VERSION}"
KB, OLD_KB, OTHER_KB = "a" * 64, "b" * 64, "c" * 64  # fingerprints of knowledge bases
LONG_AGO = 1_577_880_000.0  # noon of 2020-01-01, UTC
TABLE = f"{'1' * 12}-{'2' * 16}.sqlite"


def run(*args: str, answer: str | None = None, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["cache", *args], input=answer)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def aged(path: Path) -> Path:
    """Date a path and all files in it 2020."""
    for each in [*path.rglob("*"), path]:
        os.utime(each, (LONG_AGO, LONG_AGO))
    return path


def file(path: Path, size: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return aged(path)


def folder(path: Path, kind: str = "", **more: Any) -> Path:
    """Make a folder with a manifest; with kind "", an empty one."""
    path.mkdir(parents=True)
    if kind:
        (path / "manifest.json").write_text(json.dumps({"kind": kind, "format": 1, **more}))
    return aged(path)


def linker(path: Path, kb: str = "", **more: Any) -> Path:
    folder(path / "kb", "knowledge base", files={"kb.sqlite": {"blake2b": kb}})
    file(path / "kb" / "kb.sqlite", 1_000_000)
    (path / "manifest.json").write_text(json.dumps({"kind": "linker", "format": 1, **more}))
    return aged(path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache. This version uses the linker open-…-now and the rules "now"; it can't use the linker hpo."""
    place = tmp_path / "cache"
    place.mkdir()
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(place))
    current = {"open": place / f"{OPEN}-now", "hpo": None, "hpo-fast": place / f"hpo-fast-v1-{VERSION}-now"}
    monkeypatch.setattr(cached, "current_folders", lambda: current)
    monkeypatch.setattr(stored, "rules_fingerprint", lambda: "now")
    return place


@pytest.fixture
def full(cache: Path) -> dict[str, State]:
    """Fill the cache. Return path in it -> its state."""
    linker(cache / f"{OPEN}-now", KB)
    for old in (f"{OPEN}-before", "open-v1-0.0.9-now", f"open-v0-{VERSION}-now"):
        linker(cache / old, OLD_KB)
    linker(cache / f"hpo-v1-{VERSION}-4.0.0-now")
    linker(cache / f"hospital-v1-{VERSION}-1")
    (linker(cache / f"{OPEN}-mine") / "additions.json").write_text("{}")
    (linker(cache / f"{OPEN}-fit") / "calibration.json").write_text(json.dumps({"fit_on": "ward 7, March"}))
    (linker(cache / f"{OPEN}-trained") / "ranker.json").write_text(json.dumps({"fit_on": "ward 7, March"}))
    shipped = json.loads((cached.DATA / "calibration_open.json").read_text(encoding="utf-8"))["fit_on"]
    (linker(cache / f"{OPEN}-shipped") / "calibration.json").write_text(json.dumps({"fit_on": shipped}))
    linker(cache / "umls-v2-2024.1")  # a user's own
    for parts in (f"{KB}-now-01", f"{KB}-before-01", f"{OLD_KB}-now-01", f"{OTHER_KB}-now-01", f"{KB}-01"):
        folder(cache / f"{NAMES}-{parts}", "phrases")
    linker(cache / "from-config" / ("d" * 16))
    linker(cache / "from-config" / ("e" * 16), format=0)
    for name in (TABLE, f".{TABLE}.abcdefgh.tmp", "notes.sqlite"):
        file(cache / "athena" / name)
    for name in (f".{OPEN}-before.abcdefgh.tmp", f"hpo-fast-v1-{VERSION}-now.vectors", f".hpo-fast-v1-{VERSION}-now.vectors.77.tmp"):
        folder(cache / name)
    file(cache / ".abcdefgh.tmp")
    for name in (f"{OPEN}-now.lock", f"{OPEN}-before.lock", f"{OPEN}-removed.lock"):
        file(cache / name, 0)
    # not made by this package
    folder(cache / "precious")
    folder(cache / f"{OPEN}-notes")  # without a manifest
    file(cache / f"{OPEN}-file")
    os.symlink(cache / f"{OPEN}-before", cache / f"{OPEN}-link")
    linker(cache / "mine", KB)
    file(cache / "mine.lock")
    return {
        f"{OPEN}-now": State.USED,
        f"{OPEN}-before": State.UNUSED,
        "open-v1-0.0.9-now": State.UNUSED,
        f"open-v0-{VERSION}-now": State.UNUSED,
        f"hpo-v1-{VERSION}-4.0.0-now": State.UNKNOWN,
        f"hospital-v1-{VERSION}-1": State.UNKNOWN,
        f"{OPEN}-mine": State.CHANGED,
        f"{OPEN}-fit": State.CHANGED,
        f"{OPEN}-trained": State.CHANGED,
        f"{OPEN}-shipped": State.UNUSED,
        "umls-v2-2024.1": State.UNKNOWN,
        f"{NAMES}-{KB}-now-01": State.USED,
        f"{NAMES}-{KB}-before-01": State.UNUSED,
        f"{NAMES}-{OLD_KB}-now-01": State.UNUSED,
        f"{NAMES}-{OTHER_KB}-now-01": State.UNKNOWN,
        f"{NAMES}-{KB}-01": State.UNUSED,  # an older version named it
        f"from-config/{'d' * 16}": State.UNKNOWN,
        f"from-config/{'e' * 16}": State.UNUSED,
        f"athena/{TABLE}": State.UNKNOWN,
        f"athena/.{TABLE}.abcdefgh.tmp": State.LEFT,
        "athena/notes.sqlite": State.FOREIGN,
        f".{OPEN}-before.abcdefgh.tmp": State.LEFT,
        f"hpo-fast-v1-{VERSION}-now.vectors": State.LEFT,
        f".hpo-fast-v1-{VERSION}-now.vectors.77.tmp": State.LEFT,
        ".abcdefgh.tmp": State.LEFT,
        f"{OPEN}-now.lock": State.LOCK,
        f"{OPEN}-before.lock": State.LOCK,
        f"{OPEN}-removed.lock": State.LOCK,
        "precious": State.FOREIGN,
        f"{OPEN}-notes": State.FOREIGN,
        f"{OPEN}-file": State.FOREIGN,
        f"{OPEN}-link": State.FOREIGN,
        "mine": State.FOREIGN,
        "mine.lock": State.FOREIGN,
    }


def states(cache: Path) -> dict[str, State]:
    """Return path in the cache -> its state."""
    return {entry.path.relative_to(cache).as_posix(): entry.state for entry in cached.entries("now")}


def with_states(full: dict[str, State], *wanted: State) -> set[str]:
    return {path for path, state in full.items() if state in wanted}


def test_what_this_version_uses(cache: Path, full: dict[str, State]) -> None:
    assert states(cache) == full


def test_the_list(cache: Path, full: dict[str, State]) -> None:
    shown = run().stdout.splitlines()
    assert shown[0] == str(cache)
    assert f"    1.0 MB  last used 2020-01-01  used by this version: {OPEN}-now" in shown
    assert "    1.0 MB  last used 2020-01-01  not used by this version: open-v1-0.0.9-now" in shown
    assert len(shown) == 1 + len(full) - 3 + 1  # the folder, all but the locks, the sums
    # 4 linkers of a megabyte each, 3 folders with names, 5 leftovers
    assert shown[-1].endswith("removes what this version does not use: 13 items and 3 locks (5.0 MB).")
    assert states(cache) == full


def test_clean_removes_only_what_is_not_used(cache: Path, full: dict[str, State]) -> None:
    kept = with_states(full, State.USED, State.UNKNOWN, State.CHANGED, State.FOREIGN)
    assert run("--clean", "--yes").stdout.splitlines()[-1] == "Removed 13 items and 3 locks (5.0 MB)."
    assert set(states(cache)) == kept
    assert (cache / f"{OPEN}-now" / "kb" / "kb.sqlite").stat().st_size == 1_000_000
    assert run("--clean").stdout.splitlines() == [str(cache), "There is nothing to remove."]


def test_all_removes_everything_that_this_package_made(cache: Path, full: dict[str, State]) -> None:
    run("--clean", "--all", "--yes")
    assert set(states(cache)) == with_states(full, State.FOREIGN)


@pytest.mark.parametrize(("options", "answer", "said"), [(["--dry-run"], None, "Would remove 13 items"), ([], "n\n", "Nothing was removed.")])
def test_nothing_is_removed_unasked(cache: Path, full: dict[str, State], options: list[str], answer: str | None, said: str) -> None:
    assert said in run("--clean", *options, answer=answer).stdout
    assert states(cache) == full
    run("--clean", code=1)  # nobody answers
    assert states(cache) == full
    assert "Remove 13 items and 3 locks (5.0 MB)? [y/N]: y\n" in run("--clean", answer="y\n").stdout
    assert f"{OPEN}-before" not in states(cache)


@pytest.mark.parametrize("option", ["--all", "--dry-run", "--yes"])
def test_options_that_need_clean(cache: Path, option: str) -> None:
    assert f"[E002] Setting '{option}' of 'cache' is True: it needs --clean." in run(option, code=1).stderr


def test_a_cache_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path / "nowhere"))
    assert run("--clean").stdout.splitlines()[-1] == "There is nothing to remove."
    assert not (tmp_path / "nowhere").exists()


# -- builds -----------------------------------------------------------------------------------------------------------------


def of_lock(cache: Path) -> Path:
    return lock_of(cache / f"{OPEN}-before")


def of_scratch(cache: Path) -> Path:
    return folder(cache / f".{OPEN}-before.abcdefgh.tmp") / "lock"


def of_vectors(cache: Path) -> Path:
    return folder(cache / f"{OPEN}-before.vectors") / "lock"


@pytest.mark.parametrize("place", [of_lock, of_scratch, of_vectors])
def test_what_is_being_built_stays(cache: Path, place: Callable[[Path], Path]) -> None:
    linker(cache / f"{OPEN}-before")
    lock = place(cache)
    with FileLock(lock):
        aged(cache)
        assert set(states(cache).values()) == {State.BUILDING}
        before = set(states(cache))
        assert "There is nothing to remove." in run("--clean", "--all", "--yes").stdout
        assert set(states(cache)) == before
    aged(cache)
    run("--clean", "--yes")
    assert list(cache.iterdir()) == []


def test_a_build_that_has_just_begun_stays(cache: Path) -> None:
    (cache / f".{OPEN}-before.abcdefgh.tmp").mkdir()  # not locked yet
    (cache / ".abcdefgh.tmp").touch()  # of a process that tries whether it can write
    run("--clean", "--all", "--yes")
    assert sorted(path.name for path in cache.iterdir()) == [".abcdefgh.tmp", f".{OPEN}-before.abcdefgh.tmp"]


def test_a_build_that_begins_while_the_command_asks(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = linker(cache / f"{OPEN}-before")
    older = linker(cache / "open-v1-0.0.9-now")
    (entry,) = [entry for entry in cached.entries("now") if entry.path == old]
    with FileLock(lock_of(old)):
        assert not cached.remove(entry)
    with monkeypatch.context() as patch:
        real = cached.entries

        def then_locked(rules: str) -> list[cached.Entry]:
            found = real(rules)
            held.acquire()
            return found

        held = FileLock(lock_of(old))
        patch.setattr(cached, "entries", then_locked)
        result = run("--clean", "--yes")
        held.release()
    assert f"Kept, because it is being built: {old.name}" in result.stderr
    assert "Removed 1 item (1.0 MB)." in result.stdout
    assert (old.is_dir(), older.exists()) == (True, False)


def test_the_old_folder_of_a_killed_build_is_put_back(cache: Path) -> None:
    scratch = cache / f".{OPEN}-now.abcdefgh.tmp"
    linker(scratch / "old")  # killed between the two renames
    aged(cache)
    assert states(cache) == {scratch.name: State.LEFT}
    run("--clean", "--yes")
    assert states(cache) == {f"{OPEN}-now": State.USED}


def test_a_folder_disappears_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = linker(cache / f"{OPEN}-before")
    seen: list[tuple[bool, Path]] = []
    real = shutil.rmtree

    def killed(path: Path, **_: Any) -> None:
        seen.append((old.exists(), path))
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        cached.remove(cached.entries("now")[0])
    monkeypatch.setattr(shutil, "rmtree", real)
    assert [there for there, _ in seen] == [False]
    assert states(cache) == {seen[0][1].name: State.LEFT, f"{OPEN}-before.lock": State.LOCK}
    run("--clean", "--yes")
    assert list(cache.iterdir()) == []


def test_a_lock_that_was_removed_is_taken_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Path] = []
    real = FileLock.acquire

    def acquire(self: FileLock, *args: Any, **settings: Any) -> Any:
        held = real(self, *args, **settings)
        taken.append(Path(self.lock_file))
        if len(taken) == 1:  # `cache --clean` had it before, and removes it
            taken[0].unlink()
        return held

    monkeypatch.setattr(FileLock, "acquire", acquire)
    there: list[bool] = []
    default_linkers.cached("x", [], lambda out: there.append(lock_of(out).exists()))
    assert there == [True]
    assert len(taken) == 2


def test_what_cannot_be_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (f"{OPEN}-before", "open-v1-0.0.9-now"):
        linker(cache / name)
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if source.name == f"{OPEN}-before":
            raise PermissionError(13, "Permission denied", str(source))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    result = run("--clean", "--yes", code=1)
    assert "[E053]" in result.stderr
    assert f"{OPEN}-before" in result.stderr
    assert "Removed 1 item (1.0 MB)." in result.stdout
    assert {path for path in states(cache) if not path.endswith(".lock")} == {f"{OPEN}-before"}


# -- against what the package really writes ---------------------------------------------------------------------------------


def test_the_default_linkers_are_named_without_building_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path))
    current = default_linkers.current_folders()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(default_linkers, "build_linker", lambda sources, out, **_: linker(out))
    built = {"open": default_linkers.open_linker(), "hpo": default_linkers.hpo(), "hpo-fast": default_linkers.hpo_fast()}
    assert built == current
    found = {entry.path: entry.state for entry in cached.entries("") if entry.state is not State.LOCK}
    assert found == dict.fromkeys(built.values(), State.USED)
    monkeypatch.setattr(default_linkers, "CONTENT", 77)  # as in another version
    assert {entry.state for entry in cached.entries("") if entry.path in found} == {State.UNUSED}


def test_the_names_of_the_matcher(tmp_path: Path, tiny_linker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(stored, "KEPT_FROM", 1)
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    assert [ent.text for ent in nlp("Fever.").ents] == ["Fever"]

    def found() -> list[State]:
        return [entry.state for entry in cached.entries(stored.rules_fingerprint()) if entry.state is not State.LOCK]

    assert found() == [State.UNKNOWN]  # of a vocabulary of the user's own
    monkeypatch.setattr(stored, "RULES", 77)
    assert found() == [State.UNUSED]
