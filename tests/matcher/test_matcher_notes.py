"""What short notes write in signs and small letters: fractures with "#", short lists, acronyms, eponyms without an apostrophe."""

from __future__ import annotations

import time

import pytest
from name_matchers import found, written

from spacy_sapbert.kb.no_words import is_no_word
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.hash_fractures import hash_fractures
from spacy_sapbert.matcher.letter_pairs import letter_pairs
from spacy_sapbert.matcher.short_lists import short_lists


def linked(component: ConceptMatcher, text: str) -> list[tuple[str, str | None]]:
    return [(ent.text, ent._.corrected_text) for ent in component(component.nlp.make_doc(text)).ents]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# L distal radius, # R hip", [("# L distal radius", "distal radius fracture"), ("# R hip", "hip fracture")]),
        ("#hip post fall", [("#hip", "hip fracture")]),
        ("# pubic ramus L (CT), no NOF#.", [("# pubic ramus", "pubic ramus fracture"), ("NOF#", "NOF fracture")]),
        ("old T12 wedge #.", [("wedge #", "wedge fracture")]),
        ("# neck of femur seen", [("# neck of femur", "fracture of neck of femur")]),
        ("# Left hip pain\n# hip replacement\n#1 hip\n# Hip: stable", []),  # problems of a list
        ("# Hip and neck pain\n# Hip, swollen since Monday\n# Hip", []),
        ("hip # 4, hip #7", []),  # a number
        ("# R hip\nold # hip", [("# R hip", "hip fracture"), ("# hip", "hip fracture")]),
        ("##hip, room #4, #", []),
    ],
)
def test_the_sign_of_a_fracture(text: str, expected: list[tuple[str, str]]) -> None:
    names = ("distal radius fracture", "hip fracture", "pubic ramus fracture", "NOF fracture", "wedge fracture", "fracture of neck of femur")
    assert linked(written(*((name, "T037", "") for name in names)), text) == expected


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("replace K + Mg.", [("K", "potassium"), ("Mg", "magnesium")]),
        ("Replete PO4, Ca and K", [("PO4", "phosphate"), ("Ca", "calcium"), ("K", "potassium")]),
        ("Replacing IV Mg", []),  # capitals stand before it
        ("Replace Kwire, replace valve, K + Mg, correct Name", []),
        ("Urine dip bld 3+ prot 3+.", [("bld 3+", "hematuria"), ("prot 3+", "proteinuria")]),
        ("UA: ket ++, gluc neg, blood: 1+", [("ket ++", "ketonuria"), ("blood: 1+", "hematuria")]),
        ("Dip neg. blood 3+", []),  # another sentence
        ("blood 3+, prot 2+", []),  # of what?
    ],
)
def test_items_of_short_lists(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in short_lists(text)] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("FBC/U+E D1, LFT/U+Es", [("U+E", "urea and electrolytes"), ("U+Es", "urea and electrolytes")]),
        ("E/e' 14, Echo: E/e’ 9, E/e 12", [("E/e'", "E/e' ratio"), ("E/e’", "E/e' ratio"), ("E/e", "E/e' ratio")]),
        ("Incisions c/d/i. C/D/I", [("c/d/i", "clean incision"), ("C/D/I", "clean incision")]),
        ("FU/U+E, IE/e 14, E/e wave, a/c/d/i, c/d/i/x", []),
    ],
)
def test_letters_with_signs(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(text[one.start : one.end], one.name) for one in letter_pairs(text)] == wanted


def test_lists_of_letters_for_the_abdomen_and_the_lungs() -> None:
    names = ("rebound tenderness", "abdominal guarding", "rales", "rhonchi", "wheezing")
    component = written(*((name, "T184", "") for name in names))
    rebound = [("r", "rebound tenderness"), ("g", "abdominal guarding")]
    assert linked(component, "soft, no r/g.") == rebound
    assert linked(component, "no r/r/w") == [("r", "rales"), ("r", "rhonchi"), ("w", "wheezing")]
    assert linked(component, "no w/r/r") == [("w", "wheezing"), ("r", "rales"), ("r", "rhonchi")]
    assert linked(component, "no R/G, r/w, w/r") == []


@pytest.mark.parametrize("text", ["# L " * 3000, "replace K + " * 2000, "urine dip " * 3000, "hip " * 3000 + "#", "dip blood " * 3000])
def test_long_notes_take_little_time(text: str) -> None:
    started = time.perf_counter()
    list(hash_fractures(text))
    list(short_lists(text))
    assert time.perf_counter() - started < 1


def test_letters_that_are_no_word() -> None:
    assert all(map(is_no_word, ["copd", "nstemi", "tsat", "mrsa", "adhd", "cabg", "lfts", "hctz"]))
    words = ["clad", "hints", "chaos", "against", "eighth", "infarct", "lymph", "depths", "doubt", "strength", "pad", "pt", "cbc", "sp02"]
    assert not any(map(is_no_word, words))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("SIRS", "Meets SIRS. The SIR said, sirs", ["SIRS"]),  # its singular is a plain word
        ("PAD", "Pt has PAD; a Pad, a pad", ["PAD"]),
        ("CHILD", "has CHILD", []),
        ("ACEI", "on ACEi, ACEI, Acei and acei", ["ACEi", "ACEI"]),
        ("B-ALL", "B-ALL, b-all, ALL B", ["B-ALL"]),
        ("burning when I pee", "burning when i pee, burning when I pee", ["burning when i pee", "burning when I pee"]),
        ("type I", "type I, type i", ["type I"]),
    ],
)
def test_how_notes_write_acronyms(name: str, text: str, expected: list[str]) -> None:
    assert found(written((name, "T047", ""), ("cleft palate", "T047", "")), text) == expected


def test_a_hormone_of_two_letters_before_a_value() -> None:
    assert found(written(("LH", "T125", "")), "LH 12, FSH; LH and lh 5") == ["LH"]
    assert found(written(("QX", "T121", ""), ("cleft palate", "T047", "")), "QX 12") == []


def test_a_plural_in_small_letters_beside_an_acronym() -> None:
    component = written(
        ("PON", "T023", ""),
        ("pons", "T023", ""),
        ("APGAR", "T201", ""),
        ("Apgars", "T201", ""),
        ("CTX", "T047", ""),
        ("NAD", "T047", ""),
        ("NaDS", "T047", ""),
    )
    assert found(component, "pons, pon, PON, Apgars 9, apgar, APGAR, nads, NAD") == ["pons", "PON", "Apgars", "APGAR", "NAD"]


def test_an_acronym_counts_rather_than_one_that_is_its_plural() -> None:
    component = written(("ACTS", "T121", ""), ("ACT", "T059", ""))
    assert found(component, "ACT 250, ACT was low, ACTS") == ["ACT"]  # a test before a value


def test_eponyms_without_their_apostrophe() -> None:
    component = written(("Hashimoto's", "T047", ""), ("Graves'", "T047", ""))
    expected = [("Hashimotos", "Hashimoto's"), ("Hashimoto's", None)]
    assert linked(component, "Hashimotos, Hashimoto's, hashimotos, Hashimoto, Mr Hashimotos, Graves") == expected


def test_contractions_without_their_apostrophe() -> None:
    component = written(("can't sleep", "T184", ""))
    assert linked(component, "i cant sleep and can't sleep") == [("cant sleep", "can't sleep"), ("can't sleep", None)]
    assert linked(component, "cant. sleep") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Liver + peritoneal mets.", [("Liver", "Liver mets"), ("peritoneal mets", None)]),
        ("liver > peritoneal mets", [("liver", "liver mets"), ("peritoneal mets", None)]),
        ("lung, liver + peritoneal mets", [("liver", "liver mets"), ("peritoneal mets", None)]),
        ("liver. + peritoneal mets", [("liver", None), ("peritoneal mets", None)]),
        ("liver 3 + 4 peritoneal mets", [("liver", None), ("peritoneal mets", None)]),
    ],
)
def test_signs_join_items_before_a_head(text: str, expected: list[tuple[str, str | None]]) -> None:
    component = written(("liver", "T023", ""), ("liver mets", "T191", ""), ("peritoneal mets", "T191", ""), all_key="all")
    assert linked(component, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She has lupus nephritis.", ["lupus nephritis"]),
        ("She has lupus.", ["has lupus"]),
        ("Atypical cells on pap smear.", ["pap smear"]),
        ("He is on pap at night", ["on pap"]),
        ("He has lupus and nephritis", ["has lupus"]),
    ],
)
def test_a_name_that_begins_with_a_verb_gives_way(text: str, expected: list[str]) -> None:
    component = written(*((name, "T047", "") for name in ("has lupus", "lupus nephritis", "on pap", "pap smear")))
    assert found(component, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lost 4 kg, tired.", ["lost 4 kg"]),
        ("has lost about 10 lbs over 2 months; losing 1-2 pounds", ["lost about 10 lbs", "losing 1-2 pounds"]),
        ("lost 4 L, lost 2 kg of fluid, lost 4 keys, gained 4 kg", []),
        ("If mets on CT, no mets", ["mets", "mets"]),
        ("4 mets, >4 mets, mets >4, met him", []),
        ("Exercise capacity over four mets. Several mets of work, good mets. Exercise fine. Lung mets", ["mets"]),
        ("Adm w fall + ?UTI", ["fall"]),
        ("Seen with covid and fall, w/ fall, post fall", ["fall", "fall", "fall"]),
        ("rise and fall, rest and fall of BP", []),
    ],
)
def test_findings_in_short_words(text: str, expected: list[str]) -> None:
    assert found(written(*((name, "T033", "") for name in ("weight loss", "metastases", "accidental fall"))), text) == expected
