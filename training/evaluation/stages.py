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
from spacy_sapbert.kb.builder import Source, build_kb
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
PROTOCOL = (
    "Stages: the linker's search over the same names, exact, with the ranker of the package for the encoder (ranker), and then with the cross-encoder for close "
    "calls (cross_encoder), without the text around the mention and without a threshold. A mention that is a name keeps its concepts. A concept that "
    "is not among the nearest names that the linker fetches is never right."
)
STAGES = (RANKER, CROSS_ENCODER)  # each includes the one before it
CHUNK = 256  # queries whose scores for all concepts are in memory at the same time: 30 MB for 30,000 concepts
LABEL = "LABEL"  # vocabulary of the ids of a benchmark's concepts


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
        why = f"these stages come with the package for its own encoders only; give one of them, such as --encoder NAME={SHIPPED}"
        raise fail("E548", setting="--stages", value=",".join(stages), why=why)


def has_stages(folder: str) -> bool:
    """Return whether the package has a ranker and a cross-encoder for the encoder with this folder, see `load_encoder`."""
    return folder in (SHIPPED, FAST, PAIRED)


def named_with(system: str, stage: str) -> str:
    """Return the name of a system with a stage: "shipped" and "ranker" give "shipped + ranker". The number of a seed stays at the end."""
    title, sign, seed = system.partition("#")
    return f"{title} + {stage}{sign}{seed}"


def measure_stages(
    encoder: Encoder, benchmarks: Sequence[Benchmark], encoded: Encoded, stages: Sequence[str], *, progress: bool = False
) -> dict[str, dict[str, Measured]]:
    """Measure stages of the linker on benchmarks of mentions.

    A concept that the linker does not find among its nearest names is never right. Concepts with equal scores count as their expectation, as for the
    encoder alone.

    Args:
        encoder: An encoder of the package.
        benchmarks: The benchmarks; those of pairs are left out.
        encoded: The encoder's vectors of their names.
        stages: Which of STAGES.
        progress: Show a progress bar.

    Returns:
        Stage -> benchmark -> outcomes of its mentions.
    """
    found: dict[str, dict[str, Measured]] = {stage: {} for stage in stages}
    of_concepts = [benchmark for benchmark in benchmarks if isinstance(benchmark, ConceptBenchmark)]
    with tempfile.TemporaryDirectory() as folder:
        for number, benchmark in enumerate(tqdm(of_concepts, desc="ranking", unit=" benchmarks", disable=not progress)):
            kb = knowledge_base_of(benchmark.dictionary, Path(folder) / str(number))
            vectors = encoded.of(list(kb.surface_forms()))
            for stage in stages:
                search = make_search(kb, encoder, vectors, stage)
                found[stage][benchmark.name] = outcomes_of_scores(benchmark, scores(search, benchmark))
    return found


def knowledge_base_of(dictionary: Dictionary, folder: Path) -> KnowledgeBase:
    """Make a knowledge base from the dictionary of a benchmark. The concept with the label 12 gets the id "LABEL:12".

    Args:
        dictionary: The dictionary.
        folder: Folder for the knowledge base.
    """
    entry = dictionary.known().entry

    def concepts() -> Iterator[Concept]:
        for label in np.unique(dictionary.labels).tolist():
            names, canonical = dictionary.names_of(label), normalise(entry(label)[1])
            ordered = sorted(names, key=lambda name: name != canonical)  # the canonical name first
            yield Concept(f"{LABEL}:{label}", LABEL, [Name(name, LABEL, rank=min(place, 1)) for place, name in enumerate(ordered)])

    return build_kb([Source("benchmark", concepts())], folder)


def make_search(kb: KnowledgeBase, encoder: Encoder, vectors: Floats2d, stage: str) -> CandidateSearch:
    """Return an exact search over a knowledge base with the ranker of the package, and with the cross-encoder if that is the stage.

    Args:
        kb: The knowledge base.
        encoder: An encoder of the package.
        vectors: (n, d) its vectors of the knowledge base's surface forms.
        stage: One of STAGES.
    """
    ranker = shipped_ranker(encoder, kb)
    bundle = LinkerBundle(kb.path, kb, encoder, ExactIndex.over(vectors), ranker=ranker, calibration=None, additions=Additions())
    return CandidateSearch(bundle, Settings(spans_key=GOLD, language="en", rerank=CROSS_ENCODER if stage == CROSS_ENCODER else None))


def scores(search: CandidateSearch, benchmark: ConceptBenchmark) -> Iterator[tuple[int, Floats2d]]:
    """Yield the scores that rank the concepts, see `outcomes_of_scores`.

    Args:
        search: A search over the knowledge base of the benchmark's dictionary.
        benchmark: The benchmark.
    """
    kb = search.bundle.kb
    label_of = np.array([int(kb.concept_id(row).partition(":")[2]) for row in range(len(kb))], dtype=np.int64)
    for start in range(0, len(benchmark.queries), CHUNK):
        queries = [Query(text) for text in benchmark.queries[start : start + CHUNK]]
        best = np.full((benchmark.dictionary.n_labels, len(queries)), -np.inf, dtype=np.float32)
        for i, candidates in enumerate(search.ranked(queries)):
            for candidate in candidates:
                best[label_of[candidate.concept], i] = candidate.ranked_by
        yield start, best
