"""The vectors of all names of a knowledge base, in one file: encoded in shards, by one process or several, and gone on with after a kill.

The file lies in a folder beside what is built, `OUT.vectors`. A shard that is whole has a line with its checksum in done.jsonl; the same build, begun
again, checks these and encodes the others. The folder is taken away when what is built is whole.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from tqdm import tqdm

from ..errors import fail, warn
from ..files import is_disk_full, reserve, write_text
from ..kb.knowledge_base import KnowledgeBase
from ..types import Floats2d, Ints1d

SHARD = 50_000  # names: under a minute of a CPU's work, 38 MB of float16
SUFFIX, VECTORS, PLAN, DONE, LOCK = ".vectors", "vectors.npy", "plan.json", "done.jsonl", "lock"
_SHOW_FROM = 1_000  # names; fewer take under 3 s

Shard = Tuple[int, List[str]]  # its number, names that are to be encoded
Ready = Tuple[int, Floats2d]
Tick = Callable[[int], object]  # told how many names more are done
Encode = Callable[[Iterator[Shard], Tick], Iterator[Ready]]  # shards in order -> their vectors, in any order


class Known(NamedTuple):
    """Vectors that are there already. rows (n,): for each name its row there, or -1. read: rows (r,) -> (r, d)."""

    rows: Ints1d
    read: Callable[[Ints1d], Floats2d]


@dataclass(frozen=True)
class Workers:
    """Who encodes. devices: one process each, "cpu" or "cuda:0"; one "" is this process, on the device that it is set to. On a CPU a process of
    several takes one core."""

    devices: Tuple[str, ...] = ("",)

    @classmethod
    def make(cls, processes: int = 1, gpu_ids: Sequence[int] = ()) -> Workers:
        """gpu_ids: a process for each; else `processes` on the CPU. RAISES: SapbertError E002, E305 (no such GPU)."""
        if processes < 1:
            raise fail("E002", setting="processes", component="index", value=processes, why="it must be at least 1.")
        if gpu_ids and processes > 1:
            why = "each of gpu_ids has a process of its own; leave processes out."
            raise fail("E002", setting="processes", component="index", value=processes, why=why)
        if gpu_ids:
            import torch

            there = torch.cuda.device_count() if torch.cuda.is_available() else 0
            for gpu in gpu_ids:
                if not 0 <= gpu < there:
                    raise fail("E305", gpu=gpu, count=there)
            return cls(tuple(f"cuda:{gpu}" for gpu in gpu_ids))
        return cls(("cpu",) * processes if processes > 1 else ("",))


@contextmanager
def name_vectors(
    kb: KnowledgeBase,
    out: Path,
    encode: Encode,
    *,
    encoder: str,
    dim: int,
    dtype: npt.DTypeLike = np.float32,
    known: Optional[Known] = None,
    progress: bool = False,
) -> Iterator[npt.NDArray[Any]]:
    """The vectors of kb's distinct names (n, dim), mapped from a file beside `out`, which is gone when the block has ended well.

    encode: see `here` and `in_processes`. encoder: the fingerprint of what encodes; "" where it has none, and then nothing is gone on with.
    known: vectors that need not be encoded.
    WARNS: W007 for what was damaged since, W008 for what was begun otherwise.
    RAISES: SapbertError E026 (another build of `out` is encoding), E027 (a process died), E029 (disk full), E204 (what an encoder gave).
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
            gone = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
            os.replace(folder, gone)  # while it is held: who waits for it must not lose what he writes
            lock.release()
            shutil.rmtree(gone, ignore_errors=True)
        lock.release()


def folder_of(out: Path) -> Path:
    """Where the vectors lie while `out` is built."""
    return out.with_name(out.name + SUFFIX)


def bytes_begun(out: Path) -> int:
    """What an earlier build of `out`, which was stopped, takes on the disk."""
    path = folder_of(out) / VECTORS
    return path.stat().st_blocks * 512 if path.is_file() else 0


def check_free(out: Path) -> None:
    """RAISES: SapbertError E026 where another build of `out` is encoding."""
    if folder_of(out).is_dir():
        _hold(folder_of(out), out).release()


def _hold(folder: Path, out: Path) -> FileLock:
    """RAISES: SapbertError E026."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise fail("E026", path=folder, out=out) from error
        except FileNotFoundError:  # taken away just now by the build that held it
            continue
        if (folder / LOCK).exists():
            return lock
        lock.release()


def _fill(kb: KnowledgeBase, file: _File, encode: Encode, known: Optional[Known], progress: bool) -> None:
    """Encode and write the shards that are missing."""
    n = kb.n_surface_forms
    done = file.done()
    spans = {number: (start, min(start + SHARD, n)) for number, start in enumerate(range(0, n, SHARD))}
    fresh: Dict[int, npt.NDArray[np.bool_]] = {}  # of the shards that are being encoded: which of their names are

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
    """The folder: a plan, the vectors, and the list of what is done."""

    def __init__(self, folder: Path, rows: int, dim: int, dtype: np.dtype[Any]) -> None:
        self.folder, self.rows, self.dim, self.dtype = folder, rows, dim, dtype
        self.offset = 0  # of the first row in the file

    def begin(self, plan: Dict[str, Any]) -> None:
        """Go on with what is there, if it was begun by this plan; else begin. WARNS: W007, W008."""
        path = self.folder / VECTORS
        if plan["encoder"] and self._same(plan) and self._look():
            return
        for name in (PLAN, DONE, VECTORS):
            (self.folder / name).unlink(missing_ok=True)
        made = np.lib.format.open_memmap(path, mode="w+", dtype=self.dtype, shape=(self.rows, self.dim))
        self.offset = int(made.offset)
        del made
        reserve(path)
        write_text(self.folder / PLAN, json.dumps(plan, indent=1) + "\n")

    def _same(self, plan: Dict[str, Any]) -> bool:
        """Whether the plan that is there is this one. WARNS: W008."""
        path = self.folder / PLAN
        if not path.is_file():
            return False
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            different = [f"{key}: {before.get(key)}, not {value}" for key, value in plan.items() if before.get(key) != value]
        except (ValueError, AttributeError):
            different = [f"{PLAN} is damaged"]
        if different and (self.folder / DONE).is_file():
            warn("W008", stacklevel=6, path=self.folder, differences="; ".join(different))
        return not different

    def _look(self) -> bool:
        """Whether the file of vectors is of this shape and whole; where its rows begin. WARNS: W007."""
        path = self.folder / VECTORS
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
            self.offset = int(found.offset)
            fits = found.shape == (self.rows, self.dim) and found.dtype == self.dtype
            fits = fits and path.stat().st_size == self.offset + found.nbytes
        except (OSError, ValueError, EOFError, AttributeError):
            fits = False
        if not fits:
            warn("W007", stacklevel=6, what=VECTORS, path=self.folder)
        return fits

    def write(self, number: int, start: int, vectors: Floats2d) -> None:
        """A shard's rows, then its line: what has a line is whole."""
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

    def done(self) -> List[int]:
        """The shards that are whole. WARNS: W007."""
        whole: Dict[int, str] = {}
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
            warn("W007", stacklevel=6, what=which, path=self.folder)
        write_text(path, "".join(line + "\n" for line in whole.values()))
        return sorted(whole)


def _digest(number: int, data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16, salt=str(number).encode()).hexdigest()


# -- who encodes --------------------------------------------------------------------------------------------------------


def here(model: Any) -> Encode:
    """In this process."""

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        for number, names in shards:
            yield number, encode_names(model, names, tick)

    return encode


def encode_names(model: Any, names: List[str], progress: Union[bool, Tick] = False) -> Floats2d:
    """Names -> (n, d), by the model's own `encode` where it has one. progress: a bar of its own, or who is told of the names that are done."""
    told = bool(model.attrs.get("tells_progress"))  # ours do, batch by batch; another one is asked for all, and then it is told
    if "encode" in model.attrs:
        vectors = np.asarray(model.attrs["encode"](model, names, progress if told or not callable(progress) else False))
    else:
        vectors = np.asarray(model.predict(names), dtype=np.float32)
    if callable(progress) and not told:
        progress(len(names))
    return vectors


def in_processes(load: Callable[[str], Any], workers: Workers) -> Encode:
    """In processes of their own, one a device, each with the encoder that `load` gives for it; `load` must be picklable.

    RAISES: SapbertError E027 where a process died, and what an encoder raises; shards that are done are kept.
    """

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        context = multiprocessing.get_context("spawn")  # neither CUDA nor a thread pool lives through a fork
        devices = context.SimpleQueue()
        for device in workers.devices:
            devices.put(device)
        count = len(workers.devices)
        waiting: Dict[Future[Floats2d], Shard] = {}
        pool = ProcessPoolExecutor(count, context, _load, (load, devices))
        try:
            for shard in islice(shards, 2 * count):  # two each: names of millions are not held
                waiting[pool.submit(_encode, shard[1])] = shard
            while waiting:
                done = wait(waiting, return_when=FIRST_COMPLETED).done
                for ready in sorted(done, key=lambda future: future.exception() is not None):  # what is good is kept before what failed is raised
                    number, names = waiting.pop(ready)
                    vectors = ready.result()
                    tick(len(names))
                    yield number, vectors
                    for shard in islice(shards, 1):
                        waiting[pool.submit(_encode, shard[1])] = shard
        except BrokenProcessPool as error:
            raise fail("E027", count=count, error=error) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    return encode


_MODEL: Any = None  # of a worker process, or why it has none


def _load(load: Callable[[str], Any], devices: Any) -> None:
    global _MODEL
    try:
        _MODEL = load(devices.get())
    except Exception as error:  # raised by the first shard: raised here, it would only be a process that died
        _MODEL = error


def _encode(names: List[str]) -> Floats2d:
    if isinstance(_MODEL, Exception):
        raise _MODEL
    return encode_names(_MODEL, names)
