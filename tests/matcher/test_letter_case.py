"""In which letter case a text must write a name."""

from __future__ import annotations

import pytest
from name_matchers import found, matcher, written

from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.kb.writing import CAPITALS, NOT_LOWER, POSSESSIVE
from spacy_sapbert.matcher.letter_case import IN_PLURAL, WITH_HINT, WITH_VALUE, is_written_so, required_case


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("ABLA", "ABLA and abla, ABLAs", ["ABLA", "ABLAs"]),  # an acronym is found only as its source writes it
        ("COPD", "copd, Copd, cOPD, cOpd and copds", ["copd", "Copd", "cOPD", "copds"]),  # but in small letters if these are no word
        ("INCL", "Risks incl bleeding, Incl pain; INCL", ["INCL"]),  # the beginning of "including" is no acronym in small letters
        ("CHILD", "The child has CHILD, a syndrome.", []),  # a plain English word, and not a clinical abbreviation
        ("SCAN", "A SCAN was seen; SCAN HEAD WITHOUT CONTRAST\nTHE SCAN WAS READ TODAY AT NOON", []),
        ("QX", "QX was seen", []),  # two letters that are not a clinical abbreviation
        ("MI", "acute MI, mi", ["MI"]),
        ("Pap", "Pap smear, pap", ["Pap"]),  # a symbol
        ("mm", "4 mm nodule, 3.5mm, 4-mm and mm alone", ["mm"]),  # a unit after a number
        ("nodule", "Nodules and NODULE", ["Nodules", "NODULE"]),
        ("GAVE", "She gave consent.", []),
        ("rich", "A rich history", []),
    ],
)
def test_single_words_by_how_their_source_writes_them(name: str, text: str, expected: list[str]):
    assert found(written((name, "T047", ""), ("cleft palate", "T047", "")), text) == expected


def test_a_source_that_writes_it_small_allows_it_small():
    assert found(written(("AFIB", "T047", "afib")), "afib and AFIB") == ["afib", "AFIB"]


def test_a_capital_s_at_the_end_of_an_acronym_is_no_plural():
    component = written(("CRMS", "T047", ""), ("DVTs", "T047", ""), ("ARDS", "T047", ""))
    assert found(component, "CRM clear, CRM 2 mm, CRMS, CRMs, DVT, DVTS and ARDS") == ["CRMS", "CRMs", "DVT", "DVTS", "ARDS"]
    component = written(("MDPS", "T047", ""), ("MDP", "T121", ""))  # of two names with the same form, both are found
    assert found(component, "MDP scan, MDPS") == ["MDP", "MDPS"]
    assert found(written(("AAAS", "T047", "")), "AAA repair") == ["AAA"]  # an abbreviation whose meanings are known
    component = written(("SBPS", "T047", "sbps"))  # a source writes it small
    assert found(component, "SBP, SBPS") == ["SBP", "SBPS"]


def test_the_person_who_speaks_is_no_part_of_a_name():
    component = written(("I STOP", "T058", ""), ("I-cell disease", "T047", ""), ("type I diabetes", "T047", ""))
    assert found(component, "Should I stop it? i-cell disease, type I diabetes, type i diabetes") == ["i-cell disease", "type I diabetes"]


def test_a_plain_word_is_no_mention_though_its_plural_is_a_name():
    component = written(("palps", "T184", ""), ("cx", "T059", ""), ("urine cx", "T059", ""))
    assert found(component, "Palps. On palp: soft. Cx sent, urine cx") == ["Palps", "urine cx"]
    assert found(matcher("palp"), "On palp: soft") == ["palp"]  # a name that a user added has no texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hb 98 g/L", ["Hb"]),
        ("Hb: 98", ["Hb"]),
        ("Hb is <98", ["Hb"]),
        ("Weight of 71 kg", ["Weight"]),
        ("Hb was normal", []),
        ("hb 98", []),  # no source writes it in lower case
        ("a weight on her mind", []),
        ("Mg 0.6", ["Mg"]),
        ("Mg was low", []),
        ("K 5.9, k 5.9", ["K"]),
        ("K: 5.9", ["K"]),
        ("K+ 5.9", ["K"]),
        ("K was low", []),
        ("Mr K. sat", []),
    ],
)
def test_short_symbols_and_plain_words_of_tests_are_found_before_a_value(text: str, expected: list[str]):
    assert found(written(("Hb", "T059", ""), ("weight", "T201", ""), ("Mg", "T196", ""), ("K", "T059", "")), text) == expected
    assert found(written(("Hb", "T047", ""), ("weight", "T047", ""), ("gout", "T047", ""), ("K", "T047", "")), text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Addison's, hx of Addison’s", ["Addison's", "Addison’s"]),
        ("Addison was seen; addison's", []),  # a person, or no name of a person
        ("Dr. Addison's note, Mr Addison's son", []),
        ("has Graves' and Crohn's", ["Graves'", "Crohn's"]),
        ("Graves, graves", []),
        ("Crohn, crohns", ["Crohn", "crohns"]),  # a source also has it without the possessive
    ],
)
def test_a_name_that_is_always_in_the_possessive_is_found_in_that_form_only(text: str, expected: list[str]):
    component = written(("Addison's", "T047", ""), ("Graves'", "T047", ""), ("Crohn's", "T047", ""), ("Crohn", "T047", ""))
    assert found(component, text) == expected


@pytest.mark.parametrize(("text", "expected"), [("IT band pain", ["IT band"]), ("her family, HER family", ["HER family"]), ("put it band on", [])])
def test_a_stop_word_in_capitals_counts_in_capitals_only(text: str, expected: list[str]):
    assert found(written(("IT band", "T023", ""), ("HER family", "T116", "")), text) == expected


def test_two_capitals_with_an_ampersand_are_a_name_in_capitals_only():
    component = written(("D&C", "T061", "D and C"), ("T&A", "T061", ""), ("U&Es", "T059", ""))
    assert found(component, "D&C, D & C, T&A, U&Es; d&c, t & a, D C, vitamin D and C") == ["D&C", "D & C", "T&A", "U&Es"]


@pytest.mark.parametrize(
    ("text", "expected"), [("pRBC, 2 units of pRBCs, PRBC", ["pRBC", "pRBCs", "PRBC"]), ("prbc, Prbc, pRbc, packRBC", ["prbc", "Prbc"])]
)
def test_small_letters_before_an_acronym(text: str, expected: list[str]):
    assert found(written(("PRBC", "T121", "")), text) == expected


def test_a_word_in_capitals_before_a_value_is_no_unit():
    component = written(("HR", "T201", ""), ("mg", "T196", ""))
    assert found(component, "T 36.4  HR 134, seen for 2 HR today") == ["HR"]


def test_a_length_in_feet_is_no_foot():
    component = written(("feet", "T023", ""))
    assert found(component, "Height 5 feet 6 inches, swollen feet") == ["feet"]


def name(*texts: str, tui: str = "T047") -> MatchableName:
    return MatchableName(texts[0].lower(), tui, (tui,), texts)


@pytest.mark.parametrize(
    ("given", "words", "expected"),
    [
        (name("COPD"), ["copd"], CAPITALS),
        (name("COPD", "copd"), ["copd"], ""),
        (name("Pap"), ["pap"], NOT_LOWER),
        (name("Graves'"), ["graves"], POSSESSIVE),
        (name("nodule"), ["nodule"], ""),
        (name("QX"), ["qx"], None),  # two letters that are no clinical abbreviation
        (name("QX", tui="T059"), ["qx"], CAPITALS + WITH_VALUE),  # a test
        (name("weight"), ["weight"], None),  # a plain word
        (name("weight", tui="T201"), ["weight"], WITH_VALUE),
        (name("K", tui="T059"), ["k"], CAPITALS + WITH_VALUE),
        (name("palps"), ["palps"], IN_PLURAL),
        (name("D&C"), ["d", "&", "c"], CAPITALS),
        (name("IT band"), ["it", "band"], CAPITALS),
        (name("knee band"), ["knee", "band"], ""),
        (MatchableName("QX", "T047"), ["qx"], ""),  # a user added it
    ],
)
def test_the_case_in_which_a_text_must_write_a_name(given: MatchableName, words: list[str], expected: str | None) -> None:
    assert required_case(given, words, "en", frozenset(["it"])) == expected


def test_a_name_that_needs_words_around_it() -> None:
    assert required_case(name("AIR"), ["air"], "en", frozenset(), short_form=True) == CAPITALS + WITH_HINT  # a plain word
    assert required_case(name("levo"), ["levo"], "en", frozenset(), hinted=True, short_form=True) == WITH_HINT
    assert required_case(name("COPD"), ["copd"], "en", frozenset(), short_form=True) == CAPITALS  # a clinical abbreviation


@pytest.mark.parametrize(
    ("text", "required", "expected"),
    [
        ("COPD", CAPITALS, True),
        ("abla", CAPITALS, False),
        ("copd", CAPITALS, True),
        ("SCAN", CAPITALS, False),  # an ordinary word in a line of capitals
        ("Hb 98", NOT_LOWER + WITH_VALUE, True),
        ("Hb low", NOT_LOWER + WITH_VALUE, False),
        ("hb 98", NOT_LOWER + WITH_VALUE, False),
        ("palps", IN_PLURAL, True),
        ("palp", IN_PLURAL, False),
    ],
)
def test_a_word_that_is_written_as_it_must_be(text: str, required: str, expected: bool) -> None:
    line = f"THE {text} WAS READ" if text == "SCAN" else f"the {text} was read"
    assert is_written_so(line, 4, 4 + len(text.split()[0]), required) is expected


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ([("retrogrades", "T060", "")], "retrograde filling, Retrogrades, retrogrades", ["Retrogrades", "retrogrades"]),
        ([("retrogrades", "T060", ""), ("retrograde", "T033", "")], "retrograde", ["retrograde"]),
        ([("retrograde", "T033", ""), ("retrogrades", "T060", "")], "retrograde", ["retrograde"]),
        ([("urinalyses", "T059", ""), ("ovals", "T047", "")], "oval", ["oval"]),  # only tests and procedures
        ([("Murphy's", "T033", ""), ("Murphys", "T033", "")], "The Murphy ball, Murphys, Murphy's", ["Murphys", "Murphy's"]),
        ([("Murphys", "T033", ""), ("Murphy's", "T033", ""), ("murphy", "T033", "")], "The Murphy ball", ["Murphy"]),
        ([("Apgars", "T201", "")], "Apgar", ["Apgar"]),  # a person
    ],
)
def test_a_name_that_is_only_a_plural_has_its_s(names: list[tuple[str, str, str]], text: str, expected: list[str]):
    assert found(written(*names), text) == expected
