"""Whether sends to an entity go to the primary: the state machine of one entity path. No I/O, no clock of its own.

``TRANSITIONS`` is the machine (docs/specification.md, section 5); the methods decide when a trigger applies. Time, not
the next failure, engages a failover, so callers pass the time before they read the state. An operator's hold is not a
state but an attribute: a held entity is pinged and stays failed over. Observations of other processes arrive as
``News`` and are adopted or disputed (section 11); forced beats organic, and a higher version beats a lower one.

Every method that changes something returns the transitions in order, for the caller to report.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Origin = Literal["organic", "forced"]

_FLAP_WINDOW_S = 600.0
_MOST_DAMPING = 4
_BUSY_S = 10.0


class State(StrEnum):
    """The state of an entity; a ``str`` equal to its name in lower case."""

    HEALTHY = "healthy"
    FAILING = "failing"
    FAILED_OVER = "failed_over"


HEALTHY, FAILING, FAILED_OVER = State.HEALTHY, State.FAILING, State.FAILED_OVER


class Trigger(StrEnum):
    """A cause of a state change."""

    SEND_ACCEPTED = "the primary accepted a send"
    SEND_FAILED = "a send failed in a way that qualifies"
    SEND_FAILED_WITHOUT_INTERVAL = "a send failed in this way, and the failover interval is 0"
    INTERVAL_PASSED = "the failover interval has passed"
    PING_ACCEPTED = "the primary accepted a ping"
    FORCED = "an operator forced a failover"
    MARKED_HEALTHY = "an operator marked it healthy"
    FLEET_FAILED_OVER = "it failed over in another process"
    FLEET_FORCED = "an operator forced a failover through another process"
    FLEET_RECOVERED = "it recovered in another process"


TRANSITIONS: Mapping[State, Mapping[Trigger, tuple[State, str]]] = {
    HEALTHY: {
        Trigger.SEND_FAILED: (FAILING, "failing"),
        Trigger.SEND_FAILED_WITHOUT_INTERVAL: (FAILED_OVER, "failed_over"),
        Trigger.FORCED: (FAILED_OVER, "forced"),
        Trigger.FLEET_FAILED_OVER: (FAILED_OVER, "failed_over"),
        Trigger.FLEET_FORCED: (FAILED_OVER, "forced"),
    },
    FAILING: {
        Trigger.SEND_ACCEPTED: (HEALTHY, "recovered"),
        Trigger.INTERVAL_PASSED: (FAILED_OVER, "failed_over"),
        Trigger.FORCED: (FAILED_OVER, "forced"),
        Trigger.FLEET_FAILED_OVER: (FAILED_OVER, "failed_over"),
        Trigger.FLEET_FORCED: (FAILED_OVER, "forced"),
    },
    FAILED_OVER: {
        Trigger.PING_ACCEPTED: (HEALTHY, "recovered"),
        Trigger.MARKED_HEALTHY: (HEALTHY, "recovered"),
        Trigger.FLEET_RECOVERED: (HEALTHY, "recovered"),
        Trigger.FORCED: (FAILED_OVER, "forced"),
    },
}
"""State → trigger → the next state, and the kind of the event that reports it. A trigger not listed changes nothing."""


class Transition(NamedTuple):
    """One step of the machine, with the fields of an event."""

    path: str
    kind: str
    reason: str
    at: float
    state: State
    operator: str | None = None
    adopted: bool = False
    """Whether another process has reported it first."""
    everywhere: bool = False
    """Whether all processes of the fleet observe it themselves at the same time, so that it is one fact."""


class News(NamedTuple):
    """A report of another process or an operator about an entity, with times of this process's clock."""

    state: State
    since: float
    reason: str
    version: int
    origin: Origin = "organic"
    held_by: str | None = None
    expires: float | None = None


@dataclass(slots=True, eq=False)
class PathAvailability:
    """The state machine of one entity path, with the data for its pings and the fleet."""

    path: str
    failover_interval_s: float
    ping_primary_interval_s: float
    flap_damping: bool
    since: float
    state: State = HEALTHY
    reason: str = ""
    origin: Origin = "organic"
    held_by: str | None = None
    expires: float | None = None
    known: bool = False
    """Whether the entity is known to have existed."""
    disputed: bool = False
    """Whether the fleet reports a failover while sends of this process were accepted."""
    last_sent_at: float | None = None
    refused_since: float | None = None
    """Since when the credentials are refused, which causes no organic failover."""
    refusal: str = ""
    ping_at: float | None = None
    last_ping_reason: str = ""
    version: int = 0
    _recovered_at: float | None = None
    _relapses: int = 0

    @property
    def ping_interval_s(self) -> float:
        """Seconds between two pings: the configured interval, increased if the entity flaps."""
        return self.ping_primary_interval_s * min(1 << self._relapses, _MOST_DAMPING)

    # What time does ------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> list[Transition]:
        """Apply the time: an overdue failing entity fails over, an expired hold is released."""
        if self.state is FAILING and now >= self.since + self.failover_interval_s:
            return self._on(Trigger.INTERVAL_PASSED, self.since + self.failover_interval_s, self.reason)
        if self.expires is not None and now >= self.expires:
            return [
                step._replace(everywhere=True) for step in self._released("the hold has expired", None, self.expires)
            ]
        return []

    # What a sender sees --------------------------------------------------------------------------------------------

    def sent(self, now: float) -> list[Transition]:
        """The primary accepted a message: the entity exists, and a failing one is healthy again."""
        self.accepted(now)
        return self._on(Trigger.SEND_ACCEPTED, now, "a send was accepted before the failover interval was over")

    def accepted(self, now: float) -> None:
        """Note that a message was accepted, without changing the state."""
        self.known = True
        self.last_sent_at = now
        self.refused_since = None

    def failed(self, now: float, reason: str, *, began: float) -> list[Transition]:
        """A send that began at ``began`` failed with a qualifying error."""
        steps = self.expire(now)
        if self._recovered_at is not None and began < self._recovered_at:
            return steps  # it began before the recovery, and is not evidence for the time after it
        trigger = Trigger.SEND_FAILED if self.failover_interval_s else Trigger.SEND_FAILED_WITHOUT_INTERVAL
        return steps + self._on(trigger, now, reason)

    def refused(self, now: float, reason: str) -> None:
        """A send was refused for its credentials."""
        self.refusal = reason
        if self.refused_since is None:
            self.refused_since = now

    # What a ping sees ----------------------------------------------------------------------------------------------

    def ping_due(self, now: float) -> bool:
        """Whether the entity should be pinged now."""
        return self.state is FAILED_OVER and self.ping_at is not None and now >= self.ping_at

    def pinged(self, accepted: bool, reason: str, now: float, *, busy: bool = False) -> list[Transition]:
        """Apply the result of a ping; a held entity only notes it. A busy server is pinged again after 10 s or more."""
        if self.state is not FAILED_OVER:
            return []
        self.last_ping_reason = reason
        self.ping_at = now + max(self.ping_interval_s, _BUSY_S if busy else 0.0)
        if not accepted:
            return []
        self.known = True
        if self.held_by is not None:
            return []
        return self._on(Trigger.PING_ACCEPTED, now, "a ping was accepted")

    # What an operator does -----------------------------------------------------------------------------------------

    def force(
        self, reason: str, now: float, *, operator: str, hold: bool = True, expires: float | None = None
    ) -> list[Transition]:
        """Fail over manually; ``hold`` keeps the failover until it is released, marked healthy or ``expires``."""
        steps = self._on(Trigger.FORCED, now, reason, origin="forced", operator=operator)
        self.held_by, self.expires = (operator, expires) if hold else (None, None)
        return steps

    def hold(self, now: float, *, operator: str) -> list[Transition]:
        """Keep a failed-over entity from recovering automatically; no effect in other states."""
        if self.state is not FAILED_OVER or (self.held_by, self.expires) == (operator, None):
            return []
        self.held_by, self.expires = operator, None
        return [self._step("held", now, operator=operator)]

    def release(self, now: float, *, operator: str | None) -> list[Transition]:
        """End the hold: the entity stays failed over and a ping is due immediately."""
        if self.state is not FAILED_OVER:
            return []
        return self._released("released", operator, now)

    def mark_healthy(self, now: float, *, operator: str) -> list[Transition]:
        """End hold and failover together. A failing entity stays failing: an organic failover cannot be prevented."""
        return self._on(Trigger.MARKED_HEALTHY, now, "marked healthy manually", operator=operator)

    # What the fleet reports -------------------------------------------------------------------------------------------

    def adopt(self, news: News, now: float) -> list[Transition]:
        """Adopt a report of another process, unless it is old, weaker, or contradicted by this process."""
        if not self._outranks(news):
            return []
        self.version = news.version
        match news.state:
            case State.FAILED_OVER:
                return self._adopt_failover(news, now)
            case State.HEALTHY:
                self.disputed = False
                return self._on(Trigger.FLEET_RECOVERED, now, news.reason, adopted=True)
        return []

    def _outranks(self, news: News) -> bool:
        if news.version >= self.version:
            return True
        return news.origin == "forced" and self.origin != "forced" and news.state is FAILED_OVER is not self.state

    def _adopt_failover(self, news: News, now: float) -> list[Transition]:
        self.disputed = news.origin == "organic" and self.state is not FAILED_OVER and self._knows_better(news)
        if self.disputed:
            return []
        if self.state is FAILED_OVER:
            return self._adopt_hold(news, now)
        trigger = Trigger.FLEET_FORCED if news.origin == "forced" else Trigger.FLEET_FAILED_OVER
        steps = self._on(trigger, news.since, news.reason, origin=news.origin, operator=news.held_by, adopted=True)
        self.held_by, self.expires = news.held_by, news.expires
        return [step._replace(at=now) for step in steps]

    def _adopt_hold(self, news: News, now: float) -> list[Transition]:
        held_before, self.held_by, self.expires = self.held_by, news.held_by, news.expires
        self.origin, self.reason = news.origin, news.reason
        if held_before is None and news.held_by is not None:
            return [self._step("held", now, operator=news.held_by, adopted=True)]
        if held_before is not None and news.held_by is None:
            self.ping_at = now
            return [self._step("released", now, adopted=True)]
        return []

    def _knows_better(self, news: News) -> bool:
        """Whether a send was accepted since one interval before an organic failover engaged, which contradicts it."""
        return self.last_sent_at is not None and self.last_sent_at > news.since - self.failover_interval_s

    # The steps -----------------------------------------------------------------------------------------------------

    def _on(
        self,
        trigger: Trigger,
        at: float,
        reason: str,
        *,
        origin: Origin = "organic",
        operator: str | None = None,
        adopted: bool = False,
    ) -> list[Transition]:
        """Take the step of ``TRANSITIONS`` for the trigger, if there is one."""
        if trigger not in TRANSITIONS[self.state]:
            return []
        state, kind = TRANSITIONS[self.state][trigger]
        match state:
            case State.HEALTHY:
                self._recover(at, reason)
            case State.FAILING:
                self._enter(FAILING, at, reason)
            case State.FAILED_OVER:
                self._engage(at, reason, origin)
        return [self._step(kind, at, operator=operator, adopted=adopted)]

    def _engage(self, at: float, reason: str, origin: Origin) -> None:
        began = self.since if self.state is FAILING else at
        if self.state is not FAILED_OVER:
            if origin == "organic" and self.flap_damping:
                flapped = self._recovered_at is not None and began < self._recovered_at + _FLAP_WINDOW_S
                self._relapses = self._relapses + 1 if flapped else 0
            self._enter(FAILED_OVER, at, reason)
        self.reason, self.origin, self.disputed = reason, origin, False
        self.ping_at = at + self.ping_interval_s
        self.last_ping_reason = ""

    def _recover(self, now: float, reason: str) -> None:
        if self.state is FAILED_OVER:
            self._recovered_at = now
        self._enter(HEALTHY, now, reason)
        self.origin, self.held_by, self.expires, self.ping_at, self.disputed = "organic", None, None, None, False

    def _released(self, reason: str, operator: str | None, now: float) -> list[Transition]:
        was_held, self.held_by, self.expires = self.held_by is not None, None, None
        self.ping_at = now
        if not was_held:
            return []
        return [self._step("released", now, operator=operator)._replace(reason=reason)]

    def _enter(self, state: State, at: float, reason: str) -> None:
        self.state, self.since, self.reason = state, at, reason

    def _step(self, kind: str, at: float, *, operator: str | None = None, adopted: bool = False) -> Transition:
        return Transition(self.path, kind, self.reason, at, self.state, operator, adopted)
