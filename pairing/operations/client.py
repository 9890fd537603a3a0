"""The network operations of a paired client, shared by the blocking and the asyncio client."""

import logging
import threading
from abc import abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from azure.servicebus.exceptions import OperationTimeoutError

from pairing.backlog.administration import (
    TRIES,
    AdministrationAction,
    CreateQueue,
    ListQueues,
    Paired,
    Pause,
    pairing_flow,
)
from pairing.clock import Clock, seconds
from pairing.credentials import check_credential
from pairing.drive import Eventually, Operation, Reply, call, nested
from pairing.ends import Endpoint, Role, check_keywords
from pairing.errors import BacklogCreationError, Fault, PairingError
from pairing.health.faults import describe
from pairing.health.flows import DONE, Failed, Outcome, ToBacklog
from pairing.links import LinkFailure, send_client_keywords
from pairing.messages.payload import Payload
from pairing.operations.receivers import Count, counting, meter_pages, meter_receiver
from pairing.options import SendAvailabilityOptions
from pairing.paired import PairedClient
from pairing.sessions.required import RequiredSessions

if TYPE_CHECKING:
    from pairing.telemetry.tracing import Tracing

_LOGGER = logging.getLogger("pairing")
_WARM_S = 10.0
_TOO_LATE = "Rewriting the messages for the backlog took the whole timeout; nothing was sent."


class BacklogLink(Protocol):
    """A link to a backlog queue, for threads or asyncio."""

    @property
    def sender(self) -> Any: ...

    def send(self, message: Any, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def warm(self, timeout_s: float) -> Eventually[LinkFailure | None]: ...


LinkT = TypeVar("LinkT", bound=BacklogLink)
SenderT = TypeVar("SenderT")
ReceiverT = TypeVar("ReceiverT")
PagesT = TypeVar("PagesT")


class ClientOperations(PairedClient, Generic[LinkT, SenderT, ReceiverT, PagesT]):
    """The operations of a paired client; methods of the blocking and the asyncio client run them."""

    _metered_classes: tuple[type, type, type]
    """The metered classes of a receiver, a session and pages."""
    _in_asyncio: bool

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
        super()._build(primary, secondary, options, clock)
        self._lock = threading.RLock()
        self._backlog_links: dict[str, LinkT] = {}
        self._required_sessions = RequiredSessions()

    @abstractmethod
    def _link_to(self, role: Role, name: str, *, warm: bool = False, **keywords: Any) -> LinkT:
        """A new link to an entity, not open yet; ``warm``: kept open while it is not used."""

    @abstractmethod
    def _all_links(self) -> list[LinkT]:
        """Every link of this client that is in use."""

    @abstractmethod
    def _warm_soon(self, queue: str) -> None:
        """Open the link to a backlog queue in the background."""

    @abstractmethod
    def _sender(self, name: str, **keywords: Any) -> SenderT: ...

    @abstractmethod
    def _begin_working(self) -> None:
        """The backlog queues are known: start background work, and allow sends."""

    @abstractmethod
    def _pause(self, wait_s: float) -> object:
        """Wait for this time, unless the client is closed."""

    @abstractmethod
    def _administer(self, action: ListQueues | CreateQueue) -> Eventually[Reply]:
        """Perform an action of the secondary's administration."""

    def _forked(self) -> None:
        super()._forked()
        if self.refusal is not None and self._state == "closed":
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
            self.emit("queue_pulled", "*", f"opened without backlog: {error}")
        self._begin_working()

    def _find_backlog_again(self) -> Operation[None]:
        """Find or create the backlog queues in one attempt, without other maintenance meanwhile."""
        if self._state != "opened":
            return
        paired = yield from self._find_backlog(tries=1)
        if self.backlog_paths:
            self._found_again(paired)
        else:
            self._repaired(paired)

    def _find_backlog(self, tries: int = TRIES) -> Operation[Paired]:
        if self._must_name_secondary():
            yield from self._name_secondary()
        flow = pairing_flow(
            self.secondary.namespace,
            self.primary.namespace,
            self.options.backlog_queue_count,
            pause_s=seconds(self.options.creation_retry_interval),
            tries=tries,
        )
        return (yield from nested(flow, self._perform_administration))

    def _name_secondary(self) -> Operation[None]:
        """If the host does not contain the namespace's name, query the namespace."""
        name = None
        try:
            name = (yield from call(self.secondary.administration.get_namespace_properties)).name
        except Exception as error:
            _LOGGER.info("the secondary namespace did not return its name: %s", describe(error))
        self._named(name)

    def _perform_administration(self, action: AdministrationAction) -> Operation[Reply]:
        if isinstance(action, Pause):  # a person who has just written the configuration should not wait to see it
            _LOGGER.warning("%s; trying again in %.0f s", action.reason, action.seconds)
            yield from call(self._pause, action.seconds)
            return action.reply(None)
        answer = yield from call(self._administer, action)
        self._count_administration(action, answer)
        return answer

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

    def _sdk_sender(self, role: Role, name: str, **keywords: Any) -> Any:
        end = self.primary if role == "primary" else self.secondary
        if end.is_down:
            raise PairingError(f"the {role} end is {end.state}")
        return end.sdk.get_queue_sender(name, **keywords, **send_client_keywords())

    def get_queue_receiver(self, queue_name: str, **keywords: Any) -> ReceiverT:
        """A metered receiver of a queue of the primary; arguments as in the SDK."""
        self.check_open()
        receiver: ReceiverT = self.primary.receiving.get_queue_receiver(queue_name, **keywords)
        return self._metered(receiver, queue_name)

    def get_subscription_receiver(self, topic_name: str, subscription_name: str, **keywords: Any) -> ReceiverT:
        """A metered receiver of a subscription of the primary; arguments as in the SDK."""
        self.check_open()
        receiver: ReceiverT = self.primary.receiving.get_subscription_receiver(
            topic_name, subscription_name, **keywords
        )
        return self._metered(receiver, topic_name)

    def _metered(self, receiver: ReceiverT, entity: str) -> ReceiverT:
        receiver_class, session_class, _ = self._metered_classes
        meter_receiver(receiver, receiver_class, session_class, self._counting(entity))
        return receiver

    def _metered_pages(self, pages: PagesT, entity: str) -> PagesT:
        meter_pages(pages, self._metered_classes[2], self._counting(entity))
        return pages

    def _counting(self, entity: str) -> Count:
        return counting(self.meter, self.primary.namespace, entity)

    def list_queue_sessions(
        self, queue_name: str, *, state_updated_after: datetime | None = None, timeout: float | None = None
    ) -> PagesT:
        """The sessions of a queue of the primary, as in the SDK."""
        self.check_open()
        found: PagesT = self.primary.receiving.list_queue_sessions(
            queue_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return self._metered_pages(found, queue_name)

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> PagesT:
        """The sessions of a subscription of the primary, as in the SDK."""
        self.check_open()
        found: PagesT = self.primary.receiving.list_subscription_sessions(
            topic_name, subscription_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return self._metered_pages(found, topic_name)

    # The backlog ---------------------------------------------------------------------------------------------------

    def backlog_link(self, path: str) -> LinkT:
        """The one link of this client to a backlog queue, shared by its senders."""
        link = self._backlog_links.get(path)
        if link is None:
            with self._lock:
                if path not in self._backlog_links:
                    self._backlog_links[path] = self._link_to("secondary", path, warm=True)
                link = self._backlog_links[path]
        return link

    def _links_of(self, role: Role) -> list[LinkT]:
        with self._lock:
            backlog = list(self._backlog_links.values())
        return backlog if role == "secondary" else [link for link in self._all_links() if link not in backlog]

    def warm(self, path: str) -> None:
        """Open the link to a backlog queue in the background, and keep it open."""
        if self.backlog_link(path).sender is None:
            self._warm_soon(path)

    def _open_backlog_link(self, path: str) -> Operation[None]:
        link = self.backlog_link(path)
        if (yield from call(link.warm, _WARM_S)) is None:
            self.learn_limit(link.sender)

    def send_to_backlog(self, work: Payload, action: ToBacklog) -> Operation[Outcome]:
        """Send a message, rewritten, to a backlog queue; the outcome for the send flow."""
        return self._to_backlog(work, action) if self.tracing is None else self._traced(self.tracing, work, action)

    def _prepared(self, work: Payload, action: ToBacklog) -> Operation[Failed | None]:
        """Rewrite many messages within the time of the action; or why they are not to be sent."""
        refusal = self._required_sessions.refusal(work.path, work.messages)
        if refusal is not None:
            return self.backlog_failed(refusal, reused=False)
        until = self.clock.now() + action.timeout_s
        try:
            for _ in work.rewriting():
                if self.clock.now() >= until:
                    return Failed(Fault.CALLER, OperationTimeoutError(message=_TOO_LATE), is_crowded=True)
                yield from call(self._breathe)
        except Exception as error:
            return self.backlog_failed(error, reused=False)
        action.timeout_s = until - self.clock.now()
        return None

    @abstractmethod
    def _breathe(self) -> Eventually[None]:
        """Let others go on, in the middle of a long computation."""

    def _traced(self, tracing: "Tracing", work: Payload, action: ToBacklog) -> Operation[Outcome]:
        with tracing.redirecting(action.queue, work) as ended:
            outcome = yield from self._to_backlog(work, action)
            ended(outcome)
            return outcome

    def _to_backlog(self, work: Payload, action: ToBacklog) -> Operation[Outcome]:
        if work.units != 1 or self._required_sessions.required:
            failed = yield from self._prepared(work, action)
            if failed is not None:
                return failed
        try:
            outgoing = work.rewritten()
        except Exception as error:
            return self.backlog_failed(error, reused=False)
        failure = yield from call(self.backlog_link(action.queue).send, outgoing, action.timeout_s)
        if failure is None:
            if work.units == 1:  # one small message, as most are: noted, which is cheaper than counted
                self._note_backlog(work)
            else:
                self.count_backlog(work, accepted=True)
            return DONE
        if not failure.is_crowded:
            self.count_backlog(work, accepted=False)
        return self.backlog_failed(failure.error, reused=failure.reused)
