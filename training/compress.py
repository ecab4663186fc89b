"""Write a trained encoder as a PEFT adapter of a few megabytes over its base: `python -m training compress ENCODER OUT --rank 64`.

The change of each weight matrix in training is reduced to its largest singular values. This is the best approximation of that rank. It is saved in
half precision as LoRA's product B A. Changed biases and layer norms are kept whole. `--share` below 1 goes only part of the way from the base to the
trained weights: such an average of both models keeps more of what the base can do.

Source: Eckart and Young 1936; Wortsman et al., CVPR 2022.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from spacy_sapbert.encoders.transformer import BASE_NAME, NameEncoder
from spacy_sapbert.files import writing_folder

from .errors import fail
from .loop.weights import read_weights, shape_difference

POOLING_FILES = ("modules.json", "1_Pooling/config.json")  # without them a reader would use the base's own pooling
CARD = "README.md"


def compress(encoder: Path, out: Path, *, base: str = BASE_NAME, rank: int = 64, share: float = 1.0) -> dict[str, Any]:
    """Write `adapter_config.json`, `adapter_model.safetensors` and a model card into a folder.

    Args:
        encoder: A folder that `training.fit` wrote.
        out: The folder to write.
        base: The base that the encoder was trained from.
        rank: Rank of each update matrix; an update of a smaller rank is kept whole.
        share: Share of the way from the base's weights to the trained ones.

    Returns:
        Size in bytes, number of matrices, rank, share, and the share of the updates' squared Frobenius norm that is kept.

    Raises:
        SapbertError: E301 (it cannot be loaded), E511 (a setting), E517 (nothing was trained, or the model was not trained from that base).
    """
    if not 0 < share <= 1:
        raise fail("E511", setting="share", value=share, why="it must be above 0 and at most 1")
    if rank < 1:
        raise fail("E511", setting="rank", value=rank, why="it must be at least 1")
    trained, untrained = read_weights(str(encoder)), read_weights(base)
    different = shape_difference(trained, untrained)
    if different:
        raise fail("E517", encoder=encoder, base=base, why=f"they differ in shape at '{different}'")
    trained = {key: untrained[key] + share * (value - untrained[key]) if value.is_floating_point() else value for key, value in trained.items()}
    changed = [key for key in sorted(trained) if not torch.equal(trained[key], untrained[key]) and not key.startswith("pooler.")]
    state: dict[str, torch.Tensor] = {}
    targets: list[str] = []
    norms: list[str] = []
    kept = total = 0.0
    for key in changed:
        module = key.rpartition(".")[0]
        if trained[key].ndim == 2 and not module.startswith("embeddings"):
            a, b, part, length = low_rank(trained[key] - untrained[key], rank)
            state[f"base_model.model.{module}.lora_A.weight"], state[f"base_model.model.{module}.lora_B.weight"] = a.half(), b.half()
            targets.append(module)
            kept, total = kept + part * length, total + length
        elif trained[key].ndim == 1 and "LayerNorm" in module:
            norms.append(module)
        elif trained[key].ndim == 2 or not key.endswith(".bias"):
            raise fail(
                "E517", encoder=encoder, base=base, why=f"'{key}' was trained, and an adapter can't hold it (encoder.train_embeddings = false)"
            )
    if not targets:
        raise fail("E517", encoder=encoder, base=base, why="no weight matrix differs")
    for module in dict.fromkeys(norms):
        for kind in ("weight", "bias"):
            state[f"base_model.model.{module}.{kind}"] = trained[f"{module}.{kind}"].half()
    for module in targets:  # LoRA's layout also stores the bias of each matrix
        state[f"base_model.model.{module}.base_layer.bias"] = trained[f"{module}.bias"].half()
    config = {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": rank,  # equal to r, so the scale is 1 and B A is the update itself
        "lora_dropout": 0.0,
        "bias": "lora_only",
        "inference_mode": True,
        "target_modules": targets,
        "modules_to_save": sorted(dict.fromkeys(norms)) or None,
    }
    with writing_folder(out) as folder:
        save_file({key: value.contiguous() for key, value in state.items()}, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        for file in (*POOLING_FILES, CARD):
            if (encoder / file).is_file():
                (folder / file).parent.mkdir(exist_ok=True)
                shutil.copyfile(encoder / file, folder / file)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        size = (folder / "adapter_model.safetensors").stat().st_size
    return {"bytes": size, "matrices": len(targets), "rank": rank, "share": share, "kept": round(kept / total, 4)}


def low_rank(update: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    """Return A and B whose product B A is the best approximation of an update.

    Args:
        update: Change of a weight matrix (out, in).
        rank: Rank of the approximation.

    Returns:
        A (rank, in), B (out, rank), the share of the update's squared Frobenius norm that is kept, and that squared norm.
    """
    u, s, v = torch.linalg.svd(update.float(), full_matrices=False)
    root = s[:rank].sqrt()
    a, b = root[:, None] * v[:rank], u[:, :rank] * root
    if len(s) < rank:
        a, b = torch.nn.functional.pad(a, (0, 0, 0, rank - len(s))), torch.nn.functional.pad(b, (0, rank - len(s)))
    length = float((s**2).sum())
    return a, b, float((s[:rank] ** 2).sum()) / max(length, 1e-30), length


def cosine_to(encoder: Path, adapter: Path, names: Sequence[str]) -> float:
    """Return the mean cosine between the vectors of both encoders for some names. It shows what the smaller rank costs."""
    vectors = []
    for folder in (encoder, adapter):
        model = NameEncoder(name=str(folder), dtype="float32")
        model.initialize()
        vectors.append(model.predict(list(names)))
    return float(np.mean(np.sum(vectors[0] * vectors[1], axis=1)))
