"""A trained recogniser (network, lexicon of names, vectors of words): read and write its folder, find mentions in Docs."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import srsly
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from spacy.tokens import Doc

from ..encoders.common import settle_in_worker
from ..encoders.static import StaticEncoder
from ..errors import DamagedFile, MissingFile, SapbertError, fail, warn
from ..files import parse_json, writing_folder
from ..matcher.phrases import Phrases
from .features import Batch, in_names_of_all, make_batch, windows, words_of
from .labels import KINDS
from .network import TAGS, MentionNetwork, best_ways, marginals

SHIPPED = Path(__file__).parents[1] / "data" / "mentions"
CONFIG, WEIGHTS, LEXICON = "config.json", "model.safetensors", "lexicon"
ENCODER = "static_encoder"  # entry of config.json: fingerprint of the encoder whose word vectors it was trained with
KIND, VERSION = "spacy-sapbert-mentions", 1
_WINDOWS = 64  # windows in one batch
_REMEMBERED = 50_000  # words whose vectors are cached


class Found(NamedTuple):
    """A mention.

    Attributes:
        start: Its first token.
        end: The token after its last one.
        kind: problem, drug, test, treatment or anatomy.
        score: Geometric mean of the probabilities of its tokens' tags, 0 to 1; always 1 if scores are not computed.
    """

    start: int
    end: int
    kind: str
    score: float


class MentionModel:
    """Finds mentions in Docs.

    Args:
        network: The trained network.
        lexicon: Names of ontologies, as hashes.
        trained_with: Fingerprint of the static encoder that it was trained with; None: the one of this package.
    """

    def __init__(self, network: MentionNetwork, lexicon: Phrases, trained_with: str | None = None) -> None:
        self.network, self.lexicon = network.eval(), lexicon
        self._encoder = shipped_encoder()
        self.trained_with = self._encoder.fingerprint if trained_with is None else trained_with
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}

    def encode(self, words: list[str]) -> npt.NDArray[np.float32]:
        """Return the static encoder's vectors (n, d) of n words. Vectors are cached."""
        if len(self._vectors) > _REMEMBERED:
            self._vectors = {}
        known = self._vectors
        if new := [word for word in words if word not in known]:
            known.update(zip(new, self._encoder.encode(new)))
        return np.stack([known[word] for word in words])

    def find(self, docs: Sequence[Doc], *, scores: bool = False) -> list[list[Found]]:
        """Find the mentions of each Doc, from left to right, without overlap.

        Args:
            docs: Docs; only their tokens are read.
            scores: Compute scores. This takes as long as finding the best tags, in addition.
        """
        settle_in_worker()
        found: list[list[Found]] = [[] for _ in docs]
        names = in_names_of_all(docs, self.lexicon)
        words = [words_of(doc) for doc in docs]
        parts = list(windows(words))
        for at in range(0, len(parts), _WINDOWS):
            some = parts[at : at + _WINDOWS]
            batch = make_batch([words[w.doc][w.start : w.end] for w in some], [names[w.doc][w.start : w.end] for w in some], self.encode)
            for window, mentions in zip(some, self._of_batch(batch, scores)):
                found[window.doc] += [Found(window.start + m.start, window.start + m.end, m.kind, m.score) for m in mentions]
        return found

    def _of_batch(self, batch: Batch, scores: bool) -> list[list[Found]]:
        with torch.inference_mode():
            emitted = self.network(batch).numpy()
        sure = marginals(emitted, batch.lengths, self.network) if scores else None
        found = []
        for row, way in enumerate(best_ways(emitted, batch.lengths, self.network)):
            mentions, start = [], 0
            for at, tag in enumerate(way):
                place = TAGS[tag][0]
                if place in "BU":
                    start = at
                if place in "LU":
                    chosen = 1.0 if sure is None else float(np.exp(np.mean([sure[row, i, way[i]] for i in range(start, at + 1)])))
                    mentions.append(Found(start, at + 1, TAGS[tag][2:], min(1.0, chosen)))
            found.append(mentions)
        return found

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return settings, weights and lexicon as values that msgpack can write."""
        weights = {name: value.half().contiguous() for name, value in self.network.state_dict().items()}
        config = {"model_type": KIND, "format": VERSION, "kinds": list(KINDS), **self.network.settings, ENCODER: self.trained_with}
        return {CONFIG: config, WEIGHTS: save_safetensors(weights), LEXICON: self.lexicon.to_dict()}

    @classmethod
    def from_dict(cls, content: dict[str, Any], source: str | Path = "these bytes") -> "MentionModel":
        """Read what `to_dict` returned. Warns with W022 if it was trained with another version of the static encoder.

        Raises:
            SapbertError: E040, the content is damaged or of another kind.
        """
        try:
            lexicon, config = content[LEXICON], content[CONFIG]
            network = _network(config, content[WEIGHTS])
            made = cls(network, lexicon if isinstance(lexicon, Phrases) else Phrases.from_dict(lexicon), _trained_with(config))
        except SapbertError:
            raise
        except Exception as error:  # json, safetensors and torch raise different errors
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise fail("E040", DamagedFile, path=source, why=why) from error
        if made.trained_with != shipped_encoder().fingerprint:
            warn("W022", path=source)
        return made

    def to_disk(self, target: str | Path) -> None:
        """Write a folder: config.json, model.safetensors (float16) and lexicon/."""
        content = self.to_dict()
        with writing_folder(target) as folder:
            (folder / CONFIG).write_text(json.dumps(content[CONFIG], indent=1) + "\n", encoding="utf-8")
            (folder / WEIGHTS).write_bytes(content[WEIGHTS])
            (folder / LEXICON).mkdir()
            self.lexicon.to_disk(folder / LEXICON)

    @classmethod
    def from_disk(cls, folder: str | Path) -> "MentionModel":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E040, the recogniser is missing, damaged or of another kind; E030, the lexicon is missing or damaged.
        """
        folder = Path(folder)
        if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
            raise fail("E040", MissingFile, path=folder, why=f"it holds no {CONFIG} and {WEIGHTS}")
        try:
            config = parse_json((folder / CONFIG).read_text(encoding="utf-8"))
        except ValueError as error:
            raise fail("E040", DamagedFile, path=folder, why=f"{CONFIG} is not JSON ({error})") from error
        lexicon = Phrases.from_disk(folder / LEXICON)
        return cls.from_dict({CONFIG: config, WEIGHTS: (folder / WEIGHTS).read_bytes(), LEXICON: lexicon}, folder)


def _network(config: dict[str, Any], weights: bytes) -> MentionNetwork:
    if config.get("model_type") != KIND or config.get("format") != VERSION or tuple(config.get("kinds", ())) != KINDS:
        raise ValueError(f"it is of kind {config.get('model_type')!r} and format {config.get('format')!r}, not {KIND!r} and {VERSION}")
    network = MentionNetwork(**{name: config[name] for name in ("vectors", "width", "hidden", "layers", "corpora")})
    network.load_state_dict({name: value.float() for name, value in load_safetensors(weights).items()})
    return network


def _trained_with(config: dict[str, Any]) -> str | None:
    """Return the fingerprint of the encoder that a recogniser was trained with; None if its settings don't say."""
    found = config.get(ENCODER)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{ENCODER} is {found!r}, not a fingerprint")
    return found


@lru_cache(maxsize=1)
def shipped_encoder() -> StaticEncoder:
    """Return the static encoder of this package. It is read only once."""
    return StaticEncoder().initialize()


def from_bytes(data: bytes) -> MentionModel:
    """Read the msgpack bytes of `MentionModel.to_dict`.

    Raises:
        SapbertError: E040, E030: the bytes are damaged or of another kind.
    """
    try:
        content = srsly.msgpack_loads(data)
    except Exception as error:
        raise fail("E040", DamagedFile, path="these bytes", why=f"they are not msgpack ({type(error).__name__})") from error
    if not isinstance(content, dict):
        raise fail("E040", DamagedFile, path="these bytes", why="they hold no recogniser")
    return MentionModel.from_dict(content)
