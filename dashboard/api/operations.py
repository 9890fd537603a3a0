"""Operations of declared actions: path, id, summary and description come from the declaration."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.constants import NOT_SET

from dashboard.access.declaration import Action, Operation
from dashboard.api.fields import Body
from dashboard.api.idempotency import ActionResult, Key

A = TypeVar("A", bound=Action)
View = TypeVar("View", bound=Callable[..., dict[str, Any]])


def operation(
    router: Router,
    action: Action,
    *,
    at: Operation | None = None,
    response: type[Schema] = ActionResult,
    auth: Any = NOT_SET,
) -> Callable[[View], View]:
    """A decorator that makes a view the operation of this action, or the additional operation `at` of it."""
    declared = at or action.operation
    if declared is None:
        raise ValueError(f"the action {action.name} declares no operation")

    def register(view: View) -> View:
        added: View = router.post(
            declared.path,
            auth=auth,
            response=response,
            operation_id=declared.id,
            summary=declared.summary,
            description=declared.description,
        )(view)
        return added

    return register


def add_operation(
    router: Router, action: A, body: type[Body], run: Callable[[HttpRequest, A, str, Any, str], dict[str, Any]]
) -> None:
    """Add the operation of an action on a target of a pair: `run` gets request, action, pair, body and key."""

    def view(request: HttpRequest, pair: str, body: Any, key: Key = "") -> dict[str, Any]:
        return run(request, action, pair, body, key)

    view.__annotations__["body"] = body
    operation(router, action)(view)
