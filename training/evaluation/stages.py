"""Measure what the linker does after the encoder, on the same benchmarks: the ranker, and the cross-encoder for close calls.

Both are those of the package. Each benchmark's dictionary becomes a knowledge base, and the linker's own search looks up the queries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spacy_sapbert.build.linker import shipped_ranker
from spacy_sapbert.bundle import LinkerBundle
from spacy_sapbert.encoders.base import Encoder
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.additions import Additions
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.search import CandidateSearch, Query
from spacy_sapbert.settings import CROSS_ENCODER, FAST, PAIRED, Settings
from spacy_sapbert.types import Floats2d

from ..corpora import GOLD
from ..errors import fail
from ..loop.encoders import SHIPPED
from .benchmarks import Benchmark, ConceptBenchmark
from .dictionaries import Dictionary
from .systems import Encoded, Measured, outcomes_of_scores

RANKER = "ranker"
STAGES = (RANKER, CROSS_ENCODER)  # each includes the one before it
TRAINED_ON = "ncbi-train, bc5cdr-train, gsc-dev, biomap, labeledin"  # by the rankers and the cross-encoder of the package
PROTOCOL = (
    "Stages: the linker's search over the same names, exact, at most 30 concepts for each mention, without a threshold. ranker: with the ranker of the package for the "
    "encoder. cross_encoder: close calls are then reranked by the cross-encoder, without the text around the mention. A name in another form of its words "
    "(singular, plural, adjective) is an exact match, too. Exact matches come first, and the stages do not reorder them. Names that say the opposite of the mention "
    "are left out. A concept that is not among the nearest names that the linker fetches is never right. Benchmarks that count by names are left out. The "
    f"ranker and the cross-encoder were trained on {TRAINED_ON}, and on names of MEDIC, HPO, MONDO and the open vocabulary, so figures for these parts, and for "
    "held-out names, are too high. p of a stage: of the difference from the same encoder alone."
)
CHUNK_BYTES = 100_000_000  # bytes of scores that are in memory at the same time
LABEL = "LABEL"  # vocabulary of the ids of a benchmark's concepts
FIRST = 1e-3  # added to the score of an exact match, so that it comes before a name with the same vector


def check_stages(stages: Sequence[str], encoders: Iterable[str]) -> None:
    """Check the names of stages, and that there is an encoder with which they can be measured.

    Args:
        stages: The stages; with none, nothing is checked.
        encoders: The folders of the encoders, see `load_encoder`.

    Raises:
        SapbertError: E548.
    """
    for stage in stages:
        if stage not in STAGES:
            raise fail("E548", setting="--stages", value=stage, why=f"it must be one or more of {', '.join(STAGES)}, separated by commas")
    if stages and not any(has_stages(folder) for folder in encoders):
        why = f"the package has these stages only for its own encoders; give one of them, such as --encoder NAME={SHIPPED}"
        raise fail("E548", setting="--stages", value=",".join(stages), why=why)


def has_stages(folder: str) -> bool:
    """Return whether the package has a ranker and a cross-encoder for the encoder with this folder, see `load_encoder`."""
    return folder in (SHIPPED, FAST, PAIRED)


def named_with(system: str, stage: str) -> str:
    """Return the name of a system with a stage: "shipped" and "ranker" give "shipped + ranker". The number of a seed stays at the end."""
    title, sign, seed = system.partition("#")
    return f"{title} + {stage}{sign}{seed}"


def alone(system: str) -> str | None:
    """Return the name of the encoder of a system with a stage: "shipped + ranker" gives "shipped"; None for a system without a stage."""
    return next((system.removesuffix(f" + {stage}") for stage in STAGES if system.endswith(f" + {stage}")), None)


def measure_stages(
    encoder: Encoder, benchmarks: Sequence[Benchmark], encoded: Encoded, stages: Sequence[str], *, progress: bool = False
) -> dict[str, dict[str, Measured]]:
    """Measure stages of the linker on benchmarks of mentions, see PROTOCOL. Concepts with equal scores count as their expectation.

    A knowledge base is built for each dictionary, in a temporary folder. That takes about ten seconds for 40,000 names. The cross-encoder is on the CPU.

    Args:
        encoder: An encoder of the package.
        benchmarks: The benchmarks; those of pairs, and those that count by names, are left out.
        encoded: What `encode_benchmarks` returned for this encoder and these benchmarks.
        stages: Which of STAGES.
        progress: Show a progress bar.

    Returns:
        Stage -> benchmark -> outcomes of its mentions.
    """
    found: dict[str, dict[str, Measured]] = {stage: {} for stage in stages}
    by_dictionary: dict[int, list[ConceptBenchmark]] = {}
    for benchmark in benchmarks:
        if isinstance(benchmark, ConceptBenchmark) and not benchmark.by_names:
            by_dictionary.setdefault(id(benchmark.dictionary), []).append(benchmark)
    with tqdm(total=sum(map(len, by_dictionary.values())), desc="ranking", unit=" benchmarks", disable=not progress) as bar:
        for group in by_dictionary.values():
            with tempfile.TemporaryDirectory() as folder:
                kb = knowledge_base_of(group[0].dictionary, Path(folder) / "kb")
                vectors = encoded.of(list(kb.surface_forms()))
                searches = {stage: make_search(kb, encoder, vectors, stage) for stage in stages}
                for benchmark in group:
                    for stage, search in searches.items():
                        found[stage][benchmark.name] = outcomes_of_scores(benchmark, scores(search, benchmark))
                    bar.update()
    return found


def knowledge_base_of(dictionary: Dictionary, folder: Path) -> KnowledgeBase:
    """Make a knowledge base from the dictionary of a benchmark. The concept with the label 12 gets the id "LABEL:12".

    Args:
        dictionary: The dictionary. If a name has capitals, the knowledge base is a cased one.
        folder: Folder for the knowledge base.

    Raises:
        SapbertError: E103, the dictionary has no name.
    """
    entry = dictionary.known().entry
    cased = any(name != normalise(name) for name in dictionary.names)

    def concepts() -> Iterator[Concept]:
        for label in np.unique(dictionary.labels).tolist():
            names = dictionary.names_of(label)
            if len(names) > 1:  # else the canonical name is known, and need not be read
                canonical = normalise(entry(label)[1], cased=cased)
                names.sort(key=lambda name: name != canonical)  # the canonical name first
            yield Concept(f"{LABEL}:{label}", LABEL, [Name(name, LABEL, rank=min(place, 1)) for place, name in enumerate(names)])

    return build_kb([Source("benchmark", concepts())], folder, filters=Filters(cased=cased))


def exact_linker(kb: KnowledgeBase, encoder: Encoder, vectors: Floats2d, *, ranked: bool = True) -> LinkerBundle:
    """Return a linker in memory that searches the names of a knowledge base exactly.

    Args:
        kb: The knowledge base.
        encoder: The encoder.
        vectors: (n, d) its vectors of the knowledge base's surface forms.
        ranked: Whether it gets the ranker of the package for the encoder, if there is one.
    """
    ranker = shipped_ranker(encoder, kb) if ranked else None
    return LinkerBundle(kb.path, kb, encoder, ExactIndex.over(vectors), ranker=ranker, calibration=None, additions=Additions())


def make_search(kb: KnowledgeBase, encoder: Encoder, vectors: Floats2d, stage: str) -> CandidateSearch:
    """Return an exact search over a knowledge base with the ranker of the package, and with the cross-encoder if that is the stage.

    Args:
        kb: The knowledge base.
        encoder: An encoder of the package.
        vectors: (n, d) its vectors of the knowledge base's surface forms.
        stage: One of STAGES.
    """
    settings = Settings(spans_key=GOLD, language="en", rerank=CROSS_ENCODER if stage == CROSS_ENCODER else None)
    return CandidateSearch(exact_linker(kb, encoder, vectors), settings)


def scores(search: CandidateSearch, benchmark: ConceptBenchmark) -> Iterator[tuple[int, Floats2d]]:
    """Yield the scores that rank the concepts, in chunks of queries: what `outcomes_of_scores` reads.

    Args:
        search: A search over the knowledge base of the benchmark's dictionary.
        benchmark: The benchmark.

    Yields:
        The first query of the chunk, and scores (concepts, queries of the chunk); -inf for a concept that the search does not find.
    """
    label_of = [int(concept.partition(":")[2]) for concept in search.bundle.kb.cui_to_entity]
    chunk = max(1, CHUNK_BYTES // (4 * benchmark.dictionary.n_labels))
    for start in range(0, len(benchmark.queries), chunk):
        queries = [Query(text) for text in benchmark.queries[start : start + chunk]]
        best = np.full((benchmark.dictionary.n_labels, len(queries)), -np.inf, dtype=np.float32)
        for i, (candidates, exact) in enumerate(search.ranked(queries)):
            for candidate in candidates:
                is_first = exact and candidate.surface_form == candidates[0].surface_form
                best[label_of[candidate.concept], i] = candidate.ranked_by + (FIRST if is_first else 0.0)
        yield start, best
