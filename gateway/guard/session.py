"""A session with guarded links: two numberings of transfers and deliveries, the client's and the primary's.

They agree until a delivery is redirected. Frames are passed on as they are where their numbers agree.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from amqp10 import performatives as p
from amqp10.codec import encode, encode_list
from amqp10.frame_fields import FrameFields
from amqp10.types import AmqpError, UInt
from gateway.memory import Proofs

WINDOW = 0x7FFFFFFF
REST_S, RETRY_S = 0.05, 35.0
"""How long a client sends nothing that is between two sends; and within which SDKs send again what was refused."""
_SERIAL = 0xFFFFFFFF
ACCEPTED = encode(p.accepted())
_TRUE, _NULL = b"\x41", b"\x40"


class Guarded(Protocol):
    """A guarded link, as its session sees it."""

    handle: int
    back_handle: int | None
    reply_handle: int

    def transfer(self, fields: FrameFields) -> None: ...
    def outcome(self, kept: Any, state: bytes) -> None: ...
    def flow(self, fields: FrameFields) -> None: ...
    def report(self) -> None: ...
    def end(self) -> None: ...


L = TypeVar("L", bound=Guarded)


class GuardRelay(Protocol):
    """The relay of a client, as its guard, and the sessions and links of that, see it."""

    max_body: int
    partial: int  # bytes of incomplete deliveries
    kept: int  # bytes of those without an outcome
    is_primary_there: bool
    busy_until: float
    token_link: tuple[int, int] | None  # the primary's channel and handle of the link on which it is asked for tokens
    proofs: Proofs
    tokens: dict[int, dict[int, Any]]  # links to `$cbs`, by channel and handle

    def to_primary(self, channel: int, body: bytes) -> None: ...
    def to_client(self, channel: int, body: bytes) -> None: ...
    def flush(self) -> None: ...
    def primary_overdue(self) -> bool: ...


class GuardedSession(Generic[L]):
    """`channel` is the client's, `back` the one on which the primary answers."""

    def __init__(self, relay: GuardRelay, channel: int, begin: FrameFields) -> None:
        self.relay, self.channel, self.back = relay, channel, -1
        self.links: dict[int, L] = {}  # by the client's handle
        self.leaving: list[L] = []  # by the client, which knows nothing of what the primary still answers
        self.shown: dict[int, int] = {}  # the handles by which the client knows links, by those of the primary
        self.is_relayed_whole: bool | None = None
        """Whether no link of it is guarded; None before the first."""
        self._next_incoming = self._next_outgoing = begin.value("next_outgoing_id")
        self._to_client = self._window = 0
        self._next_delivery: int | None = None
        self._sent: dict[int, tuple[L | None, Any]] = {}  # what waits for an outcome, by the primary's delivery id
        self.unfinished: dict[int, int | None] = {}  # the primary's ids of deliveries, by the handles of their links
        self.waiting: deque[bytes] = deque()  # until the primary's window has room
        self.tokens_handle: int | None = None
        """The primary's, of the link on which it answers tokens."""

    def begun(self, back: int, begun: FrameFields) -> None:
        """The primary has begun the session."""
        self.back = back
        self._to_client, self._window = begun.value("next_outgoing_id"), begun.value("incoming_window")

    def end(self) -> None:
        """It has ended at one side: the client gets no outcome any more, and sends again what it has not heard of."""
        for link in self.links.values():
            link.end()
        self.links.clear()
        self.waiting.clear()

    def link_behind(self, handle: int | None) -> L | None:
        """The guarded link with this handle of the primary."""
        links = [*self.links.values(), *self.leaving]
        return next((link for link in links if handle is not None and link.back_handle == handle), None)

    def show(self, handle: int) -> int:
        """The client's handle of a link that the primary attaches: another one if the client knows a link by that."""
        taken = {*self.shown.values(), *(link.reply_handle for link in self.links.values())}
        self.shown[handle] = handle if handle not in taken else next(each for each in count() if each not in taken)
        return self.shown[handle]

    # --- transfers -------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the primary's window lets a transfer out."""
        return self._window > 0 and not self.waiting

    def transfer(self, fields: FrameFields, bodies: list[bytes]) -> None:
        """A transfer of the client, and what the primary would get of it."""
        self._next_incoming = (self._next_incoming + 1) & _SERIAL
        link = self.links.get(fields.value("handle"))
        if link is not None:
            link.transfer(fields)
        elif bodies:
            self.pass_on([FrameFields(body) for body in bodies])

    def pass_on(self, parts: list[FrameFields], owner: tuple[L, Any] | None = None) -> None:
        """Send a client's own frames to the primary; the outcome goes to the owner, or back to the client."""
        for part in parts:
            handle, number = part.value("handle"), part.value("delivery_id")
            sent = self.unfinished.pop(handle, None)
            if sent is None and number is not None:
                sent = self._number(number)
                if not part.value("settled"):
                    self._sent[sent] = owner or (None, number)
            if sent is not None and part.value("aborted"):  # it has no outcome
                self._sent.pop(sent, None)
            elif part.value("more"):
                self.unfinished[handle] = sent
            self._write(part.body if number in (None, sent) else part.replaced(delivery_id=sent))

    def forget(self, link: L) -> list[Any]:
        """The deliveries of a link that has ended at the primary, whose outcomes are not expected any more."""
        self.waiting = deque(body for body in self.waiting if FrameFields(body).value("handle") != link.handle)
        gone = [number for number, (owner, _) in self._sent.items() if owner is link]
        return [self._sent.pop(number)[1] for number in gone]

    def _number(self, wanted: int) -> int:
        """The primary's id of the next delivery: the client's own where that keeps their order."""
        number = wanted if self._next_delivery is None else self._next_delivery
        self._next_delivery = (number + 1) & _SERIAL
        return number

    def _write(self, body: bytes) -> None:
        if self.has_room:
            self._count(body)
        else:
            self.waiting.append(body)

    def _count(self, body: bytes) -> None:
        self._next_outgoing = (self._next_outgoing + 1) & _SERIAL
        self._window -= 1
        self.relay.to_primary(self.channel, body)

    # --- dispositions ----------------------------------------------------------------------------------------------

    def disposition(self, fields: FrameFields) -> bool:
        """Outcomes of the primary; whether they are dealt with here, as those of forgotten deliveries are."""
        if self._next_delivery is None or not fields.value("role"):
            return False
        first, last = fields.value("first"), fields.value("last")
        size = 1 if last is None else ((last - first) & _SERIAL) + 1
        some = self._sent if size > len(self._sent) else ((first + step) & _SERIAL for step in range(size))
        numbers = [number for number in some if number in self._sent and (number - first) & _SERIAL < size]
        found = {number: self._sent.pop(number) for number in numbers}
        if len(found) == size and all(sent == (None, number) for number, sent in found.items()):
            return False
        for link, delivery in found.values():
            if isinstance(delivery, int):
                self.relay.to_client(self.back, fields.replaced(first=delivery, last=None))
            elif link is not None:
                link.outcome(delivery, fields.encoded("state"))
        return True

    def settle(self, number: int, state: bytes) -> None:
        """Tell the client the outcome of a delivery. Raises AmqpError."""
        if self.back < 0:
            raise AmqpError("amqp:illegal-state", "a delivery before its session has begun")
        fields = [_TRUE, encode(UInt(number)), _NULL, _TRUE, state, _NULL]  # a disposition's, as others write it
        self.relay.to_client(self.back, b"\x00\x53\x15" + encode_list(fields))

    # --- flows -----------------------------------------------------------------------------------------------------

    def flow_from_client(self, fields: FrameFields) -> None:
        """A flow of the client: the primary gets it with its own count, unless it is about a guarded link."""
        link = self.links.get(fields.value("handle"))
        if link is None:
            is_same = self._next_incoming == self._next_outgoing
            body = fields.body if is_same else fields.replaced(next_outgoing_id=self._next_outgoing)
            self.relay.to_primary(self.channel, body)
        elif fields.value("echo"):
            link.report()

    def flow_from_primary(self, fields: FrameFields) -> bool:
        """A flow of the primary; whether it is dealt with here: about a guarded link, or with other numbers."""
        received = fields.value("next_incoming_id")
        on_the_way = 0 if received is None else (self._next_outgoing - received) & _SERIAL
        self._window = max(0, fields.value("incoming_window") - on_the_way)
        while self.waiting and self._window > 0:
            self._count(self.waiting.popleft())
        handle = fields.value("handle")
        link, known = self.link_behind(handle), self.shown.get(handle, handle)
        is_taken = bool(self.links) or self._next_incoming != self._next_outgoing or known != handle
        if link is not None:
            link.flow(fields)
        elif is_taken:
            body = fields.replaced(next_incoming_id=self._next_incoming, incoming_window=WINDOW, handle=known)
            self.relay.to_client(self.back, body)
        return is_taken

    def grant(self, handle: int, delivery_count: int, credit: int) -> None:
        """Send the client the credit of a guarded link."""
        flow = p.Flow(self._next_incoming, WINDOW, self._to_client, WINDOW, handle, delivery_count, credit)
        self.relay.to_client(self.back, p.encode_performative(flow))

    def transferred_to_client(self) -> None:
        """A transfer of the primary is passed to a receiver of the client."""
        self._to_client = (self._to_client + 1) & _SERIAL
