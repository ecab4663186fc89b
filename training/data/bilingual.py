"""Files of names in two languages -> (English, translation) rows: tables, Babelon, MUSE's dictionaries, pairs of Wikipedia titles."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.readers.babelon import COLUMNS, garbled, translations
from spacy_sapbert.readers.languages import language_code
from spacy_sapbert.readers.stats import ReadStats
from spacy_sapbert.readers.text import lines

from ..corpora.corpus import shape
from ..errors import fail

LAYOUTS = ("babelon", "muse", "titles", "tsv")
MADE_UP = "en:"  # begins the id of a concept that has none but its English name
_LOOKED_AT = 50  # lines that a layout is recognised by
_TABLE = ("english", "translation", "language", "concept_id")


class Bilingual(NamedTuple):
    """english, translation: normalised as names of their languages are. language: ISO 639-1. concept_id: the file's, or "en:" and the English name."""

    english: str
    translation: str
    language: str
    concept_id: str


def read_bilingual(
    path: Path,
    stats: ReadStats,
    *,
    layout: Optional[str] = None,
    language: Optional[str] = None,
    english_second: bool = False,
    encoding: str = "utf-8",
) -> Iterator[Bilingual]:
    """Rows of a file, plain, .gz or .zst.

    layout: default: recognised by content. "tsv": a header with `english` and `translation`, and if wanted `language` and `concept_id`.
        "babelon": an ontology's translations with the English text beside them. "muse": `word translation` by whitespace (Lample et al.,
        ICLR 2018; `muse` of Liu et al., ACL 2021). "titles": `title TAB title` (`wt` there); underscores are spaces.
    language: of the translations, where the file does not say. english_second: MUSE's `de-en.txt`. encoding: of the file.

    Left out and counted in `stats.left_out`: empty lines, rows without one of the two, rows whose two names are equal, and what
    `read_babelon` leaves out. Malformed: other numbers of cells, a language code that is none, text decoded with the wrong encoding.
    RAISES: SapbertError E601 (a column), E602 (layout), E603, E604 (language, layout), E606 (no English), E401, E404, E405 (malformed).
    """
    if not path.exists():
        raise base_fail("E401", MissingFile, path=path)
    if layout is not None and layout not in LAYOUTS:
        raise fail("E604", setting="layout", value=layout, why=f"known are {', '.join(LAYOUTS)}")
    spoken = None
    if language is not None:
        spoken = language_code(language)
        if spoken is None:
            raise fail("E604", setting="language", value=language, why="it is no ISO 639 code, such as de")
    layout = layout or recognise(path, encoding)
    stats.path, stats.kind = path, layout
    if layout == "babelon":
        made = _babelon(path, stats, spoken, encoding)
    elif layout == "tsv":
        made = _table(path, stats, spoken, encoding)
    else:
        if spoken is None:
            raise fail("E603", path=path)
        made = _plain(path, stats, layout, spoken, english_second, encoding)
    for row in made:
        english, translation = normalise(row.english, "en"), normalise(row.translation, row.language)
        if not english or not translation:
            stats.leave_out("without one of the two names")
        elif english == translation:
            stats.leave_out("equal in both languages")
        else:
            yield Bilingual(english, translation, row.language, row.concept_id or f"{MADE_UP}{english}")
    stats.finish()


def recognise(path: Path, encoding: str = "utf-8") -> str:
    """The layout of a file. RAISES: SapbertError E602, which shows the first line by its shape."""
    head = list(islice(((n, line) for n, line in lines(path, encoding) if line.strip() and not line.startswith("#")), _LOOKED_AT))
    if not head:
        raise fail("E602", path=path, number=1, shape="nothing", known=", ".join(LAYOUTS))
    cells = {cell.strip().lower() for cell in head[0][1].split("\t")}
    if not cells.isdisjoint(COLUMNS["value"]):
        return "babelon"
    if not cells.isdisjoint(_TABLE[:2]) and len(cells) > 1:
        return "tsv"
    if all(line.count("\t") == 1 for _, line in head):
        return "titles"
    if all(len(line.split()) == 2 for _, line in head):
        return "muse"
    number, line = next(((n, line) for n, line in head if line.count("\t") != 1 and len(line.split()) != 2), head[0])
    raise fail("E602", path=path, number=number, shape=shape(line), known=", ".join(LAYOUTS))


def _babelon(path: Path, stats: ReadStats, language: Optional[str], encoding: str) -> Iterator[Bilingual]:
    header = next((line for _, line in lines(path, encoding) if line.strip() and not line.startswith("#")), "")
    if not {cell.strip().lower() for cell in header.split("\t")} & set(COLUMNS["english"]):
        raise fail("E606", path=path)
    for row in translations(path, stats, language=language, encoding=encoding):
        yield from (Bilingual(row.english, text, row.language, row.subject) for text in row.texts)


def _table(path: Path, stats: ReadStats, language: Optional[str], encoding: str) -> Iterator[Bilingual]:
    numbered = ((n, line) for n, line in lines(path, encoding) if not line.startswith("#"))
    header: List[str] = next(([cell.strip().lower() for cell in line.split("\t")] for _, line in numbered if line.strip()), [])
    if missing := [f"`{column}`" for column in _TABLE[:2] if column not in header]:
        raise fail("E601", path=path, missing=" and ".join(missing), found=", ".join(f"`{column}`" for column in header) or "none")
    if "language" not in header and language is None:
        raise fail("E603", path=path)
    for number, line in numbered:
        if not line.strip():
            stats.leave_out("empty lines")
            continue
        stats.rows += 1
        cells = [cell.strip() for cell in line.split("\t")]
        row = dict(zip(header, cells))
        spoken = language_code(row["language"]) if row.get("language") else language
        if len(cells) != len(header):
            stats.bad(number, f"{len(cells)} cells under {len(header)} columns")
        elif spoken is None:
            stats.bad(number, f"'{row.get('language', '')[:20]}' is no language code such as de")
        elif garbled(line):
            stats.bad(number, "it was decoded with the wrong encoding")
        else:
            yield Bilingual(row["english"], row["translation"], spoken, row.get("concept_id", ""))


def _plain(path: Path, stats: ReadStats, layout: str, language: str, english_second: bool, encoding: str) -> Iterator[Bilingual]:
    for number, line in lines(path, encoding):
        if not line.strip():
            stats.leave_out("empty lines")
            continue
        stats.rows += 1
        cells = line.split() if layout == "muse" else [cell.replace("_", " ") for cell in line.split("\t")]
        if len(cells) != 2:
            stats.bad(number, f"{len(cells)} names instead of two")
        elif garbled(line):
            stats.bad(number, "it was decoded with the wrong encoding")
        else:
            english, translation = reversed(cells) if english_second else cells
            yield Bilingual(english, translation, language, "")
