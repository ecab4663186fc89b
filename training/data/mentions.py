"""Make pairs of a corpus's training mentions with the names of their concepts, to train an encoder further.

These pairs are for the fine-tuned rows of SapBERT's Table 3 (Liu et al., NAACL 2021): the same loss, on annotated mentions.
The linker takes exact matches first (its setting `exact_match`), and asks the encoder for the other mentions.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.kb import curies
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import fitting, gold_ids, open_lines, read_pubtator, resolved_texts
from ..errors import fail
from .labels import assign_labels
from .pairs import HELD_OUT, MENTIONS, write_pairs

Annotated = tuple[str, tuple[tuple[str, ...], ...]]  # mention, alternatives of ids


def read_mentions(path: str | Path, layout: str = "pubtator", kinds: Sequence[str] | None = None) -> list[Annotated]:
    """Read mentions and their gold ids.

    Args:
        path: The file.
        layout: "pubtator" (abbreviations are resolved in each text), or "tsv" (mention TAB ids, with `|` and `+` as in PubTator; no header).
        kinds: Kinds of PubTator's mentions; None: all.

    Raises:
        SapbertError: E401 (no file), E403 (a bad line of a TSV), E511 (unknown layout).
    """
    if not Path(path).is_file():
        raise base_fail("E401", MissingFile, path=path)
    if layout == "pubtator":
        fits, misfits = fitting(read_pubtator(open_lines(Path(path)), kinds))
        texts = resolved_texts(fits)[0]
        order = {document: i for i, document in enumerate(fits.documents)}
        mentions = sorted(fits.mentions, key=lambda mention: order[mention.document])  # stable sort: the order of `resolved_texts`
        return [(text, mention.gold) for mention, text in zip(mentions, texts)] + [(mention.text, mention.gold) for mention in misfits]
    if layout != "tsv":
        raise fail("E511", setting="layout", value=layout, why="it must be 'pubtator' or 'tsv'")
    found: list[Annotated] = []
    for number, row in enumerate(csv.reader(open_lines(Path(path)), delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        if len(row) < 2 or not row[0].strip() or not gold_ids(row[1]):
            raise base_fail("E403", path=path, line=number, why="it must hold a mention, a tab, and one or more ids.")
        found.append((row[0], gold_ids(row[1])))
    return found


def build_mention_pairs(
    kb: KnowledgeBase, mentions: Iterable[Annotated], out: str | Path, *, seed: int = 0, held_out: float = 0.1, max_pairs: int = 50
) -> dict[str, Any]:
    """Write a folder of pairs: each mention with names of its concept.

    These mentions are in no pair, and are counted: composites, mentions with several concepts, mentions whose concept is not in `kb`,
    and mentions that are already a name of their concept.

    Args:
        kb: The knowledge base.
        mentions: Texts, each with its alternatives of ids.
        out: Folder to write.
        seed: Decides the queries, and which names of a concept are taken.
        held_out: Share of the mentions that become queries instead of pairs.
        max_pairs: Pairs of one mention.

    Returns:
        The counts, as in the manifest.

    Raises:
        SapbertError: E503 (a setting), E504 (no pair).
    """
    if not 0 <= held_out < 1:
        raise fail("E503", setting="held_out", value=held_out, why="it is a share of the mentions, from 0 up to but not including 1")
    if max_pairs < 1:
        raise fail("E503", setting="max_pairs", value=max_pairs, why="it must be at least 1")
    labels, _ = assign_labels(kb)
    counts = {"mentions": 0, "distinct": 0, "composite": 0, "several_concepts": 0, "not_in_kb": 0, "already_a_name": 0}
    rows_of: dict[str, set[int]] = {}
    unknown: list[str] = []
    for text, alternatives in mentions:
        counts["mentions"] += 1
        if any(len(alternative) > 1 for alternative in alternatives):
            counts["composite"] += 1
            continue
        known = {row for (i,) in alternatives for row in kb.rows_of(i)[:1]}  # of a code's concepts the best: its names are those of the code
        if not known:
            counts["not_in_kb"] += 1
            unknown += [i for (i,) in alternatives]
        elif normalise(text):
            rows_of.setdefault(normalise(text), set()).update(known)
    single: list[tuple[int, str, list[str]]] = []
    for text, concepts in sorted(rows_of.items()):
        mine = {int(labels[row]) for row in concepts}
        names = {normalise(name.text, name.language) for row in concepts for name in kb.concept(row).names}
        counts["distinct"] += 1
        if len(mine) > 1:
            counts["several_concepts"] += 1
        elif text in names:
            counts["already_a_name"] += 1
        else:
            single.append((mine.pop(), text, sorted(names)))
    single.sort(key=lambda entry: entry[:2])
    chance = np.random.default_rng([seed, 4])
    queries = set(chance.choice(len(single), round(held_out * len(single)), replace=False).tolist()) if single else set()
    pairs: list[dict[str, Any]] = []
    for i, (label, text, known_names) in enumerate(single):
        if i not in queries:
            chosen = sorted(chance.choice(len(known_names), min(max_pairs, len(known_names)), replace=False).tolist())
            pairs.extend({"anchor": text, "positive": known_names[j], "label": label} for j in chosen)
    if not pairs:
        why = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in counts.items())
        if unknown:
            ours = ", ".join(kb.vocabularies_by_size[:12])
            why += f"; the unknown ids are of {curies.vocabularies_in_words(unknown)}, and the knowledge base has {ours}"
        raise fail("E504", why=why)
    in_pairs = len({row["anchor"] for row in pairs}) + len({row["positive"] for row in pairs})
    counts.update(
        pairs=len(pairs),
        pairs_before_trimming=sum(len(names) for i, (_, _, names) in enumerate(single) if i not in queries),
        labels_in_pairs=len({row["label"] for row in pairs}),
        names_in_pairs=in_pairs,
        ambiguous_names=counts["several_concepts"],
        held_out_queries=len(queries),
        zero_shot_queries=0,
    )
    kept = [{"query": text, "split": HELD_OUT, "label": label} for i, (label, text, _) in enumerate(single) if i in queries]
    settings = {"seed": seed, "held_out": held_out, "zero_shot": 0.0, "max_pairs": max_pairs}
    write_pairs(out, kb, labels, pairs, kept, counts, settings, MENTIONS)
    return counts
