"""Tiny encoders for tests: a BERT with random weights, and one whose folder needs Python code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789-", "heart", "fever", "failure"]
VOCAB += [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
OWN_CODE = """
from pathlib import Path
from transformers import BertConfig, BertModel, BertTokenizerFast
Path({marker!r}).write_text("run")
class OwnConfig(BertConfig):
    model_type = "own-bert"
class OwnModel(BertModel):
    config_class = OwnConfig
class OwnTokenizerFast(BertTokenizerFast):
    pass
"""


def make_bert(folder: Path, seed: int = 0, width: int = 32, dropout: float = 0.0) -> Path:
    """Make a Hugging Face folder like that of SapBERT: a plain transformer with random weights, without settings of sentence-transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(str(folder))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCAB), hidden_size=width, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0, initializer_range=0.3,
    )  # fmt: skip
    BertModel(config).save_pretrained(str(folder), safe_serialization=True)
    return folder


def with_code(folder: Path, marker: Path, *, config: bool = True, tokenizer: bool = False, names: str = "Own") -> Path:
    """Make an encoder's folder need a Python file, `own.py`. marker: a file that the code writes when it is run. names: names of the classes."""
    (folder / "own.py").write_text(OWN_CODE.format(marker=str(marker)))
    if config:
        change_json(folder / "config.json", model_type="own-bert", auto_map={"AutoConfig": f"own.{names}Config", "AutoModel": f"own.{names}Model"})
    if tokenizer:
        auto_map = {"AutoTokenizer": [None, "own.OwnTokenizerFast"]}
        change_json(folder / "tokenizer_config.json", tokenizer_class="OwnTokenizer", auto_map=auto_map)
    return folder


def change_json(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.unlink(missing_ok=True)  # it may be a link
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")
