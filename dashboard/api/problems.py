"""Problem details as in RFC 9457: the format of all error responses."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError, ValidationError
from pydantic import Field

from dashboard.access.audited import ActionError
from dashboard.access.rights import Refused
from dashboard.site import database
from dashboard.site.database import Unavailable
from dashboard.site.redis import RedisError

MEDIA_TYPE = "application/problem+json"
STATUSES = frozenset({400, 401, 403, 404, 409, 413, 422, 429, 503})
log = structlog.get_logger(__name__)


class Fault(Schema):
    """One invalid value in the request."""

    place: list[str | int]
    fault: str


class Problem(Schema):
    """Why the request was not carried out, and what to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Fault] = Field(default_factory=list)


def document() -> tuple[dict[int, Any], dict[str, Any]]:
    """The responses that the OpenAPI document adds to each operation, and the schemas that they refer to.

    Declared to Ninja they would be a model for each operation and status, half of what the process imports.
    """
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[int, Any] = {}
    for status in sorted(STATUSES):
        responses[status] = {"description": HTTPStatus(status).phrase, "content": content}
    return responses, {**schema.pop("$defs"), "Problem": schema}


class ApiError(Exception):
    """An error with a problem as its response."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def answer(status: int, detail: str, errors: Sequence[Fault] = (), **headers: str) -> HttpResponse:
    """The problem as a response; `headers` with `_` for `-`."""
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors))
    response = HttpResponse(json.dumps(problem.model_dump()), status=status, content_type=MEDIA_TYPE)
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = 'Bearer realm="paired namespaces"'
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


def explain(request: HttpRequest, error: Any) -> HttpResponse:
    """The response to an error of an operation. An unexpected error is logged, and its text is not returned."""
    match error:
        case ApiError():
            return answer(error.status, error.detail, (), **error.headers)
        case ValidationError():
            return answer(422, "The request is invalid.", [_fault(each) for each in error.errors])
        case HttpError():
            return answer(error.status_code, _sentence(error))
        case Refused():
            return answer(403, str(error))
        case ActionError():
            return answer(503 if isinstance(error.__cause__, RedisError | Unavailable) else 409, str(error))
        case Unavailable():
            return answer(503, str(error))
        case RedisError():
            return answer(503, "Redis does not answer. Nothing was changed; try again when it is back.")
        case OperationalError() | InterfaceError():
            return answer(503, database.SENTENCE, (), Retry_After=str(database.RETRY_AFTER_S))
        case Http404():
            return answer(404, str(error) or "Not found.")
        case RequestDataTooBig():
            return answer(413, "The request is too large.")
        case SuspiciousOperation():
            return answer(400, "The request cannot be parsed.")
        case _:
            log.exception("an operation of the API failed", path=request.path, method=request.method)
            return answer(500, "An internal error occurred; details are in the log.")


def install(api: NinjaAPI) -> None:
    """Install the handlers for all errors of operations."""
    for kind in (Exception, ValidationError, HttpError, Http404):
        api.add_exception_handler(kind, explain)


def _fault(found: dict[str, Any]) -> Fault:
    """The error found by pydantic, without the value, which may be a misplaced secret."""
    return Fault(place=[str(each) for each in found.get("loc", ())], fault=str(found.get("msg", "")))


def _sentence(error: HttpError) -> str:
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        return "Send a valid token: Authorization: Bearer pns_…"
    return str(error)
