"""The syphon on the blocking SDK: drains the backlog queues of a pair, each on its own thread.

Its operations are in ``pairing.drain``. With coordination each queue is served under a lease, and pauses apply.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pairing.drain.host import ASK_S, SyphonHost
from pairing.drain.syphons import SyphonCore
from pairing.drive import run
from pairing.links.failures import AnyLink
from pairing.links.link import Link, Watchdog
from pairing.operations.threads import Threads


class BlockingHost(SyphonHost, Protocol):
    """An open ``PairedServiceBusClient``."""

    watchdog: Watchdog


class Syphon(SyphonCore):
    """Drains the backlog queues of an open client's pair into the primary: at least once, without loss.

    ``queues`` restricts it to these backlog queues, for example orphans.
    """

    def __init__(self, client: BlockingHost, *, queues: Iterable[str] | None = None) -> None:
        super().__init__(client, SyphonThreads(client.watchdog), queues=queues)

    def run(self, stop: threading.Event) -> None:
        """Move messages until ``stop`` or until the client is closed; within 2 s after that no receive or send begins.

        Operations in progress get the close grace. Outages raise nothing: the syphon waits and reports them in
        ``progress``.
        """
        run(self.running(stop))


class SyphonThreads(Threads):
    """Execution by threads: every call blocks."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def ask(self, look: Callable[..., Any], path: str) -> Any:
        """Call a method of the administration, with a timeout."""
        return look(path, connection_timeout=ASK_S, read_timeout=ASK_S)

    def link(self, make: Callable[[], Any]) -> Link:
        """A link that opens the result of ``make``."""
        return Link(make, self._watchdog)

    def close_links(self, links: Iterable[AnyLink]) -> None:
        """Close links without operations in progress."""
        for link in links:
            link.close(0)
