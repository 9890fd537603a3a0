"""The application's callbacks for events, on a thread of their own: they may block, and raise anything."""

import logging
import threading
from collections import deque
from collections.abc import Callable

from pairing.clock import joined, start
from pairing.events import Event

_LOGGER = logging.getLogger("pairing")
_MOST_WAITING = 10_000


class Callbacks:
    """Calls every callback with each event, one event after the other; its thread lives while events wait.

    Behind a callback that blocks, the latest events wait.
    """

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[Event], None]] = {}
        self._waiting: deque[Event] = deque(maxlen=_MOST_WAITING)
        self._lock = threading.RLock()  # a signal handler may report while its thread does
        self._thread: threading.Thread | None = None

    def add(self, callback: Callable[[Event], None]) -> Callable[[], object]:
        """Call this one, too, from now on, until the returned function is called."""
        self._callbacks[key := object()] = callback
        return lambda: self._callbacks.pop(key, None)

    def report(self, event: Event) -> None:
        """Have the callbacks called; a process that can start no thread does it with its next event."""
        with self._lock:
            if not self._callbacks:
                return
            self._waiting.append(event)
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._work, name="pairing-events", daemon=True)
            try:
                start(self._thread)
            except RuntimeError:
                self._thread = None

    def wait(self, timeout_s: float) -> None:
        """Wait until the callbacks were called with all events so far, for at most this time."""
        if (thread := self._thread) is not None:
            joined(thread, timeout_s)

    def _work(self) -> None:
        while (event := self._next()) is not None:
            self.call(event)

    def _next(self) -> Event | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    def call(self, event: Event) -> None:
        """Call the callbacks now; their exceptions are logged only."""
        for callback in tuple(self._callbacks.values()):
            try:
                callback(event)
            except BaseException:
                _LOGGER.exception("an event callback failed on %s of %s", event.kind, event.entity)
