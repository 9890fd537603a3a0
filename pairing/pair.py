"""The state of a paired client: the health of its entities, its rotation, its events. No network.

One lock guards the pure state machines, because senders, pings, ticks and reports of the fleet access them from many
threads. Their results go in order into the fleet's outbox, which never blocks; callbacks are called after the lock is
released.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid4, uuid5

from pairing.backlog.rotation import Rotation, RotationEvent
from pairing.clock import Clock
from pairing.errors import Fault
from pairing.events import Event
from pairing.health.availability import FAILED_OVER, FAILING, HEALTHY, News, Origin, PathAvailability, State, Transition
from pairing.health.faults import classify, describe, is_gone, is_own_shortage, may_be_gone
from pairing.health.flows import PingResult
from pairing.options import SendAvailabilityOptions

_LOGGER = logging.getLogger("pairing")
_SHORTAGE_AGAIN_S = 600.0
_LONGEST_HOLD = timedelta(days=36_500)  # a later moment may have no date


@dataclass(frozen=True, slots=True)
class EntityHealth:
    """The health of an entity, as seen by this process."""

    path: str
    state: State
    since: datetime
    reason: str
    held_by: str | None
    expires: datetime | None = None
    """When the hold expires."""
    last_ping: str = ""
    """The result of the last ping of a failed-over entity."""
    ping_interval: timedelta | None = None
    """Time between two pings, possibly increased by flap damping."""
    disputed: bool = False
    """Whether the fleet reports it as failed over while sends of this process are accepted."""


class Change(NamedTuple):
    """The state of an entity after a transition of this process, for the fleet."""

    path: str
    state: State
    since: datetime
    reason: str
    held_by: str | None
    expires: datetime | None
    origin: Origin
    version: int
    recovers: bool = True
    """Whether ``healthy`` ends a failover; an accepted send after some failures does not."""


class Pair:
    """The state of one paired client."""

    def __init__(self, options: SendAvailabilityOptions, name: str, process: str, clock: Clock) -> None:
        self.options = options
        self.name = name
        self.process = process
        self.clock = clock
        self.condition = threading.Condition()
        """Held for every change."""
        self.rotation = Rotation((), probation_s=options.backlog_probation.total_seconds())
        self.on_change: Callable[[Change], None] = lambda change: None
        """Called for each state change that this process caused, in order; must not block."""
        self.on_report: Callable[[Event], None] = lambda event: None
        """Called for each event that the fleet does not know yet."""
        self.on_event: Callable[[Event], None] = lambda event: None
        """Called for each event, on the thread that saw it; must not block."""
        self.on_rotation: Callable[[str, str, float | None], None] = lambda path, reason, until: None
        """Called for each backlog queue that left the rotation, with its latest return, or that came back (None)."""
        self.sends = False
        """Whether this process has had a sender."""
        self._machines: dict[str, PathAvailability] = {}
        self._known: frozenset[str] = frozenset()
        self._shortage_again_at = float("-inf")
        self._classify: Callable[..., object] = options.classify or classify

    # Entities ------------------------------------------------------------------------------------------------------

    def availability(self, path: str) -> PathAvailability:
        """The state machine of an entity; names are case-insensitive, as in the service."""
        machine = self._machines.get(path) or self._machines.get(path.lower())
        if machine is None:
            with self.condition:
                machine = self._machines.setdefault(path.lower(), self._new(path))
        return machine

    def _new(self, path: str) -> PathAvailability:
        return PathAvailability(
            path,
            failover_interval_s=self.options.failover_interval.total_seconds(),
            ping_primary_interval_s=self.options.ping_primary_interval.total_seconds(),
            flap_damping=self.options.flap_damping,
            since=self.clock.now(),
        )

    def entities(self) -> list[PathAvailability]:
        """Every entity that was requested."""
        with self.condition:
            return list(self._machines.values())

    def health(self, path: str) -> EntityHealth:
        """The present health of an entity."""
        machine = self.availability(path)
        self.expire(machine)
        with self.condition:
            return EntityHealth(
                path=machine.path,
                state=machine.state,
                since=self.clock.utc(machine.since),
                reason=self._reported_reason(machine),
                held_by=machine.held_by,
                expires=None if machine.expires is None else self.clock.utc(machine.expires),
                last_ping=machine.last_ping_reason,
                ping_interval=timedelta(seconds=machine.ping_interval_s),
                disputed=machine.disputed,
            )

    def disputed(self) -> tuple[str, ...]:
        """The entities that the fleet reports as failed over while sends of this process are accepted."""
        return tuple(machine.path for machine in self.entities() if machine.disputed)

    def _reported_reason(self, machine: PathAvailability) -> str:
        if machine.state is HEALTHY and machine.refused_since is not None:
            worked = "worked before" if machine.known else "never worked"
            return f"{machine.refusal}, since {self.clock.utc(machine.refused_since):%Y-%m-%d %H:%M:%S} UTC; {worked}"
        return machine.reason

    # What time, senders and pings change ----------------------------------------------------------------------------

    def tick(self) -> None:
        """Apply what is due for every entity and backlog queue, and report it."""
        now = self.clock.now()
        for machine in self.entities():
            if machine.state is FAILING or machine.expires is not None:
                self.expire(machine)
        with self.condition:
            returned = self.rotation.expire(now)
        self.report(returned)

    def expire(self, machine: PathAvailability) -> None:
        """Apply the time to one entity."""
        self.apply(machine, lambda now: machine.expire(now))

    def apply(self, machine: PathAvailability, step: Callable[[float], list[Transition]]) -> None:
        """Run one step of a machine under the lock, then report it."""
        with self.condition:
            was_failing = machine.state is FAILING
            transitions = step(self.clock.now())
            if not all(transition.adopted for transition in transitions):  # in order, and so under the lock
                self.on_change(self._change(machine, transitions, recovers=not was_failing))
        for transition in transitions:
            self._announce(transition)

    def _change(self, machine: PathAvailability, transitions: list[Transition], *, recovers: bool) -> Change:
        by_hand = any(transition.operator is not None for transition in transitions)
        by_time = any(transition.everywhere for transition in transitions)  # and so no action of an operator
        return Change(
            path=machine.path,
            state=machine.state,
            since=self.clock.utc(machine.since),
            reason=machine.reason,
            held_by=machine.held_by,
            expires=None if machine.expires is None else self.clock.utc(machine.expires),
            origin="forced" if by_hand else "organic" if by_time else machine.origin,
            version=machine.version,
            recovers=recovers,
        )

    def pinged(self, result: PingResult) -> None:
        """Apply the result of a ping."""
        machine = self.availability(result.path)
        self.apply(machine, lambda now: machine.pinged(result.accepted, result.reason, now, busy=result.busy))

    def classify(self, error: BaseException, path: str) -> Fault:
        """The meaning of an error of a send to an entity, by the user's rule or the default one."""
        return self._meaning(error, known=self.availability(path).known or path.lower() in self._known)

    def know(self, paths: frozenset[str]) -> None:
        """Note the entities known to the control plane, whose paths are in lower case."""
        self._known |= paths

    def classify_backlog(self, error: BaseException) -> Fault:
        """The meaning of an error of a backlog queue; a missing queue is out of order, not an error of the caller."""
        return self._meaning(error, known=True)

    def _meaning(self, error: BaseException, *, known: bool) -> Fault:
        """By the user's rule; a mistake in it is logged, and does not keep an entity from failing over."""
        try:
            fault = self._classify(error, known=known)
        except Exception:
            _LOGGER.exception("classify failed on %s; the default applies", describe(error))
            return classify(error, known=known)
        if isinstance(fault, Fault):
            return fault
        _LOGGER.error("classify returned %r for %s, which is no Fault; the default applies", fault, describe(error))
        return classify(error, known=known)

    # What operators and the fleet change ----------------------------------------------------------------------------

    def fail_over(self, path: str, reason: str, hold: bool, expires: timedelta | datetime | None, by: str) -> None:
        """Fail an entity over manually; ValueError for an expiry without a hold."""
        if expires is not None and not hold:
            raise ValueError("expires is the end of a hold: pass it with hold=True, or omit it")
        machine = self.availability(path)
        until = self._moment(expires)
        self.apply(machine, lambda now: machine.force(reason, now, operator=by, hold=hold, expires=until))

    def _moment(self, expires: timedelta | datetime | None) -> float | None:
        if expires is None:
            return None
        if not isinstance(expires, timedelta | datetime):
            raise TypeError(f"expires must be a timedelta, an aware datetime or None, not {type(expires).__name__}")
        if isinstance(expires, datetime) and expires.utcoffset() is None:
            raise ValueError(f"expires must be an aware datetime, and {expires} has no time zone")
        now = self.clock.now()
        until = now + expires.total_seconds() if isinstance(expires, timedelta) else self.clock.at(expires)
        if not now < until <= now + _LONGEST_HOLD.total_seconds():
            raise ValueError(f"expires must be in the future, and within 100 years, not {expires}")
        return until

    def hold(self, path: str, by: str) -> None:
        """Keep a failed-over entity from recovering automatically."""
        machine = self.availability(path)
        self.apply(machine, lambda now: machine.hold(now, operator=by))

    def release(self, path: str, by: str) -> None:
        """End a hold; a ping is due immediately."""
        machine = self.availability(path)
        self.apply(machine, lambda now: machine.release(now, operator=by))

    def mark_healthy(self, path: str, by: str) -> None:
        """End hold and failover together."""
        machine = self.availability(path)
        self.apply(machine, lambda now: machine.mark_healthy(now, operator=by))

    def adopt(self, path: str, news: News) -> None:
        """Adopt a change of an entity by another process or an operator."""
        machine = self.availability(path)
        self.apply(machine, lambda now: machine.adopt(news, now))

    def adopt_queue(self, path: str, until: datetime | None) -> None:
        """Adopt that a backlog queue failed in another process, or returned there."""
        with self.condition:
            if until is None:
                self.rotation.adopt_return(path, self.clock.now())
            else:
                self.rotation.adopt_pull(path, self.clock.at(until), self.clock.now())

    # Events --------------------------------------------------------------------------------------------------------

    def backlog_refused(self, path: str, error: Exception, began: float) -> None:
        """A backlog queue could not be received from, in an operation that began then; a deleted one leaves the
        rotation.
        """
        if is_gone(error):
            SenderBacklog(self).failed(path, error, self.clock.now(), began)
        elif may_be_gone(error):
            with self.condition:
                self.rotation.doubt(path, is_missing=False, began=began)

    def note_shortage(self, error: Exception) -> None:
        """Report, at most once in ten minutes, that this process has no descriptor, memory or thread left."""
        now = self.clock.now()
        if is_own_shortage(error) and now >= self._shortage_again_at:
            self._shortage_again_at = now + _SHORTAGE_AGAIN_S
            _LOGGER.warning("pairing: this process has run out of resources: %s", describe(error))
            self.emit("out_of_resources", "*", f"at {self.process}: {describe(error)}")

    def emit(self, kind: str, entity: str, reason: str, operator: str | None = None) -> Event:
        """Report a present event to the callbacks and the fleet."""
        event = self._event(kind, entity, reason, self.clock.now(), operator)
        self._deliver(event, adopted=False)
        return event

    def report(self, happened: Iterable[RotationEvent]) -> None:
        """Report events of backlog queues."""
        for item in happened:
            if item.kind in ("queue_pulled", "queue_returned"):
                self.on_rotation(item.path, item.reason, item.until)
            self._deliver(self._event(item.kind, item.path, item.reason, item.at, None), adopted=False)

    def _announce(self, step: Transition) -> None:
        event = self._event(step.kind, step.path, step.reason, step.at, step.operator)
        if step.everywhere:
            event = replace(event, id=self._fact(event))
        self._deliver(event, adopted=step.adopted)

    def _event(self, kind: str, entity: str, reason: str, at: float, operator: str | None) -> Event:
        return Event(uuid4().hex, self.clock.utc(at), self.name, entity, kind, reason, self.process, operator)

    @staticmethod
    def _fact(event: Event) -> str:
        """The identity of an event that all processes observe themselves, so that it is stored once."""
        second = round(event.time.timestamp())  # each process has converted it to its own monotonic clock and back
        return uuid5(NAMESPACE_URL, f"{event.pair}/{event.entity.lower()}/{event.kind}/{second}").hex

    def _deliver(self, event: Event, *, adopted: bool) -> None:
        if not adopted:
            self.on_report(event)
        self.on_event(event)


class GuardedEntity:
    """An entity as the flows see it; the healthy path takes no lock."""

    __slots__ = ("_pair", "machine", "path")

    def __init__(self, pair: Pair, path: str) -> None:
        self._pair = pair
        self.machine = pair.availability(path)
        """Its state is read without asking the time; every change goes through this class."""
        self.path = path
        pair.sends = True

    def is_failed_over(self, now: float) -> bool:
        """Whether sends go to the backlog now."""
        machine = self.machine
        if machine.state is HEALTHY:
            return False
        expires = machine.expires
        if machine.state is FAILED_OVER and (expires is None or now < expires):
            return True  # time alone changes nothing
        self._pair.expire(machine)
        return machine.state is FAILED_OVER

    def sent(self, now: float) -> None:
        """The primary accepted a message."""
        machine = self.machine
        if machine.state is FAILING:
            self._pair.apply(machine, machine.sent)
        else:  # only noted: another thread may make it a failing one just now, and must be the one to report it
            machine.accepted(now)

    def failed(self, now: float, error: BaseException, began: float) -> bool:
        """Apply a qualifying failure; returns whether the entity is failed over now."""
        machine = self.machine
        self._pair.apply(machine, lambda at: machine.failed(at, describe(error), began=began))
        return machine.state is FAILED_OVER

    def refused(self, now: float, error: BaseException) -> None:
        """The credentials were refused, which is not an outage but is reported."""
        with self._pair.condition:
            self.machine.refused(now, describe(error))


class SenderBacklog:
    """The rotation from the view of one sender, which stays with its chosen queue."""

    __slots__ = ("_pair", "current", "session")

    def __init__(self, pair: Pair, *, session: str | None = None) -> None:
        self._pair = pair
        self.session = session
        self.current: str | None = None

    def choose(self, tried: Collection[str]) -> str | None:
        """The queue to send to."""
        if not tried and self.session is None and self._pair.rotation.usable(self.current):
            return self.current  # the usual case; one read needs no lock
        with self._pair.condition:
            self.current = self._pair.rotation.choose(current=self.current, session=self.session, tried=tried)
            return self.current

    def last_resort(self, tried: Collection[str]) -> str | None:
        """The queue that was pulled the longest time ago."""
        with self._pair.condition:
            return self._pair.rotation.last_resort(tried=tried)

    def accepted(self, queue: str, now: float) -> None:
        """The queue accepted the message."""
        if self._pair.rotation.trusts(queue):
            return
        with self._pair.condition:
            events = self._pair.rotation.accepted(queue, now)
        self._pair.report(events)

    def failed(self, queue: str, error: BaseException, now: float, began: float) -> None:
        """The queue did not accept the message; this applies to all senders of the client."""
        with self._pair.condition:
            events = self._pair.rotation.failed(queue, describe(error), now, began=began)
            if may_be_gone(error):
                self._pair.rotation.doubt(queue, is_missing=is_gone(error), began=began)
        self._pair.report(events)
