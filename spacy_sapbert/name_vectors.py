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
import warnings
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

from .errors import Errors, fail
from .files import is_disk_full, reserve, write_text
from .kb import KnowledgeBase
from .types import Floats2d, Ints1d

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
    WARNS: W007 for a shard that was damaged since.
    RAISES: SapbertError E008 (disk full), E026 (another build of `out` is encoding), E027 (a process died).
    """
    folder = out.with_name(out.name + SUFFIX)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise fail("E026", path=folder, out=out) from error
    ended = False
    try:
        file = _File(folder, kb.n_strings, dim, np.dtype(dtype))
        file.begin({"kb": kb.fingerprint, "encoder": encoder, "names": kb.n_strings, "dim": dim, "dtype": str(np.dtype(dtype)), "shard": SHARD})
        _fill(kb, file, encode, known, progress)
        yield np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        ended = True
    except OSError as error:
        if is_disk_full(error):
            raise fail("E008", path=folder, error=error, env="SPACY_SAPBERT_CACHE") from error
        raise
    finally:
        nothing = not (folder / DONE).is_file() or not (folder / DONE).stat().st_size
        lock.release()
        if ended or nothing or not encoder:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(kb: KnowledgeBase, file: _File, encode: Encode, known: Optional[Known], progress: bool) -> None:
    """Encode and write the shards that are missing."""
    n = kb.n_strings
    done = file.done()
    spans = {number: (start, min(start + SHARD, n)) for number, start in enumerate(range(0, n, SHARD))}
    fresh: Dict[int, npt.NDArray[np.bool_]] = {}  # of the shards that are being encoded: which of their names are

    def shards() -> Iterator[Shard]:
        for number, (start, stop) in spans.items():
            if number not in done:
                names = list(islice(kb.strings(start), stop - start))
                fresh[number] = np.ones(len(names), dtype=np.bool_) if known is None else known.rows[start:stop] < 0
                yield number, [name for name, new in zip(names, fresh[number].tolist()) if new]

    before = sum(spans[number][1] - spans[number][0] for number in done)
    if known is not None:
        before += sum(int((known.rows[start:stop] >= 0).sum()) for number, (start, stop) in spans.items() if number not in done)
    bar = tqdm(total=n, initial=before, desc="encoding names", unit=" names", mininterval=1.0, disable=not progress or n - before < _SHOW_FROM)
    with bar:
        for number, encoded in encode(shards(), bar.update):
            start, stop = spans[number]
            new = fresh.pop(number)
            vectors = np.empty((stop - start, file.dim), dtype=np.float32)
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
        """Go on with what is there, if it was begun by this plan; else begin."""
        path = self.folder / VECTORS
        try:
            same = bool(plan["encoder"]) and json.loads((self.folder / PLAN).read_text(encoding="utf-8")) == plan
        except (OSError, ValueError):
            same = False
        if not same or not path.is_file():
            for name in (PLAN, DONE, VECTORS):
                (self.folder / name).unlink(missing_ok=True)
            made = np.lib.format.open_memmap(path, mode="w+", dtype=self.dtype, shape=(self.rows, self.dim))
            del made
            reserve(path)
            write_text(self.folder / PLAN, json.dumps(plan, indent=1) + "\n")
        self.offset = path.stat().st_size - self.rows * self.dim * self.dtype.itemsize

    def write(self, number: int, start: int, vectors: Floats2d) -> None:
        """A shard's rows, then its line: what has a line is whole."""
        data = vectors.astype(self.dtype).tobytes()
        with open(self.folder / VECTORS, "r+b") as file:
            file.seek(self.offset + start * self.dim * self.dtype.itemsize)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with open(self.folder / DONE, "a", encoding="utf-8") as lines:
            lines.write(json.dumps({"shard": number, "start": start, "rows": len(vectors), "blake2b": _digest(data)}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def done(self) -> List[int]:
        """The shards that are whole. WARNS: W007."""
        whole, damaged = {}, []
        path = self.folder / DONE
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        width = self.dim * self.dtype.itemsize
        with open(self.folder / VECTORS, "rb") as file:
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # the process was killed while it wrote the line
                    continue
                file.seek(self.offset + entry["start"] * width)
                if _digest(file.read(entry["rows"] * width)) == entry["blake2b"]:
                    whole[entry["shard"]] = line
                else:
                    damaged.append(entry["shard"])
        if damaged := sorted(set(damaged) - set(whole)):
            warnings.warn(f"[W007] {Errors.W007.format(count=len(damaged), path=self.folder, which=', '.join(map(str, damaged[:5])))}", stacklevel=6)
        write_text(path, "".join(line + "\n" for line in whole.values()))
        return sorted(whole)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# -- who encodes --------------------------------------------------------------------------------------------------------


def here(model: Any) -> Encode:
    """In this process."""

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        for number, names in shards:
            yield number, encode_names(model, names, tick)

    return encode


def encode_names(model: Any, names: List[str], progress: Union[bool, Tick] = False) -> Floats2d:
    """Names -> (n, d), by the model's own `encode` where it has one. progress: a bar of its own, or who is told of the names that are done."""
    if "encode" in model.attrs:
        return np.asarray(model.attrs["encode"](model, names, progress))
    vectors = np.asarray(model.predict(names), dtype=np.float32)
    if callable(progress):
        progress(len(names))
    return vectors


def in_processes(load: Callable[[], Any], workers: Workers) -> Encode:
    """In processes of their own, one a device, each with the encoder that `load` gives; it must be picklable.

    RAISES: SapbertError E027 where a process died; shards that are done are kept.
    """

    def encode(shards: Iterator[Shard], tick: Tick) -> Iterator[Ready]:
        context = multiprocessing.get_context("spawn")  # neither CUDA nor a thread pool lives through a fork
        devices = context.SimpleQueue()
        for device in workers.devices:
            devices.put(device)
        count = len(workers.devices)
        waiting: Dict[Future[Floats2d], Shard] = {}
        try:
            with ProcessPoolExecutor(count, context, _load, (load, devices)) as pool:
                for shard in islice(shards, 2 * count):  # two each: names of millions are not held
                    waiting[pool.submit(_encode, shard[1])] = shard
                while waiting:
                    for ready in wait(waiting, return_when=FIRST_COMPLETED).done:
                        number, names = waiting.pop(ready)
                        vectors = ready.result()
                        tick(len(names))
                        yield number, vectors
                        for shard in islice(shards, 1):
                            waiting[pool.submit(_encode, shard[1])] = shard
        except BrokenProcessPool as error:
            raise fail("E027", count=count, error=error) from error

    return encode


_MODEL: Any = None  # of a worker process


def _load(load: Callable[[], Any], devices: Any) -> None:
    global _MODEL
    device = devices.get()
    if device.startswith("cuda"):
        from thinc.api import require_gpu

        require_gpu(int(device.partition(":")[2]))
    _MODEL = load()


def _encode(names: List[str]) -> Floats2d:
    return encode_names(_MODEL, names)
