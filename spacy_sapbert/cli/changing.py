"""Which folder a command changes: a linker of the user's own, a changed copy of it, or a linker that other programs share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ..errors import fail
from ..files import MANIFEST, writing_folder

OUT = typer.Option(None, help="Linker folder to write: a changed copy. The linker itself stays as it is.")
SHARED = typer.Option(False, "--shared", help="Change a registered linker such as open itself, for all programs of this user that use it.")


@contextmanager
def changed_linker(linker: str, out: Path | None, shared: bool, command: str) -> Iterator[tuple[Path, Path]]:
    """Give the folder of a linker that a command may change.

    Args:
        linker: folder of a linker, or the name of a registered one.
        out: folder to which the linker is copied before it is changed; it is written when the block ends without an error. None: change the linker.
        shared: whether a linker that other programs share may be changed.
        command: name of the command, for messages.

    Yields:
        (folder to change, folder where it will be when the block has ended).

    Raises:
        SapbertError: E002, the options contradict each other, or the folder to write is no linker, a shared one, or inside the linker; E034, the linker is shared, and the user has not said
            what to do; E001, there is no such linker.
    """
    from ..build import default_linkers

    if out is not None and shared:
        why = "--out writes a copy, and --shared changes the linker itself. Give one of them."
        raise fail("E002", setting="--shared", component=command, value=True, why=why)
    if out is None and not shared and default_linkers.is_shared(linker):
        raise fail("E034", name=linker, command=command)
    if out is not None and not _may_be_replaced(out):
        why = "it holds other files, and is no linker. Give a new folder."
        raise fail("E002", setting="--out", component=command, value=str(out), why=why)
    if out is not None and default_linkers.is_shared(str(out)):
        why = "it is the name of a shared linker, or in the folder of the shared ones. Give a new folder."
        raise fail("E002", setting="--out", component=command, value=str(out), why=why)
    folder = default_linkers.find_linker(linker)
    if out is not None and folder.resolve() in out.resolve().parents:  # the copy would hold itself
        raise fail("E002", setting="--out", component=command, value=str(out), why="it is inside the linker. Give a folder beside it.")
    if out is None:
        yield folder, folder
        return
    with writing_folder(out) as new:
        shutil.copytree(folder, new, symlinks=True, dirs_exist_ok=True)
        yield new, out


def _may_be_replaced(out: Path) -> bool:
    """Return whether a folder is a linker, is empty, or does not exist."""
    if not out.is_dir():
        return not out.exists()
    return (out / MANIFEST).is_file() or not any(out.iterdir())
