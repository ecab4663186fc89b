"""How well encoders find concepts across languages: `python -m training cross-lingual --encoder base= --kb artifacts/kb --translations artifacts/translations`.

Benchmarks: held-out translations, looked up among English names, one for each language; XL-BEL. evaluate.py measures and shows them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import checksum
from spacy_sapbert.kb import semantic_types
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
# the UMLS Semantic Network's Plant, and Animal with all below it (A1.1.3.3 and A1.1.3.1) but Human
NOT_ORGANISMS = ("T016",)
PLANT, ANIMAL = "T002", "T008"
TRANSLATED = (
    "Queries: translations that were held out of training, with all other names of their concept in that language, and in whatever language they are "
    "written the same. The dictionary: all {spoken} names of the knowledge base. Right is a concept that has the query as its name in that language."
)
XLBEL = (
    "XL-BEL (Liu et al., ACL 2021): mentions of Wikipedia in a language, looked up among {names}. Mentions whose CUI the dictionary does not have, or whose id "
    "is no CUI, count as wrong."
)
OF_KB = (
    "the names of the knowledge base in {spoken}. Published figures are of the released candidate list: 399,931 names in all languages of UMLS 2020AA, of the "
    "concepts that Wikipedia mentions"
)
OF_CANDIDATES = "the {count:,} names of the candidate list '{file}' (the released one has 399,931), {case}"
NAMES_RANKED = (
    "As SapBERT's own evaluation counts: names are ranked, not concepts, and a name is right where any concept it belongs to is any gold id. Mentions "
    "are looked up whole."
)
ORGANISMS = (
    "Without mentions whose every gold concept is a plant or an animal ({tuis}), which BioLORD-2023 (Remy et al., JAMIA 2024) leaves out; the codes are the Semantic "
    "Network's Plant and Animal with all below it but Human."
)
VERSIONS = ("xlbel_v0.0", "xlbel_v1.0")
_FILE = re.compile(r"([a-z]{2,3})(?:[_.-].*)?\.txt(?:\.gz)?")


# -- dictionaries -------------------------------------------------------------------------------------------------------


def of_languages(kb: KnowledgeBase, source: str, languages: Sequence[str] = (ALL,)) -> Dictionary:
    """Make a dictionary of a knowledge base's names in some languages; each concept counts by itself.

    Args:
        kb: The knowledge base.
        source: What to call it in the output.
        languages: Language codes, or all.

    Raises:
        SapbertError: E107, for a language that it does not have.
    """
    spoken = check_languages(kb, languages)
    whole = of_kb(kb, source)
    lines = kb.rows_of_languages(spoken)
    if lines.all():
        return replace(whole, about={**whole.about, "languages": spoken})
    order = np.argsort(kb.name_table.concept.astype(np.int64), kind="stable")  # as the dictionary's pairs are
    return select(whole, lines[order], {"languages": spoken})


# -- held-out translations ----------------------------------------------------------------------------------------------


def held_out_benchmarks(kb: KnowledgeBase, translations: Path, languages: Sequence[str] = (ALL,)) -> list[ConceptBenchmark]:
    """Make a benchmark of held-out translations for each language, `held_out_de`.

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
        folder: The folder, or the one above the published `xlbel_v0.0`, which the paper measures, and `xlbel_v1.0`, which adds sentences.
        languages: Languages that are wanted, or all.

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
    """Make a benchmark of XL-BEL for each language, `xlbel_de`, counted as SapBERT's own evaluation counts.

    Names are ranked, and a name is right if any concept that it belongs to is any gold id.

    Args:
        kb: The knowledge base whose names are the dictionary, and whose types tell plants and animals; None where neither is wanted.
        folder: Folder of XL-BEL.
        languages: Languages of the mentions.
        candidates: A file with lines `CUI||name`, whose names are the dictionary instead; the paper's is released with XL-BEL.
        dictionary_languages: Languages of the knowledge base's names in the dictionary.
        organisms: Keep mentions of plants and animals, as the paper does; BioLORD-2023 leaves them out.
        cased: Keep the capitals of mentions and candidates, for a cased encoder. Those of a knowledge base are kept where it is `cased`.

    Raises:
        SapbertError: E609, E107, E560 (the candidates), and what `read_corpus` raises.
    """
    files = xlbel_files(folder, languages)
    if candidates is not None:
        dictionary, ids = of_lines(candidates, f"candidate list {candidates.name}", cased=cased)

        def rows_of(concept_id: str) -> Sequence[int]:
            return (ids[concept_id],) if concept_id in ids else ()

        def form(text: str, language: str) -> str:  # a candidate list says no languages: its names and the mentions are lower-cased by one rule
            return normalise(text, cased=cased)

        among = OF_CANDIDATES.format(
            count=len(dictionary.names), file=candidates.name, case="with capitals" if cased else "lower-cased as in the released code"
        )
    else:
        assert kb is not None
        dictionary, rows_of = of_languages(kb, "names of the knowledge base", dictionary_languages), kb.rows_of
        form = kb.encoded_form
        among = OF_KB.format(spoken=", ".join(dictionary.about["languages"]))
    names = by_names(ConceptBenchmark("", "", "", [], [], dictionary), rows_of).dictionary  # each name is a label of its own
    with_capitals = cased if kb is None or candidates is not None else kb.cased
    protocol = f"{SEARCH_CASED if with_capitals else SEARCH} {XLBEL.format(names=among)} {NAMES_RANKED}"
    left = frozenset() if organisms else organism_types()
    if left:
        protocol = f"{protocol} {ORGANISMS.format(tuis=', '.join(sorted(left)))}"
    benchmarks = []
    for language, path in files.items():
        corpus = read_corpus(path, "xlbel")
        mentions = corpus.mentions
        kept = [i for i, mention in enumerate(mentions) if not (left and kb and _is_organism(kb, resolve_gold(mention, kb.rows_of), left))]
        if not kept:
            raise fail("E544", name=f"xlbel_{language}", why="all of its mentions are of plants or animals")
        chosen = [mentions[i] for i in kept]
        golds = [resolve_gold(mention, rows_of) for mention in chosen]
        left_out = {"mentions": len(mentions), "plants_and_animals_left_out": len(mentions) - len(kept)}
        counts = {**left_out, **corpus.counts, **count_unanswerable(golds)}
        queries = [form(mention.text, language) for mention in chosen]
        hashed = {path.name: checksum(path)[:HASH_DIGITS]}
        title = f"XL-BEL, {language}{'' if organisms else ', without plants and animals'}"
        right = [_names_of(dictionary, gold) for gold in golds]
        benchmarks.append(
            ConceptBenchmark(f"xlbel_{language}", title, protocol, queries, right, names, "lenient", counts, given=tuple(chosen), files=hashed)
        )
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
    """Say whether every gold concept that is known has one of these types. A mention without a known concept stays and counts as wrong."""
    rows = [row for alternative in gold.alternatives for row in alternative if row is not None]
    return bool(tuis and rows) and all(not tuis.isdisjoint(kb.concept(row).types) for row in rows)


# -- measuring ----------------------------------------------------------------------------------------------------------


def pooled_together(benchmarks: Sequence[ConceptBenchmark], pool: int, seed: int) -> list[ConceptBenchmark]:
    """Cut down the dictionary that all these benchmarks share, for quick runs: figures are higher than with the whole dictionary.

    There is one pool for all, so that languages can be compared and each name is encoded once.

    Args:
        benchmarks: Benchmarks with one dictionary.
        pool: How many names are kept besides those of all their gold concepts.
        seed: Of the draw.
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
        encoders: Name -> folder. The first is what others are compared with.
        groups: Benchmarks; those of a group share a dictionary.
        limit: Queries of each benchmark, at random; 0: all.
        pool: See `pooled_together`; 0: the whole dictionary.
        seed: Of samples and resamples.
        gpu_id: What encodes; -1 is the CPU.
        progress: Show progress bars.

    Returns:
        Everything that is written.

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
    """Make the benchmarks of the sources that are given; those of a group share a dictionary.

    Args:
        kb: The knowledge base whose names are the dictionary. It is opened only where something of it is asked for.
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
