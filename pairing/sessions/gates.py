"""This process's copy of the fleet's session barriers, and the thread that keeps it current.

While no gate is up and the copy is current, a send does not access Redis. Otherwise sends of sessions, and only those,
query Redis. If Redis does not answer, the process keeps the order of its own sessions, and an event reports that the
order across the fleet is at risk (docs/design/session-order.md).
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from uuid import uuid4

from pairing.clock import joined
from pairing.sessions.order import SessionSend
from pairing.sessions.rulings import Ruling, entity_of
from pairing.sessions.shared import FRESH_S, SharedSessions

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState

_LOGGER = logging.getLogger("pairing")
_SYNC_S = 0.5
_IN_ONE_GO = 500

AtRisk = Callable[[str, str], None]


class SessionGates:
    """The order of sessions in one process. ``start`` starts a daemon thread; thread-safe."""

    send = SessionSend
    """One call that keeps this order; loaded here, as an outage is too late to load it."""

    def __init__(
        self,
        shared: "SharedState",
        process: str,
        *,
        endangered: Callable[[], list[str]],
        at_risk: AtRisk,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = SharedSessions(shared)
        self._process, self._endangered, self._now = process, endangered, now
        self.at_risk = at_risk
        """Called with an entity and the reason why the order of its sessions is at risk."""
        self._up: frozenset[str] = frozenset()
        self._fresh_until = float("-inf")
        self._epoch = ""
        self.is_away = False
        """Whether Redis did not answer the last time."""
        self._remembered: dict[str, str] = {}
        self._ended: deque[tuple[str, str, bool]] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()  # a signal handler may put while its thread does
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="pairing-sessions", daemon=True)

    def start(self) -> None:
        """Start to keep the copy current."""
        self._thread.start()

    def close(self, timeout_s: float = 1.0) -> None:
        """Report ended sends, for at most this long."""
        self._is_closing = True
        self._wake.put(None)
        joined(self._thread, timeout_s)

    # What a send asks ----------------------------------------------------------------------------------------------

    def is_free(self, entity: str) -> bool:
        """Whether it is certain that no session of the entity has a barrier; does not access Redis."""
        return self._now() < self._fresh_until and entity.lower() not in self._up

    def consult(self, key: str, candidate: str | None, token: str, within_s: float) -> Ruling | None:
        """The queue for a message of the session; blocks for at most 2 s. None if Redis does not answer."""
        if self.is_away:
            return None
        try:
            ruling = self._sessions.enter(key, candidate, token, within_s=within_s)
            if ruling.others.startswith(f"{self._process}:"):  # a send of ours, maybe over: that is reported late
                self._sessions.leave([one for one in list(self._ended) if one[1] == ruling.others])
                ruling = self._sessions.enter(key, candidate, token, within_s=within_s)
        except Exception as error:
            self._went_away(error)
            return None
        if not ruling.queue and ruling.wait_s == 0:
            self._remembered.pop(key, None)
        return ruling

    def move(self, key: str, token: str, queue: str, *, is_gone: bool) -> bool:
        """Whether the barrier names the other queue now; blocks for at most 2 s."""
        try:
            return self._sessions.move(key, token, queue, is_gone=is_gone)
        except Exception as error:
            self._went_away(error)
            return False

    def token(self) -> str:
        """The token of one send, for other processes."""
        return f"{self._process}:{uuid4().hex[:12]}"

    def left(self, key: str, token: str, *, stored: bool) -> None:
        """A send has ended with a known result; the thread reports it."""
        self._ended.append((key, token, stored))
        self._wake.put(None)

    def remember(self, key: str, queue: str) -> None:
        """Note that messages of the session are in this queue, in case Redis does not answer or has lost its data."""
        self._remembered[key] = queue

    def remembered(self, key: str) -> str | None:
        """The queue to which this process sent messages of the session."""
        return self._remembered.get(key)

    # The thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closing:
            try:
                self.refresh()
            except Exception as error:
                self._went_away(error)
            self._report_until(self._now() + _SYNC_S)
        with contextlib.suppress(Exception):
            self._report_ended()

    def _report_until(self, until: float) -> None:
        while not self._is_closing and (left := until - self._now()) > 0:
            with contextlib.suppress(Empty):
                self._wake.get(timeout=left)
            try:
                self._report_ended()
            except Exception as error:
                self._went_away(error)
                threading.Event().wait(_SYNC_S)

    def refresh(self) -> None:
        """Read the gates, raising those of entities in danger; report barriers again that Redis has lost."""
        asked_at = self._now()
        gates = self._sessions.sync(uuid4().hex, self._endangered())
        has_forgotten = self._epoch not in ("", gates.epoch)
        if has_forgotten:
            self.at_risk(
                "*", "Redis has forgotten which sessions have messages in the backlog; they are reported again"
            )
        if (has_forgotten or self.is_away) and self._remembered:
            self._report_remembered()
            gates = self._sessions.sync(gates.epoch, self._endangered())
        self._epoch, self._up, self.is_away = gates.epoch, gates.up, False
        self._fresh_until = asked_at + FRESH_S
        for key in [key for key in list(self._remembered) if entity_of(key) not in gates.up]:
            self._remembered.pop(key, None)

    def _report_remembered(self) -> None:
        by_queue: dict[str, list[str]] = {}
        for key, queue in list(self._remembered.items()):
            by_queue.setdefault(queue, []).append(key)
        for queue, keys in by_queue.items():
            self._sessions.bar(queue, keys)

    def _report_ended(self) -> None:
        while self._ended:
            some = [self._ended[i] for i in range(min(len(self._ended), _IN_ONE_GO))]
            self._sessions.leave(some)
            for _ in some:
                self._ended.popleft()

    def _went_away(self, error: Exception) -> None:
        self._fresh_until = float("-inf")
        if not self.is_away:
            self.is_away = True
            _LOGGER.info("pairing: the order of sessions cannot be read from Redis (%s)", type(error).__name__)
            self.at_risk("*", f"Redis does not answer ({type(error).__name__}): each process keeps its sessions alone")
