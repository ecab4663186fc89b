"""The report of a review: precision with intervals, agreement of reviewers, links that are left."""

from __future__ import annotations

from typing import Any

from .measures import agreements, left_in, precisions
from .store import ReviewStore

BIASED = (
    "Links that were reviewed with the doubtful ones first have a lower precision than all links. Review notes in random order for a fair figure."
)


def report(store: ReviewStore, wished: float) -> dict[str, Any]:
    """Return the figures of a review, as JSON can hold them.

    Args:
        store: the review.
        wished: share of links that are to be right in the end.
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
    lines = [f"{figures['notes']:,} notes, {figures['mentions']:,} mentions"]
    for each in figures["precision"]:
        if each["reviewed"]:
            interval = f"95% interval {each['low']:.1%} to {each['high']:.1%}"
            lines.append(f"{each['what']}: {each['right']} of {each['reviewed']} right, {each['precision']:.1%} ({interval})")
        else:
            lines.append(f"{each['what']}: none reviewed")
    lines.append(BIASED)
    for each in figures["agreement"]:
        kappa = "not defined" if each["kappa"] is None else f"{each['kappa']:.2f}"
        one, other = each["reviewers"]
        lines.append(f"{one} and {other}: {each['same']} of {each['mentions']} mentions the same, kappa {kappa}")
    lines.append(f"disputed: {figures['disputed']}")
    if figures["left"] is None:
        lines.append(f"{figures['open']:,} links are open; without a calibration it is not known how many of them are right")
    else:
        now = "" if figures["expected"] is None else f" (expected now: {figures['expected']:.1%})"
        lines.append(f"for a precision of {figures['wished']:.0%}{now}: {figures['left']:,} of {figures['open']:,} open links are to be reviewed")
    return "\n".join(lines)
