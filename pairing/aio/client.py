"""The asyncio paired client."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from azure.core.async_paging import AsyncItemPaged
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from azure.servicebus.exceptions import ServiceBusError

from pairing.aio.administration import emulator_transport, perform
from pairing.aio.links import Background, Link
from pairing.aio.maintenance import Maintenance
from pairing.aio.pinger import Pinger
from pairing.aio.receivers import meter_pages, meter_receiver
from pairing.aio.sender import PairedSender
from pairing.backlog.administration import TRIES, AdministrationAction, Answer, Paired, Pause, pairing_flow
from pairing.clock import Clock, seconds
from pairing.drive import drive_async
from pairing.ends import End, Endpoint, Role, check_keywords
from pairing.errors import BacklogCreationError, PairingError
from pairing.health.faults import describe
from pairing.health.flows import DONE, Outcome, PingResult, ToBacklog
from pairing.links import send_client_keywords
from pairing.messages.payload import Payload
from pairing.options import SendAvailabilityOptions
from pairing.paired import CLOSE_S, PairedClient

_LOGGER = logging.getLogger("pairing")
_WARM_S = 10.0
_FLYING_S = 0.5
_TICK_S = 0.25

T = TypeVar("T")


class AsyncEnd(End):
    """One namespace of the pair, with the SDK's asyncio clients for it."""

    def __init__(
        self,
        endpoint: Endpoint,
        namespace: str,
        on_down: Callable[[End], None],
        background: Background,
        links: Callable[[Role], Iterable[Link]],
    ) -> None:
        super().__init__(endpoint.with_proxy_host(lambda host: f"http://{host}"), namespace, on_down)
        self._background = background
        self._links = links
        self._made: dict[str, Any] = {}

    @property
    def sdk(self) -> ServiceBusClient:
        """The SDK's client for sending; without retries, for this library does the retrying."""
        return self._cached("sdk", lambda: self.endpoint.service_bus(ServiceBusClient, own_retries=True))

    @property
    def receiving(self) -> ServiceBusClient:
        """The SDK's client for the application's receivers; with the SDK's retries."""
        return self._cached("receiving", lambda: self.endpoint.service_bus(ServiceBusClient, own_retries=False))

    @property
    def administration(self) -> ServiceBusAdministrationClient:
        """The SDK's administration client; over plain HTTP where the namespace is an emulator's."""
        make = self.endpoint.administration
        return self._cached("administration", lambda: make(ServiceBusAdministrationClient, emulator_transport))

    def _cached(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._made:
            if self.is_down:  # by what still goes on while the end closes: nobody would close it any more
                raise ServiceBusError("This end of the pair has been closed.")
            self._made[name] = make()
        made: T = self._made[name]
        return made

    async def close(self) -> None:
        """Close this end; the pair faults unless the other end is closed within 5 s."""
        if self._fall("closed"):
            await self.let_go()

    def fault(self, error: BaseException) -> None:
        """Declare this end useless because of ``error``; the pair faults unless the other end is closed within 5 s."""
        if self._fall("faulted", error):
            self._background.start(self.let_go(), "closing")

    async def let_go(self) -> None:
        """Close the SDK's clients, waiting a second at most."""
        made, self._made = list(self._made.values()), {}
        if made:
            closing = self._background.start(asyncio.wait_for(self._close_all(made), CLOSE_S - 1.0), "closing")
            await asyncio.wait([closing], timeout=1.0)

    async def _close_all(self, clients: list[Any]) -> None:
        links = self._links(self.role)  # first, or the SDK stumbles, loudly, over what opens just now
        await asyncio.gather(*(link.close(_FLYING_S) for link in links))
        await _close_all(clients)


async def _close_all(clients: list[Any]) -> None:
    for client in clients:
        try:
            await client.close()
        except Exception as error:
            _LOGGER.info("closing a client of the SDK failed: %s", describe(error))


class PairedServiceBusClient(PairedClient):
    """Sends to a primary namespace and, per entity, to a secondary one while the primary takes nothing.

    ``credential`` is anything ``azure.identity.aio`` offers; ``secondary_credential`` (default: the same) needs the
    Manage claim. ``keywords`` are those of the SDK's ServiceBusClient. Opening talks to the secondary only.
    """

    primary: AsyncEnd
    secondary: AsyncEnd

    def __init__(
        self,
        primary_fqdn: str,
        secondary_fqdn: str,
        credential: Any,
        *,
        secondary_credential: Any = None,
        options: SendAvailabilityOptions | None = None,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        check_keywords(keywords)
        secondary = credential if secondary_credential is None else secondary_credential
        self._build(
            Endpoint.from_host("primary", primary_fqdn, credential, keywords),
            Endpoint.from_host("secondary", secondary_fqdn, secondary, keywords),
            options,
            clock,
        )

    @classmethod
    def from_connection_string(
        cls,
        primary: str,
        secondary: str,
        *,
        options: SendAvailabilityOptions | None = None,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> Self:
        """A client for two connection strings; the secondary's key needs the Manage claim."""
        check_keywords(keywords)
        client = cls.__new__(cls)
        client._build(
            Endpoint.from_connection_string("primary", primary, keywords),
            Endpoint.from_connection_string("secondary", secondary, keywords),
            options,
            clock,
        )
        return client

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        self.background = Background()
        super()._build(primary, secondary, options, clock)
        self._backlog_links: dict[str, Link] = {}
        self._opening = asyncio.Lock()
        self._work: list[asyncio.Task[Any]] = []
        self._watchdog: asyncio.Task[Any] | None = None
        self._stop_syphon = asyncio.Event()
        self._syphon: asyncio.Task[Any] | None = None
        self._shutting: asyncio.Task[Any] | None = None
        self._pinger = Pinger(self)
        self._tender = Maintenance(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> AsyncEnd:
        return AsyncEnd(endpoint, namespace, self._end_is_down, self.background, self._links_of)

    def _links_of(self, role: Role) -> list[Link]:
        backlog = list(self._backlog_links.values())
        return backlog if role == "secondary" else [link for link in self.background.links if link not in backlog]

    # Life ----------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Find or create the backlog queues, then allow sends; any failure is raised now, not later.

        BacklogCreationError names the namespace where it has no backlog queue and gets none.
        """
        async with self._opening:
            if self._state == "opened":
                return
            self._check_new()
            await self._pair_namespaces()
            self._check_new()  # it may have been closed meanwhile
            self._opened()
            self.fleet.start()
            self._watchdog = self.background.start(self._watch_links(), "watchdog")
            self._work = [
                self.background.start(self._watch_time(), "time"),
                self.background.start(self._tender.run(), "tender"),
            ]
            if self.options.enable_pings:
                self._work.append(self.background.start(self._pinger.run(), "pinger"))
            if self.options.enable_syphon:
                self._start_syphon()

    async def _pair_namespaces(self) -> None:
        try:
            self._paired(await self._find_backlog())
        except BacklogCreationError as error:
            if self.options.require_secondary:
                await self.secondary.let_go()
                raise
            self.emit("queue_pulled", "*", f"opened without backlog: {error}")

    async def _find_backlog(self, tries: int = TRIES) -> Paired:
        if self._must_name_secondary():
            await self._name_secondary()
        flow = pairing_flow(
            self.secondary.namespace,
            self.primary.namespace,
            self.options.backlog_queue_count,
            pause_s=seconds(self.options.creation_retry_interval),
            tries=tries,
        )
        return await drive_async(flow, self._administer)

    async def _name_secondary(self) -> None:
        """Where the host tells nothing, the namespace is asked for its name."""
        name = None
        try:
            name = (await self.secondary.administration.get_namespace_properties()).name
        except Exception as error:
            _LOGGER.info("the secondary namespace did not tell its name: %s", describe(error))
        self._named(name)

    async def _administer(self, action: AdministrationAction) -> Answer:
        if isinstance(action, Pause):
            await asyncio.sleep(action.seconds)
            return None
        answer = await perform(self.secondary.administration, action)
        self._count_administration(action, answer)
        return answer

    async def repair(self) -> None:
        """Try once more to find the backlog queues; for a client that was opened without the secondary."""
        if self._state == "opened" and not self.backlog_paths:
            self._repaired(await self._find_backlog(tries=1))  # meanwhile nothing else is tended

    async def _watch_time(self) -> None:
        while self._state == "opened":
            await asyncio.sleep(_TICK_S)
            try:
                self._tick()
            except Exception:
                _LOGGER.exception("telling the time stumbled; it goes on")

    async def _watch_links(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            for link in list(self.background.links):
                link.interrupt_if_overdue(now)

    async def close(self) -> None:
        """Stop pings, then the syphon, then close both ends; within 5 s, idempotent, safe in ``finally``."""
        if self._begin_closing():
            self._stop_working()
        if self._shutting is not None:
            await asyncio.shield(self._shutting)  # a caller who is cancelled leaves nothing half closed
            self._state = "closed"

    async def _shut_down(self) -> None:
        until = time.monotonic() + CLOSE_S - 1.0
        grace = min(seconds(self.options.close_grace), CLOSE_S - 2.5)
        await self.background.cancel(self._work)
        flying_until = min(time.monotonic() + grace, until - 1.0)
        if self._syphon is not None:
            self._stop_syphon.set()
            await asyncio.wait([self._syphon], timeout=max(flying_until - time.monotonic(), 0.0))
        left_s = max(flying_until - time.monotonic(), 0.0)
        await asyncio.gather(*(link.close(left_s) for link in list(self.background.links)))
        if self.coordination is not None:
            self.fleet.record(self.meter.drain(self.clock.now(), everything=True))
            leaving = self.background.start(asyncio.to_thread(self.fleet.close), "leaving")
            await asyncio.wait([leaving], timeout=max(until - 0.5 - time.monotonic(), 0.5))
        await asyncio.gather(self.primary.close(), self.secondary.close())
        await self.background.cancel([self._watchdog] if self._watchdog else [])
        await self.background.end(max(until - time.monotonic(), 0.1))

    def _stop_working(self) -> None:
        if self._shutting is None:
            self._shutting = asyncio.ensure_future(self._shut_down())

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Senders and receivers -----------------------------------------------------------------------------------------

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a queue; nothing is opened before the first send."""
        self._check_name("queue_name", queue_name)
        return self._sender(queue_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a topic; nothing is opened before the first send."""
        self._check_name("topic_name", topic_name)
        return self._sender(topic_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def _sender(self, name: str, **keywords: Any) -> PairedSender:
        return PairedSender(self, name, lambda: self.sdk_sender("primary", name, **keywords))

    async def sdk_sender(self, role: Role, name: str, **keywords: Any) -> ServiceBusSender:
        """A new sender of the SDK, on a link that the library tends."""
        end = self.primary if role == "primary" else self.secondary
        if end.is_down:
            raise PairingError(f"the {role} end is {end.state}")
        return end.sdk.get_queue_sender(name, **keywords, **send_client_keywords())

    def get_queue_receiver(self, queue_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a queue of the primary; arguments as in the SDK."""
        self.check_open()
        receiver = self.primary.receiving.get_queue_receiver(queue_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, queue_name)

    def get_subscription_receiver(self, topic_name: str, subscription_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a subscription of the primary; arguments as in the SDK."""
        self.check_open()
        receiver = self.primary.receiving.get_subscription_receiver(topic_name, subscription_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, topic_name)

    def list_queue_sessions(
        self, queue_name: str, *, state_updated_after: datetime | None = None, timeout: float | None = None
    ) -> AsyncItemPaged[str]:
        """The sessions of a queue of the primary, as in the SDK."""
        self.check_open()
        found = self.primary.receiving.list_queue_sessions(
            queue_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return meter_pages(found, self.meter, self.primary.namespace, queue_name)

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncItemPaged[str]:
        """The sessions of a subscription of the primary, as in the SDK."""
        self.check_open()
        found = self.primary.receiving.list_subscription_sessions(
            topic_name, subscription_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return meter_pages(found, self.meter, self.primary.namespace, topic_name)

    # The backlog ---------------------------------------------------------------------------------------------------

    def backlog_link(self, path: str) -> Link:
        """The one link of this client to a backlog queue, shared by its senders."""
        link = self._backlog_links.get(path)
        if link is None:
            link = Link(lambda: self.sdk_sender("secondary", path), self.background, warm=True)
            self._backlog_links[path] = link
        return link

    def warm(self, path: str) -> None:
        """Open the link to a backlog queue in the background, and keep it open."""
        if self.backlog_link(path).sender is None:
            self._tender.warm(path)

    async def warm_now(self, path: str) -> None:
        """Open the link to a backlog queue, and learn how large a message it takes."""
        link = self.backlog_link(path)
        if await link.warm(_WARM_S) is None:
            self.learn_limit(link.sender)

    async def send_to_backlog(self, work: Payload, action: ToBacklog) -> Outcome:
        """Perform one action of a send flow: the message, rewritten, to a backlog queue."""
        if self.tracing is None:
            return await self._to_backlog(work, action)
        with self.tracing.redirecting(action.queue, work) as ended:
            outcome = await self._to_backlog(work, action)
            ended(outcome)
            return outcome

    async def _to_backlog(self, work: Payload, action: ToBacklog) -> Outcome:
        try:
            outgoing = work.rewritten()
        except Exception as error:
            return self.backlog_failed(error, reused=False)
        link = self.backlog_link(action.queue)
        failure = await link.send(outgoing, action.timeout_s)
        if failure is None or not failure.is_crowded:
            self.count_backlog(work, accepted=failure is None)
        return DONE if failure is None else self.backlog_failed(failure.error, reused=failure.reused)

    # Pings ---------------------------------------------------------------------------------------------------------

    async def ping(self, path: str) -> PingResult:
        """Ask the entity once, now, whether it accepts sends; an accepted ping heals one that is not held."""
        self.check_open()
        return await self._pinger.ping(path)

    async def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every failed-over entity whose ping is due and which this process can claim; for workers."""
        self.check_open()
        return await self._pinger.ping_due(grace_s)

    def _start_syphon(self) -> None:
        from pairing.aio.syphon import Syphon  # the syphon uses the client, and only some clients host one

        self._syphon = self.background.start(Syphon(self).run(self._stop_syphon), "syphon")
