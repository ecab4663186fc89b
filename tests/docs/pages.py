"""Helpers for the tests of the documentation: pages, their code blocks, tables and commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^<!-- figures: (?P<name>[\w-]+)(?: (?P<table>[\w-]+))? -->\n)?(?P<body>(?:^\|.*\|\n)+)", re.MULTILINE)
PLACEHOLDERS = {
    *("ADAPTER", "CHANGES", "CORPUS", "DEFINITIONS", "FOLDER", "GOLD", "HOST", "KB", "LINKER", "MODEL", "NEW_LINKER", "NEW_RELEASE", "NOTES", "OUT"),
    *("PAIRS", "REVIEW", "STUDENT", "TRANSLATIONS", "UMLS", "XLBEL", "DATA"),
}


class Block(NamedTuple):
    """A code block of a page: its language, its text, the `text` block right after it ("" if there is none)."""

    language: str
    code: str
    output: str


class Table(NamedTuple):
    """A table of a page: the data file and its table that the comment above names ("" if none), header and rows."""

    name: str
    table: str
    header: list[str]
    rows: list[list[str]]


def pages() -> list[Path]:
    """Return README, CONTRIBUTING, SECURITY and every page of docs/ that is written by hand."""
    by_hand = [page for page in sorted(DOCS.rglob("*.md")) if not page.read_text(encoding="utf-8").startswith("<!-- Made by docs/generate.py")]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *by_hand]


def name_of(page: Path) -> str:
    """Return a page's path below the repository, as the name of a test."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order, each with its output."""
    text = page.read_text(encoding="utf-8")
    found = [(match.group(1), match.group(2), match) for match in BLOCK.finditer(text)]
    made = []
    for (language, code, match), following in zip(found, [*found[1:], None]):
        if language != "text":
            near = following is not None and following[0] == "text" and not text[match.end() : following[2].start()].strip()
            made.append(Block(language, code, following[1] if following is not None and near else ""))
    return made


def commands(page: Path) -> list[list[str]]:
    """Return the words of every shell command of a page."""
    lines = [line for block in blocks(page) if block.language == "bash" for line in block.code.splitlines()]
    lines += [
        line.removeprefix("RUN ") for block in blocks(page) if block.language == "dockerfile" for line in block.code.splitlines() if "RUN" in line
    ]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def is_example(words: list[str]) -> bool:
    """Say whether a command names something that only the reader has, such as KB or GOLD.spacy."""
    return any(part in PLACEHOLDERS for word in words for part in re.split(r"[^\w]", word))


def prose(page: Path) -> str:
    """Return the text of a page without code blocks, inline code, tables, links' addresses and front matter."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", " ", text)


def tables(page: Path) -> list[Table]:
    """Return the tables of a page."""
    found = []
    for match in TABLE.finditer(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        lines = [cells(line) for line in match["body"].splitlines()]
        found.append(Table(match["name"] or "", match["table"] or "", lines[0], lines[2:]))
    return found


def cells(line: str) -> list[str]:
    """Return the cells of one line of a Markdown table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
