"""The maintenance of a blocking client: one thread, apart from all sends."""

import threading
from collections.abc import Callable
from typing import Any

from pairing.backlog.administration import BacklogQueueInfo, backlog_queues
from pairing.drive import run
from pairing.operations.client import ClientOperations
from pairing.operations.maintenance import TICK_S, MaintenanceOperations
from pairing.threads import joined


class Maintenance(MaintenanceOperations, threading.Thread):
    """Keeps the links of a client alive, reports its usage, and watches the fill level of the backlog."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        MaintenanceOperations.__init__(self, client)
        threading.Thread.__init__(self, name="pairing-maintenance", daemon=True)
        self._wake = threading.Event()

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    def run(self) -> None:
        """Work until stopped."""
        while not self._is_stopping:
            self._wake.wait(TICK_S)
            self._wake.clear()
            run(self._round())

    def stop(self, timeout_s: float) -> None:
        """End; wait at most this long for a running task."""
        self._is_stopping = True
        self._wake.set()
        joined(self, timeout_s)

    def _ask_fleet(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def _list_backlog_queues(self) -> list[BacklogQueueInfo]:
        return backlog_queues(self._client.secondary.administration, self._client.primary.namespace)
