"""Numbers and units as notes write them."""

from __future__ import annotations

from ..kb.concept import lower_in_place


def read_number(text: str) -> int | float:
    """Return a number of a note: 1200 for "1,200", 0.5 for ".5"."""
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def lower_units(text: str) -> str:
    """Return a text in lower case, with "u" for the micro sign and the letter mu, and with as many characters as before."""
    return lower_in_place(text.replace("µ", "u").replace("μ", "u"))
