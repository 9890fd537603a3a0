"""Requests that a web page of another host makes by its visitor's browser, which reaches the namespace.

The key of a local namespace may be the one that everybody knows, so that it does not keep such a page out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

SERVICE_DOMAIN = ".servicebus.windows.net"
OWN_SITES = ("none", "same-origin")


def objection(headers: Mapping[str, str], namespace: str, *, is_local: bool) -> str | None:
    """Why a request is refused; None if it is not. `is_local`: the namespace listens on the loopback only."""
    host, origin = _host_of(f"//{headers.get('host', '')}"), headers.get("origin")
    # A page may give the address of this machine to its own name, and is then no other host to the browser.
    if (
        is_local
        and not is_loopback(host)
        and host.removesuffix(SERVICE_DOMAIN) != namespace.lower().removesuffix(SERVICE_DOMAIN)
    ):
        return "The host must be this machine or the namespace."
    if origin is None:
        is_foreign = headers.get("sec-fetch-site", OWN_SITES[0]) not in OWN_SITES
    else:
        is_foreign = not is_loopback(_host_of(origin)) and _host_of(origin) != host
    return "A page of another host may not use a namespace." if is_foreign else None


def is_loopback(name: str) -> bool:
    """Whether an address, or the name of one, can be reached from this machine only."""
    if name == "localhost" or name.endswith(".localhost"):  # which resolves to this machine (RFC 6761)
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
