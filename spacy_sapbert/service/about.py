"""The description of a service for its clients: versions, sources, calibration, settings. It holds no paths."""

from __future__ import annotations

from typing import Any

from spacy.language import Language

from ..about import __version__
from .settings import ServiceSettings

# settings of `sapbert_linker` that links depend on, also if a request may not change them
LINKING = ("threshold", "k", "exact_match", "rank", "rerank")
SOURCE_FIELDS = ("name", "kind", "version", "rows")


def about_linker(nlp: Language, linker: Any, settings: ServiceSettings) -> dict[str, Any]:
    """Return everything that the answers depend on.

    Args:
        nlp: the pipeline.
        linker: its linker, which must be loaded.
        settings: settings of the service.
    """
    bundle = linker.bundle
    manifest, calibration = bundle.kb.manifest, bundle.calibration
    counts = manifest["counts"]
    return {
        "spacy_sapbert": __version__,
        "components": list(nlp.pipe_names),
        "linker": {
            "name": bundle.folder.name,
            "sources": [{field: source.get(field) for field in SOURCE_FIELDS} for source in manifest["sources"]],
            "counts": {key: counts[key] for key in ("concepts", "cuis", "names")},
            "languages": bundle.kb.languages,
            "knowledge_base": bundle.kb.fingerprint,
            "encoder": bundle.encoder.fingerprint,
            "engine": type(bundle.index).__name__,
            "ranker": None if bundle.ranker is None else bundle.ranker.fingerprint,
            "calibration": None if calibration is None else {"fit_on": calibration.fit_on, "mentions": len(calibration.right)},
            "added_names": len(bundle.additions.names),
            "removed_names": len(bundle.additions.removed),
        },
        "settings": {setting: getattr(linker.settings, setting) for setting in sorted({*settings.allow, *LINKING})},
        "a_request_may_change": list(settings.allow),
        "limits": {
            "max_body_bytes": settings.max_body_bytes,
            "max_texts": settings.max_texts,
            "max_characters": settings.max_characters,
            "max_queue": settings.max_queue,
            "timeout": settings.timeout,
        },
    }
