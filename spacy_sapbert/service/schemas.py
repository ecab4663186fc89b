"""The shapes of requests and answers. The OpenAPI description is made from these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

NOTE = "72M c/o CP, no fever. Takes ASA 81."

_TYPE = {"id": "T184", "name": "Sign or Symptom"}
URL = "https://uts.nlm.nih.gov/uts/umls/concept/"
_FEVER = {"id": "C0015967", "name": "Fever", "types": [_TYPE], "url": f"{URL}C0015967"}
_ATTACK = {"id": "C0027051", "name": "Myocardial infarction", "types": [{"id": "T047", "name": "Disease or Syndrome"}], "url": f"{URL}C0027051"}
FEVER_ROW: dict[str, Any] = {  # of NOTE
    "start": 15,
    "end": 20,
    "mention": "fever",
    "label": "DISO",
    "section": "other",
    "status": ["negated"],
    "nested": False,
    "cui": "C0015967",
    "name": "Fever",
    "types": ["T184"],
    "type_names": ["Sign or Symptom"],
    "score": 1.0,
    "probability": 0.97552,
    "candidates": [["C0015967", "Fever", 1.0], ["C0034362", "Q fever", 0.91048]],
    "codes": {"UMLS": ["C0015967"], "HPO": ["HP:0001945"], "SNOMEDCT_US": ["386661006"]},
    "explain": {
        "mention": "fever",
        "long_form": None,
        "linked": True,
        "exact": True,
        "threshold": 0.8,
        "probability": 0.97552,
        "id": "C0015967",
        "name": "Fever",
        "source": "HPO",
        "term_type": "PT",
        "score": 1.0,
        "runner_up": ["C0034362", "Q fever", 0.91048],
        "margin": 0.08952,
        "ties": [],
    },
}


def example_of(value: Any) -> ConfigDict:
    """Return the configuration of a model whose description shows an example."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Refuse fields that are not known, before pydantic does: its error names them, and a name may be text of a note."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            raise PydanticCustomError("unknown_field", "there is a field that is not known. Known: {known}", {"known": ", ".join(cls.model_fields)})
        return given


class LinkSettings(_Request):
    """Settings of the linker for this request. A setting that is left out keeps the value of the service."""

    threshold: float | None = Field(default=None, description="Score that a link must be above.")
    new_words: bool | None = Field(default=None, description="Allow a link to a name that has words which the mention does not have.")
    max_entities_per_mention: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="Maximum number of candidates for each mention."
    )
    target_precision: float | None = Field(
        default=None, description="Set the threshold so that this share of links is right, 0 to 1; null turns it off."
    )
    coverage: float | None = Field(
        default=None, description="Return so many candidates that this share of mentions has its right concept among them, 0 to 1; null turns it off."
    )
    types: list[str] | None = Field(default=None, description="Only find concepts of these semantic types or groups; null: all.", max_length=200)
    vocabularies: list[str] | None = Field(default=None, description="Only find concepts of these vocabularies; null: all.", max_length=200)
    languages: list[str] | None = Field(default=None, description="Only search names in these languages; null: all.", max_length=200)

    def changes(self) -> dict[str, Any]:
        """Return the settings that the request changes, with their values."""
        return self.model_dump(exclude_unset=True)


class TextWithId(_Request):
    """A text and the caller's own id for it. The answer repeats the id."""

    text: str
    id: str = Field(default="", max_length=256)


class LinkRequest(_Request):
    """A text, or several."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": NOTE}, {"texts": [{"id": "17", "text": NOTE}], "settings": {"types": ["DISO"], "threshold": 0.9}}]}
    )
    text: str | None = None
    texts: list[str | TextWithId] | None = None
    settings: LinkSettings = LinkSettings()


class OwnMention(_Request):
    """A span of the text: start is its first character, end the character after its last one. The label is optional."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    label: str = Field(default="", max_length=64)


class MentionsRequest(_Request):
    """A text and the spans in it to link."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": NOTE, "mentions": [{"start": 8, "end": 10, "label": "DISO"}]}]})
    text: str
    mentions: list[OwnMention]
    settings: LinkSettings = LinkSettings()


class LookupRequest(_Request):
    """Mentions to look up, without a text around them, and how many candidates to return for each."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mentions": ["heart attack", "high blood sugar"], "k": 3}]})
    mentions: list[Annotated[str, Field(max_length=1000)]]
    k: int = Field(default=5, ge=1, le=100)


class Mention(BaseModel):
    """A mention and its link, with the fields of a line of `link --format jsonl`."""

    start: int
    end: int
    mention: str
    label: str
    section: str | None
    status: list[str] | None
    nested: bool
    cui: str
    name: str
    types: list[str]
    type_names: list[str]
    score: float | None
    probability: float | None
    candidates: list[tuple[str, str, float]]
    codes: dict[str, list[str]]
    explain: dict[str, Any]


class TextResult(BaseModel):
    """The mentions of one text."""

    id: str
    mentions: list[Mention]


class LinkResponse(BaseModel):
    """The results of the texts, in the order of the request."""

    model_config = example_of({"results": [{"id": "17", "mentions": [FEVER_ROW]}]})
    results: list[TextResult]


class MentionsResponse(BaseModel):
    """The mentions of the request, in its order."""

    model_config = example_of({"mentions": [FEVER_ROW]})
    mentions: list[Mention]


class Kind(BaseModel):
    """A semantic type."""

    id: str
    name: str


class ConceptSummary(BaseModel):
    """A concept in short."""

    id: str
    name: str
    types: list[Kind]
    url: str


class Match(ConceptSummary):
    """A concept, the name by which it was found, and the score of this name."""

    matched: str
    score: float | None


class SearchMatch(Match):
    """A concept that a search found. `by` says how: "id", "name" (an equal name), "beginning" (of a name) or "nearest" (a near name)."""

    by: str


class LookupResult(BaseModel):
    """The candidates of one mention, best first."""

    mention: str
    candidates: list[Match]


class LookupResponse(BaseModel):
    """The results of the mentions, in the order of the request."""

    model_config = example_of({"results": [{"mention": "heart attack", "candidates": [{**_ATTACK, "matched": "Heart attack", "score": 1.0}]}]})
    results: list[LookupResult]


class SearchResponse(BaseModel):
    """Concepts, best first."""

    model_config = example_of({"concepts": [{**_ATTACK, "by": "beginning", "matched": "Heart attack", "score": None}]})
    concepts: list[SearchMatch]


class ConceptName(BaseModel):
    """A name of a concept."""

    text: str
    source: str
    language: str
    term_type: str


class Parent(BaseModel):
    """A parent of a concept."""

    id: str
    name: str


class ConceptResponse(ConceptSummary):
    """All that is known about a concept."""

    model_config = example_of(
        {
            **_FEVER,
            "definition": "Body temperature elevated above the normal range.",
            "names": [{"text": "Fever", "source": "HPO", "language": "en", "term_type": "PT"}],
            "codes": {"UMLS": ["C0015967"], "HPO": ["HP:0001945"]},
            "parents": [{"id": "HP:0004370", "name": "Abnormality of temperature regulation"}],
            "retired_ids": [],
            "others": [],
        }
    )
    definition: str | None
    names: list[ConceptName]
    codes: dict[str, list[str]]
    parents: list[Parent]
    retired_ids: list[str]
    others: list[str]


class State(BaseModel):
    """The state of the service: "ok" if the process is running, "ready" if the linker is loaded."""

    model_config = example_of({"status": "ready"})
    status: Literal["ok", "ready"]


class VersionResponse(BaseModel):
    """Versions, the linker's sources and calibration, its settings, the settings that a request may change, and the limits of the service."""

    model_config = example_of(
        {
            "spacy_sapbert": "0.1.0",
            "components": ["concept_matcher", "sapbert_linker", "clinical_status"],
            "linker": {
                "name": "linker",
                "sources": [{"name": "hp.obo", "kind": "obo", "version": "2024-04-26", "rows": 41000}],
                "counts": {"concepts": 18000, "cuis": 12000, "names": 41000},
                "languages": {"en": 41000},
                "knowledge_base": "24579947922a37ed",
                "encoder": "72a8739cb171cbcc",
                "engine": "AnnoyIndex",
                "ranker": None,
                "calibration": {"fit_on": "gold.spacy (520 documents)", "mentions": 2997},
                "added_names": 0,
                "removed_names": 0,
            },
            "settings": {"threshold": 0.8, "k": 30, "types": None},
            "a_request_may_change": ["threshold", "types"],
            "limits": {"max_body_bytes": 8_000_000, "max_texts": 100, "max_characters": 1_000_000, "max_queue": 256, "timeout": 60.0},
        }
    )
    spacy_sapbert: str
    components: list[str]
    linker: dict[str, Any]
    settings: dict[str, Any]
    a_request_may_change: list[str]
    limits: dict[str, int | float]


class Problem(BaseModel):
    """An error: its code in this package, and a message that says what is wrong and what to do."""

    code: str
    message: str


class ProblemResponse(BaseModel):
    """An answer with a status of 400 or more."""

    error: Problem
