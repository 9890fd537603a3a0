"""Runs probes side by side, each on a thread of its own, and waits for all of them in bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from django.db import connections

from dashboard.checks.findings import Finding, problem
from pairing.health.faults import describe

Probe = Callable[[], Sequence[Finding]]
"""Looks at one item. What it raises becomes a problem of that item."""
LIMIT_S = 10.0


def findings_of(probes: Mapping[str, Probe], limit_s: float = LIMIT_S) -> list[Finding]:
    """The findings in the order of the probes. A probe that is late is a problem, and is abandoned."""
    running = [_Running(item, probe) for item, probe in probes.items()]
    until = time.monotonic() + limit_s
    for one in running:
        one.start()
    for one in running:
        one.join(max(0.0, until - time.monotonic()))
    return [finding for one in running for finding in one.result(limit_s)]


class _Running(threading.Thread):
    """One probe. A daemon, because nothing can end a thread that waits inside a driver."""

    def __init__(self, item: str, probe: Probe) -> None:
        super().__init__(name=f"check-{item}", daemon=True)
        self._item, self._probe = item, probe
        self._found: Sequence[Finding] | None = None

    def run(self) -> None:
        try:
            self._found = self._probe()
        except Exception as error:
            self._found = [problem(self._item, f"It could not be checked: {describe(error)}.", "Correct the cause.")]
        finally:
            connections.close_all()

    def result(self, limit_s: float) -> Sequence[Finding]:
        if self._found is not None:
            return self._found
        remedy = "Check that it runs, and that this host can reach it."
        return [problem(self._item, f"It did not answer within {limit_s:.0f} s.", remedy)]
