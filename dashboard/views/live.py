"""The stream open pages listen to."""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from dashboard.live import stream as changes


async def stream(request: HttpRequest) -> StreamingHttpResponse | HttpResponse:
    """Server-sent events under ASGI. Under WSGI there is none, and pages poll."""
    if not hasattr(request, "scope"):
        return HttpResponse("Live updates need an ASGI server.\n", status=501, content_type="text/plain")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(changes(), content_type="text/event-stream", headers=headers)
