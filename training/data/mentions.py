"""Make pairs of a corpus's mentions with the names of their concepts, to train an encoder further.

Source: supervised fine-tuning of SapBERT (Liu et al., NAACL 2021, the fine-tuned rows of its Table 1): the loss and mining of
pretraining, on each mention with each name of its concept. The linker first looks for exact matches (its setting `exact_match`) and uses the encoder
only for the other mentions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.kb import curies
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import Corpus, by_document, fitting, placed, read_corpus, resolved_texts
from ..errors import fail
from .labels import assign_labels
from .pairs import HELD_OUT, MENTIONS, write_pairs

Annotated = tuple[str, tuple[tuple[str, ...], ...]]  # mention, alternatives of ids


def read_mentions(path: str | Path, layout: str | None = None, *, kinds: Collection[str] | None = None, **options: Any) -> list[Annotated]:
    """Read mentions and their gold ids from a corpus of any layout. Abbreviations are resolved in each text.

    Args:
        path: The file or folder.
        layout: The layout, see `read_corpus`; None: recognised from the content.
        kinds: Only mentions of these kinds; None: all.
        options: Options of the layout's reader.

    Raises:
        SapbertError: Those of `read_corpus`.
    """
    return resolved_mentions(read_corpus(path, layout, kinds=kinds, **options))


def resolved_mentions(corpus: Corpus) -> list[Annotated]:
    """Return the mentions of a corpus with abbreviations resolved.

    A mention whose text is not at its offsets is returned as the corpus writes it. Ids of whole texts are left out.
    """
    fits, misfits = fitting(corpus)
    of_texts = [m for document, some in by_document(fits).items() for m in some if document not in fits.documents or placed(fits, m)]
    return [(text, m.gold) for m, text in zip(of_texts, resolved_texts(fits)[0])] + [(m.text, m.gold) for m in misfits]


class _Chosen:
    """Mentions that can be pairs or queries: of one concept that the knowledge base has.

    Attributes:
        found: (label, mention, names of its concepts), sorted; mentions and names are normalised.
        counts: What was left out.
        unknown: Ids that the knowledge base does not have.
    """

    def __init__(self, kb: KnowledgeBase, labels: Any, mentions: Iterable[Annotated], *, known_names: bool) -> None:
        self.counts = {"mentions": 0, "distinct": 0, "composite": 0, "several_concepts": 0, "not_in_kb": 0, "already_a_name": 0}
        self.found: list[tuple[int, str, list[str]]] = []
        self.unknown: list[str] = []
        rows_of: dict[str, set[int]] = {}
        for text, alternatives in mentions:
            self.counts["mentions"] += 1
            if any(len(alternative) > 1 for alternative in alternatives):
                self.counts["composite"] += 1
                continue
            known = {row for (i,) in alternatives for row in kb.rows_of(i)[:1]}  # the first concept has the names of the code
            if not known:
                self.counts["not_in_kb"] += 1
                self.unknown += [i for (i,) in alternatives]
            elif form := kb.encoded_form(text):
                rows_of.setdefault(form, set()).update(known)
        for text, concepts in sorted(rows_of.items()):
            mine = {int(labels[row]) for row in concepts}
            names = {kb.encoded_form(name.text, name.language) for row in concepts for name in kb.concept(row).names}
            self.counts["distinct"] += 1
            if len(mine) > 1:
                self.counts["several_concepts"] += 1
                continue
            self.counts["already_a_name"] += text in names
            if text not in names or (known_names and len(names) > 1):
                self.found.append((mine.pop(), text, sorted(names - {text})))
        self.found.sort(key=lambda entry: entry[:2])


def build_mention_pairs(
    kb: KnowledgeBase,
    mentions: Iterable[Annotated],
    out: str | Path,
    *,
    seed: int = 0,
    held_out: float = 0.1,
    max_pairs: int = 50,
    known_names: bool = False,
    queries: Iterable[Annotated] | None = None,
) -> dict[str, Any]:
    """Write a folder of pairs: each mention with names of its concept.

    These mentions are in no pair, and are counted: composites, mentions with several concepts, mentions whose concept is not in `kb`,
    and, without `known_names`, mentions that are already a name of their concept.

    Args:
        kb: The knowledge base; gold ids may be any ids that its `rows_of` knows.
        mentions: Texts, each with its alternatives of ids.
        out: Folder to write.
        seed: Seed of the draw of queries, and of the names of a concept.
        held_out: Share of the mentions that become queries instead of pairs.
        max_pairs: Greatest number of pairs of one mention.
        known_names: Whether a mention that is a name of its concept makes pairs with the other names, as in SapBERT.
        queries: Mentions that become the queries, instead of a share; those that are a name of their concept are left out.

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
    chosen = _Chosen(kb, labels, mentions, known_names=known_names)
    single, counts = chosen.found, chosen.counts
    chance = np.random.default_rng([seed, 4])
    kept: set[int] = set()
    if queries is None:
        kept = set(chance.choice(len(single), round(held_out * len(single)), replace=False).tolist()) if single else set()
        asked = [single[i] for i in sorted(kept)]
    else:
        asked = _Chosen(kb, labels, queries, known_names=False).found
    pairs: list[dict[str, Any]] = []
    for i, (label, text, names) in enumerate(single):
        if i not in kept:
            some = sorted(chance.choice(len(names), min(max_pairs, len(names)), replace=False).tolist())
            pairs.extend({"anchor": text, "positive": names[j], "label": label} for j in some)
    if not pairs:
        why = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in counts.items())
        if chosen.unknown:
            known = ", ".join(kb.vocabularies_by_size[:12])
            why += f"; the unknown ids are of {curies.vocabularies_in_words(chosen.unknown)}, and the knowledge base has {known}"
        raise fail("E504", why=why)
    pairs.sort(key=lambda row: row["label"])
    counts.update(
        pairs=len(pairs),
        pairs_before_trimming=sum(len(names) for i, (_, _, names) in enumerate(single) if i not in kept),
        labels_in_pairs=len({row["label"] for row in pairs}),
        names_in_pairs=len({row["anchor"] for row in pairs} | {row["positive"] for row in pairs}),
        ambiguous_names=counts["several_concepts"],
        held_out_queries=len(asked),
        zero_shot_queries=0,
    )
    rows = [{"query": text, "split": HELD_OUT, "label": label} for label, text, _ in asked]
    settings = {"seed": seed, "held_out": held_out, "zero_shot": 0.0, "max_pairs": max_pairs}
    write_pairs(out, kb, labels, pairs, rows, counts, settings, MENTIONS)
    return counts
