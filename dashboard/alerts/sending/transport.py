"""The HTTP transport of messages: only to checked addresses, within limits.

The name is resolved once, its addresses are checked, and the connection goes to one of these addresses, which prevents
DNS rebinding. Redirects are not followed and proxies are not used.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from dashboard.alerts.sending.addresses import Network, address_of, is_allowed
from dashboard.alerts.sending.channels.base import Post

LIMIT_S = 15.0
CONNECT_S = 5.0
MOST_READ = 64 * 1024
LONGEST_WAIT_S = 3600.0

Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of an attempt. `problem` is a sentence without secrets; empty if the message was accepted."""

    status: int | None = None
    problem: str = ""
    is_permanent: bool = False
    retry_after_s: float | None = None


class Refused(Exception):
    """The destination is not allowed."""


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the resolver's order. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def post(
    request: Post,
    allowed: Sequence[Network],
    *,
    context: ssl.SSLContext | None = None,
    resolver: Resolve = resolve,
    limit_s: float = LIMIT_S,
) -> Answer:
    """Send the request once. Does not raise for errors of the network or the server."""
    until = time.monotonic() + limit_s
    parts = urlsplit(request.url)
    try:
        places = destinations(parts, allowed, resolver)
        return _sent(request, parts, places, context, until)
    except Refused as error:
        return Answer(problem=str(error), is_permanent=True)
    except ssl.SSLCertVerificationError as error:
        return Answer(problem=f"The certificate of {parts.hostname} is not accepted: {error.verify_message}.")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(problem=f"Invalid response from {parts.hostname}: {_named(error)}.")


def destinations(parts: SplitResult, allowed: Sequence[Network], resolver: Resolve) -> list[str]:
    """The allowed addresses of the host. Raises Refused if there are none, OSError for an unknown name."""
    host, port = parts.hostname or "", _port(parts)
    found = resolver(host, port)
    places = [text for text in found if is_allowed(address_of(text), allowed)]
    if not places:
        raise Refused(f"{host} has an address to which messages may not be sent; see ALERT_ALLOWED_NETWORKS.")
    if parts.scheme != "https":
        places = [text for text in places if address_of(text).is_loopback]
        if not places:
            raise Refused(
                f"{host} would be reached without TLS: use https://. Plain http is allowed to this machine only."
            )
    return places


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _sent(
    request: Post, parts: SplitResult, places: Sequence[str], context: ssl.SSLContext | None, until: float
) -> Answer:
    connection = _connected(parts, places, context, until)
    # Each read has its own timeout; a slow handshake or response is cut off at the total limit. The timer gets the
    # socket, because a connection has none any more while the body of a response that ends with it is read.
    timer = threading.Timer(max(0.0, until - time.monotonic()), _cut, (connection.sock,))
    timer.daemon = True
    timer.start()
    try:
        if isinstance(connection.sock, ssl.SSLSocket):
            connection.sock.do_handshake()
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"User-Agent": "paired-namespaces", "Connection": "close", **request.headers}
        connection.request("POST", target, request.body, headers)
        response = connection.getresponse()
        answer = _judged(response.status, response.getheader("Retry-After"))
        with suppress(OSError, http.client.HTTPException):  # the message has its answer
            response.read(MOST_READ)
        return answer
    finally:
        timer.cancel()
        connection.close()


def _judged(status: int, retry_after: str | None) -> Answer:
    if 200 <= status < 300:
        return Answer(status)
    if 300 <= status < 400:
        return Answer(status, f"It answered {status}, a redirect. Redirects are not followed.", is_permanent=True)
    is_permanent = 400 <= status < 500 and status not in (408, 429)
    return Answer(status, f"It answered {status}.", is_permanent=is_permanent, retry_after_s=_seconds(retry_after))


def _seconds(text: str | None) -> float | None:
    """The seconds of Retry-After, if it is a number; at most an hour."""
    return min(float(text), LONGEST_WAIT_S) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _connected(
    parts: SplitResult, places: Sequence[str], context: ssl.SSLContext | None, until: float
) -> http.client.HTTPConnection:
    """A connection to the first reachable address, with the name of the host."""
    host, port = parts.hostname or "", _port(parts)
    failure: OSError = OSError("no address")
    for place in places:
        left = min(CONNECT_S, until - time.monotonic())
        if left <= 0:
            raise TimeoutError("timed out")
        try:
            plain = socket.create_connection((place, port), timeout=left)
        except OSError as error:
            failure = error
            continue
        return _over(plain, parts, host, port, context, until)
    raise failure


def _over(
    plain: socket.socket, parts: SplitResult, host: str, port: int, context: ssl.SSLContext | None, until: float
) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(host, port)
    connection.default_port = 443 if parts.scheme == "https" else 80  # for the Host header
    try:
        plain.settimeout(max(0.1, until - time.monotonic()))
        if parts.scheme == "https":
            secure = context or ssl.create_default_context()
            connection.sock = secure.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        else:
            connection.sock = plain
    except BaseException:
        plain.close()
        raise
    return connection


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # that of a TLS socket would take its state from under a read


def _named(error: Exception) -> str:
    """The error, without parts of the request."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
