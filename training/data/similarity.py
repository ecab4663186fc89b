"""Read pairs of texts with a human score. Each reader takes lines, so that it is easy to test."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from math import isnan
from typing import NamedTuple

from ..errors import fail

# Header names, in lower case: MayoSRS and UMNSRS (Pakhomov et al. 2010, 2011) · EHR-Rel (Schulz et al., COLING 2020)
LEFT = ("term1", "term_1", "snomed_label_1")
RIGHT = ("term2", "term_2", "snomed_label_2")
SCORE = ("mean", "mean_rating", "mean score")
NLI_SCORES = {"entailment": 2.0, "neutral": 1.0, "contradiction": 0.0}


class TextPair(NamedTuple):
    """Two terms or sentences, and the similarity that people gave them, on the corpus's own scale; nan without a score."""

    left: str
    right: str
    score: float


def read_umnsrs(lines: Iterable[str]) -> list[TextPair]:
    """Read UMNSRS (Pakhomov et al. 2010): CSV with Mean, Term1 and Term2."""
    return [TextPair(row["Term1"], row["Term2"], float(row["Mean"])) for row in csv.DictReader(lines)]


def read_stsb(lines: Iterable[str]) -> list[TextPair]:
    """Read STS-B (Cer et al. 2017): CSV without a header: sentence, sentence, score."""
    return [TextPair(left, right, float(score)) for left, right, score in csv.reader(lines)]


def read_biosses(lines: Iterable[str]) -> list[TextPair]:
    """Read BIOSSES (Soğancıoğlu et al. 2017): CSV with sent_1, sent_2 and sim, the mean of five annotators.

    Sentences may hold line breaks.
    """
    rows = csv.DictReader(line + "\n" for line in lines)
    return [TextPair(" ".join(row["sent_1"].split()), " ".join(row["sent_2"].split()), float(row["sim"])) for row in rows]


def read_sick(lines: Iterable[str]) -> list[TextPair]:
    """Read SICK (Marelli et al., LREC 2014): tab-separated with sentence_A, sentence_B and relatedness_score."""
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [TextPair(row["sentence_A"], row["sentence_B"], float(row["relatedness_score"])) for row in rows]


def read_medsts(lines: Iterable[str], scores: Iterable[str] | None = None) -> list[TextPair]:
    """Read MedSTS (Wang et al., Language Resources and Evaluation 2020): two sentences and their score, separated by tabs.

    Args:
        lines: The lines; of the test part, only the sentences (`clinicalSTS.test.txt`).
        scores: The scores of the test part, one a line (`clinicalSTS.test.gs.sim.txt`).

    Raises:
        ValueError: A line does not have three cells, or the number of scores is wrong.
    """
    rows = [line.split("\t") for line in lines if line.strip()]
    if scores is not None:
        given = [line.strip() for line in scores if line.strip()]
        if len(given) != len(rows):
            raise ValueError(f"{len(rows)} pairs but {len(given)} scores")
        rows = [[*row[:2], score] for row, score in zip(rows, given)]
    for number, row in enumerate(rows, 1):
        if len(row) != 3:
            raise ValueError(f"row {number} has {len(row)} cells, not two sentences and a score")
    return [TextPair(left.strip(), right.strip(), float(score)) for left, right, score in rows]


def read_mednli(lines: Iterable[str]) -> list[TextPair]:
    """Read MedNLI (Romanov and Shivade, EMNLP 2018) as scored pairs: JSON Lines with sentence1, sentence2 and gold_label."""
    rows = [json.loads(line) for line in lines if line.strip()]
    return [TextPair(row["sentence1"], row["sentence2"], NLI_SCORES[row["gold_label"]]) for row in rows]


def read_terms(lines: Iterable[str]) -> list[TextPair]:
    """Read two terms and their mean score, by the column names of the first line.

    Columns are separated by tabs (EHR-Rel) or commas (MayoSRS, UMNSRS); other columns are ignored. The score of a pair without one is nan.

    Raises:
        SapbertError: E572 if a column is missing.
    """
    lines = [line.lstrip("\ufeff") for line in lines if line.strip()]
    rows = csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ",")
    header = list(rows.fieldnames or [])
    columns = [_column(header, known, what) for known, what in ((LEFT, "the first term"), (RIGHT, "the second term"), (SCORE, "the mean score"))]
    found = [[row[column] for column in columns] for row in rows]
    return [TextPair(left, right, float((score or "").strip() or "nan")) for left, right, score in found]


def scored_pairs(pairs: Sequence[TextPair]) -> tuple[list[TextPair], int]:
    """Return the pairs that have a score, and the number of the others."""
    scored = [pair for pair in pairs if not isnan(pair.score)]
    return scored, len(pairs) - len(scored)


def _column(header: Sequence[str], known: Sequence[str], what: str) -> str:
    """Return the column of the header that has one of the known names; E572 if there is none."""
    for name in header:
        if name.strip().lower() in known:
            return name
    raise fail("E572", what=what, found=", ".join(header) or "nothing", known=", ".join(known))
