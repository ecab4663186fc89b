"""The text around a mention, by hand."""

from __future__ import annotations

import pytest
import spacy

from spacy_sapbert.doc.around import WINDOW, around_span, text_around
from spacy_sapbert.ranking.pairs import PLACE


def around(text: str, mention: str) -> str:
    start = text.index(mention)
    return text_around(text, start, start + len(mention))


@pytest.mark.parametrize(
    ("text", "mention", "expected"),
    [
        ("He has a COLD since Monday.", "COLD", "he has a [MASK] since monday."),
        ("fever", "fever", "[MASK]"),
        ("PMH:\n\nHas a cold,\nno  fever.\n \nMeds: none", "cold", "has a [MASK] ,\nno fever.".replace("\n", " ")),
        ("x" * 200 + "fever" + "y" * 200, "fever", "[MASK]"),  # no whole word
    ],
)
def test_whole_words_of_the_paragraph(text: str, mention: str, expected: str) -> None:
    assert around(text, mention) == expected


def test_the_window_ends_at_a_word() -> None:
    """80 characters hold eight words of nine letters with their spaces. With a bracket at the mention, the eighth word would be cut."""
    words = " ".join(["abcdefghi"] * 100)
    assert WINDOW == 80
    assert around(f"{words} pain {words}", "pain").split() == ["abcdefghi"] * 8 + [PLACE] + ["abcdefghi"] * 8
    assert around(f"{words} (pain) {words}", "pain").split() == ["abcdefghi"] * 7 + ["(", PLACE, ")"] + ["abcdefghi"] * 7


def test_the_window_never_cuts_a_word() -> None:
    text = " ".join(f"w{number}" for number in range(1000))
    words = set(text.split())
    for number in range(0, 1000, 37):
        found = around(text, f"w{number} " if number < 999 else f"w{number}").split()
        assert set(found) - {PLACE} <= words


def test_a_special_token_of_the_text_is_plain_text() -> None:
    """The tokenizer's own tokens are in capitals; the text is in lower case."""
    assert around("a [SEP] b [MASK] fever", "fever") == "a [sep] b [mask] [MASK]"


def test_a_span() -> None:
    doc = spacy.blank("en")("No fever today.")
    assert around_span(doc[1:2]) == "no [MASK] today."


def test_every_span_has_the_text_that_the_whole_note_gives() -> None:
    """Also at the edges, in white space, beside long words, and for empty spans."""
    text = " Fever,  chills\n\n" + "x" * 90 + " pain\n" + " ".join(f"w{number}" for number in range(60)) + " \n \nend" + " " * 90 + "."
    doc = spacy.blank("en")(text)
    spans = [doc[at : min(at + size, len(doc))] for at in range(len(doc) + 1) for size in (0, 1, 3)]
    assert [around_span(span) for span in spans] == [text_around(text, span.start_char, span.end_char) for span in spans]


def test_the_text_of_the_whole_doc_is_not_made_for_each_span(monkeypatch: pytest.MonkeyPatch) -> None:
    doc = spacy.blank("en")("No fever today. " * 1000)
    read: list[int] = []
    monkeypatch.setattr("spacy_sapbert.doc.around.text_around", lambda text, start, end: str(read.append(len(text))))
    around_span(doc[2001:2002])
    assert len(read) == 1
    assert 2 * WINDOW < read[0] < 2 * WINDOW + 40
