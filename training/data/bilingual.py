"""Read files of names in two languages: tables, Babelon, MUSE's dictionaries, pairs of Wikipedia titles, SapBERT's released pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.readers.babelon import COLUMNS, garbled, translations
from spacy_sapbert.readers.languages import language_code
from spacy_sapbert.readers.stats import ReadStats
from spacy_sapbert.readers.text import lines

from ..corpora.corpus import shape
from ..errors import fail

LAYOUTS = ("babelon", "bars", "muse", "titles", "tsv")
MADE_UP = "en:"  # prefix of the id of a concept that has only its English name
_LINES_TO_RECOGNISE = 50  # number of lines from which a layout is recognised
_TABLE = ("english", "translation", "language", "concept_id")


class Bilingual(NamedTuple):
    """A name in English and in another language.

    Attributes:
        english: The English name, normalised.
        translation: The name in the other language, normalised by the rules of that language.
        language: The other language, ISO 639-1.
        concept_id: The id in the file, or "en:" and the English name.
    """

    english: str
    translation: str
    language: str
    concept_id: str


def read_bilingual(
    path: Path,
    stats: ReadStats,
    *,
    layout: str | None = None,
    language: str | None = None,
    english_second: bool = False,
    encoding: str = "utf-8",
    cased: bool = False,
) -> Iterator[Bilingual]:
    """Read the rows of a file: plain, .gz or .zst.

    These rows are left out and counted in `stats.left_out`: empty lines, rows that lack one of the two names, rows whose two names are equal,
    and what `read_babelon` leaves out. These are malformed: a wrong number of cells, an unknown language code, a wrong encoding.

    Layouts:
        tsv: A header with `english` and `translation`, optionally `language` and `concept_id`.
        babelon: An ontology's translations, with the English text in a column.
        muse: `word translation`, separated by whitespace.
        titles: `title TAB title`; underscores are spaces.
        bars: `id||word||translation`, as cross-lingual SapBERT's general-domain pairs were released; the ids number the lines and are not read.

    Args:
        path: The file.
        stats: Receives the counts.
        layout: One of `LAYOUTS`; None: recognised from the content.
        language: Language of the translations, if the file does not say it.
        english_second: Whether English is on the right, as in MUSE's `de-en.txt`.
        encoding: Encoding of the file.
        cased: Keep the capitals of both names.

    Raises:
        SapbertError: E601 (a column is missing), E602 (unknown layout), E603 (no language), E604 (a setting), E606 (no English),
            E401, E404, E405 (too many malformed rows).

    Source:
        MUSE: Lample et al., ICLR 2018. Both as training data (`muse`, `wt`): Liu et al., ACL 2021.
    """
    if not path.exists():
        raise base_fail("E401", MissingFile, path=path)
    if layout is not None and layout not in LAYOUTS:
        raise fail("E604", setting="layout", value=layout, why=f"known are {', '.join(LAYOUTS)}")
    spoken = None
    if language is not None:
        spoken = language_code(language)
        if spoken is None:
            raise fail("E604", setting="language", value=language, why="it is not an ISO 639 code, such as de")
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
        english, translation = normalise(row.english, "en", cased=cased), normalise(row.translation, row.language, cased=cased)
        if not english or not translation:
            stats.leave_out("without one of the two names")
        elif english == translation:
            stats.leave_out("equal in both languages")
        else:
            yield Bilingual(english, translation, row.language, row.concept_id or f"{MADE_UP}{english}")
    stats.finish()


def recognise(path: Path, encoding: str = "utf-8") -> str:
    """Return the layout of a file.

    Raises:
        SapbertError: E602, which describes the first line that fits no layout.
    """
    head = list(islice(((n, line) for n, line in lines(path, encoding) if line.strip() and not line.startswith("#")), _LINES_TO_RECOGNISE))
    if not head:
        raise fail("E602", path=path, number=1, shape="nothing", known=", ".join(LAYOUTS))
    cells = {cell.strip().lower() for cell in head[0][1].split("\t")}
    if not cells.isdisjoint(COLUMNS["value"]):
        return "babelon"
    if not cells.isdisjoint(_TABLE[:2]) and len(cells) > 1:
        return "tsv"
    if all(line.count("||") == 2 for _, line in head):
        return "bars"
    if all(line.count("\t") == 1 for _, line in head):
        return "titles"
    if all(len(line.split()) == 2 for _, line in head):
        return "muse"
    number, line = next(((n, line) for n, line in head if line.count("\t") != 1 and len(line.split()) != 2), head[0])
    raise fail("E602", path=path, number=number, shape=shape(line), known=", ".join(LAYOUTS))


def _babelon(path: Path, stats: ReadStats, language: str | None, encoding: str) -> Iterator[Bilingual]:
    """Read Babelon, an ontology's translations; E606 if it has no column of English texts."""
    header = next((line for _, line in lines(path, encoding) if line.strip() and not line.startswith("#")), "")
    if not {cell.strip().lower() for cell in header.split("\t")} & set(COLUMNS["english"]):
        raise fail("E606", path=path)
    for row in translations(path, stats, language=language, encoding=encoding):
        yield from (Bilingual(row.english, text, row.language, row.subject) for text in row.texts)


def _table(path: Path, stats: ReadStats, language: str | None, encoding: str) -> Iterator[Bilingual]:
    """Read a table with a header; E601 if a column is missing, E603 if nothing says the language."""
    numbered = ((n, line) for n, line in lines(path, encoding) if not line.startswith("#"))
    header: list[str] = next(([cell.strip().lower() for cell in line.split("\t")] for _, line in numbered if line.strip()), [])
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
            stats.bad(number, f"'{row.get('language', '')[:20]}' is not a language code such as de")
        elif garbled(line):
            stats.bad(number, "it was decoded with the wrong encoding")
        else:
            yield Bilingual(row["english"], row["translation"], spoken, row.get("concept_id", ""))


def _plain(path: Path, stats: ReadStats, layout: str, language: str, english_second: bool, encoding: str) -> Iterator[Bilingual]:
    """Read lines of two names without a header: MUSE, titles or bars."""
    for number, line in lines(path, encoding):
        if not line.strip():
            stats.leave_out("empty lines")
            continue
        stats.rows += 1
        if layout == "bars":
            cells = line.split("||")[1:]
        else:
            cells = line.split() if layout == "muse" else [cell.replace("_", " ") for cell in line.split("\t")]
        if len(cells) != 2:
            stats.bad(number, f"{len(cells)} names instead of two")
        elif garbled(line):
            stats.bad(number, "it was decoded with the wrong encoding")
        else:
            english, translation = reversed(cells) if english_second else cells
            yield Bilingual(english, translation, language, "")
