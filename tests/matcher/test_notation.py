"""Shorthand of notes that has the letters of a name."""

from __future__ import annotations

import pytest
import spacy
from name_matchers import found, matcher

from spacy_sapbert.matcher.notation import notations


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Cycle 4 of 6, here for C5.", ["C5"]),
        ("Tolerated C3 well; C4 delayed one week.", ["C4", "C3"]),
        ("C5 D1 of carbo/pem today.", ["C5"]),
        ("C4 given, C5 due next week.", ["C4", "C5"]),
        ("C2 of 6", ["C2"]),
        ("Admitted for C3, tolerated C2 fine", ["C3", "C2"]),
        ("here for C5 fusion", []),
        ("C3 delayed due to neutropenia", ["C3"]),
        ("C5 weakness due to C5 disc, C5 due to disc", []),
        ("completed C6-7 fusion", []),
        ("C4 fracture, C4 0.1", []),
        ("TPN if not opening bowels by D5.", ["D5"]),
        ("CrUSS D3: normal. Rpt D10.", ["D10"]),
        ("Bloodspot D5 sent.", ["D5"]),
        ("D5 blastocyst", ["D5"]),
        ("Repeat D10 bolus, repeat D10 2 ml/kg, until D5W runs, repeat D50", []),
        ("Given D10", []),
        ("HA assessment. RV 3/12", ["RV"]),
        ("Continue inhalers, RV in 6/52.", ["RV"]),
        ("RV in 2-3 weeks, RV next month", ["RV", "RV"]),
        ("RV dilated, RV 3.8 cm, RV in diastole", []),
        ("Zomorph last disp 3/12 ago, pt says not taking", ["pt"]),
        ("Pt feels well. pt thinks so", ["Pt", "pt"]),
        ("PT says, pt was 14.2, seen by pt", []),
        ("This 69 y/o gent was seen with his wife.", ["gent"]),
        ("Pleasant 80 yo gent with a painful hip. A 70 year old gent", ["gent", "gent"]),
        ("80M on gent 5 mg/kg, this gent level", ["80M"]),
        ("SBRT to RUL nodule 50 Gy in 5 fx.", ["fx"]),
        ("60Gy/30 fx, 20 fx of XRT", ["fx", "fx"]),
        ("rib 5 fx, L2 fx", []),
        ("2 fx RT ribs, 2 fx of RT ribs", []),  # the right side
        ("RV 3 days ago, in RV 3 days, RV 2 weeks post MI", []),
        ("Low C3 given lupus, low complement C4 given", []),
        ("HE gd 1, Gd 2 OVs.", ["gd", "Gd"]),
        ("Gd 10 ml, Gd 5 ml, Gd 0.1", []),
        ("sFLC K 44, ratio 3.1.", ["K"]),
        ("FLC: K 12", ["K"]),
        ("K 4.4", []),
        ("Pulses: DP - PT -. PT mono.", ["mono"]),
        ("DP mono, had mono", ["mono"]),
        ("Fostair 2p BD, del 2p", ["2p"]),
        ("87F, adm from RH. 64M with CP.", ["87F", "64M"]),
        ("18F FDG, 5F catheter, 20F-30, A1-87F", []),
        ("RENAL CLINIC\n\nCKD 3a", ["RENAL CLINIC"]),
        ("Diabetes & Endocrine Clinic\nT2DM", ["Diabetes & Endocrine Clinic"]),
        ("Frailty Unit:\nfalls\nHOSPICE IPU - admission", ["Frailty Unit", "HOSPICE IPU"]),
        ("Seen in Pain Clinic\nPain Clinic letter\nRenal failure\nOne Unit Transfused", []),
    ],
)
def test_places(text: str, places: list[str]) -> None:
    assert sorted(text[start:end] for start, end in notations(text)) == sorted(places)


def test_what_is_in_such_a_place_is_no_mention_in_english() -> None:
    assert found(matcher("RV", "RV dysfunction", "pt"), "RV in 6/52, RV dysfunction, pt says, pt 12") == ["RV dysfunction", "pt"]
    assert found(matcher("RV", nlp=spacy.blank("de")), "RV in 6/52") == ["RV"]


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    for piece in ("Aa & ", "C5 ", "D5 ", "gent ", "RV ", "A" * 100, " " * 100, "9"):
        assert list(notations(piece * (100_000 // len(piece)))) == []
