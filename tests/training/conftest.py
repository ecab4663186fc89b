"""A transformer small enough to train within a second, and pairs to train it on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from spacy_sapbert.encoders.transformer import base_encoder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.pairs import build_pairs


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT of two layers and 32 dimensions with random weights and a real vocabulary."""
    folder = tmp_path_factory.mktemp("base") / "tiny-bert"
    torch.manual_seed(0)
    BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=30522)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base_encoder()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_pairs(tiny_kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of the tiny linker's knowledge base, with held-out synonyms and concepts."""
    folder = tmp_path_factory.mktemp("pairs") / "pairs"
    build_pairs(tiny_kb, folder, held_out=0.1, zero_shot=0.1)
    return folder
