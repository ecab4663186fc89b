"""The report of a review: precision with intervals, agreement of reviewers, number of links left to review."""

from __future__ import annotations

from typing import Any

from ..render.records import count, percent
from .measures import agreements, left_in, precisions
from .store import ReviewStore

BIASED = (
    "If doubtful links are reviewed first, the reviewed links have a lower precision than all links. For a fair figure, review notes in random order."
)


def report(store: ReviewStore, wished: float) -> dict[str, Any]:
    """Return the figures of a review as a dict that can be written as JSON.

    Args:
        store: the review.
        wished: share of links that should be right after the review, 0 to 1.
    """
    log, (notes, mentions), left = store.log(), store.count(), left_in(store, wished)
    return {
        "notes": notes,
        "mentions": mentions,
        "precision": [{**each._asdict(), "precision": each.share} for each in precisions(store)],
        "agreement": [{**each._asdict(), "differ": len(each.differ)} for each in agreements(log)],
        "disputed": sum(log.of(mention).disputed for mention in log.mentions()),
        "wished": wished,
        **left._asdict(),
    }


def in_words(figures: dict[str, Any]) -> str:
    """Return a report as lines of text."""
    lines = [f"{count(figures['notes'], 'note')}, {count(figures['mentions'], 'mention')}"]
    for each in figures["precision"]:
        if each["reviewed"]:
            interval = f"95% interval {percent(each['low'], 1)} to {percent(each['high'], 1)}"
            lines.append(f"{each['what']}: {each['right']} of {each['reviewed']} right, {percent(each['precision'], 1)} ({interval})")
        else:
            lines.append(f"{each['what']}: none reviewed")
    lines.append(BIASED)
    for each in figures["agreement"]:
        kappa = "not defined" if each["kappa"] is None else f"{each['kappa']:.2f}"
        one, other = each["reviewers"]
        lines.append(f"{one} and {other}: the same concept for {each['same']:,} of {count(each['mentions'], 'mention')}, kappa {kappa}")
    lines.append(f"disputed: {figures['disputed']}")
    if figures["left"] is None:
        lines.append(f"open: {count(figures['open'], 'link')}; without a calibration, the number of right ones among them can't be estimated")
    else:
        now = "" if figures["expected"] is None else f" (expected now: {percent(figures['expected'], 1)})"
        lines.append(
            f"to review for a precision of {percent(figures['wished'], 1)}{now}: {figures['left']:,} of {count(figures['open'], 'open link')}"
        )
    return "\n".join(lines)
