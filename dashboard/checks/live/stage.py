"""The place of a live check: two namespaces, the real library between them, and scratch entities that are deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from azure.core.exceptions import AzureError, ClientAuthenticationError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.checks.live.scratch import PREFIX, Scratch, among
from dashboard.fleet.namespaces import endpoint_of, watchdog
from dashboard.fleet.pairs_file import PairConfig
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.backlog.administration import emulator_transport
from pairing.backlog.rotation import backlog_path
from pairing.ends import Endpoint, Role
from pairing.links import Link

T = TypeVar("T")
WORK_S = 60.0
"""Maximum seconds of one step on a link, opening included."""
WAIT_S = 120.0
"""Maximum seconds until something has happened that the library does in the background."""
LOOK_S, SOON_S = 1.0, 10.0
IDLE = timedelta(hours=1)
"""The service itself deletes scratch entities of the primary that nobody has used for so long."""
ROLES: tuple[Role, Role] = ("primary", "secondary")
SUBSCRIPTION = "check"


class TooLate(Exception):
    """What a trial waits for did not happen in time."""


class Stage:
    """Scratch entities are created by the trials that need them. Leaving the context closes links, deletes nothing."""

    def __init__(self, pair: PairConfig, prefix: str) -> None:
        self.pair, self.prefix = pair, prefix
        self.endpoints: dict[Role, Endpoint] = {
            "primary": endpoint_of(pair.primary, "primary"),
            "secondary": endpoint_of(pair.secondary, "secondary"),
        }
        self._closing = ExitStack()
        self._made: dict[str, Scratch] = {}
        self.administrations = {role: self._administration(endpoint) for role, endpoint in self.endpoints.items()}
        self.buses: dict[Role, ServiceBusClient] = {
            role: endpoint.service_bus(ServiceBusClient, own_retries=True) for role, endpoint in self.endpoints.items()
        }

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _administration(self, endpoint: Endpoint) -> ServiceBusAdministrationClient:
        client = endpoint.administration(ServiceBusAdministrationClient, emulator_transport)
        return self._closing.enter_context(client)

    @property
    def is_emulator(self) -> bool:
        """Whether one of the namespaces is an emulator: then nothing is known about Azure."""
        return any(endpoint.emulator for endpoint in self.endpoints.values())

    @property
    def backlog_queue(self) -> str:
        """The only backlog queue of the scratch pair."""
        return backlog_path(self.prefix, 0)

    @cached_property
    def client(self) -> PairedServiceBusClient:
        """The real library with its syphon and pings, for a pair that has the run's prefix as the primary's name.

        Its backlog queue is therefore a scratch queue, too, and those of the real pair are not touched.
        """
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
        ends = (self.endpoints["primary"], self.endpoints["secondary"])
        return self._closing.enter_context(_paired(*ends, options))

    def queue(self, name: str, role: Role = "primary", **properties: Any) -> str:
        """The path of this scratch queue, created on first use."""
        path = f"{self.prefix}/{name}"
        if path not in self._made:
            create = self.administrations[role].create_queue
            self._make(Scratch(role, "queue", path), lambda: create(path, auto_delete_on_idle=IDLE, **properties))
        return path

    def topic(self, name: str) -> str:
        """The path of this scratch topic of the primary, with one subscription."""
        path = f"{self.prefix}/{name}"
        if path not in self._made:
            administration = self.administrations["primary"]
            create = administration.create_topic
            self._make(Scratch("primary", "topic", path), lambda: create(path, auto_delete_on_idle=IDLE))
            administration.create_subscription(path, SUBSCRIPTION)
        return path

    def _make(self, scratch: Scratch, create: Callable[[], Any]) -> None:
        """Without an answer it may have been created, so it is noted before; a refusal says that it was not."""
        self._made[scratch.path] = scratch
        try:
            create()
        except ClientAuthenticationError:
            del self._made[scratch.path]
            raise

    def on_link(self, make: Callable[[], Any], work: Callable[[Any], T]) -> T:
        """What the work returns on a sender or receiver of the SDK, in bounded time. Raises the SDK's error."""
        found: list[T] = []
        link = Link(make, watchdog())
        try:
            failure = link.attempt(lambda sdk, _: found.append(work(sdk)), WORK_S)
        finally:
            link.close(1.0)
        if failure is not None:
            raise failure.error
        return found[0]

    def send(self, path: str, *messages: Any, role: Role = "primary") -> None:
        """Send these with the SDK, one by one, without the library."""

        def work(sender: Any) -> None:
            for message in messages:
                sender.send_messages(message, timeout=WORK_S / 2)

        self.on_link(lambda: self.buses[role].get_queue_sender(path), work)

    def receive(self, make: Callable[[], Any], count: int) -> list[ServiceBusReceivedMessage]:
        """So many messages, completed. Raises TooLate."""
        return self.on_link(make, lambda receiver: taken(receiver, count))

    def leftovers(self, prefix: str = PREFIX) -> list[Scratch]:
        """The scratch entities of all runs, or of one. Raises AzureError."""
        found: list[Scratch] = []
        for role, administration in self.administrations.items():
            found += among(role, "queue", [queue.name for queue in administration.list_queues()], prefix)
            found += among(role, "topic", [topic.name for topic in administration.list_topics()], prefix)
        return found

    def delete(self, scratch: Scratch) -> None:
        """Delete one scratch entity; it may be gone already. Raises AzureError."""
        administration = self.administrations[scratch.role]
        delete = administration.delete_topic if scratch.kind == "topic" else administration.delete_queue
        with suppress(ResourceNotFoundError):
            delete(scratch.path)

    def clean(self, left: list[Scratch]) -> list[str]:
        """Delete these; returns those that could not be."""
        refused = []
        for scratch in left:
            try:
                self.delete(scratch)
            except (AzureError, OSError):
                refused.append(f"{scratch.role} {scratch.path}")
        return refused

    def clean_up(self) -> list[str]:
        """Delete everything of this run, also what was created without an answer; returns what is left."""
        try:
            return self.clean(self.leftovers(self.prefix))
        except (AzureError, OSError):
            return self.clean([*self._made.values(), Scratch("secondary", "queue", self.backlog_queue)])


def taken(receiver: Any, count: int) -> list[ServiceBusReceivedMessage]:
    """So many messages of an open receiver, completed in order. Raises TooLate."""
    found: list[ServiceBusReceivedMessage] = []
    until = time.monotonic() + WORK_S - 5
    while len(found) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise TooLate(f"{len(found)} of {count} messages arrived within {WORK_S:.0f} s")
        for message in receiver.receive_messages(count - len(found), max_wait_time=min(left, 5.0)):
            receiver.complete_message(message)
            found.append(message)
    return found


def wait_until(what: str, happened: Callable[[], bool]) -> None:
    """Look every second, later every five. Raises TooLate with what did not happen."""
    began = time.monotonic()
    while not happened():
        waited = time.monotonic() - began
        if waited > WAIT_S:
            raise TooLate(f"{what} did not happen within {WAIT_S:.0f} s")
        time.sleep(LOOK_S if waited < SOON_S else 5 * LOOK_S)


def now() -> datetime:
    """The present time of this host."""
    return datetime.now(UTC)


def _paired(primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions) -> PairedServiceBusClient:
    strings = primary.connection_string, secondary.connection_string
    if strings[0] is not None and strings[1] is not None:
        return PairedServiceBusClient.from_connection_string(strings[0], strings[1], options=options)
    if strings[0] is None and strings[1] is None:
        ends = primary.host, secondary.host
        return PairedServiceBusClient(
            *ends, primary.credential, secondary_credential=secondary.credential, options=options
        )
    raise ValueError("one namespace has a connection string and the other has none: give both the same kind")
