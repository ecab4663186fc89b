"""`cache`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ..errors import fail
from ..files import valid_text
from .app import app, command

if TYPE_CHECKING:
    from ..build.cache import Entry


@command(app, "cache")
def cache(
    clean: bool = typer.Option(False, "--clean", help="Remove what this version does not use, and what stopped builds left."),
    everything: bool = typer.Option(
        False,
        "--all",
        help="With --clean: remove all linkers and names in the folder, except what is being built. Names that were added, calibrations and rankers are lost.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="With --clean: only show what would be removed."),
    yes: bool = typer.Option(False, "--yes", help="With --clean: do not ask."),
) -> None:
    """Show what is in the cache folder, and what of it this version uses. With --clean, remove the rest."""
    from ..build import cache as cached
    from ..build.default_linkers import cache_folder
    from ..matcher.stored import rules_fingerprint

    for option, given in (("--all", everything), ("--dry-run", dry_run), ("--yes", yes)):
        if given and not clean:
            raise fail("E002", setting=option, component="cache", value=True, why="it needs --clean.")
    typer.echo(valid_text(cache_folder()))
    found = cached.entries(rules_fingerprint())
    removed = [entry for entry in found if entry.state in (cached.OURS if everything else cached.CLEANED)]
    shown = [entry for entry in (removed if clean else found) if entry.state is not cached.State.LOCK]
    for entry in shown:
        used = time.strftime("%Y-%m-%d", time.localtime(entry.last_use))
        name = valid_text(entry.path.relative_to(cache_folder()))
        typer.echo(f"{_size([entry]):>10}  last used {used}  {entry.state.value}: {name}")
    if not clean:
        typer.echo(f"{_total(shown)}. `python -m spacy_sapbert cache --clean` removes what this version does not use: {_total(removed)}.")
    elif not removed:
        typer.echo("There is nothing to remove.")
    elif dry_run:
        typer.echo(f"Would remove {_total(removed)}.")
    elif yes or typer.confirm(f"Remove {_total(removed)}?"):
        _remove(removed)
    else:
        typer.echo("Nothing was removed.")


def _remove(entries: Sequence[Entry]) -> None:
    """Remove entries, and print what was removed.

    Raises:
        OSError: some could not be removed; the others were.
    """
    from ..build import cache as cached

    removed: list[Entry] = []
    failed: OSError | None = None
    for entry in entries:
        try:
            if cached.remove(entry):
                removed.append(entry)
            elif entry.state is not cached.State.LOCK:
                typer.echo(f"Kept, because it is being built: {valid_text(entry.path.name)}", err=True)
        except OSError as error:
            failed = failed or error
    typer.echo(f"Removed {_total(removed)}.")
    if failed is not None:
        raise failed


def _total(entries: Sequence[Entry]) -> str:
    """Return the number and the size of entries in words; locks are counted apart, because they are empty."""
    from ..build.cache import State
    from ..render.records import count

    locks = sum(entry.state is State.LOCK for entry in entries)
    words = [count(len(entries) - locks, "item"), *([count(locks, "lock")] if locks else [])]
    return f"{' and '.join(words)} ({_size(entries)})"


def _size(entries: Sequence[Entry]) -> str:
    size = sum(entry.bytes for entry in entries) / 1e6
    return f"{size / 1e3:,.2f} GB" if size >= 1e3 else f"{size:,.1f} MB"
