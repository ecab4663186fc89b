"""The plots: texts and marks and their places, and that several SVGs can be in one page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import List

import numpy as np
import pytest

from training.evaluation.results import CurvePoint, ReliabilityBin, TargetResult
from training.report import figures
from training.report.figures import BLUE, GREEN, GREY, PURPLE, VERMILION, Curve, FigurePair, Picture, SystemRow


def texts(picture: Picture) -> List[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(str(picture.svg)).iter("text")]


def points(picture: Picture, axes: int = 0) -> List[List[float]]:
    """Return x and y of every line or mark in matplotlib."""
    return [[*map(float, line.get_xdata()), *map(float, line.get_ydata())] for line in picture.figure.axes[axes].lines if len(line.get_xdata())]


ROWS = [SystemRow("ours", 91.5, 89.0, 93.5, True), SystemRow("base <b>", 80.0)]


def test_systems_have_a_dot_a_whisker_and_the_published_line() -> None:
    picture = figures.systems("one", "Title", ROWS, "@1, per cent", (92.0, "published: 92.0"))
    assert points(picture) == [[89.0, 93.5, 0.0, 0.0], [91.5, 0.0], [80.0, -1.0]]
    drawn = [[segment[:, 0].tolist() for segment in lines.get_segments()] for lines in picture.figure.axes[0].collections]
    assert [[92.0, 92.0], [92.0, 92.0]] in drawn  # in both rows
    assert {"ours", "91.5 [89.0, 93.5]", "base <b>", "80.0", "published: 92.0 ┐", "@1, per cent"} <= set(texts(picture))
    assert picture.words == (
        "@1, per cent; the axis goes from 75 to 100. ours 91.5 [89.0, 93.5]; base <b> 80.0. Whiskers and brackets: 95% intervals. "
        "Dashed: published: 92.0."
    )


def test_dumbbells_say_which_way_it_went() -> None:
    pairs = [FigurePair("up", 70.0, 75.0, 73.0, 77.0, n=1200), FigurePair("down, with a name that is far too long to stand here", 62.0, 60.0, n=7)]
    picture = figures.dumbbells("two", "Title", pairs, "@1, per cent", "base", "trained")
    assert points(picture)[:4] == [[73.0, 77.0, 0.0, 0.0], [70.0, 75.0, 0.0, 0.0], [70.0, 0.0], [75.0, 0.0]]
    colours = [line.get_color() for line in picture.figure.axes[0].lines if list(line.get_xdata()) in ([70.0, 75.0], [62.0, 60.0])]
    assert colours == [VERMILION, BLUE]
    assert {"up (n = 1,200)", "70.0 → 75.0", "62.0 → 60.0", "base", "trained"} <= set(texts(picture))
    assert [text for text in texts(picture) if text.startswith("down")] == ["down, with a name that is … (n = 7)"]
    assert "higher in 1 of 2 (a row where it is lower is blue), with its 95% interval" in picture.words


@pytest.mark.parametrize(
    ("values", "ends"),
    [([91.0, 99.5], (85.0, 100.0)), ([0.5, 3.0], (0.0, 6.0)), ([50.0], (48.0, 52.0)), ([-4.0, 12.0], (-10.0, 15.0))],
)
def test_the_axis_holds_its_values_and_no_share_beyond_100(values: List[float], ends: tuple[float, float]) -> None:
    picture = figures.systems("three", "Title", [SystemRow(str(value), value) for value in values], "x")
    low, high = picture.figure.axes[0].get_xlim()
    assert low < min(values) <= max(values) < high
    ticks = picture.figure.axes[0].get_xticks()
    assert (ticks[0], ticks[-1]) == ends


def test_reliability_draws_each_full_bin_and_how_many_it_holds() -> None:
    bins = [
        ReliabilityBin(low=0.0, high=0.5, n=10, confidence=0.3, accuracy=0.4),
        ReliabilityBin(low=0.5, high=0.9, n=0),
        ReliabilityBin(low=0.9, high=1.0, n=30, confidence=0.95, accuracy=0.9),
    ]
    picture = figures.reliability("four", "Title", bins, 40, 0.0625)
    assert points(picture) == [[0.0, 1.0, 0.0, 1.0], [0.3, 0.95, 0.4, 0.9]]
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in picture.figure.axes[1].patches]
    assert np.array(bars) == pytest.approx(np.array([(0.0, 0.5, 10), (0.5, 0.4, 0), (0.9, 0.1, 30)]))
    assert {"ECE 0.062", "right (share)", "mentions"} <= set(texts(picture))
    assert picture.words.endswith("Bins: stated 0.30, right 0.40 (10); stated 0.95, right 0.90 (30).")


def test_coverage_in_per_cent_and_only_targets_that_were_met() -> None:
    curve = [CurvePoint(threshold=0.5, precision=0.8, kept=1.0), CurvePoint(threshold=0.9, precision=0.96, kept=0.4)]
    targets = [TargetResult(target_precision=0.99), TargetResult(target_precision=0.95, precision=0.95, kept=0.5)]
    picture = figures.coverage("five", "Title", curve, targets)
    assert points(picture) == [pytest.approx([40.0, 100.0, 96.0, 80.0]), pytest.approx([50.0, 95.0])]
    assert "target 95" in texts(picture)
    assert "target 99" not in texts(picture)
    assert "(per cent; target 95: 95.0 right, 50.0 kept)" in picture.words


def test_names_stand_at_their_places_with_the_number_of_their_concept() -> None:
    places = [(0.0, 0.0), (1.0, 0.0), (10.0, 10.0)]
    picture = figures.map_of_names("six", "Title", places, [0, 0, 2], ["a", "b", "c"], "Drawn by hand.")
    assert points(picture) == [[0.0, 1.0, 0.0, 0.0], [10.0, 10.0]]
    assert [text for text in texts(picture) if text.isdigit()] == ["1", "3"]
    assert picture.words == "3 names of 3 concepts, numbered as in the list below. Drawn by hand."


def test_numbers_of_one_place_do_not_cover_each_other() -> None:
    found = figures._numbers(np.zeros((4, 2)), np.arange(4), 4)
    assert sorted(offset for _, offset in found.values()) == sorted(figures.BESIDE)


def test_similarities_are_shares_of_their_own_pairs() -> None:
    picture = figures.similarities("seven", "Title", [0.0, 0.5, 1.0], [1, 3], [90, 10], "A batch.")
    shares = {tuple(patch.get_data().values.tolist()) for patch in picture.figure.axes[0].patches}
    assert shares == {(25.0, 75.0), (90.0, 10.0)}
    assert {"one concept (4 pairs)", "two concepts (100 pairs)"} <= set(texts(picture))
    assert picture.words == "A batch. Mean cosine: 0.62 of 4 pairs of one concept, 0.30 of 100 pairs of two."


def test_a_course_of_two_lines() -> None:
    picture = figures.course("eight", "Title", [Curve("seen", [0, 10], [50.0, 60.0]), Curve("unseen", [0, 10], [40.0, 39.0])], "@1")
    assert points(picture) == [[0.0, 10.0, 50.0, 60.0], [0.0, 10.0, 40.0, 39.0]]
    assert {"seen", "unseen", "optimiser steps"} <= set(texts(picture))
    assert picture.words == "@1 against optimiser steps 0 to 10: seen from 50 to 60 (best 60); unseen from 40 to 39 (best 40)."
    assert "(best 2)" in figures.course("nine", "Title", [Curve("loss", [0, 1, 2], [5.0, 2.0, 3.0])], "loss").words


def test_svg_for_a_page_is_its_own_and_nothing_elses() -> None:
    svg = str(figures.systems("mine", "A <title> & more", ROWS, "x").svg)
    root = ET.fromstring(svg)
    assert root.tag == "svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "A <title> & more"
    assert not {element.tag for element in root.iter()} & {"style", "metadata", "image", "script"}
    attributes = [(key, value) for element in root.iter() for key, value in element.attrib.items()]
    assert not any(key == "style" or key.startswith("xmlns") for key, _ in attributes)
    assert not any("http" in value or "DejaVu" in value for _, value in attributes)
    ids = {value for key, value in attributes if key == "id"}
    assert ids
    assert all(one.startswith("mine-") for one in ids)
    used = {value[1:] for key, value in attributes if key == "href"} | {value[5:-1] for _, value in attributes if value.startswith("url(#")}
    assert used == ids
    assert "&lt;b&gt;" in svg
    assert {element.attrib["fill"] for element in root.iter("text")} == {"currentColor"}
    assert figures.INK not in svg


def test_the_same_data_give_the_same_svg_and_other_names_other_ids() -> None:
    one, again, other = (str(figures.systems(name, "Title", ROWS, "x").svg) for name in ("a", "a", "b"))
    assert one == again
    assert 'id="a-' in one
    assert 'id="a-' not in other


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("colour", [BLUE, VERMILION, GREEN, PURPLE, GREY])
def test_marks_stand_out_from_a_white_and_from_a_dark_page(colour: str) -> None:
    assert (luminance("#ffffff") + 0.05) / (luminance(colour) + 0.05) >= 3  # WCAG 2.1, 1.4.11
    assert (luminance(colour) + 0.05) / (luminance("#121212") + 0.05) >= 3
