"""Limits of request bodies, checked before Django writes a body to disk, which it does for anonymous requests too."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings

Scope = Any
Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
IsKnown = Callable[[list[tuple[bytes, bytes]]], bool]
"""Whether the headers of a request have a valid session or token."""
LARGEST_BYTES = 64 * 1024 * 1024
"""The size limit of an uploaded file."""
FORM_BYTES = 64 * 1024
"""Room for the other fields of the form."""
UPLOADS = ("/costs/reconcile/upload/", "/api/v1/statements")
REASONS = {
    413: ("Request Entity Too Large", "The request is too large."),
    408: ("Request Timeout", "The request did not arrive in time."),
}
ANONYMOUS_S, KNOWN_S = 20.0, 600.0
"""How long a body may take to arrive."""


class Refused(Exception):
    """The body is larger than allowed, or does not arrive."""

    def __init__(self, status: int) -> None:
        self.status = status


class BoundedBodies:
    """An ASGI application before another: it answers 413 where a body is larger than its address takes.

    More than a form is taken only from those who are signed in; and a body that does not arrive in time is given up.
    """

    def __init__(self, application: Application, is_known: IsKnown) -> None:
        self._application, self._is_known = application, is_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        body = _Body(receive, most(scope["path"]), lambda: sync_to_async(self._is_known)(scope["headers"]))
        try:
            await body.expect(_declared_size(scope))
            await self._application(scope, body.receive, send)
        except Refused as refused:  # Django has read the body before it answers anything
            await _refuse(scope, send, refused.status)


class _Body:
    """The body of one request, as it arrives."""

    def __init__(self, receive: Receive, most_bytes: int, is_known: Callable[[], Awaitable[bool]]) -> None:
        self._receive, self._most, self._is_known = receive, most_bytes, is_known
        self._taken, self._may_take = 0, min(FORM_BYTES, most_bytes)
        self._is_whole = False
        self._ends_at = asyncio.get_running_loop().time() + ANONYMOUS_S

    async def expect(self, size: int) -> None:
        """So many bytes are announced, or have come. Raises Refused where they may not."""
        if size > self._most:
            raise Refused(413)
        if size > self._may_take:
            if not await self._is_known():
                raise Refused(413)
            self._may_take = self._most
            self._ends_at += KNOWN_S - ANONYMOUS_S

    async def receive(self) -> Message:
        """The next message; after the body there is only that the client has gone, which has time."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408) from None
        self._taken += len(message.get("body", b""))
        await self.expect(self._taken)
        self._is_whole = not message.get("more_body", False)
        return message


def most(path: str) -> int:
    """The size limit of a body for this path, in bytes."""
    usual = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    return FORM_BYTES + (LARGEST_BYTES if path.endswith(UPLOADS) else usual)


def _declared_size(scope: Scope) -> int:
    """The declared size of the request; 0 without one."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() and len(text) < 20 else 0


async def _refuse(scope: Scope, send: Send, status: int) -> None:
    title, detail = REASONS[status]
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail, "errors": []}
    is_api = "/api/" in scope["path"]
    media = b"application/problem+json" if is_api else b"text/plain"
    text = (json.dumps(problem) if is_api else f"{detail}\n").encode()
    headers = [(b"content-type", media), (b"content-length", b"%d" % len(text)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
