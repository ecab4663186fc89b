"""What each corpus annotates, as the five kinds of mention, and what its silence means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# MACCROBAT's 41 types: those of the five kinds; the others are no mentions of concepts that a linker looks for
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
    """How a corpus annotates.

    Attributes:
        kinds: Its types -> one of the five kinds, "" for none; None: all of its mentions are problems.
        complete: Kinds of which it annotates every mention: outside its mentions there are none. Of other kinds its silence says nothing.
    """

    kinds: Mapping[str, str] | None
    complete: frozenset[str]


ALL = frozenset({"problem", "drug", "test", "treatment", "anatomy"})
# the first one's way of annotating is that of the trained recogniser
CORPORA = {
    "maccrobat": Annotated(MACCROBAT, ALL),
    "bc5cdr": Annotated({"Disease": "problem", "Chemical": "drug"}, frozenset({"problem", "drug"})),
    "ncbi_disease": Annotated(None, frozenset({"problem"})),
    "gsc_plus": Annotated(None, frozenset()),  # phenotypes only: diseases are left out
    "labeledin": Annotated(None, frozenset()),  # indications only: contraindications and side effects are left out
}
