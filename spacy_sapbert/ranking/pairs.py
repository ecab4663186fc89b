"""The cross-encoder: it reads a mention and the names of a candidate together, and says how well they agree.

It is an encoder like the others. Mention and names are one text, and the agreement is the cosine of its vector with the vector of one fixed text. So
a cross-encoder is stored, loaded and made smaller like any encoder, and has no weights of its own.

Source: Nogueira and Cho, 2019 (a transformer that reads a query and a passage together); for concepts: Ji, Wei and Xu, AMIA 2020.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from ..encoders.transformer import NameEncoder
from ..errors import DamagedFile, MissingFile, fail
from ..kb.concept import normalise
from ..types import Floats2d

SHIPPED_CROSS_ENCODER = Path(__file__).parents[1] / "data" / "cross_encoder"  # its model card says how it was made
AGREEMENT = "these names mean the same concept"  # the text whose vector the vector of a pair is compared with; the encoder was trained with it
NAMES_READ = 4  # names of a candidate that are read: the canonical one, and the nearest ones
MAX_TOKENS = 128
PLACE = "[MASK]"  # stands for the mention in the text around it; the tokenizer has one token for it
DEFINITION_READ = 120  # characters of a definition that are read
PAD_TO = 16  # see `NameEncoder.encode`: the agreement of a pair does not depend on the other pairs
CACHED = 50_000  # pairs whose agreement is cached
_LOADING = threading.Lock()  # two threads would read the weights twice
Floats = npt.NDArray[np.float64]


def pair_text(mention: str, names: Sequence[str], around: str = "", definition: str = "") -> str:
    """Return the text that the cross-encoder reads.

    Args:
        mention: the normalised mention.
        names: normalised names of the candidate, the canonical one first, then the nearest ones; equal names count once.
        around: the text around the mention, with PLACE for the mention itself, see `spacy_sapbert.doc.around`; "" if it is not read.
        definition: the candidate's definition; only its beginning is read; "" if there is none.
    """
    parts = [mention, " ; ".join(list(dict.fromkeys(names))[:NAMES_READ])]
    if around or definition:
        parts += [around, normalise(definition)[:DEFINITION_READ]]
    return " [SEP] ".join(parts)


def cross_encoder() -> CrossEncoder:
    """Return the cross-encoder of this package, one for the whole process. It is read on the first call.

    Raises:
        DamagedFile: E057, its folder is damaged or not there.
    """
    with _LOADING:
        return _read()


@cache
def _read() -> CrossEncoder:
    try:
        return open_cross_encoder(SHIPPED_CROSS_ENCODER)
    except (DamagedFile, MissingFile) as error:
        why = f"its weights can't be read ({type(error.__cause__ or error).__name__})"
        raise fail("E057", DamagedFile, path=SHIPPED_CROSS_ENCODER, why=why) from error


def open_cross_encoder(folder: Path) -> CrossEncoder:
    """Return the cross-encoder in a folder, which `python -m training train` or `compress` wrote.

    Raises:
        DamagedFile, MissingFile: E301 and others, its weights can't be read.
    """
    return CrossEncoder(NameEncoder(str(folder), max_length=MAX_TOKENS))


class CrossEncoder:
    """Says how well a mention and the names of a candidate agree. Linkers in several threads share it: one waits for the other.

    Args:
        encoder: the encoder; its weights are read here if it has none yet.
    """

    def __init__(self, encoder: NameEncoder) -> None:
        self.encoder = encoder.initialize()
        self._agreement = self._encode([AGREEMENT])[0].astype(np.float64)
        self._known: LRUCache[str, float] = LRUCache(CACHED)
        self._lock = threading.Lock()

    def agreements(self, texts: Sequence[str]) -> Floats:
        """Return the agreement of each of n pairs, -1 to 1, (n,). It depends on the pair alone, and is cached.

        Args:
            texts: see `pair_text`.
        """
        with self._lock:
            missing = [text for text in dict.fromkeys(texts) if text not in self._known]
            fresh = dict(zip(missing, self._encode(missing) @ self._agreement)) if missing else {}
            found = np.array([fresh[text] if text in fresh else self._known[text] for text in texts], dtype=np.float64)
            self._known.update(fresh)
        return found

    def _encode(self, texts: Sequence[str]) -> Floats2d:
        return self.encoder.encode(texts, pad_to=PAD_TO)

    def forget(self) -> None:
        """Empty the cache of agreements."""
        with self._lock:
            self._known.clear()
