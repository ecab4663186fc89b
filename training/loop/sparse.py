"""Sparse vectors of names: TF-IDF of their character n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import fail


def character_n_grams(least: int, most: int, *, what: str) -> Any:
    """Make scikit-learn's vectoriser, not fitted. Its vectors have length 1.

    Args:
        least: Characters of the shortest n-grams.
        most: Characters of the longest ones.
        what: What needs it, for the message.

    Raises:
        SapbertError: E546, without scikit-learn.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise fail("E546", what=what, package="scikit-learn") from error
    return TfidfVectorizer(analyzer="char", ngram_range=(least, most), dtype=np.float32)
