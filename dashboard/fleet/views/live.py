"""The event stream of open pages."""

import time
from functools import partial

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.access.rights import Right, may
from dashboard.access.sessions import is_over
from dashboard.fleet.state.live import stream as changes
from dashboard.models import Pair


async def stream(request: HttpRequest) -> StreamingHttpResponse | HttpResponse:
    """Server-sent events about one pair that the person sees, or all; requires ASGI. Under WSGI, pages poll."""
    pair = request.GET.get("pair", "")
    if pair and not await Pair.objects.filter(name=pair).aexists():
        raise Http404
    if not hasattr(request, "scope"):
        return HttpResponse("Live updates need an ASGI server.\n", status=501, content_type="text/plain")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    may_go_on = sync_to_async(partial(_is_member_still, request), thread_sensitive=False)
    reported = changes(may_go_on, pair)
    return StreamingHttpResponse(reported, content_type="text/event-stream", headers=headers)


def _is_member_still(request: HttpRequest) -> bool:
    """Whether the session is still valid. A database outage does not end the stream."""
    again = HttpRequest()
    try:
        again.session = type(request.session)(request.session.session_key)
        return may(get_user(again), Right.VIEW) and not is_over(again.session, time.time())
    except DatabaseError:
        return True
