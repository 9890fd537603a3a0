"""The two ends of a pair: the connection to each namespace, and its state."""

import ipaddress
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus.exceptions import ServiceBusError

from pairing.drive import Operation, call
from pairing.errors import PairedNamespaceFaultedError
from pairing.health.faults import describe

Role = Literal["primary", "secondary"]
EndState = Literal["created", "opened", "closed", "faulted"]
S = TypeVar("S")
BusT = TypeVar("BusT")
AdministrationT = TypeVar("AdministrationT")
LinkT = TypeVar("LinkT")

_LOGGER = logging.getLogger("pairing")

CLIENT_KEYWORDS = frozenset(
    {
        "logging_enable",
        "transport_type",
        "http_proxy",
        "user_agent",
        "retry_total",
        "retry_backoff_factor",
        "retry_backoff_max",
        "retry_mode",
        "try_timeout",
        "custom_endpoint_address",
        "connection_verify",
        "ssl_context",
        "use_tls",
    }
)
"""The client keywords of the SDK that are passed through; retries apply to receivers only."""
_RETRIES = frozenset({"retry_total", "retry_backoff_factor", "retry_backoff_max", "retry_mode", "try_timeout"})
_ADMINISTRATION_TIMEOUTS = {"connection_timeout": 10, "read_timeout": 30}
_WHERE = (
    "copy it from the namespace's shared access policies, as in Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…"
)
FAULT_GRACE_S = 5.0
"""How long one end may outlive the other before it is faulted."""


def check_keywords(keywords: Mapping[str, Any]) -> None:
    """Raise a TypeError that names a keyword that neither this library nor the SDK's client accepts."""
    unknown = sorted(keywords.keys() - CLIENT_KEYWORDS)
    if unknown:
        raise TypeError(f"unexpected keyword argument: {', '.join(unknown)}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The connection parameters of one namespace. Its repr contains no secret."""

    role: Role
    host: str
    """Host name, with the port if the address has one."""
    emulator: bool
    connection_string: str | None = field(repr=False)
    credential: Any = field(repr=False)
    keywords: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_connection_string(cls, role: Role, text: str, keywords: Mapping[str, Any]) -> "Endpoint":
        """The endpoint of a connection string; ValueError says which of the two is invalid, without its content."""
        if not text:
            raise ValueError(f"the {role} connection string is empty: {_WHERE}")
        parts = dict(part.split("=", 1) for part in text.strip().rstrip(";").split(";") if "=" in part)
        host = urlsplit(parts.get("Endpoint", "")).netloc
        if not host or not ("SharedAccessSignature" in parts or "SharedAccessKey" in parts):
            raise ValueError(f"the {role} connection string is malformed: {_WHERE}")
        return cls(role, host, parts.get("UseDevelopmentEmulator") == "true", text, None, keywords)

    @classmethod
    def from_host(cls, role: Role, host: str, credential: Any, keywords: Mapping[str, Any]) -> "Endpoint":
        """The endpoint of a fully qualified namespace; ``use_tls=False`` is for an emulator."""
        if "sharedaccess" in host.lower():  # it contains a key, so it is not repeated
            raise ValueError(f"the {role} namespace is a connection string: use from_connection_string")
        bare = host.strip().split("//")[-1].split("/")[0]
        if not bare:
            raise ValueError(f"the {role} namespace has no host name")
        return cls(role, bare, keywords.get("use_tls") is False, None, credential, keywords)

    @property
    def label(self) -> str | None:
        """The namespace's name if its host contains it; otherwise None."""
        name = urlsplit(f"//{self.host}").hostname or ""
        first = name.split(".")[0]
        return None if not first or first == "localhost" or _is_address(name) else first

    @property
    def address(self) -> str:
        """The address in a canonical form: the SDK keeps the port of an emulator only."""
        where = urlsplit(f"//{self.host}")
        return self.host.lower() if self.emulator else (where.hostname or "").rstrip(".")

    @property
    def is_websocket(self) -> bool:
        """Whether AMQP goes through a WebSocket, as it does for a custom endpoint by default."""
        transport = self.keywords.get("transport_type")
        if transport is None:
            return self.keywords.get("custom_endpoint_address") is not None
        return getattr(transport, "name", "") == "AmqpOverWebsocket"

    def service_bus(self, class_: Callable[..., S], *, own_retries: bool) -> S:
        """A client of the SDK for this namespace; ``own_retries``: this library retries instead of the SDK."""
        keywords = {name: value for name, value in self.keywords.items() if not (own_retries and name in _RETRIES)}
        if own_retries:
            keywords["retry_total"] = 0
        if self.connection_string is None:
            return class_(self.host, self.credential, **keywords)
        keywords.pop("use_tls", None)  # the connection string says it
        make: Callable[..., S] = class_.from_connection_string  # type: ignore[attr-defined]
        return make(self.connection_string, **keywords)

    def with_proxy(self, scheme: str) -> "Endpoint":
        """The same with the proxy's host name in the form of the blocking or the asyncio SDK, which wants a scheme."""
        proxy = self.keywords.get("http_proxy")
        if not proxy:
            return self
        spelt = {**proxy, "proxy_hostname": scheme + _bare_host(proxy["proxy_hostname"])}
        return replace(self, keywords={**self.keywords, "http_proxy": spelt})

    def administration(
        self,
        class_: Callable[..., S],
        plain_transport: Callable[..., Any],
        tls_transport: Callable[..., Any] | None = None,
    ) -> S:
        """An administration client of the SDK; over plain HTTP where the namespace is an emulator's.

        ``tls_transport``: what else it sends with, where that is not the SDK's own transport.
        """
        transport = plain_transport if self.emulator else tls_transport
        keywords: dict[str, Any] = {"retry_total": 0, **_ADMINISTRATION_TIMEOUTS}
        for name in ("connection_verify", "user_agent", "logging_enable"):
            if self.keywords.get(name) is not None:
                keywords[name] = self.keywords[name]
        if self.keywords.get("http_proxy"):
            keywords["proxies"] = _proxies(self.keywords["http_proxy"])
        if transport is not None:
            keywords.pop("connection_verify", None)  # what has a transport of its own ignores it
            keywords["transport"] = transport(**_ADMINISTRATION_TIMEOUTS)
        text = self.connection_string or self.shared_access
        if text is None:
            return class_(self.host, self.credential, **keywords)
        make: Callable[..., S] = class_.from_connection_string  # type: ignore[attr-defined]
        return make(text, **keywords)

    @property
    def shared_access(self) -> str | None:
        """A connection string with the present key or signature, for the SDK's administration: it takes no others.

        None for credentials that give tokens.
        """
        match self.credential:
            case AzureNamedKeyCredential(named_key=(name, key)):
                access = f"SharedAccessKeyName={name};SharedAccessKey={key}"
            case AzureSasCredential(signature=signature):
                prefix = "SharedAccessSignature "
                access = f"SharedAccessSignature={prefix}{signature.removeprefix(prefix)}"
            case _:
                return None
        return f"Endpoint=sb://{self.host}/;{access}" + (";UseDevelopmentEmulator=true" if self.emulator else "")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _bare_host(host: str) -> str:
    return host.split("://")[-1].rstrip("/")


def _proxies(proxy: Mapping[str, Any]) -> dict[str, str]:
    user = proxy.get("username")
    login = f"{quote(user)}:{quote(proxy.get('password') or '')}@" if user else ""
    address = f"http://{login}{_bare_host(proxy['proxy_hostname'])}:{proxy['proxy_port']}"
    return {"http": address, "https": address}


class LifeCycle:
    """The life cycle of a pair: which ends are down, since when, and the consequences. Pure."""

    def __init__(self) -> None:
        self.down_at: dict[Role, float] = {}
        self.errors: dict[Role, BaseException] = {}

    def down(self, role: Role, now: float, error: BaseException | None = None) -> None:
        """An end was closed, or faulted with ``error``; the first call counts."""
        if role not in self.down_at:
            self.down_at[role] = now
            if error is not None:
                self.errors[role] = error

    def overdue(self, now: float) -> tuple[Role, PairedNamespaceFaultedError] | None:
        """The end that has outlived the other for too long, and the error it faults with."""
        if len(self.down_at) != 1:
            return None
        ((fallen, at),) = self.down_at.items()
        if now < at + FAULT_GRACE_S:
            return None
        left: Role = "secondary" if fallen == "primary" else "primary"
        cause = self.errors.get(fallen)
        error = PairedNamespaceFaultedError(
            f"the {fallen} end {'faulted' if cause else 'closed'} and the {left} end was not closed within "
            f"{FAULT_GRACE_S:.0f} s"
        )
        error.__cause__ = cause
        return left, error


class End:
    """One namespace of a pair: its name, and the state of this end."""

    _made: dict[str, Any]

    def __init__(self, endpoint: Endpoint, namespace: str, on_down: Callable[["End"], None]) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        """Name of the namespace."""
        self.state: EndState = "created"
        self.error: BaseException | None = None
        """The error that this end faulted with."""
        self._on_down = on_down

    @property
    def role(self) -> Role:
        """``primary`` or ``secondary``."""
        return self.endpoint.role

    @property
    def connections(self) -> int:
        """The number of open AMQP connections of this end."""
        handlers = [handler for client in list(self._made.values()) for handler in getattr(client, "_handlers", ())]
        return sum(bool(getattr(handler, "_running", False)) for handler in handlers)

    @property
    def is_down(self) -> bool:
        """Whether this end is closed or faulted."""
        return self.state in ("closed", "faulted")

    def _fall(self, state: EndState, error: BaseException | None = None) -> bool:
        """Enter a final state; returns whether this call did it."""
        if self.is_down:
            return False
        self.state, self.error = state, error
        self._on_down(self)
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.role} {self.namespace}: {self.state}>"


class SdkEnd(End, Generic[BusT, AdministrationT, LinkT]):
    """An end with the SDK's clients for it, each created on first use."""

    bus_class: type[BusT]
    administration_class: type[AdministrationT]
    plain_transport: Callable[..., Any]
    proxy_scheme = ""

    def __init__(
        self,
        endpoint: Endpoint,
        namespace: str,
        on_down: Callable[[End], None],
        links: Callable[[Role], Iterable[LinkT]],
    ) -> None:
        super().__init__(endpoint.with_proxy(self.proxy_scheme), namespace, on_down)
        self._links = links
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    @property
    def sdk(self) -> BusT:
        """The SDK's client for sending; without its retries, because this library retries."""
        return self._cached("sdk", lambda: self._sending_endpoint().service_bus(self.bus_class, own_retries=True))

    @property
    def receiving(self) -> BusT:
        """The SDK's client for the application's receivers; with the SDK's retries."""
        return self._cached("receiving", lambda: self.endpoint.service_bus(self.bus_class, own_retries=False))

    @property
    def administration(self) -> AdministrationT:
        """The SDK's administration client; over plain HTTP where the namespace is an emulator's.

        Another one once the key of the credential was replaced: the SDK's keeps its token, and the key, for an hour.
        """
        make = self.endpoint.administration
        return self._cached(
            f"administration {hash(self.endpoint.shared_access)}",
            lambda: make(self.administration_class, self.plain_transport, self._tls_transport()),
        )

    def _tls_transport(self) -> Callable[..., Any] | None:
        return None

    def _sending_endpoint(self) -> Endpoint:
        return self.endpoint

    def _cached(self, name: str, make: Callable[[], S]) -> S:
        with self._lock:
            if name not in self._made:
                if self.is_down:  # by an operation that continues while the end closes; nothing else would close it
                    raise ServiceBusError("This end of the pair has been closed.")
                self._made[name] = make()
            made: S = self._made[name]
            return made

    def _taken(self) -> list[Any]:
        """Take the SDK's clients, which the caller closes."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        return made


def close_all(clients: Iterable[Any]) -> Operation[None]:
    """Close clients of the SDK; failures are logged."""
    for client in clients:
        try:
            if hasattr(client, "close"):
                yield from call(client.close)
            else:
                yield from call(client.__exit__, None, None, None)
        except Exception as error:
            _LOGGER.info("closing a client of the SDK failed: %s", describe(error))


def check_credential(role: str, credential: Any, *, in_asyncio: bool) -> None:
    """Raise a TypeError that says what to give instead."""
    if isinstance(credential, AzureNamedKeyCredential | AzureSasCredential):
        return
    give = getattr(credential, "get_token", None) or getattr(credential, "get_token_info", None)
    if not callable(give):
        raise TypeError(
            f"the credential of the {role} is a {type(credential).__name__}: give one of azure-identity, "
            "AzureNamedKeyCredential or AzureSasCredential, or use from_connection_string"
        )
    if iscoroutinefunction(give) and not in_asyncio:
        raise TypeError(f"the credential of the {role} is for asyncio: import it from azure.identity, without .aio")
    if in_asyncio and not iscoroutinefunction(give) and type(credential).__module__.startswith("azure.identity."):
        raise TypeError(f"the credential of the {role} is not for asyncio: import it from azure.identity.aio")
