"""The kinds of mentions that each corpus annotates, as the five kinds, and the meaning of tokens without annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# MACCROBAT's 41 types and their kinds; types without a kind are not mentions of concepts that a linker looks for
MACCROBAT = {
    "Sign_symptom": "problem",
    "Disease_disorder": "problem",
    "Medication": "drug",
    "Diagnostic_procedure": "test",
    "Therapeutic_procedure": "treatment",
    "Biological_structure": "anatomy",
    **dict.fromkeys(
        (
            *("Activity", "Administration", "Age", "Area", "Biological_attribute", "Clinical_event", "Color", "Coreference", "Date"),
            *("Detailed_description", "Distance", "Dosage", "Duration", "Family_history", "Frequency", "Height", "History", "Lab_value", "Mass"),
            *("Nonbiological_location", "Occupation", "Other_entity", "Other_event", "Outcome", "Personal_background", "Qualitative_concept"),
            *("Quantitative_concept", "Severity", "Sex", "Shape", "Subject", "Texture", "Time", "Volume", "Weight"),
        ),
        "",
    ),
}


class Annotated(NamedTuple):
    """How a corpus is annotated.

    Attributes:
        kinds: Its types -> one of the five kinds, "" for none; None: all of its mentions are problems.
        complete: Kinds of which every mention is annotated. Tokens without annotation may still be mentions of other kinds.
    """

    kinds: Mapping[str, str] | None
    complete: frozenset[str]


ALL = frozenset({"problem", "drug", "test", "treatment", "anatomy"})
# the trained recogniser marks mentions in the way of the first corpus
CORPORA = {
    "maccrobat": Annotated(MACCROBAT, ALL),
    "bc5cdr": Annotated({"Disease": "problem", "Chemical": "drug"}, frozenset({"problem", "drug"})),
    "ncbi_disease": Annotated(None, frozenset({"problem"})),
    "gsc_plus": Annotated(None, frozenset()),  # only phenotypes: diseases are not annotated
    "labeledin": Annotated(None, frozenset()),  # only indications: contraindications and side effects are not annotated
}
