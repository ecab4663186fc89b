"""Decide what transformers may read and run: a repository's code only if the user trusts it, and a linker folder's code never."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import fail
from ..files import parse_json

# settings of `from_pretrained` that name a place to read from, or code to run; the others control the computation
_PLACES = re.compile(
    r".*_files?$|(code_)?revision$|subfolder$|cache_dir$|variant$|config$|adapter_kwargs$|from_(tf|flax)$|use_(safetensors|kernels)$"
)
FILE_SETTINGS = re.compile(r".*_files?$|init_inputs$|mecab_option$")  # settings of a tokenizer that may name a file
CODE = "transformers_modules"  # the package in which transformers puts classes that it reads from a repository


def settings_for_name(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `from_pretrained` for an encoder's name.

    `trust_remote_code` is always set, because otherwise transformers asks the user on standard input.
    """
    return {**settings, "trust_remote_code": bool(settings.get("trust_remote_code"))}


def settings_for_saved(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `from_pretrained` for a linker's folder: only its own files are read, and no code is run."""
    kept = {key: value for key, value in settings.items() if not _PLACES.match(key)}
    if "/" in str(kept.get("attn_implementation", "")):  # transformers would read it as the name of a repository of compiled code
        del kept["attn_implementation"]
    return {**kept, "trust_remote_code": False, "local_files_only": True}


def asks_for_code(error: Exception) -> bool:
    """Return whether transformers raised this error because the model needs code of a repository that is not trusted."""
    return "trust_remote_code" in str(error)


def own_code(*parts: Any) -> list[str]:
    """Return the names of those classes of some objects that come from a repository's code."""
    return sorted({type(part).__name__ for part in parts if type(part).__module__.split(".")[0] == CODE})


def check_saved_folder(folder: Path) -> None:
    """Check a linker's encoder before transformers reads it. `save` never writes what is refused here.

    Raises:
        SapbertError: E307, the folder holds code; E309, it refers to another folder, or to the hub.
    """
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    if found:
        raise fail("E307", path=folder, why=f"it holds {', '.join(found[:3])}")
    for why in _ways_out(folder):
        raise fail("E309", path=folder, why=why)


def _ways_out(folder: Path) -> Iterator[str]:
    """Yield, in words, everything in a model's folder that makes transformers read from elsewhere."""
    if (folder / "adapter_config.json").exists():
        yield "adapter_config.json names a base model"
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        for key, value in _settings_of(folder / file).items():
            # special_tokens_map_file is harmless: tokenizers read the folder's own file, whatever the value is
            named = bool(value) and key != "special_tokens_map_file" and bool(FILE_SETTINGS.match(key))
            if named and not (key == "fast_tokenizer_files" and _plain(value)):
                yield f"'{key}' in {file} names a file"
    for path in sorted(folder.glob("*.index.json")):
        weights = _settings_of(path).get("weight_map")
        if not isinstance(weights, dict) or not _plain(list(weights.values())):
            yield f"{path.name} names weights in another folder"
    for path in sorted(folder.glob("config*.json")):  # some versions of transformers read another one than config.json
        yield from (f"{why} in {path.name}" for why in _ways_out_of(_settings_of(path), whole=True))


def _ways_out_of(config: Any, *, whole: bool) -> Iterator[str]:
    """Yield, in words, everything in a model's config that makes transformers read from elsewhere.

    Args:
        config: The config, or a part of it.
        whole: Whether it is the whole config. Then `auto_map` is harmless, because transformers is told not to run code.
    """
    for key, value in config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ():
        if key in ("_attn_implementation", "attn_implementation") and "/" in json.dumps(value):
            yield f"'{key}' names a repository of compiled code"
        elif value and (key in ("backbone", "use_timm_backbone") or (key == "auto_map" and not whole)):
            yield f"'{key}' names another model"
        else:
            yield from _ways_out_of(value, whole=False)


def _plain(names: Any) -> bool:
    """Return whether a value is a list of file names without folders."""
    return isinstance(names, list) and all(isinstance(name, str) and Path(name).name == name and "\\" not in name for name in names)


def _settings_of(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; {} if the file is missing or damaged. The code that loads it later raises the error."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
