"""What tests of the service share: the answers that the OpenAPI description shows, compared with their models and with real answers."""

from __future__ import annotations

import copy
import csv
import io
import json
from typing import Any
from xml.etree import ElementTree

from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from spacy_sapbert.service import schemas
from spacy_sapbert.service.guard import STATUS

TABLES = ("codes", "explain", "settings", "languages", "calibration", "limits")  # their keys are data


def example_of(model: Any) -> Any:
    """Return a copy of the only example of a model."""
    (example,) = model.model_config["json_schema_extra"]["examples"]
    return copy.deepcopy(example)


def check_answers(client: TestClient, beginning: str = "") -> set[tuple[str, str, str]]:
    """Check that every JSON answer of the description has an example, with all fields of its model and no other ones.

    Args:
        client: client of the service.
        beginning: only routes whose path begins so.

    Returns:
        (method, path, status) of each answer.
    """
    checked = set()
    app: Any = client.app
    paths = client.get("/openapi.json").json()["paths"]
    for route in (route for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema):
        if not route.path_format.startswith(beginning):
            continue
        method = min(route.methods).lower()
        for status, answer in paths[route.path_format][method]["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if content is None:
                continue
            if status == "200":
                model: Any = route.response_model
                assert model is not None, route.path_format
                example = example_of(model)
            else:
                example, model = content["example"], schemas.ProblemResponse
                assert example["error"]["message"].startswith(f"[{example['error']['code']}] ")
                assert STATUS[example["error"]["code"]] == int(status)
            assert content["schema"]["$ref"].endswith(f"/{model.__name__}")
            assert model.model_validate_json(json.dumps(example), strict=True).model_dump(mode="json") == example
            checked.add((method, route.path_format, status))
    return checked


def fields(value: Any) -> Any:
    """Return the names of fields, with those of the first item of a list; of tables whose keys are data, only the name is returned."""
    if isinstance(value, list):
        return fields(value[0]) if value else None
    if isinstance(value, dict):
        return {key: None if key in TABLES else fields(each) for key, each in value.items()}
    return None


def shape(media_type: str, text: str) -> Any:
    """Return what must be equal in an example and in a real answer: the columns of a table, the fields of JSON Lines, the elements of XML."""
    if media_type == "application/x-ndjson":
        return next(fields(json.loads(line)) for line in text.splitlines())
    if media_type == "application/xml":
        return {element.tag for element in ElementTree.fromstring(text).iter()}
    rows = [row for row in csv.reader(io.StringIO(text), delimiter="," if media_type == "text/csv" else "\t") if row and row[0][0] != "#"]
    assert len(rows) == 2, rows
    assert len(rows[1]) == len(rows[0])
    return rows[0]
