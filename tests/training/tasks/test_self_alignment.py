"""Names against the texts of a batch: the loss by hand, in one process and in two, and settings that are not allowed with it."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch

from spacy_sapbert.errors import SapbertError
from training.fit import read_recipe
from training.loop import trainer as loop
from training.loop.losses import make_info_nce
from training.loop.mining import make_no_mining

ROOT = Path(__file__).parents[3]
# three names at 0°, 90° and 60°, and their texts at 60°, 0° and 90°; the first and the third belong to one concept
ANGLES = torch.tensor([0.0, 90.0, 60.0, 60.0, 0.0, 90.0])
LABELS = torch.tensor([3, 5, 3, 3, 5, 3])


def vectors() -> torch.Tensor:
    turned = torch.deg2rad(ANGLES.double())
    return torch.stack([torch.cos(turned), torch.sin(turned)], dim=1).requires_grad_()


def objective(kind: type[loop.SelfAlignment]) -> Any:
    return kind(None, make_info_nce(temperature=0.5), make_no_mining(), 1024)  # type: ignore[arg-type]


def by_hand() -> float:
    """Return the loss: positives of a name are the texts of its concept, negatives the texts of others, never names; cosines are divided by 0.5."""
    cosine = {0: 1.0, 30: 3**0.5 / 2, 60: 0.5, 90: 0.0}
    angles = ANGLES.int().tolist()
    terms = []
    for a in range(3):
        for p in range(3, 6):
            if LABELS[a] == LABELS[p]:
                against = [n for n in range(3, 6) if LABELS[n] != LABELS[a]]
                score = {t: exp(cosine[abs(angles[a] - angles[t])] / 0.5) for t in range(3, 6)}
                terms.append(-log(score[p] / (score[p] + sum(score[n] for n in against))))
    return sum(terms) / len(terms)


def test_a_name_is_held_against_texts_alone() -> None:
    found, given = objective(loop.TextsForNames), vectors()
    loss = found.measure(given, LABELS)
    assert loss.item() == pytest.approx(by_hand(), abs=1e-6)
    assert found.names == 6
    loss.backward()
    assert given.grad is not None
    assert objective(loop.SelfAlignment).measure(vectors(), LABELS).item() != pytest.approx(by_hand(), abs=1e-2)  # names and texts treated equally


def test_the_texts_of_all_processes_are_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and texts of the other process come after those of this one; the labels say which of them are texts."""
    mine, other = [0, 1, 3, 4], [2, 5]  # rows: names, then their texts

    def gather(given: torch.Tensor, coded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
        is_text = torch.tensor([0, 1])
        return torch.cat([given, vectors()[other]]), torch.cat([coded, 2 * LABELS[other] + is_text]), 1.0

    monkeypatch.setattr(loop, "gather", gather)
    assert objective(loop.TextsForNames).measure(vectors()[mine], LABELS[mine]).item() == pytest.approx(by_hand(), abs=1e-6)


@pytest.mark.parametrize(("against", "said"), [("texts", r"E510.*neither \[augment\]"), ("names", r"E511.*task.against")])
def test_what_the_recipe_may_not_say_beside_it(against: str, said: str, tmp_path: Path) -> None:
    text = (ROOT / "training" / "configs" / "sap_small.cfg").read_text()
    recipe = tmp_path / "recipe.cfg"
    recipe.write_text(f'{text}\n[task]\n@tasks = "spacy-sapbert.SelfAlignment.v1"\nagainst = "{against}"\n')
    with pytest.raises(SapbertError, match=said):
        read_recipe(recipe)
