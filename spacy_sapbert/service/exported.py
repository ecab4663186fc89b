"""How the OpenAPI description shows answers in other formats than the service's own JSON: media types, with an example of each format."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone
from typing import Any

from ..about import __version__
from ..exports import bioc, comprehend, fhir, omop, phenopackets
from ..exports.base import LinkedNote, Origin
from ..exports.names import FOLDERS, FORMATS
from . import schemas
from .problems import Responses

TEXT: dict[str, Any] = {"type": "string"}
BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
_AT = "2026-11-25T15:31:53.154+00:00"
_GOLD = {"start": 15, "end": 20, "label": "DISO", "cui": "C0015967", "status": ["negated"], "proposed": "C0015967", "probability": 0.97372}
_MAPPED = "fever\trdfs literal\tskos:exactMatch\tUMLS:C0015967\tFever\tsemapv:ManualMappingCuration\tAnn\t2026-11-25\tmentions=1\n"
REVIEW_FORMATS = {  # format of /review/export -> (name of the file, media type)
    "gold": ("gold.spacy", "application/octet-stream"),
    "jsonl": ("gold.jsonl", "application/x-ndjson"),
    "usagi": ("mappings.csv", "text/csv"),
    "sssom": ("mappings.sssom.tsv", "text/tab-separated-values"),
    "names": ("names.tsv", "text/tab-separated-values"),
}
REVIEW_EXAMPLES = {  # of a review with one decision and one added name
    "jsonl": json.dumps(
        {
            "id": "17",
            "text": schemas.NOTE,
            "complete": False,
            "mentions": [{**_GOLD, "reviewer": "Ann", "at": _AT, "mention": "fever"}],
        }
    )
    + "\n",
    "usagi": "sourceCode,sourceName,sourceFrequency,matchScore,mappingStatus,equivalence,statusSetBy,statusSetOn,conceptId,conceptName,mappingType,createdBy,"
    f"createdOn\r\nfever,fever,1,1,APPROVED,EQUAL,Ann,{_AT},C0015967,Fever,MAPS_TO,spacy-sapbert,{_AT}\r\n",
    "sssom": "# curie_map:\n#   UMLS: https://uts.nlm.nih.gov/uts/umls/concept/\nsubject_label\tsubject_type\tpredicate_id\tobject_id\tobject_label\t"
    f"mapping_justification\tauthor_label\tmapping_date\tother\n{_MAPPED}",
    "names": "concept_id\tname\tlanguage\tsource\tterm_type\ttypes\tdefinition\tcodes\nC0015967\tthe heat\ten\tADDED\tSY\t\t\t\n",
}
METRICS = (
    "# HELP sapbert_texts_total Texts that were linked.\n# TYPE sapbert_texts_total counter\nsapbert_texts_total 48.0\n"
    "# HELP sapbert_ready 1 when the linker is loaded.\n# TYPE sapbert_ready gauge\nsapbert_ready 1.0\n"
)


def link_examples() -> dict[str, Any]:
    """Return an answer of /link in each text format, for a note with one mention: the JSON value for FHIR, the text for the others."""
    note = LinkedNote("17", schemas.NOTE, [schemas.FEVER_ROW], 1)
    origin = Origin(__version__, "open", "f" * 64, [("hp.obo", "2025-01-16")], datetime.fromisoformat(_AT).astimezone(timezone.utc))
    made: dict[str, Any] = {"fhir": fhir.bundle([note], origin)}
    for name, write in (("omop", omop.write), ("phenopackets", phenopackets.write), ("bioc", bioc.write)):
        stream = io.StringIO(newline="")
        write([note], origin, stream)
        made[name] = stream.getvalue()
    stream = io.StringIO(newline="")
    comprehend.write([note], origin, stream, lambda concept_id: dict(schemas.FEVER_ROW["codes"]) if concept_id == "C0015967" else {})
    return {**made, "comprehend": stream.getvalue()}


def _content(media_types: dict[str, str], examples: dict[str, Any], files: tuple[str, ...]) -> dict[str, Any]:
    """Return the content of an answer: media type -> schema and the examples of its formats."""
    content: dict[str, Any] = {}
    for name, media_type in media_types.items():
        example = examples.get(name)
        schema = BINARY if name in files else TEXT if isinstance(example, str) else {"type": "object"}
        shown = content.setdefault(media_type.partition(";")[0], {"schema": schema})
        if example is not None:
            shown.setdefault("examples", {})[name] = {"value": example}
    return content


def link_responses() -> Responses:
    """Return the description of the answers of /link in the export formats."""
    return {200: {"content": _content({name: each.media_type for name, each in FORMATS.items()}, link_examples(), FOLDERS)}}


def export_responses() -> Responses:
    """Return the description of the answers of /review/export."""
    return {200: {"content": _content({name: each for name, (_, each) in REVIEW_FORMATS.items()}, REVIEW_EXAMPLES, ("gold",))}}


def metrics_responses() -> Responses:
    """Return the description of the answer of /metrics."""
    return {200: {"content": {"text/plain": {"schema": TEXT, "example": METRICS}}}}
