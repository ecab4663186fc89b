"""How the OpenAPI description shows answers that report a problem: each status with what it means and an example of its body."""

from __future__ import annotations

from typing import Any

from ..errors import SapbertError, fail
from . import schemas
from .guard import problem_of

Responses = dict[int | str, dict[str, Any]]  # HTTP status -> what FastAPI writes into the description


def no_concept() -> SapbertError:
    """Return the error for a concept that the knowledge base does not have."""
    return fail(
        "E077",
        what="concept",
        advice="Give a CUI, another identifier, or a vocabulary and a code such as MESH:D003924. GET /concepts?query= searches names.",
    )


def _described(status: int, description: str, example: Exception, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    found, body, _ = problem_of(example)
    assert found == status, f"{example} has the status {found}"
    shown = {"model": schemas.ProblemResponse, "description": description, "content": {"application/json": {"example": body}}}
    return {**shown, "headers": headers} if headers else shown


_RETRY = {"Retry-After": {"description": "After how many seconds to try again.", "schema": {"type": "integer"}}}
PROBLEMS: Responses = {
    401: _described(401, "The API key is missing or wrong.", fail("E074")),
    413: _described(413, "The body is too long.", fail("E070", most=8_000_000)),
    422: _described(422, "The request is not valid.", fail("E071", why="give either 'text' or 'texts'.")),
    429: _described(
        429,
        "Too many texts are waiting. The header Retry-After says after how many seconds to try again.",
        fail("E072", waiting=256, most=256, seconds=1),
        _RETRY,
    ),
    503: _described(503, "The linker is not loaded yet, or the service is being stopped.", fail("E075")),
    504: _described(504, "The request took too long.", fail("E073", seconds=60.0)),
}
NO_CONCEPT: Responses = {404: _described(404, "The knowledge base has no such concept.", no_concept())}
REVIEW_PROBLEMS: Responses = {
    **PROBLEMS,
    403: _described(403, "The review of a service on this machine was asked for under another host name.", fail("E085")),
}
NOT_IN_REVIEW: Responses = {404: _described(404, "The review has no such note, mention or event.", fail("E084", what="note"))}
