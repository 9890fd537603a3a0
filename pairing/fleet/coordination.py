"""The participation of a process in its fleet through Redis, without blocking senders.

Reports go into a bounded outbox that one thread empties; reports of others arrive on another thread by push, with a
periodic read as a fallback. While Redis is unavailable each process decides alone and reports later; a Redis that was
restarted empty is filled again (docs/specification.md, section 11; docs/design/coordination.md).
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from pairing.clock import joined
from pairing.events import Event
from pairing.fleet.clock import FleetClock
from pairing.fleet.facts import Facts
from pairing.fleet.known_health import KnownHealth, has_forgotten
from pairing.fleet.presence import Heard, Presence, Presences
from pairing.fleet.redis_url import client_of
from pairing.fleet.shared_backlog import QueueNews, SharedBacklog
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import EVENTS, USAGE, Seen, SharedState
from pairing.fleet.subscription import Subscription
from pairing.stored_json import readable
from pairing.telemetry.metering import UsageRecord

__all__ = ["EVENTS", "USAGE", "RedisCoordination", "SharedHealth", "SharedState"]

_LOGGER = logging.getLogger("pairing")

_RECONCILE_S = 5.0
_MOST_HEARD = 16
_MOST_CONNECTIONS = 256  # 200 pings are claimed at once
_ANSWER_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_CLOSING_S = 2.0


class RedisCoordination:
    """Coordination over one Redis. No call blocks or raises, except ``claim_ping``, which may take two seconds.

    ``start`` starts two daemon threads and returns immediately; they call ``on_change`` with the changes of other
    processes and operators. Redis may be killed, frozen or restarted empty at any time.
    """

    def __init__(self, url: str, pair: str, process: str) -> None:
        client = client_of(
            url,
            decode_responses=True,
            socket_timeout=_ANSWER_S,
            socket_connect_timeout=_ANSWER_S,
            max_connections=_MOST_CONNECTIONS,
            retry=Retry(NoBackoff(), 0),  # the loops below try again, and know what else waits
        )
        self.shared: SharedState = SharedState(client, pair)
        self.is_connected = False
        """Whether Redis answered last time; while it does not, usage should stay in its meter."""
        self.presence: Callable[[], Presence] = lambda: Presence(sends=False)
        """The state of this process, reported every few seconds."""
        self.on_queue: Callable[[QueueNews], None] = lambda news: None
        """Called for backlog queues that left or rejoined another process's rotation; must neither block nor raise."""
        self.on_known: Callable[[frozenset[str]], None] = lambda paths: None
        """Called with the entities that the control plane knows, in lower case; must neither block nor raise."""
        self.on_refused: Callable[[str], object] = lambda reason: None
        """Called once if Redis refuses this client, or was never reached; must neither block nor raise."""
        self._redis = client
        self._clock = FleetClock()
        self._presences = Presences(self.shared)
        self._backlog = SharedBacklog(self.shared)
        self._process = process
        self._on_change: Callable[[SharedHealth], None] = lambda change: None
        self._lock = threading.Condition()
        self._changes: dict[str, tuple[SharedHealth, bool]] = {}
        self._queues: dict[str, QueueNews] = {}
        self._facts = Facts(self._lock)
        self._known = KnownHealth(process)
        self._heard: deque[Heard] = deque(maxlen=_MOST_HEARD)
        self._seen: Seen | None = None
        self._number_known = 0
        self._must_read = True
        self._must_compare = False
        self._warned_of = ""
        self._must_listen_anew = threading.Event()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=run, name=f"pairing-{name}-{pair}", daemon=True)
            for name, run in (("outbox", self._write), ("news", self._subscription().run))
        ]

    def start(self, on_change: Callable[[SharedHealth], None]) -> None:
        """Start to listen and to report; ``on_change`` must neither block nor raise."""
        self._on_change = on_change
        for thread in self._threads:
            thread.start()

    def publish(self, change: SharedHealth, *, recovers: bool = True) -> None:
        """Report a transition of this process; a later one of the same entity replaces it in the outbox.

        No recovery is lost: ``failing``, which ends no failover, does not replace one. ``change.version`` is the last
        version that the process adopted; ``recovers`` as in ``SharedState.publish``.
        """
        with self._lock:
            waiting, waiting_recovers = self._changes.get(change.path, (None, False))
            is_recovery = waiting is not None and waiting.state == "healthy" and waiting_recovers
            if is_recovery and change.state == "failing":
                return
            self._changes[change.path] = (replace(change, process=self._process), recovers or is_recovery)
            self._lock.notify_all()

    def publish_queue(self, news: QueueNews) -> None:
        """Report that a backlog queue left this process's rotation, or returned."""
        with self._lock:
            self._queues[news.path] = news
            self._lock.notify_all()

    def report(self, event: Event) -> None:
        """Report an event to the control plane when Redis is available."""
        self._facts.add_event(event)

    def record_usage(self, records: Iterable[UsageRecord]) -> None:
        """Report usage to the cost pipeline when Redis is available."""
        self._facts.add_usage(records)

    def claim_ping(self, path: str, interval_s: float, grace_s: float = 0.0) -> bool | None:
        """Whether this process should ping now; None if Redis does not answer and the process decides alone."""
        if not self.is_connected:
            return None
        try:
            return self.shared.claim_ping(path, interval_s, grace_s=grace_s)
        except RedisError:
            return None

    def close(self, timeout_s: float = 3.0) -> None:
        """Report what is left for at most two seconds, and end the threads; within this time in total."""
        with self._lock:
            self._is_closing = True
            self._lock.notify_all()
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            joined(thread, until - time.monotonic())
        self._redis.close()

    # The outbox ----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._is_closing:
            try:
                self._reconcile()
                self.is_connected = True
                self._report_until(time.monotonic() + _RECONCILE_S)
                pause = _FIRST_PAUSE_S
            except (RedisError, OSError) as error:
                self._cut_off(error)
                self._rest(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            except Exception:
                _LOGGER.exception("pairing: the outbox to Redis failed; it continues")
                self._rest(_LONGEST_PAUSE_S)
        self._report_the_rest(time.monotonic() + _CLOSING_S)

    def _report_until(self, read_at: float) -> None:
        while (left := read_at - time.monotonic()) > 0 and not self._is_closing:
            with self._lock:
                self._lock.wait_for(lambda: self._is_closing or self._must_read or self._has_facts(), left)
                if self._must_read:
                    return
            self._report_all()
        if not self._is_closing:
            self._warned_of = ""

    def _report_the_rest(self, until: float) -> None:
        """Also while Redis is away, as it may be back in time: usage and events of this process are nowhere else."""
        answers = self.is_connected
        while time.monotonic() < until and (self._has_facts() if self.is_connected else self._facts):
            report = self._report_all if self.is_connected else self._report_facts
            try:
                report()
                answers = True
            except (RedisError, OSError) as error:
                self._cut_off(error)
                answers = False
                time.sleep(_FIRST_PAUSE_S)
        if answers:
            with contextlib.suppress(RedisError, OSError):
                self._presences.leave(self._process)

    def _has_facts(self) -> bool:
        return bool(self._changes or self._queues or self._facts)

    def _report_all(self) -> None:
        for path in list(self._changes):
            self._report_change(path)
        for path in list(self._queues):
            self._report_queue(path)
        self._report_facts()

    def _report_facts(self) -> None:
        self._facts.deliver(
            lambda events: self.shared.report(*map(self._by_fleet_time, events)), self.shared.record_usage
        )

    def _by_fleet_time(self, event: Event) -> Event:
        return replace(event, time=self._clock.fleet_time(event.time, event.entity))

    def _report_queue(self, path: str) -> None:
        news = self._queues[path]
        self._backlog.report(news)
        with self._lock:
            if self._queues[path] is news:
                del self._queues[path]

    def _report_change(self, path: str) -> None:
        pending, known = self._changes[path], self._known.get(path)
        knew = 0 if known is None or known.state == "failed_over" else known.version
        applied, now = self.shared.publish(replace(pending[0], knew=knew), recovers=pending[1])
        with self._lock:
            if self._changes[path] is pending:  # otherwise a later one replaced it, which is reported next
                del self._changes[path]
        if now is not None:
            self._learn(now, is_answer=not applied, is_reported=applied)

    def _cut_off(self, error: Exception) -> None:
        self._warn(error)
        self.is_connected = False
        self._must_compare = True
        self._must_listen_anew.set()

    def _warn(self, error: Exception) -> None:
        is_refused = isinstance(error, ResponseError | AuthenticationError | AuthorizationError)
        kind = "refused" if is_refused else type(error).__name__
        why = str(error) if is_refused or self._seen is None else kind
        if not self._warned_of or (is_refused and kind != self._warned_of):
            _LOGGER.warning("pairing: Redis is unavailable (%s); this process decides alone", why)
            if is_refused or self._seen is None:
                self.on_refused(f"{why}; this process decides alone")
            self._warned_of = kind

    def _rest(self, seconds: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._is_closing, seconds)

    # The news ------------------------------------------------------------------------------------------------------

    def _subscription(self) -> Subscription:
        readers: dict[str, Callable[[str], None]] = {
            self.shared.channel: lambda text: self._learn(SharedHealth.from_json(text)),
            self._backlog.channel: lambda text: self._learn_queue(QueueNews.from_json(text)),
        }
        return Subscription(
            self._redis,
            readers,
            on_gap=self._ask_for_a_read,
            is_cut=self._must_listen_anew,
            is_closing=lambda: self._is_closing,
            rest=self._rest,
        )

    def _reconcile(self) -> None:
        """Read missed changes, and restore what Redis has lost."""
        with self._lock:
            self._must_read = False
            must_compare, self._must_compare = self._must_compare, False
        self._clock.look(self.shared.now)
        self._presences.report(self._process, replace(self.presence(), heard=tuple(self._heard)))
        for pulled in self._backlog.pulled():
            self._learn_queue(pulled)
        if (paths := self.shared.known(but=self._number_known)) is not None:
            self._number_known = len(paths)
            self.on_known(paths)
        news = self.shared.news(self._seen, is_complete=must_compare)
        remembered = list(self._known) if news.is_everything else []
        for health in readable(self.shared.channel, news.texts, SharedHealth.from_json).values():
            self._learn(health, is_read=not news.has_forgotten)
        for known in remembered:
            text = news.texts.get(known.path)
            if known.state != "failing" and has_forgotten(text, known, was_emptied=news.has_forgotten):
                self.shared.restore(known)
        self._seen = news.seen

    def _ask_for_a_read(self, error: Exception | None = None) -> None:
        """Read all of it: what answers now may be a replica that was promoted without the last changes."""
        if isinstance(error, NoPermissionError):  # to listen
            self._warn(error)
        with self._lock:
            self._must_read = self._must_compare = True
            self._lock.notify_all()

    def _learn_queue(self, news: QueueNews) -> None:
        if news.process != self._process:
            self.on_queue(news)

    def _learn(
        self, health: SharedHealth, *, is_answer: bool = False, is_read: bool = False, is_reported: bool = False
    ) -> None:
        """Pass on changes of others; requests a read if only that can show the meaning of a report."""
        with self._lock:
            if self._known.is_unclear(health, is_read=is_read):
                self._must_read = True
                self._lock.notify_all()
                return
            is_pending = health.path in self._changes
            change = self._known.take(health, is_pending=is_pending, is_answer=is_answer, is_reported=is_reported)
        if change is None:
            return
        try:
            self._on_change(change)
        except Exception:
            _LOGGER.exception("pairing: a change of %s was not adopted", change.path)
        else:
            self._note(change)

    def _note(self, health: SharedHealth) -> None:
        """Note how fast an operator's failover was adopted; its version is Redis's time in milliseconds."""
        if health.state == "failed_over" and health.origin == "forced":
            after_s = time.time() - self._clock.ahead_s - health.version / 1000
            self._heard.append(Heard(health.path, health.version, round(max(0.0, after_s), 3)))
