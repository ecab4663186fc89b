"""Contrast of the pages, computed from the style sheet: 4.5:1 for text and 3:1 for marks, in light and dark."""

from __future__ import annotations

import colorsys
import re
from pathlib import Path

import pytest

from spacy_sapbert.render import GROUPS

CSS = (Path(__file__).parents[1] / "spacy_sapbert" / "render" / "templates" / "page.css").read_text(encoding="utf-8")
ROOTS = re.findall(r":root\{([^}]*)\}", CSS)
HUES = [(float(hue), None) for _, hue in GROUPS.values()] + [(220.0, 9.0)]  # "other" is grey

Rgb = tuple[float, float, float]


def variables(theme: str) -> dict[str, str]:
    """Return the variables of a theme; those of the dark theme override those of the light one."""
    light, dark = (dict(re.findall(r"--([\w-]+):([^;]+)", root)) for root in ROOTS[:2])
    return light | dark if theme == "dark" else light


def rgb(colour: str) -> Rgb:
    digits = colour.lstrip("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def hsl(hue: float, saturation: str | float, lightness: str) -> Rgb:
    share = float(str(saturation).rstrip("%")) / 100
    return colorsys.hls_to_rgb(hue / 360, float(lightness.rstrip("%")) / 100, share)


def luminance(colour: Rgb) -> float:
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast by WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(top: Rgb, below: Rgb, share: float) -> Rgb:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(top, below))
    return red, green, blue


def test_contrast_by_hand() -> None:
    assert contrast(rgb("#000"), rgb("#fff")) == pytest.approx(21)
    assert contrast(rgb("#777"), rgb("#ffffff")) == pytest.approx(4.48, abs=0.01)  # a known pair
    assert hsl(0, "100%", "50%") == (1, 0, 0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text(theme: str) -> None:
    found = variables(theme)
    for text in ("ink", "soft", "link", "bad"):
        for ground in ("paper", "back"):
            assert contrast(rgb(found[text]), rgb(found[ground])) >= 4.5, (text, ground)
    for text in ("ink", "soft"):  # a chosen note in the list, a button under the pointer
        assert contrast(rgb(found[text]), rgb(found["rule"])) >= 4.5, text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_mentions_of_every_kind(theme: str) -> None:
    found = variables(theme)
    for hue, own in HUES:
        fill = hsl(hue, own if own is not None else found["bg-s"], found["bg-l"])
        line = hsl(hue, own if own is not None else found["ln-s"], found["ln-l"])
        assert contrast(rgb(found["ink"]), fill) >= 4.5, hue
        assert contrast(rgb(found["ink"]), over(line, fill, float(found["hatch"]))) >= 4.5, f"text on a hatched mention of hue {hue}"
        assert contrast(line, rgb(found["paper"])) >= 3.0, f"the line below a mention of hue {hue}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_edges_of_fields(theme: str) -> None:
    found = variables(theme)
    for ground in ("paper", "back"):
        assert contrast(rgb(found["edge"]), rgb(found[ground])) >= 3.0
