"""Compare the two passes of the gold notes (examples/gold), which two readers annotated independently."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from spacy_sapbert.context.rules import STATUSES

from .common import ROOT, Report, Table

SECTION = "gold"
FOLDER = ROOT / "examples" / "gold"
PROTOCOL = (
    "Two readers annotated the twenty notes by the rules of examples/gold/README.md without seeing each other's annotation or the output of a system. "
    "Spans: F1 of one pass against the other; overlapping: one shared character is enough. Kind, CUI and status: of the mentions with the same span "
    "in both passes, those where both passes agree; NIL counts as a CUI here."
)
Pass = dict[str, dict[tuple[int, int], dict[str, Any]]]  # note -> (start, end) -> mention


class Agreement(NamedTuple):
    """Counts of where two passes agree.

    Attributes:
        first: Mentions of the first pass.
        second: Mentions of the second pass.
        exact: Mentions with the same span in both.
        overlapping: Mentions of both passes that share a character with a mention of the other pass.
        same: Number of mentions with the same span that agree, by field: kind, CUI, all statuses, and each status.
    """

    first: int
    second: int
    exact: int
    overlapping: int
    same: Counter[str]


def read_pass(path: Path) -> Pass:
    """Read a file of annotations: the mentions of each note by their span."""
    notes = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {note["note"]: {(m["start"], m["end"]): m for m in note["mentions"]} for note in notes}


def compare(first: Pass, second: Pass) -> Agreement:
    """Count where two passes agree.

    Args:
        first: One pass.
        second: The other, of the same notes.
    """
    exact = overlapping = 0
    same = Counter[str]()
    for note, ours in first.items():
        theirs = second[note]
        for mine, other in ((ours, theirs), (theirs, ours)):
            overlapping += sum(any(start < until and begin < end for begin, until in other) for start, end in mine)
        for place in ours.keys() & theirs.keys():
            one, two = ours[place], theirs[place]
            exact += 1
            same.update(field for field in ("kind", "cui", "status") if one[field] == two[field])
            same.update(status for status in STATUSES if one["status"][status] == two["status"][status])
    return Agreement(sum(map(len, first.values())), sum(map(len, second.values())), exact, overlapping, same)


def run(data: Path, report: Report) -> None:
    """Print the agreement of the two passes. No other data is needed."""
    found = compare(read_pass(FOLDER / "pass_a.jsonl"), read_pass(FOLDER / "pass_b.jsonl"))
    both = found.first + found.second
    table = Table("agreement", "Agreement of two readers of the gold notes", PROTOCOL, ["of", "agree", "%"])
    table.add("span, exact", found.exact, 200 * found.exact / both)
    table.add("span, overlapping", None, 100 * found.overlapping / both)
    for field in ("kind", "cui", "status", *STATUSES):
        table.add(f"{field}, same span", found.same[field], 100 * found.same[field] / found.exact)
    table.notes.append(f"mentions: {found.first} in pass A, {found.second} in pass B")
    report.add(SECTION, table)
