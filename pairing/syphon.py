"""The syphon on the blocking SDK: drains the backlog queues of a pair, each on its own thread.

Its operations are in ``pairing.drain``. With coordination each queue is served under a lease, and pauses apply.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from pairing.drain.actions import Settle, Settled
from pairing.drain.host import ASK_S, SyphonHost, SyphonLink
from pairing.drain.settlement import Settlement, choose
from pairing.drain.syphons import SyphonCore
from pairing.drive import Operation, run
from pairing.links import Link, Watchdog

R = TypeVar("R")


class BlockingHost(SyphonHost, Protocol):
    """An open ``PairedServiceBusClient``."""

    watchdog: Watchdog


class Syphon(SyphonCore):
    """Drains the backlog queues of an open client's pair into the primary: at least once, without loss.

    ``queues`` restricts it to these backlog queues, for example orphans.
    """

    def __init__(self, client: BlockingHost, *, queues: Iterable[str] | None = None) -> None:
        super().__init__(client, Threads(client.watchdog), queues=queues)

    def run(self, stop: threading.Event) -> None:
        """Move messages until ``stop`` or until the client is closed; within 2 s after that no receive or send begins.

        Operations in progress get the close grace. Outages raise nothing: the syphon waits and reports them in
        ``progress``.
        """
        run(self._running(stop))


class Threads:
    """Execution by threads: every call blocks."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._settlement: Settlement | None = None

    def run(self, operation: Operation[R]) -> R:
        return run(operation)

    def block(self, function: Callable[[], R]) -> R:
        return function()

    def ask(self, look: Callable[..., Any], path: str) -> Any:
        return look(path, connection_timeout=ASK_S, read_timeout=ASK_S)

    def rest(self, stop: threading.Event, seconds: float) -> None:
        stop.wait(seconds)

    def link(self, make: Callable[[], Any]) -> Link:
        return Link(make, self._watchdog)

    def close_links(self, links: Iterable[SyphonLink]) -> None:
        for link in links:
            link.close(0)

    def settle(self, receiver: Any, action: Settle, outcomes: list[Settled], timeout_s: float) -> None:
        """Record each outcome immediately, in case the link breaks in between."""
        messages = [item.received for item in action.items]
        self._settlement = way = self._settlement or choose(receiver)
        settled = way.settle(receiver, action.verb, messages, action.reason, action.description, timeout_s)
        for at, outcome in enumerate(settled):
            outcomes[at] = outcome

    def spawn(self, operation: Operation[None], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, args=(operation,), name=name, daemon=True)
        thread.start()
        return thread

    def is_busy(self, worker: threading.Thread) -> bool:
        return worker.is_alive()

    def wait(self, workers: list[threading.Thread], seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in workers:
            thread.join(max(until - time.monotonic(), 0.0))

    def cancel(self, workers: list[threading.Thread]) -> None:
        """Threads are daemons and notice the end of the syphon themselves."""
