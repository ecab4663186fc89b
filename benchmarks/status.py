"""Measure clinical_status on mentions of MTSamples notes whose status a reader judged (examples/status)."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from spacy_sapbert.context.rules import SHIPPED, STATUSES, Rules

from .common import ROOT, Report, Table

SECTION = "status"
PROTOCOL = (
    "Mentions of notes and parts of notes of MTSamples (CC0), chosen by hashes: three in four from all mentions, the others near a word that may point to family, "
    "doubt, condition or past. One reader judged them all before writing the rules. The rules were written with a look at dev; held_out was measured once. "
    "right: mentions whose five statuses are all right."
)


def _predict(rules: Rules, text: str, mentions: list[dict[str, Any]]) -> list[dict[str, bool]]:
    kinds = {(mention["start"], mention["end"]): mention["kind"] for mention in mentions if "kind" in mention}
    return rules.statuses(text, [(mention["start"], mention["end"]) for mention in mentions], kinds=kinds)


def run(data: Path, report: Report) -> None:
    """Print precision and recall of each status, and the share of mentions that are right. No other data is needed."""
    rules = Rules(SHIPPED.read_text(encoding="utf-8"))
    table = Table("status", "Status of judged mentions", PROTOCOL, ["part", "status", "mentions", "precision %", "recall %"])
    for part in ("dev", "held_out"):
        notes = [json.loads(line) for line in (ROOT / "examples" / "status" / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()]
        hit, found, gold = Counter[str](), Counter[str](), Counter[str]()
        right = 0
        for _ in range(2):  # the first pass fills caches
            start = time.process_time()
            predicted = [_predict(rules, note["text"], note["mentions"]) for note in notes]
            seconds = time.process_time() - start
        for note, statuses in zip(notes, predicted):
            for mention, status in zip(note["mentions"], statuses):
                held = {name for name, true in status.items() if true}
                right += held == set(mention["status"])
                hit.update(held & set(mention["status"]))
                found.update(held)
                gold.update(mention["status"])
        for name in STATUSES:
            table.add(part, name, gold[name], 100 * hit[name] / max(found[name], 1), 100 * hit[name] / max(gold[name], 1))
        mentions = sum(len(note["mentions"]) for note in notes)
        words = sum(len(note["text"].split()) for note in notes)
        table.notes.append(
            f"{part}: {right} of {mentions} mentions right ({right / mentions:.1%}); {1000 * seconds * 400 / words:.2f} ms of CPU for 400 words"
        )
    report.add(SECTION, table)
