"""Print records as a table in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .records import NIL, Row, Summary, distinct, one_line, same, status_names

STATUS_WIDTH = 12
MIN_WIDTH, MAX_WIDTH = 100, 140  # characters; used if the output is a pipe or a log, which has no width


def to_table(rows: Iterable[Row], console: Console) -> None:
    """Print a table for each note, without nested mentions. A mention that occurs several times with the same concept is one line with a count."""
    was = console.width
    if not console.is_terminal:
        console.width = max(MIN_WIDTH, min(was, MAX_WIDTH))
    try:
        counted = Summary()
        for note, group in groupby((row for row in rows if not row["nested"]), key=lambda row: str(row["note"])):
            shown = list(group)
            for row in shown:
                counted.add(row)
            console.print(_note_table(note, shown, console))
        console.print(Text(", ".join(counted.words()), style="bold"))
    finally:
        if not console.is_terminal:
            console.width = was


def _note_table(note: str, rows: list[Row], console: Console) -> Table:
    unicode = console.encoding.lower().startswith("utf")
    width = min(console.width, MAX_WIDTH)
    with_status = any(row["status"] is not None for row in rows)
    free = max(
        width - 10 - 5 - 14 - with_status * (STATUS_WIDTH + 3), 30
    )  # characters that identifier, score and padding leave for mention, name and type
    table = Table(title=Text(note, style="bold") if note else None, title_justify="left", box=box.SIMPLE_HEAD, width=width, pad_edge=False)
    # fixed widths, so that the columns of all notes are aligned
    table.add_column("Mention", width=free * 34 // 100, overflow="fold")
    if with_status:
        table.add_column("Status", width=STATUS_WIDTH, overflow="fold")
    table.add_column("Concept", width=10, no_wrap=True)
    table.add_column("Name", width=free * 38 // 100, overflow="fold")
    table.add_column("Semantic type", width=free - free * 34 // 100 - free * 38 // 100, overflow="fold")
    table.add_column("Score", width=5, justify="right")
    times = Counter(same(row) for row in rows)
    for row in distinct(rows):
        mention = Text(one_line(row["mention"]))
        if (n := times[same(row)]) > 1:
            mention.append(f" {'×' if unicode else 'x'}{n}", style="dim")
        status = [Text(status_names(row), style="yellow")] if with_status else []
        if row["status"]:
            mention.stylize("strike dim" if "negated" in row["status"] else "italic")
        if row["cui"] == NIL:
            mention.stylize("dim")
            table.add_row(mention, *status, Text(NIL, style="dim"), "", "", "")
        else:
            score = "" if row["score"] is None else f"{row['score']:.2f}"
            table.add_row(mention, *status, Text(row["cui"], style="cyan"), Text(row["name"]), Text(", ".join(row["type_names"])), score)
    return table
