"""Whom a request comes from, where a proxy passes it on: X-Forwarded-For is believed from named proxies only.

Anybody can send the header. Each proxy on the way appends the address that it was asked from, so that the last entries
are true if the proxies that wrote them are: as many as PROXY_HOPS says, each of them named in TRUSTED_PROXIES.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from django.core.exceptions import ImproperlyConfigured

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
Application = Callable[[Any, Any, Any], Awaitable[None]]
HERE = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SCHEMES = ("http", "https")
UVICORNS_DEFAULT = "127.0.0.1"
EVERYBODY = ["0.0.0.0/0", "::/0"]


def named_networks(setting: str, texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks and addresses that a setting names. Raises ImproperlyConfigured."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError:
        raise ImproperlyConfigured(
            f"{setting} cannot be read: give addresses or networks such as 10.1.2.0/24, separated by commas."
        ) from None


def is_within(address: str, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the networks; False for what is no address."""
    known = _address(address)
    return known is not None and any(known.version == one.version and known in one for one in networks)


def client_of(peer: str, forwarded: str, proxies: Iterable[Network], hops: int) -> str:
    """The address of the client: of the last ``hops`` entries the first, if the peer and the others are proxies."""
    named = tuple(proxies)
    way = [entry.strip() for entry in forwarded.split(",")]
    if len(way) < hops or not all(is_within(one, named) for one in (peer, *way[len(way) - hops + 1 :])):
        return peer
    known = _address(way[-hops])
    return peer if known is None else str(known)


class ForwardedClients:
    """An ASGI application before another, which then knows the client and the scheme that it used."""

    def __init__(self, application: Application, proxies: Iterable[Network], hops: int) -> None:
        self._application, self._proxies, self._hops = application, tuple(proxies), hops

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope.get("client"):
            scope = {**scope, **self._known(scope)}
        await self._application(scope, receive, send)

    def _known(self, scope: Any) -> dict[str, Any]:
        peer = str(scope["client"][0])
        client = client_of(peer, _header(scope, b"x-forwarded-for"), self._proxies, self._hops)
        scheme = _header(scope, b"x-forwarded-proto")
        is_believed = scheme in SCHEMES and is_within(peer, (*self._proxies, *HERE))
        port = scope["client"][1] if client == peer else 0
        return {"client": (client, port), "scheme": scheme if is_believed else scope["scheme"]}


def loading_server() -> Any:
    """The configuration of the uvicorn that is loading this application now; None where none does."""
    frame: Any = sys._getframe()
    while frame is not None:
        config = frame.f_locals.get("self")
        if type(config).__module__ == "uvicorn.config":
            return config
        frame = frame.f_back
    return None


def disregard_trust_of(server: Any) -> list[str]:
    """Turn off what uvicorn itself makes of these headers: by default it believes everybody on this machine.

    Returns the proxies that its option `--forwarded-allow-ips` names.
    """
    if server is None or not server.proxy_headers:
        return []
    server.proxy_headers = False  # it has not looked at this yet
    allowed = server.forwarded_allow_ips
    named = allowed if isinstance(allowed, str) else ",".join(allowed)
    return EVERYBODY if named == "*" else [one.strip() for one in named.split(",") if one != UVICORNS_DEFAULT]


def _header(scope: Any, name: bytes) -> str:
    values = [value for known, value in scope["headers"] if known == name]
    return b",".join(values).decode("latin-1").strip()


def _address(text: str) -> Address | None:
    """Of an entry such as 10.0.0.1, 10.0.0.1:4711, ::1 or [::1]:4711."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    host = host.partition(":")[0] if host.count(":") == 1 else host
    try:
        known = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return known.ipv4_mapped or known if isinstance(known, IPv6Address) else known
