"""The opened linker of a component and its settings. Both are always replaced together."""

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
    """The settings of a component and its linker, which is opened on first use. Several threads may use it.

    Args:
        encoder: the configured encoder; a linker folder has its own, which takes these settings if it has the same architecture.
        index: the configured index; a linker folder has its own, which takes these settings if it is of the same engine.
        settings: settings of the component.
        component: its name, for messages.

    Raises:
        SapbertError: E002, `settings.encoder` and `encoder` name different encoders.
    """

    def __init__(self, encoder: Encoder, index: VectorIndex, settings: Settings, component: str) -> None:
        self.component = component
        self._settings = settings
        self._encoder, self._index = self._pick_encoder(encoder), index
        self._search: CandidateSearch | None = None  # with everything that was opened; None before the first use
        self._opened: LinkerBundle | None = None  # opened by `without_targets` but not in use yet, because a target may need a new calibration
        self.lock = threading.RLock()  # two threads can't load a model, or use a fast tokenizer, at the same time

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
        """The search that finds concepts for mentions. The linker that the settings name is opened on first use.

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
        """The encoder in use; before anything is opened, the configured one."""
        return self._encoder if self.opened is None else self.opened.encoder

    @property
    def index(self) -> VectorIndex:
        """The index in use; before anything is opened, the configured one."""
        return self._index if self.opened is None else self.opened.index

    def asked(self) -> tuple[Encoder, VectorIndex]:
        """Return a new encoder like the configured one, and the configured index."""
        encoder = self._encoder
        return make_encoder(encoder.architecture, encoder.get_config()) if encoder.architecture else encoder, self._index

    def named_folder(self) -> Path:
        """Return the folder of the linker that the settings name. A default linker is built on its first use."""
        return find_linker(self._settings.linker_name)

    def open(self, folder: str | Path, *, exclude: Iterable[str] = (), **more: Any) -> LinkerBundle:
        """Open a linker folder without using it yet. See `LinkerBundle.open`."""
        with every_byte(self._settings.verify == FULL):
            return LinkerBundle.open(folder, self._encoder, self._index, component=self.component, exclude=set(exclude), opened=self.opened, **more)

    def _open_named(self) -> LinkerBundle:
        return self.open(self.named_folder()) if self._opened is None else self._opened

    def use(self, bundle: LinkerBundle, settings: Settings | None = None) -> None:
        """Use a linker and its settings from now on. Warns W004 if the calibration was fit with other settings.

        Args:
            bundle: an opened linker.
            settings: the new settings; None keeps those in use.

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
        """Return a search that uses the linker without targets, because these need the calibration that is about to be fit.

        Args:
            changes: further settings to change, and their values.
        """
        with self.lock:
            bundle = self.opened
            if bundle is None:
                bundle = self._opened = self._open_named()
            settings = replace(self._settings, component=self.component, target_precision=None, coverage=None, **changes)
            return CandidateSearch(bundle, settings, component=self.component, lock=self.lock)

    def search_with(self, **changes: Any) -> CandidateSearch:
        """Return a search that uses the linker with some settings changed. The settings in use stay as they are.

        Args:
            changes: settings and their values.

        Raises:
            SapbertError: E002, a setting is wrong, or is one of `FIXED`; see `CandidateSearch` for others.
        """
        with self.lock:
            bundle = self.search.bundle
            settings = replace(self._settings, component=self.component, **changes)
            self.check_fixed(settings)
            return CandidateSearch(bundle, settings, component=self.component, lock=self.lock)

    # a spawned process gets the folder's path, not the files, and opens them itself
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
