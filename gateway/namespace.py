"""The primary namespace: where it is, and how it writes itself in links and tokens."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import certifi
from azure.servicebus import TransportType

from amqp10 import sas
from amqp10.cbs import SAS_TOKEN
from pairing.ends import Endpoint

_PORT, _PLAIN_PORT = 5671, 5672
TOKEN_LIFE_S = 3600


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace that clients are passed on to. `address` need not be the one that its name resolves to."""

    host: str
    """As links and tokens name it: with the port where that is an emulator's."""
    hostname: str
    address: str
    port: int
    tls: ssl.SSLContext | None = field(repr=False)
    key_name: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, endpoint: Endpoint, address: str | None = None) -> Namespace:
        """The namespace of an endpoint, to be found at another address where one is given. Raises ValueError."""
        hostname = urlsplit(f"//{endpoint.host}").hostname or ""
        found = f"//{address}" if address else endpoint.keywords.get("custom_endpoint_address")
        place = urlsplit(found or f"//{endpoint.host}")
        port = (place.port if found or endpoint.emulator else None) or (_PLAIN_PORT if endpoint.emulator else _PORT)
        parts = dict(part.split("=", 1) for part in (endpoint.connection_string or "").split(";") if "=" in part)
        tls = None if endpoint.emulator else _authorities(hostname)
        name, key = (parts.get(each, "") for each in ("SharedAccessKeyName", "SharedAccessKey"))
        return cls(endpoint.address, hostname, place.hostname or "", port, tls, name, key)

    def sign(self, audience: str) -> tuple[str, str]:
        """A token for an audience, signed with the key, and its kind."""
        return sas.sign(self.key_name, self.key, audience, int(time.time()) + TOKEN_LIFE_S), SAS_TOKEN

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments with which a client of the SDK finds it at its address."""
        place = f"[{self.address}]" if ":" in self.address else self.address
        keywords = {"custom_endpoint_address": f"sb://{place}:{self.port}", "transport_type": TransportType.Amqp}
        return keywords if self.tls is None else {**keywords, "ssl_context": self.tls}

    def address_here(self, address: str) -> str:
        """An address of a link or a token, such as `amqps://localhost:5672/orders`, with the primary as its host."""
        scheme, separator, rest = address.partition("://")
        host, slash, path = rest.partition("/")
        try:
            named = host.lower() if self.tls is None else urlsplit(f"//{host}").hostname
        except ValueError:
            return address  # the primary refuses it
        return f"{scheme}://{self.host}{slash}{path}" if separator and named != self.host else address


class _Authorities(ssl.SSLContext):
    """Those of the system, or of SSL_CERT_FILE, and those that the SDK trusts, which checks the name of an address."""

    hostname: str

    def wrap_bio(self, *buffers: Any, **more: Any) -> ssl.SSLObject:
        return super().wrap_bio(*buffers, **{**more, "server_hostname": self.hostname})


def _authorities(hostname: str) -> ssl.SSLContext:
    context = _Authorities(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname = hostname
    context.load_default_certs()
    context.load_verify_locations(certifi.where())
    return context
