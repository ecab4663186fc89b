"""Mutate files: the same seed gives the same file."""

from __future__ import annotations

import json
import random
import struct
from copy import deepcopy
from typing import Any

MOST_BYTES = 1 << 20  # of a mutated file; a larger one takes more time and finds nothing more
NUMBERS = (0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63))
TOKENS = (
    b"\n", b"\r", b"\t", b"|", b"||", b",", b";", b'"', b"'", b"\\", b":", b"!", b"#", b"=", b"{", b"}", b"[", b"]", b"(", b")", b"\0", b"\xff", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"\\ud800", "İ".encode(), "\u202e".encode(), "\U0001f9e0".encode(), b"C0000001", b"HP:0000118", b"UMLS:", b"MESH:D003924", b"id: ",
    b"[Term]\n", b"[Typedef]\n", b"name: ", b"synonym: \"x\" EXACT []\n", b"is_obsolete: true\n", b"http://", b"null", b"true", b"NaN", b"Infinity", b"1e999", b"-0",
    b"../../etc/passwd", b"/etc/passwd", b"%s%n", b"{0}", b"[/x]", b"[bold]", b"=1+1", b"<script>", b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**70, -(2**63), 0.5, 1e308, -1e308, "", "x", "\ud800", "\0", "../x", "/etc/passwd", "[/x]", "x" * 5000,
    [], {}, [[]], [None], {"": None}, [1, "x", None], {"kind": "linker"},
)  # fmt: skip


def mutated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return data with one to eight changes.

    Args:
        data: the content of a file.
        others: contents of other files; parts of them may be inserted.
        chance: decides what is changed; the same state gives the same changes.
    """
    if data[:1] in (b"{", b"[") and chance.random() < 0.5:
        try:
            return _of_json(json.loads(data), chance)
        except ValueError:
            pass  # lines of JSON, or other text that begins with a bracket
    most = max(MOST_BYTES, 2 * len(data))
    for _ in range(1 << chance.randrange(4)):
        data = _changed(data, others, chance)
    return data[:most]


def _changed(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return data with one change."""
    at = chance.randrange(len(data) + 1)
    size = min(len(data), 1 << chance.randrange(9))
    kind = chance.randrange(11)
    if kind == 0 and data:  # one bit is flipped
        at %= len(data)
        return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    if kind == 1:  # bytes are replaced by random ones
        return data[:at] + chance.randbytes(size) + data[at + size :]
    if kind == 2:  # bytes are removed
        return data[:at] + data[at + size :]
    if kind == 3:  # bytes are repeated
        return data[: at + size] + data[at : at + size] * chance.choice((1, 2, 50)) + data[at + size :]
    if kind == 4:  # cut short
        return data[:at]
    if kind == 5:  # a piece of another file is inserted
        other = chance.choice(others)
        begin = chance.randrange(len(other) + 1)
        return data[:at] + other[begin : begin + size] + data[at:]
    if kind == 6:  # bytes are replaced by a binary number
        width, form = chance.choice(((2, "<H"), (4, "<I"), (8, "<Q")))
        number = struct.pack(form, chance.choice(NUMBERS) % (1 << (8 * width)))
        return data[:at] + number + data[at + width :]
    if kind == 7:  # a number is inserted as text
        return data[:at] + str(chance.choice(NUMBERS)).encode() + data[at:]
    if kind == 8:  # two lines are swapped, and sometimes one is removed
        lines = data.split(b"\n")
        i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
        if chance.random() < 0.3:
            del lines[i]
        return b"\n".join(lines)
    if kind == 9:  # opening brackets, nested deeply
        return data[:at] + chance.choice((b"[", b"{", b'{"a":', b"(")) * chance.choice((10, 1000, 100_000)) + data[at:]
    return data[:at] + chance.choice(TOKENS) + data[at + chance.choice((0, 0, size)) :]


def _of_json(content: Any, chance: random.Random) -> bytes:
    """Return JSON text with one to four of its values, keys or lists changed."""
    for _ in range(chance.randrange(1, 5)):
        content = _with_one_change(content, chance)
    return json.dumps(content, ensure_ascii=chance.random() < 0.9).encode("utf-8", "surrogatepass")


def _with_one_change(content: Any, chance: random.Random) -> Any:
    if isinstance(content, dict) and content and chance.random() < 0.85:
        key = chance.choice(sorted(content))
        action = chance.random()
        if action < 0.15:
            del content[key]
        elif action < 0.2:
            content[str(chance.choice(VALUES))[:50]] = content.pop(key)
        else:
            content[key] = _with_one_change(content[key], chance)
        return content
    if isinstance(content, list) and content and chance.random() < 0.85:
        at = chance.randrange(len(content))
        action = chance.random()
        if action < 0.15:
            del content[at]
        elif action < 0.25:
            content.insert(at, deepcopy(chance.choice(VALUES)))
        else:
            content[at] = _with_one_change(content[at], chance)
        return content
    if type(content) in (int, float) and chance.random() < 0.5:
        return chance.choice((content + 1, content - 1, -content, content * 1000, float(content), str(content)))
    return deepcopy(chance.choice(VALUES))
