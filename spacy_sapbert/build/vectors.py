"""Encode all names of a knowledge base into one file, in shards, by one or several processes. A killed build can be resumed.

The file is in the folder `OUT.vectors`, beside the folder OUT that is built. Each complete shard has a line with its checksum in done.jsonl. When
the same build is started again, it checks these shards and encodes the others. The folder is removed when the build is complete.
"""

from __future__ import annotations

import glob
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from tqdm import tqdm

from ..devices import check_gpus, gpu_numbers, gpus_there, only
from ..encoders.base import Encoder
from ..errors import SapbertError, fail, warn
from ..files import is_disk_full, reserve, write_text
from ..kb.knowledge_base import KnowledgeBase
from ..types import Floats2d, Ints1d

SHARD = 50_000  # names; they take less than a minute on a CPU, and 38 MB as float16
SUFFIX, VECTORS, PLAN, DONE, LOCK = ".vectors", "vectors.npy", "plan.json", "done.jsonl", "lock"
_SHOW_FROM = 1_000  # names; fewer take under 3 s

Shard = tuple[int, list[str]]  # number, names to encode
Ready = tuple[int, Floats2d]
Tick = Callable[[int], object]  # called with the number of names that were encoded since the last call
Encode = Callable[[Iterator[Shard], Tick], Iterator[Ready]]  # shards in order -> their vectors, in any order


class Known(NamedTuple):
    """Vectors that need not be encoded, such as those of an older index."""

    rows: Ints1d  # (n,) for each name, the row of its vector, or -1
    read: Callable[[Ints1d], Floats2d]  # rows (r,) -> vectors (r, d)


@dataclass(frozen=True)
class Workers:
    """The processes that encode.

    Args:
        devices: One process for each, "cpu" or "cuda:0". A single "" means this process, on the device that the encoder is on. If several
            processes encode on a CPU, each uses one core.
    """

    devices: tuple[str, ...] = ("",)

    @classmethod
    def make(cls, processes: int = 1, gpu_ids: Sequence[int] = ()) -> Workers:
        """Choose the processes.

        Args:
            processes: Number of processes on the CPU.
            gpu_ids: Numbers of GPUs that are used instead, with one process each.

        Raises:
            SapbertError: E002, processes is below 1, or both are given; E305, there is no such GPU.
        """
        if processes < 1:
            raise fail("E002", setting="processes", component="index", value=processes, why="it must be at least 1.")
        if gpu_ids and processes > 1:
            why = "each GPU in gpu_ids has its own process; leave processes out."
            raise fail("E002", setting="processes", component="index", value=processes, why=why)
        if gpu_ids:
            check_gpus(gpu_ids)
            return cls(tuple(f"cuda:{gpu}" for gpu in gpu_ids))
        return cls(("cpu",) * processes if processes > 1 else ("",))

    @classmethod
    def found(cls, processes: int = 1, gpu_ids: str = "") -> Workers:
        """Choose the processes as the command line does: all GPUs that this process sees, unless the arguments say otherwise.

        Args:
            processes: Number of processes on the CPU. If it is above 1, "" in `gpu_ids` means no GPU.
            gpu_ids: "" for all GPUs, "-1" for none, or numbers separated by commas.

        Raises:
            SapbertError: E002, see `make`; E305, there is no such GPU; E315, it is not a list of numbers.
        """
        if gpu_ids.strip() == "-1":
            return cls.make(processes)
        if gpu_ids:
            return cls.make(processes, gpu_numbers(gpu_ids))
        return cls.make(processes, range(gpus_there()) if processes == 1 else ())

    def in_words(self) -> str:
        """Return one line that tells where names are encoded."""
        gpus = [device.partition(":")[2] for device in self.devices if device.startswith("cuda")]
        if gpus:
            return f"Names are encoded on GPU {', '.join(gpus)} (--gpu-ids -1: on the CPU)."
        return f"Names are encoded on the CPU, in {len(self.devices)} process{'es' if len(self.devices) > 1 else ''}."


@contextmanager
def name_vectors(
    kb: KnowledgeBase,
    out: Path,
    encode: Encode,
    *,
    encoder: str,
    dim: int,
    dtype: npt.DTypeLike = np.float32,
    known: Known | None = None,
    progress: bool = False,
) -> Iterator[npt.NDArray[Any]]:
    """Encode the distinct names of a knowledge base. This is a context manager.

    Args:
        kb: The knowledge base, with n distinct names.
        out: The folder that is built from the vectors; their file is beside it.
        encode: Function that encodes shards, see `here` and `in_processes`.
        encoder: Fingerprint of the encoder; "" if it has none. Then an earlier build is not resumed.
        dim: Width of a vector.
        dtype: Precision of the file.
        known: Vectors that need not be encoded.
        progress: Show a progress bar.

    Yields:
        The vectors (n, dim), memory-mapped from a file. The file is removed when the block ends without an error.

    Warns:
        W007 for shards that were damaged after they were written, W008 for shards of a different build.

    Raises:
        SapbertError: E026, another build of `out` is encoding; E027, a process died; E029, the disk is full; E204, the encoder's result is wrong.
    """
    folder = folder_of(out)
    lock = _hold(folder, out)
    ended = False
    try:
        file = _File(folder, kb.n_surface_forms, dim, np.dtype(dtype))
        plan = {"kb": kb.fingerprint, "encoder": encoder, "names": kb.n_surface_forms, "dim": dim, "dtype": str(np.dtype(dtype)), "shard": SHARD}
        try:
            file.begin(plan)
            _fill(kb, file, encode, known, progress)
        except OSError as error:
            if is_disk_full(error):
                raise fail("E029", path=folder, error=error) from error
            raise
        yield np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        ended = True
    finally:
        nothing = not (folder / DONE).is_file() or not (folder / DONE).stat().st_size
        if ended or nothing or not encoder:
            _remove(folder, lock)
        lock.release()


def folder_of(out: Path) -> Path:
    """Return the folder of the vectors while `out` is built."""
    return out.with_name(out.name + SUFFIX)


def clear_finished(out: Path) -> None:
    """Remove the vectors of a folder that is finished, which a build left if it was killed just after it."""
    folder = folder_of(out)
    if folder.is_dir():
        with suppress(SapbertError, OSError):  # a build holds them, or they belong to another user
            _remove(folder, _hold(folder, out))


def bytes_begun(out: Path) -> int:
    """Return the bytes of vectors on disk that a stopped build of `out` left; 0 if there are none."""
    path = folder_of(out) / VECTORS
    return path.stat().st_blocks * 512 if path.is_file() else 0


def check_free(out: Path) -> None:
    """Refuse to build a folder that another process is building.

    Raises:
        SapbertError: E026, another build of `out` is encoding.
    """
    if folder_of(out).is_dir():
        _hold(folder_of(out), out).release()


def _hold(folder: Path, out: Path) -> FileLock:
    """Lock the folder of the vectors.

    Raises:
        SapbertError: E026, another build holds the lock.
    """
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.[0-9]*.tmp"):  # a process was killed while it removed its vectors
        shutil.rmtree(left, ignore_errors=True)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise fail("E026", path=folder, out=out) from error
        except FileNotFoundError:  # the build that held it has just removed the folder
            continue
        if (folder / LOCK).exists():
            return lock
        lock.release()


def _remove(folder: Path, lock: FileLock) -> None:
    """Remove the folder of the vectors, and release its lock."""
    gone = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        os.replace(folder, gone)  # while the lock is held, so that a build that waits for it does not lose what it writes
    finally:
        lock.release()
    shutil.rmtree(gone, ignore_errors=True)


def _fill(kb: KnowledgeBase, file: _File, encode: Encode, known: Known | None, progress: bool) -> None:
    """Encode and write the shards that are missing."""
    n = kb.n_surface_forms
    done = file.done()
    spans = {number: (start, min(start + SHARD, n)) for number, start in enumerate(range(0, n, SHARD))}
    fresh: dict[int, npt.NDArray[np.bool_]] = {}  # shard that is being encoded -> which of its names are new

    def shards() -> Iterator[Shard]:
        for number, (start, stop) in spans.items():
            if number not in done:
                names = list(islice(kb.surface_forms(start), stop - start))
                fresh[number] = np.ones(len(names), dtype=np.bool_) if known is None else known.rows[start:stop] < 0
                yield number, [name for name, new in zip(names, fresh[number].tolist()) if new]

    before = sum(stop - start for number, (start, stop) in spans.items() if number in done)
    if known is not None:
        before += sum(int((known.rows[start:stop] >= 0).sum()) for number, (start, stop) in spans.items() if number not in done)
    bar = tqdm(total=n, initial=before, desc="encoding names", unit=" names", mininterval=1.0, disable=not progress or n - before < _SHOW_FROM)
    with bar:
        for number, encoded in encode(shards(), bar.update):
            start, stop = spans[number]
            new = fresh.pop(number)
            vectors = np.empty((stop - start, file.dim), dtype=np.float32)
            if encoded.shape != (int(new.sum()), file.dim):
                raise fail("E204", dim=file.dim, got=f"shape {encoded.shape} for {int(new.sum())} names")
            if wrong := int((~np.isfinite(encoded).all(axis=1)).sum()):
                raise fail("E204", dim=file.dim, got=f"{wrong} rows with NaN or infinite values")
            vectors[new] = encoded
            if known is not None and not new.all():
                vectors[~new] = known.read(known.rows[start:stop][~new])
            file.write(number, start, vectors)


class _File:
    """The folder of a build: its plan, the vectors, and the list of complete shards."""

    def __init__(self, folder: Path, rows: int, dim: int, dtype: np.dtype[Any]) -> None:
        self.folder, self.rows, self.dim, self.dtype = folder, rows, dim, dtype
        self.offset = 0  # bytes before the first row in the file

    def begin(self, plan: dict[str, Any]) -> None:
        """Resume a build with the same plan, or begin a new one. Warns W007, W008."""
        path = self.folder / VECTORS
        if plan["encoder"] and self._same(plan) and self._look():
            return
        for name in (PLAN, DONE, VECTORS):
            (self.folder / name).unlink(missing_ok=True)
        made: np.memmap[Any, Any] = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
            path, mode="w+", dtype=self.dtype, shape=(self.rows, self.dim)
        )
        self.offset = int(made.offset)
        del made
        reserve(path)
        write_text(self.folder / PLAN, json.dumps(plan, indent=1) + "\n")

    def _same(self, plan: dict[str, Any]) -> bool:
        """Return whether the earlier build had the same plan. Warns W008."""
        path = self.folder / PLAN
        if not path.is_file():
            return False
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            different = [f"{key}: {before.get(key)}, not {value}" for key, value in plan.items() if before.get(key) != value]
        except (ValueError, AttributeError):
            different = [f"{PLAN} is damaged"]
        if different and (self.folder / DONE).is_file():
            warn("W008", path=self.folder, differences="; ".join(different))
        return not different

    def _look(self) -> bool:
        """Return whether the file of vectors has the right shape and size, and set `offset`. Warns W007."""
        path = self.folder / VECTORS
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
            self.offset = int(found.offset)
            shaped = bool(found.shape == (self.rows, self.dim) and found.dtype == self.dtype)
            fits = shaped and path.stat().st_size == self.offset + found.nbytes
        except (OSError, ValueError, EOFError, AttributeError):
            fits = False
        if not fits:
            warn("W007", what=VECTORS, path=self.folder)
        return bool(fits)

    def write(self, number: int, start: int, vectors: Floats2d) -> None:
        """Write a shard's rows, and then its line in done.jsonl. So a shard with a line is complete."""
        data = vectors.astype(self.dtype).tobytes()
        with open(self.folder / VECTORS, "r+b") as file:
            file.seek(self.offset + start * self.dim * self.dtype.itemsize)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with open(self.folder / DONE, "a", encoding="utf-8") as lines:
            lines.write(json.dumps({"shard": number, "blake2b": _digest(number, data)}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def done(self) -> list[int]:
        """Return the numbers of the complete shards. Warns W007 if some are damaged."""
        whole: dict[int, str] = {}
        damaged = set()
        path = self.folder / DONE
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        width = self.dim * self.dtype.itemsize
        with open(self.folder / VECTORS, "rb") as file:
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    number, digest = int(entry["shard"]), entry["blake2b"]
                except (ValueError, TypeError, KeyError):  # the process was killed while it wrote the line
                    continue
                if not 0 <= number * SHARD < self.rows:
                    continue
                file.seek(self.offset + number * SHARD * width)
                if _digest(number, file.read(min(SHARD, self.rows - number * SHARD) * width)) == digest:
                    whole[number] = line
                else:
                    damaged.add(number)
        if damaged := damaged - set(whole):
            which = f"{len(damaged)} shards (numbers {', '.join(map(str, sorted(damaged)[:5]))})"
            warn("W007", what=which, path=self.folder)
        write_text(path, "".join(line + "\n" for line in whole.values()))
        return sorted(whole)


def _digest(number: int, data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16, salt=str(number).encode()).hexdigest()


# -- encoding -----------------------------------------------------------------------------------------------------------


def here(encoder: Encoder) -> Encode:
    """Return the function that encodes in this process."""

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        for number, names in shards:
            yield number, encoder.encode(names, progress=tick)

    return encode


def in_processes(load: Callable[[str], Encoder], workers: Workers) -> Encode:
    """Return the function that encodes in worker processes, one for each device. It keeps complete shards when it fails.

    Args:
        load: Returns the encoder for a device, in a worker process; it must be picklable.
        workers: The devices.

    Raises:
        SapbertError: E027, a process died; or what the encoder raises.
    """

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        context = multiprocessing.get_context("spawn")  # neither CUDA nor a thread pool survives a fork
        pools: list[ProcessPoolExecutor] = []  # with one process each, so that each gets its device before it starts
        waiting: dict[Future[Floats2d], tuple[ProcessPoolExecutor, Shard]] = {}

        def submit(pool: ProcessPoolExecutor) -> None:
            for shard in islice(shards, 1):
                waiting[pool.submit(_encode, shard[1])] = pool, shard

        try:
            for device in workers.devices:
                gpu = device.partition(":")[2]
                pools.append(ProcessPoolExecutor(1, context, _load, (load, "cuda:0" if gpu else device)))
                with only(int(gpu)) if gpu else nullcontext():
                    submit(pools[-1])  # starts the process
            for pool in pools:
                submit(pool)  # each process has two shards at a time, so that not all names are in memory
            while waiting:
                done = wait(waiting, return_when=FIRST_COMPLETED).done
                for ready in sorted(done, key=lambda future: future.exception() is not None):  # results are handed on before an error is raised
                    pool, (number, names) = waiting.pop(ready)
                    vectors = ready.result()
                    tick(len(names))
                    yield number, vectors
                    submit(pool)
        except (KeyboardInterrupt, GeneratorExit):  # the workers ignore Ctrl-C, and would first encode all that they have
            for pool in pools:
                for process in list(pool._processes.values()):
                    process.terminate()
            raise
        except BrokenProcessPool as error:
            raise fail("E027", count=len(workers.devices), error=error) from error
        finally:
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)

    return encode


_ENCODER: Encoder | Exception | None = None  # a worker process's encoder, or the error that loading it raised


def _load(load: Callable[[str], Encoder], device: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent process, which then stops the workers
    global _ENCODER
    try:
        _ENCODER = load(device)
    except Exception as error:  # it is raised with the first shard; raised here, it would only look like a process that died
        _ENCODER = error


def _encode(names: list[str]) -> Floats2d:
    if isinstance(_ENCODER, Exception):
        raise _ENCODER
    assert _ENCODER is not None
    return _ENCODER.encode(names)
