"""Names to vectors without a transformer: a sum of table rows for each name, L2-normalised. Hundreds of times as fast on a CPU, at a small cost in accuracy.

Two kinds of folder: ours (words and hashed character n-grams; training/loop/static.py makes it) and model2vec's (tokenizer.json; van Dongen and
Tulkens 2024). Reads top to bottom: architecture, forward, the two kinds, initialisation, folders.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union, cast

import numpy as np
import srsly
import torch
from safetensors.torch import load as load_safetensors
from thinc.api import Model, Shim
from tqdm import tqdm

from ..errors import MissingFile, SapbertError, fail
from ..types import Floats2d
from .transformer import PROGRESS_FROM, SETTINGS, settle_in_worker

ARCHITECTURE = "spacy-sapbert.StaticEncoder.v1"
FAST_ENCODER = "data/static_encoder"  # what comes with this package; see the model card there
CONFIG, TABLE, WORDS, TOKENIZER = "config.json", "model.safetensors", "words.txt", "tokenizer.json"
FILES = (CONFIG, TABLE, WORDS)  # of a folder of ours
KIND, MODEL2VEC = "spacy-sapbert-static", "model2vec"  # `model_type` of the two kinds
SLAB = 20_000  # names at once
_WORD = re.compile(r"[^\W_]+")
Bags = Tuple[List[int], List[int]]  # rows of all names, one after another; where each name begins


def StaticEncoder(name: str = "", max_length: int = 128) -> Model[List[str], Floats2d]:
    """Architecture `spacy-sapbert.StaticEncoder.v1`: n names -> float32 (n, d), L2-normalised. What `encoder = "fast"` picks.

    A name of which no part is known (no letter and no digit) is a vector of zeros: its cosine with everything is 0, below any threshold.
    name (str): "" is the one that comes with this package; else a model2vec folder or hub name (minishlab/potion-base-8M), or a folder of
        `training.loop.static`. Nothing is read before `initialize()`.
    max_length (int): words or tokens read of a name; the others are passed over.
    RETURNS (Model[List[str], Floats2d]): attrs "encode" (progress bar), "to_folder", "from_folder", "fingerprint", as NameEncoder's.
    RAISES: SapbertError E002 (max_length), E301 (can't be loaded), E302 (used before initialize).
    """
    if max_length < 1:
        raise fail("E002", setting="max_length", component="StaticEncoder", value=max_length, why="it must be at least 1.")
    model: Model[List[str], Floats2d] = Model(
        "sapbert-static-encoder",
        forward,
        init=initialize,
        dims={"nO": None},
        shims=[TableShim(None)],
        attrs={
            "architecture": ARCHITECTURE,
            "name": name,
            "max_length": max_length,
            "fingerprint": "",
            "encode": encode,
            "tells_progress": True,
            "to_folder": to_folder,
            "from_folder": from_folder,
        },
    )
    return model


class TableShim(Shim):
    """What was read of a folder: its files as they are, which make the bytes, and what is computed with."""

    files: Dict[str, bytes]
    parts: Optional[Union[WordParts, TokenParts]]
    table: torch.Tensor

    def __init__(self, model: Any, config: Any = None, optimizer: Any = None) -> None:
        super().__init__(model, config, optimizer)
        self.files, self.parts, self.table = {}, None, torch.zeros((0, 0))

    def fill(self, files: Dict[str, bytes]) -> None:
        """RAISES: ValueError, KeyError … where the files are damaged or do not belong together."""
        config = json.loads(files[CONFIG])
        tensors = load_safetensors(files[TABLE])
        key = next((key for key in ("embeddings", "embedding.weight") if key in tensors), None)  # the second: sentence-transformers' name
        if key is None:
            raise ValueError("it holds no table: it is not a static encoder")
        table = tensors[key].float()  # (rows, d)
        if "scales" in tensors:
            table = table * tensors["scales"].float()[:, None]
        parts = WordParts(config, files[WORDS]) if config.get("model_type") == KIND else TokenParts(files[TOKENIZER], tensors)
        if table.ndim != 2 or not table.numel() or not bool(torch.isfinite(table).all()):
            raise ValueError(f"its table is {tuple(table.shape)}, or holds NaN")
        if parts.rows_needed > len(table):
            raise ValueError(f"its table has {len(table):,} rows, and {parts.rows_needed:,} are named")
        self.files, self.parts, self.table = files, parts, table

    def to_bytes(self) -> bytes:
        return bytes(srsly.msgpack_dumps(self.files))

    def from_bytes(self, bytes_data: bytes) -> TableShim:
        files = srsly.msgpack_loads(bytes_data)
        settle_in_worker()
        if files:
            self.fill(files)
        return self


# -- forward ------------------------------------------------------------------------------------------------------------


def forward(model: Model, names: List[str], is_train: bool) -> Tuple[Floats2d, Callable]:
    """n names -> (n, d). The table is trained by training/loop/static.py, not through Thinc: nothing flows back."""
    return encode(model, names), lambda d_vectors: []


def encode(model: Model, names: List[str], progress: Union[bool, Callable[[int], object]] = False) -> Floats2d:
    """Names -> L2-normalised float32 (n, d); zeros for a name of which nothing is known. progress: as of `NameEncoder`.

    RAISES: SapbertError E302 before initialize.
    """
    shim = _shim(model)
    if shim.parts is None:
        raise fail("E302")
    settle_in_worker()
    vectors = np.zeros((len(names), shim.table.shape[1]), dtype=np.float32)
    show = tqdm(total=len(names), desc="encoding names", unit="name", mininterval=1.0, disable=progress is not True or len(names) < PROGRESS_FROM)
    tick = progress if callable(progress) else show.update
    with torch.inference_mode(), show:
        for start in range(0, len(names), SLAB):
            slab = names[start : start + SLAB]
            sums = shim.parts.sums(slab, model.attrs["max_length"], shim.table)
            vectors[start : start + SLAB] = torch.nn.functional.normalize(sums, dim=1).numpy()
            tick(len(slab))
    return vectors


def add_up(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """table (rows, d), n bags of its rows -> their sums (n, d); zeros for an empty bag. A bag is summed in its own order, whatever stands beside it."""
    rows, starts = (torch.tensor(part, dtype=torch.int64, device="cpu") for part in bags)
    return torch.nn.functional.embedding_bag(rows, table, starts, mode="sum")


class WordParts:
    """Ours: a name is its words; a word is its own row, if it has one, and the rows of its character n-grams, which have none of their own but
    share `buckets` rows by hash (fastText: Bojanowski et al., TACL 2017)."""

    def __init__(self, config: Dict[str, Any], words: bytes) -> None:
        self.rows = {word: row for row, word in enumerate(words.decode("utf-8").split("\n")) if word}
        self.shortest, self.longest, self.buckets = int(config["shortest"]), int(config["longest"]), int(config["buckets"])
        if not 1 <= self.shortest <= self.longest or self.buckets < 1:
            raise ValueError("its n-grams are not described")
        self.rows_needed = len(self.rows) + self.buckets

    def sums(self, names: Iterable[str], most: int, table: torch.Tensor) -> torch.Tensor:
        """n names -> (n, d). Each distinct word is added up once."""
        known: Dict[str, int] = {}
        places: List[int] = []
        starts: List[int] = []
        for name in names:
            starts.append(len(places))
            places.extend([known.setdefault(word, len(known)) for word in split(name)[:most]])
        return add_up(add_up(table, self.of_words(known)), (places, starts))

    def of_words(self, words: Iterable[str]) -> Bags:
        rows: List[int] = []
        starts: List[int] = []
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


def split(name: str) -> List[str]:
    """The words of a name: letters and digits, lower-cased, without accents."""
    text = name.lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _WORD.findall(text)


class TokenParts:
    """model2vec's: a name is the tokens of a fast tokenizer, each with a row, by `mapping` where there is one, times a weight. A mean and a sum are
    the same once they are normalised."""

    def __init__(self, tokenizer: bytes, tensors: Dict[str, torch.Tensor]) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_str(tokenizer.decode("utf-8"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        model = json.loads(tokenizer)["model"]
        unknown = model.get("unk_token")
        if unknown is None and model.get("unk_id") is not None:  # unigram
            unknown = model["vocab"][model["unk_id"]][0]
        self.unknown = None if unknown is None else self.tokenizer.token_to_id(unknown)
        self.mapping = tensors["mapping"].long() if "mapping" in tensors else None
        self.weights = tensors["weights"].float() if "weights" in tensors else None
        tokens = self.tokenizer.get_vocab_size()
        for part in (self.mapping, self.weights):
            if part is not None and len(part) < tokens:
                raise ValueError(f"{len(part):,} of {tokens:,} tokens have a row")
        self.rows_needed = tokens if self.mapping is None else int(self.mapping.max()) + 1

    def sums(self, names: Iterable[str], most: int, table: torch.Tensor) -> torch.Tensor:
        """n names -> (n, d)."""
        tokens: List[int] = []
        starts: List[int] = []
        batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)  # without offsets; tokenizers before 0.20 lack it
        for encoding in batch([name.encode("utf-8", "replace").decode() for name in names], add_special_tokens=False):
            starts.append(len(tokens))
            tokens.extend([token for token in encoding.ids if token != self.unknown][:most])
        ids = torch.tensor(tokens, dtype=torch.int64, device="cpu")
        rows = ids if self.mapping is None else self.mapping[ids]
        weights = None if self.weights is None else self.weights[ids]
        starts_of_names = torch.tensor(starts, dtype=torch.int64, device="cpu")
        return torch.nn.functional.embedding_bag(rows, table, starts_of_names, mode="sum", per_sample_weights=weights)


# -- initialisation -----------------------------------------------------------------------------------------------------


def initialize(model: Model, X: Any = None, Y: Any = None) -> Model:
    """Read the table. The only place, with `from_folder`, that touches disk or network."""
    if _shim(model).parts is None:
        _load(model, model.attrs["name"] or fast_encoder())
    return model


def fast_encoder() -> str:
    """The folder of the static encoder that comes with this package."""
    return str(Path(__file__).parents[1] / FAST_ENCODER)


def is_static(name: str) -> bool:
    """Whether a folder or hub name is a static encoder's: ours, or model2vec's."""
    try:
        kind = json.loads(_find_file(name, CONFIG).read_bytes()).get("model_type")
    except Exception:  # no such name or file: whoever loads it says why
        return False
    return kind in (KIND, MODEL2VEC)


def _load(model: Model, name: str) -> None:
    if not name.strip() or (Path(name).exists() and not Path(name).is_dir()):
        raise fail("E301", MissingFile, name=name, why="it is not a folder.")
    settle_in_worker()  # making the table is work of several threads, too: in a forked process it would wait for those of its parent
    try:
        _shim(model).fill(_read(name))
    except SapbertError:
        raise
    except Exception as error:  # json, safetensors, tokenizers and the hub each have their own
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise fail("E301", MissingFile, name=name, why=why + ("" if why.endswith(".") else ".")) from error
    model.set_dim("nO", _shim(model).table.shape[1], force=True)  # a folder may hold another model than the one before
    model.attrs["fingerprint"] = _fingerprint(model)


def _read(name: str) -> Dict[str, bytes]:
    """The files of a folder or hub name. RAISES: OSError …"""
    files = {CONFIG: _find_file(name, CONFIG).read_bytes()}
    words = WORDS if json.loads(files[CONFIG]).get("model_type") == KIND else TOKENIZER
    return {**files, **{file: _find_file(name, file).read_bytes() for file in (TABLE, words)}}


def _find_file(name: str, file: str) -> Path:
    if Path(name).is_dir():
        return Path(name) / file
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file))


# -- folders ------------------------------------------------------------------------------------------------------------


def to_folder(model: Model, folder: Path) -> None:
    """Write the files as they were read, with a settings file of ours; a model2vec folder stays one."""
    shim = _shim(model)
    if shim.parts is None:
        raise fail("E302")
    for file, content in shim.files.items():
        (folder / file).write_bytes(content)
    settings = {key: model.attrs[key] for key in ("architecture", "name", "max_length", "fingerprint")}
    (folder / SETTINGS).write_text(json.dumps({**settings, "dim": model.get_dim("nO")}, indent=1) + "\n", encoding="utf-8")


def from_folder(model: Model, folder: Path) -> Model:
    """Load what `to_folder` wrote; max_length is the folder's: an index was built with it. RAISES: SapbertError E301."""
    path = folder / SETTINGS
    if not path.is_file():
        raise fail("E301", MissingFile, name=folder, why=f"it holds no {SETTINGS}, so it is not a linker's encoder.")
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("architecture") != ARCHITECTURE:
        raise fail("E301", MissingFile, name=folder, why="it holds a transformer, not a static encoder.")
    _load(model, str(folder))
    for key in ("name", "max_length", "fingerprint"):
        model.attrs[key] = settings[key]
    return model


def _fingerprint(model: Model) -> str:
    """A hash of the files and of max_length: equal where vectors are equal, so an index knows its encoder. The same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(model.attrs["max_length"]).encode())
    for file, content in sorted(_shim(model).files.items()):
        digest.update(f"{file} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _shim(model: Model) -> TableShim:
    return cast(TableShim, model.shims[0])
