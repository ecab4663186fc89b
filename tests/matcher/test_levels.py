"""Levels of the spine: nerve roots, and sacral segments."""

from __future__ import annotations

import pytest
from name_matchers import found, matcher, written

from spacy_sapbert.matcher.levels import levels, vertebrae


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R L5 root contacted.", [("L5 root", "L5 nerve root"), ("L5 root", "spinal nerve root")]),
        ("the left S1 nerve roots", [("S1 nerve roots", "S1 nerve root"), ("S1 nerve roots", "spinal nerve root")]),
        ("C6 root exits", [("C6 root", "C6 nerve root"), ("C6 root", "spinal nerve root")]),
        ("L5 root block, L4 nerve root compression, L5 fracture, root L5", []),
        ("Tarlov cyst at S2.", [("S2", "S2 vertebra")]),
        ("Incidental perineural cyst S3.", [("S3", "S3 vertebra")]),
        ("S2 cyst on MRI", [("S2", "S2 vertebra")]),
        ("S1 S2 normal, cyst. S2 heard", []),
        ("cyst at S25", []),
    ],
)
def test_what_a_level_stands_for(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in levels(text)] == expected


def test_a_root_is_its_own_name_or_else_any_root() -> None:
    text = "L5 root contacted, S2 cyst"
    for names, made in (
        (("spinal nerve root", "L5", "S2"), ["spinal nerve root"]),
        (("spinal nerve root", "L5 nerve root", "L5", "S2"), ["L5 nerve root"]),
        (("L5", "S2 vertebra"), ["S2 vertebra"]),
    ):
        component = matcher(*names, all_key="all")
        doc = component(component.nlp.make_doc(text))
        assert [span._.corrected_text for span in doc.spans["all"] if span._.corrected_text] == made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Laminectomy, L4-L5.", [("L4-L5", "L4-L5 intervertebral level")]),
        ("left L5-S1, L4/5", [("L5-S1", "L5-S1 intervertebral level"), ("L4/5", "L4-L5 intervertebral level")]),
        ("C2-3 disc", [("C2-3", "C2-C3 intervertebral level")]),
        ("T12-L1 and C7-T1 fusion", [("T12-L1", "T12-L1 intervertebral level"), ("C7-T1", "C7-T1 intervertebral level")]),
        ("L2-L5, C1-2, L5-1, L4-5-6, S1-S2, fusion", []),  # no neighbours, no disc, no pair
        ("the L5-S1 nerve root, L4-L5 roots", []),
        ("C3-4 were low, stage T2-T3", []),  # complement, a tumour
        ("Screws at T12.", [("T12", "T12 vertebra")]),
        ("T8 was normal", [("T8", "T8 vertebra")]),
        ("The plate reached from C3 to C5.", [("C3", "C3 vertebra"), ("C5", "C5 vertebra")]),
        ("C3 and C4 were low. T3 and T4 are normal. C5 of FOLFOX", []),
        ("T2 images of the cervical spine", []),
        ("C6 radiculopathy with fusion, T10 dermatome, T4 cells, laminectomy", []),
        ("Cervical spine is normal.\nC3 was low", []),  # another line
        ("TSH 2.1, T3 120, T4 8.1. No cervical adenopathy.", []),
        ("TSH 2.1, T3 120, T4: 8.1, spine x-ray pending", []),
        ("Stage T3 lung cancer, referred to thoracic surgery.", []),
        ("Stage T3, seen by spine clinic; T2 prostate cancer before laminectomy", []),
        ("Cervical cancer, stage T2.", []),
        ("C3 and C4 low, lumbar puncture done.", []),
        ("C3 and C4 low, lumbar spine x-ray done.", []),
        ("Cervical cancer, C5 of cisplatin", []),
        ("Cervical tenderness over C5", [("C5", "C5 vertebra")]),
        ("Laminectomy of T3 and T4", [("T3", "T3 vertebra"), ("T4", "T4 vertebra")]),
        ("Fusion T2 to T4 for lung cancer", [("T2", "T2 vertebra"), ("T4", "T4 vertebra")]),
        ("Lung cancer, T3 vertebra destroyed", [("T3", "T3 vertebra")]),
        ("The C3 vertebra is low, C4 2 mm anterolisthesis", [("C3", "C3 vertebra"), ("C4", "C4 vertebra")]),
        ("T12 hypoattenuating lesion", [("T12", "T12 vertebra")]),
        ("C3-4: normal disc. Stage T2-T3, spine clinic", [("C3-4", "C3-C4 intervertebral level")]),
        ("T12 tumor", [("T12", "T12 vertebra")]),
        ("T12 hypoesthesia", []),
    ],
)
def test_vertebrae_and_the_levels_between_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in vertebrae(text)] == expected


def test_a_pair_of_vertebrae_is_a_level_but_not_in_a_longer_name() -> None:
    names = (("L4-L5 intervertebral level", "T023", ""), ("L4-L5", "T023", ""), ("L4-5 disc herniation", "T047", ""))
    component = written(*names, all_key="all")
    doc = component(component.nlp.make_doc("Laminectomy, L4-L5."))
    assert [(ent.text, ent._.corrected_text) for ent in doc.ents] == [("L4-L5", "L4-L5 intervertebral level")]
    assert found(component, "L4-5 disc herniation") == ["L4-5 disc herniation"]
    assert found(written(("L4-L5", "T023", "")), "L4-L5") == ["L4-L5"]  # no name of the level
