"""The two worlds of the SDK behind one set of calls: tests are written once, and run blocking and on asyncio.

`Adapted` stands for an object of the asyncio world: it runs what it is called for on an event loop in a thread of its
own, and waits. Results that are opened or iterated are adapted, too.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
from azure.servicebus import AutoLockRenewer, ServiceBusClient
from azure.servicebus import aio as asynchronous
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncServiceBusAdministrationClient
from azure.servicebus.management import ServiceBusAdministrationClient

_END = object()


class PlainTransport(RequestsTransport):
    """Reaches an emulator, whose administration speaks plain HTTP; the client always asks for https."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


class AsyncPlainTransport(AioHttpTransport):
    """The same for asyncio."""

    async def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return await super().send(request, **kwargs)


class Blocking:
    """The blocking world: the SDK's own classes."""

    transport: Any = PlainTransport

    def client(self, make: Callable[[Any], Any]) -> Any:
        """A messaging client, made from its class."""
        return make(ServiceBusClient)

    def administration(self, make: Callable[[Any], Any]) -> Any:
        """An administration client, likewise."""
        return make(ServiceBusAdministrationClient)

    def renewer(self, on_failure: Callable[..., None] | None = None) -> Any:
        """A renewer of locks, with what it calls where it cannot renew one."""
        return AutoLockRenewer(on_lock_renew_failure=on_failure)


class Asyncio:
    """The asyncio world, on a loop in a thread."""

    transport: Any = AsyncPlainTransport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def client(self, make: Callable[[Any], Any]) -> Any:
        """A messaging client, made from its class."""
        return self.run(lambda: make(asynchronous.ServiceBusClient))

    def administration(self, make: Callable[[Any], Any]) -> Any:
        """An administration client, likewise."""
        return self.run(lambda: make(AsyncServiceBusAdministrationClient))

    def renewer(self, on_failure: Callable[..., None] | None = None) -> Any:
        """A renewer of locks, with what it calls where it cannot renew one."""

        async def note(*failure: Any) -> None:
            if on_failure is not None:
                on_failure(*failure)

        return self.run(lambda: asynchronous.AutoLockRenewer(on_lock_renew_failure=note))

    def run(self, work: Callable[[], Any]) -> Any:
        """The result of the work, called and awaited on the loop."""

        async def done() -> Any:
            found = work()
            return await found if inspect.isawaitable(found) else found

        return self.adapted(asyncio.run_coroutine_threadsafe(done(), self._loop).result())

    def adapted(self, found: Any) -> Any:
        """What is opened or iterated on asyncio, for blocking code; anything else as it is."""
        is_asynchronous = hasattr(found, "__aenter__") or hasattr(found, "__aiter__") or hasattr(found, "renew_lock")
        return Adapted(self, found) if is_asynchronous else found


class Adapted:
    """An object of the asyncio world for blocking code."""

    def __init__(self, world: Asyncio, sdk: Any) -> None:
        self._world, self.sdk = world, sdk

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.sdk, name)
        if not callable(value):
            return self._world.adapted(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tuple(map(_bare, args)), {key: _bare(each) for key, each in kwargs.items()}
            return self._world.run(lambda: value(*args, **kwargs))

        return call

    def __enter__(self) -> "Adapted":
        self._world.run(self.sdk.__aenter__)
        return self

    def __exit__(self, *error: object) -> None:
        self._world.run(lambda: self.sdk.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        items = self.sdk.__aiter__()
        while (item := self._world.run(lambda: anext(items, _END))) is not _END:
            yield item

    def __next__(self) -> Any:
        if (item := self._world.run(lambda: anext(self.sdk, _END))) is _END:
            raise StopIteration
        return item


def _bare(value: Any) -> Any:
    return value.sdk if isinstance(value, Adapted) else value


@contextmanager
def asyncio_world() -> Iterator[Asyncio]:
    """The asyncio world, as long as the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield Asyncio(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def take(receiver: Any, count: int) -> list[Any]:
    """So many messages. Raises AssertionError where no more come."""
    messages: list[Any] = []
    while len(messages) < count:
        more = receiver.receive_messages(count - len(messages), max_wait_time=300)
        assert more, f"only {len(messages)} of {count} messages came"
        messages += more
    return messages
