"""Sparse vectors of names: TF-IDF of character n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import fail


def character_n_grams(least: int, most: int, *, what: str) -> Any:
    """Make scikit-learn's vectoriser, before it is fitted. Its vectors have length 1.

    Args:
        least: Length of the shortest n-grams, in characters.
        most: Length of the longest n-grams, in characters.
        what: The feature that needs it, for the error message.

    Raises:
        SapbertError: E546, without scikit-learn.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise fail("E546", what=what, package="scikit-learn") from error
    return TfidfVectorizer(analyzer="char", ngram_range=(least, most), dtype=np.float32)
