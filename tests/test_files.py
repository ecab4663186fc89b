from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, List

import numpy as np
import pytest

from spacy_sapbert import files
from spacy_sapbert.errors import DamagedFile, MissingFile, SapbertError
from spacy_sapbert.files import (
    checksum,
    copy_folder,
    folder_from_bytes,
    folder_to_bytes,
    is_disk_full,
    keep_other_files,
    read_manifest,
    reserve,
    write_manifest,
    write_text,
    writing_folder,
)


def read(folder: Path, **options: bool) -> dict:
    return read_manifest(folder, "toy", 3, missing="E101", damaged="E102", **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "toy"
    with writing_folder(target) as new:
        (new / "a.bin").write_bytes(bytes(range(256)) * 40)
        (new / "deep").mkdir()
        (new / "deep" / "b.txt").write_text("ünicode")
        (new / "empty").write_bytes(b"")
        write_manifest(new, "toy", 3, {"answer": 42})
    return target


def names(folder: Path) -> List[str]:
    return sorted(path.name for path in folder.iterdir())


# -- manifests ----------------------------------------------------------------------------------------------------------


def test_manifest_lists_every_file_with_size_and_checksum(folder: Path) -> None:
    manifest = read(folder, full=True)
    assert (manifest["kind"], manifest["format"], manifest["answer"]) == ("toy", 3, 42)
    assert {name: entry["bytes"] for name, entry in manifest["files"].items()} == {"a.bin": 10240, "deep/b.txt": 8, "empty": 0}
    assert all(len(entry["blake2b"]) == 64 for entry in manifest["files"].values())
    assert read(folder) == manifest
    # files in folders with their own manifest are not listed here
    shallow = write_manifest(folder, "toy", 3, {}, deep=False)
    assert set(shallow["files"]) == {"a.bin", "empty"}


@pytest.mark.parametrize("name", ["a.bin", "deep/b.txt"])
@pytest.mark.parametrize("at", [0, 5, -1])
def test_one_changed_byte_is_seen_in_any_file(folder: Path, name: str, at: int) -> None:
    content = bytearray((folder / name).read_bytes())
    content[at] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(DamagedFile, match=f"checksum of '{name}'") as error:
        read(folder)
    assert error.value.code == "E102"
    assert str(folder) in str(error.value)


def damage_truncate(folder: Path) -> None:
    os.truncate(folder / "a.bin", 10_000)


def damage_grow(folder: Path) -> None:
    with open(folder / "empty", "ab") as file:
        file.write(b"x")


def damage_remove(folder: Path) -> None:
    (folder / "deep" / "b.txt").unlink()


def damage_no_json(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"kind": "toy", ')


def damage_no_utf8(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff\xfe\x00")


def damage_list(folder: Path) -> None:
    (folder / "manifest.json").write_text("[1]")


def damage_kind(folder: Path) -> None:
    write_manifest(folder, "linker", 3, {})


def damage_no_files(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"kind": "toy", "format": 3}')


def damage_no_size(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"kind": "toy", "format": 3, "files": {"a.bin": {}}}')


def damage_outside(folder: Path) -> None:
    shutil.copy(folder / "empty", folder.parent / "outside")
    text = (folder / "manifest.json").read_text().replace('"empty"', '"../outside"')
    (folder / "manifest.json").write_text(text)


def damage_absolute(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_bytes(b"")
    text = (folder / "manifest.json").read_text().replace('"empty"', json.dumps(str(outside)))
    (folder / "manifest.json").write_text(text)


def damage_long_name(folder: Path) -> None:
    text = (folder / "manifest.json").read_text().replace('"empty"', json.dumps("x" * 5000))
    (folder / "manifest.json").write_text(text)


def damage_size(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["empty"]["bytes"] = "0"
    (folder / "manifest.json").write_text(json.dumps(manifest))


def damage_depth(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"kind": ' + "[" * 100_000)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damage_truncate, "'a.bin' has 10,000 bytes, not 10,240"),
        (damage_grow, "'empty' has 1 bytes, not 0"),
        (damage_remove, "'deep/b.txt' is missing"),
        (damage_no_json, "not JSON"),
        (damage_no_utf8, "not JSON"),
        (damage_list, "describes 'list', not 'toy'"),
        (damage_kind, "describes 'linker', not 'toy'"),
        (damage_no_files, "no valid list of files"),
        (damage_no_size, "no valid list of files"),
        (damage_outside, "outside the folder"),
        (damage_absolute, "outside the folder"),
        (damage_long_name, "not a valid file name"),
        (damage_size, "no valid list of files"),
        (damage_depth, "not JSON .it is nested too deeply"),
    ],
)
def test_damage_is_named(folder: Path, damage: Callable[[Path], None], says: str) -> None:
    damage(folder)
    with pytest.raises(DamagedFile, match=says) as error:
        read(folder)
    assert error.value.code == "E102"


def test_missing_folder_or_manifest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="no such folder") as error:
        read(tmp_path / "nowhere")
    assert error.value.code == "E101"
    assert isinstance(error.value, FileNotFoundError)
    (folder / "manifest.json").unlink()
    with pytest.raises(MissingFile, match=r"no manifest\.json"):
        read(folder)


@pytest.mark.parametrize("version", [2, 4, "3", None])
def test_other_format_versions_are_refused(folder: Path, version: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "format": version}))
    with pytest.raises(SapbertError, match=f"format {version}; this version reads 3") as error:
        read(folder)
    assert error.value.code == "E106"


def test_large_files_are_sampled_unless_every_byte_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FULL_HASH_BYTES", 1000)
    monkeypatch.setattr(files, "_BLOCK", 10)
    content = bytes(i % 251 for i in range(100_000))
    (tmp_path / "big").write_bytes(content)
    assert set(write_manifest(tmp_path, "toy", 3, {})["files"]["big"]) == {"bytes", "blake2b", "sampled"}
    assert checksum(tmp_path / "big") != checksum(tmp_path / "big", full=False)

    def change(at: int) -> None:
        changed = bytearray(content)
        changed[at] ^= 1
        (tmp_path / "big").write_bytes(changed)

    sampled = {(100_000 - 10) * i // 63 + j for i in range(64) for j in range(10)}
    for at in (0, 99_999, (100_000 - 10) * 31 // 63):  # first, last and middle block
        assert at in sampled
        change(at)
        with pytest.raises(DamagedFile):
            read(tmp_path)
    change(500)  # a change between two sampled blocks is not noticed: the price of opening fast
    assert 500 not in sampled
    read(tmp_path)
    with pytest.raises(DamagedFile, match="checksum of 'big'"):
        read(tmp_path, full=True)


# -- replacing folders --------------------------------------------------------------------------------------------------


def test_a_build_that_fails_leaves_the_old_folder_and_nothing_else(folder: Path) -> None:
    before = folder_to_bytes(folder)
    for failure in (RuntimeError("boom"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(failure)):  # noqa: PT012
            with writing_folder(folder) as new:
                (new / "a.bin").write_bytes(b"half")
                raise failure
        assert folder_to_bytes(folder) == before
        assert names(folder.parent) == ["toy"]


def test_a_new_folder_replaces_all_of_the_old_one(folder: Path) -> None:
    with writing_folder(folder) as new:
        assert read(folder)["answer"] == 42  # the old folder is still there while the new one is written
        assert new.parent.parent == folder.parent  # the same file system: a rename is atomic
        (new / "only.txt").write_text("new")
    assert names(folder) == ["only.txt"]
    assert names(folder.parent) == ["toy"]


def test_new_folders_have_the_usual_permissions_and_parents(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with writing_folder(tmp_path / "x" / "y" / "made"):
        pass
    assert (tmp_path / "x" / "y" / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_relative_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("one", "two"):
        with writing_folder("made") as new:
            (new / "t").write_text(text)
        assert (tmp_path / "made" / "t").read_text() == text


def test_where_the_old_folder_cannot_be_replaced_it_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder_to_bytes(folder)
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name == files._NEW:
            raise PermissionError(errno.EACCES, "no")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        with writing_folder(folder):
            pass
    assert folder_to_bytes(folder) == before
    assert names(folder.parent) == ["toy"]


KILLED = """
import sys, time
from spacy_sapbert.files import writing_folder
with writing_folder(sys.argv[1]) as new:
    (new / "half").write_bytes(b"x" * 100)
    print("writing", flush=True)
    time.sleep(600)  # it is killed before
"""


@pytest.mark.e2e
def test_what_a_killed_build_leaves_is_cleared_by_the_next(folder: Path) -> None:
    before = folder_to_bytes(folder)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        (left,) = (path for path in folder.parent.iterdir() if path.name != "toy")
        os.utime(left, (time.time() - 3600,) * 2)
        with writing_folder(folder.with_name("toy.longer")):
            pass  # another target
        shutil.rmtree(folder.with_name("toy.longer"))
        with writing_folder(folder) as new:  # the folder of a running build is never removed, however old it is
            shutil.copytree(folder, new, dirs_exist_ok=True)
        assert left.exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder_to_bytes(folder) == before
    with writing_folder(folder.with_name("toy.longer")):
        pass
    shutil.rmtree(folder.with_name("toy.longer"))
    os.utime(left, (time.time() - 3600,) * 2)
    with pytest.raises(RuntimeError):
        with writing_folder(folder):
            raise RuntimeError
    assert names(folder.parent) == ["toy"]
    assert folder_to_bytes(folder) == before


def test_a_folder_lost_between_two_renames_comes_back(folder: Path) -> None:
    before = folder_to_bytes(folder)
    left = folder.parent / ".toy.abc123.tmp"
    (left / files._NEW).mkdir(parents=True)
    folder.rename(left / files._OLD)
    os.utime(left, (time.time() - 3600,) * 2)
    with pytest.raises(RuntimeError):
        with writing_folder(folder):
            raise RuntimeError
    assert folder_to_bytes(folder) == before
    assert names(folder.parent) == ["toy"]


def test_a_folder_of_the_time_before_the_clock_was_set_back_is_removed(folder: Path) -> None:
    for name in (".toy.abc123.tmp", ".toy.json.abcd1234.tmp"):
        (folder.parent / name).mkdir() if "json" not in name else (folder.parent / name).touch()
        os.utime(folder.parent / name, (time.time() + 3600,) * 2)
    with writing_folder(folder):
        pass
    assert names(folder.parent) == [".toy.json.abcd1234.tmp", "toy"]
    files.write_text(folder.parent / "toy.json", "{}")
    assert names(folder.parent) == ["toy", "toy.json"]


@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_while_the_folder_is_replaced_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    before = folder_to_bytes(folder)
    replace, calls = os.replace, []

    def interrupted(source: Path, target: Path) -> None:
        replace(source, target)
        calls.append(target)
        if len(calls) == number:
            raise KeyboardInterrupt  # as Python raises it after the call in which the signal came

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt), writing_folder(folder) as new:
            (new / "other").write_bytes(b"new")
    assert names(folder.parent) == ["toy"]
    assert folder_to_bytes(folder) == (before if number == 1 else {"other": b"new"})


def test_a_text_file_that_a_killed_process_left_is_removed_by_the_next(folder: Path) -> None:
    target = folder.parent / "a.json"
    old, fresh, other = (folder.parent / name for name in (".a.json.abcd1234.tmp", ".a.json.abcd1235.tmp", ".a.json.made.abcd1234.tmp"))
    for path in (old, fresh, other):
        path.touch()
    os.utime(old, (time.time() - 3600,) * 2)
    os.utime(other, (time.time() - 3600,) * 2)
    files.write_text(target, "{}")
    assert (old.exists(), fresh.exists(), other.exists(), target.read_text()) == (False, True, True, "{}")


def test_a_folder_of_many_files_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it for each file would take a time that grows with the square of their number, as for an export of many notes to brat."""
    scan, read = os.scandir, []
    monkeypatch.setattr(os, "scandir", lambda folder: read.append(str(folder)) or scan(folder))
    left = tmp_path / ".9.txt.abcd1234.tmp"
    left.touch()
    os.utime(left, (time.time() - 3600,) * 2)
    for number in range(10):
        write_text(tmp_path / f"{number}.txt", "fever")
    assert read == [str(tmp_path)]
    assert names(tmp_path) == [f"{number}.txt" for number in range(10)]


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_file_server_whose_clock_differs_does_not_make_running_writers_lose_their_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    text, scratch = folder.parent / ".a.json.abcd1234.tmp", folder.parent / ".toy.abc123.tmp"
    text.touch()
    scratch.mkdir()
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    files.write_text(folder.parent / "a.json", "{}")
    with writing_folder(folder):
        pass
    assert names(folder.parent) == [".a.json.abcd1234.tmp", ".toy.abc123.tmp", "a.json", "toy"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_get_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with writing_folder(tmp_path / "made") as new:
            for name in ("model.safetensors", "notes.sqlite", "run"):
                (new / name).touch()
            (new / "model.safetensors").chmod(0o600)  # as the library writes it
            (new / "notes.sqlite").chmod(0o600)  # only its owner may read it
            (new / "run").chmod(0o755)
        write_text(tmp_path / "note.txt", "fever")
    finally:
        os.umask(before)
    made = tmp_path / "made"
    assert [(made / name).stat().st_mode & 0o777 for name in ("model.safetensors", "notes.sqlite", "run")] == [mode, 0o600, 0o755]
    assert (tmp_path / "note.txt").stat().st_mode & 0o777 == mode


def test_what_only_its_owner_may_read_stays_so(tmp_path: Path) -> None:
    old, other = tmp_path / "made", tmp_path / "mine.safetensors"
    old.mkdir(mode=0o700)
    (old / "ward.safetensors").touch(mode=0o600)
    os.link(old / "ward.safetensors", other)
    with writing_folder(old) as new:
        keep_other_files(old, new, [])
    assert [path.stat().st_mode & 0o777 for path in (old, old / "ward.safetensors", other)] == [0o700, 0o600, 0o600]


def test_a_folder_that_is_just_being_made_is_left_alone(folder: Path) -> None:
    fresh = folder.parent / ".toy.abc123.tmp"
    fresh.mkdir()
    with writing_folder(folder):
        pass
    assert fresh.is_dir()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("1000000 requested and 393200 written"),  # from NumPy, without errno
        OSError("Unable to write: No space left on device (28)"),  # from Annoy
        sqlite3.OperationalError("database or disk is full"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),  # from safetensors
    ],
    ids=lambda error: str(error)[:20],
)
def test_a_full_disk_says_so_and_keeps_nothing(folder: Path, error: Exception) -> None:
    before = folder_to_bytes(folder)
    with pytest.raises(SapbertError, match=r"SPACY_SAPBERT_CACHE") as raised:  # noqa: PT012
        with writing_folder(folder) as new:
            (new / "half").write_bytes(b"x")
            raise error
    assert raised.value.code == "E008"
    assert raised.value.__cause__ is error
    assert folder_to_bytes(folder) == before
    assert names(folder.parent) == ["toy"]
    assert not is_disk_full(OSError(errno.EACCES, "Permission denied"))


def test_room_for_a_mapped_file_is_taken_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = np.lib.format.open_memmap(tmp_path / "m.npy", mode="w+", dtype=np.int32, shape=(1000, 1000))
    assert (tmp_path / "m.npy").stat().st_blocks * 512 < 1_000_000  # a sparse file
    reserve(tmp_path / "m.npy")
    assert (tmp_path / "m.npy").stat().st_blocks * 512 >= 4_000_000
    mapped[-1, -1] = 7
    assert np.load(tmp_path / "m.npy", mmap_mode="r")[-1, -1] == 7

    def full(*args: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SapbertError) as error:
        with writing_folder(tmp_path / "t"):
            reserve(tmp_path / "m.npy")
    assert error.value.code == "E008"


# -- copies and bytes ---------------------------------------------------------------------------------------------------


def test_copies_and_bytes_are_the_same_folder(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    copy_folder(folder, target, list(read(folder)["files"]))
    assert read(target, full=True) == read(folder)
    again = tmp_path / "again"
    folder_from_bytes(folder_to_bytes(folder), again)
    assert read(again, full=True) == read(folder)


@pytest.mark.parametrize("name", ["../evil", "deep/../../evil", "/tmp/kbt-evil", ".", "../toy-evil/x", ""])
def test_bytes_cannot_write_outside_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamagedFile, match="outside its folder"):
        folder_from_bytes({name: b"x"}, tmp_path / "toy")
    assert not list(tmp_path.rglob("*evil*"))
    assert not Path("/tmp/kbt-evil").exists()
