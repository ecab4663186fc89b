"""Leave out the terms of UBERON for animals, such as "insect labrum" and "polster": a note that says "labrum" means a part of a joint."""

from __future__ import annotations

import re
from pathlib import Path

from spacy_sapbert.kb.builder import Source
from spacy_sapbert.readers.text import lines

VOCABULARY, PREFIX = "UBERON", "UBERON:"
# cross-references to anatomies of humans: FMA, MeSH, NCIt, SNOMED CT, GALEN, GAID, CALOHA, human embryos, human brains. MA is the anatomy of the
# mouse, which has many parts of humans that no other of these names ("mitral valve cusp")
_HUMAN = re.compile(
    r"xref: (?:FMA|UMLS|NCIT|MESH|EHDAA2?|RETIRED_EHDAA2|galen|GAID|CALOHA|EV|MAT|MA|SCTID|DHBA|HBA|neuronames|nlx_anat|"
    r"http://ncicb\.nci\.nih\.gov|http://www\.snomedbrowser\.com|http://linkedlifedata\.com)",
    re.IGNORECASE,
)


def human_terms(path: Path) -> set[str]:
    """Return the ids of UBERON's terms that an anatomy of humans has, too.

    Args:
        path: UBERON as OBO; it may be compressed.
    """
    found: set[str] = set()
    term = ""
    for _, line in lines(path):
        if line.startswith("["):
            term = ""
        elif line.startswith(f"id: {PREFIX}"):
            term = line.split()[1]
        elif term and _HUMAN.match(line):
            found.add(term)
    return found


def without_animals(source: Source, path: Path) -> Source:
    """Remove the terms of UBERON that no anatomy of humans has. Terms of other vocabularies stay.

    Args:
        source: UBERON, as a source.
        path: its file.
    """
    human = human_terms(path)
    source.concepts = (concept for concept in source.concepts if not concept.concept_id.startswith(PREFIX) or concept.concept_id in human)
    return source
