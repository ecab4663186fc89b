"""Leave out MONDO's diseases of animals: "polydactyly, llama". A clinical note means the disease of humans."""

from __future__ import annotations

from pathlib import Path

from spacy_sapbert.kb import curies
from spacy_sapbert.kb.builder import Source
from spacy_sapbert.readers import json_files

VOCABULARY = "MONDO"
FILE = "MONDO-ontology"  # beginning of the name of MONDO's file
ANIMALS = "MONDO:0005583"  # "non-human animal disease"


def animal_terms(path: Path) -> set[str]:
    """Return the ids of MONDO's diseases of animals.

    Args:
        path: MONDO as JSON, see `spacy_sapbert.readers.mondo_json`; it may be compressed.
    """
    every = ((key, entry) for key, entry in json_files.pairs(path) if isinstance(entry, dict))
    return {curies.canonical(key) for key, entry in every if key == ANIMALS or ANIMALS in (entry.get("ancestors") or {})}


def without_animals(source: Source, path: Path) -> Source:
    """Remove MONDO's diseases of animals.

    Args:
        source: MONDO, as a source.
        path: its file.
    """
    animals = animal_terms(path)
    source.concepts = (concept for concept in source.concepts if concept.concept_id not in animals)
    return source
