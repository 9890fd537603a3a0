"""The tokens of the signed-in person, and of everybody for administrators; and what the API offers."""

import uuid
from collections.abc import Callable, Sequence
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.access import tokens
from dashboard.access.audited import ActionError
from dashboard.access.rights import may
from dashboard.accounts.forms import LIFETIMES, TokenForm
from dashboard.models import ApiToken

Operations = Callable[[], Sequence[tuple[str, str, str]]]
"""Method, address and description of each operation of the API."""


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """The tokens, and the form for a new one."""
    return _page(request, TokenForm())


@require_GET
def api(request: HttpRequest, operations: Operations) -> HttpResponse:
    """The operations of the API, and how to call them."""
    context = {"operations": operations(), "host": _host(request)}
    return render(request, "accounts/api.html", context)


@require_POST
def make(request: HttpRequest) -> HttpResponse:
    """Create a token and show it; it is not shown again."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    given = form.cleaned_data
    request_id = given["request_id"].hex if given["request_id"] else ""
    try:
        row, text = tokens.make(
            _person(request), given["name"], given["scope"], given["days"], timezone.now(), request_id=request_id
        )
    except ActionError as error:
        form.add_error(None, str(error))
        return _page(request, form, status=400)
    return _page(request, TokenForm(), made=row, text=text)


@require_POST
def revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    """Revoke a token immediately."""
    row = tokens.visible_to(_person(request)).filter(prefix=prefix).first()
    if row is None:
        raise Http404
    messages.success(request, tokens.revoke(row, _person(request), timezone.now()).sentence)
    return redirect("tokens")


def _page(
    request: HttpRequest,
    form: TokenForm,
    *,
    made: ApiToken | None = None,
    text: str = "",
    status: int = 200,
) -> HttpResponse:
    now = timezone.now()
    rows = tokens.visible_to(_person(request)).select_related("owner")[:500]
    context = {
        "form": form,
        "scopes": [
            (scope, about) for scope, about in ApiToken.Scope.choices if may(request.user, tokens.RIGHTS[scope])
        ],
        "lifetimes": LIFETIMES,
        "made": made,
        "text": text,
        "rows": [{"token": row, "is_usable": row.is_usable(now)} for row in rows],
        "host": _host(request),
        "request_id": uuid.uuid4(),
    }
    answer = render(request, "accounts/tokens.html", context, status=status)
    answer["Cache-Control"] = "no-store"
    return answer


def _host(request: HttpRequest) -> str:
    """The address of the control plane, as the person reached it."""
    return request.build_absolute_uri("/").rstrip("/")


def _person(request: HttpRequest) -> User:
    return cast(User, request.user)
