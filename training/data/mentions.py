"""A task's training mentions -> pairs (mention, a name of its concept), to go on training a trained encoder with.

The fine-tuned rows of SapBERT's Table 3 (Liu et al., NAACL 2021): the same loss, on what annotators wrote. In the linker the dictionary goes
first (its setting `exact_match`) and the encoder is what it falls back on.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.files import write_manifest, writing_folder
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import fitting, gold_ids, open_lines, read_pubtator, resolved_texts
from ..errors import fail
from .pairs import HELD_OUT, KIND, LABELS, MENTIONS, PAIRS, QUERIES, QUERY_SCHEMA, SCHEMA, VERSION, assign_labels, sources_of

Annotated = Tuple[str, Tuple[Tuple[str, ...], ...]]  # mention, alternatives of ids


def read_mentions(path: Union[str, Path], layout: str = "pubtator", kinds: Optional[Sequence[str]] = None) -> List[Annotated]:
    """Mentions and their gold ids. layout: "pubtator" (abbreviations are resolved over each text), or "tsv" (mention TAB ids, `|` and `+` as
    in PubTator; no header). kinds: of PubTator's mentions; None: all.

    RAISES: SapbertError E401 (no file), E403 (a line of a TSV), E511 (layout).
    """
    if not Path(path).is_file():
        raise base_fail("E401", MissingFile, path=path)
    if layout == "pubtator":
        fits, misfits = fitting(read_pubtator(open_lines(Path(path)), kinds))
        texts = resolved_texts(fits)[0]
        order = {document: i for i, document in enumerate(fits.documents)}
        mentions = sorted(fits.mentions, key=lambda mention: order[mention.document])  # stable: as `resolved_texts` gives them
        return [(text, mention.gold) for mention, text in zip(mentions, texts)] + [(mention.text, mention.gold) for mention in misfits]
    if layout != "tsv":
        raise fail("E511", setting="layout", value=layout, why="it must be 'pubtator' or 'tsv'")
    found: List[Annotated] = []
    for number, row in enumerate(csv.reader(open_lines(Path(path)), delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        if len(row) < 2 or not row[0].strip() or not gold_ids(row[1]):
            raise base_fail("E403", path=path, line=number, why="it must hold a mention, a tab, and one or more ids.")
        found.append((row[0], gold_ids(row[1])))
    return found


def build_mention_pairs(
    kb: KnowledgeBase, mentions: Iterable[Annotated], out: Union[str, Path], *, seed: int = 0, held_out: float = 0.1, max_pairs: int = 50
) -> Dict[str, Any]:
    """Write a folder as `training.data.pairs` does: each mention with the names of its concept, at most `max_pairs` of them.

    A mention that annotators gave several concepts, a composite, one that is no concept of `kb`, or one that is a name of its concept as it is, is
    in no pair (counted). held_out (float): share of the mentions that become queries instead.
    RETURNS (Dict[str, Any]): the counts. RAISES: SapbertError E503 (a setting), E504 (no pair).
    """
    if not 0 <= held_out < 1:
        raise fail("E503", setting="held_out", value=held_out, why="it is a share of the mentions, from 0 up to but not including 1")
    if max_pairs < 1:
        raise fail("E503", setting="max_pairs", value=max_pairs, why="it must be at least 1")
    labels, _ = assign_labels(kb)
    counts = {"mentions": 0, "distinct": 0, "composite": 0, "several_concepts": 0, "not_in_kb": 0, "already_a_name": 0}
    rows_of: Dict[str, set[int]] = {}
    for text, alternatives in mentions:
        counts["mentions"] += 1
        if any(len(alternative) > 1 for alternative in alternatives):
            counts["composite"] += 1
            continue
        known = {kb.row_of(i) for (i,) in alternatives if i in kb}
        if not known:
            counts["not_in_kb"] += 1
        elif normalise(text):
            rows_of.setdefault(normalise(text), set()).update(known)
    single: List[Tuple[int, str, List[str]]] = []
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
    pairs: List[Dict[str, Any]] = []
    for i, (label, text, known_names) in enumerate(single):
        if i not in queries:
            chosen = sorted(chance.choice(len(known_names), min(max_pairs, len(known_names)), replace=False).tolist())
            pairs.extend({"anchor": text, "positive": known_names[j], "label": label} for j in chosen)
    if not pairs:
        raise fail("E504", why=", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in counts.items()))
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
    with writing_folder(out) as folder:
        np.save(folder / LABELS, labels, allow_pickle=False)
        kept = [{"query": text, "split": HELD_OUT, "label": label} for i, (label, text, _) in enumerate(single) if i in queries]
        pq.write_table(pa.Table.from_pylist(kept, schema=QUERY_SCHEMA), folder / QUERIES)
        pq.write_table(pa.Table.from_pylist(pairs, schema=SCHEMA), folder / PAIRS)
        settings = {"seed": seed, "held_out": held_out, "zero_shot": 0.0, "max_pairs": max_pairs}
        write_manifest(
            folder,
            KIND,
            VERSION,
            {"counts": counts, "settings": settings, "kb": kb.fingerprint, "sources": [*sources_of(kb), MENTIONS]},
        )
    return counts
