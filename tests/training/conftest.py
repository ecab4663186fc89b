"""A transformer small enough to train within a second, and pairs to train it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from spacy_sapbert.encoders.transformer import base_encoder
from spacy_sapbert.files import writing_folder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.pairs import build_pairs


@pytest.fixture(scope="session")
def tiny_base(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A BERT with two layers, 32 dimensions, random weights and a real vocabulary. Do not write into it."""
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=30522)

    def make(out: Path) -> None:
        with writing_folder(out) as folder:
            torch.manual_seed(0)
            BertModel(config).save_pretrained(folder)
            AutoTokenizer.from_pretrained(base_encoder()).save_pretrained(folder)

    return once("base/tiny-bert", make)


@pytest.fixture(scope="session")
def tiny_pairs(tiny_kb: KnowledgeBase, once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Pairs of the tiny linker's knowledge base, with held-out synonyms and concepts. Do not write into them."""
    return once("pairs/pairs", lambda folder: build_pairs(tiny_kb, folder, held_out=0.1, zero_shot=0.1))
