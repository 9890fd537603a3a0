"""The drain of a queue in the order of its sessions: the queue that the plain drain gets, without I/O.

It holds back a message as long as the queue holds an older one of its session, for whatever reason: refused, deferred,
or locked by a syphon that died. It lifts the barrier of a session after it has proved, by peeking to the end of the
queue, that no message of the session is left. If no process of a pair keeps the order, it costs one check per second.
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, Protocol

from pairing.drain.backlog_queue import BacklogQueue, Failed, Item, Sent, Settled, Verb
from pairing.drain.sorting import path_of
from pairing.drive import Operation
from pairing.messages.rewriting import SCHEDULED_ENQUEUE_TIME, SESSION_ID
from pairing.sessions.rulings import session_key
from pairing.sessions.turns import Holds, Turns

_LOOK_S = 1.0
_DOUBT_S, _LONGEST_DOUBT_S = 5.0, 600.0
_PAGES = 10
_FEW = 32
_SHORTEST_HOLD_S, _LONGEST_HOLD_S = 2.0, 5.0


class BarredQueue(BacklogQueue, Protocol):
    """A backlog queue, and the barriers of sessions that name it; Failed where Redis does not answer."""

    def barred(self) -> Operation[dict[str, int] | Failed | None]: ...

    def bar(self, keys: list[str]) -> Operation[Failed | None]: ...

    def lift(self, drained: dict[str, int]) -> Operation[int | Failed | None]: ...

    def hold(self, keys: list[str], seconds: float) -> Operation[Failed | None]: ...


class InTurn:
    """A backlog queue whose messages are sent in the order of their sessions."""

    def __init__(self, queue: BarredQueue, *, may_work: Callable[[], bool], now: Callable[[], float]) -> None:
        self.note: Callable[[Iterable[Any]], None] = lambda found: None
        """Called with messages that were seen in the queue."""
        self._queue, self._may_work, self._now = queue, may_work, now
        self.peek, self.count, self.keep = queue.peek, queue.count, queue.keep
        self.renew, self.rest = queue.renew, queue.rest
        self._sending = dict[str, list[Item]]()
        self._turns = Turns()
        self._holds = Holds()
        self._sent_since = set[str]()
        self._held, self._held_until = frozenset[str](), float("-inf")
        self._is_kept = False
        self._has_begun = False
        self._look_at = float("-inf")
        self._doubt_at, self._doubt_s = float("-inf"), _DOUBT_S

    def receive(self, count: int, wait_s: float) -> Operation[list[Any] | Failed]:
        """Look at the barriers if it is time to, then receive."""
        yield from self._look_in_time()
        return self._seen((yield from self._queue.receive(count, wait_s)))

    def fetch(self, numbers: list[int]) -> Operation[list[Any] | Failed]:
        """Look at the barriers if it is time to, then fetch."""
        yield from self._look_in_time()
        return self._seen((yield from self._queue.fetch(numbers)))

    def settle(
        self, verb: Verb, items: list[Item], reason: str = "", description: str = ""
    ) -> Operation[list[Settled]]:
        """Settle messages, and note which have left the queue."""
        outcomes = yield from self._queue.settle(verb, items, reason, description)
        if verb in ("complete", "dead_letter"):
            for item, settled in zip(items, outcomes, strict=True):
                if settled == "done":
                    self._turns.gone(item.number)
        return outcomes

    def _look_in_time(self) -> Operation[None]:
        if self._now() >= self._look_at:
            yield from self._look()

    def _seen(self, found: list[Any] | Failed) -> list[Any] | Failed:
        for message in [] if isinstance(found, Failed) else found:
            if message.sequence_number:
                self._turns.see(message.sequence_number, key_of(message))
        return found

    def send(self, path: str, items: list[Item]) -> Operation[Sent | None]:
        """Begin to send the messages whose turn it is; the others wait without being counted as failed.

        A group may contain messages of the session with a scheduled time: these have no order.
        """
        ready = len(items)
        if self._is_kept:
            key = key_of(items[0].received)
            alike = list(takewhile(lambda item: key_of(item.received) == key, items))
            numbers = [item.number for item in alike]
            if key is not None and not (yield from self._knows_before(numbers[-1])):
                return Sent(0, "turn", "the backlog could not be searched for older messages of its session")
            ready = self._turns.ready(numbers, key)
        if not ready:
            return Sent(0, "turn", "an older message of its session is still in the backlog")
        self._sending[path] = items[:ready]
        sent = yield from self._queue.send(path, items[:ready])
        return sent and self._noted(path, sent)

    def answers(self, wait_s: float) -> Operation[list[tuple[str, Sent]]]:
        """What became of sends, of which the messages that have left are noted."""
        answers = yield from self._queue.answers(wait_s)
        return [(path, self._noted(path, sent)) for path, sent in answers]

    def _noted(self, path: str, sent: Sent) -> Sent:
        items = self._sending.pop(path)[: sent.count]
        for item in items:
            self._turns.sent(item.number)
        if items:
            self._doubt_s = _DOUBT_S
            self._sent_since.add(key_of(items[0].received) or "")
        return sent

    def _knows_before(self, number: int) -> Operation[bool]:
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

    def _look(self) -> Operation[None]:
        """What the fleet waits for, and whether this queue still holds it."""
        began, from_number = self._now(), self._turns.look_from
        barred = yield from self._queue.barred()
        self._is_kept = barred is not None and (self._is_kept or not isinstance(barred, Failed))
        if isinstance(barred, dict) and (barred or self._turns.sessions() or not self._has_begun):
            yield from self._survey(barred)
        took = self._now() - began
        is_holding = self._now() < self._held_until and isinstance(barred, dict) and not self._held.isdisjoint(barred)
        is_beginning = not self._has_begun and self._turns.look_from > from_number
        self._look_at = self._now() + (0 if is_holding or is_beginning else max(_LOOK_S, 5 * took))
        if isinstance(barred, dict) and self._has_begun and not is_holding:
            yield from self._hold(barred, min(max(_SHORTEST_HOLD_S, 5 * took), _LONGEST_HOLD_S))

    def _hold(self, barred: dict[str, int], seconds: float) -> Operation[None]:
        """Hold back the sends of sessions that cannot be lifted; until then, look again at once and at each receive."""
        keys = self._holds.due(self._nearly_drained(barred), barred)
        self._sent_since.clear()
        if keys:
            yield from self._queue.hold(keys, seconds)
            self._held, self._held_until = frozenset(keys), self._now() + seconds
            yield from self._look()

    def _nearly_drained(self, barred: Iterable[str]) -> list[str]:
        """The sessions of which little is left, and less would be if nothing came."""
        counts = {key: self._turns.count(key) for key in barred}
        return [key for key, count in counts.items() if not count or (count <= _FEW and key in self._sent_since)]

    def _survey(self, barred: dict[str, int]) -> Operation[None]:
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
            yield from self._queue.bar(missing)
        drained = turns.drained(key for key, generation in barred.items() if generation)
        if drained:
            yield from self._queue.lift({key: barred[key] for key in drained})

    def _read_page(self) -> Operation[bool]:
        """Peek one page further; whether that was possible."""
        found = yield from self._queue.peek(self._turns.look_from)
        if isinstance(found, Failed):
            return False
        self.note(found)
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
