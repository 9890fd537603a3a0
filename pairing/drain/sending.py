"""What is on its way to the primary, by destination: none waits for another. The rules of the syphon, without I/O."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pairing.drain.backlog_queue import Item, Sent
from pairing.drain.destinations import BUSY_PAUSE_S, LONGEST_PAUSE_S, Destinations
from pairing.drain.ledger import Fate
from pairing.drain.queue_state import QueueState
from pairing.drain.settling import Round, Settling
from pairing.drain.sorting import groups
from pairing.drive import Operation

PATIENCE_S = 2.0
"""For how long a queue waits for the answer of a destination; then it goes on, and defers what comes for it."""
_RENEW_AFTER_S = 20.0  # of a lock of 60 s
_PAUSE_S = 0.25


@dataclass(slots=True)
class Lane:
    """The messages of one entity: in groups, each of which one transfer may take, in order."""

    locked_at: float
    since: float
    """When something of it was sent last."""
    is_on_trial: bool
    groups: deque[list[Item]] = field(default_factory=deque)
    under_way: int = 0
    """How many messages of the first group are being sent."""
    singly: bool = False
    """Whether a message of the first group was refused for its own sake."""
    wait_s: float = _PAUSE_S

    def holds_up(self, now: float) -> bool:
        """Whether the queue waits for it, because to defer what comes for it would cost operations."""
        return not self.is_on_trial and now - self.since < PATIENCE_S


class Sending:
    """Sends the messages of one backlog queue, each destination's in order."""

    def __init__(
        self,
        queue: QueueState,
        destinations: Destinations,
        settling: Settling,
        in_turn: Callable[[list[int]], list[int]],
        may_send: Callable[[], bool],
        now: Callable[[], float],
        *,
        first_pause_s: float,
        max_attempts: int,
    ) -> None:
        self.lanes: dict[str, Lane] = {}
        self.round = Round()
        self._queue, self._operations, self._progress = queue, queue.operations, queue.progress
        self._destinations, self._settling, self._in_turn = destinations, settling, in_turn
        self._may_send, self._now = may_send, now
        self._first_pause_s, self._max_attempts = first_pause_s, max_attempts
        self._is_mixed = False
        self._rests_until = dict[str, float]()

    def accept(self, items: list[Item]) -> list[Item]:
        """Those of these messages that are sent now; the others are postponed, as their entity accepts none now."""
        now, accepted = self._now(), dict[str, Lane]()
        parts = groups(items)
        self._is_mixed = len({path for path, _ in parts}) > 1
        is_open = {path: self._is_open(path, group[0], now) for path, group in reversed(parts)}
        for path, group in parts:
            if is_open[path]:
                lane = accepted.setdefault(path, Lane(now, now, self._destinations.is_on_trial(path)))
                lane.groups.append(group)
            else:
                self.round.postponed += group
        self.lanes |= accepted
        return [item for lane in accepted.values() for group in lane.groups for item in group]

    def _is_open(self, path: str, first: Item, now: float) -> bool:
        """Whether the entity accepts messages, and has no older ones that are under way or deferred."""
        if path in self.lanes or self.rests(path, now) or self._destinations.is_blocked(path, now):
            return False
        return first.fetched or not self._in_turn(self._queue.deferred.waiting(path, now))

    def rests(self, path: str, now: float) -> bool:
        """Whether messages for the entity were put off until later: newer ones must not overtake them."""
        return now < self._rests_until.get(path, 0.0)

    def holds_up(self) -> float:
        """For how long the queue waits for the destinations now; 0 if it goes on."""
        now = self._now()
        return min((lane.wait_s for lane in self.lanes.values() if lane.holds_up(now)), default=0.0)

    def go_on(self, wait_s: float) -> Operation[None]:
        """Process the answers that have come, waiting so long for the first, and send what can be sent."""
        if any(lane.under_way for lane in self.lanes.values()):
            for path, sent in (yield from self._operations.answers(wait_s)):
                yield from self._answered(path, sent)
        elif wait_s:
            yield from self._operations.rest(wait_s)
        for path in [path for path, lane in self.lanes.items() if not lane.under_way]:
            yield from self._send(path)

    def settle(self) -> Operation[Round]:
        """Complete what was sent, and defer or release what was postponed."""
        round_, self.round = self.round, Round()
        yield from self._settling.complete(round_)
        yield from self._settling.postpone(round_)
        return round_

    def _send(self, path: str) -> Operation[None]:
        """Send on to one destination until it has to answer, or to wait, or nothing is left."""
        while (lane := self.lanes.get(path)) is not None and not lane.under_way:
            yield from self._keep_locks()
            now, group = self._now(), lane.groups[0]
            if not self._may_send() or self._destinations.is_blocked(path, now):
                return self._postpone(path)
            if not self._destinations.take(path):
                return None if lane.holds_up(now) else self._postpone(path, now + self._first_pause_s)
            wanted = 1 if lane.singly else len(group)
            allowance = self._destinations.pacing.take(path, self._progress.queue, wanted, now)
            if not allowance.count:
                self._destinations.connections.give_back(path, now)
                if allowance.is_own and self._is_mixed:  # the other destinations must not wait for it
                    return self._postpone(path)
                lane.since, lane.wait_s = now, min(allowance.wait_s, _PAUSE_S)
                return None
            lane.under_way, lane.since, lane.wait_s = allowance.count, now, _PAUSE_S
            sent = yield from self._operations.send(path, group[: allowance.count])
            if sent is not None:
                yield from self._answered(path, sent)
        return None

    def _keep_locks(self) -> Operation[None]:
        """Settle what was sent, and renew the locks of what waits for slow destinations."""
        now = self._now()
        for lane in list(self.lanes.values()):
            if now - lane.locked_at >= _RENEW_AFTER_S and (lane.holds_up(now) or not lane.under_way):
                lane.locked_at = now
                yield from self.settle()
                yield from self._operations.renew([item for group in lane.groups for item in group])

    def _answered(self, path: str, sent: Sent) -> Operation[None]:
        lane, now = self.lanes[path], self._now()
        tried, group = lane.under_way, lane.groups[0]
        lane.under_way, lane.since = 0, now
        self._destinations.connections.give_back(path, now)
        self.round.done += group[: sent.count]
        del group[: sent.count]
        if sent.why is None:
            lane.is_on_trial = False
            self._destinations.sent(path)
            self._destinations.pacing.give_back(path, self._progress.queue, tried - sent.count)
        elif sent.why in ("message", "ours"):
            if tried == 1:
                yield from self._refused(group.pop(0), sent)
            lane.singly = True
        elif sent.why == "turn":  # an older message of the session is still in the queue
            self._put_off(group, now + self._first_pause_s)
            group.clear()
        elif sent.why == "lease":  # the drain ended meanwhile, which is no failure of the destination
            self._postpone(path, now + self._first_pause_s)
        elif sent.why == "shortage":  # of this process
            self._progress.last_error = sent.text
            self._postpone(path, now + BUSY_PAUSE_S)
        else:
            yield from self._destination_failed(path, sent)
        if not group and path in self.lanes:
            lane.groups.popleft()
            lane.singly = False
            if not lane.groups:
                del self.lanes[path]

    def _destination_failed(self, path: str, sent: Sent) -> Operation[None]:
        self._progress.last_error = f"{path}: {sent.text}"
        self._destinations.failed(path, self._now(), is_final=sent.why == "final", is_busy=sent.why == "busy")
        rest = self.lanes[path].groups[0] if sent.why == "final" else []
        given_up = [item for item in rest if self._queue.attempt(item) >= self._max_attempts]
        if given_up:
            rest[:] = [item for item in rest if item not in given_up]
            yield from self._settling.dead_letter(given_up, "dead_lettered", self._gave_up(sent))
        elif rest:
            yield from self._queue.recording.store()  # attempts are counted across restarts
        self._postpone(path)

    def _refused(self, item: Item, sent: Sent) -> Operation[None]:
        """The destination refuses this message, and may accept others."""
        self._progress.last_error = f"{item.path}: {sent.text}"
        attempts = self._queue.attempt(item)
        if attempts >= self._max_attempts:
            fate: Fate = "set_aside" if sent.why == "ours" else "dead_lettered"
            yield from self._settling.dead_letter([item], fate, self._gave_up(sent))
        else:
            pause_s = min(self._first_pause_s * 2 ** (attempts - 1), LONGEST_PAUSE_S)
            self._put_off([item], self._now() + pause_s)
            yield from self._queue.recording.store()

    def _gave_up(self, sent: Sent) -> str:
        return f"refused {self._max_attempts} times: {sent.text}"

    def _postpone(self, path: str, until: float = 0.0) -> None:
        self._rests_until[path] = until
        for group in self.lanes.pop(path).groups:
            self._put_off(group, 0.0)

    def _put_off(self, items: Iterable[Item], not_before: float) -> None:
        for item in items:
            self.round.not_before[item.number] = not_before
            self.round.postponed.append(item)
