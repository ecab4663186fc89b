"""The recogniser's network: word and name features, a bidirectional LSTM, and a conditional random field over BILUO tags.

Source: Lample et al., NAACL 2016 (BiLSTM-CRF); Tsuboi et al., COLING 2008 (the loss of a CRF if some tags are unknown).
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from .features import IN_NAME, ROWS, Batch
from .labels import KINDS

TAGS = ("O", *(f"{place}-{kind}" for kind in KINDS for place in "BILU"))
Ints1d = npt.NDArray[np.int64]
NEVER = -1e4  # score of what is not allowed
# tags after which a mention is closed, and those that may follow them; tags inside a mention, and the two that may stand before each of them
_CLOSED = np.array([at for at, tag in enumerate(TAGS) if tag[0] in "OLU"])
_OPEN = np.array([at for at, tag in enumerate(TAGS) if tag[0] in "OBU"])
_INSIDE = np.array([at for at, tag in enumerate(TAGS) if tag[0] in "IL"])
_BEGUN, _GONE_ON = (np.array([TAGS.index(f"{place}-{TAGS[at][2:]}") for at in _INSIDE]) for place in "BI")


def follows(before: str, after: str) -> bool:
    """Return whether a BILUO tag may directly follow the tag `before`."""
    if before[0] in "BI":
        return after[0] in "IL" and before[2:] == after[2:]
    return after[0] in "OBU"


class MentionNetwork(nn.Module):
    """The network: it computes scores of tags for the tokens of windows, and the sums over tag sequences that a CRF needs.

    Args:
        vectors: Dimensions of the static encoder's vectors.
        width: Dimensions of a token before the LSTM.
        hidden: Dimensions of the LSTM, in each direction.
        layers: Number of layers of the LSTM.
        corpora: Number of training corpora. Each has a vector of its own, because corpora differ in what they annotate. After training, the vector of
            the first corpus is used.
        dropout: Rate of dropout in training, 0 to 1.
    """

    illegal: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor

    def __init__(self, vectors: int = 256, width: int = 192, hidden: int = 128, layers: int = 1, corpora: int = 1, dropout: float = 0.3) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"vectors": vectors, "width": width, "hidden": hidden, "layers": layers, "corpora": corpora}
        sizes = {"word": 64, "prefix": 32, "suffix": 32, "shape": 32}
        self.tables = nn.ModuleDict({name: nn.Embedding(rows, sizes[name]) for name, rows in ROWS.items()})
        self.project = nn.Linear(vectors, 128)
        self.names = nn.Embedding(IN_NAME, 32)
        self.corpora = nn.Embedding(corpora, 16)
        inputs = 128 + sum(sizes.values()) + 32
        self.mix = nn.Sequential(nn.LayerNorm(inputs), nn.Linear(inputs, width), nn.GELU())
        self.lstm = nn.LSTM(width + 16, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout if layers > 1 else 0.0)
        self.tags = nn.Linear(2 * hidden, len(TAGS))
        self.steps = nn.Parameter(torch.zeros(len(TAGS), len(TAGS)))
        self.dropout = nn.Dropout(dropout)
        for table in [*self.tables.values(), self.names, self.corpora]:
            nn.init.normal_(cast(nn.Embedding, table).weight, std=0.3)
        self.register_buffer("illegal", torch.tensor([[0.0 if follows(a, b) else NEVER for b in TAGS] for a in TAGS]), persistent=False)
        self.register_buffer("first", torch.tensor([0.0 if tag[0] in "OBU" else NEVER for tag in TAGS]), persistent=False)
        self.register_buffer("last", torch.tensor([0.0 if tag[0] in "OLU" else NEVER for tag in TAGS]), persistent=False)

    def forward(self, batch: Batch, corpora: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores of tags (n, t, tags).

        Args:
            batch: n windows of at most t tokens.
            corpora: (n,) index of each window's corpus; None: the first corpus for all.
        """
        scores: torch.Tensor = self.tags(self.dropout(self.states(batch, corpora)))
        return scores

    def states(self, batch: Batch, corpora: torch.Tensor | None = None) -> torch.Tensor:
        """Return the states of the LSTM (n, t, 2 * hidden), the forward direction first. For the arguments see `forward`."""
        rows = torch.from_numpy(batch.hashed)
        tables = self.tables
        of_word = torch.cat(
            [
                self.project(torch.from_numpy(batch.vectors) * 4.0),
                tables["word"](rows[:, 0]) + tables["word"](rows[:, 1]),
                tables["prefix"](rows[:, 2]),
                tables["suffix"](rows[:, 3]),
                tables["shape"](rows[:, 4]),
            ],
            dim=1,
        )
        tokens = torch.cat([of_word[torch.from_numpy(batch.words)], self.names(torch.from_numpy(batch.names))], dim=2)
        mixed = self.mix(self.dropout(tokens))
        n, t = batch.words.shape
        of_corpus = self.corpora(torch.zeros(n, dtype=torch.int64) if corpora is None else corpora)
        inputs = self.dropout(torch.cat([mixed, of_corpus[:, None, :].expand(n, t, -1)], dim=2))
        packed = nn.utils.rnn.pack_padded_sequence(inputs, torch.from_numpy(batch.lengths), batch_first=True, enforce_sorted=False)
        states: torch.Tensor = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=t)[0]
        return states

    def log_sums(self, scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the log of the summed scores of all allowed tag sequences, (n,), for scores (n, t, tags) and lengths (n,)."""
        steps = (self.steps + self.illegal)[None]
        state = scores[:, 0] + self.first
        for at in range(1, scores.shape[1]):
            new = torch.logsumexp(state[:, :, None] + steps, dim=1) + scores[:, at]
            state = torch.where((lengths > at)[:, None], new, state)
        return torch.logsumexp(state + self.last, dim=1)

    def loss(self, scores: torch.Tensor, allowed: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the negative log probability (n,) that each window's tags are among the allowed ones.

        Args:
            scores: (n, t, tags) scores of tags.
            allowed: (n, t, tags) bools: one tag if the tag of the token is known, several if not.
            lengths: (n,) number of tokens of each window.
        """
        both = self.log_sums(torch.cat([scores, scores + torch.where(allowed, 0.0, NEVER)]), torch.cat([lengths, lengths]))
        return both[: len(scores)] - both[len(scores) :]


def best_ways(scores: npt.NDArray[np.float32], lengths: Ints1d, network: MentionNetwork) -> list[list[int]]:
    """Return the most probable tag sequence of each window (Viterbi).

    Args:
        scores: (n, t, tags) scores of tags.
        lengths: (n,) number of tokens of each window.
        network: The network, whose scores of steps from tag to tag are used.
    """
    steps = (network.steps + network.illegal).detach().numpy()
    first, last = network.first.numpy(), network.last.numpy()
    n, t, tags = scores.shape
    emitted = np.ascontiguousarray(scores.transpose(1, 2, 0))  # (t, tags, n): NumPy is fastest if the last axis is long
    state = emitted[0] + first[:, None]
    back, new = np.zeros((t, tags, n), dtype=np.int64), np.empty_like(state)
    opening, inside, going_on = steps[np.ix_(_CLOSED, _OPEN)][:, :, None], steps[_BEGUN, _INSIDE][:, None], steps[_GONE_ON, _INSIDE][:, None]
    for at in range(1, t):  # only the steps that are allowed, a quarter of all
        ways = state[_CLOSED][:, None, :] + opening  # (tag before, tag, n)
        back[at, _OPEN], new[_OPEN] = _CLOSED[ways.argmax(0)], ways.max(0)
        begun, gone_on = state[_BEGUN] + inside, state[_GONE_ON] + going_on
        goes_on = gone_on > begun
        back[at, _INSIDE] = np.where(goes_on, _GONE_ON[:, None], _BEGUN[:, None])
        new[_INSIDE] = np.where(goes_on, gone_on, begun)
        state = np.where(lengths > at, new + emitted[at], state)
    ways, every = np.zeros((t, n), dtype=np.int64), np.arange(n)
    ways[-1] = (state + last[:, None]).argmax(0)
    for at in range(t - 1, 0, -1):
        ways[at - 1] = np.where(lengths > at, back[at, ways[at], every], ways[at])
    return [way[:end] for way, end in zip(ways.T.tolist(), lengths.tolist())]


def marginals(scores: npt.NDArray[np.float32], lengths: Ints1d, network: MentionNetwork) -> npt.NDArray[np.float32]:
    """Return the log probability of each tag at each token (n, t, tags), over all allowed tag sequences. Ignore values after the end of a window.

    Args:
        scores: (n, t, tags) scores of tags.
        lengths: (n,) number of tokens of each window.
        network: The network, whose scores of steps from tag to tag are used.

    Source:
        The forward-backward algorithm (Rabiner, Proc. IEEE 1989).
    """
    with torch.inference_mode():
        emitted, ends = torch.from_numpy(scores), torch.from_numpy(lengths)
        steps = (network.steps + network.illegal)[None]
        n, t, _ = emitted.shape
        forward, backward = torch.empty_like(emitted), torch.empty_like(emitted)
        forward[:, 0] = emitted[:, 0] + network.first
        for at in range(1, t):
            forward[:, at] = torch.logsumexp(forward[:, at - 1, :, None] + steps, dim=1) + emitted[:, at]
        state = network.last.expand(n, -1).clone()
        for at in range(t - 1, -1, -1):
            inside = (ends > at + 1)[:, None]
            if at + 1 < t:
                longer = torch.logsumexp(steps + (emitted[:, at + 1] + state)[:, None, :], dim=2)
                state = torch.where(inside, longer, network.last.expand(n, -1))
            backward[:, at] = state
        both = forward + backward
        result: npt.NDArray[np.float32] = (both - torch.logsumexp(both, dim=2, keepdim=True)).numpy()
        return result
