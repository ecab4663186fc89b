"""How many gold concepts of corpora a dictionary holds, by kind: `python -m training vocabulary coverage`."""

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
    """A part of a corpus whose gold is looked up.

    Attributes:
        title: its name in tables.
        file: below the data folder.
        layout: one of `corpora.LAYOUTS`.
        kinds: kind of mentions in the corpus -> in the table; empty: all kinds are one.
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
    """Count the mentions and the distinct gold concepts that a knowledge base has.

    Args:
        mentions: gold mentions; those without an id are left out.
        kb: the knowledge base. A mention is covered if one of its alternatives is there with all of its ids.
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
        SapbertError: E401, a corpus is not in the data folder; what `read_corpus` raises.
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
        linkers: registered names or folders of linkers, or of knowledge bases.
        data: folder of corpora.
        out: the JSON file.

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
