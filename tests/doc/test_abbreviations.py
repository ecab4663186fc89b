"""Abbreviations that a text defines: which are found, and which are not."""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.doc.abbreviations import definitions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Myotonic dystrophy (DM) is common.", {"DM": "Myotonic dystrophy"}),  # two letters, in reverse order
        ("the disorder ataxia-telangiectasia (A-T), then", {"A-T": "ataxia-telangiectasia"}),
        ("a deficiency of glucose-6-phosphate dehydrogenase (G6PD)", {"G6PD": "glucose-6-phosphate dehydrogenase"}),
        ("a variable number of tandem repeat (VNTR; see below)", {"VNTR": "variable number of tandem repeat"}),
        ("cleft lip/palate (CL/P)", {"CL/P": "cleft lip/palate"}),
        ("history of the degeneration of the cornea (DOC)", {"DOC": "degeneration of the cornea"}),  # a function word needs no letter
        ("Wilson's disease (WD)", {"WD": "Wilson's disease"}),
        ("Huntington disease (HD) and heart disease (HD)", {"HD": "Huntington disease"}),  # the first definition counts
        # from Schwartz and Hearst: letters inside words
        ("five minutes either by hemorrhage (HEM, n = 7)", {"HEM": "hemorrhage"}),
        ("van der Woude syndrome (vWS, MIM 119300) is", {"vWS": "van der Woude syndrome"}),
        ("severe PKU and mild hyperphenylalaninemia [MHP]", {"MHP": "mild hyperphenylalaninemia"}),
        ("results in Lesch-Nyhan syndrome (L-N). L-N", {"L-N": "Lesch-Nyhan syndrome"}),
        ("International Index of Erectile Function (IIEF)", {"IIEF": "International Index of Erectile Function"}),  # initials first
        # plurals
        ("septal defects (VSDs)", {}),
        ("ventricular septal defects (VSDs)", {"VSDs": "ventricular septal defects", "VSD": "ventricular septal defects"}),
        # words after a hyphen
        ("X-linked adrenoleukodystrophy (X-ALD)", {"X-ALD": "X-linked adrenoleukodystrophy", "ALD": "adrenoleukodystrophy"}),
        ("Therapy (ATT)-associated acute liver failure (ATT-ALF)", {"ALF": "acute liver failure"}),
        # several abbreviations in one bracket
        *(
            (f"{joined} muscular dystrophy ({shorts}) were", {"DMD": "Duchenne muscular dystrophy", "BMD": "Becker muscular dystrophy"})
            for joined in ("Duchenne and Becker", "Duchenne or Becker")
            for shorts in ("DMD and BMD", "DMD/BMD", "DMD, BMD")
        ),
        (
            "velo-cardio-facial syndrome/DiGeorge syndrome (VCFS/DGS)",
            {"VCFS": "velo-cardio-facial syndrome", "DGS": "DiGeorge syndrome"},
        ),
        ("Ataxia type-3 or Machado-Joseph disease (MJD/OTHER)", {"MJD": "Machado-Joseph disease"}),
        # the long form in the bracket
        ("tumors in FAP (familial adenomatous polyposis) are", {"FAP": "familial adenomatous polyposis"}),
        ("white fingers (Raynaud's phenomenon, RP) in winter", {"RP": "Raynaud's phenomenon"}),  # both in the brackets
        ("white fingers (in winter, RP)", {}),
        (
            "CAD (coronary artery disease)\nCKD (chronic kidney disease)\n",
            {"CAD": "coronary artery disease", "CKD": "chronic kidney disease"},
        ),
        # the long form begins at a word, whatever is before it
        *((f"{before}hypertension (HTN)", {"HTN": "hypertension"}) for before in ("#", "-", "CAD/", "chills,", "Problem\t", "a\r\n\r\n")),
        ("on trimethoprim-sulfamethoxazole (TMP-SMX)", {"TMP-SMX": "trimethoprim-sulfamethoxazole", "SMX": "sulfamethoxazole"}),
        ("dilation and curettage (D&C)", {"D&C": "dilation and curettage"}),
        ("urinary tract infections (UTI's)", {"UTI's": "urinary tract infections", "UTI": "urinary tract infections"}),
        ("mitral regurgitation (MR), physical therapy (PT)", {"MR": "mitral regurgitation", "PT": "physical therapy"}),
        ("PERSISTENT CONGESTIVE HEART FAILURE (CHF)", {"CHF": "CONGESTIVE HEART FAILURE"}),
        ("HF (heart failure) was seen", {"HF": "heart failure"}),
        ("von Willebrand (vW)", {"vW": "von Willebrand"}),  # half of the letters are capitals
        ("myocardial infarctions (MIs)", dict.fromkeys(("MIs", "MI"), "myocardial infarctions")),
        (
            "acute, chronic and mild pain (AP, CP and MP)",
            {"AP": "acute pain", "CP": "chronic pain", "MP": "mild pain"},
        ),
        ("aorta for native and donor (AND)", {"AND": "aorta for native and donor"}),  # initials, although "and" is one of its words
        ("\u0130\u0130\u0130 hemorrhage (HEM)", {"HEM": "hemorrhage"}),  # the text before it gets longer in lower case
        ("huge haemohemorrhage (HEM)", {"HEM": "haemohemorrhage"}),  # the long form begins at the beginning of the nearest word
        ("haemohemorrhage (HEM)", {"HEM": "haemohemorrhage"}),
        ("the femur (FEM)", {"FEM": "femur"}),  # the long form is two characters longer than the short form
        ("VSDs (ventricular septal defect)", {"VSDs": "ventricular septal defect", "VSD": "ventricular septal defect"}),
        (
            "ventricular septal defect and atrial septal defect (VSDs/ASDs)",
            {
                **dict.fromkeys(("VSDs", "VSD"), "ventricular septal defect"),
                **dict.fromkeys(("ASDs", "ASD"), "atrial septal defect"),
            },
        ),
        (
            "X-linked late adrenoleukodystrophy (X-L-ALD)",
            {"X-L-ALD": "X-linked late adrenoleukodystrophy", "ALD": "adrenoleukodystrophy"},
        ),
    ],
)
def test_found(text: str, expected: Dict[str, str]) -> None:
    assert definitions(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "five minutes by bleeding (HEM)",  # no word has one of the letters
        "the gene for choroideremia (TCD)",
        "the disease gene (PDS)",
        "seen at once (NIH, 1999)",
        # from notes: numbers, routes, places, people, other things in brackets
        "inferior wall ischemia (II, III, aVF)",
        "Neoplasm (NOS)",
        "Prednisone (PO), imipenem (IM), prochlorperazine (PR), oxycodone prescribed (PRN)",
        "Intravenous vancomycin (IV)",
        "Imaging of the chest (CT), cataract (CT), ulcers (US)",
        "Anticoagulated patient (PT/INR 2.3)",
        "abdominal pain (PA), history of asthma (HA), alcohol abuse (AB)",
        "signed by David Miller (MD)",
        "CT (cervical and thoracic) spine",
        "NO LESION SEEN (NONE)",
        "arsenic (As)",
        "Na (138), K (4.1), vitals (BP 120/80), strength (R > L)",
        "The patient was asymptomatic (TPA)",
        "\u0130brahim \u0130n\u00f6n\u00fc ab -- (AB)",  # its lower case has more characters
        "late onset of it (LOX, as was said)",
        "dystrophy of the eye, myotonic (EDM)",  # three letters in another order
        "This was myotonic. Dystrophy (MD)",  # a long form does not cross the end of a sentence
        "(seen before) dystrophy (SD)",
        "renal failure (grade 2)",
        "renal failure (see)",  # no capitals
        "failure (F)",
        "(AB)",
        "",
        "a very long bracket (ABCDEFGHIJKLMNOPQ)",
        "HEM (hemorrhage) was seen",  # a single word in the bracket
        "heart failure (X1/HF)",  # of several in brackets, only the first is read
        "von Willebrand disease (vWd)",  # less than half of the letters are capitals
        "disease of heart (HD)",  # two letters in reverse order must not skip a function word
        "ahemorrhage (HEM)",  # the long form does not begin at the beginning of a word
        "hemorrhage of a leg (HEM)",  # the last letter is not in the last word
        "the hem dam (HEM)",  # the short form is one of the words
        "the hemo (HEM)",  # the long form is only one character longer than the short form
    ],
)
def test_left_alone(text: str) -> None:
    assert definitions(text) == {}


def test_plurals_are_read_in_english_only() -> None:
    text = "ventricular septal defects (VSDs)"
    assert definitions(text) == dict.fromkeys(("VSDs", "VSD"), "ventricular septal defects")
    assert definitions(text, english=False) == {"VSDs": "ventricular septal defects"}


def test_a_tail_with_a_digit_is_none() -> None:
    assert definitions("programmed death ligand 1 (PD-L1)") == {"PD-L1": "programmed death ligand 1"}


@pytest.mark.parametrize(("short", "last", "most"), [("HEM", "gem", 6), ("HEMK", "gemk", 8), ("HEMKIP", "gemkip", 11), ("HEMKIPLU", "gemkiplu", 13)])
def test_a_long_form_has_no_more_words_than_schwartz_and_hearst_allow(short: str, last: str, most: int) -> None:
    """At most min(|A| + 5, 2 |A|) words: 2 * 3, 2 * 4, 6 + 5, 8 + 5. The long form begins with the first letter; its last word has the others."""
    longest = " ".join(["hala", *["bada"] * (most - 2), last])
    assert definitions(f"{longest} ({short})") == {short: longest}
    assert definitions(f"{longest.replace('bada', 'bada bada', 1)} ({short})") == {}


def test_two_letters_with_a_hyphen_have_four_words_at_most() -> None:
    assert definitions("hala bada bada gem (H-M)") == {"H-M": "hala bada bada gem"}
    assert definitions("hala bada bada bada gem (H-M)") == {}


PLAIN = st.lists(
    st.sampled_from(
        ["heart", "failure", "of", "the", "left", "Ventricle", "and", "atrial", "fibrillation", "mild,type-2", "acute.", "disease;", "lung's", "é"]
    ),
    max_size=8,
)
SHORTS = st.sampled_from(["HF", "AF", "LVF", "MAD", "VSDs", "HF/AF", "HF, AF", "X-ALD", "D&C", "hFL", "see below", "AF (LVF"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(PLAIN, SHORTS), max_size=4), PLAIN, st.booleans())
def test_every_long_form_stands_in_the_text(parts: List[Tuple[List[str], str]], end: List[str], english: bool) -> None:
    text = " ".join([*(f"{' '.join(before)} ({short})" for before, short in parts), *end])
    several = {each.strip() for _, given in parts for each in re.split("[/,&]", given) if len(re.split("[/,&]", given)) > 1}
    for short, long in definitions(text, english=english).items():
        if short in several:  # "renal and heart failure (RF/HF)": the long form of RF is made of words that stand apart
            rest = iter(text.split())
            assert all(word in rest for word in long.split())
        else:
            assert long in text
        assert long == long.strip() != ""
        assert short in text
        assert short not in long.split()
