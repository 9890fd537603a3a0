"""The event stream of open pages."""

import time
from functools import partial

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.access.rights import Right, may
from dashboard.access.sessions import is_over
from dashboard.access.visibility import sees_all, visible_pairs
from dashboard.fleet.state.live import ANYTHING
from dashboard.fleet.state.live import stream as changes
from dashboard.models import Pair


async def stream(request: HttpRequest) -> StreamingHttpResponse | HttpResponse:
    """Server-sent events about one pair that the person sees, or all; requires ASGI. Under WSGI, pages poll.

    Those who see all pairs read which of them have changed.
    """
    pair, names_pairs = request.GET.get("pair", ""), await sync_to_async(sees_all)()
    if pair not in ("", ANYTHING) and not await Pair.objects.filter(name=pair).aexists():
        raise Http404
    if not hasattr(request, "scope"):
        return HttpResponse("Live updates need an ASGI server.\n", status=501, content_type="text/plain")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    may_go_on = sync_to_async(partial(_is_member_still, request, names_pairs), thread_sensitive=False)
    reported = changes(may_go_on, pair, names_pairs=names_pairs)
    return StreamingHttpResponse(reported, content_type="text/event-stream", headers=headers)


def _is_member_still(request: HttpRequest, saw_all: bool) -> bool:
    """Whether the session is still valid, and sees no less. A database outage does not end the stream."""
    again = HttpRequest()
    try:
        again.session = type(request.session)(request.session.session_key)
        user = get_user(again)
        sees_enough = not saw_all or visible_pairs(user) is None
        return sees_enough and may(user, Right.VIEW) and not is_over(again.session, time.time())
    except DatabaseError:
        return True
