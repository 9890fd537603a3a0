"""The syphon on the asyncio SDK: the operations of ``pairing.drain``, with one task per backlog queue."""

import asyncio
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any, Protocol, cast

from pairing.aio.cancellation import within
from pairing.aio.links import Background, Link
from pairing.aio.runtime import Tasks
from pairing.drain.host import ASK_S, SyphonHost
from pairing.drain.syphons import SyphonCore
from pairing.drive import run_async
from pairing.links.failures import AnyLink


class AsyncioHost(SyphonHost, Protocol):
    """An open ``pairing.aio.PairedServiceBusClient``."""

    background: Background

    def _check_loop(self) -> None: ...


class Syphon(SyphonCore):
    """Drains the backlog queues of an open client's pair into the primary: at least once, without loss.

    ``queues`` restricts it to these backlog queues, for example orphans.
    """

    def __init__(self, client: AsyncioHost, *, queues: Iterable[str] | None = None) -> None:
        super().__init__(client, SyphonTasks(client.background), queues=queues)
        self._check_loop = client._check_loop

    async def run(self, stop: asyncio.Event) -> None:
        """Move messages until ``stop`` or until the client is closed; within 2 s after that no receive or send begins.

        Operations in progress get the close grace. Outages raise nothing: the syphon waits and reports them in
        ``progress``.
        """
        if not iscoroutinefunction(getattr(stop, "wait", None)):  # it would block the event loop
            raise TypeError(f"stop must be an asyncio.Event, not {type(stop).__module__}.{type(stop).__qualname__}")
        self._check_loop()
        await run_async(self.running(stop))


class SyphonTasks(Tasks):
    """Execution in asyncio."""

    async def ask(self, look: Callable[..., Any], path: str) -> Any:
        """Call a method of the administration, with a timeout."""
        return await within(look(path), ASK_S)

    def link(self, make: Callable[[], Any]) -> Link:
        """A link that opens the result of ``make``."""
        return Link(make, self._background)

    async def close_links(self, links: Iterable[AnyLink]) -> None:
        """Close links without operations in progress."""
        await asyncio.gather(*(cast("Link", link).close(0.5) for link in links))
