"""The static encoder: a name's vector is a sum of table rows, L2-normalised. It is fast on a CPU, and a little less accurate.

Two kinds of folder are read: ours (words and hashed character n-grams; training/loop/static.py makes it) and model2vec's (tokenizer.json;
van Dongen and Tulkens 2024). From top to bottom: the class, its table in Thinc, the two kinds, names and folders.
"""

import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Optional, Union, cast
from weakref import WeakValueDictionary

import numpy as np
import srsly
import torch
from safetensors.torch import load as load_safetensors
from thinc.api import Model, Shim

from ..errors import MissingFile, SapbertError, fail
from ..files import parse_json
from ..types import Floats2d
from .base import Progress
from .common import SETTINGS, Kept, progress_bar, read_settings, settle_in_worker
from .hub import folder_or_name

# confection reads the annotations of an architecture at run time: no `from __future__ import annotations` in this module

ARCHITECTURE = "spacy-sapbert.StaticEncoder.v1"
FAST_ENCODER = "data/static_encoder"  # the encoder that comes with this package; see the model card there
CONFIG, TABLE, WORDS, TOKENIZER = "config.json", "model.safetensors", "words.txt", "tokenizer.json"
FILES = (CONFIG, TABLE, WORDS)  # files of our kind of folder
KIND, MODEL2VEC = "spacy-sapbert-static", "model2vec"  # `model_type` of the two kinds
SLAB = 20_000  # names that are encoded at once
LONGEST = 100  # letters of an n-gram
LARGEST = 1e15  # limit for a table's values, so that their sums and squares are finite
_WORD = re.compile(r"[^\W_]+")
Bags = tuple[list[int], list[int]]  # rows of all names, one after another; where each name begins


class StaticEncoder(Model[list[str], Floats2d]):
    """Architecture `spacy-sapbert.StaticEncoder.v1`: n names -> float32 (n, d), L2-normalised; `encoder = "fast"` picks it.

    It is an `Encoder`, and a Thinc model. A name without a known part (no letter and no digit) gets a vector of zeros. Its cosine with
    every name is 0, below any threshold. Nothing is read before `initialize`.

    Args:
        name: "" for the encoder that comes with this package; otherwise a model2vec folder or hub name (minishlab/potion-base-8M), or a
            folder of `training.loop.static`.
        max_length: Number of words or tokens of a name that are read; the others are ignored.

    Raises:
        SapbertError: E002, max_length is below 1. `initialize` raises E301 (it can't be loaded), `encode` E302 (not initialised).
    """

    architecture = ARCHITECTURE
    least_word_score = 0.95  # see `CarefulWithWords`: the vector of an unknown word depends on its letters, not on its meaning
    max_length = Kept[int]()
    fingerprint = Kept[str]()

    def __init__(self, name: str = "", max_length: int = 128) -> None:
        if max_length < 1:
            raise fail("E002", setting="max_length", component="StaticEncoder", value=max_length, why="it must be at least 1.")
        super().__init__(name, forward, dims={"nO": None}, shims=[TableShim(None)], attrs={"max_length": max_length, "fingerprint": ""})

    @property
    def dim(self) -> int:
        """Width of a vector; 0 before the table is read."""
        return self.get_dim("nO") if self.has_dim("nO") else 0

    @property
    def shim(self) -> "TableShim":
        """The table, and the rules that split names into parts."""
        return cast(TableShim, self.shims[0])

    def initialize(self, X: Any = None, Y: Any = None) -> "StaticEncoder":
        """Read the table. Only this and `load` use disk or network."""
        if self.shim.parts is None:
            self._read(self.name or fast_encoder())
        return self

    def encode(self, names: Sequence[str], *, progress: Progress = False) -> Floats2d:
        """Turn names into vectors; see `Encoder.encode`.

        Raises:
            SapbertError: E302 before `initialize`.
        """
        parts, table = self.shim.parts, self.shim.table
        if parts is None:
            raise fail("E302")
        settle_in_worker()
        vectors = np.zeros((len(names), table.shape[1]), dtype=np.float32)
        show = progress_bar(len(names), progress)
        tick = progress if callable(progress) else show.update
        with torch.inference_mode(), show:
            for start in range(0, len(names), SLAB):
                slab = names[start : start + SLAB]
                sums = parts.sums(slab, self.max_length, table)
                vectors[start : start + SLAB] = torch.nn.functional.normalize(sums, dim=1).numpy()
                tick(len(slab))
        return vectors

    def to(self, device: str) -> None:
        """Do nothing: the sums of table rows are always computed on the CPU."""

    def weight_bytes(self) -> int:
        """Return the bytes of the table."""
        return self.shim.table.numel() * self.shim.table.element_size()

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the constructor."""
        return {"name": self.name, "max_length": self.max_length}

    def save(self, folder: Path) -> None:
        """Write the files as they were read, and our settings file. A model2vec folder is still one afterwards.

        Raises:
            SapbertError: E302 before `initialize`.
        """
        if self.shim.parts is None:
            raise fail("E302")
        for file, content in self.shim.files.items():
            (folder / file).write_bytes(content)
        settings = {"architecture": ARCHITECTURE, "name": self.name, "max_length": self.max_length, "fingerprint": self.fingerprint}
        (folder / SETTINGS).write_text(json.dumps({**settings, "dim": self.dim}, indent=1) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. max_length is read from the folder, because the index was built with it.

        Raises:
            SapbertError: E301, it can't be loaded.
        """
        settings = read_settings(folder, {"name": str, "max_length": int, "fingerprint": str})
        if settings.get("architecture") != ARCHITECTURE:
            raise fail("E301", MissingFile, name=folder, why="it holds a transformer, not a static encoder.")
        self._read(str(folder))
        self.name, self.max_length, self.fingerprint = settings["name"], settings["max_length"], settings["fingerprint"]

    def _read(self, name: str) -> None:
        """Read the table of a folder or hub name."""
        if not name.strip() or (Path(name).exists() and not Path(name).is_dir()):
            raise fail("E301", MissingFile, name=name, why="it is not a folder.")
        settle_in_worker()  # making the table also uses threads, and a forked process would wait for those of its parent
        try:
            self.shim.fill(_read_files(name))
        except SapbertError:
            raise
        except Exception as error:  # json, safetensors, tokenizers and the hub each raise their own errors
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise fail("E301", MissingFile, name=name, why=why + ("" if why.endswith(".") else ".")) from error
        self.set_dim("nO", self.shim.table.shape[1], force=True)  # the folder may hold another model than the one before
        self.fingerprint = _fingerprint(self)

    def _copy(self, seen: Optional[dict[int, Any]] = None) -> "StaticEncoder":  # Thinc's own method makes a plain Model
        copied = type(self)(**self.get_config())
        copied.from_bytes(self.to_bytes())
        return copied


def forward(model: StaticEncoder, names: list[str], is_train: bool) -> tuple[Floats2d, Callable[[Floats2d], list[str]]]:
    """Turn n names into (n, d). There is no gradient: training/loop/static.py trains the table, not Thinc."""
    return model.encode(names), lambda d_vectors: []


# -- the table in Thinc -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Content:
    """The files of a folder, and what is made from them, see `TableShim`."""

    files: dict[str, bytes]
    parts: Optional[Union["WordParts", "TokenParts"]]
    table: torch.Tensor


class TableShim(Shim):
    """The files of a folder as they were read, which `to_bytes` returns, and the table and parts that are made from them.

    Encoders with the same files share these: a pipeline has the encoder of this package in its linker and in its recogniser, at 50 MB each.
    """

    _known: ClassVar[WeakValueDictionary[str, _Content]] = WeakValueDictionary()  # hash of the files -> content that an encoder of this process uses

    def __init__(self, model: Any, config: Any = None, optimizer: Any = None) -> None:
        super().__init__(model, config, optimizer)
        self._content = _Content({}, None, torch.zeros((0, 0)))

    @property
    def files(self) -> dict[str, bytes]:
        """File name -> content."""
        return self._content.files

    @property
    def parts(self) -> Optional[Union["WordParts", "TokenParts"]]:
        """The rules that split names into parts; None before the files are read."""
        return self._content.parts

    @property
    def table(self) -> torch.Tensor:
        """The table (rows, d)."""
        return self._content.table

    def fill(self, files: dict[str, bytes]) -> None:
        """Use the files of a folder. What an encoder of this process has made from the same files is not made again.

        Args:
            files: File name -> content.

        Raises:
            ValueError, KeyError and others: The files are damaged or do not belong together.
        """
        key = _hash_of(files)
        content = self._known.get(key) or self._made(files)
        if isinstance(content.parts, WordParts):  # a tokenizer keeps a state
            self._known[key] = content
        self._content = content

    @staticmethod
    def _made(files: dict[str, bytes]) -> _Content:
        """Make table and parts.

        Args:
            files: File name -> content.

        Raises:
            ValueError, KeyError and others: The files are damaged or do not belong together.
        """
        config = parse_json(files[CONFIG])
        tensors = load_safetensors(files[TABLE])
        key = next((key for key in ("embeddings", "embedding.weight") if key in tensors), None)  # the second: sentence-transformers' name
        if key is None:
            raise ValueError("it holds no table: it is not a static encoder")
        table = tensors[key].float()  # (rows, d)
        if "scales" in tensors:
            table = table * tensors["scales"].float()[:, None]
        parts = WordParts(config, files[WORDS]) if config.get("model_type") == KIND else TokenParts(files[TOKENIZER], tensors)
        if table.ndim != 2 or not table.numel() or not bool((table.abs() < LARGEST).all()):
            raise ValueError(f"its table has the shape {tuple(table.shape)}, or holds NaN")
        if parts.rows_needed > len(table) or parts.rows_least < 0:
            raise ValueError(f"its table has {len(table):,} rows, but {parts.rows_needed:,} are needed")
        return _Content(files, parts, table)

    def to_bytes(self) -> bytes:
        """Return the files as msgpack."""
        return bytes(srsly.msgpack_dumps(self.files))

    def from_bytes(self, bytes_data: bytes) -> "TableShim":
        """Use the files that `to_bytes` returned."""
        files = srsly.msgpack_loads(bytes_data)
        settle_in_worker()
        if files:
            self.fill(files)
        return self


# -- the two kinds -----------------------------------------------------------------------------------------------------


def add_up(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """Add up bags of table rows.

    Args:
        table: (rows, d).
        bags: n bags of row numbers.

    Returns:
        The sums (n, d); zeros for an empty bag. The last bits of a sum depend on the order within its bag, but not on other bags.
    """
    rows, starts = (torch.tensor(part, dtype=torch.int64, device="cpu") for part in bags)
    return torch.nn.functional.embedding_bag(rows, table, starts, mode="sum")


class WordParts:
    """Our kind of table. A name is the sum of its words. A word is the sum of its own row, if it has one, and of the rows of its character n-grams.

    The n-grams are hashed into `buckets` rows.

    Source:
        fastText: Bojanowski et al., TACL 2017.
    """

    def __init__(self, config: dict[str, Any], words: bytes) -> None:
        self.rows = {word: row for row, word in enumerate(words.decode("utf-8").split("\n")) if word}
        self.shortest, self.longest, self.buckets = int(config["shortest"]), int(config["longest"]), int(config["buckets"])
        if not 1 <= self.shortest <= self.longest <= LONGEST or self.buckets < 1:
            raise ValueError("its config does not describe n-grams correctly")
        self.rows_needed, self.rows_least = max(len(self.rows) + self.buckets, max(self.rows.values(), default=-1) + 1), 0

    def sums(self, names: Iterable[str], most: int, table: torch.Tensor) -> torch.Tensor:
        """Return the sums (n, d) of n names. Each distinct word is added up once."""
        known: dict[str, int] = {}
        places: list[int] = []
        starts: list[int] = []
        for name in names:
            starts.append(len(places))
            places.extend([known.setdefault(word, len(known)) for word in split(name)[:most]])
        return add_up(add_up(table, self.of_words(known)), (places, starts))

    def of_words(self, words: Iterable[str]) -> Bags:
        """Return the rows of each word and of its n-grams."""
        rows: list[int] = []
        starts: list[int] = []
        first, buckets, crc = len(self.rows), self.buckets, zlib.crc32
        for word in words:
            starts.append(len(rows))
            if (own := self.rows.get(word)) is not None:
                rows.append(own)
            marked = f"<{word}>"
            for n in range(self.shortest, self.longest + 1):
                places = range(len(marked) - n + 1)
                if marked.isascii():  # the same numbers, in half the time
                    letters = marked.encode()
                    rows.extend([first + crc(letters[i : i + n]) % buckets for i in places])
                else:
                    rows.extend([first + crc(marked[i : i + n].encode("utf-8", "surrogatepass")) % buckets for i in places])
        return rows, starts


def split(name: str) -> list[str]:
    """Return the words of a name: letters and digits, lower-cased, without accents."""
    text = name.lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _WORD.findall(text)


class TokenParts:
    """model2vec's kind of table. A name is the sum of its tokens by a fast tokenizer; each token has a row, and may have a weight.

    If there is a `mapping`, it gives the row of each token. model2vec uses the mean, but after normalising it equals the sum.
    """

    def __init__(self, tokenizer: bytes, tensors: dict[str, torch.Tensor]) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_str(tokenizer.decode("utf-8"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        model = parse_json(tokenizer)["model"]
        unknown = model.get("unk_token")
        if unknown is None and model.get("unk_id") is not None:  # unigram
            unknown = model["vocab"][model["unk_id"]][0]
        self.unknown = None if unknown is None else self.tokenizer.token_to_id(unknown)
        self.mapping = tensors["mapping"].long() if "mapping" in tensors else None
        self.weights = tensors["weights"].float() if "weights" in tensors else None
        tokens = self.tokenizer.get_vocab_size()
        for part in (self.mapping, self.weights):
            if part is not None and len(part) < tokens:
                raise ValueError(f"only {len(part):,} of {tokens:,} tokens have a row")
        self.rows_needed = tokens if self.mapping is None else int(self.mapping.max()) + 1
        self.rows_least = 0 if self.mapping is None else int(self.mapping.min())

    def sums(self, names: Iterable[str], most: int, table: torch.Tensor) -> torch.Tensor:
        """Return the sums (n, d) of n names."""
        tokens: list[int] = []
        starts: list[int] = []
        batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)  # without offsets; tokenizers before 0.20 lack it
        for encoding in batch([name.encode("utf-8", "replace").decode() for name in names], add_special_tokens=False):
            starts.append(len(tokens))
            tokens.extend([token for token in encoding.ids if token != self.unknown][:most])
        ids = torch.tensor(tokens, dtype=torch.int64, device="cpu")
        rows = ids if self.mapping is None else self.mapping[ids]
        weights = None if self.weights is None else self.weights[ids]
        starts_of_names = torch.tensor(starts, dtype=torch.int64, device="cpu")
        return torch.nn.functional.embedding_bag(rows, table, starts_of_names, mode="sum", per_sample_weights=weights)


# -- names and folders --------------------------------------------------------------------------------------------------


def fast_encoder() -> str:
    """Return the folder of the static encoder that comes with this package."""
    return str(Path(__file__).parents[1] / FAST_ENCODER)


def is_static(name: str) -> bool:
    """Return whether a folder or hub name is that of a static encoder: ours, or model2vec's."""
    try:
        kind = parse_json(_find_file(folder_or_name(name), CONFIG).read_bytes()).get("model_type")
    except Exception:  # there is no such name or file; loading it raises the error
        return False
    return kind in (KIND, MODEL2VEC)


def _read_files(name: str) -> dict[str, bytes]:
    """Return the files of a folder or hub name."""
    name = folder_or_name(name)
    files = {CONFIG: _find_file(name, CONFIG).read_bytes()}
    words = WORDS if parse_json(files[CONFIG]).get("model_type") == KIND else TOKENIZER
    return {**files, **{file: _find_file(name, file).read_bytes() for file in (TABLE, words)}}


def _find_file(name: str, file: str) -> Path:
    """Return the path of a file of a folder or hub name."""
    if Path(name).is_dir():
        return Path(name) / file
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file))


def _fingerprint(model: StaticEncoder) -> str:
    """Hash everything that vectors depend on: the files and max_length. The hash is the same on every machine."""
    return _hash_of(model.shim.files, json.dumps(model.max_length))


def _hash_of(files: dict[str, bytes], more: str = "") -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(more.encode())
    for file, content in sorted(files.items()):
        digest.update(f"{file} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()
