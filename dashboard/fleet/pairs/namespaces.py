"""Access of the control plane to a pair's namespaces, for one page or job: bounded in time and metered."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.fleet.pairs.pairs_file import EndpointConfig, PairConfig, PairsFileError, load_pairs
from dashboard.site.database import Unavailable
from dashboard.site.redis import RedisError, shared_state
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.backlog.administration import emulator_transport
from pairing.clock import SystemClock
from pairing.ends import Endpoint, Role
from pairing.health.faults import describe
from pairing.links.link import Link, Watchdog
from pairing.telemetry.metering import UsageMeter

PAGE = 100
ASK_S = 8.0  # for one request to a namespace, including the opening of a link
_lock = threading.Lock()


class NamespaceError(Unavailable):
    """A request to a namespace failed; the text names the namespace and the cause."""


class Namespace:
    """One of a pair's namespaces. Its calls raise NamespaceError."""

    def __init__(self, pair: str, role: Role) -> None:
        try:
            config = load_pairs()[pair]
            where = config.primary if role == "primary" else config.secondary
            self._endpoint = endpoint_of(where, role)
        except KeyError:
            raise NamespaceError(f"{pair} is no longer in PAIRS_FILE, so it cannot be reached.") from None
        except PairsFileError as error:
            raise NamespaceError(str(error)) from None
        self.pair, self.name = pair, where.namespace
        self._links: dict[tuple[str, bool], Link] = {}
        self._meter = UsageMeter(pair, f"control-plane:{uuid.uuid4().hex[:12]}", SystemClock())
        self._clock = SystemClock()

    @cached_property
    def administration(self) -> ServiceBusAdministrationClient:
        """The SDK's administration client; call it within ``asked``."""
        return self._endpoint.administration(ServiceBusAdministrationClient, emulator_transport)

    @cached_property
    def _client(self) -> ServiceBusClient:
        return self._endpoint.service_bus(ServiceBusClient, own_retries=True)

    @contextmanager
    def asked(self, operations: int = 1) -> Iterator[ServiceBusAdministrationClient]:
        """The administration client, with errors converted to sentences and calls metered."""
        self._meter.count("manage", self.name, "*", operations=operations, billing_units=operations)
        try:
            yield self.administration
        except ResourceNotFoundError:
            raise
        except (AzureError, OSError, ValueError) as error:
            raise NamespaceError(f"{self.name} did not execute the request: {describe(error)}") from error

    def peek(
        self, queue: str, number: int, count: int = PAGE, *, dead: bool, subscription: str = ""
    ) -> list[ServiceBusReceivedMessage]:
        """Up to ``count`` messages of a queue, or its dead letters, from this sequence number; peeked without locks.

        With ``subscription``, ``queue`` is its topic.
        """
        answers: list[ServiceBusReceivedMessage] = []

        def look(receiver: Any, left_s: float) -> None:
            first = max(number, 1)  # for the SDK, 0 means "where the last peek ended"
            answers.extend(receiver.peek_messages(count, sequence_number=first, timeout=left_s))

        self._meter.count("manage", self.name, queue, operations=1, billing_units=1)
        source = f"{queue}/Subscriptions/{subscription}" if subscription else queue
        failure = self._link(source, dead).attempt(look, ASK_S)
        if failure is not None:
            raise NamespaceError(f"{self.name} cannot peek {queue}: {describe(failure.error)}") from failure.error
        return answers

    def close(self) -> None:
        """Report the usage and release the links; the watchdog closes them in the background."""
        for link in self._links.values():
            link.close(0)
        if administration := self.__dict__.get("administration"):
            with suppress(AzureError, OSError):
                administration.close()
        try:
            shared_state(self.pair).record_usage(self._meter.drain(self._clock.now(), everything=True))
        except RedisError:
            return

    def _link(self, queue: str, dead: bool) -> Link:
        sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None

        def make() -> Any:
            return self._client.get_queue_receiver(queue, sub_queue=sub_queue)

        if (queue, dead) not in self._links:
            self._links[queue, dead] = Link(make, watchdog())
        return self._links[queue, dead]


@contextmanager
def namespace(pair: str, role: Role = "secondary") -> Iterator[Namespace]:
    """Open one of a pair's namespaces, and close it afterwards. Raises NamespaceError."""
    here = Namespace(pair, role)
    try:
        yield here
    finally:
        here.close()


@lru_cache(maxsize=1)
def _start_watchdog() -> Watchdog:
    started = Watchdog(lambda: None)
    started.start()
    return started


def watchdog() -> Watchdog:
    """The watchdog of links that this process opens for pages and checks; it runs from the first call on."""
    with _lock:
        return _start_watchdog()


@lru_cache(maxsize=1)
def _credential() -> Any:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def endpoint_of(where: EndpointConfig, role: Role) -> Endpoint:
    """The connection parameters of one end of a pair, with its credential. Raises PairsFileError."""
    return where.endpoint(role, None if where.connection_string_env else _credential())


def paired_client(pair: PairConfig, options: SendAvailabilityOptions) -> PairedServiceBusClient:
    """The library's client of a pair, which is not opened. Raises PairsFileError."""
    primary, secondary = pair.primary, pair.secondary
    if primary.connection_string_env and secondary.connection_string_env:
        strings = primary.connection_string(), secondary.connection_string()
        return PairedServiceBusClient.from_connection_string(*strings, options=options)
    if primary.fully_qualified_namespace and secondary.fully_qualified_namespace:
        hosts = primary.fully_qualified_namespace, secondary.fully_qualified_namespace
        return PairedServiceBusClient(*hosts, _credential(), options=options)
    raise PairsFileError(
        f"[pairs.{pair.name}]: give both namespaces a connection_string_env, or both a fully_qualified_namespace."
    )
