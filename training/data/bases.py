"""Choose the base that a workflow trains from: the one that the user names, else a model of the hub, else the one that is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

from spacy_sapbert.files import write_text

INSTALLED = "all-MiniLM-L6-v2"
TIMEOUT = 5.0  # seconds until the hub has answered
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
FILES = ("*.json", "*.txt", "*.model", *WEIGHTS)


def choose_base(name: str, hub: str, out: Path) -> str:
    """Write which base is trained from into a file, which `@FILE` stands for on the command line.

    Args:
        name: The base that the user names; "" for none.
        hub: The model of the hub that is taken without a name, if it can be had; "" for none.
        out: The file. It holds the name of a base, or nothing for the installed one.

    Returns:
        What to show: which base it is, and where the hub's can't be had, why, and how to name a folder.
    """
    chosen, why = name, ""
    if not name and hub:
        why = why_not_from_hub(hub)
        chosen = "" if why else hub
    write_text(out, chosen + "\n")
    if why:
        return (
            f"base: {INSTALLED}, because '{hub}' can't be had from the hub ({why}). To train from it, name a folder that holds it: --vars.base FOLDER"
        )
    return f"base: {chosen or INSTALLED}"


def why_not_from_hub(name: str) -> str:
    """Download a model of the hub, unless it is in the cache, and return why that is not possible; "" if it is there.

    `HF_HUB_OFFLINE`, `HF_ENDPOINT` and `HF_HOME` mean what they mean to huggingface_hub. A hub that does not answer costs a few seconds.
    """
    from huggingface_hub import hf_hub_url, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]
    from tqdm import tqdm

    silent: Optional[OSError] = None
    try:
        get_session().head(hf_hub_url(name, "config.json"), timeout=TIMEOUT)  # asked once: the client's own tries take most of a minute
    except OSError as error:  # also where `HF_HUB_OFFLINE` is set: what is in the cache is taken
        silent = error
    try:
        bar = tqdm if sys.stderr.isatty() else None
        folder = Path(snapshot_download(name, allow_patterns=list(FILES), etag_timeout=TIMEOUT, tqdm_class=bar, local_files_only=silent is not None))
    except LocalEntryNotFoundError as error:  # the reason is behind it
        return _short(silent or error.__cause__ or error)
    except (OSError, ValueError) as error:  # not found, refused, no such name, the disk is full …
        return _short(error)
    return "" if any(path for pattern in WEIGHTS for path in folder.glob(pattern)) else "its weights are not there"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
