"""Tables of mentions: plain TSV, COMETA, AskAPatient, SMM4H, biomap."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from spacy_sapbert.errors import fail as base_fail

from ..errors import fail
from .corpus import MADE_UP, Corpus, misfit
from .ids import gold_ids
from .mention import GoldMention

SNOMED, MEDDRA = "SNOMEDCT_US", "MDR"
COLUMNS = ("mention", "ids", "document", "start", "end")
GRANULARITIES = ("general", "specific")
SMM4H = {  # what a cell is -> names of its column
    "mention": ("extraction", "ae"),
    "ids": ("meddra_code", "term_code"),
    "document": ("tweet_id", "samp_id"),
}


def read_tsv(lines: Iterable[str], *, texts: Mapping[str, str] | None = None, vocabulary: str = "", source: str | Path = "TSV") -> Corpus:
    """Read a TSV: mention TAB ids, and optionally document, or document, start and end. Quotes have no special meaning.

    A first line `mention TAB ids …` names the columns, which may then be in another order.

    Args:
        lines: The lines.
        texts: Document -> text; without it, mentions have no text around them.
        vocabulary: Vocabulary of ids without a prefix, as in `gold_id`.
        source: File name for error messages.

    Raises:
        SapbertError: E560 (a line), E566 (documents that `texts` does not have).
    """
    columns: list[str] = []
    mentions: list[GoldMention] = []
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if not line.strip():
            continue
        if not columns:
            if {"mention", "ids"} <= set(fields) <= set(COLUMNS):
                columns = fields
                continue
            columns = list(COLUMNS[: len(fields)])
        row = dict(zip(columns, fields))
        start, end = row.get("start", "0"), row.get("end", "0")
        whole = len(fields) == len(columns) and len(columns) in (2, 3, 5)
        if not (whole and row["mention"].strip() and gold_ids(row["ids"]) and start.isdecimal() and end.isdecimal()):
            raise misfit(source, number, line, f"`{' TAB '.join(columns if len(columns) in (2, 3, 5) else COLUMNS)}`")
        mentions.append(GoldMention(row.get("document", ""), int(start), int(end), row["mention"], gold_ids(row["ids"], vocabulary)))
    documents = dict(texts or {})
    if texts is not None and (unknown := dict.fromkeys(m.document for m in mentions if m.document not in documents)):
        raise fail("E566", path=source, count=len(unknown), documents=", ".join(list(unknown)[:5]))
    return Corpus(documents, mentions)


def read_cometa(lines: Iterable[str], *, granularity: str = "general", vocabulary: str = SNOMED, source: str | Path = "COMETA") -> Corpus:
    """Read COMETA: a CSV separated by tabs, with `Term`, `General SNOMED ID`, `Specific SNOMED ID`, `Example`.

    The term is searched in its example. If it is found, the example becomes the document of the mention, named by the column ID or the number of the
    row. Terms that are not in their example are counted and have no offsets. Terms that occur there more than once are counted; the first is taken.

    Args:
        lines: The lines.
        granularity: Which of the two ids is gold, "general" or "specific".
        vocabulary: Vocabulary of ids without a prefix.
        source: File name for error messages.

    Raises:
        SapbertError: E560 (a row), E568 (granularity).

    Source:
        Basaldella et al., EMNLP 2020.
    """
    if granularity not in GRANULARITIES:
        raise fail("E568", option="granularity", layout="cometa", value=granularity, why=f"it must be one of {', '.join(GRANULARITIES)}")
    column = f"{granularity.capitalize()} SNOMED ID"
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    for number, row in _rows(lines, ("Term", column), "\t", source):
        term, gold = row["Term"].strip(), gold_ids(row[column], vocabulary)
        if not term or not gold:
            raise misfit(source, number, "\t".join(row.values()), f"a row with `Term` and `{column}`")
        document, example = row.get("ID") or f"{MADE_UP}{number}", row.get("Example", "")
        places = list(re.finditer(rf"(?<!\w){re.escape(term)}(?!\w)", example, re.IGNORECASE)) or list(
            re.finditer(re.escape(term), example, re.IGNORECASE)
        )
        counts["not_in_their_example"] += not places
        counts["in_their_example_more_than_once"] += len(places) > 1
        if places:
            documents[document] = example
            mentions.append(GoldMention(document, places[0].start(), places[0].end(), places[0][0], gold))
        else:
            mentions.append(GoldMention("", 0, 0, term, gold))
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def read_askapatient(lines: Iterable[str], *, vocabulary: str = SNOMED, source: str | Path = "AskAPatient") -> Corpus:
    """Read AskAPatient: id TAB preferred name TAB mention, without documents. Its files are Latin-1.

    Args:
        lines: The lines.
        vocabulary: Vocabulary of ids without a prefix.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a line.

    Source:
        Limsopatham and Collier, ACL 2016.
    """
    mentions: list[GoldMention] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not fields[2].strip() or not gold_ids(fields[0]):
            raise misfit(source, number, line, "`id TAB preferred name TAB mention`")
        mentions.append(GoldMention("", 0, 0, fields[2].strip(), gold_ids(fields[0], vocabulary)))
    return Corpus({}, mentions)


def read_smm4h(lines: Iterable[str], *, vocabulary: str = MEDDRA, source: str | Path = "SMM4H") -> Corpus:
    """Read mentions of tweets with MedDRA codes: SMM4H's tables, and the splits of Portelli et al.

    Tables of 2017: `id TAB mention TAB code`, without a header. Later tables: tabs and a header with `tweet_id`, `extraction` and `meddra_code`.
    Portelli et al.: commas and a header with `samp_id`, `ae` and `term_code`. A tweet is a document without a text. Rows without a mention (tweets
    that have none) are counted and left out.

    Args:
        lines: The lines.
        vocabulary: Vocabulary of ids without a prefix.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a row.

    Source:
        Sarker et al., JAMIA 2018; Portelli et al., EMNLP 2022.
    """
    lines = list(lines)
    first = lines[0].lstrip("\ufeff") if lines else ""
    delimiter = "\t" if "\t" in first else ","
    columns = {what: next((name for name in names if name in first.split(delimiter)), "") for what, names in SMM4H.items()}
    if columns["mention"] and columns["ids"]:
        rows = _rows([first, *lines[1:]], [name for name in columns.values() if name], delimiter, source)
        found = [(n, [row.get(columns[what], "") for what in ("document", "mention", "ids")]) for n, row in rows]
    else:
        found = [(n, line.split("\t")) for n, line in enumerate([first, *lines[1:]], 1) if line.strip()]
    mentions: list[GoldMention] = []
    left_out = 0
    for number, cells in found:
        gold = gold_ids(cells[2], vocabulary) if len(cells) == 3 else ()
        if len(cells) == 3 and cells[1].strip() in ("", "-"):
            left_out += 1
        elif not gold:
            raise misfit(source, number, "\t".join(cells), "`id TAB mention TAB code`, or a header with the columns of a mention and its code")
        else:
            mentions.append(GoldMention(cells[0].strip(), 0, 0, " ".join(cells[1].split()), gold))
    return Corpus({}, mentions, {"without_mention": left_out} if left_out else {})


def read_biomap(lines: Iterable[str], *, source: str | Path = "biomap") -> Corpus:
    """Read biomap's CSV `pmid,mention,cui,mondo_id`: mentions without their texts, so without offsets (0, 0).

    Args:
        lines: The lines.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a row.
    """
    rows = _rows(lines, ("pmid", "mention", "mondo_id"), ",", source)
    return Corpus({}, [GoldMention(row["pmid"], 0, 0, row["mention"], gold_ids(row["mondo_id"])) for _, row in rows])


def _rows(lines: Iterable[str], columns: Iterable[str], delimiter: str, source: str | Path) -> list[tuple[int, dict[str, str]]]:
    """Return (line number, row) of a CSV that must have these columns."""
    reader = csv.DictReader((f"{line}\n" for line in lines), delimiter=delimiter)
    try:
        return _checked(reader, columns, delimiter, source)
    except csv.Error as error:  # a cell of more than 128 KiB: a quote that is not closed
        raise base_fail("E403", path=source, line=reader.line_num, why=str(error)) from error


def _checked(reader: csv.DictReader[str], columns: Iterable[str], delimiter: str, source: str | Path) -> list[tuple[int, dict[str, str]]]:
    if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
        raise misfit(source, 1, delimiter.join(reader.fieldnames or ()), f"a header with {', '.join(f'`{column}`' for column in missing)}")
    found = []
    for row in reader:
        if None in row or None in row.values():  # too many or too few cells
            raise misfit(
                source, reader.line_num, "\t".join(cell for cell in row.values() if isinstance(cell, str)), "as many cells as the header has"
            )
        found.append((reader.line_num, row))
    return found
