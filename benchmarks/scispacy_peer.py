"""Build scispaCy's linker over the names of one of our knowledge bases, with scispaCy's own code."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .common import ARTEFACTS, Missing, need, once

EXTRA = "scispacy"
ENTITIES = "kb.jsonl"
MAY_BUILD = True  # building takes half a minute for HPO on two idle cores, and minutes for more names
# scispaCy's own efConstruction of 2000 takes twenty times as long to build. M = 100 and efSearch = 200, on which the measured
# speed of queries depends, are scispaCy's. The row of exact TF-IDF search shows how much accuracy this graph may lose.
GRAPH = {"efConstruction": 100}


def peer(kb: KnowledgeBase, name: str) -> Path:
    """Return the folder of scispaCy's linker for a knowledge base, and build it if it is missing.

    Args:
        kb: The knowledge base whose names are used.
        name: Name of the folder: scispacy-NAME.

    Returns:
        A folder with JSONL, TF-IDF vectors and an nmslib graph of the same names.

    Raises:
        Missing: scispaCy is not installed, or the folder is missing and must not be built.
    """
    need("scispacy", EXTRA)
    if not MAY_BUILD and not (ARTEFACTS / f"scispacy-{name}").is_dir():
        raise Missing("Its index of these names is not built yet, and --no-peer-build was given.")
    return once(f"scispacy-{name}", lambda out: _build(kb, out))


def _build(kb: KnowledgeBase, out: Path) -> None:
    import joblib  # type: ignore[import-untyped]
    import scipy.sparse
    from scispacy import candidate_generation
    from scispacy.linking_utils import KnowledgeBase as ScispacyKB

    stage = out.with_name(out.name + ".stage")
    stage.mkdir(exist_ok=True)
    with open(stage / ENTITIES, "w", encoding="utf-8") as file:
        for row in range(len(kb)):
            file.write(json.dumps(kb.entity(row)._asdict(), ensure_ascii=False) + "\n")
    # scispaCy can build with any SciPy, but it refuses to save where SciPy has no sparse float16: let it build, and save float32 ourselves
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    with quiet(), native_threads():
        aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, ScispacyKB(str(stage / ENTITIES)))
    paths = candidate_generation.LinkerPaths.from_directory(stage)
    Path(paths.concept_aliases_list).write_text(json.dumps(aliases), encoding="utf-8")
    joblib.dump(vectorizer, paths.tfidf_vectorizer)
    scipy.sparse.save_npz(paths.tfidf_vectors, vectorizer.transform(aliases))
    index.saveIndex(paths.ann_index)
    stage.rename(out)


def load(folder: Path, **settings: Any) -> Any:
    """Load scispaCy's EntityLinker from its own files."""
    from scispacy.linking import EntityLinker
    from scispacy.linking_utils import KnowledgeBase as ScispacyKB

    with quiet():
        return EntityLinker.from_kb(ScispacyKB(str(folder / ENTITIES)), ann_index_out_dir=str(folder), **settings)


@contextlib.contextmanager
def native_threads() -> Iterator[None]:
    """Let scispaCy build with one thread per core and with GRAPH. Its own code uses 60 threads ("set based on the machine")."""
    from nmslib.dist import FloatIndex

    create = FloatIndex.createIndex

    def create_index(self: Any, index_params: Any = None, print_progress: bool = False) -> None:
        create(self, {**index_params, **GRAPH, "indexThreadQty": len(os.sched_getaffinity(0))}, print_progress=False)

    FloatIndex.createIndex = create_index
    try:
        yield
    finally:
        FloatIndex.createIndex = create


@contextlib.contextmanager
def quiet() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Hide what scispaCy prints and its warnings; give the captured stdout and stderr."""
    import warnings

    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        warnings.simplefilter("ignore")
        yield out, err
