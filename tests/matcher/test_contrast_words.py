"""Words about a contrast agent belong to the imaging before them."""

from __future__ import annotations

import pytest

from spacy_sapbert.matcher.contrast import with_contrast
from spacy_sapbert.matcher.joining import Match


@pytest.mark.parametrize(
    "after",
    [
        " with contrast",
        " WITH AND WITHOUT CONTRAST",
        " w/o contrast",
        " noncon",
        " non-contrast",
        " with or without IV contrast",
        ", without contrast",
        " with oral and intravenous contrast",
        " with contrast injection",
        " without contrast enhancement",
    ],
)
def test_imaging_with_contrast_is_one_mention(after: str) -> None:
    text = f"CT abdomen{after}, pelvis"
    assert with_contrast(Match(0, 10, "PROC"), text) == Match(0, 10 + len(after), "PROC", "CT abdomen")


@pytest.mark.parametrize(
    "after", ["", ". With contrast", " in contrast", " with contrast agent", " with contrast-induced nephropathy", "\nwith contrast"]
)
def test_other_words_stay_outside(after: str) -> None:
    match = Match(0, 10, "PROC")
    assert with_contrast(match, f"CT abdomen{after}") is match


def test_only_chosen_names_of_imaging_count() -> None:
    text = "biopsy with contrast"
    assert with_contrast(Match(0, 6, "PROC"), text).end == 6
    text = "MRI brain with contrast"
    assert with_contrast(Match(0, 3, "PROC", nested=True), text).end == 3
    assert with_contrast(Match(0, 9, "PROC", "magnetic resonance imaging of brain"), text).corrected == "magnetic resonance imaging of brain"
