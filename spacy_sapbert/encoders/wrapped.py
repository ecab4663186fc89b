"""A transformer and its tokenizer as a Thinc layer: spacy-transformers' HFWrapper, but its bytes hold safetensors and can't run code.

This module takes seconds to import, so transformer.py imports it when an encoder is first used.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import srsly
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from spacy_transformers.data_classes import HFObjects
from spacy_transformers.layers.hf_shim import HFShim
from spacy_transformers.layers.hf_wrapper import HFWrapper
from spacy_transformers.util import make_tempdir
from thinc.api import ArgsKwargs, Model, get_torch_default_device, torch2xp, xp2torch

from ..errors import fail
from ..types import Floats2d
from .common import pool
from .trust import FILE_SETTINGS, asks_for_code, check_saved_folder, settings_for_saved


def wrapped(tokenizer_config: dict[str, Any], transformer_config: dict[str, Any], pooling: str) -> Model[Any, Any]:
    """Return a layer without weights: tokens -> float32 (n, d), pooled and L2-normalised.

    Args:
        tokenizer_config: passed to the tokenizer's `from_pretrained`.
        transformer_config: passed to the model's `from_pretrained`.
        pooling: "cls", "mean", or "auto" until a model is read.
    """
    hf_model = HFObjects(None, None, None, dict(tokenizer_config), dict(transformer_config))
    wrapper = HFWrapper(hf_model, convert_inputs=_convert_inputs, convert_outputs=_convert_outputs)
    wrapper.shims[0] = SafeShim(hf_model)
    wrapper.attrs["pooling"] = pooling
    return wrapper


class SafeShim(HFShim):
    """HFShim whose bytes hold safetensors instead of a pickled state dict."""

    def to_bytes(self) -> bytes:
        """Return config, tokenizer files and weights as msgpack."""
        state = self._hfmodel.transformer.state_dict() if self._hfmodel.transformer is not None else {}
        weights = save_safetensors({k: v.contiguous().cpu() for k, v in state.items()})
        tokenizer: dict[str, bytes] = {}
        config = ""
        if state:
            with make_tempdir() as folder:
                self._hfmodel.tokenizer.save_pretrained(str(folder))
                tokenizer = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
            config = self._hfmodel.transformer.config.to_json_string(use_diff=False)
        return cast(bytes, srsly.msgpack_dumps({"config": config, "weights": weights, "tokenizer": tokenizer}))

    def from_bytes(self, bytes_data: bytes) -> "SafeShim":
        """Use what `to_bytes` returned.

        Raises:
            SapbertError: E307, the bytes need code of their own; E309, they name files elsewhere.
        """
        message = srsly.msgpack_loads(bytes_data)
        if message["config"]:
            with make_tempdir() as folder:
                for file_name, content in message["tokenizer"].items():
                    (folder / Path(file_name).name).write_bytes(content)
                (folder / "config.json").write_text(message["config"], encoding="utf-8")
                check_saved_folder(folder)
                try:
                    config = self.config_cls.from_pretrained(str(folder), **settings_for_saved({}))
                    tokenizer = self.tokenizer_cls.from_pretrained(str(folder), **settings_for_saved({}))
                    transformer = self.model_cls.from_config(config, trust_remote_code=False)
                except ValueError as error:
                    if asks_for_code(error):
                        raise fail("E307", path="(bytes)", why="its settings name code") from error
                    raise
            transformer.load_state_dict(load_safetensors(message["weights"]))
            fill(self, tokenizer, transformer)
        return self


def fill(shim: HFShim, tokenizer: Any, transformer: Any) -> None:
    """Put tokenizer and transformer into a shim. Paths of this machine and names of code are removed, so that they are never written to a file."""
    transformer.to(get_torch_default_device())
    transformer.eval()
    transformer.config._name_or_path = ""
    for part in (transformer, transformer.config, tokenizer):
        part._auto_class = None
    transformer.config.__dict__.pop("auto_map", None)
    tokenizer.init_inputs = ()
    for key in [key for key in tokenizer.init_kwargs if key == "auto_map" or FILE_SETTINGS.match(key)]:
        del tokenizer.init_kwargs[key]
    shim._hfmodel.tokenizer = tokenizer
    shim._hfmodel.transformer = transformer
    shim._model = transformer


def _convert_inputs(model: Model[Any, Any], tokens: Any, is_train: bool) -> tuple[ArgsKwargs, Callable[[Any], list[Any]]]:
    device = next(cast(Any, cast(HFShim, model.shims[0])._hfmodel.transformer).parameters()).device
    kwargs = {key: value.to(device) for key, value in tokens.items()}
    model.attrs["mask"] = kwargs["attention_mask"]
    return ArgsKwargs(args=(), kwargs=kwargs), lambda d_inputs: []


def _convert_outputs(model: Model[Any, Any], inputs_outputs: Any, is_train: bool) -> tuple[Floats2d, Callable[[Floats2d], ArgsKwargs]]:
    _, outputs = inputs_outputs
    pooled = pool(outputs.last_hidden_state.float(), model.attrs.pop("mask"), model.attrs["pooling"])

    def backprop(d_vectors: Floats2d) -> ArgsKwargs:
        return ArgsKwargs(args=((pooled,),), kwargs={"grad_tensors": (xp2torch(cast(Any, d_vectors)),)})

    return cast(Floats2d, torch2xp(pooled)), backprop
