"""Names in two languages, for training across languages; what is held out of it is held out of all of it. No models.

Three folders: parallel names (a concept's English name, its name in another language), which a multilingual student learns from (Reimers
and Gurevych, EMNLP 2020; BioLORD-2023-M); pairs of a knowledge base's names in several languages (Liu et al., ACL 2021), less the held-out
translations; and pairs of general-domain translations, to go on with after these (the same, section 3: `muse`, `wt`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

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
from . import pairs as pairs_module
from .bilingual import Bilingual, read_bilingual
from .pairs import ALL, HELD_OUT, Ints, assign_labels, build_pairs, check_languages, parse_languages, read_queries, sources_of

KIND, VERSION = "parallel names", 1
PARALLEL = "parallel.parquet"
SCHEMA = pa.schema([(name, pa.string()) for name in ("english", "translation", "language", "concept_id", "split")])
TRAIN = "train"
ENGLISH = "en"
GENERAL = "general-domain translations"
_ROWS = 100_000  # in one row group: what lies in memory as text


class Parallel(NamedTuple):
    """A row of parallel.parquet: names as the encoder reads them; split: "train" or "held_out"."""

    english: str
    translation: str
    language: str
    concept_id: str
    split: str


class Material(NamedTuple):
    """Parallel names as numbers, one line each (n,): concept, the English name, the translation, the language's place in `languages`.
    texts, ids: what the numbers of names and concepts stand for. n_concepts: there may be more than these names are of."""

    concepts: Ints
    english: Ints
    translations: Ints
    spoken: Ints
    languages: List[str]
    n_concepts: int
    texts: Callable[[Sequence[int]], List[str]]
    ids: Callable[[int], str]
    left_out: Dict[str, Dict[str, int]]  # language -> what -> how many


# -- parallel names -----------------------------------------------------------------------------------------------------


def of_kb(kb: KnowledgeBase, languages: Sequence[str] = (ALL,)) -> Material:
    """English canonical name x names in each other language of the same concept.

    The canonical name where it is English, else the best-ranked English one. A name that is also an English name of its concept (after
    normalising) teaches and measures nothing, and one of a concept without an English name has no other side: both are left out, counted.
    RAISES: SapbertError E107 (a language that the knowledge base lacks), E604 (no language but English).
    """
    wanted = [language for language in check_languages(kb, languages) if language != ENGLISH]
    if not wanted:
        raise fail(
            "E604",
            setting="languages",
            value="+".join(languages),
            why=f"name a language beside English; the knowledge base has {', '.join(kb.languages)}",
        )
    place = {language: i for i, language in enumerate(wanted)}
    left: Dict[str, Dict[str, int]] = {language: {"same_as_english": 0, "without_english": 0} for language in wanted}
    rows: List[npt.NDArray[np.int32]] = []
    batch: List[Tuple[int, int, int, int]] = []
    for concept, names in _by_concept(kb.names_in([ENGLISH, *wanted])):
        english = [string for string, language in names if language == ENGLISH]
        for string, language in dict.fromkeys(pair for pair in names if pair[1] != ENGLISH):
            if not english:
                left[language]["without_english"] += 1
            elif string in english:
                left[language]["same_as_english"] += 1
            else:
                batch.append((concept, english[0], string, place[language]))
        if len(batch) >= _ROWS:
            rows.append(np.array(batch, dtype=np.int32))
            batch.clear()
    rows.append(np.array(batch, dtype=np.int32).reshape(-1, 4))
    c, e, t, s = np.concatenate(rows).T
    return Material(c, e, t, s, wanted, len(kb), kb.surface_forms_at, kb.concept_id, left)


def _by_concept(names: Iterable[Tuple[int, int, str]]) -> Iterator[Tuple[int, List[Tuple[int, str]]]]:
    last, found = -1, []  # type: int, List[Tuple[int, str]]
    for concept, string, language in names:
        if concept != last and found:
            yield last, found
            found = []
        last = concept
        found.append((string, language))
    if found:
        yield last, found


def of_rows(rows: Iterable[Bilingual], languages: Sequence[str] = (ALL,)) -> Material:
    """Rows of files; equal ones count once. RAISES: SapbertError E604 for a language that no row is in."""
    strings: Dict[str, int] = {}
    concepts: Dict[str, int] = {}
    place: Dict[str, int] = {}
    lines: Dict[Tuple[int, int, int, int], None] = {}
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
    return Material(c, e, t, s, list(place), len(concepts), lambda rows: [texts[row] for row in rows], ids.__getitem__, {})


def split(material: Material, held_out: float, seed: int) -> Tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """-> (n,) held out, (n,) kept. Of each language, `held_out` of its concepts, those that come first in one random order of all concepts:
    so that a concept which is held out in one language is mostly held out in the others, and can't be learnt from a near language.
    Training names that are written as a held-out one, of any concept and language, are not kept."""
    place = np.random.default_rng([seed, 5]).permutation(material.n_concepts)
    held = np.zeros(len(material.concepts), dtype=np.bool_)
    for number in range(len(material.languages)):
        mine = np.unique(material.concepts[material.spoken == number])
        first = mine[np.argsort(place[mine], kind="stable")][: round(held_out * len(mine))]
        held |= (material.spoken == number) & np.isin(material.concepts, first)
    return held, held | ~np.isin(material.translations, material.translations[held])


def build_cross_lingual(
    material: Material, out: Union[str, Path], *, seed: int = 0, held_out: float = 0.1, about: Optional[Dict[str, Any]] = None
) -> Dict[str, Any]:
    """Write parallel.parquet (english, translation, language, concept_id, split) and a manifest into the folder `out`.

    seed (int): decides which concepts are held out. held_out (float): share of the concepts of each language.
    about (Optional[Dict[str, Any]]): more for the manifest: fingerprint of the knowledge base, sources.
    RETURNS (Dict[str, Any]): the counts, by language and split, as in the manifest.
    RAISES: SapbertError E604 (held_out), E605 (no names), E008 (disk full).
    """
    if not 0 <= held_out < 1:
        raise fail("E604", setting="held_out", value=held_out, why="it is a share of the concepts, from 0 up to but not including 1")
    if not len(material.concepts):
        said = "; ".join(f"{language}: " + ", ".join(f"{n:,} {what}" for what, n in of.items()) for language, of in material.left_out.items())
        raise fail("E605", source="The source", why=said or "it holds no rows")
    held, kept = split(material, held_out, seed)
    counts: Dict[str, Any] = {}
    for number, language in enumerate(material.languages):
        mine = material.spoken == number
        counts[language] = {
            name: {"names": int(which.sum()), "concepts": len(np.unique(material.concepts[which]))}
            for name, which in ((TRAIN, mine & kept & ~held), (HELD_OUT, mine & held))
        }
        counts[language]["left_out"] = {**material.left_out.get(language, {}), "same_as_held_out": int((mine & ~kept).sum())}
    order = np.lexsort((material.translations, material.concepts, material.spoken))
    with writing_folder(out) as folder:
        with pq.ParquetWriter(folder / PARALLEL, SCHEMA, compression="zstd") as writer:
            for start in range(0, len(order), _ROWS):
                rows = order[start : start + _ROWS]
                writer.write_table(_table(material, rows[kept[rows]], held))
        settings = {"seed": seed, "held_out": held_out, "languages": material.languages}
        write_manifest(folder, KIND, VERSION, {"counts": counts, "settings": settings, **(about or {})})
    return counts


def _table(material: Material, rows: npt.NDArray[np.int64], held: npt.NDArray[np.bool_]) -> pa.Table:
    needed = np.unique(np.concatenate([material.english[rows], material.translations[rows]])).tolist()
    text = dict(zip(needed, material.texts(needed)))
    columns: Dict[str, List[str]] = {
        "english": [text[i] for i in material.english[rows].tolist()],
        "translation": [text[i] for i in material.translations[rows].tolist()],
        "language": [material.languages[i] for i in material.spoken[rows].tolist()],
        "concept_id": [material.ids(i) for i in material.concepts[rows].tolist()],
        "split": [HELD_OUT if is_held else TRAIN for is_held in held[rows].tolist()],
    }
    return pa.table(columns, schema=SCHEMA)


def check_parallel(folder: Union[str, Path]) -> Dict[str, Any]:
    """The manifest of a folder of parallel names. RAISES: SapbertError E600."""
    try:
        return read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    except SapbertError as error:
        raise fail("E600", type(error), path=folder, why=str(error).split("] ", 1)[-1].rstrip(".")) from error


def read_parallel(folder: Union[str, Path], split_name: str, languages: Sequence[str] = (ALL,)) -> List[Parallel]:
    """The rows of a split ("train", "held_out"), in these languages. RAISES: SapbertError E600, E608 for a language without such rows."""
    check_parallel(folder)
    table = pq.read_table(Path(folder) / PARALLEL, filters=pc.field("split") == split_name)
    there = list(dict.fromkeys(table["language"].to_pylist()))
    wanted = there if tuple(languages) == (ALL,) else list(dict.fromkeys(languages))
    if lacking := [language for language in wanted if language not in there]:
        raise fail("E608", value=", ".join(lacking), path=folder, known=", ".join(there) or "none")
    return [Parallel(**row) for row in table.to_pylist() if row["language"] in wanted]


# -- pairs of names in several languages --------------------------------------------------------------------------------


def build_cross_lingual_pairs(
    kb: KnowledgeBase, parallel: Union[str, Path], out: Union[str, Path], *, languages: Sequence[str] = (ALL,), **settings: Any
) -> Dict[str, Any]:
    """A folder of pairs (see `pairs.build_pairs`, whose settings these are) of names in `languages`, in which no held-out translation of
    `parallel` is, as a name of whatever concept in whatever language but English.

    RAISES: SapbertError E600, E607 (parallel names of another knowledge base), and what build_pairs raises.
    """
    made_of = check_parallel(parallel).get("kb")
    if made_of is not None and made_of != kb.fingerprint:
        raise fail("E607", parallel=parallel, kb=kb.path, found=str(made_of)[:12], expected=kb.fingerprint[:12])
    held = {row.translation for row in read_parallel(parallel, HELD_OUT)}
    rows = np.array(sorted(kb.find(held).values()), dtype=np.int64)
    english = kb.rows_of_languages([ENGLISH]) if ENGLISH in kb.languages else np.zeros(len(kb.name_table), dtype=np.bool_)
    leave_out = np.isin(kb.name_table.surface_form, rows) & ~english
    about = {"parallel": checksum(Path(parallel) / PARALLEL), "held_out_translations": int(leave_out.sum())}
    return build_pairs(kb, out, languages=languages, leave_out=leave_out, about=about, **settings)


# -- pairs of the general domain ----------------------------------------------------------------------------------------


def build_general_pairs(
    kb: KnowledgeBase,
    rows: Iterable[Bilingual],
    out: Union[str, Path],
    *,
    queries_of: Optional[Union[str, Path]] = None,
    about: Optional[Dict[str, Any]] = None,
) -> Dict[str, Any]:
    """A folder of pairs: each translation and its English name as a pseudo-concept of two names (Liu et al., ACL 2021, section 3).

    An English name has one translation in each language, the first; they share its label, or each would be a negative of the others. A
    text that is in one pseudo-concept already is in no other, for the same reason. labels of pseudo-concepts begin behind those of `kb`,
    the knowledge base that training measures on. queries_of: a folder of pairs of `kb` whose queries are measured on, and are in no pair.
    RETURNS (Dict[str, Any]): the counts. RAISES: SapbertError E605 (no pair), E502, E607 (queries of another knowledge base).
    """
    if queries_of is not None and (made_of := pairs_module.check_folder(queries_of)["kb"]) != kb.fingerprint:
        raise fail("E607", parallel=queries_of, kb=kb.path, found=str(made_of)[:12], expected=kb.fingerprint[:12])
    labels = assign_labels(kb)[0] if queries_of is None else pairs_module.read_labels(queries_of)
    queries = [] if queries_of is None else read_queries(queries_of)
    asked = {query.query for query in queries}
    counts = {"rows": 0, "is_a_query": 0, "further_translations": 0, "text_of_another_pair": 0}
    english_of: Dict[str, str] = {}  # every text in use -> the English name whose label it has
    translated: Dict[str, Dict[str, str]] = {}  # English name -> language -> translation
    for row in rows:
        counts["rows"] += 1
        if row.english in asked or row.translation in asked:
            counts["is_a_query"] += 1
        elif row.language in translated.get(row.english, {}):
            counts["further_translations"] += 1
        elif english_of.get(row.english, row.english) != row.english or english_of.get(row.translation, row.english) != row.english:
            counts["text_of_another_pair"] += 1
        else:
            english_of.update({row.english: row.english, row.translation: row.english})
            translated.setdefault(row.english, {})[row.language] = row.translation
    if not translated:
        raise fail("E605", source="The source", why=", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items()))
    first = int(labels.max(initial=-1)) + 1
    numbered = [
        {"anchor": english, "positive": translation, "label": first + i}
        for i, (english, of) in enumerate(translated.items())
        for translation in dict.fromkeys(of.values())
    ]
    kept = [query._asdict() for query in queries]
    found: Dict[str, Any] = {
        **counts,
        "ambiguous_names": counts["text_of_another_pair"],
        "held_out_queries": sum(query.split == HELD_OUT for query in queries),
        "zero_shot_queries": sum(query.split != HELD_OUT for query in queries),
        "pairs": len(numbered),
        "pairs_before_trimming": len(numbered),
        "labels_in_pairs": len(translated),
        "names_in_pairs": len(english_of),
    }
    with writing_folder(out) as folder:
        np.save(folder / pairs_module.LABELS, labels, allow_pickle=False)
        pq.write_table(pa.Table.from_pylist(kept, schema=pairs_module.QUERY_SCHEMA), folder / pairs_module.QUERIES)
        pq.write_table(pa.Table.from_pylist(numbered, schema=pairs_module.SCHEMA), folder / pairs_module.PAIRS, compression="zstd")
        most = max(len(set(of.values())) for of in translated.values())
        settings = {"max_pairs": most, "languages": sorted({language for of in translated.values() for language in of}), **(about or {})}
        content = {"counts": found, "settings": settings, "kb": kb.fingerprint, "sources": [*sources_of(kb), GENERAL]}
        write_manifest(folder, pairs_module.KIND, pairs_module.VERSION, content)
    return found


# -- the command --------------------------------------------------------------------------------------------------------


def read_files(paths: Sequence[Path], **options: Any) -> Tuple[List[Bilingual], Dict[str, Any]]:
    """All rows of files, and for each file its layout, rows, malformed rows and what was left out. options: of `read_bilingual`."""
    rows: List[Bilingual] = []
    described: Dict[str, Any] = {}
    for path in paths:
        stats = ReadStats()
        rows += read_bilingual(path, stats, **options)
        described[path.name] = {"layout": stats.kind, "rows": stats.rows, "malformed": stats.malformed, "left_out": stats.left_out}
        described[path.name]["checksum"] = checksum(path)[:16]
    return rows, described


class Source(NamedTuple):
    """What the command `cross-lingual` reads.

    Attributes:
        names: Names in two languages.
        about: What the manifest says of them: fingerprint of the knowledge base, sources.
        files: For each file its layout, rows and what was left out; empty for a knowledge base.
    """

    names: Material
    about: Dict[str, Any]
    files: Dict[str, Any]


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
