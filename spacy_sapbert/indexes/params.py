"""The params of an engine are fields of a dataclass. Each has a kind (build, search or reader) and a smallest value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar

from ..errors import fail

BUILD, SEARCH, READER = "build", "search", "reader"
T = TypeVar("T")


def param(default: T, *, least: int | None = None, part: str = "") -> T:
    """Return a field for a setting.

    Args:
        default: Its default.
        least: Its smallest value; None for no limit.
        part: BUILD, SEARCH, READER, or "" for a setting that is not read from a folder.
    """
    made: T = field(default=default, metadata={"least": least, "part": part})
    return made


def build_param(default: T, *, least: int | None = None) -> T:
    """Return a field for a setting that the index's files depend on."""
    return param(default, least=least, part=BUILD)


def search_param(default: T, *, least: int | None = None) -> T:
    """Return a field for a setting of the search. It can be tuned."""
    return param(default, least=least, part=SEARCH)


def reader_param(default: T, *, least: int | None = None) -> T:
    """Return a field for a setting that results do not depend on."""
    return param(default, least=least, part=READER)


def params_of(index: Any) -> dict[str, Any]:
    """Return all settings of an engine by name, in the order of its fields."""
    return {each.name: getattr(index, each.name) for each in _fields(index)}


def names_of(index: Any, part: str) -> tuple[str, ...]:
    """Return the names of the settings of this kind: BUILD, SEARCH or READER."""
    return tuple(each.name for each in _fields(index) if each.metadata["part"] == part)


def check_params(index: Any) -> None:
    """Refuse settings below their smallest value.

    Raises:
        SapbertError: E002, a setting is too small.
    """
    for each in _fields(index):
        value, least = getattr(index, each.name), each.metadata["least"]
        if least is not None and value < least:
            raise fail("E002", setting=each.name, component=type(index).__name__, value=value, why=f"it must be at least {least}.")


def take_saved(index: Any, saved: Mapping[str, Any], names: Iterable[str]) -> None:
    """Set an engine's settings to those of a manifest.

    Args:
        index: the engine.
        saved: settings by name.
        names: names of the settings that are set.

    Raises:
        ValueError: a setting is missing, of another type, or too small.
    """
    wanted = {each.name: each for each in _fields(index)}
    for name in names:
        value, each = saved.get(name), wanted[name]
        least = each.metadata["least"]
        if name not in saved or (each.default is not None and type(value) is not type(each.default)) or (least is not None and value < least):
            raise ValueError(f"the manifest's setting '{name}' is {str(value)[:60]!r}")
        setattr(index, name, value)


def _fields(index: Any) -> tuple[Field[Any], ...]:
    return fields(index)
