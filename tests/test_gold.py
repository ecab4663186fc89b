"""The gold notes of examples/gold are well-formed, and the counts of agreement are as computed by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gold import compare
from spacy_sapbert.context.rules import STATUSES
from spacy_sapbert.kb import semantic_types

ROOT = Path(__file__).resolve().parent.parent
NOTES = sorted((ROOT / "examples" / "notes").glob("*.txt"))
FILES = ("gold", "pass_a", "pass_b")
CUI = re.compile(r"C\d{7}")


def annotated(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of annotations."""
    return [json.loads(line) for line in (ROOT / "examples" / "gold" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def faults(note: dict[str, Any], text: str) -> list[str]:
    """Return the faults in the annotations of a note."""
    kinds, found, end = semantic_types.groups(), [], 0
    for mention in note["mentions"]:
        place = f"{note['note']} {mention['start']}"
        if text[mention["start"] : mention["end"]] != mention["text"] or not mention["text"] or mention["text"] != mention["text"].strip():
            found.append(f"{place}: text")
        if mention["start"] < end:
            found.append(f"{place}: overlaps the mention before it")
        if mention["kind"] not in kinds:
            found.append(f"{place}: kind")
        if mention["cui"] is not None and not CUI.fullmatch(mention["cui"]):
            found.append(f"{place}: cui")
        if list(mention["status"]) != list(STATUSES) or not all(type(true) is bool for true in mention["status"].values()):
            found.append(f"{place}: status")
        end = mention["end"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_all_notes_are_there_and_well_formed(name):
    notes = annotated(name)
    assert [note["note"] for note in notes] == [path.stem for path in NOTES]
    assert len(notes) == 20
    for note, path in zip(notes, NOTES):
        assert not faults(note, path.read_bytes().decode("utf-8"))
        assert len(note["mentions"]) > 30


def test_faults_are_seen():
    status = dict.fromkeys(STATUSES, False)
    good = {"start": 3, "end": 8, "text": "fever", "kind": "DISO", "cui": "C0015967", "status": status}
    bad = [
        {"end": 7},
        {"kind": "Disease"},
        {"cui": "HP:0001945"},
        {"status": {"negated": True}},
        {"status": dict.fromkeys(STATUSES, 0)},
    ]
    assert not faults({"note": "x", "mentions": [good]}, "No fever")
    for change in bad:
        assert len(faults({"note": "x", "mentions": [{**good, **change}]}, "No fever")) == 1, change
    assert faults({"note": "x", "mentions": [good, good]}, "No fever") == ["x 3: overlaps the mention before it"]


def test_agreement_by_hand():
    def mention(start: int, end: int, cui: str | None, *held: str) -> dict[str, Any]:
        return {"start": start, "end": end, "kind": "DISO", "cui": cui, "status": {status: status in held for status in STATUSES}}

    def of(*mentions: dict[str, Any]) -> dict[str, dict[tuple[int, int], dict[str, Any]]]:
        return {"x": {(m["start"], m["end"]): m for m in mentions}}

    first = of(mention(0, 5, "C0000001"), mention(10, 20, "C0000002", "negated"), mention(30, 40, None))
    second = of(mention(0, 5, "C0000001", "family"), mention(10, 20, None, "negated"), mention(25, 31, None), mention(50, 51, None))
    found = compare(first, second)
    assert (found.first, found.second, found.exact, found.overlapping) == (3, 4, 2, 6)
    assert (found.same["kind"], found.same["cui"], found.same["status"], found.same["family"], found.same["negated"]) == (2, 1, 1, 1, 2)
