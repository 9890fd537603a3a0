"""The drain of a queue in the order of its sessions: a flow that wraps the plain drain flow, without I/O.

It holds back a message as long as the queue holds an older one of its session, for whatever reason: refused, deferred,
or locked by a syphon that died. It lifts the barrier of a session after it has proved, by peeking to the end of the
queue, that no message of the session is left. If no process of a pair keeps the order, it costs one check per second.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

from pairing.drain.actions import DrainAction, Failed, Fetch, Peek, Receive, Send, Sent, Settle, Steps
from pairing.drain.sorting import path_of
from pairing.drive import Action, Reply
from pairing.messages.rewriting import SCHEDULED_ENQUEUE_TIME, SESSION_ID
from pairing.sessions.holds import Holds
from pairing.sessions.rulings import session_key
from pairing.sessions.turns import Turns

_LOOK_S = 1.0
_DOUBT_S, _LONGEST_DOUBT_S = 5.0, 600.0
_PAGES = 10
_FEW = 32
_SHORTEST_HOLD_S, _LONGEST_HOLD_S = 2.0, 5.0

T = TypeVar("T")


@dataclass(slots=True)
class Barred(Action[dict[str, int] | Failed | None]):
    """The generations, by key, of the sessions whose barrier names the queue; None where no order is kept."""


@dataclass(slots=True)
class Bar(Action[Failed | None]):
    """Raise barriers for sessions found in the queue."""

    keys: list[str]


@dataclass(slots=True)
class Lift(Action[int | Failed | None]):
    """Lift the barriers of these sessions, unless somebody sent since; how many were."""

    drained: dict[str, int]


@dataclass(slots=True)
class Hold(Action[Failed | None]):
    """Let the next sends of these sessions wait for a moment."""

    keys: list[str]
    seconds: float


SessionAction = Barred | Bar | Lift | Hold
OrderedSteps = Generator[DrainAction | SessionAction, Reply, T]


class InTurn:
    """Drives the flow of a drain, action by action."""

    def __init__(
        self, *, may_work: Callable[[], bool], now: Callable[[], float], note: Callable[[Iterable[Any]], None]
    ) -> None:
        self._may_work, self._now, self._note = may_work, now, note
        self._turns = Turns()
        self._holds = Holds()
        self._sent_since = set[str]()
        self._held, self._held_until = frozenset[str](), float("-inf")
        self._is_kept = False
        self._has_begun = False
        self._look_at = float("-inf")
        self._doubt_at, self._doubt_s = float("-inf"), _DOUBT_S

    def run(self, flow: Steps) -> OrderedSteps[None]:
        """The same flow, with messages in the order of their sessions."""
        try:
            action = next(flow)
            while True:
                if isinstance(action, Receive | Fetch) and self._now() >= self._look_at:
                    yield from self._look()
                action = flow.send((yield from self._performed(action)))
        except StopIteration:
            return
        finally:
            flow.close()

    def _performed(self, action: DrainAction) -> OrderedSteps[Reply]:
        match action:
            case Send():
                return action.reply((yield from self._send(action)))
            case Receive() | Fetch():
                found = yield from action
                self._see([] if isinstance(found, Failed) else found)
                return action.reply(found)
            case Settle():
                outcomes = yield from action
                if action.verb in ("complete", "dead_letter"):
                    for item, settled in zip(action.items, outcomes, strict=True):
                        if settled == "done":
                            self._turns.gone(item.number)
                return action.reply(outcomes)
            case _:
                return (yield action)

    def _see(self, received: list[Any]) -> None:
        for message in received:
            if message.sequence_number:
                self._turns.see(message.sequence_number, key_of(message))

    def _send(self, action: Send) -> OrderedSteps[Sent]:
        """Send the messages whose turn it is; the others wait without being counted as failed.

        A group may contain messages of the session with a scheduled time: these have no order.
        """
        ready = len(action.items)
        if self._is_kept:
            key = key_of(action.items[0].received)
            alike = list(takewhile(lambda item: key_of(item.received) == key, action.items))
            numbers = [item.number for item in alike]
            if key is not None and not (yield from self._knows_before(numbers[-1])):
                return Sent(0, "turn", "the backlog could not be searched for older messages of its session")
            ready = self._turns.ready(numbers, key)
        if not ready:
            return Sent(0, "turn", "an older message of its session is still in the backlog")
        sent = yield from Send(action.path, action.items[:ready])
        for item in action.items[: sent.count]:
            self._turns.sent(item.number)
        if sent.count:
            self._doubt_s = _DOUBT_S
            self._sent_since.add(key_of(action.items[0].received) or "")
        return sent

    def _knows_before(self, number: int) -> OrderedSteps[bool]:
        """Make sure that every older message in the queue was seen. A link that died may have taken some with it: they
        stay locked, and the next link gets newer ones.
        """
        turns = self._turns
        while not turns.knows_before(number) and self._may_work():
            if not (yield from self._read_page()) or turns.is_whole:
                break
        return turns.knows_before(number)

    def in_turn(self, numbers: list[int]) -> list[int]:
        """Those of these messages in the queue without an older message of their session."""
        return self._turns.in_turn(numbers) if self._is_kept else numbers

    # Barriers ------------------------------------------------------------------------------------------------------

    def _look(self) -> OrderedSteps[None]:
        """What the fleet waits for, and whether this queue still holds it."""
        began, from_number = self._now(), self._turns.look_from
        barred = yield from Barred()
        self._is_kept = barred is not None and (self._is_kept or not isinstance(barred, Failed))
        if isinstance(barred, dict) and (barred or self._turns.sessions() or not self._has_begun):
            yield from self._survey(barred)
        took = self._now() - began
        is_holding = self._now() < self._held_until and isinstance(barred, dict) and not self._held.isdisjoint(barred)
        is_beginning = not self._has_begun and self._turns.look_from > from_number
        self._look_at = self._now() + (0 if is_holding or is_beginning else max(_LOOK_S, 5 * took))
        if isinstance(barred, dict) and self._has_begun and not is_holding:
            yield from self._hold(barred, min(max(_SHORTEST_HOLD_S, 5 * took), _LONGEST_HOLD_S))

    def _hold(self, barred: dict[str, int], seconds: float) -> OrderedSteps[None]:
        """Hold back the sends of sessions that cannot be lifted; until then, look again at once and at each receive."""
        keys = self._holds.due(self._nearly_drained(barred), barred)
        self._sent_since.clear()
        if keys:
            yield from Hold(keys, seconds)
            self._held, self._held_until = frozenset(keys), self._now() + seconds
            yield from self._look()

    def _nearly_drained(self, barred: Iterable[str]) -> list[str]:
        """The sessions of which little is left, and less would be if nothing came."""
        counts = {key: self._turns.count(key) for key in barred}
        return [key for key, count in counts.items() if not count or (count <= _FEW and key in self._sent_since)]

    def _survey(self, barred: dict[str, int]) -> OrderedSteps[None]:
        """Peek towards the end of the queue, some pages at a time: messages are sent meanwhile, because a syphon that
        looked through a long queue first would send nothing where it is restarted often.
        """
        turns = self._turns
        turns.is_whole = False
        if self._has_begun:
            self._doubt_what_stays()
        for _ in range(_PAGES):
            if turns.is_whole or not self._may_work():
                break
            if not (yield from self._read_page()):
                return
        self._has_begun = self._has_begun or turns.is_whole
        missing = sorted(turns.sessions() - barred.keys())
        if missing:
            yield from Bar(missing)
        drained = turns.drained(key for key, generation in barred.items() if generation)
        if drained:
            yield from Lift({key: barred[key] for key in drained})

    def _read_page(self) -> OrderedSteps[bool]:
        """Peek one page further; whether that was possible."""
        found = yield from Peek(self._turns.look_from)
        if isinstance(found, Failed):
            return False
        self._note(found)
        self._turns.page([(message.sequence_number, key_of(message)) for message in found])
        return True

    def _doubt_what_stays(self) -> None:
        """What is believed to be in the queue may be gone by other hands: look again, ever more seldom."""
        if self._turns.sessions() and self._now() >= self._doubt_at:
            self._turns.doubt()
            self._doubt_at = self._now() + self._doubt_s
            self._doubt_s = min(2 * self._doubt_s, _LONGEST_DOUBT_S)


def key_of(message: Any) -> str | None:
    """The session of a message from the backlog; None without a session or with a scheduled time."""
    properties = message.application_properties or {}
    path, session = path_of(message), properties.get(SESSION_ID.encode())
    if not path or session is None or SCHEDULED_ENQUEUE_TIME.encode() in properties:
        return None
    return session_key(path, session.decode(errors="replace") if isinstance(session, bytes) else str(session))
