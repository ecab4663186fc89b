"""The service in this process: its answers are those of the library, its limits work, and its log has no text."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import logging
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import spacy
from described import check_answers, example_of, fields, shape
from fastapi import FastAPI
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from spacy.language import Language
from spacy.tokens import Doc
from starlette.testclient import TestClient

from spacy_sapbert.corpus.pipeline import load
from spacy_sapbert.doc.own import OWN, Place, trimmed, with_spans
from spacy_sapbert.errors import SapbertError, SapbertWarning, ServerError, fail
from spacy_sapbert.exports import athena
from spacy_sapbert.render import rows as records
from spacy_sapbert.service import schemas
from spacy_sapbert.service.app import create_app
from spacy_sapbert.service.settings import CHANGEABLE, KEY_VARIABLE, ServiceSettings, key_of_environment

pytestmark = pytest.mark.usefixtures("one_thread")

SECONDS = 60
NOTE = "Fevers and a cold. No chest pain.\nTakes aspirin for hypertension."
NOTES = [
    NOTE,
    "",
    "PMH: MI, T2DM, HTN. Mother had a stroke.",
    "Possible pneumonia (CAP); CAP was treated. Sugar sickness since 2001.",
    "Nothing of note.",
    "Émigré with naïve fièvre 🤒, fever and DVT.",
]
BLANK = spacy.blank("en")


class Gate:
    """A component that waits on texts with the word GATE until `open` is set, and raises on texts with BOOM."""

    def __init__(self) -> None:
        self.open, self.reached = threading.Event(), threading.Event()

    def __call__(self, doc: Doc) -> Doc:
        if "GATE" in doc.text:
            self.reached.set()
            assert self.open.wait(SECONDS)
        if "BOOM" in doc.text:
            raise RuntimeError(f"cannot read {doc.text}")  # as components of others may do: the text is in the message
        return doc


GATE = Gate()
if not Language.has_factory("test_gate"):
    Language.component("test_gate", func=lambda doc: GATE(doc))


@pytest.fixture(scope="module")
def pipeline(tiny_linker: Path) -> Language:
    nlp: Language = load(str(tiny_linker))
    nlp.add_pipe("test_gate", first=True)
    return nlp


@pytest.fixture(autouse=True)
def gate() -> Iterator[Gate]:
    """A new gate for each test; it is opened at the end of the test."""
    global GATE
    GATE = Gate()
    yield GATE
    GATE.open.set()


@pytest.fixture(scope="module")
def library(tiny_linker: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return the mentions of a text from the library, with some changed settings of the linker."""
    nlp = load(str(tiny_linker))
    linker: Any = nlp.get_pipe("sapbert_linker")
    as_made = linker.settings

    def link(text: str, **changes: Any) -> list[dict[str, Any]]:
        linker.settings = as_made
        linker.change_settings(**changes)
        return [plain(row) for row in records(nlp(text), linker.kb)]

    return link


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record as the service writes it."""
    row = json.loads(json.dumps(row))
    del row["note"]
    row["explain"].pop("cached", None)
    return row


def ready(client: TestClient) -> TestClient:
    end = time.monotonic() + SECONDS
    while client.get("/ready").status_code != 200:
        assert time.monotonic() < end
    return client


@pytest.fixture(scope="module")
def client(pipeline: Language) -> Iterator[TestClient]:
    """A service with default settings."""
    with TestClient(create_app(lambda: pipeline)) as made:
        yield ready(made)


@pytest.fixture
def with_settings(pipeline: Language) -> Iterator[Callable[..., TestClient]]:
    """Return a function that starts services with other settings."""
    opened = []

    def make(**settings: Any) -> TestClient:
        made = TestClient(create_app(lambda: pipeline, ServiceSettings(**settings)))
        opened.append(made.__enter__())
        return ready(made)

    yield make
    GATE.open.set()
    for made in opened:
        made.__exit__(None, None, None)


def problem(answer: Any, status: int, code: str) -> str:
    """Check the error of an answer and return its message."""
    assert answer.status_code == status, answer.text
    told = schemas.ProblemResponse.model_validate(answer.json()).error
    assert told.code == code
    assert told.message.startswith(f"[{code}] ")
    return told.message


def batcher_of(client: TestClient) -> Any:
    app = client.app
    assert isinstance(app, FastAPI)
    return app.state.service.batcher


# -- links --------------------------------------------------------------------------------------------------------------


def test_links_of_a_text_by_hand(client: TestClient) -> None:
    answer = client.post("/link", json={"text": NOTE})
    assert answer.status_code == 200
    (result,) = answer.json()["results"]
    assert result["id"] == ""
    found = [(m["mention"], m["start"], m["cui"], m["status"]) for m in result["mentions"]]
    assert found == [
        ("Fevers", 0, "C9100027", []),
        ("cold", 13, "C9100020", []),
        ("chest pain", 22, "C9100031", ["negated"]),
        ("aspirin", 40, "C9100053", []),
        ("hypertension", 52, "C9100009", []),
    ]
    assert result["mentions"][4]["codes"] == {"UMLS": ["C9100009"], "ICD10CM": ["I10"]}


def test_links_are_those_of_the_library_in_the_order_of_the_texts(client: TestClient, library: Any) -> None:
    texts = [NOTES[0], *({"id": f"n{i}", "text": text} for i, text in enumerate(NOTES[1:]))]
    answer = client.post("/link", json={"texts": texts})
    schemas.LinkResponse.model_validate(answer.json())
    assert [(r["id"], r["mentions"]) for r in answer.json()["results"]] == [
        ("", library(NOTES[0])),
        *((f"n{i}", library(text)) for i, text in enumerate(NOTES[1:])),
    ]


# -- export formats -----------------------------------------------------------------------------------------------------

TWO = {"texts": [{"id": "n/1", "text": "No fever. Takes aspirin."}, {"id": "7", "text": "Hypertension."}]}
TWICE = {"texts": [{"id": "7", "text": "Hypertension."}] * 2}


def exported(client: TestClient, form: str, media_type: str, body: dict[str, Any] = TWO) -> bytes:
    answer = client.post(f"/link?format={form}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type), answer.text
    return answer.content


def test_fhir_of_a_request_by_hand(client: TestClient) -> None:
    library = pytest.importorskip("fhir.resources.R4B.bundle")
    found = library.Bundle.model_validate_json(exported(client, "fhir", "application/fhir+json"))
    kinds = [entry.resource.get_resource_type() for entry in found.entry]
    assert kinds == ["DocumentReference", "Condition", "MedicationStatement", "Provenance", "DocumentReference", "Condition", "Provenance"]
    assert [entry.resource.identifier[0].value for entry in found.entry if entry.resource.get_resource_type() == "DocumentReference"] == ["n/1", "7"]
    assert found.entry[1].resource.verificationStatus.coding[0].code == "refuted"


def test_the_other_formats_of_a_request_by_hand(client: TestClient) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(client, "omop", "text/csv; charset=utf-8").decode(), newline="")))
    assert [(row["note_id"], row["lexical_variant"], row["term_exists"]) for row in rows] == [
        *(("1", "fever", "N"), ("1", "aspirin", "Y"), ("7", "Hypertension", "Y")),
    ]
    packets = [json.loads(line) for line in exported(client, "phenopackets", "application/x-ndjson").splitlines()]
    assert [packet["subject"]["id"] for packet in packets] == ["n/1", "7"]
    answers = [json.loads(line) for line in exported(client, "comprehend", "application/x-ndjson").splitlines()]
    assert answers[0]["InferRxNorm"]["Entities"][0]["RxNormConcepts"][0]["Code"] == "1191"
    documents = ElementTree.fromstring(exported(client, "bioc", "application/xml").decode()).iter("document")
    assert [document.findtext("id") for document in documents] == ["n/1", "7"]
    with zipfile.ZipFile(io.BytesIO(exported(client, "brat", "application/zip"))) as archive:
        assert archive.namelist() == ["n_1.txt", "n_1.ann", "7.txt", "7.ann", "annotation.conf"]
        assert archive.read("n_1.ann").decode().splitlines()[:3] == ["T1\tDISO 3 8\tfever", "N1\tReference T1 UMLS:C9100027\tfever", "A1\tNegated T1"]
    with zipfile.ZipFile(io.BytesIO(exported(client, "brat", "application/zip", TWICE))) as archive:
        assert archive.namelist() == ["7.txt", "7.ann", "7-2.txt", "7-2.ann", "annotation.conf"]


def test_settings_and_limits_count_for_every_format(client: TestClient) -> None:
    body = {**TWO, "settings": {"types": ["CHEM"]}}
    rows = csv.DictReader(io.StringIO(exported(client, "omop", "text/csv; charset=utf-8", body).decode(), newline=""))
    assert [row["lexical_variant"] for row in rows] == ["aspirin"]
    problem(client.post("/link?format=fhir", json={"texts": []}), 422, "E071")
    problem(client.post("/link?format=pdf", json=TWO), 422, "E071")
    assert client.post("/link?format=json", json=TWO).json() == client.post("/link", json=TWO).json()


def test_concept_ids_of_omop(with_settings: Callable[..., TestClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    head = "concept_id\tvocabulary_id\tstandard_concept\tconcept_code\tinvalid_reason\n"
    (tmp_path / athena.CONCEPT).write_text(head + "35205502\tICD10CM\t\tI10\t\n1112807\tRxNorm\tS\t1191\t\n")
    (tmp_path / athena.RELATIONSHIP).write_text("concept_id_1\tconcept_id_2\trelationship_id\tinvalid_reason\n35205502\t320128\tMaps to\t\n")
    found = exported(with_settings(athena=tmp_path), "omop", "text/csv; charset=utf-8").decode()
    ids = [(row["note_nlp_concept_id"], row["note_nlp_source_concept_id"]) for row in csv.DictReader(io.StringIO(found, newline=""))]
    assert ids == [("0", "0"), ("1112807", "1112807"), ("320128", "35205502")]


CHANGES: list[dict[str, Any]] = [
    {},
    {"types": ["T033"]},
    {"types": ["DISO"], "threshold": 0.95},
    {"vocabularies": ["ICD10CM"]},
    {"max_entities_per_mention": 1},
    {"types": None, "new_words": True},
]


def rounded(found: Any) -> Any:
    """Return records with numbers rounded to three decimals."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return round(found, 3) if isinstance(found, float) else found


def test_whatever_else_is_in_the_batch_links_are_those_of_the_library(client: TestClient, library: Any, gate: Gate) -> None:
    asked = [(text, changes) for text in NOTES for changes in CHANGES]
    wanted = [library(text, **changes) for text, changes in asked]
    with ThreadPoolExecutor(len(asked) + 1) as pool:
        first = pool.submit(client.post, "/link", json={"text": "GATE"})
        assert gate.reached.wait(SECONDS)
        futures = [pool.submit(client.post, "/link", json={"text": text, "settings": changes}) for text, changes in asked]
        while batcher_of(client).waiting < len(asked):  # wait until all are in the queue, so that they are linked together
            assert not first.done()
        gate.open.set()
        got = [future.result(SECONDS).json()["results"][0]["mentions"] for future in futures]
    assert rounded(got) == rounded(wanted)  # the last bits of a vector depend on its batch
    sizes = {s.labels["le"]: s.value for s in metric(client, "sapbert_batch_size") if s.name.endswith("_bucket")}
    assert sizes["+Inf"] > sizes["8.0"]  # some batches had more than eight texts


def test_settings_of_a_request_are_gone_with_it(client: TestClient, library: Any) -> None:
    only = client.post("/link", json={"text": NOTE, "settings": {"types": ["CHEM"]}}).json()["results"][0]["mentions"]
    assert [m["mention"] for m in only if m["cui"] != "NIL"] == ["aspirin"]
    assert client.post("/link", json={"text": NOTE}).json()["results"][0]["mentions"] == library(NOTE)


def test_names_that_are_added_meanwhile_count_for_all_settings(tiny_linker: Path) -> None:
    nlp = load(str(tiny_linker))
    linker: Any = nlp.get_pipe("sapbert_linker")
    with TestClient(create_app(lambda: nlp)) as client:
        ready(client)
        asked = {"text": "The sugar is high.", "mentions": [{"start": 4, "end": 9}], "settings": {"threshold": 0.9}}
        before = client.post("/mentions:link", json=asked).json()["mentions"][0]
        linker.add_alias("C9100007", "sugar")
        after = client.post("/mentions:link", json=asked).json()["mentions"][0]
    assert (before["cui"], after["cui"], after["score"]) == ("NIL", "C9100007", 1.0)


# -- own spans ----------------------------------------------------------------------------------------------------------


def test_own_spans_keep_their_places(client: TestClient) -> None:
    text = "No chest pain/SOB;\n on  aspirin81mg 🤒fever."
    spans = {"chest pain": "DISO", "pain": "", "SOB": "DISO", "  aspirin": "CHEM", "aspirin": "", "fever": "DISO", "zzz": ""}
    places = [(text.index(span), text.index(span) + len(span), label) for span, label in spans.items() if span != "zzz"]
    mentions = [{"start": start, "end": end, "label": label} for start, end, label in places]
    answer = client.post("/mentions:link", json={"text": text, "mentions": mentions})
    found = schemas.MentionsResponse.model_validate(answer.json()).mentions
    assert [(m.mention, m.label, m.cui) for m in found] == [
        ("chest pain", "DISO", "C9100031"),
        ("pain", "", "NIL"),
        ("SOB", "DISO", "C9100030"),
        ("aspirin", "CHEM", "C9100053"),  # white space at the ends is removed
        ("aspirin", "", "C9100053"),
        ("fever", "DISO", "C9100027"),
    ]
    assert [text[m.start : m.end] for m in found] == [m.mention for m in found]
    assert [m.status for m in found][:2] == [["negated"], ["negated"]]


@given(st.text(max_size=40), st.data())
@hypothesis_settings(max_examples=100, deadline=None)
def test_any_span_is_found_again_in_the_same_text(text: str, data: st.DataObject) -> None:
    ends = st.integers(0, len(text))
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=6))
    places = [place for a, b in pairs if (place := trimmed(text, Place(min(a, b), max(a, b)))).start < place.end]
    doc = with_spans(BLANK, text, places)
    assert doc.text == text
    assert [(span.start_char, span.end_char) for span in doc.spans[OWN]] == [(p.start, p.end) for p in dict.fromkeys(places)]


@pytest.mark.parametrize("place", [(0, 0), (3, 2), (0, 100), (1, 2)], ids=str)
def test_spans_that_are_none(client: TestClient, place: tuple[int, int]) -> None:
    asked = {"text": "a b", "mentions": [{"start": place[0], "end": place[1]}]}
    assert f"{place[0]}-{place[1]}" in problem(client.post("/mentions:link", json=asked), 422, "E071")


# -- lookup and concepts ------------------------------------------------------------------------------------------------


def test_lookup_is_that_of_the_library(client: TestClient, pipeline: Language) -> None:
    linker: Any = pipeline.get_pipe("sapbert_linker")
    names = ["heart attack", "high sugar", "!"]
    answer = client.post("/lookup", json={"mentions": names, "k": 3})
    results = schemas.LookupResponse.model_validate(answer.json()).results
    assert [r.mention for r in results] == names
    wanted = [[c.concept_id for c in candidates[:3]] for candidates in linker.candidate_generator(names, 30)]
    assert [[c.id for c in r.candidates] for r in results] == wanted
    first = results[0].candidates[0]
    assert (first.id, first.name, first.matched, first.score) == ("C9100003", "myocardial infarction", "heart attack", 1.0)
    assert results[2].candidates == []


@pytest.mark.parametrize("asked", ["C9100007", "ICD10CM:E11.9"])
def test_a_concept_by_id_and_by_code(client: TestClient, asked: str) -> None:
    found = schemas.ConceptResponse.model_validate(client.get(f"/concepts/{asked}").json())
    assert (found.id, found.name, found.definition) == ("C9100007", "type 2 diabetes mellitus", "Insulin is there but does too little.")
    assert {name.text for name in found.names} >= {"type 2 diabetes mellitus", "adult-onset diabetes", "T2DM", "sugar sickness"}
    assert found.types == [schemas.Kind(id="T047", name="Disease or Syndrome")]
    assert found.codes["ICD10CM"] == ["E11.9"]


def test_a_concept_has_its_parents_with_names(client: TestClient) -> None:
    assert client.get("/concepts/C9100003").json()["parents"] == [{"id": "C9100001", "name": "heart disease"}]


def test_unknown_concepts_and_routes(client: TestClient) -> None:
    assert "/concepts?query=" in problem(client.get("/concepts/C0000000"), 404, "E077")
    assert "/openapi.json" in problem(client.get("/nothing"), 404, "E077")
    problem(client.get("/link"), 405, "E077")


@pytest.mark.parametrize(
    ("query", "first", "by"),
    [("C9100010", "C9100010", "id"), ("ICD10CM:J18.9", "C9100010", "id"), ("MI", "C9100003", "name"), ("pneum", "C9100010", "beginning")],
)
def test_search_of_concepts(client: TestClient, query: str, first: str, by: str) -> None:
    found = schemas.SearchResponse.model_validate(client.get("/concepts", params={"query": query, "limit": 4}).json()).concepts
    assert (found[0].id, found[0].by) == (first, by)
    assert len({each.id for each in found}) == len(found) == 4


def test_search_finds_both_meanings_of_a_name_and_near_names(client: TestClient) -> None:
    found = client.get("/concepts", params={"query": "cold", "limit": 3}).json()["concepts"]
    assert {each["id"] for each in found[:2]} == {"C9100020", "C9100029"}
    near = client.get("/concepts", params={"query": "pain of the chest"}).json()["concepts"]
    assert ("C9100031", "nearest") in [(each["id"], each["by"]) for each in near]


# -- state --------------------------------------------------------------------------------------------------------------


def metric(client: TestClient, name: str) -> list[Any]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return [sample for family in families if family.name == name for sample in family.samples]


def total(client: TestClient, name: str, **labels: str) -> float:
    samples = [s for s in metric(client, name) if s.name == f"{name}_total"]
    return float(sum(s.value for s in samples if labels.items() <= s.labels.items()))


def test_metrics_count_what_was_done(with_settings: Callable[..., TestClient]) -> None:
    client = with_settings()
    client.post("/link", json={"texts": ["fever and qwertz", "aspirin"]})
    client.post("/link", json={"text": 1})
    client.get("/concepts/C9100027")
    assert total(client, "sapbert_texts") == 2
    assert total(client, "sapbert_characters") == len("fever and qwertz") + len("aspirin")
    assert total(client, "sapbert_mentions_linked") == 2
    assert total(client, "sapbert_requests", route="/link", status="200") == 1
    assert total(client, "sapbert_requests", route="/link", status="422") == 1
    assert total(client, "sapbert_requests", route="/concepts/{concept_id:path}") == 1
    assert {s.name: s.value for s in metric(client, "sapbert_ready")} == {"sapbert_ready": 1}
    assert {s.name: s.value for s in metric(client, "sapbert_waiting")} == {"sapbert_waiting": 0}


def test_version_says_what_links_and_no_path(client: TestClient, tiny_linker: Path) -> None:
    said = client.get("/version").json()
    assert [source["name"] for source in said["linker"]["sources"]] == ["tiny_clinic.tsv", "tiny.obo"]
    assert said["linker"]["calibration"] is None
    assert said["components"][-2:] == ["sapbert_linker", "clinical_status"]
    assert (said["limits"]["max_texts"], said["settings"]["threshold"]) == (100, 0.8)
    assert str(tiny_linker.parent) not in json.dumps(said)


def test_version_has_the_settings_that_links_depend_on_and_no_request_changes(with_settings: Callable[..., TestClient]) -> None:
    said = with_settings(allow=["types"]).get("/version").json()
    assert said["settings"] == {"exact_match": True, "k": 30, "rank": None, "rerank": None, "threshold": 0.8, "types": None}
    assert said["a_request_may_change"] == ["types"]


@pytest.mark.parametrize(
    ("content", "kind", "why"),
    [
        (b'{"text": "fever"', "application/json", "the body is not JSON (at character 16)."),
        (b"\xff\xfe", "application/json", "the body is not JSON (at character 0)."),
        (b'{"text": "fever"}', "application/x-www-form-urlencoded", "send the body as JSON, with the header `Content-Type: application/json`."),
        (b'{"text": "fever"}', "text/plain", "send the body as JSON, with the header `Content-Type: application/json`."),
        (b"[]", "application/json; charset=utf-8", "the body must be a JSON object, as in /openapi.json."),
    ],
)
def test_a_body_that_is_not_read_as_json(client: TestClient, content: bytes, kind: str, why: str) -> None:
    told = problem(client.post("/link", content=content, headers={"content-type": kind}), 422, "E071")
    assert told == f"[E071] The request is not valid: {why}"


def test_monitors_may_ask_with_head(client: TestClient) -> None:
    for path in ("/health", "/ready", "/version"):
        answer, got = client.head(path), client.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(got.content))
    assert client.head("/link").status_code == 405  # as GET
    assert "head" not in client.get("/openapi.json").json()["paths"]["/health"]


def test_before_the_linker_is_loaded_only_health_answers(pipeline: Language, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    def make() -> Language:
        assert gate.open.wait(SECONDS)
        return pipeline

    caplog.set_level(logging.INFO)
    with TestClient(create_app(make)) as client:
        assert client.get("/health").json() == {"status": "ok"}
        for answer in (client.get("/ready"), client.post("/link", json={"text": NOTE}), client.get("/concepts/C9100027"), client.get("/version")):
            problem(answer, 503, "E075")
        gate.open.set()
        assert ready(client).get("/ready").json() == {"status": "ready"}
    assert {record.levelname for record in caplog.records if "503 E075" in record.getMessage()} == {"INFO"}  # it is no fault


def test_a_linker_that_cannot_be_loaded_is_told_of() -> None:
    def make() -> Language:
        raise fail("E001", name="nowhere", known="open", more="")

    told: list[Exception] = []
    with TestClient(create_app(make, failed=told.append)) as client:
        end = time.monotonic() + SECONDS
        while not told:
            assert time.monotonic() < end
        problem(client.get("/ready"), 503, "E075")
    assert isinstance(told[0], SapbertError)
    assert told[0].code == "E001"


def test_the_examples_of_the_description_are_answered(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    asked = 0
    for path, methods in described["paths"].items():
        if "post" in methods:
            name = methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            for example in described["components"]["schemas"][name]["examples"]:
                assert client.post(path, json=example).status_code == 200
                asked += 1
    assert asked == 4
    assert client.get("/docs").status_code == 404  # the page would load scripts from another site


def test_each_answer_has_an_example_of_its_model(client: TestClient) -> None:
    checked = check_answers(client)
    answered = {"/link", "/mentions:link", "/lookup", "/concepts", "/concepts/{concept_id}", "/health", "/ready", "/version"}
    assert {path for _, path, status in checked if status == "200"} == answered
    assert {path for _, path, status in checked if status == "404"} == {"/concepts/{concept_id}"}


def test_an_example_has_the_fields_of_a_real_answer(client: TestClient) -> None:
    asked = {
        schemas.LinkResponse: client.post("/link", json={"text": "No fever."}),
        schemas.MentionsResponse: client.post("/mentions:link", json={"text": "No fever.", "mentions": [{"start": 3, "end": 8}]}),
        schemas.LookupResponse: client.post("/lookup", json={"mentions": ["fever"]}),
        schemas.SearchResponse: client.get("/concepts", params={"query": "fever"}),
        schemas.ConceptResponse: client.get("/concepts/C9100027"),
        schemas.VersionResponse: client.get("/version"),
    }

    for model, answer in asked.items():
        found, example = fields(answer.json()), fields(example_of(model))
        for name in ("parents",):  # the concept of the test has none
            found.pop(name, None)
            example.pop(name, None)
        assert found == example, model


def test_each_export_has_an_example_like_a_real_answer(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]["/link"]["post"]["responses"]["200"]["content"]
    shown = {name: (kind, one["value"]) for kind, each in described.items() for name, one in each.get("examples", {}).items()}
    assert set(shown) == {"fhir", "omop", "phenopackets", "bioc", "comprehend"}
    assert described["application/zip"] == {"schema": {"type": "string", "format": "binary"}}  # brat
    assert described["application/fhir+json"]["schema"] == {"type": "object"}
    for name, (kind, example) in shown.items():
        answer = client.post("/link", params={"format": name}, json={"texts": [{"id": "17", "text": "No fever."}]})
        assert answer.headers["content-type"].partition(";")[0] == kind
        if name == "fhir":
            kinds = [[entry["resource"]["resourceType"] for entry in bundle["entry"]] for bundle in (answer.json(), example)]
            assert kinds[0] == kinds[1] == ["DocumentReference", "Condition", "Provenance"]
        elif name == "phenopackets":  # the linker of the test has no HPO
            assert set(json.loads(answer.text)) <= set(json.loads(example))
        elif name == "comprehend":  # it has other codes
            assert json.loads(example).keys() == json.loads(answer.text).keys()
        else:
            assert shape(kind, answer.text) == shape(kind, example)


def test_metrics_and_all_parameters_are_described(with_settings: Callable[..., TestClient], tmp_path: Path) -> None:
    client = with_settings(review=tmp_path / "review.sqlite")
    paths = client.get("/openapi.json").json()["paths"]
    assert [
        (path, given["name"])
        for path, of in paths.items()
        for each in of.values()
        for given in each.get("parameters", [])
        if not given["description"]
    ] == []
    example = paths["/metrics"]["get"]["responses"]["200"]["content"]["text/plain"]["example"]
    names = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}
    assert {family.name for family in text_string_to_metric_families(example)} <= names


# -- limits -------------------------------------------------------------------------------------------------------------


def test_limits_of_a_request(with_settings: Callable[..., TestClient]) -> None:
    client = with_settings(max_body_bytes=500, max_texts=3, max_characters=100)
    assert "500 bytes" in problem(client.post("/link", json={"text": "x" * 600}), 413, "E070")
    problem(client.post("/link", content=(b"x" * 100 for _ in range(10))), 413, "E070")  # sent in chunks, so the length is not known
    problem(client.post("/link", content=b"{}", headers=[(b"content-length", b"9" * 5000)]), 413, "E070")
    problem(client.post("/link", content=b"{}", headers=[(b"content-length", b"\xb2")]), 422, "E071")  # "²" is no length
    assert "101 characters" in problem(client.post("/link", json={"text": "x" * 101}), 422, "E071")
    assert client.post("/link", json={"text": "x" * 100}).status_code == 200
    assert "4 texts" in problem(client.post("/link", json={"texts": ["x"] * 4}), 422, "E071")
    assert "0 texts" in problem(client.post("/link", json={"texts": []}), 422, "E071")
    assert "4 mentions" in problem(client.post("/lookup", json={"mentions": ["x"] * 4}), 422, "E071")
    assert client.post("/link", json={"texts": ["x"] * 3}).status_code == 200


def test_a_full_queue_says_when_to_come_again(with_settings: Callable[..., TestClient], gate: Gate) -> None:
    client = with_settings(max_queue=3, max_texts=3)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.post, "/link", json={"text": "GATE fever"})
        assert gate.reached.wait(SECONDS)
        second = pool.submit(client.post, "/link", json={"texts": ["fever"] * 3})
        while batcher_of(client).waiting < 3:
            assert not second.done()
        refused = client.post("/link", json={"text": "fever"})
        problem(refused, 429, "E072")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        gate.open.set()
        assert first.result(SECONDS).status_code == 200  # an accepted request is answered
        assert len(second.result(SECONDS).json()["results"]) == 3
    assert client.post("/link", json={"text": "fever"}).status_code == 200


def test_a_request_that_takes_too_long(with_settings: Callable[..., TestClient], gate: Gate) -> None:
    client = with_settings(timeout=0.2)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/link", json={"text": "GATE"})
        assert gate.reached.wait(SECONDS)
        problem(client.post("/link", json={"text": "fever"}), 504, "E073")
        problem(first.result(SECONDS), 504, "E073")
    gate.open.set()
    assert client.post("/link", json={"text": "fever"}).status_code in (200, 504)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body"),
        (b"{", "JSON"),
        (b'{"text": "\xff"}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"null", "the body"),
        (b'{"text": 1}', "text: "),
        (b'{"text": "a", "texts": ["a"]}', "either"),
        (b"{}", "either"),
        (b'{"text": "a", "textt": "b"}', "valid: the body: there is a field that is not known. Known: text, texts, settings."),
        (b'{"text": "\\ud800"}', "surrogate"),
        (b'{"text": "a", "settings": {"k": 3}}', "valid: settings: there is a field that is not known. Known: threshold, new_words, max_ent"),
        (b'{"text": "a", "settings": {"threshold": "high"}}', "settings.threshold: "),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_requests_that_are_not_valid(client: TestClient, body: bytes, said: str) -> None:
    assert said in problem(client.post("/link", content=body, headers={"content-type": "application/json"}), 422, "E071")


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"types": ["T999"]}, "E104"), ({"vocabularies": ["ICD9"]}, "E105"), ({"threshold": 7}, "E002"), ({"target_precision": 0.9}, "E010")],
    ids=str,
)
def test_settings_that_are_wrong(client: TestClient, changes: dict[str, Any], code: str) -> None:
    problem(client.post("/link", json={"text": NOTE, "settings": changes}), 422, code)
    assert client.post("/link", json={"text": NOTE}).status_code == 200


def test_settings_that_are_not_allowed(with_settings: Callable[..., TestClient]) -> None:
    client = with_settings(allow=["types"])
    assert "allows: types" in problem(client.post("/link", json={"text": NOTE, "settings": {"threshold": 0.5}}), 422, "E076")
    assert client.post("/link", json={"text": NOTE, "settings": {"types": ["DISO"]}}).status_code == 200


def test_an_error_in_one_text_does_not_touch_the_others(client: TestClient, gate: Gate, library: Any, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.post, "/link", json={"text": "GATE"})
        assert gate.reached.wait(SECONDS)
        good = pool.submit(client.post, "/link", json={"text": NOTE})
        bad = pool.submit(client.post, "/link", json={"texts": ["fever", "BOOM marzipan"]}, headers={"x-request-id": "request-17"})
        while batcher_of(client).waiting < 3:
            assert not first.done()
        gate.open.set()
        assert good.result(SECONDS).json()["results"][0]["mentions"] == library(NOTE)
        answer = bad.result(SECONDS)
    message = problem(answer, 500, "E078")
    assert "RuntimeError" in message
    assert answer.headers["x-request-id"] == "request-17"
    assert "marzipan" not in message + caplog.text
    assert any("request-17 failed: RuntimeError" in record.getMessage() for record in caplog.records)
    (line,) = [record for record in caplog.records if record.getMessage().startswith("request-17 POST /link 500")]
    assert line.levelno == logging.ERROR


def test_an_answer_that_a_server_of_the_linker_fails_is_an_error_of_the_log(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def down(*_: Any) -> Doc:
        raise fail("E233", ServerError, collection="names", uri="http://milvus")

    monkeypatch.setattr(Gate, "__call__", down)
    with caplog.at_level(logging.INFO):
        problem(client.post("/link", json={"text": "fever"}, headers={"x-request-id": "down"}), 503, "E233")
    assert [record.levelname for record in caplog.records if record.getMessage().startswith("down POST /link 503 E233")] == ["ERROR"]


# -- access -------------------------------------------------------------------------------------------------------------


def test_the_key(with_settings: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, " sésame\n")
    client = with_settings(api_key=key_of_environment())
    for headers in ({}, {"x-api-key": "sesame"}, {"authorization": "Basic s\xe9same".encode("latin-1").decode("latin-1")}):
        refused = client.post("/link", json={"text": NOTE}, headers={key: value.encode() for key, value in headers.items()})
        problem(refused, 401, "E074")
        assert refused.headers["www-authenticate"] == "Bearer"
    problem(client.get("/metrics"), 401, "E074")
    problem(client.get("/openapi.json"), 401, "E074")
    plain_key = with_settings(api_key="sesame")
    for header in ({"x-api-key": "sesame"}, {"authorization": "Bearer sesame"}, {"authorization": "bearer  sesame"}):
        assert plain_key.post("/link", json={"text": NOTE}, headers=header).status_code == 200
    assert client.get("/health").status_code == client.get("/ready").status_code == 200


def test_pages_of_other_origins(client: TestClient, with_settings: Callable[..., TestClient]) -> None:
    origin = {"origin": "https://notes.example.org"}
    assert "access-control-allow-origin" not in client.post("/link", json={"text": NOTE}, headers=origin).headers
    allowing = with_settings(cors_origins=["https://notes.example.org"], api_key="sesame")
    preflight = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    assert allowing.options("/link", headers=preflight).status_code == 200
    answer = allowing.post("/link", json={"text": NOTE}, headers=origin)  # the page can read the error
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, "https://notes.example.org")
    assert "access-control-allow-origin" not in allowing.get("/health", headers={"origin": "https://other.example.org"}).headers


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"port": 70000}, "port"),
        ({"batch_size": 0}, "batch_size"),
        ({"timeout": 0}, "timeout"),
        ({"max_queue": 5, "max_texts": 6}, "max_queue"),
        ({"allow": ["k"]}, "threshold"),
    ],
    ids=str,
)
def test_settings_of_the_service_that_are_wrong(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SapbertError, match=rf"^\[E002\].*{said}"):
        ServiceSettings(**settings)


@pytest.mark.parametrize(
    ("host", "key", "warned"),
    [("127.0.0.1", "", False), ("::1", "", False), ("localhost", "", False), ("0.0.0.0", "", True), ("0.0.0.0", "k", False)],
)
def test_listening_to_others_without_a_key_is_warned_of(host: str, key: str, warned: bool, recwarn: pytest.WarningsRecorder) -> None:
    ServiceSettings(host=host, api_key=key).check_reach()
    assert [w.message.code for w in recwarn if isinstance(w.message, SapbertWarning)] == (["W020"] if warned else [])


def test_every_setting_that_can_be_changed_is_in_the_request() -> None:
    assert tuple(schemas.LinkSettings.model_fields) == CHANGEABLE


# -- the log ------------------------------------------------------------------------------------------------------------


def test_the_log_has_no_text(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    word = "marzipan"
    with caplog.at_level(logging.DEBUG):
        client.post("/link", json={"text": f"fever and {word}"})
        client.post("/link", json={"text": f"fever and {word}", "settings": {"types": [word]}})
        client.post("/link", content=f'{{"text": "{word}'.encode(), headers={"content-type": "application/json"})
        client.post("/lookup", json={"mentions": [word]})
        client.get("/concepts", params={"query": word})
        client.get(f"/concepts/{word}")
        client.get(f"/{word}")
        client.get("/health", headers={"x-request-id": f"{word} {word}"})  # not an id
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("spacy_sapbert")]
    assert len(ours) == 8
    assert all(word not in record.getMessage() for record in caplog.records if record.name != "httpx")  # without the log of the client
    assert sum("POST /link 200" in line for line in ours) == 1
    assert [line.split(",")[0].split(" ", 1)[1] for line in ours[1:3]] == ["POST /link 422 E104", "POST /link 422 E071"]


def test_a_client_that_hangs_up_is_not_waited_for(client: TestClient, gate: Gate) -> None:
    app: Any = client.app
    body = json.dumps({"texts": ["fever", "cold"]}).encode()

    async def ask_and_go() -> list[Any]:
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            if (message := next(messages, None)) is not None:
                return message
            while batcher_of(client).waiting < 2:
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"x-request-id", b"gone")]
        scope = {"type": "http", "method": "POST", "path": "/link", "raw_path": b"/link", "query_string": b"", "headers": headers}
        await app({**scope, "scheme": "http", "server": ("test", 80), "client": ("test", 1), "root_path": "", "http_version": "1.1"}, receive, send)
        return sent

    before = total(client, "sapbert_requests", status="499")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/link", json={"text": "GATE"})
        assert gate.reached.wait(SECONDS)
        assert asyncio.run(ask_and_go()) == []
        assert total(client, "sapbert_requests", status="499") == before + 1
        gate.open.set()
        assert first.result(SECONDS).status_code == 200
    assert client.post("/link", json={"text": "fever"}).status_code == 200
    assert batcher_of(client).waiting == 0
