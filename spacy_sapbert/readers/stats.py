"""Counters of a reading: rows, malformed rows, versions. One rule for all readers decides how many malformed rows are too many."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, ParamSpec, cast

from ..errors import DamagedFile, fail, warn
from ..kb.concept import Concept

P = ParamSpec("P")
MAX_BAD_SHARE = 0.01
FEW_ROWS = 10  # up to this many malformed rows never stop a reading, unless all rows are malformed
SHOWN_LINES = 5
SHOWN_VALUES = 10


@dataclass
class ReadStats:
    """Counters of one reading. They are complete when the reader's iterator has ended.

    Attributes:
        path: The file or folder that was read.
        kind: The reader's name.
        version: The release that the file names; None if it names none.
        versions: Release of each vocabulary (MRSAB of UMLS).
        rows: Number of rows, lines, nodes or records that were read.
        malformed: Number of rows that were left out because they are malformed.
        bad_lines: Line numbers of the first five malformed rows; in JSON, the numbers of the records.
        reason: What is wrong with the first malformed row.
        left_out: Reason ("not translated") -> number of well-formed rows that were left out for it.
        filtered: Filter ("language", "vocabulary") -> value -> number of names that the caller did not want because of it (MRCONSO of UMLS).
        concepts: Number of yielded Concepts. These are parts; an id may come several times.
        max_bad_share: E405 is raised if a larger share of the rows is malformed, 0 to 1.
    """

    path: Path | None = None
    kind: str = ""
    version: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    malformed: int = 0
    bad_lines: list[int] = field(default_factory=list)
    reason: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    filtered: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    concepts: int = 0
    max_bad_share: float = MAX_BAD_SHARE
    _parent: ReadStats | None = field(default=None, repr=False)
    _has_parts: bool = field(default=False, repr=False)

    def bad(self, line: int, why: str) -> None:
        """Count one malformed row, which is left out."""
        self.malformed += 1
        if len(self.bad_lines) < SHOWN_LINES:
            self.bad_lines.append(line)
        self.reason = self.reason or why

    def leave_out(self, what: str) -> None:
        """Count one row that is left out on purpose."""
        self.left_out[what] = self.left_out.get(what, 0) + 1

    def filtered_in_words(self) -> str:
        """Return what filters left out as text: "vocabulary: MSH (12), RXNORM (3); language: SPA (2)"."""
        filters = sorted(self.filtered.items(), key=lambda pair: -pair[1].total())
        return "; ".join(f"{what}: {most_frequent(counted)}" for what, counted in filters if counted)

    def part(self, path: Path) -> ReadStats:
        """Return counters for one of several files (UMLS), so that a large good file can't hide a small bad one."""
        self._has_parts = True
        return ReadStats(path, self.kind, max_bad_share=self.max_bad_share, _parent=self)

    def finish(self) -> None:
        """Check the number of malformed rows, and warn W001 if there are any.

        Raises:
            SapbertError: E405, there are too many; E402, the file has no rows.
        """
        if self._has_parts:  # each part was checked and added here
            return
        if self._parent is not None:
            self._add_to(self._parent)
        elif not self.rows:
            raise fail("E402", DamagedFile, path=self.path, expected=f"a file for reader '{self.kind}'", why="it holds no rows")
        if not self.malformed:
            return
        lines = ", ".join(map(str, self.bad_lines))
        share = self.malformed / max(self.rows, self.malformed)
        if share == 1 or (self.malformed > FEW_ROWS and share > self.max_bad_share):
            values = {"path": self.path, "bad": self.malformed, "total": self.rows, "lines": lines, "why": self.reason}
            raise fail("E405", DamagedFile, share=self.max_bad_share, **values)
        warn("W001", bad=self.malformed, total=self.rows, path=self.path, lines=lines, why=self.reason)

    def _add_to(self, whole: ReadStats) -> None:
        whole.rows += self.rows
        whole.malformed += self.malformed
        whole.bad_lines = (whole.bad_lines + self.bad_lines)[:SHOWN_LINES]
        if self.reason and not whole.reason:
            whole.reason = f"{self.path.name if self.path else ''}: {self.reason}"


Read = Callable[Concatenate[Path, ReadStats, P], Iterator[Concept]]


def most_frequent(counted: Counter[str]) -> str:
    """Return the most frequent values as text: "MSH (12), RXNORM (3)"."""
    listed = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{value} ({count:,})" for value, count in listed[:SHOWN_VALUES])
    return f"{shown} and {len(listed) - SHOWN_VALUES:,} others" if len(listed) > SHOWN_VALUES else shown or "none"


def reader(kind: str) -> Callable[[Read[P]], Read[P]]:
    """Return a decorator that makes a generator of Concepts a reader. It fills `stats`, counts concepts, and checks malformed rows at the end."""

    def wrap(function: Read[P]) -> Read[P]:
        @functools.wraps(function)
        def run(path: Path, stats: ReadStats, *args: P.args, **options: P.kwargs) -> Iterator[Concept]:
            stats.path, stats.kind = Path(path), kind
            for concept in function(Path(path), stats, *args, **options):
                stats.concepts += 1
                yield concept
            stats.finish()

        return cast(Read[P], run)  # mypy does not see that the names of the arguments are the same

    return wrap
