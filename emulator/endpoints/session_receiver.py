"""Links on which a client receives the messages of one session."""

from __future__ import annotations

from typing import Any

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.types import Described, Long, Symbol
from emulator.broker.errors import ArgumentError, BrokerError, NotAllowed, SessionCannotBeLocked, SessionLockLost
from emulator.endpoints.receiver import ReceiverEndpoint
from emulator.host import MAX_MESSAGE_SIZE

SESSION_FILTER = "com.microsoft:session-filter"
LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
TIMEOUT_PROPERTY = "com.microsoft:timeout"
ACCEPT_TIMEOUT_S = 60.0
SESSION_LOST_GRACE_S = 1.0
REFUSAL_DELAY_S = 0.01
_TICKS_AT_1970 = 621355968000000000


class SessionReceiverEndpoint(ReceiverEndpoint):
    """A link on which a client receives the messages of one session, which is locked for it while the link is open."""

    session_id: str | None = None

    def open(self) -> None:
        self._find()
        if not self.queue.description.requires_session:
            raise NotAllowed("The entity has no sessions: receive without a session id.")
        session_id = session_filter(self.link.source)
        self._via = self.transaction_entity(receives=True)
        now = self.host.clock()
        if session_id is not None:
            self._accept(session_id, now)
            return
        self.queue.receivers.accept_next_session(self, now)
        if self.session_id is None:
            self.host.later(_accept_timeout(self.link.attach.properties), self._time_out)

    def _accept(self, session_id: str, now: float) -> None:
        try:
            self.queue.receivers.accept_session(session_id, self, now)
        except SessionCannotBeLocked as error:
            # SDKs for JavaScript before 7.6 lose the error of a detach that they read together with the attach.
            self.link.announce_refusal()
            self._detach_later(REFUSAL_DELAY_S, error)

    def _time_out(self) -> None:
        """Refuse the link, as no session became available in time."""
        if self.queue.receivers.stop_accepting(self) and self.link.is_open:
            self.link.refuse("com.microsoft:timeout", "No session was available within the timeout.")
            self.link.owner = None
            self.client.request_flush()

    # --- broker.message_session.SessionHolder ----------------------------------------------------------------------

    def session_granted(self, session_id: str, until: float) -> None:
        self.session_id = session_id
        source = self.link.source
        assert source is not None
        asked = source.filters[SESSION_FILTER]
        granted = Described(asked.descriptor, session_id) if isinstance(asked, Described) else session_id
        self.accept(
            max_message_size=MAX_MESSAGE_SIZE,
            source=source.encoded({Symbol(SESSION_FILTER): granted}),
            properties={LOCKED_UNTIL: Long(_TICKS_AT_1970 + int(until * 1000) * 10000)},
        )
        self.client.request_flush()

    def session_lost(self) -> None:
        """The link is detached after a grace period, so that the receiver first gets the errors of its settlements."""
        self.session_id = None
        self._end_grant()
        self._detach_later(SESSION_LOST_GRACE_S, SessionLockLost("The session lock has expired."))

    def _detach_later(self, delay_s: float, error: BrokerError) -> None:
        def detach() -> None:
            if self.link.is_open:
                self.link.detach(error.condition, str(error))
                self.client.request_flush()

        self.host.later(delay_s, detach)

    def _apply(self, event: e.Settled) -> bytes:
        if self.session_id is None:
            raise SessionLockLost
        return super()._apply(event)

    def _wait(self) -> None:
        if self.session_id is not None:
            self.queue.receivers.wait_in_session(self.session_id, self.host.clock())

    def _withdraw(self) -> None:
        """Nothing to do at zero credit: delivery stops because `accepts` refuses."""

    def detached(self) -> None:
        self._end_grant()
        self.queue.receivers.stop_accepting(self)
        if self.session_id is not None:
            session_id, self.session_id = self.session_id, None
            self.queue.receivers.close_session(session_id, self, self.host.clock())


def has_session_filter(source: p.Terminus | None) -> bool:
    """Whether a receiver asks for a session, by id or the next available one."""
    return source is not None and SESSION_FILTER in source.filters


def session_filter(source: p.Terminus | None) -> str | None:
    """The session id a receiver asks for; None for the next available. Raises ArgumentError."""
    value = source.filters[SESSION_FILTER] if source is not None else None
    if isinstance(value, Described):
        value = value.value
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ArgumentError("The session id is not a string.") from None
    if value is not None and not isinstance(value, str):
        raise ArgumentError("The session id is not a string.")
    return value


def _accept_timeout(properties: dict[Any, Any] | None) -> float:
    """How long the client waits for a session, in seconds."""
    value = (properties or {}).get(TIMEOUT_PROPERTY)
    return value / 1000 if isinstance(value, int) and 0 <= value < 86_400_000 else ACCEPT_TIMEOUT_S
