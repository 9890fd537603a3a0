"""Operations: what a client does, written once as a generator and run with threads or in asyncio.

An operation yields calls, receives their outcomes and continues other operations with ``yield from``::

    def ping(link: Link) -> Operation[bool]:
        failure = yield from call(link.warm, 10.0)
        return failure is None


    run(ping(link))
    await run_async(ping(link))

What differs between the worlds is in their ``Runtime``.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, overload

R = TypeVar("R")
P = ParamSpec("P")

Eventually: TypeAlias = R | Awaitable[R]
"""The result of a call: the outcome with threads, an awaitable of it in asyncio."""

Operation: TypeAlias = Generator[Callable[[], Any], Any, R]
"""An operation of a client, for threads and asyncio: it yields calls and receives their outcomes, by ``call`` only."""


@overload
def call(function: Callable[P, Awaitable[R]], *arguments: P.args, **keywords: P.kwargs) -> Operation[R]: ...


@overload
def call(function: Callable[P, Eventually[R]], *arguments: P.args, **keywords: P.kwargs) -> Operation[R]: ...


def call(function: Callable[P, Any], *arguments: P.args, **keywords: P.kwargs) -> Operation[Any]:
    """``yield from call(f, x)``: f(x), awaited in asyncio."""
    return (yield partial(function, *arguments, **keywords))


def run(operation: Operation[R]) -> R:
    """Run an operation and return its result; its calls are made on the caller's thread."""
    try:
        function = next(operation)
        while True:
            try:
                outcome = function()
            except BaseException as error:
                function = operation.throw(error)
            else:
                function = operation.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result


async def run_async(operation: Operation[R]) -> R:
    """Run an operation and return its result; awaitable results of its calls are awaited."""
    try:
        function = next(operation)
        while True:
            try:
                outcome = function()
                if hasattr(outcome, "__await__"):
                    outcome = await outcome
            except BaseException as error:
                function = operation.throw(error)
            else:
                function = operation.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result


class Event(Protocol):
    """``threading.Event`` or ``asyncio.Event``."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...


class Lock(Protocol):
    """``threading.Lock`` or ``asyncio.Lock``."""

    def acquire(self) -> Any: ...

    def release(self) -> None: ...


class Runtime(Protocol):
    """The differences between threads and asyncio."""

    def run(self, operation: Operation[R]) -> Eventually[R]: ...

    def event(self) -> Event: ...

    def lock(self) -> Lock: ...

    def sleep(self, seconds: float) -> Eventually[None]: ...

    def rest(self, event: Any, seconds: float) -> Eventually[object]: ...

    def block(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> Eventually[R]: ...

    def listed(self, queues: Any) -> Eventually[list[Any]]: ...

    def spawn(self, operation: Operation[Any], name: str) -> Any: ...

    def wait(self, workers: list[Any], seconds: float | None) -> Eventually[list[Any]]: ...

    def cancel(self, workers: list[Any]) -> Eventually[None]: ...
