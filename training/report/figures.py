"""Draw figures with matplotlib as inline SVG, in which text is kept as text.

They are readable on a phone, on paper, and on a light and a dark page. This module reads and writes no files. Every picture also has a description
in words, from the same numbers as its marks.
"""

from __future__ import annotations

import io
import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Okabe and Ito's colours (2008), which colour-blind readers can distinguish; those of them that have contrast to a white and to a dark page
BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#767676"
INK = "#000000"  # replaced by the page's text colour
SHAPES = ("o", "s", "^")
BESIDE = ((4, 3), (4, -10), (-11, 3), (-11, -10))  # possible offsets of a number from its mark, in points
WIDTH = 3.5  # inches, the width of a phone, so that text there is as large as that of the page; a wide screen enlarges it
STYLE: Any = {  # matplotlib's type lists every key
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib and is wider than the fonts of browsers, so that no text is cut there
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
}
LABEL = 38  # characters of the label above a row of marks; next to it is space for a figure of ten more


class Picture(NamedTuple):
    """A figure with its title and its content in words.

    Attributes:
        name: Unique on a page; letters, digits and hyphens.
        title: A short title.
        words: What the figure shows, for readers who cannot see it.
        figure: The matplotlib figure.
    """

    name: str
    title: str
    words: str
    figure: Figure

    @property
    def svg(self) -> Markup:
        """Return the figure as an <svg> element for an HTML page; see `inline`."""
        file = io.StringIO()
        with rc_context({**STYLE, "svg.hashsalt": self.name}):
            self.figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        return inline(file.getvalue(), self.name, self.title)


class SystemRow(NamedTuple):
    """A row of `systems`.

    Attributes:
        label: Name of the system.
        value: Its figure, in per cent.
        low: Lower end of the 95% interval, in per cent; None without an interval.
        high: Upper end of the interval.
        mine: Whether the page is about this system.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    mine: bool = False


class FigurePair(NamedTuple):
    """A row of `dumbbells`: the figures of two systems.

    Attributes:
        label: What was measured.
        before: Figure of the first system, in per cent.
        after: Figure of the second system, in per cent.
        low: Lower end of the second system's 95% interval; None without an interval.
        high: Upper end of the interval.
        n: Number of queries.
    """

    label: str
    before: float
    after: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


class Curve(NamedTuple):
    """A line of a plot over training steps.

    Attributes:
        label: Name of the line.
        xs: Steps (n,).
        ys: Values (n,).
    """

    label: str
    xs: Sequence[float]
    ys: Sequence[float]


# -- SVG into a page ----------------------------------------------------------------------------------------------------


def inline(svg: str, name: str, title: str) -> Markup:
    """Convert matplotlib's SVG into an element of an HTML page.

    The prologue, metadata and style element are removed, because rules of a style element would apply to the whole page. Style attributes become
    presentation attributes, which the page's rules override. Black becomes currentColor. Ids are kept only if something refers to them, with
    `name` as a prefix, so that two pictures of a page have no id in common.

    Args:
        svg: The SVG of matplotlib.
        name: Name of the picture, unique on the page.
        title: Title of the picture, for screen readers.
    """
    root = ET.fromstring(svg.encode("utf-8"))
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag(child) in ("metadata", "style") or (_tag(child) == "defs" and all(_tag(c) == "style" for c in child)):
                parent.remove(child)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    for element in root.iter():
        element.tag = _tag(element)
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        if attributes.get("id") not in used:
            attributes.pop("id", None)
        style = attributes.pop("style", "")
        for declaration in style.split(";"):
            key, _, value = (part.strip() for part in declaration.partition(":"))
            if key == "font":  # "[bold] 8.5px 'DejaVu Sans'" in older releases; the font family is the page's
                size = re.search(r"([\d.]+)px", value)
                attributes.update(
                    {"font-size": size.group(1)} if size else {}, **({"font-weight": "bold"} if re.search(r"\b(bold|700)\b", value) else {})
                )
            elif key and key != "font-family":
                attributes[key] = value
        element.attrib.clear()
        for key, value in attributes.items():
            value = re.sub(r"url\(#", f"url(#{name}-", value)
            value = f"{name}-{value}" if key == "id" else f"#{name}-{value[1:]}" if key == "href" else value
            element.set(key, "currentColor" if key in ("fill", "stroke") and value.lower() == INK else value)
        if element.tag == "text" and "fill" not in element.attrib:
            element.set("fill", "currentColor")
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": title})
    return Markup(ET.tostring(root, encoding="unicode"))


def _tag(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]


# -- rows of marks ------------------------------------------------------------------------------------------------------


@rc_context(STYLE)
def systems(name: str, title: str, rows: Sequence[SystemRow], xlabel: str, line: tuple[float, str] | None = None) -> Picture:
    """Draw systems below each other: a dot for the figure, a line for its interval.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        rows: The systems, at least one.
        xlabel: Label of the axis, with its unit.
        line: Position and label of a dashed line, such as a published figure; None: no line.
    """
    figure, axes = _rows(len(rows), extra=0.18 if line else 0.0)
    ends = [value for row in rows for value in (row.value, row.low, row.high) if value is not None] + ([line[0]] if line else [])
    for place, row in enumerate(rows):
        _head(axes, place, row.label, _interval(row.value, row.low, row.high), bold=row.mine)
        colour = VERMILION if row.mine else GREY
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [-place, -place], color=colour, linewidth=2.4, alpha=0.55, solid_capstyle="round")
        axes.plot([row.value], [-place], marker="o", markersize=6, color=colour, linestyle="none")
    low, high = _range(axes, ends, len(rows))
    words = (
        f"{xlabel}; the axis goes from {low:g} to {high:g}. "
        + "; ".join(f"{row.label} {_interval(row.value, row.low, row.high)}" for row in rows)
        + "."
    )
    if any(row.low is not None for row in rows):
        words += " Whiskers and brackets: 95% intervals."
    if line:
        axes.vlines([line[0]] * len(rows), *_strips(len(rows)), color=INK, linewidth=1.1, linestyle=(0, (2, 1.2)))
        right = line[0] > (low + high) / 2
        above = axes.get_xaxis_transform()
        axes.text(line[0], 1.0, f"{line[1]} ┐" if right else f"┌ {line[1]}", transform=above, ha="right" if right else "left", va="top", fontsize=8)
        words += f" Dashed: {line[1]}."
    axes.set_xlabel(xlabel)
    return Picture(name, title, words, figure)


@rc_context(STYLE)
def dumbbells(name: str, title: str, pairs: Sequence[FigurePair], xlabel: str, before: str, after: str) -> Picture:
    """Draw two systems row by row: an open circle, a filled one, and a bar between them.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        pairs: The rows, at least one.
        xlabel: Label of the axis, with its unit.
        before: Name of the first system.
        after: Name of the second system.
    """
    figure, axes = _rows(len(pairs), extra=0.25)
    for place, pair in enumerate(pairs):
        _head(axes, place, pair.label, f"{pair.before:.1f} → {pair.after:.1f}", n=pair.n)
        if pair.low is not None and pair.high is not None:
            axes.plot([pair.low, pair.high], [-place, -place], color=VERMILION, linewidth=5, alpha=0.25, solid_capstyle="butt", zorder=1)
        colour = VERMILION if pair.after >= pair.before else BLUE
        axes.plot([pair.before, pair.after], [-place, -place], color=colour, linewidth=1.6, zorder=2)
        axes.plot(
            [pair.before], [-place], marker="o", markersize=6, markerfacecolor="none", markeredgecolor=GREY, markeredgewidth=1.6, linestyle="none"
        )
        axes.plot([pair.after], [-place], marker="o", markersize=6.5, color=colour, linestyle="none", zorder=3)
    values = [value for pair in pairs for value in (pair.before, pair.after, pair.low, pair.high) if value is not None]
    low, high = _range(axes, values, len(pairs))
    handles = [
        axes.plot(
            [], [], marker="o", markersize=6, markerfacecolor="none", markeredgecolor=GREY, markeredgewidth=1.6, linestyle="none", label=before
        )[0],
        axes.plot([], [], marker="o", markersize=6.5, color=VERMILION, linestyle="none", label=after)[0],
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    axes.set_xlabel(xlabel)
    better = sum(pair.after > pair.before for pair in pairs)
    words = (
        f"{xlabel}; the axis goes from {low:g} to {high:g}. Open circle: {before}; filled: {after}, which is higher in {better} of {len(pairs)}"
        + (" (a row where it is lower is blue)" if better < len(pairs) else "")
        + (", with its 95% interval as a pale bar" if any(pair.low is not None for pair in pairs) else "")
        + "."
    )
    return Picture(name, title, words, figure)


def _rows(count: int, extra: float) -> tuple[Figure, Axes]:
    """Return a figure with space for some rows of marks, and a line of text above each."""
    figure = Figure(figsize=(WIDTH, 0.36 * count + 0.55 + extra))
    axes = figure.add_subplot()
    axes.set_ylim(-count + 0.5, 0.75 + (extra / 0.36 if extra < 0.2 else 0))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure, axes


def _strips(count: int) -> tuple[list[float], list[float]]:
    """Return the lower and upper ends of the rows of marks. Lines between these ends do not cross the text above the marks."""
    return [-place - 0.26 for place in range(count)], [-place + 0.16 for place in range(count)]


def _head(axes: Axes, place: int, label: str, value: str, *, bold: bool = False, n: int | None = None) -> None:
    size = "" if n is None else f" (n = {n:,})"
    label = textwrap.shorten(label, LABEL - len(size), placeholder=" …") + size
    weight = "bold" if bold else "normal"
    across = axes.get_yaxis_transform()
    axes.text(0, 0.2 - place, label, transform=across, ha="left", va="bottom", fontweight=weight)
    axes.text(1, 0.2 - place, value, transform=across, ha="right", va="bottom", fontweight=weight)


def _interval(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.1f}" if low is None or high is None else f"{value:.1f} [{low:.1f}, {high:.1f}]"


def _range(axes: Axes, values: Sequence[float], rows: int) -> tuple[float, float]:
    """Set the x axis to round numbers around the values, draw its grid in each row of marks, and return both ends of the axis."""
    low, high = min(values), max(values)
    room = max(2.0, 0.08 * (high - low))
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(low - room, high + room)
    inside = [low >= 0 and tick < 0 for tick in ticks], [high <= 100 and tick > 100 for tick in ticks]
    kept = [float(tick) for tick, below, above in zip(ticks, *inside) if not (below or above)]
    axes.set_xlim(kept[0] if kept[0] < low else kept[0] - 1, kept[-1] if kept[-1] > high else kept[-1] + 1)
    axes.set_xticks(kept)
    for tick in kept:
        axes.vlines([tick] * rows, *_strips(rows), color=INK, alpha=0.14, linewidth=0.6, zorder=0)
    return kept[0], kept[-1]


# -- calibration --------------------------------------------------------------------------------------------------------


@rc_context(STYLE)
def reliability(name: str, title: str, bins: Sequence[Any], n: int, ece: float) -> Picture:
    """Draw a reliability diagram: accuracy against mean confidence of each bin, and below the number of mentions in each.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        bins: The bins, with low, high, n, confidence and accuracy (shares).
        n: Number of mentions.
        ece: Expected calibration error, a share.

    Source:
        Guo et al., ICML 2017, section 2.
    """
    full = [one for one in bins if one.n and one.confidence is not None and one.accuracy is not None]
    figure = Figure(figsize=(WIDTH, 3.9))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    upper.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    upper.plot([one.confidence for one in full], [one.accuracy for one in full], color=BLUE, marker="o", markersize=5)
    upper.text(0.03, 0.97, f"ECE {ece:.3f}", transform=upper.transAxes, va="top")
    upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="right (share)")
    lower.bar([one.low for one in bins], [one.n for one in bins], width=[one.high - one.low for one in bins], align="edge", color=BLUE, alpha=0.6)
    lower.set(xlabel="stated probability that the link is right", ylabel="mentions")
    lower.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    for axes in (upper, lower):
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
    shown = "; ".join(f"stated {one.confidence:.2f}, right {one.accuracy:.2f} ({one.n:,})" for one in full)
    words = (
        f"Share of right links against the stated probability, {n:,} mentions; on the dashed diagonal both are equal, below it the stated "
        f"probability is too high. Expected calibration error {ece:.3f}. Bins: {shown}."
    )
    return Picture(name, title, words, figure)


@rc_context(STYLE)
def coverage(name: str, title: str, curve: Sequence[Any], targets: Sequence[Any]) -> Picture:
    """Draw the precision of the links that a threshold keeps, against the share of mentions that keep a link.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        curve: Points with kept and precision (shares).
        targets: The targets for precision, with kept and precision (shares).
    """
    figure = Figure(figsize=(WIDTH, 2.9))
    axes = figure.add_subplot()
    points = sorted((100 * one.kept, 100 * one.precision) for one in curve)
    axes.plot([x for x, _ in points], [y for _, y in points], color=BLUE)
    met = [one for one in targets if one.kept is not None and one.precision is not None]
    axes.plot([100 * one.kept for one in met], [100 * one.precision for one in met], marker="D", markersize=5.5, color=VERMILION, linestyle="none")
    for one in met:
        axes.annotate(
            f"target {100 * one.target_precision:g}",
            (100 * one.kept, 100 * one.precision),
            (-6, -3),
            textcoords="offset points",
            ha="right",
            va="top",
        )
    lowest = min([y for _, y in points] + [100 * one.precision for one in met], default=0.0)
    axes.set(
        xlim=(0, 102),
        ylim=(max(0.0, 5 * np.floor((lowest - 4) / 5)), 101),
        xlabel="mentions that keep their link (per cent)",
        ylabel="right links (per cent)",
    )
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)
    shown = "; ".join(f"target {100 * one.target_precision:g}: {100 * one.precision:.1f} right, {100 * one.kept:.1f} kept" for one in met)
    words = "Share of the kept links that are right, against the share of mentions that keep a link, as the threshold falls"
    words += f"; diamonds: thresholds for a target precision (per cent; {shown})." if met else "."
    return Picture(name, title, words, figure)


# -- the paper's figures ------------------------------------------------------------------------------------------------


@rc_context(STYLE)
def map_of_names(name: str, title: str, places: Sequence[tuple[float, float]], concepts: Sequence[int], labels: Sequence[str], note: str) -> Picture:
    """Draw names in the plane. Colour and shape show the concept, and its number is at its middle.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        places: x and y of each name (n,).
        concepts: Position in `labels` of the concept of each name (n,).
        labels: The concepts.
        note: Sentences to add to the description.

    Source:
        Figure 1 of SapBERT (Liu et al., NAACL 2021).
    """
    figure = Figure(figsize=(WIDTH, WIDTH))
    axes = figure.add_subplot()
    xy, of = np.asarray(places, dtype=float).reshape(-1, 2), np.asarray(concepts)
    for concept in range(len(labels)):
        mine = xy[of == concept]
        axes.plot(
            mine[:, 0],
            mine[:, 1],
            marker=SHAPES[concept // 4 % 3],
            markersize=4,
            color=(BLUE, VERMILION, GREEN, PURPLE)[concept % 4],
            linestyle="none",
            alpha=0.8,
        )
    scale = 200.0 / max(float(np.ptp(xy, axis=0).max(initial=0.0)), 1e-9)  # about the number of points on paper per unit
    for concept, (place, offset) in _numbers(xy * scale, of, len(labels)).items():
        axes.annotate(str(concept + 1), tuple(xy[place]), offset, textcoords="offset points", fontweight="bold", fontsize=9)
    axes.set(xticks=[], yticks=[], xlabel="t-SNE, first direction (no unit)", ylabel="t-SNE, second direction (no unit)")
    axes.margins(0.07)
    words = f"{len(xy):,} names of {len(labels)} concepts, numbered as in the list below. {note}"
    return Picture(name, title, words, figure)


def _numbers(places: Any, concepts: Any, count: int) -> dict[int, tuple[int, tuple[int, int]]]:
    """Choose the place of the number of each concept: next to the name in its middle.

    Args:
        places: (n, 2) positions of the names, in points.
        concepts: (n,) concept of each name.
        count: Number of concepts.

    Returns:
        Concept -> (that name, offset), where the offset is the one of four that is farthest from the numbers chosen before.
    """
    found: dict[int, tuple[int, tuple[int, int]]] = {}
    taken: list[Any] = []
    for concept in range(count):
        own = np.flatnonzero(concepts == concept)
        if not len(own):
            continue
        middle = int(own[np.argmin(((places[own] - np.median(places[own], axis=0)) ** 2).sum(axis=1))])
        free = [min([float(np.hypot(*(places[middle] + offset - other))) for other in taken], default=np.inf) for offset in BESIDE]
        offset = BESIDE[int(np.argmax(free))]
        taken.append(places[middle] + offset)
        found[concept] = middle, offset
    return found


@rc_context(STYLE)
def similarities(name: str, title: str, edges: Sequence[float], positive: Sequence[int], negative: Sequence[int], note: str) -> Picture:
    """Draw the distributions of the cosines of positive and of negative pairs of a batch.

    Each kind is drawn as shares of its own number, because there are many more negatives.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        edges: Edges of the bins (m + 1,).
        positive: Positive pairs in each bin (m,).
        negative: Negative pairs in each bin (m,).
        note: Sentences to add to the description.

    Source:
        Figure 2 of SapBERT (Liu et al., NAACL 2021).
    """
    figure = Figure(figsize=(WIDTH, 2.6))
    axes = figure.add_subplot()
    for label, counts, colour, line in (("two concepts", negative, VERMILION, (0, (4, 1.5))), ("one concept", positive, BLUE, "solid")):
        shares = 100 * np.asarray(counts, dtype=float) / max(1, sum(counts))
        axes.stairs(shares, edges, color=colour, linewidth=1.6, linestyle=line, label=f"{label} ({sum(counts):,} pairs)")
        axes.stairs(shares, edges, color=colour, alpha=0.2, fill=True)
    figure.legend(loc="outside upper left", ncols=1)
    axes.set(xlabel="cosine of two names (no unit)", ylabel="pairs (per cent)", xlim=(edges[0], edges[-1]))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    middle = (np.asarray(edges[1:]) + np.asarray(edges[:-1])) / 2
    means = [float(np.average(middle, weights=counts)) if sum(counts) else float("nan") for counts in (positive, negative)]
    words = f"{note} Mean cosine: {means[0]:.2f} of {sum(positive):,} pairs of one concept, {means[1]:.2f} of {sum(negative):,} pairs of two."
    return Picture(name, title, words, figure)


# -- training -----------------------------------------------------------------------------------------------------------


@rc_context(STYLE)
def course(name: str, title: str, lines: Sequence[Curve], ylabel: str) -> Picture:
    """Draw lines over optimiser steps.

    Args:
        name: Name of the picture.
        title: Title of the picture.
        lines: The lines, each with at least one point.
        ylabel: Label of the y axis, with its unit.
    """
    figure = Figure(figsize=(WIDTH, 2.5))
    axes = figure.add_subplot()
    looks: list[dict[str, Any]] = [{"color": BLUE}, {"color": VERMILION, "linestyle": (0, (4, 1.5))}, {"color": GREEN, "linestyle": (0, (1, 1))}]
    for line, look in zip(lines, looks):
        axes.plot(line.xs, line.ys, label=line.label, marker="o" if len(line.xs) <= 20 else None, markersize=4, **look)
    if len(lines) > 1:
        figure.legend(loc="outside upper left", ncols=2)
    axes.set(xlabel="optimiser steps", ylabel=ylabel)
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)
    axes.margins(y=0.08)
    shown = "; ".join(f"{line.label} from {line.ys[0]:.4g} to {line.ys[-1]:.4g} (best {_best(line):.4g})" for line in lines)
    return Picture(name, title, f"{ylabel} against optimiser steps {lines[0].xs[0]:,g} to {lines[0].xs[-1]:,g}: {shown}.", figure)


def _best(line: Curve) -> float:
    return min(line.ys) if "loss" in line.label else max(line.ys)
