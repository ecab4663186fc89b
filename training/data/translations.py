"""Make a table of translations: a concept's English name and its name in another language. Some are held out. Needs no model.

A multilingual student learns from these rows (Reimers and Gurevych, EMNLP 2020; BioLORD-2023-M). `training.data.translation_pairs` keeps
the held-out translations out of its pairs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import checksum, read_manifest, write_manifest, writing_folder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers.stats import ReadStats

from ..errors import fail
from .bilingual import Bilingual, read_bilingual
from .labels import Ints
from .pairs import ALL, HELD_OUT, ROW_GROUP, check_languages, parse_languages, sources_of

KIND, VERSION = "translations", 1
TRANSLATIONS = "translations.parquet"
SCHEMA = pa.schema([(name, pa.string()) for name in ("english", "translation", "language", "concept_id", "split")])
TRAIN = "train"
ENGLISH = "en"


class Translation(NamedTuple):
    """A row of translations.parquet.

    Attributes:
        english: The English name, normalised.
        translation: The name in the other language, normalised.
        language: The other language, ISO 639-1.
        concept_id: The concept.
        split: "train" or "held_out".
    """

    english: str
    translation: str
    language: str
    concept_id: str
    split: str


class Translations(NamedTuple):
    """Translations as numbers: n rows.

    Attributes:
        concepts: Number of the concept of each row, (n,).
        english: Number of the English name, (n,).
        translations: Number of the name in the other language, (n,).
        spoken: Place of the other language in `languages`, (n,).
        languages: All other languages.
        n_concepts: Concepts of the source; some may have no row.
        texts: Returns the names of these numbers.
        ids: Returns the id of a concept's number.
        left_out: language -> reason -> count.
    """

    concepts: Ints
    english: Ints
    translations: Ints
    spoken: Ints
    languages: list[str]
    n_concepts: int
    texts: Callable[[Sequence[int]], list[str]]
    ids: Callable[[int], str]
    left_out: dict[str, dict[str, int]]


def of_kb(kb: KnowledgeBase, languages: Sequence[str] = (ALL,)) -> Translations:
    """Pair the English name of each concept with its names in each other language.

    The English name is the canonical name if that is English, else the English name with the best rank. Two kinds of names are left out and
    counted: a name that is also an English name of its concept (after normalisation), because it is of no use for training or measuring; and a
    name of a concept without an English name.

    Args:
        kb: The knowledge base.
        languages: Other languages; ("all",) for every one.

    Raises:
        SapbertError: E107 (the knowledge base lacks a language), E604 (no language other than English).
    """
    wanted = [language for language in check_languages(kb, languages) if language != ENGLISH]
    if not wanted:
        raise fail(
            "E604",
            setting="languages",
            value="+".join(languages),
            why=f"give a language other than English; the knowledge base has {', '.join(kb.languages)}",
        )
    place = {language: i for i, language in enumerate(wanted)}
    left_out: dict[str, dict[str, int]] = {language: {"same_as_english": 0, "without_english": 0} for language in wanted}
    rows: list[npt.NDArray[np.int32]] = []
    batch: list[tuple[int, int, int, int]] = []
    for concept, names in _by_concept(kb.names_in([ENGLISH, *wanted])):
        english = [string for string, language in names if language == ENGLISH]
        for string, language in dict.fromkeys(pair for pair in names if pair[1] != ENGLISH):
            if not english:
                left_out[language]["without_english"] += 1
            elif string in english:
                left_out[language]["same_as_english"] += 1
            else:
                batch.append((concept, english[0], string, place[language]))
        if len(batch) >= ROW_GROUP:
            rows.append(np.array(batch, dtype=np.int32))
            batch.clear()
    rows.append(np.array(batch, dtype=np.int32).reshape(-1, 4))
    c, e, t, s = np.concatenate(rows).T
    return Translations(c, e, t, s, wanted, len(kb), kb.surface_forms_at, kb.concept_id, left_out)


def _by_concept(names: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Yield each concept with its names (number, language); the names come in the order of concepts."""
    last = -1
    found: list[tuple[int, str]] = []
    for concept, string, language in names:
        if concept != last and found:
            yield last, found
            found = []
        last = concept
        found.append((string, language))
    if found:
        yield last, found


def of_rows(rows: Iterable[Bilingual], languages: Sequence[str] = (ALL,)) -> Translations:
    """Number the rows of files; equal rows count once.

    Args:
        rows: Names in two languages.
        languages: Other languages that are wanted; ("all",) for every one.

    Raises:
        SapbertError: E604 for a language that no row has.
    """
    strings: dict[str, int] = {}
    concepts: dict[str, int] = {}
    place: dict[str, int] = {}
    lines: dict[tuple[int, int, int, int], None] = {}
    for row in rows:
        if tuple(languages) == (ALL,) or row.language in languages:
            concept = concepts.setdefault(row.concept_id, len(concepts))
            english, translation = (strings.setdefault(text, len(strings)) for text in (row.english, row.translation))
            lines[concept, english, translation, place.setdefault(row.language, len(place))] = None
    if tuple(languages) != (ALL,) and (lacking := [language for language in languages if language not in (*place, ENGLISH)]):
        raise fail(
            "E604", setting="languages", value="+".join(languages), why=f"no row is in {', '.join(lacking)}; there are {', '.join(place) or 'none'}"
        )
    c, e, t, s = np.array(list(lines), dtype=np.int32).reshape(-1, 4).T
    texts, ids = list(strings), list(concepts)
    return Translations(c, e, t, s, list(place), len(concepts), lambda rows: [texts[row] for row in rows], ids.__getitem__, {})


def split(names: Translations, held_out: float, seed: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Decide which rows are held out.

    All concepts get one random order. In each language, the first concepts of this order are held out. So a concept that is held out in one
    language is usually held out in the others, too, and cannot be learnt from a similar language.
    A training row whose translation is written like a held-out one, of any concept and language, is not kept.

    Args:
        names: The rows.
        held_out: Share of the concepts of each language.
        seed: Seed of the order.

    Returns:
        Two masks (n,): the held-out rows; the rows that are kept, which include the held-out ones.
    """
    place = np.random.default_rng([seed, 5]).permutation(names.n_concepts)
    held = np.zeros(len(names.concepts), dtype=np.bool_)
    for number in range(len(names.languages)):
        mine = np.unique(names.concepts[names.spoken == number])
        first = mine[np.argsort(place[mine], kind="stable")][: round(held_out * len(mine))]
        held |= (names.spoken == number) & np.isin(names.concepts, first)
    return held, held | ~np.isin(names.translations, names.translations[held])


def build_translations(
    names: Translations, out: str | Path, *, seed: int = 0, held_out: float = 0.1, about: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write translations.parquet (english, translation, language, concept_id, split) and a manifest.

    Args:
        names: The rows.
        out: Folder to write.
        seed: Seed of the draw of held-out concepts.
        held_out: Share of the concepts of each language.
        about: More for the manifest: fingerprint of the knowledge base, sources.

    Returns:
        The counts, by language and split, as in the manifest.

    Raises:
        SapbertError: E604 (held_out), E605 (no names), E008 (the disk is full).
    """
    if not 0 <= held_out < 1:
        raise fail("E604", setting="held_out", value=held_out, why="it is a share of the concepts, from 0 up to but not including 1")
    if not len(names.concepts):
        reasons = "; ".join(f"{language}: " + ", ".join(f"{n:,} {what}" for what, n in of.items()) for language, of in names.left_out.items())
        raise fail("E605", source="The source", why=reasons or "it holds no rows")
    held, kept = split(names, held_out, seed)
    counts: dict[str, Any] = {}
    for number, language in enumerate(names.languages):
        mine = names.spoken == number
        counts[language] = {
            name: {"names": int(which.sum()), "concepts": len(np.unique(names.concepts[which]))}
            for name, which in ((TRAIN, mine & kept & ~held), (HELD_OUT, mine & held))
        }
        counts[language]["left_out"] = {**names.left_out.get(language, {}), "same_as_held_out": int((mine & ~kept).sum())}
    order = np.lexsort((names.translations, names.concepts, names.spoken))
    with writing_folder(out) as folder:
        with pq.ParquetWriter(folder / TRANSLATIONS, SCHEMA, compression="zstd") as writer:
            for start in range(0, len(order), ROW_GROUP):
                rows = order[start : start + ROW_GROUP]
                writer.write_table(_table(names, rows[kept[rows]], held))
        settings = {"seed": seed, "held_out": held_out, "languages": names.languages}
        write_manifest(folder, KIND, VERSION, {"counts": counts, "settings": settings, **(about or {})})
    return counts


def _table(names: Translations, rows: npt.NDArray[np.int64], held: npt.NDArray[np.bool_]) -> pa.Table:
    """Return a row group as text: these rows of `names`, with their split."""
    needed = np.unique(np.concatenate([names.english[rows], names.translations[rows]])).tolist()
    text = dict(zip(needed, names.texts(needed)))
    columns: dict[str, list[str]] = {
        "english": [text[i] for i in names.english[rows].tolist()],
        "translation": [text[i] for i in names.translations[rows].tolist()],
        "language": [names.languages[i] for i in names.spoken[rows].tolist()],
        "concept_id": [names.ids(i) for i in names.concepts[rows].tolist()],
        "split": [HELD_OUT if is_held else TRAIN for is_held in held[rows].tolist()],
    }
    return pa.table(columns, schema=SCHEMA)


def check_translations(folder: str | Path) -> dict[str, Any]:
    """Return the manifest of a folder of translations; E600 if it is not such a folder, or damaged."""
    try:
        return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError as error:
        raise fail("E600", type(error), path=folder, why=str(error).split("] ", 1)[-1].rstrip(".")) from error


def read_translations(folder: str | Path, split_name: str, languages: Sequence[str] = (ALL,)) -> list[Translation]:
    """Read the rows of a split.

    Args:
        folder: Folder of translations.
        split_name: "train" or "held_out".
        languages: Only these; ("all",) for every one.

    Raises:
        SapbertError: E600 (not such a folder), E608 (no such row in a language).
    """
    check_translations(folder)
    table = pq.read_table(Path(folder) / TRANSLATIONS, filters=pc.field("split") == split_name)
    there = list(dict.fromkeys(table["language"].to_pylist()))
    wanted = there if tuple(languages) == (ALL,) else list(dict.fromkeys(languages))
    if lacking := [language for language in wanted if language not in there]:
        raise fail("E608", value=", ".join(lacking), path=folder, known=", ".join(there) or "none")
    return [Translation(**row) for row in table.to_pylist() if row["language"] in wanted]


def read_files(paths: Sequence[Path], **options: Any) -> tuple[list[Bilingual], dict[str, Any]]:
    """Read all rows of files.

    Args:
        paths: The files.
        **options: Options of `read_bilingual`.

    Returns:
        The rows; and for each file its layout, checksum, and counts of rows, malformed rows and rows left out.
    """
    rows: list[Bilingual] = []
    described: dict[str, Any] = {}
    for path in paths:
        stats = ReadStats()
        rows += read_bilingual(path, stats, **options)
        described[path.name] = {"layout": stats.kind, "rows": stats.rows, "malformed": stats.malformed, "left_out": stats.left_out}
        described[path.name]["checksum"] = checksum(path)[:16]
    return rows, described


class Source(NamedTuple):
    """Translations, with information about their source.

    Attributes:
        names: The rows.
        about: For the manifest: fingerprint of the knowledge base, sources.
        files: For each file its layout, rows and what was left_out out; empty for a knowledge base.
    """

    names: Translations
    about: dict[str, Any]
    files: dict[str, Any]


def read_source(paths: Sequence[Path], languages: str = ALL, **options: Any) -> Source:
    """Read names in two languages from one knowledge base or from files.

    Args:
        paths: One folder of a knowledge base, or files.
        languages: de, de+es, all.
        **options: Options of `read_bilingual`, for files.

    Raises:
        SapbertError: E604 (several folders), and the errors of `of_kb`, `of_rows` and `read_bilingual`.
    """
    wanted = parse_languages(languages)
    if paths[0].is_dir():
        if len(paths) > 1:
            raise fail("E604", setting="source", value=", ".join(map(str, paths)), why="give one knowledge base, or files")
        kb = KnowledgeBase(paths[0])
        return Source(of_kb(kb, wanted), {"kb": kb.fingerprint, "sources": sources_of(kb)}, {})
    rows, files = read_files(paths, **options)
    return Source(of_rows(rows, wanted), {"kb": None, "sources": list(files), "files": files}, files)
