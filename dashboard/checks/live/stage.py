"""Two namespaces with the real library between them, and scratch entities that are deleted afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.fleet.pairs.namespaces import endpoint_of
from dashboard.fleet.pairs.pairs_file import PairConfig
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.backlog.administration import emulator_transport
from pairing.backlog.rotation import backlog_path
from pairing.ends import Endpoint, Role

WAIT_S = 120.0
"""Maximum seconds until an expected message arrives, or the library has done something in the background."""
SUBSCRIPTION = "check"
_PREFIX = "paired-namespaces-check-"
_NAME = re.compile(rf"{_PREFIX}(\d{{14}})-[0-9a-f]{{8}}/.+")
_IDLE = timedelta(hours=1)
"""The service itself deletes scratch entities of the primary that nobody has used for so long."""


class TooLate(Exception):
    """What a trial waits for did not happen in time."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """An entity whose name shows that a run of this check created it."""

    role: Role
    kind: Literal["queue", "topic"]
    path: str

    def __str__(self) -> str:
        return f"{self.role} {self.kind} {self.path}"


def prefix_of(began_at: datetime, token: str) -> str:
    """The first part of the names of a run; `token`: 8 hexadecimal digits."""
    return f"{_PREFIX}{began_at:%Y%m%d%H%M%S}-{token}"


def is_scratch(path: str) -> bool:
    """Whether a run of this check created the entity. Nothing else is ever deleted."""
    return _NAME.fullmatch(path) is not None


class Stage:
    """Trials create the scratch entities that they need. Leaving the context closes links and deletes nothing."""

    def __init__(self, pair: PairConfig, prefix: str) -> None:
        self.pair, self.prefix = pair, prefix
        self._closing, self._library = ExitStack(), ExitStack()
        self.endpoints: dict[Role, Endpoint] = {
            "primary": endpoint_of(pair.primary, "primary"),
            "secondary": endpoint_of(pair.secondary, "secondary"),
        }
        self.administrations = {
            role: self._closing.enter_context(end.administration(ServiceBusAdministrationClient, emulator_transport))
            for role, end in self.endpoints.items()
        }
        self.buses = {role: end.service_bus(ServiceBusClient, own_retries=True) for role, end in self.endpoints.items()}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            self._library.close()

    @property
    def bus(self) -> ServiceBusClient:
        """The SDK's client of the primary."""
        return self.buses["primary"]

    @property
    def backlog_queue(self) -> str:
        """The only backlog queue of the scratch pair."""
        return backlog_path(self.prefix, 0)

    @cached_property
    def client(self) -> PairedServiceBusClient:
        """The real library, for a pair whose primary is named like this run, so that its backlog queue is scratch."""
        options = SendAvailabilityOptions(
            backlog_queue_count=1,
            failover_interval=timedelta(),
            ping_primary_interval=timedelta(seconds=30),
            syphon_retry_interval=timedelta(seconds=1),
            creation_retry_interval=timedelta(seconds=1),
            enable_syphon=True,
            primary_namespace=self.prefix,
            secondary_namespace=self.pair.secondary.namespace,
            pair=self.prefix,
            tracing=False,
        )
        return self._library.enter_context(_paired(self.endpoints["primary"], self.endpoints["secondary"], options))

    def queue(self, name: str, role: Role = "primary", **properties: Any) -> str:
        """Create a scratch queue; its path."""
        path = f"{self.prefix}/{name}"
        self.administrations[role].create_queue(path, auto_delete_on_idle=_IDLE, **properties)
        return path

    def topic(self, name: str) -> str:
        """Create a scratch topic of the primary with one subscription; its path."""
        path = f"{self.prefix}/{name}"
        self.administrations["primary"].create_topic(path, auto_delete_on_idle=_IDLE)
        self.administrations["primary"].create_subscription(path, SUBSCRIPTION)
        return path

    def send(self, path: str, *messages: Any, role: Role = "primary") -> None:
        """Send these one by one with the SDK, without the library."""
        with self.buses[role].get_queue_sender(path) as sender:
            for message in messages:
                sender.send_messages(message, timeout=WAIT_S)

    def leftovers(self, prefix: str = _PREFIX) -> list[Scratch]:
        """The scratch entities of all runs, or of one. Raises AzureError."""
        found: list[Scratch] = []
        for role, administration in self.administrations.items():
            found += [Scratch(role, "queue", queue.name) for queue in administration.list_queues()]
            found += [Scratch(role, "topic", topic.name) for topic in administration.list_topics()]
        return [one for one in found if is_scratch(one.path) and one.path.startswith(prefix)]

    def delete(self, scratch: Scratch) -> None:
        """Delete one scratch entity; it may be gone already. Raises AzureError."""
        administration = self.administrations[scratch.role]
        delete = administration.delete_topic if scratch.kind == "topic" else administration.delete_queue
        with suppress(ResourceNotFoundError):
            delete(scratch.path)

    def clean_up(self) -> list[str]:
        """Delete everything of this run; what is left, or why that is not known.

        The library is closed before: it would create its backlog queue again.
        """
        self._library.close()
        try:
            for scratch in self.leftovers(self.prefix):
                self.delete(scratch)
        except (AzureError, OSError) as error:
            return [f"entities named {self.prefix}/… ({type(error).__name__})"]
        return []


def received(receiver: Any, count: int) -> list[ServiceBusReceivedMessage]:
    """So many messages of an open receiver, completed in order. Raises TooLate."""
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        arrived = receiver.receive_messages(count - len(found), max_wait_time=WAIT_S)
        if not arrived:
            raise TooLate(f"{len(found)} of {count} messages arrived within {WAIT_S:.0f} s")
        for message in arrived:
            receiver.complete_message(message)
        found += arrived
    return found


def wait_until(event: str, happened: Callable[[], bool]) -> None:
    """Look every second. Raises TooLate with what did not happen."""
    until = time.monotonic() + WAIT_S
    while not happened():
        if time.monotonic() > until:
            raise TooLate(f"{event} did not happen within {WAIT_S:.0f} s")
        time.sleep(1)


def now() -> datetime:
    """The present time of this host."""
    return datetime.now(UTC)


def _paired(primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions) -> PairedServiceBusClient:
    strings = primary.connection_string, secondary.connection_string
    if strings[0] is not None and strings[1] is not None:
        return PairedServiceBusClient.from_connection_string(strings[0], strings[1], options=options)
    if strings[0] is not None or strings[1] is not None:
        raise ValueError("one namespace has a connection string and the other has none: give both the same kind")
    return PairedServiceBusClient(
        primary.host,
        secondary.host,
        primary.credential,
        secondary_credential=secondary.credential,
        options=options,
    )
