"""The optional library, pymilvus, and milvus-lite for local files."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ...errors import fail


def load_library(local: bool) -> Any:
    """Import pymilvus.

    Args:
        local: milvus-lite is needed, too.

    Raises:
        SapbertError: E205 where one of them is missing.
    """
    first = "pymilvus" not in sys.modules
    try:
        import pymilvus as library

        if local:
            import milvus_lite  # noqa: F401
    except ImportError as error:
        known = "spacy-sapbert.AnnoyIndex.v1, spacy-sapbert.ExactIndex.v1"
        raise fail("E205", name="spacy-sapbert.MilvusIndex.v1", package='"spacy-sapbert[milvus]"', error=error, known=known) from error
    if first:  # it prints every error with its traceback; ours say the same in a line
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return library
