"""How definitions are cleaned: own names, marks of editors, lengths."""

from __future__ import annotations

import pytest

from training.data.wording import MAX_CHARS, Judged, OwnNames, first_sentences, judge, tidy


def said(text: str, *names: str) -> str:
    return judge(text, OwnNames(names)).text


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("Gout is a disease of joints.", ["gout"], "It is a disease of joints."),
        ("A gout is a disease of joints. The Gout hurts.", ["Gout"], "It is a disease of joints. It hurts."),
        ("A disease like gout, in joints.", ["gout"], "A disease like it, in joints."),
        ("Crohn’s  disease inflames the bowel.", ["Crohn's disease"], "It inflames the bowel."),
        ("Kearns–Sayre syndrome weakens the eyes.", ["Kearns-Sayre syndrome"], "It weakens the eyes."),
        ("Seizures are bursts of activity.", ["seizure"], "It are bursts of activity."),
        ("A seizure's cause is in the brain.", ["seizure"], "Its cause is in the brain."),
        ("Lung cancer (LC) grows in the lung.", ["lung cancer", "LC"], "It grows in the lung."),
        ("Cockayne (CS) syndrome stunts growth much.", ["Cockayne syndrome", "CS"], "It stunts growth much."),
        ("Gout, podagra or urate arthritis hurts the joints.", ["gout", "podagra", "urate arthritis"], "It hurts the joints."),
        ("Gout, also known as podagra, hurts the joints.", ["gout", "podagra"], "It hurts the joints."),
        ("A lung cancer of small cells kills fast.", ["cancer", "lung cancer"], "It of small cells kills fast."),  # the longest first
        ("Gouty joints swell and hurt.", ["gout"], "Gouty joints swell and hurt."),  # whole words only
        ("A go\u00adut like no other\u200b one.", ["gout"], "It like no other one."),  # soft hyphen, zero-width space
    ],
)
def test_own_names_become_it(text: str, names: list, expected: str) -> None:
    assert said(text, *names) == expected


def test_an_abbreviation_that_is_a_word() -> None:
    own = OwnNames(["multiple endocrine neoplasia", "MEN", "ALL"])
    assert judge("All men and women may have tumours.", own) == Judged("All men and women may have tumours.")
    assert judge("MEN gives tumours of glands.", own) == Judged("It gives tumours of glands.", renamed=True)
    assert own.within("what MENs are")
    assert not own.within("GALLs and OMEN")
    assert OwnNames(["MEN", "Men"]).within("for men")  # the concept also has it as an ordinary word
    assert OwnNames(["LONGER"]).within("no longer")  # a word of six letters is not an abbreviation
    assert not OwnNames(["T"]).within("a T cell")


@pytest.mark.parametrize(
    ("text", "names", "why"),
    [
        ("", ["a"], "empty"),
        (" . ", ["a"], "empty"),
        ("&nbsp;<p></p>", ["a"], "empty"),
        ("Joint  PAIN.", ["joint pain"], "equal_to_a_name"),
        ("Other name", ["a"], "equal_to_a_name"),
        ("Verruca vulgaris", ["wart"], "too_short"),
        ("An abnormality of the eye.", ["abnormality of the eye"], "only_its_names"),
        ("Any congenital form of gout.", ["gout", "congenital form of gout"], "only_its_names"),
        ("word " * 300, ["a"], "enormous"),
    ],
)
def test_what_is_left_out(text: str, names: list, why: str) -> None:
    assert judge(text, OwnNames(names), is_name=lambda found: found == "Other name") == Judged("", why)


def test_two_words_that_are_long_are_no_name() -> None:
    assert judge("Hypercholesterolaemia hypercalcaemia", OwnNames(["x"])).why == ""


def test_an_enormous_definition_is_cut_at_the_end_of_a_sentence() -> None:
    first = "The first sentence, e.g. Of this kind, has 3.5 mm (see p. 2)."
    judged = judge(f"{first} {'x' * MAX_CHARS}. More.", OwnNames(["a b"]))
    assert judged == Judged(first, cut=True)
    exact = "y" * (MAX_CHARS - 1) + "."
    assert judge(exact + " z", OwnNames(["a b"])) == Judged(exact, cut=True)
    assert judge(exact, OwnNames(["a b"])) == Judged(exact)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One. Two. Three.", 9, "One. Two."),
        ("One. Two. Three.", 8, "One."),
        ("One. Two. Three.", 3, ""),
        ('He said "no." Then went.', 14, 'He said "no."'),
        ("About 3.5 of them et al. went. On.", 30, "About 3.5 of them et al. went."),
        ("See e.g. Gout.", 10, ""),
    ],
)
def test_first_sentences(text: str, limit: int, expected: str) -> None:
    assert first_sentences(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>Fever &amp; rash, p < 0.05 and N > 3.</p>", "Fever & rash, p < 0.05 and N > 3."),
        ("A bone of it [Automatically generated definition].", "A bone of it."),
        ("A bone [WP,unvetted]. In [Kardong] fish.", "A bone. In fish."),
        ("A gland [of the neck] (see this term); DLBCL (x; see this term).", "A gland [of the neck]; DLBCL (x)."),
        ("two\u00a0 \t words", "two words"),
    ],
)
def test_tidy(text: str, expected: str) -> None:
    assert tidy(text) == expected
