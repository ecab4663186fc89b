"""The optional libraries: pymilvus, and milvus-lite for local files."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ...errors import fail


def load_library(local: bool) -> Any:
    """Import pymilvus.

    Args:
        local: whether milvus-lite is needed, too.

    Raises:
        SapbertError: E205, one of them is missing.
    """
    first = "pymilvus" not in sys.modules
    try:
        import pymilvus as library

        if local:
            import milvus_lite  # noqa: F401
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.MilvusIndex.v1", package='"spacy-sapbert[milvus]"', error=error, known=known) from error
    if first:  # it logs each error with its traceback; our errors say the same in one line
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return library
