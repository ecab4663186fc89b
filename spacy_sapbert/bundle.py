"""An opened linker folder as one value, and the functions that open and save its parts.

A linker folder holds `kb/`, `encoder/`, `index/` and `manifest.json`. It may also hold `senses/`, `ranker.json`, `calibration.json` and the
files of `Additions`.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from .calibration import Calibration, read_calibration
from .encoders.base import Encoder, ThincEncoder, as_encoder
from .errors import SapbertError, fail, warn
from .files import MANIFEST, disk_full_as_error, folder_is_there, keep_other_files, read_manifest, write_manifest, write_text, writing_folder
from .indexes.base import report_of
from .kb.additions import Additions
from .kb.concept import normalise
from .kb.knowledge_base import KnowledgeBase
from .ranking.ranker import Ranker, read_ranker
from .registry import registry
from .settings import FAST as FAST
from .settings import PAIRED as PAIRED
from .settings import Settings, shown_setting
from .types import VectorIndex

KIND, VERSION = "linker", 1
KB, ENCODER, INDEX = "kb", "encoder", "index"  # folders in a linker folder
PARTS = {"kb": KB, "model": ENCODER, "index": INDEX}  # name of a part in spaCy's `exclude` -> its folder
SENSES = "senses"  # folder of the sense model, if there is one; the manifest does not list it, because it depends on no part
RANKER = "ranker.json"  # the manifest does not list it, because it may be trained again
CALIBRATION = "calibration.json"  # the manifest does not list it, because it may be fit again
NAME_ENCODER, STATIC_ENCODER = "spacy-sapbert.NameEncoder.v1", "spacy-sapbert.StaticEncoder.v1"
PAIRED_ENCODER, EQUAL_SHARES = "spacy-sapbert.PairedEncoder.v1", 0.5


class _Manifest(BaseModel):
    """The required content of a linker folder's manifest."""

    model_config = ConfigDict(strict=True)

    index: str


class _EncoderManifest(BaseModel):
    """The required content of an encoder's manifest."""

    model_config = ConfigDict(strict=True)

    name: str
    architecture: Annotated[str, Field(min_length=1)] | None = None


@dataclass(frozen=True)
class LinkerBundle:
    """An opened linker folder. Its parts were built for each other.

    A bundle is never changed. To change a part, make another bundle with `with_additions` or `dataclasses.replace`. Code that still uses the
    old bundle then still has a complete linker.

    Attributes:
        folder: the linker folder.
        kb: the knowledge base, with the additions.
        encoder: the encoder, loaded.
        index: the index of the knowledge base's surface forms.
        ranker: orders candidates; None if no ranker was trained for this encoder.
        calibration: None if no calibration was fit for this encoder, knowledge base and ranker.
        additions: names and concepts that a user added, with their vectors by this encoder, and names that the user removed.
        why_not_calibrated: for the message of E010: why a calibration in the folder is not used.
        why_not_ranked: for the message of E050: why a ranker in the folder is not used.
        parts: name of a part, see `PARTS` -> its folder. If a part was kept from another linker folder, its folder is there. A part that was
            given as an object and has no folder is left out.
        temporaries: temporary folders that `from_bytes` wrote; they stay on disk as long as the bundle is in use.
    """

    folder: Path
    kb: KnowledgeBase
    encoder: Encoder
    index: VectorIndex
    ranker: Ranker | None
    calibration: Calibration | None
    additions: Additions
    why_not_calibrated: str = ""
    why_not_ranked: str = ""
    parts: Mapping[str, Path] = field(default_factory=dict)
    temporaries: tuple[TemporaryDirectory[str], ...] = ()

    @property
    def senses(self) -> Path | None:
        """The sense model in the linker folder; None if it has none."""
        folder = self.folder / SENSES
        return folder if folder.is_dir() else None

    @classmethod
    def open(
        cls,
        folder: str | Path,
        encoder: Encoder,
        index: VectorIndex,
        *,
        component: str = "sapbert_linker",
        exclude: Collection[str] = (),
        opened: LinkerBundle | None = None,
        ranker: Ranker | None = None,
        calibration: Calibration | None = None,
        additions: Additions | None = None,
        parts: Mapping[str, Path] | None = None,
        temporary: TemporaryDirectory[str] | None = None,
    ) -> LinkerBundle:
        """Open a linker folder, and check that its parts belong together. Large files are memory-mapped, not read.

        Args:
            folder: the linker folder.
            encoder: the configured encoder. Its settings are used if the folder's encoder has the same architecture.
            index: the configured index. Its settings are used if the folder's index is of the same engine.
            component: name of the component, for messages.
            exclude: parts that are not read from the folder but kept: "kb", "model", "index".
            opened: the bundle that kept parts come from; None keeps `encoder` and `index` themselves.
            ranker: used instead of the folder's.
            calibration: used instead of the folder's.
            additions: used instead of the folder's.
            parts: folders of the parts that are not in `folder`.
            temporary: the temporary folder that holds `folder`, if it is to be removed when the bundle is not used any more.

        Raises:
            MissingFile: E101, E109, E201 or E301, a part is not there.
            DamagedFile: E102, E110, E202, E015, E023, E048, a part is damaged.
            SapbertError: E003, the encoder to keep is not loaded; E022, an added name belongs to no concept of the knowledge base; E106, a part has
                another format; E203, encoder, index and knowledge base were not built for each other.
        """
        folder = Path(folder)
        folder_is_there(folder)  # finishes a replacement that was interrupted; missing parts are reported below
        places = {part: folder / name for part, name in PARTS.items()} | dict(parts or {})
        kb = opened.kb if "kb" in exclude and opened is not None else KnowledgeBase(places["kb"])
        added = Additions.from_disk(folder) if additions is None else additions
        if "model" not in exclude:
            loaded = open_encoder(places["model"], encoder)
        else:
            loaded = encoder if opened is None else opened.encoder
            if not loaded.dim:
                raise fail("E003", component=component, what="encoder")
        # not in a second thread beside the encoder: np.load and imports use Python 3.11's parser, which raises SystemError in two threads
        if "index" not in exclude:
            found = open_index(places["index"].parent, index)
        else:
            found = index if opened is None else opened.index
        check_built_for_each_other(kb, loaded, found, encoder)
        why = why_not_ranked = ""
        if ranker is None:
            ranker, why_not_ranked = open_ranker(folder, loaded.fingerprint)
        if calibration is None:
            calibration, why = open_calibration(folder, loaded.fingerprint, kb.fingerprint, "" if ranker is None else ranker.fingerprint)
        for part in set(exclude) & set(places):
            if opened is not None and part in opened.parts:
                places[part] = opened.parts[part]
            elif opened is not None or not places[part].is_dir():
                del places[part]
        used = [folder, *places.values()]
        kept = [] if opened is None else [each for each in opened.temporaries if any(Path(each.name) in place.parents for place in used)]
        temporaries = (*kept, *(() if temporary is None else (temporary,)))
        made = cls(folder, kb, loaded, found, ranker, calibration, Additions(), why, why_not_ranked, places, temporaries)
        return made.with_additions(added)

    def with_additions(self, additions: Additions) -> LinkerBundle:
        """Return a bundle with other additions and removed names. Names without a vector by this encoder are encoded.

        Raises:
            SapbertError: E022, an added name belongs to no concept of the knowledge base.
        """
        encoder = self.encoder.fingerprint
        vectors = dict(additions.vectors) if additions.encoder == encoder else {}
        forms = {normalise(name.text, name.language): self.kb.encoded_form(name.text, name.language) for name in reversed(additions.names)}
        vectors = {form: vector for form, vector in vectors.items() if form in forms}  # names may have been dropped since
        missing = [form for form in reversed(forms) if form not in vectors]
        if missing:
            vectors.update(zip(missing, self.encoder.encode([forms[form] for form in missing])))
        complete = replace(additions, vectors=vectors, encoder=encoder)
        return replace(self, additions=complete, kb=self.kb.with_additions(complete))

    def save(self, target: Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the linker as a folder, with this ranker, calibration and additions. An old linker there is replaced when the new one is complete.

        Args:
            target: the new folder; it may be the bundle's own.
            exclude: parts that are not written: "kb", "model", "index". Those in the old folder stay.

        Raises:
            SapbertError: E008, the disk is full; then the old folder is unchanged.
        """
        if target.is_symlink():
            target = target.resolve()  # replace the folder that the link points to, not the link
        own = {part: self.folder / name for part, name in PARTS.items()}
        if target.resolve() == self.folder.resolve() and self.parts == own:
            with disk_full_as_error(target):
                self._write_changeable(target)
            return
        parts = [part for part in PARTS if part not in set(exclude)]
        with writing_folder(target) as folder:
            keep_other_files(target, folder, [*(PARTS[part] for part in parts), MANIFEST, SENSES])
            if self.senses is not None:
                shutil.copytree(self.senses, folder / SENSES)
            for part in parts:
                self._save_part(part, folder / PARTS[part])
            source = self.parts["index"].parent if "index" in self.parts else self.folder
            shutil.copyfile(source / MANIFEST, folder / MANIFEST)  # it names the engine of the index
            self._write_changeable(folder)

    def _save_part(self, part: str, folder: Path) -> None:
        """Copy the folder of a part, or write a part that has no folder."""
        if part in self.parts:
            shutil.copytree(self.parts[part], folder)
        elif part == "model":
            folder.mkdir()
            save_encoder(self.encoder, folder)
        else:
            self.index.to_disk(folder)

    def _write_changeable(self, folder: Path) -> None:
        """Write the files that may change after a linker is built."""
        write_ranker(folder, self.ranker)
        write_calibration(folder, self.calibration)
        self.additions.to_disk(folder)

    def check_settings(self, settings: Settings) -> None:
        """Warn W004 if the calibration was fit with other settings."""
        if self.calibration is None:
            return
        now = {"rerank": None, **settings.scores_depend_on()}
        if self.ranker is None:
            del now["rank"]  # without a ranker both values mean the same
        then = {"rerank": None, **self.calibration.settings}
        different = {key: value for key, value in then.items() if key in now and now[key] != value}
        if different:
            shown = ", ".join(f"{key}={shown_setting(value)}, not {shown_setting(now[key])}" for key, value in different.items())
            warn("W004", path=self.folder, differences=shown)


def check_built_for_each_other(kb: KnowledgeBase, encoder: Encoder, index: VectorIndex, asked: Encoder) -> None:
    """Check that the index was built for this knowledge base and encoder, and that the encoder is the configured one.

    Raises:
        SapbertError: E203.
    """
    built_for = report_of(index).get("built_for", {})
    same = {
        "encoder": built_for.get("encoder", encoder.fingerprint) == encoder.fingerprint
        and asked.name in ("", encoder.name)
        and (is_fast(encoder) or not is_fast(asked)),
        "knowledge base": built_for.get("kb", kb.fingerprint) == kb.fingerprint,
        "number of names": len(index) == kb.n_surface_forms,
        "number of dimensions": index.dim == encoder.dim,
    }
    different = [what for what, fits in same.items() if not fits]
    if different:
        raise fail(
            "E203",
            different=" and ".join(different),
            index=len(index),
            dim=index.dim,
            built=built_for.get("encoder_name", "unknown"),
            names=kb.n_surface_forms,
            encoder=FAST if is_fast(asked) else asked.name or encoder.name or "all-MiniLM-L6-v2",
            width=encoder.dim,
        )


# -- encoder ------------------------------------------------------------------------------------------------------------


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write an encoder and its manifest into an existing folder."""
    encoder.save(folder)
    about = {"architecture": encoder.architecture} if encoder.architecture else {}
    write_manifest(folder, "encoder", VERSION, {"name": encoder.name, **about})


def open_encoder(folder: Path, like: Encoder) -> Encoder:
    """Return the encoder of a linker folder, loaded.

    Args:
        folder: the encoder's folder.
        like: an encoder whose settings are used if it has the same architecture. It is not changed; one without an architecture is copied.

    Raises:
        SapbertError: E109, E110, E301, E307, E309, the folder is missing, damaged or not to be trusted; E052, its architecture is not registered;
            E310, `like` can't be copied.
    """
    manifest = read_manifest(folder, "encoder", VERSION, missing="E109", damaged="E110", content=_EncoderManifest)
    architecture = manifest.get("architecture", like.architecture)
    if architecture:
        encoder = make_encoder(architecture, like.get_config() if like.architecture == architecture else {})
    else:
        encoder = _copy(like)
    encoder.load(folder)
    return encoder


def _copy(encoder: Encoder) -> Encoder:
    """Return a copy of an encoder without an architecture, because loading must not change the original, which a linker may be using.

    Raises:
        SapbertError: E310, it can't be copied.
    """
    try:
        return ThincEncoder(encoder.model.copy()) if isinstance(encoder, ThincEncoder) else deepcopy(encoder)
    except Exception as error:  # the encoder's own code may raise anything
        raise fail("E310", name=encoder.name, error=f"{type(error).__name__}: {error}") from error


def worker_encoder(folder: Path, settings: dict[str, Any], device: str) -> Encoder:
    """Load the encoder of a linker folder in a worker process.

    Args:
        folder: the encoder's folder.
        settings: settings of its architecture.
        device: "cpu" or "cuda:0".
    """
    manifest = read_manifest(folder, "encoder", VERSION, missing="E109", damaged="E110", content=_EncoderManifest)
    encoder = make_encoder(manifest["architecture"], settings)
    encoder.load(folder)
    encoder.to(device)
    return encoder


def make_encoder(architecture: str, settings: dict[str, Any]) -> Encoder:
    """Return a new encoder of a registered architecture. No file is read.

    Raises:
        SapbertError: E052, it is not registered.
    """
    try:
        make = registry.get("architectures", architecture)
    except ValueError as error:  # RegistryError
        raise fail("E052", what="encoder's architecture", name=architecture[:100], registry="architectures") from error
    return as_encoder(make(**settings))


def is_fast(encoder: Encoder) -> bool:
    """Return whether an encoder is the static one that comes with this package."""
    return encoder.architecture == STATIC_ENCODER and not encoder.name


def is_paired(encoder: Encoder) -> bool:
    """Return whether an encoder is the two of this package as one, each with half of the weight."""
    config = encoder.get_config()
    return encoder.architecture == PAIRED_ENCODER and not config["name"] and not config["static"] and config["share"] == EQUAL_SHARES


def is_default(encoder: Encoder) -> bool:
    """Return whether an encoder is the transformer that comes with this package."""
    return encoder.architecture == NAME_ENCODER and not encoder.name


# -- index --------------------------------------------------------------------------------------------------------------


def engine_name(index: Any) -> str:
    """Return the registered name of an index's engine. It is needed to open the index's folder again.

    Raises:
        SapbertError: E006, its engine is not registered.
    """
    for name, make in registry.sapbert_indexes.get_all().items():  # type: ignore[attr-defined]
        if make is type(index):
            return str(name)
    raise fail("E006", what=type(index).__name__, got=type(index).__name__, expected="index registered under sapbert_indexes")


def open_index(folder: Path, like: VectorIndex | None = None) -> VectorIndex:
    """Open the index of a linker folder, with the engine that the manifest names.

    Args:
        folder: the linker folder.
        like: an index whose settings are used if it is of the same engine.

    Raises:
        SapbertError: E2xx, the index is missing or damaged; E101, E102, the linker folder is missing or damaged; E052, the engine is not registered.
    """
    manifest = read_manifest(folder, KIND, VERSION, missing="E101", damaged="E102", content=_Manifest)
    try:
        make = registry.sapbert_indexes.get(manifest["index"])  # type: ignore[attr-defined]
    except ValueError as error:  # RegistryError
        raise fail("E052", what="engine", name=manifest["index"][:100], registry="sapbert_indexes") from error
    settings = like.get_config() if like is not None and engine_name(like) == manifest["index"] else {}
    opened: VectorIndex = make(**settings).from_disk(folder / INDEX)
    return opened


# -- ranker -------------------------------------------------------------------------------------------------------------


def open_ranker(folder: Path, encoder: str) -> tuple[Ranker | None, str]:
    """Return the ranker of a linker folder if it was trained for this encoder. With another encoder, cosines mean something else.

    Args:
        folder: the linker folder.
        encoder: the encoder's fingerprint.

    Returns:
        The ranker and "", or None and the reason why the folder's ranker is not used ("" if it has none). Warns W010 for another encoder, W011 for
        another version.

    Raises:
        DamagedFile: E048.
    """
    if not (folder / RANKER).is_file():
        return None, ""
    try:
        stored = read_ranker(folder / RANKER)
    except SapbertError as error:
        if error.code not in ("E049", "E106"):
            raise
        warn("W011", path=folder)
        return None, " of this version"
    if encoder and stored.encoder == encoder:
        return stored, ""
    warn("W010", path=folder)
    return None, " that was trained for this encoder"


def write_ranker(folder: Path, ranker: Ranker | None) -> None:
    """Write a ranker into a linker folder, completely or not at all; None removes the old one."""
    if ranker is None:
        (folder / RANKER).unlink(missing_ok=True)
    else:
        write_text(folder / RANKER, ranker.to_json())


# -- calibration --------------------------------------------------------------------------------------------------------


def open_calibration(folder: Path, encoder: str, kb: str, ranker: str = "") -> tuple[Calibration | None, str]:
    """Return the calibration of a linker folder if it was fit for these parts. With other parts its probabilities would be meaningless.

    Args:
        folder: the linker folder.
        encoder: the encoder's fingerprint.
        kb: the knowledge base's fingerprint.
        ranker: the ranker's fingerprint, "" without one.

    Returns:
        The calibration and "", or None and the reason why the folder's calibration is not used ("" if it has none). Warns W002 for other parts.

    Raises:
        DamagedFile: E015.
        SapbertError: E106, it has another format.
    """
    if not (folder / CALIBRATION).is_file():
        return None, ""
    stored = read_calibration(folder / CALIBRATION)
    parts = {"encoder": encoder, "knowledge base": kb}
    keys = {"encoder": "encoder", "knowledge base": "kb"}
    different = [part for part, found in parts.items() if stored.built_for.get(keys[part]) != found or not found]
    if stored.built_for.get("ranker", "") != ranker:
        different.append("ranker")
    if not different:
        return stored, ""
    what = " and ".join(different)
    unknown = "" if encoder else ", or the encoder has no fingerprint, so this cannot be checked"
    warn("W002", path=folder, what=what + unknown)
    return None, f" that was fit for this {what}"


def write_calibration(folder: Path, calibration: Calibration | None) -> None:
    """Write a calibration into a linker folder, completely or not at all; None removes the old one."""
    if calibration is None:
        (folder / CALIBRATION).unlink(missing_ok=True)
    else:
        write_text(folder / CALIBRATION, calibration.to_json())
