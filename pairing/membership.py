"""A paired client's connection to its fleet: adopts reports of others and reports its own, without waiting.

Without coordination every call does nothing, and the process decides alone. What only a fleet needs is loaded when a
client that has one is made: not with the library, and not in an outage, in which a file may not be readable any more.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from pairing.clock import left_until, start
from pairing.health.availability import News, State
from pairing.health.flows import PingResult
from pairing.loading import needing
from pairing.pair import Change, Pair
from pairing.telemetry.metering import UsageRecord

if TYPE_CHECKING:
    from pairing.fleet.coordination import RedisCoordination
    from pairing.fleet.shared_backlog import SharedBacklog
    from pairing.fleet.shared_health import SharedHealth
    from pairing.fleet.shared_state import SharedState
    from pairing.sessions.gates import SessionGates


class Fleet:
    """The other processes of a pair."""

    coordination: "RedisCoordination | None" = None

    def __init__(self, pair: Pair, url: str | None) -> None:
        self._pair = pair
        self._backlog: SharedBacklog | None = None
        self.sessions: SessionGates | None = None
        """The sessions with messages in the backlog, if their order is kept."""
        if url is not None:
            with needing("redis", "coordination"):
                from pairing.fleet.coordination import RedisCoordination
            from pairing.fleet.presence import Presence
            from pairing.fleet.shared_backlog import QueueNews

            def rotated(path: str, reason: str, until: float | None) -> None:
                ends = None if until is None else pair.clock.utc(until)
                coordination.publish_queue(QueueNews(path, reason, pair.process, ends))

            coordination = RedisCoordination(url, pair.name, pair.process)
            coordination.presence = lambda: Presence(pair.sends, pair.disputed(), pair.rotation.paths)
            coordination.on_queue = lambda news: pair.adopt_queue(news.path, news.until)
            coordination.on_known = pair.know
            coordination.on_refused = partial(pair.emit, "coordination_refused", "*")
            pair.on_rotation = rotated
            self.join(coordination)

    def join(self, coordination: "RedisCoordination") -> None:
        """Use this coordination; before ``start``."""
        from pairing.fleet.shared_backlog import SharedBacklog
        from pairing.fleet.shared_health import SharedHealth

        def publish(change: Change) -> None:
            fields = change._asdict() | {"state": change.state.value, "process": self._pair.process}
            recovers = fields.pop("recovers")
            coordination.publish(SharedHealth(**fields), recovers=recovers)

        self.coordination = coordination
        self._backlog = SharedBacklog(coordination.shared)
        self._pair.on_change = publish
        self._pair.on_report = coordination.report
        if self._pair.options.preserve_session_order:
            self.sessions = self._session_gates(coordination.shared)

    def _session_gates(self, shared: "SharedState") -> "SessionGates":
        from pairing.sessions.gates import SessionGates

        def endangered() -> list[str]:
            return [machine.path for machine in self._pair.entities() if machine.state is not State.HEALTHY]

        def at_risk(entity: str, reason: str) -> None:
            self._pair.emit("order_at_risk", entity, reason)

        return SessionGates(shared, self._pair.process, endangered=endangered, at_risk=at_risk)

    def start(self) -> None:
        """Start to listen and to report."""
        if self.coordination is not None:
            self.coordination.start(self._adopt)
        if self.sessions is not None:
            self.sessions.start()

    def close(self, timeout_s: float = 4.0) -> None:
        """Report what is left, then leave."""
        until = time.monotonic() + timeout_s
        if self.sessions is not None:
            self.sessions.close(min(timeout_s, 1.0))
        if self.coordination is not None:
            self.coordination.close(left_until(until))

    def record(self, records: Iterable[UsageRecord]) -> None:
        """Pass usage to the cost pipeline."""
        if self.coordination is not None:
            self.coordination.record_usage(records)

    @property
    def answers(self) -> bool:
        """Whether Redis answered last time; otherwise usage should stay in its meter."""
        return self.coordination is not None and self.coordination.is_connected

    @property
    def backlog(self) -> "SharedBacklog | None":
        """What the fleet knows of the backlog queues; None while Redis does not answer."""
        return self._backlog if self.answers else None

    def record_ping(self, result: PingResult, next_due: datetime | None) -> None:
        """Store the result of a ping for display; may take two seconds."""
        if self.coordination is not None and self.answers:
            with contextlib.suppress(Exception):
                self.coordination.shared.record_ping(
                    result.path, accepted=result.accepted, reason=result.reason, next_due=next_due
                )

    def release(self, path: str, operator: str) -> None:
        """Report a release to the fleet, which makes a ping due immediately, on a separate thread."""
        if self.coordination is not None:
            release = partial(self.coordination.shared.release, path, operator=operator, process=self._pair.process)
            with contextlib.suppress(RuntimeError):  # none can be started: it is pinged when the next ping is due
                start(threading.Thread(target=_quietly, args=(release,), name="pairing-reporting", daemon=True))

    def _adopt(self, health: "SharedHealth") -> None:
        clock, expires = self._pair.clock, health.expires
        until, since = None if expires is None else clock.at(expires), clock.at(health.since)
        news = News(State(health.state), since, health.reason, health.version, health.origin, health.held_by, until)
        self._pair.adopt(health.path, news)


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        action()
