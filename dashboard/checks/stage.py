"""Two namespaces with the real library between them, and scratch entities that are deleted afterwards."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.fleet.pairs.namespaces import endpoint_of, paired_client
from dashboard.fleet.pairs.pairs_file import PairConfig
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.backlog.administration import emulator_transport
from pairing.backlog.rotation import backlog_path
from pairing.ends import Endpoint, Role

WAIT_S = 120.0
"""Maximum seconds until an expected message arrives, or the library has done something in the background."""
SUBSCRIPTION = "check"
PREFIX = "paired-namespaces-check-"
_IDLE = timedelta(hours=1)
"""The service itself deletes a scratch entity that nobody has used for so long, such as that of a killed run."""


class Stage:
    """Trials create the scratch entities that they need; leaving the context deletes them."""

    def __init__(self, pair: PairConfig) -> None:
        self.pair, self.prefix = pair, PREFIX + uuid.uuid4().hex[:8]
        self._closing = ExitStack()
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
        """Undo everything in reverse order. Raises AzureError."""
        self._closing.close()

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
        # The library is closed before its backlog queue is deleted: it would create the queue again.
        self._delete_later(self.administrations["secondary"].delete_queue, self.backlog_queue)
        return self._closing.enter_context(paired_client(self.pair, options))

    def queue(self, name: str, role: Role = "primary", **properties: Any) -> str:
        """Create a scratch queue; its path."""
        path, administration = f"{self.prefix}/{name}", self.administrations[role]
        administration.create_queue(path, auto_delete_on_idle=_IDLE, **properties)
        self._delete_later(administration.delete_queue, path)
        return path

    def topic(self, name: str) -> str:
        """Create a scratch topic of the primary with one subscription; its path."""
        path, administration = f"{self.prefix}/{name}", self.administrations["primary"]
        administration.create_topic(path, auto_delete_on_idle=_IDLE)
        self._delete_later(administration.delete_topic, path)
        administration.create_subscription(path, SUBSCRIPTION)
        return path

    def _delete_later(self, delete: Callable[[str], None], path: str) -> None:
        @self._closing.callback
        def _() -> None:
            with suppress(ResourceNotFoundError):
                delete(path)

    def send(self, path: str, *messages: Any, role: Role = "primary") -> None:
        """Send these one by one with the SDK, without the library."""
        with self.buses[role].get_queue_sender(path) as sender:
            for message in messages:
                sender.send_messages(message, timeout=WAIT_S)


def received(receiver: Any, count: int) -> list[ServiceBusReceivedMessage]:
    """So many messages of an open receiver, completed in order. Raises TimeoutError."""
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        arrived = receiver.receive_messages(count - len(found), max_wait_time=WAIT_S)
        if not arrived:
            raise TimeoutError(f"{len(found)} of {count} messages arrived within {WAIT_S:.0f} s")
        for message in arrived:
            receiver.complete_message(message)
        found += arrived
    return found


def wait_until(event: str, happened: Callable[[], bool]) -> None:
    """Look every second. Raises TimeoutError with what did not happen."""
    until = time.monotonic() + WAIT_S
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"{event} did not happen within {WAIT_S:.0f} s")
        time.sleep(1)


def now() -> datetime:
    """The present time of this host."""
    return datetime.now(UTC)
