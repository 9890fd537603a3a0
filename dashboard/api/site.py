"""The frame of the API: authentication, its document, its addresses. dashboard/routes.py adds the operations."""

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path
from ninja import NinjaAPI

from dashboard.api import problems
from dashboard.api.authentication import EVERYBODY

VERSION = "1.0"
ABOUT = (
    "The data and the actions of the control plane's pages. Send a token as `Authorization: Bearer …`; "
    "a signed-in browser may use its session, with `X-CSRFToken` for every request that is not a GET."
)


class ControlPlaneApi(NinjaAPI):
    """Ninja's API, with problems in the document."""

    def get_openapi_schema(self, **where: Any) -> Any:
        document = super().get_openapi_schema(**where)
        responses, schemas = problems.document()
        document["components"]["schemas"] |= schemas
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"] |= responses
        return document


api = ControlPlaneApi(
    title="Paired namespaces: control plane",
    version=VERSION,
    description=ABOUT,
    auth=EVERYBODY,
    openapi_url="",
    docs_url=None,
    urls_namespace="api-v1",
)
problems.install(api)


@cache
def document(prefix: str) -> Any:
    """The OpenAPI document for addresses with this prefix; cached, because generating it takes a second."""
    import_module("dashboard.routes")  # it adds the operations of the rooms
    return api.get_openapi_schema(path_prefix=prefix)


def operations() -> list[tuple[str, str, str]]:
    """Method, address and description of each operation, from the OpenAPI document."""
    paths = document("/api/v1/")["paths"]
    return [
        (method.upper(), path, str(operation.get("description", "")))
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]


@api.get("/openapi.json", include_in_schema=False, url_name="openapi")
def openapi(request: HttpRequest) -> Any:
    """This API as OpenAPI 3.1."""
    return document(request.path.removesuffix("openapi.json"))


def _machine(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For programs: no redirect to a login, no caching, and problems also for unknown operations."""

    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = view(request, *args, **kwargs)
        if answer.status_code == 405:
            allowed = answer.get("Allow", "")
            answer = problems.answer(405, f"Allowed here: {allowed}.", Allow=allowed)
        answer["Cache-Control"] = "no-store"
        return answer

    answered.login_required = False  # type: ignore[attr-defined]  # the API itself asks who is there
    answered.csrf_exempt = True  # type: ignore[attr-defined]  # Session asks for the token
    return answered


def _unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    return problems.answer(404, "There is no such operation; GET /api/v1/openapi.json lists all of them.")


def urls() -> list[URLPattern | URLResolver]:
    """The addresses of the API; any other address gets a problem, too."""
    patterns, _, _ = api.urls
    known: list[URLPattern | URLResolver] = []
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            pattern.callback = _machine(pattern.callback)
            known.append(pattern)
    return [*known, path("<path:rest>", _machine(_unknown)), path("", _machine(_unknown))]
