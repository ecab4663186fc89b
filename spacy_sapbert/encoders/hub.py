"""Find the folder of a model of the Hugging Face hub when the hub does not answer."""

from __future__ import annotations

from pathlib import Path

from ..errors import MissingFile, fail

TIMEOUT = 5.0  # seconds to wait for the hub


def why_unreachable(name: str) -> str:
    """Ask the hub once for a model's settings. Return "" if it answers, otherwise the reason.

    The hub's own client tries again for more than a minute, for each file. `HF_HUB_OFFLINE` and `HF_ENDPOINT` have the meaning that they have in
    huggingface_hub.

    Args:
        name: Name of the model, such as "cambridgeltl/SapBERT-from-PubMedBERT-fulltext".
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    try:
        get_session().head(hf_hub_url(name, "config.json"), timeout=TIMEOUT)
    except Exception as error:  # each version of the client has its own errors; an invalid name is one too
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return ""


def folder_or_name(name: str, *, revision: str | None = None, cache_dir: str | None = None, offline: bool = False) -> str:
    """Return what a model is loaded from: a local folder as it is, a hub name if the hub answers, otherwise the folder of the cached model.

    Args:
        name: Folder or hub name.
        revision: Branch, tag or commit of the model; None: the main branch.
        cache_dir: Folder of the cache; None: that of the hub's client.
        offline: Whether the caller uses only the cache, so that the hub is not asked.

    Raises:
        SapbertError: E301, the hub does not answer, and the cache has no such model.
    """
    if offline or Path(name).is_dir() or not (why := why_unreachable(name)):
        return name
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(name, revision=revision, cache_dir=cache_dir, local_files_only=True))
    except ValueError as error:  # LocalEntryNotFoundError is an OSError and a ValueError
        if isinstance(error, OSError):
            raise fail("E301", MissingFile, name=name, why=f"the hub can't be reached ({why}), and the model is not in its cache.") from error
        raise fail("E301", MissingFile, name=name, why="it is neither a folder nor a name that the hub can have.") from error
