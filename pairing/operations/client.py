"""The network operations of a paired client, shared by the blocking and the asyncio client."""

import logging
import threading
import time
from abc import abstractmethod
from datetime import datetime
from itertools import chain
from math import inf
from typing import Any, Generic, Self, TypeVar

from azure.servicebus.management import QueueProperties

from pairing.backlog.administration import CREATED_WITH, PAGE, TRIES, Paired, find_or_create, understood
from pairing.clock import Clock
from pairing.drive import Operation, Runtime, call
from pairing.ends import Endpoint, Role, check_credential, check_keywords
from pairing.errors import BacklogCreationError, PairingError
from pairing.health.faults import describe
from pairing.links.credentials import AskedCredential, AwaitedCredential
from pairing.links.failures import AnyLink
from pairing.options import MOST_LINKS, SendAvailabilityOptions
from pairing.paired import PairedClient
from pairing.sessions.required import RequiredSessions

_LOGGER = logging.getLogger("pairing")
_WARM_S = 10.0
MOST_BACKLOG_LINKS = MOST_LINKS
"""How many links a client opens to its backlog queues together; each send that finds none free opens another."""
_IDLE_S = 60.0
_monotonic = time.monotonic  # a step that each send is spared

LinkT = TypeVar("LinkT", bound=AnyLink)
SenderT = TypeVar("SenderT")
ReceiverT = TypeVar("ReceiverT")
PagesT = TypeVar("PagesT")


class ClientOperations(PairedClient, Generic[LinkT, SenderT, ReceiverT, PagesT]):
    """The operations of a paired client; methods of the blocking and the asyncio client run them."""

    _metered_classes: tuple[type, type, type]
    """The metered classes of a receiver, a session and pages."""
    _in_asyncio: bool
    _runtime: Runtime
    _maintenance: Any

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
        check_credential("primary", credential, in_asyncio=self._in_asyncio)
        check_credential("secondary", secondary, in_asyncio=self._in_asyncio)
        asked = AwaitedCredential if self._in_asyncio else AskedCredential
        self._build(
            Endpoint.from_host("primary", primary_fqdn, asked.of(credential), keywords),
            Endpoint.from_host("secondary", secondary_fqdn, asked.of(secondary), keywords),
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
        super()._build(primary, secondary, options, clock)
        self._lock = threading.RLock()
        self._backlog_links: dict[str, list[LinkT]] = {}
        self._closing = self._runtime.event()
        self._required_sessions = RequiredSessions()

    @abstractmethod
    def _link_to(self, role: Role, name: str, *, warm: bool = False, idle_s: float = inf, **keywords: Any) -> LinkT:
        """A new link to an entity, not open yet; ``warm``: kept open while it is not used; ``idle_s``: closed then."""

    @abstractmethod
    def _all_links(self) -> list[LinkT]:
        """Every link of this client that is in use."""

    @abstractmethod
    def _sender(self, name: str, **keywords: Any) -> SenderT: ...

    @abstractmethod
    def _begin_working(self) -> None:
        """The backlog queues are known: start background work, and allow sends."""

    def _forked(self) -> None:
        super()._forked()
        if self._refusal is not None and self._state == "closed":
            self._lock = threading.RLock()
            self._forget_links()

    @abstractmethod
    def _forget_links(self) -> None:
        """Leave the connections alone, because they belong to the parent process."""

    # Opening -------------------------------------------------------------------------------------------------------

    def _open(self) -> Operation[None]:
        if self._state == "opened":
            return
        self._check_new()
        try:
            self._paired((yield from self._find_backlog()))
        except BacklogCreationError as error:
            if self.options.require_secondary:
                yield from call(self.secondary.let_go)
                raise
            self.pair_state.emit("queue_pulled", "*", f"opened without backlog: {error}")
        self._begin_working()

    def _find_backlog_again(self) -> Operation[None]:
        """Find or create the backlog queues in one attempt, without other maintenance meanwhile."""
        if self._state != "opened":
            return
        paired = yield from self._find_backlog(tries=1)
        if self.backlog_paths:
            self._found_again(paired)
        else:
            self._paired(paired)
            self.pair_state.emit("queue_returned", "*", f"{self.backlog_queue_count} backlog queues found or created")

    def _find_backlog(self, tries: int = TRIES) -> Operation[Paired]:
        if self.options.secondary_namespace is None and self.secondary.endpoint.label is None:
            yield from self._name_secondary()
        return (
            yield from find_or_create(
                _Secondary(self),
                self.secondary.namespace,
                self.primary.namespace,
                self.options.backlog_queue_count,
                pause_s=self.options.creation_retry_interval.total_seconds(),
                tries=tries,
            )
        )

    def _name_secondary(self) -> Operation[None]:
        """If the host does not contain the namespace's name, query the namespace."""
        end = self.secondary
        try:
            end.namespace = (yield from call(end.administration.get_namespace_properties)).name or end.namespace
        except Exception as error:
            _LOGGER.info("the secondary namespace did not return its name: %s", describe(error))
        self._count_administration()

    # Senders and receivers -----------------------------------------------------------------------------------------

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> SenderT:
        """A sender for a queue; nothing is opened before the first send."""
        self._check_name("queue_name", queue_name)
        return self._sender(queue_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> SenderT:
        """A sender for a topic; nothing is opened before the first send."""
        self._check_name("topic_name", topic_name)
        return self._sender(topic_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def sdk_sender(self, role: Role, name: str, **keywords: Any) -> Any:
        """A new sender of the SDK, on a link that the library keeps alive."""
        end = self.primary if role == "primary" else self.secondary
        if end.is_down:
            raise PairingError(f"the {role} end is {end.state}")
        return end.sdk.get_queue_sender(name, **keywords, keep_alive=0)  # its thread would slow every close

    def get_queue_receiver(self, queue_name: str, **keywords: Any) -> ReceiverT:
        """A metered receiver of a queue of the primary; arguments as in the SDK."""
        self._check_open()
        return self._metered(self.primary.receiving.get_queue_receiver(queue_name, **keywords), queue_name)

    def get_subscription_receiver(self, topic_name: str, subscription_name: str, **keywords: Any) -> ReceiverT:
        """A metered receiver of a subscription of the primary; arguments as in the SDK."""
        self._check_open()
        receiver = self.primary.receiving.get_subscription_receiver(topic_name, subscription_name, **keywords)
        return self._metered(receiver, topic_name)

    def list_queue_sessions(
        self, queue_name: str, *, state_updated_after: datetime | None = None, timeout: float | None = None
    ) -> PagesT:
        """The sessions of a queue of the primary, as in the SDK."""
        self._check_open()
        pages = self.primary.receiving.list_queue_sessions(
            queue_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return self._metered_pages(pages, queue_name)

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> PagesT:
        """The sessions of a subscription of the primary, as in the SDK."""
        self._check_open()
        pages = self.primary.receiving.list_subscription_sessions(
            topic_name, subscription_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return self._metered_pages(pages, topic_name)

    def _metered(self, receiver: Any, entity: str) -> ReceiverT:
        receiver_class, session_class, _ = self._metered_classes
        if receiver.session is not None:
            self._counted(receiver.session, session_class, entity)
        metered: ReceiverT = self._counted(receiver, receiver_class, entity)
        return metered

    def _metered_pages(self, pages: Any, entity: str) -> PagesT:
        metered: PagesT = self._counted(pages, self._metered_classes[2], entity)
        return metered

    def _counted(self, made: Any, class_: type, entity: str) -> Any:
        """Let what the SDK has made count its calls from now on; it remains an instance of the SDK's class."""
        made.__class__ = class_
        made._count = lambda kind, **numbers: self.meter.count(kind, self.primary.namespace, entity, **numbers)
        return made

    # The backlog ---------------------------------------------------------------------------------------------------

    def _backlog_link(self, path: str) -> LinkT:
        """A link of this client to a backlog queue on which no send is under way, unless there are too many.

        One stays open; more are opened while sends would wait for each other, and closed when idle.
        """
        for link in self._backlog_links.get(path, ()):
            if not link.is_in_use:
                break
        else:
            link = self._one_more(path)
        link.used_at = _monotonic()
        return link

    def _one_more(self, path: str) -> LinkT:
        with self._lock:
            links = self._links_to(path)
            if not links[0].is_in_use:
                return links[0]
            if len(self._links_of("secondary")) >= MOST_BACKLOG_LINKS:
                return min(links, key=lambda link: link.used_at)
            links.append(self._link_to("secondary", path, idle_s=_IDLE_S))
            return links[-1]

    def _links_to(self, path: str) -> list[LinkT]:
        """The links to a backlog queue, of which the first is kept open."""
        with self._lock:
            if path not in self._backlog_links:
                self._backlog_links[path] = [self._link_to("secondary", path, warm=True)]
            return self._backlog_links[path]

    def _links_of(self, role: Role) -> list[LinkT]:
        with self._lock:
            backlog = list(chain.from_iterable(self._backlog_links.values()))
        return backlog if role == "secondary" else [link for link in self._all_links() if link not in backlog]

    def _warm(self, path: str) -> None:
        """Open the link to a backlog queue in the background, and keep it open."""
        if self._links_to(path)[0].sender is None:
            self._maintenance.warm(path)

    def _open_backlog_link(self, path: str) -> Operation[None]:
        link = self._links_to(path)[0]
        if (yield from call(link.warm, _WARM_S)) is None:
            self._learn_limit(link.sender)


class _Secondary:
    """The requests of a client to its secondary namespace, which are metered."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        self._client = client

    def list_queues(self) -> Operation[list[QueueProperties]]:
        """All queues of the namespace."""
        client, found = self._client, list[QueueProperties]()
        try:
            found = yield from call(client._runtime.listed, client.secondary.administration.list_queues())
        finally:
            client._count_administration(len(found) // PAGE + 1)
        return found

    def create_queue(self, path: str) -> Operation[None]:
        """Create a backlog queue."""
        try:
            with understood():
                yield from call(self._client.secondary.administration.create_queue, path, **CREATED_WITH)
        finally:
            self._client._count_administration()

    def pause(self, seconds: float, reason: str) -> Operation[None]:
        """Wait before the namespace is asked again, unless the client is closed."""
        _LOGGER.warning("%s; trying again in %.0f s", reason, seconds)  # a person may wait for the client to open
        yield from call(self._client._runtime.rest, self._client._closing, seconds)
