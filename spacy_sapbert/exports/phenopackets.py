"""GA4GH Phenopackets v2: one phenopacket for each note, with its HPO terms, as JSON Lines.

Source: Jacobsen et al., The GA4GH Phenopacket schema defines a computable representation of clinical data, Nature Biotechnology 2022.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timezone
from typing import Any, TextIO

from .base import LinkedNote, Origin, codes_of, has, identifier, linked, write_json_lines

SCHEMA_VERSION = "2.0"
HPO = "HPO"
EVIDENCE = {"id": "ECO:0007669", "label": "computational evidence used in automatic assertion"}


def write(notes: Iterable[LinkedNote], origin: Origin, stream: TextIO) -> int:
    """Write one phenopacket per line.

    Returns:
        Number of phenopackets.
    """
    return write_json_lines((phenopacket(note, origin) for note in notes), stream)


def phenopacket(note: LinkedNote, origin: Origin) -> dict[str, Any]:
    """Return the phenopacket of a note. Negated terms are excluded features; uncertain, hypothetical and family mentions are left out.

    A term that the note has both as present and as negated counts as present.
    """
    excluded: dict[str, bool] = {}
    labels: dict[str, str] = {}
    for row in linked(note):
        terms = codes_of(row, HPO)
        if not terms or has(row, "uncertain", "hypothetical", "family"):
            continue
        labels.setdefault(terms[0], row["name"])
        excluded[terms[0]] = excluded.get(terms[0], True) and has(row, "negated")
    features = [
        {"type": {"id": term, "label": labels[term]}, "evidence": [{"evidenceCode": EVIDENCE}], **({"excluded": True} if out else {})}
        for term, out in excluded.items()
    ]
    packet = identifier(note.note_id, "phenopacket")
    return {"id": packet, "subject": {"id": note.note_id or packet}, "phenotypicFeatures": features, "metaData": _about(origin)}


def _about(origin: Origin) -> dict[str, Any]:
    version = next((version for name, version in origin.sources if version and re.search(r"\bhpo?\b", name.lower())), "")
    resources = [
        {
            "id": "hp",
            "name": "human phenotype ontology",
            "url": "http://purl.obolibrary.org/obo/hp.owl",
            "version": version or "unknown",
            "namespacePrefix": "HP",
            "iriPrefix": "http://purl.obolibrary.org/obo/HP_",
        },
        {
            "id": "eco",
            "name": "Evidence and Conclusion Ontology",
            "url": "http://purl.obolibrary.org/obo/eco.owl",
            "version": "unknown",
            "namespacePrefix": "ECO",
            "iriPrefix": "http://purl.obolibrary.org/obo/ECO_",
        },
    ]
    created = origin.written.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"created": created, "createdBy": origin.system, "resources": resources, "phenopacketSchemaVersion": SCHEMA_VERSION}
