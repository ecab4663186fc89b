"""Which names are found in a text: the longest, nested ones, parts, items, and abbreviations that it defines."""

from __future__ import annotations

import pytest
from name_matchers import found, matcher, written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cleft Palates, CROHN'S DISEASE; crohn disease and Crohns’ diseases", ["Cleft Palates", "CROHN'S DISEASE", "crohn disease", "Crohns’ diseases"]),
        ("ventricular septal defect", ["ventricular septal defect"]),  # the longest
        ("septal defect of the ventricular septum", ["septal defect"]),
        ("septal defect ventricular septal defect", ["septal defect", "ventricular septal defect"]),
        ("cleft-palate cleft / palate cleft–palate", ["cleft-palate", "cleft / palate", "cleft–palate"]),
        ("a cleft\npalate", ["cleft\npalate"]),
        ("a cleft\r\npalate", ["cleft\r\npalate"]),
        ("cleft. Palate", []),
        ("cleft, palate", []),
        ("cleft\n\npalate", []),
        ("cleft\n \t\npalate", []),
        ("cleft\r\n\r\npalate", []),
        ("cleft: palate; cleft(palate) cleft_palate", []),
        ("cleftpalate unclefts palate", []),
        ("septal septal defect defect", ["septal defect"]),
        ("", []),
        ("   \n\n ", []),
("🤒cleft palate🤒", ["cleft palate"]),
        ("\ufeffcrohn's disease", ["crohn's disease"]),  # spaCy makes one token of it
    ],
)  # fmt: skip
def test_what_is_found(text: str, expected: list[str]):
    component = matcher("cleft palate", "crohn's disease", "septal defect", "ventricular septal defect")
    assert found(component, text) == expected


def test_left_to_right_without_overlap():
    component = matcher("acute kidney", "kidney injury today", "injury")
    assert found(component, "acute kidney injury today") == ["acute kidney", "injury"]


def test_a_shorter_name_where_punctuation_breaks_the_longer():
    component = matcher("pain", "chest", "chest pain and fever")
    assert found(component, "chest pain, and fever") == ["chest", "pain"]


def test_names_with_punctuation():
    component = matcher("hypotonia, generalized", "absent toenails (anonychia)", "gain of 2.5 kg", "lipoprotein(a)", "hypotonia")
    text = "Generalized hypotonia. Hypotonia, Generalized; hypotonia generalized, Hypotonia. Generalized"
    assert found(component, text) == ["hypotonia", "Hypotonia, Generalized", "hypotonia generalized", "Hypotonia"]
    assert found(component, "Absent toenail (anonychia), absent toenails anonychia") == ["Absent toenail (anonychia)", "absent toenails anonychia"]
    assert found(component, "gain of 2.5 kg; lipoprotein(a) and lipoprotein (a)") == ["gain of 2.5 kg", "lipoprotein(a)", "lipoprotein (a)"]


def test_digits_and_greek_letters():
    component = matcher("type 2 diabetes", "vitamin d", "α-thalassaemia", "factor viii")
    assert found(component, "Type 2 diabetes, Vitamin D, Α-Thalassaemia; FACTOR VIII. type 1 diabetes") == [
        "Type 2 diabetes",
        "Vitamin D",
        "Α-Thalassaemia",
        "FACTOR VIII",
    ]


def whole_and_nested(text: str) -> tuple[list[str], list[str]]:
    names = [("swelling", "T184"), ("knee swelling", "T184"), ("enlarged liver", "T033"), ("lesion", "T033"), ("pain", "T184"), ("mri", "T060")]
    body = [("knee", "T023"), ("liver", "T023"), ("hand", "T023"), ("joint", "T023")]
    component = written(*((name, tui, "") for name, tui in names + body), all_key="sapbert")
    doc = component(component.nlp.make_doc(text))
    chosen = [ent.text for ent in doc.ents]
    return chosen, [span.text for span in doc.spans["sapbert"] if span.text not in chosen]


@pytest.mark.parametrize(
    ("text", "expected", "nested"),
    [
        ("swelling of the left knee", ["swelling of the left knee"], ["swelling", "knee"]),  # a name in another order
        ("swelling of both knees.", ["swelling of both knees"], ["swelling", "knees"]),
        ("The liver was enlarged.", ["liver was enlarged"], ["liver"]),
        ("The liver is not enlarged.", ["liver is not enlarged"], ["liver"]),
        ("Liver not enlarged", ["Liver not enlarged"], ["Liver"]),
        ("Liver not seen, not enlarged", ["Liver"], []),
        ("liver lesion", ["lesion"], ["liver"]),  # the whole is not a name, but the liver only says where the lesion is
        ("lesion in the right hand", ["lesion"], ["hand"]),
        ("pain of the joints of the hands", ["pain"], ["joints", "hands"]),
        ("had MRI knee today", ["MRI"], ["knee"]),
        ("liver, lesion", ["liver", "lesion"], []),
        ("lesion\nliver", ["lesion", "liver"], []),  # they are on two lines of a list
        ("liver and lesion", ["liver", "lesion"], []),
        ("liver examined", ["liver"], []),
    ],
)
def test_parts_of_the_body_that_say_where_a_finding_is(text: str, expected: list[str], nested: list[str]):
    assert whole_and_nested(text) == (expected, nested)


def test_without_a_group_for_all_mentions_no_part_of_the_body_is_left_out():
    assert found(written(("lesion", "T033", ""), ("liver", "T023", "")), "liver lesion") == ["liver", "lesion"]


def test_an_abbreviation_that_the_text_defines_is_a_mention_everywhere():
    component = written(("von hippel-lindau disease", "T047", ""))
    text = "VHL; von Hippel-Lindau disease (VHL). In VHL, VHLX and GALT (VHL)."
    assert found(component, text) == ["VHL", "von Hippel-Lindau disease", "VHL", "VHL", "VHL"]


@pytest.mark.parametrize(
    ("text", "expected", "looked_up"),
    [
        ("Lung, wedge biopsy", ["Lung, wedge biopsy"], "Lung biopsy"),
        ("Lung, left, core needle biopsy:", ["Lung, left, core needle biopsy"], "Lung biopsy"),
        ("the lung, and a biopsy", ["lung"], None),
        ("CT of the lung, liver biopsy", ["lung", "liver biopsy"], None),
        ("Calf swollen R, tender", ["Calf swollen"], "swollen Calf"),
        ("stools pale", ["stools pale"], "pale stools"),
    ],
)
def test_specimens_and_states_in_another_order(text: str, expected: list[str], looked_up: str | None):
    names = [("lung biopsy", "T060"), ("liver biopsy", "T060"), ("lung", "T023"), ("swollen calf", "T184"), ("pale stools", "T184")]
    component = written(*((name, tui, "") for name, tui in names))
    doc = component(component.nlp.make_doc(text))
    assert [ent.text for ent in doc.ents] == expected
    assert doc.ents[0]._.corrected_text == looked_up


def test_a_name_that_lists_disorders_is_one_mention_for_each():
    names = [("nausea and vomiting", "T184"), ("nausea", "T184"), ("vomiting", "T184"), ("head and neck", "T023"), ("head", "T023"), ("neck", "T023")]
    component = written(*((name, tui, "") for name, tui in [*names, ("hand, foot and mouth disease", "T047")]), all_key="sapbert")
    doc = component(component.nlp.make_doc("Nausea and vomiting; head and neck; hand, foot and mouth disease."))
    assert [ent.text for ent in doc.ents] == ["Nausea", "vomiting", "head and neck", "hand, foot and mouth disease"]
    assert "Nausea and vomiting" in [span.text for span in doc.spans["sapbert"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("statin - myalgia", ["statin", "myalgia"]),
        ("statins – myalgia, rash", ["statins", "myalgia"]),
        ("Iron - deficiency anaemia", ["Iron", "deficiency anaemia"]),
        ("statin myalgia and statin-myalgia", ["statin myalgia", "statin-myalgia"]),  # no dash with spaces
        ("knee - pain", ["knee - pain"]),  # no drug
        ("gluten - ataxia", ["gluten - ataxia"]),  # "gluten" is no name
    ],
)
def test_a_drug_and_its_reaction_after_a_dash_are_two_mentions(text: str, expected: list[str]):
    whole = ("statin myalgia", "iron deficiency anaemia", "knee pain", "gluten ataxia")
    others = (
        ("statin", "T121"),
        ("myalgia", "T184"),
        ("iron", "T121"),
        ("deficiency anaemia", "T047"),
        ("knee", "T023"),
        ("pain", "T184"),
        ("ataxia", "T184"),
    )
    component = written(*((name, "T047", "") for name in whole), *((name, tui, "") for name, tui in others))
    assert found(component, text) == expected


@pytest.mark.parametrize(("tui", "expected"), [("T060", ["CT abdomen and pelvis"]), ("T047", ["noncontrast CT"])])
def test_the_much_longer_name_of_a_test_needs_no_word_before_it(tui: str, expected: list[str]):
    component = matcher("noncontrast CT", "CT abdomen and pelvis", tui=tui, label="group")
    assert found(component, "noncontrast CT abdomen and pelvis") == expected
