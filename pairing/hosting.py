"""The syphon inside a client, where the options ask for one."""

import threading
from typing import TYPE_CHECKING

from pairing.syphon import Syphon

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient


class HostedSyphon:
    """A syphon on a thread of the client that hosts it."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=Syphon(client).run, args=(self._stop,), name="pairing-syphon", daemon=True
        )

    def start(self) -> None:
        """Begin to bring the backlog home."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Begin nothing new, and wait so long for what is in flight."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
