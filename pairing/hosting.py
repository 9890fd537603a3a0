"""The syphon inside a client, if enabled in the options."""

import threading
from collections.abc import Callable

from pairing.threads import joined


class HostedSyphon:
    """A syphon on a thread of the client that hosts it."""

    def __init__(self, run: Callable[[threading.Event], None]) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._stop,), name="pairing-syphon", daemon=True)

    def start(self) -> None:
        """Start to drain the backlog."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Start nothing new, and wait up to this long for operations in progress."""
        self._stop.set()
        joined(self._thread, timeout_s)
