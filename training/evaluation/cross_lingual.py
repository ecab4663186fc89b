"""Measure how well encoders find concepts across languages.

`python -m training cross-lingual --encoder base= --kb artifacts/kb --translations artifacts/translations`. For each language there are two
benchmarks: held-out translations, looked up among English names, and XL-BEL. evaluate.py measures and shows them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import checksum
from spacy_sapbert.kb import curies, semantic_types
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.readers.languages import language_code

from ..corpora import read_corpus
from ..corpora.mention import Gold, GoldMention, resolve_gold
from ..data.pairs import ALL, HELD_OUT, check_languages
from ..data.translations import TRANSLATIONS, check_translations, read_translations
from ..errors import fail
from .benchmarks import (
    HASH_DIGITS,
    SEARCH,
    SEARCH_CASED,
    Benchmark,
    ConceptBenchmark,
    by_names,
    count_unanswerable,
    limited,
    pooled,
)
from .dictionaries import Dictionary, of_kb, of_lines, select
from .evaluate import as_result, measure_encoders, versions

ENGLISH = "en"
# Plant (A1.1.3.3), and Animal (A1.1.3.1) with all types below it except Human, in the UMLS Semantic Network
NOT_ORGANISMS = ("T016",)
PLANT, ANIMAL = "T002", "T008"
TRANSLATED = (
    "Queries: translations that were held out of training, together with all other names of their concept in that language, and with equal names in "
    "any language. The dictionary: all {spoken} names of the knowledge base. A concept is right if the query is its name in that language."
)
XLBEL = (
    "XL-BEL (Liu et al., ACL 2021): mentions of Wikipedia in a language, looked up among {names}. Mentions whose CUI the dictionary does not have, or whose id "
    "is not a CUI, count as wrong."
)
OF_KB = (
    "the names of the knowledge base in {spoken}. Published figures are for the released candidate list: 399,931 names in all languages of UMLS "
    "2020AA, of the concepts that Wikipedia mentions"
)
OF_CANDIDATES = "the {count:,} names of the candidate list '{file}' (the released one has 399,931), {case}"
NAMES_RANKED = (
    "Counted as in SapBERT's own evaluation: names are ranked, not concepts, and a name is right if any concept it belongs to has any gold id. "
    "Mentions are looked up whole."
)
ORGANISMS = (
    "Without mentions whose gold concepts are all plants or animals ({tuis}), which BioLORD-2023 (Remy et al., JAMIA 2024) leaves out; the codes are "
    "those of Plant and of Animal with all types below it except Human, in the Semantic Network."
)
VERSIONS = ("xlbel_v0.0", "xlbel_v1.0")
_FILE = re.compile(r"([a-z]{2,3})(?:[_.-].*)?\.txt(?:\.gz)?")


# -- dictionaries -------------------------------------------------------------------------------------------------------


def of_languages(kb: KnowledgeBase, source: str, languages: Sequence[str] = (ALL,)) -> Dictionary:
    """Make a dictionary from a knowledge base's names in some languages. Each concept has its own label.

    Args:
        kb: The knowledge base.
        source: Name of the dictionary in the output.
        languages: Language codes; ("all",) for all languages.

    Raises:
        SapbertError: E107, for a language that it does not have.
    """
    spoken = check_languages(kb, languages)
    whole = of_kb(kb, source)
    lines = kb.rows_of_languages(spoken)
    if lines.all():
        return replace(whole, about={**whole.about, "languages": spoken})
    order = np.argsort(kb.name_table.concept.astype(np.int64), kind="stable")  # the order of the dictionary's pairs
    return select(whole, lines[order], {"languages": spoken})


# -- held-out translations ----------------------------------------------------------------------------------------------


def held_out_benchmarks(kb: KnowledgeBase, translations: Path, languages: Sequence[str] = (ALL,)) -> list[ConceptBenchmark]:
    """Make a benchmark of held-out translations for each language, such as `held_out_de`.

    Args:
        kb: The knowledge base whose English names are the dictionary.
        translations: Folder of `python -m training translations cross-lingual`.
        languages: Languages of the queries.

    Raises:
        SapbertError: E600, E607 (names of another knowledge base), E608, E107.
    """
    made_of = check_translations(translations).get("kb")
    if made_of is not None and made_of != kb.fingerprint:
        raise fail("E607", folder=translations, kb=kb.path, found=str(made_of)[:12], expected=kb.fingerprint[:12])
    queries: dict[str, dict[str, dict[str, None]]] = {}  # language -> query -> concepts
    for row in read_translations(translations, HELD_OUT, languages):
        queries.setdefault(row.language, {}).setdefault(row.translation, {})[row.concept_id] = None
    if not queries:
        raise fail("E608", value="any language", path=translations, known="none")
    dictionary = of_languages(kb, "English names of the knowledge base", [ENGLISH])
    files = {TRANSLATIONS: checksum(translations / TRANSLATIONS)[:HASH_DIGITS]}
    protocol = f"{SEARCH_CASED if kb.cased else SEARCH} {TRANSLATED.format(spoken='English')}"
    benchmarks = []
    for language, of in queries.items():
        golds = [resolve_gold(GoldMention("", 0, 0, query, tuple((concept,) for concept in concepts)), kb.rows_of) for query, concepts in of.items()]
        counts = {"names": len(of), "of_several_concepts": sum(len(concepts) > 1 for concepts in of.values()), **count_unanswerable(golds)}
        title = f"Held-out translations, {language}"
        benchmarks.append(ConceptBenchmark(f"held_out_{language}", title, protocol, list(of), golds, dictionary, counts=counts, files=files))
    return benchmarks


# -- XL-BEL -------------------------------------------------------------------------------------------------------------


def _is_query_file(path: Path) -> bool:
    found = _FILE.fullmatch(path.name)
    return found is not None and bool(language_code(found[1]))


def xlbel_files(folder: Path, languages: Sequence[str] = (ALL,)) -> dict[str, Path]:
    """Find the files of XL-BEL, such as `de_1k_test_query.txt`.

    Args:
        folder: The folder of the files, or the one above the published `xlbel_v0.0`, which the paper measures, and `xlbel_v1.0`, which adds
            sentences.
        languages: Language codes; ("all",) for all languages.

    Returns:
        Language -> file.

    Raises:
        SapbertError: E609, if a language has no file.
    """
    folder = next((below for below in (folder, *(folder / name for name in VERSIONS)) if any(map(_is_query_file, below.glob("*.txt*")))), folder)
    named = [(path, match) for path in sorted(folder.glob("*.txt*")) if (match := _FILE.fullmatch(path.name))] if folder.is_dir() else []
    found = {match[1]: path for path, match in named if language_code(match[1])}
    wanted = list(found) if tuple(languages) == (ALL,) else list(languages)
    for language in [language for language in wanted if language not in found] or ([""] if not found else []):
        raise fail("E609", path=folder, language=f" in '{language}'" if language else "", found=", ".join(found) or "none")
    return {language: found[language] for language in wanted}


def xlbel_benchmarks(
    kb: KnowledgeBase | None,
    folder: Path,
    languages: Sequence[str] = (ALL,),
    *,
    candidates: Path | None = None,
    dictionary_languages: Sequence[str] = (ALL,),
    organisms: bool = True,
    cased: bool = False,
) -> list[ConceptBenchmark]:
    """Make a benchmark of XL-BEL for each language, such as `xlbel_de`, counted as in SapBERT's own evaluation.

    Names are ranked, and a name is right if any concept that it belongs to is any gold id.

    Args:
        kb: The knowledge base whose names are the dictionary, and whose types identify plants and animals; None if neither is needed.
        folder: Folder of XL-BEL.
        languages: Languages of the mentions.
        candidates: A file with lines `CUI||name`, whose names are the dictionary instead; the paper's is released with XL-BEL.
        dictionary_languages: Languages of the knowledge base's names in the dictionary.
        organisms: Whether to keep mentions of plants and animals, as the paper does; BioLORD-2023 leaves them out.
        cased: Whether to keep the capitals of mentions and candidates, for a cased encoder. A knowledge base decides this itself.

    Raises:
        SapbertError: E609, E107, E560 (the candidates), E569 (no gold id of any language is known), and what `read_corpus` raises.
    """
    files = xlbel_files(folder, languages)
    if candidates is not None:
        dictionary, ids = of_lines(candidates, f"candidate list {candidates.name}", cased=cased)

        def rows_of(concept_id: str) -> Sequence[int]:
            return (ids[concept_id],) if concept_id in ids else ()

        def form(text: str, language: str) -> str:  # a candidate list has no languages, so one rule lower-cases its names and the mentions
            return normalise(text, cased=cased)

        known = f"{curies.vocabularies_in_words(ids)}, such as {next(iter(ids))}"
        among = OF_CANDIDATES.format(
            count=len(dictionary.names), file=candidates.name, case="with capitals" if cased else "lower-cased as in the released code"
        )
    else:
        assert kb is not None
        dictionary, rows_of = of_languages(kb, "names of the knowledge base", dictionary_languages), kb.rows_of
        form = kb.encoded_form
        known = ", ".join(kb.vocabularies) or "none"
        among = OF_KB.format(spoken=", ".join(dictionary.about["languages"]))
    names = by_names(ConceptBenchmark("", "", "", [], [], dictionary), rows_of).dictionary  # each name is one label
    with_capitals = cased if kb is None or candidates is not None else kb.cased
    protocol = f"{SEARCH_CASED if with_capitals else SEARCH} {XLBEL.format(names=among)} {NAMES_RANKED}"
    excluded_types = frozenset() if organisms else organism_types()
    if excluded_types:
        protocol = f"{protocol} {ORGANISMS.format(tuis=', '.join(sorted(excluded_types)))}"
    benchmarks = []
    golden: list[str] = []  # all gold ids
    for language, path in files.items():
        corpus = read_corpus(path, "xlbel")
        mentions = corpus.mentions
        kept = [
            i
            for i, mention in enumerate(mentions)
            if not (excluded_types and kb and _is_organism(kb, resolve_gold(mention, kb.rows_of), excluded_types))
        ]
        if not kept:
            raise fail("E544", name=f"xlbel_{language}", why="all of its mentions are of plants or animals")
        chosen = [mentions[i] for i in kept]
        golds = [resolve_gold(mention, rows_of) for mention in chosen]
        golden += [i for mention in chosen for alternative in mention.gold for i in alternative]
        left_out = {"mentions": len(mentions), "plants_and_animals_left_out": len(mentions) - len(kept)}
        counts = {**left_out, **corpus.counts, **count_unanswerable(golds)}
        queries = [form(mention.text, language) for mention in chosen]
        hashed = {path.name: checksum(path)[:HASH_DIGITS]}
        title = f"XL-BEL, {language}{'' if organisms else ', without plants and animals'}"
        right = [_names_of(dictionary, gold) for gold in golds]
        benchmarks.append(
            ConceptBenchmark(f"xlbel_{language}", title, protocol, queries, right, names, "lenient", counts, given=tuple(chosen), files=hashed)
        )
    if not any(gold.alternatives for benchmark in benchmarks for gold in benchmark.golds):
        named, source = ", ".join(benchmark.name for benchmark in benchmarks), dictionary.about["source"]
        raise fail("E569", name=named, example=golden[0], found=curies.vocabularies_in_words(golden), dictionary=source, known=known)
    return benchmarks


def _names_of(dictionary: Dictionary, gold: Gold) -> Gold:
    """Return every name of every gold concept, each as an alternative."""
    rows = [row for alternative in gold.alternatives for row in alternative if row is not None]
    ends = np.searchsorted(dictionary.labels, [[row, row + 1] for row in rows]).reshape(-1, 2).tolist()
    names = sorted({name for start, end in ends for name in dictionary.rows[start:end].tolist()})
    return Gold(tuple((name,) for name in names), () if names else gold.missing)


def organism_types() -> frozenset[str]:
    """Return the semantic types Plant, and Animal with all below it in the Semantic Network except Human."""
    kinds = semantic_types.load()
    below = {tui for tui, kind in kinds.items() if f"{kind.stn}.".startswith(f"{kinds[ANIMAL].stn}.")}
    return frozenset((below | {PLANT}) - set(NOT_ORGANISMS))


def _is_organism(kb: KnowledgeBase, gold: Gold, tuis: frozenset[str]) -> bool:
    """Say whether all known gold concepts have one of these types. A mention without a known concept is kept and counts as wrong."""
    rows = [row for alternative in gold.alternatives for row in alternative if row is not None]
    return bool(tuis and rows) and all(not tuis.isdisjoint(kb.concept(row).types) for row in rows)


# -- measuring ----------------------------------------------------------------------------------------------------------


def pooled_together(benchmarks: Sequence[ConceptBenchmark], pool: int, seed: int) -> list[ConceptBenchmark]:
    """Make the dictionary that all these benchmarks share smaller, for quick runs. Figures are higher than with the whole dictionary.

    All benchmarks get the same pool, so that languages can be compared and each name is encoded once.

    Args:
        benchmarks: Benchmarks with one dictionary.
        pool: Number of names that are kept in addition to those of all gold concepts.
        seed: Seed of the draw.
    """
    small = pooled(replace(benchmarks[0], name="pool", golds=[gold for benchmark in benchmarks for gold in benchmark.golds]), pool, seed)
    remark = small.protocol.removesuffix(benchmarks[0].protocol)
    return [replace(benchmark, dictionary=small.dictionary, protocol=remark + benchmark.protocol) for benchmark in benchmarks]


def evaluate_across_languages(
    encoders: dict[str, str],
    groups: Sequence[Sequence[ConceptBenchmark]],
    *,
    limit: int = 0,
    pool: int = 0,
    seed: int = 0,
    gpu_id: int = -1,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure encoders across languages.

    Args:
        encoders: Name -> folder. The others are compared with the first.
        groups: Benchmarks; those of a group share a dictionary.
        limit: Number of queries of each benchmark, drawn at random; 0: all.
        pool: See `pooled_together`; 0: the whole dictionary.
        seed: Seed of samples and resamples.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.
        progress: Show progress bars.

    Returns:
        The result, as it is written.

    Raises:
        SapbertError: E548 (no encoder), and those of the encoders.
    """
    if not encoders:
        raise fail("E548", setting="--encoder", value="", why="give at least one NAME=FOLDER")
    benchmarks: list[Benchmark] = []
    for group in groups:
        some = [benchmark for benchmark in (limited(benchmark, limit, seed) for benchmark in group) if isinstance(benchmark, ConceptBenchmark)]
        benchmarks += pooled_together(some, pool, seed) if pool and some else some
    measured, used = measure_encoders(encoders, benchmarks, gpu_id=gpu_id, progress=progress)
    about = {"versions": versions(), "seed": seed, "limit": limit, "pool": pool, "encoders": used}
    against = next((name.partition("#")[0] for name in encoders), None)
    return as_result(benchmarks, measured, about, against=against, seed=seed)


def chosen_groups(
    kb: Path,
    translations: Path | None,
    xlbel: Path | None,
    languages: Sequence[str] = (ALL,),
    *,
    candidates: Path | None = None,
    dictionary_languages: Sequence[str] = (ALL,),
    organisms: bool = True,
    cased: bool = False,
) -> list[list[ConceptBenchmark]]:
    """Make the benchmarks of the given sources. Those of a group share a dictionary.

    Args:
        kb: The knowledge base whose names are the dictionary. It is opened only if it is needed.
        translations: Folder with held-out translations.
        xlbel: Folder of XL-BEL.
        languages: Languages of the queries.
        candidates: XL-BEL: see `xlbel_benchmarks`.
        dictionary_languages: XL-BEL: languages of the names in the dictionary.
        organisms: XL-BEL: whether mentions of plants and animals count.
        cased: XL-BEL: see `xlbel_benchmarks`.

    Raises:
        SapbertError: E548 (neither source is given), and those of the two sources.
    """
    if translations is None and xlbel is None:
        raise fail("E548", setting="--translations", value="", why="give --translations, --xlbel or both")
    groups = []
    opened = KnowledgeBase(kb) if translations is not None or candidates is None or not organisms else None
    if translations is not None and opened is not None:
        groups.append(held_out_benchmarks(opened, translations, languages))
    if xlbel is not None:
        how: dict[str, Any] = {"candidates": candidates, "dictionary_languages": dictionary_languages, "organisms": organisms, "cased": cased}
        groups.append(xlbel_benchmarks(opened, xlbel, languages, **how))
    return groups
