"""Choose the base that a workflow trains from: the one that the user names, or a model of the hub, or the installed one."""

from __future__ import annotations

import sys
from pathlib import Path

from spacy_sapbert.encoders.hub import TIMEOUT, why_unreachable
from spacy_sapbert.files import write_text

INSTALLED = "all-MiniLM-L6-v2"
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
FILES = ("*.json", "*.txt", "*.model", *WEIGHTS)


def choose_base(name: str, hub: str, out: Path) -> str:
    """Choose the base and write its name into a file. Commands read the name from there with `@FILE`.

    Args:
        name: The base that the user names; "" for none.
        hub: The model of the hub that is taken if the user names none and it can be downloaded; "" for none.
        out: The file. It holds the name of a base, or nothing for the installed one.

    Returns:
        A message for the user: the base. If the hub's model can't be downloaded, also the reason, and how to name a folder.
    """
    chosen, why = name, ""
    if not name and hub:
        why = why_not_from_hub(hub)
        chosen = "" if why else hub
    write_text(out, chosen + "\n")
    if why:
        return f"base: {INSTALLED}, because '{hub}' can't be downloaded from the hub ({why}). To train from it, name a folder that holds it: --vars.base FOLDER"
    return f"base: {chosen or INSTALLED}"


def why_not_from_hub(name: str) -> str:
    """Download a model of the hub, unless it is in the cache. Return "" if it is there, else the reason.

    `HF_HUB_OFFLINE`, `HF_ENDPOINT` and `HF_HOME` have the meaning that they have in huggingface_hub. If the hub does not answer, it takes a few seconds.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from tqdm import tqdm

    unreachable = why_unreachable(name)  # also if `HF_HUB_OFFLINE` is set: use only the cache
    try:
        bar = tqdm if sys.stderr.isatty() else None
        folder = Path(snapshot_download(name, allow_patterns=list(FILES), etag_timeout=TIMEOUT, tqdm_class=bar, local_files_only=bool(unreachable)))
    except LocalEntryNotFoundError as error:  # the reason is in its cause
        return unreachable or _short(error.__cause__ or error)
    except (OSError, ValueError) as error:  # not found, access refused, invalid name, full disk …
        return _short(error)
    return "" if any(path for pattern in WEIGHTS for path in folder.glob(pattern)) else "its weights are missing"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
