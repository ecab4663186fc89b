"""How often and by which route a drug is given, which has the letters of a disease, a joint or an eye."""

from __future__ import annotations

import pytest
from name_matchers import found, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ramipril 5mg OM, senna 15 mg OD.", ["Ramipril", "senna"]),
        ("Ramipril 2.5 OM cont", ["Ramipril"]),
        ("Senna 1-2 sachets OD", ["Senna"]),
        ("Senna 2 tabs OD, ramipril 10 mg PO BD", ["Senna", "ramipril"]),
        ("Ramipril 40 mg SC every 2 weeks, senna 1 g PR", ["Ramipril", "senna"]),
        ("SC joint 2 mm", ["SC"]),
        ("OM on the left", ["OM"]),
        ("senna, OM", ["senna", "OM"]),
        ("stent 2.5 OM", ["OM"]),  # no drug
        ("acuity 20/40 OD", ["OD"]),
        ("Ramipril 1.25 mg OD, 1.25 mg OS", ["Ramipril", "OD"]),  # beside the left eye
        ("ramipril 5 mg for OM", ["ramipril", "OM"]),
        ("Ramipril OD", ["Ramipril"]),
        ("ramipril OD, vision normal", ["ramipril", "OD"]),
    ],
)
def test_a_frequency_after_a_dose_is_no_mention(text: str, expected: list[str]) -> None:
    names = [
        ("ramipril", "T121", ""),
        ("senna", "T121", ""),
        ("OM", "T047", ""),
        ("OD", "T023", ""),
        ("BD", "T047", ""),
        ("SC", "T023", ""),
        ("PR", "T116", ""),
    ]
    assert found(written(*names), text) == expected
