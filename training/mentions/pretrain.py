"""Train the recogniser's network to predict words, on texts without annotation, before it is trained on mentions."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import spacy
import torch
from spacy.tokens import Doc, DocBin
from torch import nn

from spacy_sapbert.matcher.phrases import Phrases
from spacy_sapbert.mentions.features import WINDOW, in_names, windows, words_of
from spacy_sapbert.mentions.model import MentionModel
from spacy_sapbert.mentions.network import TAGS, MentionNetwork

from ..errors import fail
from ..senses.contexts import read_notes
from .fit import Encode, Example, Settings, batches, change_case, read_settings, tensors
from .kinds import CORPORA

_OUTPUT = 96  # width of the vectors of the words to predict
_MIN_COUNT = 2  # words with fewer occurrences are not predicted


class Foreteller(nn.Module):
    """Predict the next and the previous word from a network's states, among the words of the batch.

    Args:
        words: Number of words that it knows.
        hidden: Width of the network's LSTM in each direction.

    Source: Peters et al., NAACL 2018 (two language models, one in each direction); Sachan et al., MLHC 2018 (as a start for a recogniser).
    """

    def __init__(self, words: int, hidden: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, _OUTPUT)
        self.bias = nn.Embedding(words, 1)
        self.after, self.before = nn.Linear(hidden, _OUTPUT), nn.Linear(hidden, _OUTPUT)
        nn.init.normal_(self.table.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy, a scalar.

        Args:
            states: (n, t, 2 * hidden) states of the LSTM.
            words: (n, t) numbers of the words; -1: the word is not predicted.
        """
        forward, backward = states.chunk(2, dim=2)
        asked = torch.cat([self.after(forward[:, :-1]).flatten(0, 1), self.before(backward[:, 1:]).flatten(0, 1)])
        wanted = torch.cat([words[:, 1:].flatten(), words[:, :-1].flatten()])
        candidates, places = wanted[wanted >= 0].unique(return_inverse=True)
        scores = asked[wanted >= 0] @ self.table(candidates).T + self.bias(candidates).T
        return nn.functional.cross_entropy(scores, places)


def texts_of(documents: Path, notes: Sequence[Path]) -> Iterator[Doc]:
    """Yield Docs of the train parts of a folder of `.spacy` files, and of notes, JSON lines with `transcription`.

    Raises:
        SapbertError: E567 (there are no documents), E547 (a file holds no notes).
    """
    nlp = spacy.blank("en")
    paths = sorted((documents / "train").glob("*.spacy"))
    if not paths:
        raise fail("E567", path=documents / "train", layout="docbin", why="there is none; make them with `python -m training recogniser documents`")
    for path in paths:
        yield from DocBin().from_disk(path).get_docs(nlp.vocab)
    for path in notes:
        yield from map(nlp.make_doc, read_notes(path))


def pretrain_recogniser(
    recipe: Path,
    documents: Path,
    lexicon: Path,
    notes: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    max_steps: int = -1,
    say: Callable[[str], None] = print,
) -> None:
    """Train a network to predict words, and write the folder of a recogniser from which `fit_recogniser` can start.

    Args:
        recipe: File of settings; its section `pretraining` has epochs, tokens and learning rate.
        documents: Folder of `write_documents`; its train parts are read.
        lexicon: Folder of `write_lexicon`.
        notes: Files of JSON lines with `transcription`.
        out: Folder to write.
        seed: Seed of all random choices.
        max_steps: Greatest number of steps; -1: no limit.
        say: Called with a line about each pass.

    Raises:
        SapbertError: E620 (a setting), E567 (no documents), E547 (no notes), E030 (no lexicon).
    """
    settings = read_settings(recipe, seed=seed, max_steps=max_steps, section="pretraining")
    if settings.network.layers != 1:
        raise fail("E620", setting="network.layers", value=settings.network.layers, why="a second layer would see the word that is to be predicted")
    names = Phrases.from_disk(lexicon)
    torch.manual_seed(settings.seed)
    made = MentionModel(MentionNetwork(corpora=len(CORPORA), **settings.network.model_dump()), names)
    pretrain(made.network, list(texts_of(documents, notes)), names, made.encode, settings, say, lambda: made.to_disk(out))


def pretrain(
    network: MentionNetwork,
    docs: Sequence[Doc],
    lexicon: Phrases,
    encode: Encode,
    settings: Settings,
    say: Callable[[str], None] = print,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Train a network of one layer to predict each word from the words before it, and from the words after it.

    Args:
        network: The network; it is changed.
        docs: Texts.
        lexicon: The lexicon.
        encode: Returns the vectors of words.
        settings: See `Settings`.
        say: Called with a line about each pass.
        keep: Called after each pass.
    """
    chance = np.random.default_rng([settings.seed, 7])
    words, names = [words_of(doc) for doc in docs], [in_names(doc, lexicon) for doc in docs]
    times = Counter(word.lower() for text in words for word in text)
    numbers = {word: number for number, word in enumerate(sorted(word for word, count in times.items() if count >= _MIN_COUNT))}
    unknown = np.ones((1, len(TAGS)), dtype=bool)
    examples = [Example(words[doc][start:end], names[doc][start:end], unknown, 0) for doc, start, end in windows(words, WINDOW)]
    head = Foreteller(len(numbers), network.lstm.hidden_size)
    optimiser = torch.optim.AdamW([*network.parameters(), *head.parameters()], lr=settings.learning_rate, weight_decay=0.01)
    total = max(1, settings.epochs * sum(map(len, words)) // settings.tokens)
    began, step = time.monotonic(), 0
    for epoch in range(settings.epochs):
        losses = []
        for some in batches(examples, settings.tokens, chance):
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * min(1.0, (step + 1) / 100) * max(0.02, 1 - step / total)
            wanted = torch.full((len(some), max(len(example.texts) for example in some)), -1)
            for row, example in enumerate(some):
                wanted[row, : len(example.texts)] = torch.tensor([numbers.get(word.lower(), -1) for word in example.texts])
            batch, _, corpora = tensors([change_case(example, chance, settings.case) for example in some], encode)
            network.train()
            loss = head(network.states(batch, corpora), wanted)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*network.parameters(), *head.parameters()], 2.0)
            optimiser.step()
            losses.append(float(loss.detach()))
            step += 1
            if step == settings.max_steps:
                break
        done = {"epoch": epoch + 1, "step": step, "of": total, "loss": round(float(np.mean(losses)), 4)}
        say(json.dumps({**done, "seconds": round(time.monotonic() - began)}))
        keep()
        if step == settings.max_steps:
            return
