"""Encoding in shards: what is written, what a second run finds, and which process encodes."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Iterator, List, Optional

import numpy as np
import pytest
import torch
from filelock import FileLock

from spacy_sapbert import bundle
from spacy_sapbert.build import linker as building
from spacy_sapbert.build import vectors as name_vectors
from spacy_sapbert.build.vectors import Known, Ready, Shard, Tick, Workers, here, in_processes
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.indexes.usearch import UsearchIndex
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

DATA = Path(__file__).parents[1] / "data"
pytestmark = pytest.mark.usefixtures("one_thread")
WIDTH, SIZE = 8, 40  # dimensions, names in a shard


def code(names: List[str]) -> np.ndarray:
    """Names -> (n, 8) vectors that can be checked by hand: lengths and first letters."""
    return np.array([[len(name), *(ord(name[i % len(name)]) for i in range(WIDTH - 1))] for name in names], dtype=np.float32).reshape(-1, WIDTH)


class Recorder:
    """Encode with `code`, record the shards, and stop before shard number `stop`."""

    def __init__(self, stop: Optional[int] = None) -> None:
        self.stop, self.numbers, self.names, self.told = stop, [], [], 0

    def __call__(self, shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        for number, names in shards:
            if number == self.stop:
                raise RuntimeError("stopped")
            self.numbers.append(number)
            self.names += names
            tick(len(names))
            yield number, code(names)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_vectors, "SHARD", SIZE)


def run(kb: KnowledgeBase, out: Path, encode: Any, encoder: str = "abc", dtype: Any = np.float16, known: Optional[Known] = None) -> np.ndarray:
    with name_vectors.name_vectors(kb, out, encode, encoder=encoder, dim=WIDTH, dtype=dtype, known=known) as vectors:
        assert out.with_name(out.name + ".vectors").is_dir()
        assert isinstance(vectors, np.memmap)
        assert vectors.dtype == dtype
        return np.array(vectors)


def stopped(kb: KnowledgeBase, out: Path, shard: int, **settings: Any) -> Path:
    with pytest.raises(RuntimeError, match="stopped"):
        run(kb, out, Recorder(stop=shard), **settings)
    return out.with_name(out.name + ".vectors")


def shards_of(kb: KnowledgeBase) -> int:
    return -(-kb.n_surface_forms // SIZE)


def test_all_names_in_their_order_and_nothing_is_left(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    recorder = Recorder()
    vectors = run(tiny_kb, tmp_path / "linker", recorder)
    names = list(tiny_kb.surface_forms())
    assert shards_of(tiny_kb) >= 3
    assert recorder.numbers == list(range(shards_of(tiny_kb)))
    assert recorder.names == names
    assert np.array_equal(vectors, code(names).astype(np.float16))
    assert list(tmp_path.iterdir()) == []


def test_vectors_that_a_killed_process_was_removing_are_removed(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    left, other = tmp_path / ".linker.vectors.4711.tmp", tmp_path / ".linker.vectors.new.4711.tmp"
    for folder in (left, other):
        folder.mkdir()
        (folder / "vectors.npy").write_bytes(b"x")
    run(tiny_kb, tmp_path / "linker", Recorder())
    assert list(tmp_path.iterdir()) == [other]


def test_a_second_run_encodes_what_the_first_did_not(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = stopped(tiny_kb, tmp_path / "linker", 2)
    assert [json.loads(line)["shard"] for line in (folder / "done.jsonl").read_text().splitlines()] == [0, 1]
    second = Recorder()
    vectors = run(tiny_kb, tmp_path / "linker", second)
    assert second.numbers == list(range(2, shards_of(tiny_kb)))
    assert np.array_equal(vectors, code(list(tiny_kb.surface_forms())).astype(np.float16))
    assert not folder.exists()


def test_nothing_done_leaves_nothing(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    assert not stopped(tiny_kb, tmp_path / "linker", 0).exists()


def test_a_damaged_shard_and_a_torn_line_are_done_again(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = stopped(tiny_kb, tmp_path / "linker", 3)
    with open(folder / "vectors.npy", "r+b") as file:
        file.seek(-tiny_kb.n_surface_forms * WIDTH * 2 + SIZE * WIDTH * 2 + 5, os.SEEK_END)  # in the second shard
        file.write(b"\xff")
    with open(folder / "done.jsonl", "a") as file:
        file.write('{"shard": 3, "sta')
    second = Recorder()
    with pytest.warns(UserWarning, match=r"\[W007\] 1 shards \(numbers 1\) in .*linker\.vectors' were damaged"):
        vectors = run(tiny_kb, tmp_path / "linker", second)
    assert second.numbers == [1, *range(3, shards_of(tiny_kb))]
    assert np.array_equal(vectors, code(list(tiny_kb.surface_forms())).astype(np.float16))


@pytest.mark.parametrize("line", ["5", "null", '{"shard": "x", "blake2b": ""}', '{"shard": 99, "blake2b": ""}', '{"shard": -1, "blake2b": ""}'])
def test_a_list_that_somebody_wrote_into_is_read_with_care(tiny_kb: KnowledgeBase, tmp_path: Path, line: str) -> None:
    folder = stopped(tiny_kb, tmp_path / "linker", 2)
    done = folder / "done.jsonl"
    first = json.loads(done.read_text().splitlines()[0])
    done.write_text(f"{line}\n{json.dumps({**first, 'shard': 1})}\n")  # the second shard with the checksum of the first
    second = Recorder()
    with pytest.warns(UserWarning, match="W007"):
        vectors = run(tiny_kb, tmp_path / "linker", second)
    assert second.numbers == list(range(shards_of(tiny_kb)))
    assert np.array_equal(vectors, code(list(tiny_kb.surface_forms())).astype(np.float16))


@pytest.mark.parametrize("damage", ["longer", "shorter", "header", "empty"])
def test_a_file_of_another_size_is_begun_again(tiny_kb: KnowledgeBase, tmp_path: Path, damage: str) -> None:
    path = stopped(tiny_kb, tmp_path / "linker", 2) / "vectors.npy"
    content = path.read_bytes()
    path.write_bytes({"longer": content + bytes(64), "shorter": content[:-100], "header": b"x" * 20 + content[20:], "empty": b""}[damage])
    second = Recorder()
    with pytest.warns(UserWarning, match=r"\[W007\] vectors\.npy in .* were damaged"):
        vectors = run(tiny_kb, tmp_path / "linker", second)
    assert second.numbers == list(range(shards_of(tiny_kb)))
    assert np.array_equal(vectors, code(list(tiny_kb.surface_forms())).astype(np.float16))


@pytest.mark.parametrize("change", [{"encoder": "other"}, {"dtype": np.float32}])
def test_what_was_begun_otherwise_is_not_gone_on_with(tiny_kb: KnowledgeBase, tmp_path: Path, change: Any) -> None:
    stopped(tiny_kb, tmp_path / "linker", 2)
    second = Recorder()
    what = {"encoder": "encoder: abc, not other", "dtype": "dtype: float16, not float32"}[next(iter(change))]
    with pytest.warns(UserWarning, match=rf"\[W008\] .*{what}"):
        run(tiny_kb, tmp_path / "linker", second, **change)
    assert second.numbers == list(range(shards_of(tiny_kb)))


def test_another_knowledge_base_is_not_gone_on_with(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    stopped(tiny_kb, tmp_path / "linker", 2)
    out = building.build_kb([building.read_source(DATA / "tiny.obo")], tmp_path / "kb")
    with pytest.warns(UserWarning, match=r"\[W008\] .*kb: .*names: "):
        vectors = run(out, tmp_path / "linker", Recorder())
    assert np.array_equal(vectors, code(list(out.surface_forms())).astype(np.float16))


def test_what_fails_after_encoding_leaves_the_vectors(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    encode: Any = Recorder()
    with pytest.raises(KeyboardInterrupt):
        with name_vectors.name_vectors(tiny_kb, tmp_path / "linker", encode, encoder="abc", dim=WIDTH, dtype=np.float16):
            raise KeyboardInterrupt
    second = Recorder()
    run(tiny_kb, tmp_path / "linker", second)
    assert second.numbers == []


@pytest.mark.parametrize(
    ("given", "what"), [(np.ones((1, WIDTH)), r"shape \(1, 8\) for 40 names"), (np.full((SIZE, WIDTH), np.nan), "40 rows with NaN")]
)
def test_what_is_no_vector_is_refused_at_once(tiny_kb: KnowledgeBase, tmp_path: Path, given: np.ndarray, what: str) -> None:
    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        for number, _ in shards:
            yield number, given

    with pytest.raises(SapbertError, match=rf"\[E204\].*{what}"):
        run(tiny_kb, tmp_path / "linker", encode)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_without_a_fingerprint_begins_again(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    assert not stopped(tiny_kb, tmp_path / "linker", 2, encoder="").exists()


def test_known_vectors_are_not_encoded(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    n = tiny_kb.n_surface_forms
    rows = np.arange(n)[::-1].copy()  # rows of an index with another order
    rows[[3, SIZE + 1]] = -1
    rows[2 * SIZE : 3 * SIZE] = -1
    names = list(tiny_kb.surface_forms())
    old = 1000 + np.arange(n, dtype=np.float32)[:, None] * np.ones(WIDTH, dtype=np.float32)
    recorder = Recorder()
    vectors = run(tiny_kb, tmp_path / "linker", recorder, dtype=np.float32, known=Known(rows, lambda wanted: old[wanted]))
    fresh = [3, SIZE + 1, *range(2 * SIZE, 3 * SIZE)]
    assert recorder.names == [names[row] for row in fresh]
    assert np.array_equal(vectors[fresh], code(recorder.names))
    kept = np.setdiff1d(np.arange(n), fresh)
    assert np.array_equal(vectors[kept], old[n - 1 - kept])


def test_one_build_at_a_time(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "linker.vectors"
    folder.mkdir()
    with FileLock(folder / "lock"):
        with pytest.raises(SapbertError, match=r"\[E026\].*another build.*Wait until it ends"):
            run(tiny_kb, tmp_path / "linker", Recorder())
        with pytest.raises(SapbertError, match=r"\[E026\]"):  # raised before anything else is built
            building.build_linker([], tmp_path / "linker", kb=tmp_path / "is not looked at", index=ExactIndex(), progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["linker.vectors"]


def test_a_full_disk_is_said(tiny_kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(name_vectors, "reserve", full)
    with pytest.raises(SapbertError, match=r"\[E029\] No room left to write '.*linker\.vectors'"):
        run(tiny_kb, tmp_path / "linker", Recorder())
    assert list(tmp_path.iterdir()) == []


# -- real builds ----------------------------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_a_build_that_fails_at_its_end_keeps_the_vectors(tiny_kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, encode, asked = building.write_manifest, NameEncoder.encode, []

    def full(folder: Path, kind: str, *rest: Any, **more: Any) -> Any:
        if kind == bundle.KIND:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(folder, kind, *rest, **more)

    def counting(model: Any, names: List[str], *, progress: Any = False) -> np.ndarray:
        if callable(progress):  # only for shards, not for the queries that measure the index
            asked.append(names[0])
        return encode(model, names, progress=progress)

    monkeypatch.setattr(NameEncoder, "encode", counting)
    with monkeypatch.context() as broken:
        broken.setattr(building, "write_manifest", full)
        with pytest.raises(SapbertError, match="E008"):
            building.build_linker([], tmp_path / "linker", kb=tiny_kb.path, index=ExactIndex(), progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["linker.vectors"]
    assert len(asked) == shards_of(tiny_kb)
    building.build_linker([], tmp_path / "linker", kb=tiny_kb.path, index=ExactIndex(), progress=False)
    assert len(asked) == shards_of(tiny_kb)
    assert [path.name for path in tmp_path.iterdir()] == ["linker"]


SLOW = """
    import sys, time
    from pathlib import Path
    from spacy_sapbert.build import linker as building
    from spacy_sapbert.build import vectors as name_vectors
    from spacy_sapbert.encoders.transformer import NameEncoder
    from spacy_sapbert.indexes.exact import ExactIndex

    name_vectors.SHARD = 40
    encode = NameEncoder.encode

    def slowly(model, names, *, progress=False):
        with open(sys.argv[3], "a") as log:
            log.write(f"{names[0]}\\n")
        time.sleep(float(sys.argv[4]))
        return encode(model, names, progress=progress)

    NameEncoder.encode = slowly
    building.build_linker([], sys.argv[2], kb=sys.argv[1], index=ExactIndex(), progress=False)
"""


@pytest.mark.e2e
def test_a_killed_build_goes_on(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    out, script = tmp_path / "linker", tmp_path / "build.py"
    script.write_text(textwrap.dedent(SLOW))

    def start(log: str, pause: str) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, str(script), str(tiny_kb.path), str(out), str(tmp_path / log), pause], stderr=subprocess.PIPE)

    first = start("first", "2")
    done = tmp_path / "linker.vectors" / "done.jsonl"
    while not (done.is_file() and done.read_text().count("\n") >= 2):
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    whole = done.read_text().count("\n")
    assert not out.exists()
    second = start("second", "0")
    said = second.communicate()[1]
    assert second.returncode == 0, said
    names = list(tiny_kb.surface_forms())
    assert (tmp_path / "second").read_text().splitlines()[: shards_of(tiny_kb) - whole] == names[whole * SIZE :: SIZE]
    assert not done.exists()
    index = bundle.open_index(out)
    model = NameEncoder().initialize()
    assert len(index) == tiny_kb.n_surface_forms
    assert (np.sum(index.vectors(np.arange(len(names))) * model.encode(names), axis=1) > 0.999).all()


@pytest.mark.e2e
def test_two_processes_give_the_same_vectors(tiny_linker: Path, tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    workers = Workers.make(2)
    load = partial(bundle.worker_encoder, tiny_linker / "encoder", {"dtype": "float32"})
    model = load("cpu")
    found = []
    for encode in (here(model), in_processes(load, workers)):
        with name_vectors.name_vectors(tiny_kb, tmp_path / "x", encode, encoder="abc", dim=384, dtype=np.float32) as vectors:
            found.append(np.array(vectors))
    assert np.abs(found[0] - found[1]).max() < 1e-6  # each shard is encoded by one process, in the same batches


def _dies_at(marker: Path, device: str) -> Any:
    class Model:
        def encode(self, names: List[str], *, progress: Any = False) -> np.ndarray:
            if marker.is_file():
                os.kill(os.getpid(), signal.SIGKILL)
            marker.write_text("the next one dies")
            return code(names)

    return Model()


@pytest.mark.e2e
def test_a_process_that_dies_is_told_and_what_is_done_is_kept(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    load = partial(_dies_at, tmp_path / "marker")
    with pytest.raises(SapbertError, match=r"\[E027\] One of 1 processes that encode names died .* Complete shards are kept"):
        run(tiny_kb, tmp_path / "linker", in_processes(load, Workers(("cpu",))))
    again = Recorder()
    run(tiny_kb, tmp_path / "linker", again)
    assert again.numbers == list(range(1, shards_of(tiny_kb)))


class _Sees:
    """An encoder that is loaded in a worker, and writes which GPU the process sees and which one it must use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, device: str) -> Any:
        (self.folder / str(os.getpid())).write_text(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {device}")

        class Model:
            def encode(self, names: List[str], *, progress: Any = False) -> np.ndarray:
                return code(names)

        return Model()


@pytest.mark.e2e
@pytest.mark.parametrize(("listed", "seen"), [(None, {"1 cuda:0", "3 cuda:0"}), ("GPU-a,GPU-b,GPU-c,7", {"GPU-b cuda:0", "7 cuda:0"})])
def test_each_worker_sees_its_own_gpu_alone(tiny_kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Any, seen: Any) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    (tmp_path / "seen").mkdir()
    run(tiny_kb, tmp_path / "linker", in_processes(_Sees(tmp_path / "seen"), Workers(("cuda:1", "cuda:3"))))
    assert {path.read_text() for path in (tmp_path / "seen").iterdir()} == seen
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == listed


def test_workers_that_the_command_line_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Workers.found().devices == ("cuda:0", "cuda:1")
    assert Workers.found().in_words() == "Names are encoded on GPU 0, 1 (--gpu-ids -1: on the CPU)."
    assert Workers.found(gpu_ids="1").devices == ("cuda:1",)
    assert Workers.found(gpu_ids="-1").devices == ("",)
    assert Workers.found(3).devices == ("cpu", "cpu", "cpu")  # the number that was asked for
    assert Workers.found(3).in_words() == "Names are encoded on the CPU, in 3 processes."
    for text in ("0,,1", "0,", "x", "1,1", "0 1", "-2"):
        with pytest.raises(SapbertError, match=r"\[E315\] '--gpu-ids'"):
            Workers.found(gpu_ids=text)
    with pytest.raises(SapbertError, match=r"\[E305\] There is no GPU 2\. GPUs that PyTorch sees: 0, 1\."):
        Workers.found(gpu_ids="0,2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Workers.found().in_words() == "Names are encoded on the CPU, in 1 process."


def _does_not_load(device: str) -> Any:
    raise ValueError(f"no weights for {device}")


@pytest.mark.e2e
def test_why_a_process_has_no_encoder_is_told(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no weights for cpu"):
        run(tiny_kb, tmp_path / "linker", in_processes(_does_not_load, Workers(("cpu",))))
    assert list(tmp_path.iterdir()) == []


class _Interrupted:
    """An encoder that gets Ctrl-C, as all processes of a terminal do."""

    def __call__(self, device: str) -> Any:
        class Model:
            def encode(self, names: List[str], *, progress: Any = False) -> np.ndarray:
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                    return code(names)
                except KeyboardInterrupt:
                    raise RuntimeError("interrupted") from None  # KeyboardInterrupt would end pytest

        return Model()


@pytest.mark.e2e
def test_workers_ignore_ctrl_c(tiny_kb: KnowledgeBase, tmp_path: Path) -> None:
    vectors = run(tiny_kb, tmp_path / "linker", in_processes(_Interrupted(), Workers(("cpu",))))
    assert np.array_equal(vectors, code(list(tiny_kb.surface_forms())).astype(np.float16))


class _Endless:
    """An encoder whose vectors hold the id of its process. It never ends with the text "endless"."""

    def __call__(self, device: str) -> Any:
        class Model:
            def encode(self, names: List[str], *, progress: Any = False) -> np.ndarray:
                if names == ["endless"]:
                    signal.pause()
                return np.array([[os.getpid()]])

        return Model()


@pytest.mark.e2e
def test_workers_end_with_a_build_that_is_interrupted() -> None:
    encoding = in_processes(_Endless(), Workers(("cpu",)))(iter(enumerate([["cough"], ["endless"]])), lambda done: None)
    _, vectors = next(encoding)
    worker = next(process for process in multiprocessing.active_children() if process.pid == int(vectors[0, 0]))
    try:
        encoding.close()
        assert wait([worker.sentinel], 60) == [worker.sentinel]
    finally:
        worker.kill()


def test_workers() -> None:
    assert Workers.make() == Workers(("",))
    assert Workers.make(3).devices == ("cpu", "cpu", "cpu")
    with pytest.raises(SapbertError, match=r"\[E002\].*'processes'.*at least 1"):
        Workers.make(0)
    with pytest.raises(SapbertError, match=r"\[E002\].*each GPU in gpu_ids has its own process"):
        Workers.make(2, [0])
    with pytest.raises(SapbertError, match=r"\[E305\] There is no GPU 99"):
        Workers.make(1, [99])


@pytest.mark.parametrize("index", [ExactIndex(), UsearchIndex(dtype="i8", pca=128, rescore=100)])
def test_an_index_of_encoded_names_finds_them(tiny_kb: KnowledgeBase, tmp_path: Path, index: Any) -> None:
    out = building.build_linker([], tmp_path / "linker", kb=tiny_kb.path, index=index, workers=Workers.make(1), progress=False)
    opened = bundle.open_index(out)
    rows = np.arange(0, tiny_kb.n_surface_forms, 7)
    found, cosines = opened.query(opened.vectors(rows), 1)
    assert (found[:, 0] == rows).mean() > 0.97  # a name and its plural may have the same vector
    assert (cosines[:, 0] > 0.999).all()
    assert [path.name for path in tmp_path.iterdir()] == ["linker"]
