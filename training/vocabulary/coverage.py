"""Measure how many gold concepts of corpora are in a dictionary, by kind: `python -m training vocabulary coverage`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy_sapbert import bundle
from spacy_sapbert.build.default_linkers import find_linker
from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.files import write_text
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import read_corpus
from ..corpora.mention import GoldMention, resolve_gold

ALL = "all"


class Part(NamedTuple):
    """A part of a corpus whose gold concepts are looked up.

    Attributes:
        title: Its name in tables.
        file: Path of its file below the data folder.
        layout: One of `corpora.LAYOUTS`.
        kinds: Kind of mentions in the corpus -> kind in the table; empty: all mentions are one kind.
    """

    title: str
    file: str
    layout: str
    kinds: dict[str, str]


_NCBI = dict.fromkeys(("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention"), "disorders")
PARTS = (
    Part("LabeledIn", "corpora/labeledin/LabeledIn_annotated_XML.txt.gz", "labeledin", {}),
    Part("BioNNE-L train", "corpora/bionne_l/bionne_l_en_train.tar.gz", "bionne", {"DISO": "disorders", "CHEM": "chemicals", "ANATOMY": "anatomy"}),
    Part("GSC+ dev", "corpora/gsc_plus/GSCplus_dev_gold.tsv", "gsc", {}),
    Part("NCBI-disease dev", "corpora/ncbi_disease/devel.pubtator.txt.gz", "pubtator", _NCBI),
    Part("BC5CDR dev", "corpora/bc5cdr/dev.pubtator.txt.gz", "pubtator", {"Disease": "disorders", "Chemical": "chemicals"}),
)


def covered(mentions: Sequence[GoldMention], kb: KnowledgeBase) -> dict[str, Any]:
    """Count the mentions, and the distinct gold concepts, that a knowledge base covers.

    Args:
        mentions: Gold mentions; those without an id are left out.
        kb: The knowledge base. It covers a mention if it has all ids of one of the mention's alternatives.
    """
    seen: dict[Any, bool] = {}
    held = total = 0
    for mention in mentions:
        if not any(ids and ids != ("-1",) for ids in mention.gold):
            continue
        if mention.gold not in seen:
            seen[mention.gold] = resolve_gold(mention, kb.rows_of).answerable
        total += 1
        held += seen[mention.gold]
    return {
        "mentions": total,
        "mentions_covered": held,
        "mentions_share": held / max(1, total),
        "concepts": len(seen),
        "concepts_covered": sum(seen.values()),
        "concepts_share": sum(seen.values()) / max(1, len(seen)),
    }


def coverage(kb: KnowledgeBase, data: Path, parts: Sequence[Part] = PARTS) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the counts of `covered` by part and kind.

    Raises:
        SapbertError: E401 (a corpus is not in the data folder), and the errors of `read_corpus`.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        if not (data / part.file).exists():
            raise base_fail("E401", MissingFile, path=data / part.file)
        mentions = read_corpus(data / part.file, part.layout).mentions
        kinds: dict[str, list[GoldMention]] = {}
        for mention in mentions:
            if not part.kinds or mention.kind in part.kinds:
                kinds.setdefault(part.kinds.get(mention.kind, ALL), []).append(mention)
        found[part.title] = {kind: covered(kinds[kind], kb) for kind in sorted(kinds)}
    return found


def measure(linkers: Sequence[str], data: Path, out: Path) -> str:
    """Measure the dictionaries of linkers and write the counts as JSON.

    Args:
        linkers: Registered names of linkers, or folders of linkers or knowledge bases.
        data: Folder of corpora.
        out: The JSON file to write.

    Returns:
        The table, as Markdown.
    """
    found = {name: coverage(_kb(name), data) for name in linkers}
    write_text(out, json.dumps(found, indent=1) + "\n")
    return table(found)


def _kb(name: str) -> KnowledgeBase:
    folder = find_linker(name)
    return KnowledgeBase(folder / bundle.KB if (folder / bundle.KB).is_dir() else folder)


def table(found: dict[str, dict[str, dict[str, dict[str, Any]]]]) -> str:
    """Return a Markdown table: a row for each part and kind, two columns for each linker."""
    names = list(found)
    head = ["corpus", "kind", "mentions", "concepts", *(f"{what}, {name}" for name in names for what in ("mentions covered", "concepts covered"))]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for part, kinds in found[names[0]].items():
        for kind, counts in kinds.items():
            cells = [part, kind, f"{counts['mentions']:,}", f"{counts['concepts']:,}"]
            for name in names:
                of = found[name][part][kind]
                cells += [f"{of[what + '_share']:.1%}" for what in ("mentions", "concepts")]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
