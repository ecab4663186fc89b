"""PubTator: NCBI-disease, BC5CDR, MedMentions (full and ST21pv), BioRED."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from ..errors import fail
from .corpus import Corpus, misfit, wanted
from .ids import gold_ids
from .mention import GoldMention, Ids

_HEAD = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_RELATION = re.compile(r"[^\t]+\t[A-Za-z][\w -]*\t[^\t]+\t[^\t]+(\t[^\t]*)?")
_BARE = {"GeneOrGeneProduct": "NCBIGene", "Gene": "NCBIGene", "OrganismTaxon": "NCBITaxon", "Species": "NCBITaxon"}  # vocabulary of bare numbers
_VARIANTS = frozenset({"SequenceVariant", "DNAMutation", "ProteinMutation"})  # `c|SUB|G|1064|A` is one id
_EXPECTED = "`id|t|title`, `id|a|abstract`, `id TAB start TAB end TAB mention TAB kind TAB ids` or a relation"


def read_pubtator(lines: Iterable[str], kinds: Collection[str] | None = None, *, source: str | Path = "PubTator") -> Corpus:
    """Read PubTator: `id|t|title`, `id|a|abstract`, then `id TAB start TAB end TAB mention TAB kind TAB ids`.

    Offsets count the title, one character, and the abstract. In ids, `|` separates alternatives, `+` and `,` (BioRED) the parts of a composite;
    `gold_ids` spells them: bare MeSH ids (D…, C…) and OMIM numbers get their prefix, MedMentions' `UMLS:C…` and C… are CUIs, numbers of
    genes and species are NCBI's. BC5CDR names the parts of a composite in a seventh field: there, `|` separates the ids of the parts.
    MedMentions' kinds are semantic types, separated by commas.

    Lines of relations (`id TAB CID TAB id TAB id`) are counted and left out. Documents that occur twice are counted; their mentions are kept twice.

    Args:
        lines: The lines.
        kinds: Only mentions of these kinds; None: all.
        source: File name for error messages.

    Raises:
        SapbertError: E560 (a line), E566 (a mention of a document without a title).
    """
    titles: dict[str, str] = {}
    abstracts: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        if head := _HEAD.fullmatch(line):
            part = titles if head[2] == "t" else abstracts
            counts["documents_twice"] += head[2] == "t" and head[1] in titles
            part[head[1]] = head[3]
        elif _RELATION.fullmatch(line):
            counts["relations"] += 1
        elif line.strip():
            fields = line.split("\t")
            if not 5 <= len(fields) <= 7 or not (fields[1].isdecimal() and fields[2].isdecimal()):
                raise misfit(source, number, line, _EXPECTED)
            document, start, end, text, kind = fields[:5]
            if wanted(kind, kinds):
                if len(text) > int(end) - int(start):  # one mention of NCBI-disease has spaces around it that its offsets do not count
                    text = text.strip()
                mentions.append(GoldMention(document, int(start), int(end), text, _gold(kind, fields[5:]), kind))
    if unknown := dict.fromkeys(mention.document for mention in mentions if mention.document not in titles):
        raise fail("E566", path=source, count=len(unknown), documents=", ".join(list(unknown)[:5]))
    documents = {i: f"{title} {abstracts.get(i, '')}" for i, title in titles.items()}
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _gold(kind: str, rest: list[str]) -> tuple[Ids, ...]:
    """Return the gold of a mention from its last fields: the ids, if there are any, and the parts of a composite (BC5CDR)."""
    if not rest:
        return ()
    if kind in _VARIANTS:
        return ((rest[0].strip(),),) if rest[0].strip() else ()
    return gold_ids(rest[0].replace("|", "+") if len(rest) > 1 else rest[0], _BARE.get(kind, ""))
