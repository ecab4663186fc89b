"""Train the recogniser on mixed windows of all corpora. For tokens without annotation, all tags are allowed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import spacy
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from spacy.tokens import Doc, DocBin
from thinc.api import Config

from spacy_sapbert.matcher.phrases import Phrases
from spacy_sapbert.mentions.features import WINDOW, Batch, in_names, make_batch, windows, words_of
from spacy_sapbert.mentions.labels import KINDS
from spacy_sapbert.mentions.model import MentionModel
from spacy_sapbert.mentions.network import TAGS, MentionNetwork

from ..errors import fail
from .evaluate import measure, read_part
from .kinds import CORPORA

Encode = Callable[[list[str]], npt.NDArray[np.float32]]


class Example(NamedTuple):
    """A window to train on.

    Attributes:
        texts: Its t tokens.
        names: The result of `in_names` for these tokens.
        allowed: (t, tags) bool: the tags that each token may have.
        corpus: Position of its corpus in `CORPORA`.
    """

    texts: list[str]
    names: npt.NDArray[np.int64]
    allowed: npt.NDArray[np.bool_]
    corpus: int


def allowed_tags(doc: Doc, complete: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return the tags that each token may have, bool (t, tags).

    A token of a mention may have only its tag. Another token may have "O", or any tag of a kind that the corpus does not annotate completely.

    Args:
        doc: A Doc with the mentions as `ents`.
        complete: Kinds of which every mention is annotated.
    """
    known = set(complete)
    outside = np.array([tag == "O" or tag[2:] not in known for tag in TAGS])
    allowed = np.tile(outside, (len(doc), 1))
    for span in doc.ents:
        allowed[span.start : span.end] = False
        for at in range(span.start, span.end):
            place = "U" if len(span) == 1 else "B" if at == span.start else "L" if at == span.end - 1 else "I"
            allowed[at, TAGS.index(f"{place}-{span.label_}")] = True
    return allowed


def make_examples(folder: Path, lexicon: Phrases) -> dict[str, list[Example]]:
    """Make the examples of each corpus of a folder of `.spacy` files."""
    vocab = spacy.blank("en").vocab
    found: dict[str, list[Example]] = {}
    for path in sorted(folder.glob("*.spacy")):
        docs = list(DocBin().from_disk(path).get_docs(vocab))
        names = [in_names(doc, lexicon) for doc in docs]
        tags = [allowed_tags(doc, CORPORA[path.stem].complete) for doc in docs]
        place = list(CORPORA).index(path.stem)
        found[path.stem] = []
        words = [words_of(doc) for doc in docs]
        for number, start, end in windows(words, WINDOW):
            allowed = tags[number][start:end].copy()
            _mend_edges(allowed)
            found[path.stem].append(Example(words[number][start:end], names[number][start:end], allowed, place))
    return found


def _mend_edges(allowed: npt.NDArray[np.bool_]) -> None:
    """Correct the tags of a mention that is cut by the edge of the window, so that it begins or ends inside the window."""
    for at, before, after in ((0, "I", "B"), (0, "L", "U"), (-1, "I", "L"), (-1, "B", "U")):
        for kind in KINDS:
            tag = TAGS.index(f"{before}-{kind}")
            if allowed[at, tag] and not allowed[at, 0]:
                allowed[at, tag], allowed[at, TAGS.index(f"{after}-{kind}")] = False, True


def change_case(example: Example, chance: np.random.Generator, share: float) -> Example:
    """Change the case of an example at random.

    Args:
        example: The example.
        chance: Source of random numbers.
        share: Probability of a change; lower case and capitals are equally likely.
    """
    drawn = chance.random()
    if drawn >= share:
        return example
    return example._replace(texts=[text.lower() if drawn < share / 2 else text.upper() for text in example.texts])


def batches(examples: Sequence[Example], tokens: int, chance: np.random.Generator) -> list[list[Example]]:
    """Shuffle examples into batches of similar lengths with about `tokens` tokens each."""
    order = chance.permutation(len(examples))
    order = order[np.argsort([len(examples[i].texts) // 16 for i in order], kind="stable")]
    found: list[list[Example]] = [[]]
    count = 0
    for i in order.tolist():
        if count >= tokens:
            found.append([])
            count = 0
        found[-1].append(examples[i])
        count += len(examples[i].texts)
    return [found[i] for i in chance.permutation(len(found)).tolist()]


def tensors(some: Sequence[Example], encode: Encode) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """Return the network's input, the allowed tags (n, t, tags) and the corpora (n,)."""
    batch = make_batch([example.texts for example in some], [example.names for example in some], encode)
    allowed = np.ones((*batch.words.shape, len(TAGS)), dtype=bool)
    for row, example in enumerate(some):
        allowed[row, : len(example.texts)] = example.allowed
    return batch, torch.from_numpy(allowed), torch.tensor([example.corpus for example in some])


class NetworkSettings(BaseModel):
    """Sizes of the network, see `MentionNetwork`."""

    model_config = ConfigDict(extra="forbid")

    width: int = Field(default=192, ge=1)
    hidden: int = Field(default=128, ge=1)
    layers: int = Field(default=1, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)


class Settings(BaseModel):
    """How the recogniser is trained.

    Attributes:
        epochs: Passes over MACCROBAT.
        others: Share of the other corpora that is used in each pass.
        tokens: Number of tokens in a batch.
        learning_rate: Highest learning rate.
        case: Share of the windows whose case is changed.
        without_names: Share of the batches that get no names of the lexicon, so that names that are in no dictionary are found, too.
        seed: Seed of all random choices.
        seconds: Time limit in seconds; 0: no limit, and the result is reproducible.
        max_steps: Greatest number of steps; -1: no limit.
        network: Settings of `MentionNetwork`.
    """

    model_config = ConfigDict(extra="forbid")

    epochs: int = Field(default=12, ge=1)
    others: float = Field(default=0.3, ge=0, le=1)
    tokens: int = Field(default=2000, ge=1)
    learning_rate: float = Field(default=2e-3, gt=0)
    case: float = Field(default=0.15, ge=0, le=1)
    without_names: float = Field(default=0.1, ge=0, le=1)
    seed: int = 0
    seconds: float = Field(default=0.0, ge=0)
    max_steps: int = -1
    network: NetworkSettings = NetworkSettings()


def read_settings(path: Path, *, seed: int = 0, max_steps: int = -1, section: str = "training") -> Settings:
    """Read a recipe: a section with the settings of the training, and `network`.

    Args:
        path: The recipe.
        seed: Seed of all random choices.
        max_steps: Greatest number of steps; -1: no limit.
        section: Name of the section of the training.

    Raises:
        SapbertError: E620 (it cannot be read, or a setting is wrong).
    """
    try:
        config = Config().from_disk(path)
        return Settings(**config.get(section, {}), network=NetworkSettings(**config.get("network", {})), seed=seed, max_steps=max_steps)
    except ValidationError as error:
        first = error.errors()[0]
        raise fail("E620", setting=".".join(map(str, first["loc"])), value=first.get("input"), why=first["msg"]) from error
    except (OSError, ValueError) as error:
        raise fail("E620", setting="recipe", value=str(path), why=" ".join(str(error).split())[:200]) from error


def fit_recogniser(
    recipe: Path,
    documents: Path,
    lexicon: Path,
    out: Path,
    *,
    seed: int = 0,
    max_steps: int = -1,
    start: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Train a recogniser with a recipe, and write its folder.

    Args:
        recipe: File of settings.
        documents: Folder of `write_documents`.
        lexicon: Folder of `write_lexicon`.
        out: Folder to write.
        seed: Seed of all random choices.
        max_steps: Greatest number of steps; -1: no limit.
        start: Folder of a recogniser to start from, with a network of the same sizes.
        say: Called with a line about each pass.

    Raises:
        SapbertError: E620 (a setting), E567 (no documents), E030 (no lexicon), E040 (`start` is not a recogniser).
    """
    settings = read_settings(recipe, seed=seed, max_steps=max_steps)
    names = Phrases.from_disk(lexicon)
    dev = read_part(documents, "dev")
    made = MentionModel(MentionNetwork(corpora=len(CORPORA), **settings.network.model_dump()), names)

    weights = None if start is None else MentionModel.from_disk(start).network.state_dict()

    def f1(network: MentionNetwork) -> float:
        made.network = network.eval()
        return float(measure(made, dev)["all"]["exact"]["f"])

    fit(documents, names, made.encode, f1, settings, say, lambda network: made.to_disk(out), weights)


def fit(
    folder: Path,
    lexicon: Phrases,
    encode: Encode,
    measure: Callable[[MentionNetwork], float],
    settings: Settings,
    say: Callable[[str], None] = print,
    keep_best: Callable[[MentionNetwork], None] = lambda network: None,
    start: Mapping[str, torch.Tensor] | None = None,
) -> MentionNetwork:
    """Train a network, and return the running mean of its weights after the best pass.

    Args:
        folder: Folder with `train/*.spacy`.
        lexicon: The lexicon.
        encode: Returns the vectors of words.
        measure: Returns F1 on the dev part, which chooses the best pass.
        settings: See `Settings`.
        say: Called with a line about each pass.
        keep_best: Called with the network after each pass that is better than all before.
        start: Weights to start from; None: random weights.
    """
    torch.manual_seed(settings.seed)
    chance = np.random.default_rng([settings.seed, 6])
    examples = make_examples(folder / "train", lexicon)
    network = MentionNetwork(corpora=len(CORPORA), **settings.network.model_dump())
    if start is not None:
        network.load_state_dict(start)
    mean = MentionNetwork(corpora=len(CORPORA), **settings.network.model_dump())
    mean.load_state_dict(network.state_dict())
    mean.eval()
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    first = next(iter(CORPORA))
    others = [example for name, some in examples.items() for example in some if name != first]
    per_pass = sum(len(e.texts) for e in examples.get(first, ())) + settings.others * sum(len(e.texts) for e in others)
    total = max(1, int(settings.epochs * per_pass / settings.tokens))
    began, step, best, kept = time.monotonic(), 0, -1.0, {}
    for epoch in range(settings.epochs):
        drawn = chance.permutation(len(others))[: int(settings.others * len(others))].tolist()
        chosen = [*examples.get(first, ()), *(others[i] for i in drawn)]
        losses = []
        for some in batches([change_case(e, chance, settings.case) for e in chosen], settings.tokens, chance):
            done = max(step / total, (time.monotonic() - began) / settings.seconds if settings.seconds else 0.0)
            rate = min(1.0, (step + 1) / 100) * max(0.02, 1 - done)
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * rate
            batch, allowed, corpora = tensors(some, encode)
            if chance.random() < settings.without_names:
                batch = batch._replace(names=np.zeros_like(batch.names))
            network.train()
            lengths = torch.from_numpy(batch.lengths)
            loss = network.loss(network(batch, corpora), allowed, lengths).sum() / lengths.sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 2.0)
            optimiser.step()
            losses.append(float(loss.detach()))
            step += 1
            keep = min(0.998, step / (step + 10))
            with torch.no_grad():
                for slow, fast in zip(mean.parameters(), network.parameters()):
                    slow.lerp_(fast, 1 - keep)
            if step == settings.max_steps or (settings.seconds and time.monotonic() - began > settings.seconds):
                break
        score = measure(mean)
        say(
            json.dumps(
                {
                    "epoch": epoch + 1,
                    "step": step,
                    "loss": round(float(np.mean(losses)), 4),
                    "dev_f": round(score, 4),
                    "seconds": round(time.monotonic() - began),
                }
            )
        )
        if score > best:
            best, kept = score, {name: value.clone() for name, value in mean.state_dict().items()}
            keep_best(mean)
        if step == settings.max_steps or (settings.seconds and time.monotonic() - began > settings.seconds):
            break
    mean.load_state_dict(kept)
    return mean
