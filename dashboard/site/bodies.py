"""Limits of request bodies, checked before Django writes a body to disk, which it does for anonymous requests too."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

Scope = Any
Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
LARGEST_BYTES = 64 * 1024 * 1024
"""The size limit of an uploaded file."""
FORM_BYTES = 64 * 1024
"""Room for the other fields of the form."""
UPLOADS = ("/costs/reconcile/upload/", "/api/v1/statements")
PAGE = b"text/plain", b"The request is too large.\n"
PROBLEM = (
    b"application/problem+json",
    b'{"type": "about:blank", "title": "Request Entity Too Large", "status": 413, '
    b'"detail": "The request is too large.", "errors": []}',
)


class TooLarge(Exception):
    """The body exceeds its limit."""


class BoundedBodies:
    """ASGI middleware that responds 413 if a body exceeds the limit of its address."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        left = most(scope["path"])
        if _declared_size(scope) > left:
            await _refuse(scope, send)
            return

        async def bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooLarge
            return message

        try:
            await self._application(scope, bounded, send)
        except TooLarge:  # Django reads the whole body before it responds
            await _refuse(scope, send)


def most(path: str) -> int:
    """The size limit of a body for this path, in bytes."""
    usual = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    return FORM_BYTES + (LARGEST_BYTES if path.endswith(UPLOADS) else usual)


def _declared_size(scope: Scope) -> int:
    """The declared size of the request; 0 without one."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() and len(text) < 20 else 0


async def _refuse(scope: Scope, send: Send) -> None:
    media, text = PROBLEM if "/api/" in scope["path"] else PAGE
    headers = [(b"content-type", media), (b"content-length", b"%d" % len(text)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": text})
