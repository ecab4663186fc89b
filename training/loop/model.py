"""The model that is trained: a Hugging Face or sentence-transformers base, its pooling, and the weights that learn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from spacy_sapbert.encoders.transformer import NameEncoder, base_encoder, local_name, read_pooling
from spacy_sapbert.errors import MissingFile

from ..data.bases import why_not_from_hub
from ..errors import fail, no_base
from ..registry import registry

Adapter = Callable[[torch.nn.Module], Any]
HEAD = "head_output"  # key of a head's output among the model's outputs


def open_base(name: str, *, pooling: str = "auto", max_length: int = 25, dropout: float = 0.1) -> SentenceTransformer:
    """Open a base as a model that returns L2-normalised vectors (n, d): transformer, pooling, normalisation.

    Args:
        name: A Hugging Face or sentence-transformers name or folder, or a folder of PEFT adapters, which are merged; "" is the all-MiniLM-L6-v2
            that is installed as a package.
        pooling: "cls" (SapBERT, section 2), "mean", or "auto": the base's own setting, or "cls" if it has none.
        max_length: Greatest number of tokens of a name that are read (SapBERT: 25).
        dropout: Dropout of hidden states and attention (BERT: 0.1).

    Raises:
        SapbertError: E512, if it cannot be loaded.
    """
    base = local_name(name) or base_encoder()
    if not Path(base).exists() and (why := why_not_from_hub(base)):  # transformers would try for most of a minute, and print each try
        raise no_base(base, why)
    try:
        with tempfile.TemporaryDirectory() as merged:
            if (Path(base) / "adapter_config.json").is_file() and not (Path(base) / "config.json").is_file():
                NameEncoder(name=base, pooling=pooling, dtype="float32").initialize().save(Path(merged))
                base = merged
            transformer = Transformer(base, max_seq_length=max_length)
            chosen = read_pooling(base) if pooling == "auto" else pooling
    except Exception as error:  # transformers raises OSError, ValueError, SafetensorError, KeyError … for the same cause
        raise fail("E512", MissingFile, name=base, why=" ".join(str(error).split())[:300] or type(error).__name__) from error
    for module in transformer.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
        for own in (
            "dropout_prob",
            "attention_dropout",
        ):  # fused attention has its own setting: the first name is that of BERT and XLM-R, the second of DistilBERT and MPNet
            if isinstance(getattr(module, own, None), (int, float)):
                setattr(module, own, dropout)
    width = transformer.model.config.hidden_size
    opened: SentenceTransformer = SentenceTransformer(modules=[transformer, Pooling(width, pooling_mode=chosen), Normalize()], device="cpu")
    return opened


def transformer_of(model: SentenceTransformer) -> torch.nn.Module:
    """Return the Hugging Face model inside a sentence-transformers model."""
    return cast(torch.nn.Module, model[0].model)


def freeze(model: SentenceTransformer, *, embeddings: bool, layers: int) -> None:
    """Freeze the embeddings and the lowest layers. A pooler head is always frozen, because its output is not used.

    Without a gradient for the embeddings, a step on two CPU cores is a quarter faster: each micro-batch would make a gradient as large as the
    vocabulary.

    Args:
        model: The encoder.
        embeddings: Whether to freeze the embeddings.
        layers: Number of layers to freeze, counted from the lowest.

    Raises:
        SapbertError: E511.
    """
    found = list(_layers(transformer_of(model)))
    if layers > len(found):
        raise fail("E511", setting="encoder.frozen_layers", value=layers, why=f"the base has {len(found)} layers")
    for name, parameter in transformer_of(model).named_parameters():
        if name.startswith("pooler.") or (embeddings and name.startswith("embeddings.")):
            parameter.requires_grad = False
    for layer in found[:layers]:
        layer.requires_grad_(False)


def _layers(transformer: torch.nn.Module) -> Iterator[torch.nn.Module]:
    lists = [module for module in transformer.modules() if isinstance(module, torch.nn.ModuleList)]
    yield from max(lists, key=len, default=[])


def trainable(model: torch.nn.Module) -> tuple[int, int]:
    """Return the number of parameters that learn, and the number of all parameters."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(n for n, learns in sizes if learns), sum(n for n, _ in sizes)


# -- heads --------------------------------------------------------------------------------------------------------------


def add_head(model: SentenceTransformer, width: int) -> None:
    """Add a linear layer from the vector to `width` numbers. Its output has the key HEAD among the model's outputs.

    It reads the L2-normalised vector, which is what a linker compares, so that the learning reaches this vector. It is a module of the model:
    checkpoints hold it and processes share its gradients. `save_model` leaves it out.
    """
    transformer: Any = transformer_of(model)
    size = int(transformer.config.hidden_size)
    head = Dense(size, width, activation_function=torch.nn.Identity(), module_output_name=HEAD)
    model.append(head.to(next(model.parameters()).device))


def load_head(model: SentenceTransformer, checkpoint: Path) -> None:
    """Load the head's weights from a checkpoint, if the model has a head."""
    for i, module in enumerate(model):
        if isinstance(module, Dense):
            state = load_file(str(checkpoint / f"{i}_Dense" / "model.safetensors"))
            module.load_state_dict(state)


def without_head(model: SentenceTransformer) -> SentenceTransformer:
    """Return a model with the same weights, without a head."""
    kept = [module for module in model if not isinstance(module, Dense)]
    return model if len(kept) == len(model) else SentenceTransformer(modules=kept, device=str(model.device))


# -- adapters -----------------------------------------------------------------------------------------------------------


@registry.adapters("spacy-sapbert.Lora.v1")
def lora(rank: int = 0, share: float = 0.0, alpha: float = 2.0, dropout: float = 0.0, first_layer: int = 0) -> Adapter:
    """Make LoRA adapters with PEFT on every linear layer of the encoder. All other weights are frozen.

    Args:
        rank: Rank of each update.
        share: Alternative to a rank: the number of parameters of the adapters as a share of those of the base.
        alpha: Factor of the update (PEFT's lora_alpha / r).
        dropout: Dropout before the update.
        first_layer: Layers below it have no adapters.

    Raises:
        SapbertError: E511.

    Source:
        Hu et al. 2021. SapBERT (Liu et al., NAACL 2021) trains bottleneck adapters (Pfeiffer et al., EMNLP 2020) with 13% and 1% of the parameters. Here LoRA
        has these sizes. It is merged into the weights, so the encoder is saved and read like any other and is as fast.
    """
    if (rank > 0) == (share > 0):
        raise fail("E511", setting="encoder.adapter", value={"rank": rank, "share": share}, why="give either rank (1 or more) or share (above 0)")
    if share and not 0 < share < 1:
        raise fail("E511", setting="encoder.adapter.share", value=share, why="it must be a share of the base's parameters, between 0 and 1")

    def add(transformer: torch.nn.Module) -> Any:
        from peft import LoraConfig, get_peft_model

        targets = _linear_layers(transformer, first_layer)
        shapes = [module.weight.shape for name, module in transformer.named_modules() if name in targets and isinstance(module, torch.nn.Linear)]
        each = sum(sum(shape) for shape in shapes)  # parameters per unit of rank, in the matrices (rank, in) and (out, rank)
        r = rank or max(1, round(share * sum(p.numel() for p in transformer.parameters()) / each))
        config = LoraConfig(r=r, lora_alpha=alpha * r, lora_dropout=dropout, target_modules=targets)  # type: ignore[arg-type]
        return get_peft_model(transformer, config)

    return add


def _linear_layers(transformer: torch.nn.Module, first_layer: int) -> list[str]:
    names = {module: name for name, module in transformer.named_modules()}
    layers = list(_layers(transformer))[first_layer:]
    return [names[module] for layer in layers for module in layer.modules() if isinstance(module, torch.nn.Linear)]


def add_adapter(model: SentenceTransformer, adapter: Adapter) -> None:
    """Add adapters to a model."""
    model[0].model = adapter(transformer_of(model))


def save_model(model: SentenceTransformer, folder: Path, base: str) -> None:
    """Write a sentence-transformers folder with safetensors, without a head.

    Adapters are merged. They are also saved alone in `adapter/`, in PEFT's format and in half precision; the loss of precision is below the rounding
    of the vectors (see the model card).

    Args:
        model: The encoder; its adapters are merged in place.
        folder: Folder to write into.
        base: The base of the adapters.
    """
    model = without_head(model)
    inner = transformer_of(model)
    if hasattr(inner, "merge_and_unload"):
        inner.peft_config["default"].base_model_name_or_path = base  # type: ignore[union-attr, index]
        half = {key: value.half() for key, value in _adapter_state(inner).items()}
        inner.save_pretrained(str(folder / "adapter"), safe_serialization=True, state_dict=half)  # type: ignore[operator]
        (folder / "adapter" / "README.md").unlink(missing_ok=True)
        model[0].model = inner.merge_and_unload()  # type: ignore[operator]
    for parameter in model.parameters():
        parameter.requires_grad = True
    model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)


def _adapter_state(inner: Any) -> Any:
    from peft import get_peft_model_state_dict

    return get_peft_model_state_dict(inner)
