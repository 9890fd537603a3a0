"""The drain of one backlog queue: the rules of the syphon.

A message is completed in the backlog only after its send to the primary was acknowledged (docs/specification.md,
section 8; docs/syphon.md). Messages for a destination that accepts none are deferred, so that others can
pass, and fetched by their sequence numbers when it accepts sends again. The rules do no I/O: they get the queue
as a ``BacklogQueue``.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

from pairing.drain.backlog_queue import BATCH, BacklogQueue, Failed, Item, Progress, Sent
from pairing.drain.destinations import LONGEST_PAUSE_S, Destinations
from pairing.drain.ledger import Fate
from pairing.drain.queue_state import QueueState
from pairing.drain.search import Search
from pairing.drain.settling import Round, Settling
from pairing.drain.sorting import Sorted, groups, sort
from pairing.drive import Operation

_SLICE_S = 1.0
_REST_S = 0.25
_RENEW_AFTER_S = 20.0  # of a lock of 60 s
_FIRST_PAGES = 10


class Listener(Protocol):
    """Receives events of the drain."""

    def report(self, kind: str, entity: str, reason: str) -> None: ...


class DrainFlow:
    """Drains one backlog queue into the primary while ``may_work`` allows it."""

    def __init__(
        self,
        queue: BacklogQueue,
        progress: Progress,
        destinations: Destinations,
        listener: Listener,
        *,
        may_work: Callable[[], bool],
        now: Callable[[], float],
        utc_now: Callable[[], datetime],
        first_pause_s: float = 1.0,
        max_attempts: int = 10,
        remaining_ttl: bool = False,
    ) -> None:
        self.progress = progress
        self.in_turn: Callable[[list[int]], list[int]] = lambda numbers: numbers
        """Selects the deferred messages without an older message of their session."""
        self._ledger = progress.ledger
        self._operations = queue
        self._queue = QueueState(queue, progress, now)
        self._settling = Settling(self._queue, self._report, self._may_send, utc_now)
        self._search = Search(self._queue, self._report, self._may_work, now, utc_now)
        self._destinations = destinations
        self._listener = listener
        self._has_leave, self._now, self._utc_now = may_work, now, utc_now
        self._first_pause_s = first_pause_s
        self._pauses = {"failing": 0.0, "waiting": 0.0}
        self._max_attempts = max_attempts
        self._remaining_ttl = remaining_ttl
        self._receive_at = 0.0
        self._waits_for: set[str] = set()
        self._locked_at = 0.0

    def _may_work(self) -> bool:
        return not self._queue.recording.is_refused and self._has_leave()

    def _may_send(self) -> bool:
        return self._may_work() and self._queue.recording.may_send()

    def _report(self, kind: str, entity: str, reason: str) -> None:
        self._listener.report(kind, entity, reason)

    def note_deferred(self, found: Iterable[Any]) -> None:
        """Note which of these messages, seen in the queue, are deferred."""
        self._search.note_deferred(found)

    def run(self) -> Operation[None]:
        """Drain until ``may_work`` ends, and finish what was started if possible."""
        yield from self._search.find_deferred(_FIRST_PAGES)
        while self._may_work():
            if not self._queue.recording.may_send():
                yield from self._wait_for_redis()
            elif numbers := self._due():
                yield from self._fetch(numbers)
            elif self._holds_back():
                yield from self._operations.rest(_REST_S)
            else:
                yield from self._receive()
        self._ledger.recent.clear()  # from here on the process that moved it reports its usage
        yield from self._queue.recording.store()

    def _receive(self) -> Operation[None]:
        self._state("receiving")
        received = yield from self._operations.receive(BATCH, _REST_S if self._queue.is_paced else _SLICE_S)
        if isinstance(received, Failed):
            yield from self._wait_after(received.text)
            return
        self._pauses["failing"] = 0.0
        if received:
            self._search.received_some()
            yield from self._move(self._sort(received, fetched=False))
        else:
            if self.progress.hindered_since is not None:
                self._note_hindered(False, self._queue.deferred.paths())
            yield from self._search.idle()

    def _due(self) -> list[int]:
        """The oldest deferred messages that can be sent now."""
        now = self._now()
        return self._queue.deferred.due(now, BATCH, lambda path, wanted: self._room(path, wanted, now), self.in_turn)

    def _room(self, path: str, wanted: int, now: float) -> int:
        """How many of this number of messages the entity accepts now."""
        if self._destinations.is_blocked(path, now):
            return 0
        return self._destinations.pacing.allowance(path, self.progress.queue, wanted, now).count

    def _fetch(self, numbers: list[int]) -> Operation[None]:
        received = yield from self._operations.fetch(numbers)
        if isinstance(received, Failed):
            yield from self._wait_after(received.text)
            return
        self._pauses["failing"] = 0.0
        if missing := set(numbers) - {message.sequence_number for message in received}:
            yield from self._search.look_for(missing)
        if received:
            yield from self._move(self._sort(received, fetched=True))

    # One receive ---------------------------------------------------------------------------------------------------

    def _sort(self, received: list[Any], *, fetched: bool) -> Sorted:
        self._locked_at = self._now()
        for message in received:
            if message.sequence_number:
                self._ledger.see(message.sequence_number, getattr(message, "enqueued_time_utc", None))
        return sort(received, fetched=fetched, now=self._utc_now() if self._remaining_ttl else None)

    def _move(self, sorted_: Sorted) -> Operation[None]:
        items, refused = sorted_
        parts = [(path, group, self._is_open(path, group)) for path, group in groups(items)]
        self._settling.announce([item for _, group, is_open in parts if is_open for item in group], "restored")
        for item, fate, _ in refused:
            self._settling.announce([item], fate)
        yield from self._queue.recording.store()  # whether it can be stored decides whether messages are sent
        for item, fate, reason in refused:
            yield from self._settling.dead_letter([item], fate, reason)
        self._state("moving")
        is_mixed = len({path for path, *_ in parts}) > 1
        round_ = Round([item for _, group, _ in parts for item in group], is_mixed=is_mixed)
        for path, group, was_open in parts:
            del round_.ahead[: len(group)]
            if was_open and self._may_send() and self._is_open(path, group):
                yield from self._send(path, group, round_)
            else:
                round_.postponed += group
        yield from self._settling.complete(round_)
        yield from self._settling.postpone(round_)
        self._note_hindered(bool(round_.moved or refused), {item.path for item in round_.postponed})
        if round_.moved or refused:
            self._pauses["waiting"] = 0.0
        elif round_.postponed and not round_.is_out_of_turn and self._may_send():
            self._wait_for({item.path for item in round_.postponed})

    def _note_hindered(self, has_delivered: bool, waiting: Iterable[str]) -> None:
        """Note whether deliverable messages are delivered; messages for failed-over entities do not count."""
        if has_delivered or all(map(self._destinations.is_shut, waiting)):
            self.progress.hindered_since = None
        else:
            self.progress.hindered_since = self.progress.hindered_since or self._utc_now()

    def _is_open(self, path: str, group: list[Item]) -> bool:
        """Whether the entity accepts messages, and has no older ones that are deferred for lack of room."""
        now = self._now()
        return not self._destinations.is_blocked(path, now) and (group[0].fetched or not self._has_waiting(path, now))

    def _has_waiting(self, path: str, now: float) -> bool:
        return bool(self.in_turn(self._queue.deferred.waiting(path, now)))

    def _send(self, path: str, group: list[Item], round_: Round) -> Operation[None]:
        """Send one group in order; after a message that is refused for its own sake, one by one."""
        at, singly = 0, False
        while at < len(group):
            yield from self._keep_locks(round_, group[at:])
            if not self._may_send() or self._destinations.is_blocked(path, self._now()):
                round_.postponed += group[at:]
                return
            wanted = 1 if singly else len(group) - at
            allowance = self._destinations.pacing.take(path, self.progress.queue, wanted, self._now())
            allowed = allowance.count
            if not allowed and allowance.is_own and round_.is_mixed:  # the other destinations must not wait for it
                self._queue.is_paced = True
                round_.postponed += group[at:]
                return
            if not allowed:
                yield from self._operations.rest(min(allowance.wait_s, _REST_S))
                continue
            sent = yield from self._operations.send(path, group[at : at + allowed])
            round_.done += group[at : at + sent.count]
            at += sent.count
            if sent.why is None:
                self._destinations.sent(path)
                self._destinations.pacing.give_back(path, self.progress.queue, allowed - sent.count)
            elif sent.why in ("message", "ours"):
                if singly or allowed == 1:
                    yield from self._refused(group[at], sent, round_)
                    at += 1
                singly = True
            elif sent.why == "turn":  # an older message of the session is still in the queue
                round_.is_out_of_turn = True
                round_.not_before |= {item.number: self._now() + self._first_pause_s for item in group[at:]}
                round_.postponed += group[at:]
                return
            elif sent.why == "lease":  # the drain ended meanwhile, which is no failure of the destination
                round_.postponed += group[at:]
                return
            else:
                yield from self._destination_failed(path, group[at:], sent, round_)
                return

    def _destination_failed(self, path: str, rest: list[Item], sent: Sent, round_: Round) -> Operation[None]:
        self.progress.last_error = f"{path}: {sent.text}"
        self._destinations.failed(path, self._now(), sent.text, busy=sent.why == "busy")
        if sent.why != "final":
            round_.postponed += rest
            return
        given_up = [item for item in rest if self._queue.attempt(item) >= self._max_attempts]
        round_.postponed += [item for item in rest if self._ledger.attempts[item.number] < self._max_attempts]
        if not given_up:
            yield from self._queue.recording.store()  # attempts are counted across restarts
        else:
            yield from self._settling.dead_letter(given_up, "dead_lettered", self._gave_up(sent))

    def _refused(self, item: Item, sent: Sent, round_: Round) -> Operation[None]:
        """The destination refuses this message, and may accept others."""
        self.progress.last_error = f"{item.path}: {sent.text}"
        attempts = self._queue.attempt(item)
        if attempts >= self._max_attempts:
            fate: Fate = "set_aside" if sent.why == "ours" else "dead_lettered"
            yield from self._settling.dead_letter([item], fate, self._gave_up(sent))
        else:
            pause_s = min(self._first_pause_s * 2 ** (attempts - 1), LONGEST_PAUSE_S)
            round_.not_before[item.number] = self._now() + pause_s
            round_.postponed.append(item)
            yield from self._queue.recording.store()

    def _gave_up(self, sent: Sent) -> str:
        return f"refused {self._max_attempts} times: {sent.text}"

    def _keep_locks(self, round_: Round, rest: list[Item]) -> Operation[None]:
        """If destinations are slow: settle what was sent, and renew the locks of the rest."""
        if self._now() - self._locked_at < _RENEW_AFTER_S:
            return
        yield from self._settling.complete(round_)
        yield from self._operations.renew(rest + round_.ahead + round_.postponed)
        self._locked_at = self._now()

    # Waiting -------------------------------------------------------------------------------------------------------

    def _wait_for_redis(self) -> Operation[None]:
        self.progress.last_error = "the ledger cannot be stored, because Redis does not answer"
        self._state("waiting")
        yield from self._operations.rest(_REST_S)
        yield from self._queue.recording.store()

    def _wait_after(self, text: str) -> Operation[None]:
        self.progress.last_error = text
        self._state("failing")
        until = self._now() + self._longer("failing")
        while self._may_work() and self._now() < until:
            yield from self._operations.rest(_REST_S)

    def _wait_for(self, paths: set[str]) -> None:
        """All received messages were for these: wait until one has room or an increasing pause is over."""
        self._state("waiting")
        self._waits_for = paths
        self._receive_at = self._now() + self._longer("waiting")

    def _holds_back(self) -> bool:
        now = self._now()
        if now >= self._receive_at:
            return False
        return not any(
            not self._destinations.is_blocked(path, now) and not self._has_waiting(path, now)
            for path in self._waits_for
        )

    def _longer(self, state: str) -> float:
        pause_s = self._pauses[state] = min(max(2 * self._pauses[state], self._first_pause_s), LONGEST_PAUSE_S)
        return pause_s

    def _state(self, state: str) -> None:
        self.progress.state = state
