"""What a linker component has opened. Everything is swapped here, at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .build.default_linkers import find_linker
from .bundle import NAME_ENCODER, STATIC_ENCODER, LinkerBundle, is_fast, make_encoder
from .encoders.base import Encoder
from .errors import fail
from .files import every_byte
from .search import CandidateSearch
from .settings import FULL, Settings
from .types import VectorIndex

FIXED = ("linker_name", "encoder", "verify")  # settings that decide what is opened


class LinkerState:
    """Nothing, or a whole opened linker and its settings. It may be used by several threads.

    Args:
        encoder: the encoder that was asked for; a linker folder brings its own of this kind.
        index: the engine that was asked for; a linker folder brings its own.
        settings: of the component.
        component: its name, for messages.

    Raises:
        SapbertError: E002, `settings.encoder` and `encoder` ask for different ones.
    """

    def __init__(self, encoder: Encoder, index: VectorIndex, settings: Settings, component: str) -> None:
        self.component = component
        self._settings = settings
        self._encoder, self._index = self._pick_encoder(encoder), index
        self._search: CandidateSearch | None = None  # all that was opened; None before the first use
        self._opened: LinkerBundle | None = None  # opened by `without_targets`, while a target may need a calibration that is not there
        self.lock = threading.RLock()  # neither loading a model nor a fast tokenizer bears two threads

    def _pick_encoder(self, encoder: Encoder) -> Encoder:
        if self._settings.encoder is None or is_fast(encoder):
            return encoder
        if encoder.architecture != NAME_ENCODER or encoder.name:
            why = "`model` names another encoder. Leave one of the two out."
            raise fail("E002", setting="encoder", component=self.component, value=self._settings.encoder, why=why)
        return make_encoder(STATIC_ENCODER, {})

    @property
    def settings(self) -> Settings:
        """The settings in use.

        Raises:
            SapbertError: E002, a setting of `FIXED` would change; see `CandidateSearch` for others. Then nothing is changed.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        with self.lock:
            self.check_fixed(settings)
            if self._search is None:
                self._settings = settings
            else:
                self.use(self._search.bundle, settings)

    def check_fixed(self, settings: Settings) -> None:
        """Check that no setting of `FIXED` would change.

        Raises:
            SapbertError: E002.
        """
        for setting in FIXED:
            if getattr(settings, setting) != getattr(self._settings, setting):
                why = "it cannot change after the component was added. Add another component with this value."
                raise fail("E002", setting=setting, component=self.component, value=getattr(settings, setting), why=why)

    @property
    def search(self) -> CandidateSearch:
        """What answers mentions. The linker that the settings name is opened on first use.

        Raises:
            SapbertError: E001, E010, E011, E1xx, E2xx, E3xx, see `LinkerBundle.open` and `CandidateSearch`.
        """
        if self._search is None:
            with self.lock:
                if self._search is None:
                    self.use(self._open_named(), self._settings)
        assert self._search is not None
        return self._search

    @property
    def opened(self) -> LinkerBundle | None:
        """The linker in use; None before anything is opened."""
        return None if self._search is None else self._search.bundle

    @property
    def encoder(self) -> Encoder:
        """The encoder in use; before anything is opened, the one that was asked for."""
        return self._encoder if self.opened is None else self.opened.encoder

    @property
    def index(self) -> VectorIndex:
        """The index in use; before anything is opened, the one that was asked for."""
        return self._index if self.opened is None else self.opened.index

    def asked(self) -> tuple[Encoder, VectorIndex]:
        """Return a fresh encoder of the kind that was asked for, and the index that was asked for."""
        encoder = self._encoder
        return make_encoder(encoder.architecture, encoder.get_config()) if encoder.architecture else encoder, self._index

    def named_folder(self) -> Path:
        """Return the folder of the linker that the settings name. A default linker is built on its first use."""
        return find_linker(self._settings.linker_name)

    def open(self, folder: str | Path, *, exclude: Iterable[str] = (), **more: Any) -> LinkerBundle:
        """Open a linker folder; it is not yet used. See `LinkerBundle.open`."""
        with every_byte(self._settings.verify == FULL):
            return LinkerBundle.open(folder, self._encoder, self._index, component=self.component, exclude=set(exclude), opened=self.opened, **more)

    def _open_named(self) -> LinkerBundle:
        return self.open(self.named_folder()) if self._opened is None else self._opened

    def use(self, bundle: LinkerBundle, settings: Settings | None = None) -> None:
        """Use a linker, and settings, from now on. Warns W004 of a calibration that was fit with other settings.

        Args:
            bundle: an opened linker.
            settings: None keeps those in use.

        Raises:
            SapbertError: see `CandidateSearch`; then nothing is changed.
        """
        with self.lock:
            before, settings = self._search, self._settings if settings is None else settings
            search = CandidateSearch(bundle, settings, component=self.component, lock=self.lock)
            same = before is not None and before.calibration is bundle.calibration
            if before is None or not same or before.settings.scores_depend_on() != settings.scores_depend_on():
                bundle.check_settings(settings)
            self._search, self._settings, self._opened = search, settings, None

    def without_targets(self, **changes: Any) -> CandidateSearch:
        """Return a search of the linker without targets: these need the calibration that is about to be fit.

        Args:
            changes: settings to change besides.
        """
        with self.lock:
            bundle = self.opened
            if bundle is None:
                bundle = self._opened = self._open_named()
            settings = replace(self._settings, component=self.component, target_precision=None, coverage=None, **changes)
            return CandidateSearch(bundle, settings, component=self.component, lock=self.lock)

    def search_with(self, **changes: Any) -> CandidateSearch:
        """Return a search of the linker in use with some settings changed. What is in use stays as it is.

        Args:
            changes: settings and their values.

        Raises:
            SapbertError: E002, a setting is wrong, or one of `FIXED`; see `CandidateSearch` for others.
        """
        with self.lock:
            bundle = self.search.bundle
            settings = replace(self._settings, component=self.component, **changes)
            self.check_fixed(settings)
            return CandidateSearch(bundle, settings, component=self.component, lock=self.lock)

    # a process that is spawned gets the folder's name, not the files
    def __getstate__(self) -> dict[str, Any]:
        encoder, bundle = self._encoder, self.opened
        return {
            "component": self.component,
            "settings": self._settings,
            "encoder": (encoder.architecture, encoder.get_config()) if encoder.architecture else encoder,
            "index": (type(self._index), self._index.get_config()),
            "opened": None if bundle is None else (bundle.folder, bundle.ranker, bundle.calibration, bundle.additions, dict(bundle.parts)),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        encoder, (make_index, params) = state["encoder"], state["index"]
        made = make_encoder(*encoder) if isinstance(encoder, tuple) else encoder
        LinkerState.__init__(self, made, make_index(**params), state["settings"], state["component"])
        if state["opened"] is not None:
            folder, ranker, calibration, additions, parts = state["opened"]
            self.use(self.open(folder, ranker=ranker, calibration=calibration, additions=additions, parts=parts))
