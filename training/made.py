"""Find out whether an artefact was already made. A stamp next to an artefact records its inputs.

The inputs of an artefact are a flat dictionary: settings, and fingerprints of the files that were read. An artefact counts as made if its
stamp holds the same inputs. The stamp is written last, so an unfinished artefact of a killed run has no stamp.

Targets, neighbours and dictionaries need no stamp: the fingerprint of their inputs is in their file name, so other inputs give other files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spacy_sapbert.files import MANIFEST, checksum, write_text

Inputs = Mapping[str, Any]
# files that identify the content of a folder without a manifest
DECISIVE = ("texts.parquet", "translations.parquet", "model.safetensors", "adapter_model.safetensors")


class Stamp:
    """The record of the inputs of an artefact.

    Args:
        path: Path of the stamp, usually `stamp_of(artefact)`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Any] | None:
        """Return the recorded inputs; None if there is no stamp or it cannot be read."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def differences(self, inputs: Inputs) -> list[str] | None:
        """List the inputs that differ from the recorded ones, as "key: before -> now"; None if there is no stamp."""
        before = self.read()
        if before is None:
            return None
        now = _plain(inputs)
        return [f"{key}: {before.get(key)!r} -> {now.get(key)!r}" for key in sorted({*before, *now}) if before.get(key) != now.get(key)]

    def matches(self, inputs: Inputs) -> bool:
        """Say whether the artefact was made from these inputs."""
        return self.differences(inputs) == []

    def write(self, inputs: Inputs) -> None:
        """Record the inputs. The file is replaced as a whole, because another process may be reading it."""
        write_text(self.path, json.dumps(_plain(inputs), indent=1, ensure_ascii=False) + "\n")

    def remove(self) -> None:
        """Remove the record, before an artefact is made again."""
        self.path.unlink(missing_ok=True)


def stamp_of(artefact: str | Path) -> Path:
    """Return the path of an artefact's stamp: the artefact's path with `.made` added."""
    return Path(f"{artefact}.made")


def fingerprint(inputs: Any, size: int = 16) -> str:
    """Return a hash of inputs as hexadecimal digits, two for each of `size` bytes. Equal inputs have equal hashes."""
    return hashlib.blake2b(json.dumps(inputs, sort_keys=True).encode(), digest_size=size).hexdigest()


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections: {"a": {"b": 1}} becomes {"a.b": 1}."""
    if not isinstance(value, Mapping):
        return {prefix: value}
    return {key: found for name, below in value.items() for key, found in flat(below, f"{prefix}.{name}" if prefix else str(name)).items()}


def contents(path: str | Path) -> str:
    """Return a checksum of the content of a path.

    For a file it is the checksum of the file; for a folder that of its manifest, or those of its files in `DECISIVE`; "" if there is none of these.
    """
    path = Path(path)
    try:
        if path.is_file():
            return str(checksum(path))
        if (path / MANIFEST).is_file():
            return str(checksum(path / MANIFEST))
        return " ".join(checksum(path / name) for name in DECISIVE if (path / name).is_file())
    except OSError:  # a text that cannot be a path: too long, for example
        return ""


def contents_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the checksums of those texts that are paths on disk, as "contents of PATH" -> checksum."""
    return {f"contents of {text}": found for text in sorted(set(texts)) if text and (found := contents(text))}


def code(*paths: Path) -> str:
    """Return a hash of Python files.

    Args:
        *paths: Python files, or folders of Python files.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _plain(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs after a round trip through JSON, so that a tuple equals the list that was written."""
    return dict(json.loads(json.dumps(dict(inputs))))
