"""Build a linker folder: knowledge base, encoder, index and manifest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy.typing as npt
from tqdm import tqdm

from ..about import __version__
from ..bundle import (
    ENCODER,
    INDEX,
    KB,
    KIND,
    VERSION,
    engine_name,
    is_default,
    is_fast,
    is_paired,
    save_encoder,
    worker_encoder,
    write_calibration,
    write_ranker,
)
from ..calibration import Calibration
from ..encoders.base import ChecksSaving, Encoder, SizedInMemory, as_encoder
from ..errors import fail, logger
from ..files import copy_folder, write_manifest, writing_folder
from ..indexes.base import KeepsNeighbours, NeedsLibrary, Reported, Tunable
from ..kb.builder import Filters, Source, build_kb
from ..kb.knowledge_base import KnowledgeBase
from ..ranking.ranker import Ranker, read_ranker
from ..settings import FAST as FAST
from ..settings import PAIRED as PAIRED
from ..types import VectorIndex
from .resources import estimate_resources, stored_as
from .vectors import Encode, Known, Workers, bytes_begun, check_free, here, in_processes, name_vectors

DEFAULT = "default"  # the transformer that comes with this package
OPEN_TABLE = Path(__file__).parents[1] / "data" / "open.tsv.xz"  # names of the linker "open"; made by `python -m training vocabulary make`
SHIPPED_RANKERS = {name: OPEN_TABLE.with_name(f"ranker_{name}.json") for name in (DEFAULT, FAST, PAIRED)}  # `python -m training ranker --encoder`
OPEN_RANKER = OPEN_TABLE.with_name("ranker_open.json")  # for the fast encoder over the open vocabulary; `python -m training ranker --linker open`
FEW_QUERIES = 600  # misspelt names that measure an index, if its settings are not tuned
ESTIMATED_FROM = 200_000  # names; with fewer, resources are not estimated


def build_linker(
    sources: Sequence[Source],
    out: str | Path,
    *,
    model: object = None,
    index: VectorIndex | None = None,
    filters: Filters | None = None,
    kb: str | Path | None = None,
    ranker: Ranker | None = None,
    calibration: Calibration | None = None,
    workers: Workers | None = None,
    check: bool = True,
    progress: bool = True,
) -> Path:
    """Build a linker folder: join the sources, encode their names, build the index and measure it.

    The folder appears when everything is done. Vectors are first written into `OUT.vectors`. If a build is killed, start it again with the same
    arguments: it is resumed after the last complete shard (see `vectors.py`).

    Args:
        sources: the sources, in order of preference; none if `kb` is given.
        out: the linker folder.
        model: the encoder, or a Thinc model; None is `spacy-sapbert.NameEncoder.v1`.
        index: the index, not built yet; None is `spacy-sapbert.AnnoyIndex.v1`.
        filters: which concepts and names are kept.
        kb: folder of a knowledge base that was built before.
        ranker: a ranker that was trained with the same encoder; this is not checked. None is this package's ranker, see `shipped_ranker`.
        calibration: a calibration that was fit for the same names, encoder and ranker; this is not checked.
        workers: processes that encode; None is this process.
        check: refuse to begin if there is too little disk or memory.
        progress: show progress bars.

    Returns:
        `out`.

    Raises:
        SapbertError: E028, too little disk or memory; E026, E027, see `name_vectors`; E308, the encoder's classes come from its
            repository; and what sources, encoder and index raise.
    """
    from ..encoders.transformer import NameEncoder  # imported here, because it takes a second to import
    from ..indexes.annoy import AnnoyIndex

    encoder = NameEncoder() if model is None else as_encoder(model)
    index = AnnoyIndex() if index is None else index
    out = Path(out)
    engine_name(index)  # an engine that is not registered fails now, not after hours of encoding
    if isinstance(index, NeedsLibrary):
        index.require()
    check_free(out)
    encoder.initialize()
    if isinstance(encoder, ChecksSaving):
        encoder.check_saving()
    if kb is not None:
        check_room(KnowledgeBase(kb), encoder, index, out, workers=workers, check=check, copied=True, progress=progress)
    with ExitStack() as until_whole, writing_folder(out) as folder:  # the file of vectors is removed when the linker is in its place
        if kb is None:
            built = build_kb(sources, folder / KB, filters=filters, progress=progress)
            check_room(built, encoder, index, out, workers=workers, check=check, progress=progress)
        else:
            copy_folder(Path(kb), folder / KB, list(KnowledgeBase(kb).manifest["files"]))
            built = KnowledgeBase(folder / KB)
        fill_linker(folder, built, encoder, index, out, until_whole, workers=workers, progress=progress)
        ranker = shipped_ranker(encoder, built) if ranker is None else ranker
        if ranker is not None:
            write_ranker(folder, replace(ranker, encoder=encoder.fingerprint))
        if calibration is not None:
            built_for = {**calibration.built_for, "encoder": encoder.fingerprint, "kb": built.fingerprint}
            built_for["ranker"] = "" if ranker is None else ranker.fingerprint
            write_calibration(folder, replace(calibration, built_for=built_for))
    return out


def shipped_ranker(encoder: Encoder, kb: KnowledgeBase) -> Ranker | None:
    """Return the ranker that comes with this package for an encoder; None if there is none.

    The fast encoder has two: one for knowledge bases with the open vocabulary, many concepts of which have no CUI, and one for all others.

    Args:
        encoder: the encoder, initialised.
        kb: the knowledge base.
    """
    if is_fast(encoder) and any(source["name"] == OPEN_TABLE.name for source in kb.manifest["sources"]):
        file = OPEN_RANKER
    elif name := next((name for name, fits in ((DEFAULT, is_default), (FAST, is_fast), (PAIRED, is_paired)) if fits(encoder)), None):
        file = SHIPPED_RANKERS[name]
    else:
        return None
    return replace(read_ranker(file), encoder=encoder.fingerprint) if file.is_file() else None  # it does not exist while it is being trained


def fill_linker(
    folder: Path,
    kb: KnowledgeBase,
    encoder: Encoder,
    index: VectorIndex,
    out: Path,
    until_whole: ExitStack,
    *,
    workers: Workers | None = None,
    known: Known | None = None,
    encode: Encode | None = None,
    progress: bool = True,
) -> None:
    """Write encoder, index and manifest beside a knowledge base.

    Args:
        folder: folder that holds the knowledge base; it will become `out`.
        kb: the knowledge base.
        encoder: the encoder, initialised.
        index: an index with the settings to use; it is built here.
        out: the future linker folder.
        until_whole: when it exits, the file of vectors is removed.
        workers: see `encoded`.
        known: see `encoded`.
        encode: see `encoded`.
        progress: show progress bars.
    """
    (folder / ENCODER).mkdir()
    save_encoder(encoder, folder / ENCODER)
    vectors = until_whole.enter_context(
        encoded(kb, encoder, index, out, folder / ENCODER, workers=workers, known=known, encode=encode, progress=progress)
    )
    made = build_index(kb, encoder, index, vectors, progress=progress)
    made.to_disk(folder / INDEX)
    write_manifest(folder, KIND, VERSION, {"made_by": __version__, "index": engine_name(made)}, deep=False)


def check_room(
    kb: KnowledgeBase,
    encoder: Encoder,
    index: VectorIndex,
    out: Path,
    *,
    workers: Workers | None = None,
    check: bool = True,
    copied: bool = False,
    progress: bool = True,
) -> None:
    """Estimate and log the disk and memory of a build with many names. Refuse the build if less is free.

    Args:
        kb: the knowledge base.
        encoder: the encoder, initialised.
        index: an index with the settings to use.
        out: the future linker folder.
        workers: processes that encode.
        check: refuse; False only logs the estimate.
        copied: whether the knowledge base will be copied into `out`.
        progress: log the estimate (logger `spacy_sapbert`, INFO).

    Raises:
        SapbertError: E028, too little disk or memory.
    """
    if kb.n_surface_forms < ESTIMATED_FROM:
        return
    size = sum(entry["bytes"] for entry in kb.manifest["files"].values()) if copied else 0
    processes = len((workers or Workers()).devices)
    weights = encoder.weight_bytes() if isinstance(encoder, SizedInMemory) else 0
    begun = bytes_begun(out)
    estimate = estimate_resources(kb.n_surface_forms, encoder.dim, index, out, kb_bytes=size, begun=begun, processes=processes, weights=weights)
    if progress:
        logger.info(estimate.in_words())
    if check:
        estimate.check()


def encoded(
    kb: KnowledgeBase,
    encoder: Encoder,
    index: VectorIndex,
    out: Path,
    saved: Path,
    *,
    workers: Workers | None = None,
    known: Known | None = None,
    encode: Encode | None = None,
    progress: bool = True,
) -> AbstractContextManager[npt.NDArray[Any]]:
    """Encode the surface forms of a knowledge base into a file, in the precision of the index; see `name_vectors`.

    Args:
        kb: the knowledge base, with n surface forms.
        encoder: the encoder, initialised.
        index: the index; its precision is used.
        out: the future linker folder; the file is beside it.
        saved: the encoder's folder, which worker processes load.
        workers: processes that encode; None is this process.
        known: vectors that need not be encoded.
        encode: function that encodes instead of the workers.
        progress: show a progress bar.

    Returns:
        A context manager that yields the vectors (n, d).

    Raises:
        SapbertError: E002, workers were given and the encoder can't be loaded by other processes; see `name_vectors`.
    """
    workers = workers or Workers()
    settings = encoder.get_config()
    if encode is None and workers.devices != ("",):
        if not encoder.architecture:
            why = f"'{encoder.name}' can't be loaded by other processes. Leave processes and GPUs out."
            raise fail("E002", setting="workers", component="build_linker", value=len(workers.devices), why=why)
        encode = in_processes(partial(worker_encoder, saved, settings), workers)
    known_by = f"{encoder.fingerprint} {settings.get('dtype', '')}".strip() if encoder.fingerprint else ""  # vectors depend on the precision
    return name_vectors(kb, out, encode or here(encoder), encoder=known_by, dim=encoder.dim, dtype=stored_as(index), known=known, progress=progress)


class _SurfaceForms(Sequence[str]):
    """The surface forms of a knowledge base by their rows. Each is read when it is needed, because UMLS has twelve million."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __len__(self) -> int:
        return self._kb.n_surface_forms

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        if isinstance(row, slice):
            return self._kb.surface_forms_at(range(*row.indices(len(self))))
        return self._kb.surface_forms_at([row])[0]


def build_index(kb: KnowledgeBase, encoder: Encoder, index: VectorIndex, vectors: npt.NDArray[Any], *, progress: bool = True) -> VectorIndex:
    """Build and tune an index, measure it with misspelt names as queries, and find the neighbours of its names.

    Args:
        kb: the knowledge base, with n surface forms.
        encoder: the encoder, initialised.
        index: an index with the settings to use.
        vectors: (n, d) vectors of the surface forms.
        progress: show a progress bar.

    Returns:
        The index, with a `report` of its measurements and of the parts that it was built for.
    """
    from ..indexes.exact import ExactIndex
    from .tune import QUERIES, misspell, right_concept, tune

    count = QUERIES if not isinstance(index, Tunable) or index.settings_to_try(len(vectors)) else FEW_QUERIES
    misspelt = misspell(_SurfaceForms(kb), lambda text: bool(kb.find([text])), count)
    oracle = ExactIndex.over(vectors)
    if misspelt:
        queries = encoder.encode([text for text, _ in misspelt])
        right = right_concept([row for _, row in misspelt], kb.name_table)
        show = tqdm(desc="measuring the index", unit=" settings", disable=not progress)
        with show:
            index, report = tune(index, vectors, oracle, queries, right, show.update)
    else:
        index.build(vectors, progress=progress)
        report = {"protocol": "not measured: no misspelt name is outside the dictionary"}
    if isinstance(index, KeepsNeighbours) and index.neighbour_bytes(len(index)):
        with tqdm(desc="finding neighbours", total=len(index), unit=" names", disable=not progress) as bar:
            index.find_neighbours(bar.update)
    name = encoder.name or (FAST if is_fast(encoder) else "the default of spacy-sapbert (all-MiniLM-L6-v2, trained)")
    if isinstance(index, Reported):
        index.report = {**report, "built_for": {"encoder": encoder.fingerprint, "encoder_name": name, "kb": kb.fingerprint}}
    return index


def read_source(path: str | Path, *, kind: str | None = None, **options: Any) -> Source:
    """Read a file or folder as a source.

    Args:
        path: the file or folder.
        kind: the reader's name; None finds it from the content.
        options: options of the reader.

    Raises:
        SapbertError: E4xx, see the readers.
    """
    from ..readers import ReadStats, read, sniff

    stats = ReadStats()
    if kind is None and Path(path).exists():
        kind = sniff(Path(path))
    concepts = read(path, kind=kind, stats=stats, **options)
    shown = {key: value for key, value in options.items() if kind == "rrf" and key in ("sources", "term_types", "relations", "suppressed")}
    return Source(Path(path).name, concepts, kind or "", stats, only_adds=kind == "babelon", options=shown)
