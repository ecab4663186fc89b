"""A pipeline with the matcher alone, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.language import Language


@pytest.fixture(scope="module")
def nlp(tiny_linker: Path) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("concept_matcher", config={"linker_name": str(tiny_linker)})
    nlp.get_pipe("concept_matcher").load()  # type: ignore[attr-defined]
    return nlp
