"""The pings of a blocking client, each on a daemon thread, because an outage can make it slow."""

import threading
from collections.abc import Callable
from typing import Any

from pairing.drive import run
from pairing.health.availability import PathAvailability
from pairing.health.flows import PingResult
from pairing.operations.client import ClientOperations
from pairing.operations.pinger import TICK_S, PingOperations
from pairing.threads import joined


class Pinger(PingOperations, threading.Thread):
    """Pings what is due until it is stopped."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        PingOperations.__init__(self, client)
        threading.Thread.__init__(self, name="pairing-pinger", daemon=True)
        self._stop_event = threading.Event()
        self._alone: dict[str, threading.Lock] = {}

    def run(self) -> None:
        """Ping what is due until stopped."""
        while not self._stop_event.wait(TICK_S):
            self._begin_due()

    def stop(self, timeout_s: float) -> None:
        """Start no further ping."""
        self._stop_event.set()
        joined(self, timeout_s)

    def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        results: list[PingResult] = []
        threads = [self._thread(machine, grace_s, results) for machine in self._turns.next(self._due())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def ping(self, path: str) -> PingResult:
        """Ping one entity now, after any ping of it that is in progress."""
        with self._alone.setdefault(path.lower(), threading.Lock()):
            return run(self._ping(path))

    def _start(self, machine: PathAvailability, grace_s: float) -> None:
        self._thread(machine, grace_s, []).start()

    def _thread(self, machine: PathAvailability, grace_s: float, results: list[PingResult]) -> threading.Thread:
        def claim_and_ping() -> None:
            if (result := run(self._claim_and_ping(machine, grace_s))) is not None:
                results.append(result)

        return threading.Thread(target=claim_and_ping, name="pairing-ping", daemon=True)

    def _ask_fleet(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)
