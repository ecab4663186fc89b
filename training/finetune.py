"""Fine-tune an encoder on a task's annotated mentions: `python -m training finetune CORPUS --kb KB --encoder ENCODER --out OUT`.

The steps, from top to bottom: check and read the corpora, make the pairs, train. Each mention is paired with the names of its concept; all other
settings are in the recipe (training/configs/finetune.cfg, SapBERT's settings). Figures before and after are those of the mentions of a dev part.

Source: Liu et al., NAACL 2021, supervised fine-tuning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .corpora import Corpus, read_corpus, read_split, shared_documents
from .data.mentions import build_mention_pairs, resolved_mentions
from .errors import fail
from .train import train

RECIPE = Path("training/configs/finetune.cfg")
_TEST = re.compile(r"(?<![a-z])test(?![a-z])|(?<![a-z])test(?:ing)?_?(?:set|data|corpus)|Test|(?<![A-Za-z])TEST")
_OTHER = re.compile(r"(?i)train|dev|valid")


def looks_like_test(path: Path) -> bool:
    """Say whether a file or folder is named as the test part of a corpus. If its own name mentions no part, its folder's name decides."""
    return bool(_TEST.search(path.name)) or (not _OTHER.search(path.name) and bool(_TEST.search(path.resolve().parent.name)))


def read_parts(paths: Sequence[Path], *, splits: Sequence[Path], kinds: Collection[str] | None, layout: str | None, **options: Any) -> list[Corpus]:
    """Read parts of corpora, all of one layout.

    Args:
        paths: Files or folders.
        splits: Files that list the documents to use (`read_split`); empty: all documents.
        kinds: See `read_corpus`.
        layout: See `read_corpus`; None: each is recognised from its content.
        options: Options of the layout's reader.

    Raises:
        SapbertError: Those of `read_corpus`.
    """
    documents = frozenset().union(*map(read_split, splits)) if splits else None
    return [read_corpus(path, layout, kinds=kinds, documents=documents, **options) for path in paths]


def finetune(
    corpora: Sequence[Path],
    kb: Path,
    out: Path,
    *,
    recipe: Path = RECIPE,
    encoder: str = "",
    dev: Sequence[Path] = (),
    split: Sequence[Path] = (),
    dev_split: Sequence[Path] = (),
    layout: str | None = None,
    kinds: Collection[str] | None = None,
    allow_test: bool = False,
    seed: int = 0,
    max_pairs: int = 50,
    arguments: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Fine-tune an encoder. The pairs are written to `<out>.pairs`. The same command resumes a killed training.

    Args:
        corpora: Parts to train on.
        kb: The knowledge base whose names the mentions are paired with.
        out: The folder of the encoder.
        recipe: A recipe of self-alignment.
        encoder: Encoder to start from; "": the one in the recipe.
        dev: Parts whose mentions are looked up before and after the training; empty: nothing is measured.
        split: Files that list the documents to train on, for corpora whose parts share one file (MedMentions); empty: all documents.
        dev_split: The same for `dev`.
        layout: Layout of all parts; None: each is recognised.
        kinds: Only mentions of these kinds; None: all.
        allow_test: Whether to train on a file that looks like a test part.
        seed: Seed of the choice of names, and of the training.
        max_pairs: Greatest number of pairs of one mention.
        arguments: `--section.key value` …, which change the recipe.
        options: Options of the layout's reader.

    Returns:
        The training's report. Its entry `mentions` has the counts of `build_mention_pairs` and the number of documents that are in a training part
        and in a dev part.

    Raises:
        SapbertError: E528 (a test part), E511 (`dev_split` without `dev`), E504 (no pair), those of `read_corpus` and of `train`.
    """
    if dev_split and not dev:
        raise fail("E511", setting="--dev-split", value=str(dev_split[0]), why="it chooses documents of a corpus; give the corpus by --dev")
    for path in (*corpora, *split):
        if looks_like_test(path) and not allow_test:
            raise fail("E528", path=path)
    parts, measured = (
        read_parts(paths, splits=splits, layout=layout, kinds=kinds, **options) for paths, splits in ((corpora, split), (dev, dev_split))
    )
    mentions, queries = ([mention for part in some for mention in resolved_mentions(part)] for some in (parts, measured))
    pairs = Path(f"{out}.pairs")
    how: dict[str, Any] = {"seed": seed, "max_pairs": max_pairs, "known_names": True, "queries": queries}
    counts = build_mention_pairs(KnowledgeBase(kb), mentions, pairs, **how)
    named = {f"train {i}": part for i, part in enumerate(parts)} | {f"dev {i}": part for i, part in enumerate(measured)}
    shared = [pair for pair in shared_documents(named) if pair.left.split()[0] != pair.right.split()[0]]
    counts["documents_in_both"] = len({document for pair in shared for document in pair.documents})
    given = ["--paths.pairs", str(pairs), "--paths.kb", str(kb), "--paths.out", str(out), "--training.seed", str(seed)]
    report = train(recipe, [*given, *(["--paths.base", encoder] if encoder else []), *arguments])
    return {**report, "mentions": counts}
