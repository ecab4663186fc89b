"""Tell which tokens of a note are findings, drugs and procedures: where its mentions begin and end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from .triggers import DRUG, FINDING, OTHER, PROCEDURE


class MentionTokens:
    """The tokens of the mentions of a note, without mentions of the kind "other".

    Args:
        starts: the first character of each token of the note.
        mentions: (start, end, kind) of each mention, in characters.

    Attributes:
        mention_ends: first token of a mention -> the token after the longest one there.
        after_mention: the tokens after mentions.
        findings: the token after a finding -> the first token of the longest one that ends there.
        finding_starts: the first tokens of `findings`, in order.
        procedure_ends: the token after a procedure -> the first token of the longest one that ends there.
        treatment_ends: the tokens after drugs and procedures.
        drugs: the first tokens of drugs.
    """

    def __init__(self, starts: Sequence[int], mentions: Iterable[tuple[int, int, str]]) -> None:
        marked = [(bisect_left(starts, start), bisect_left(starts, end), kind) for start, end, kind in mentions if kind != OTHER]
        self.mention_ends: dict[int, int] = {}
        for first, end, _ in marked:
            self.mention_ends[first] = max(end, self.mention_ends.get(first, 0))
        self.after_mention = {end for _, end, _ in marked}
        self.findings: dict[int, int] = {}
        for first, end, kind in marked:
            if kind == FINDING:
                self.findings[end] = min(first, self.findings.get(end, first))
        self.finding_starts = sorted(set(self.findings.values()))
        self.procedure_ends: dict[int, int] = {}
        for first, end, kind in marked:
            if kind == PROCEDURE:
                self.procedure_ends[end] = min(first, self.procedure_ends.get(end, first))
        self.treatment_ends = {end for _, end, kind in marked if kind in (DRUG, PROCEDURE)}
        self.drugs = {first for first, _, kind in marked if kind == DRUG}

    def begins_finding(self, at: int) -> bool:
        """Return whether a finding begins at a token."""
        place = bisect_left(self.finding_starts, at)
        return place < len(self.finding_starts) and self.finding_starts[place] == at
