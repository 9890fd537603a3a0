"""Cancellations that always arrive, and deadlines that always end.

``asyncio.wait_for`` of Python 3.11 returns the result where a cancellation comes together with it, and the caller goes
on as if nothing had happened. The SDK uses it for each frame that it reads or writes, so awaiting the SDK may swallow
a cancellation. The task still counts it: ``Task.cancelling`` is larger afterwards, which is what is checked here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

CANCEL_AGAIN_S = 0.05
T = TypeVar("T")


class Deadline:
    """Ends the current task's work at a moment, again and again until it ends; leaving it then raises TimeoutError.

    First it calls ``abort``, which the work should notice; then it cancels. The SDK makes requests in tasks of their
    own: one that is cancelled and goes on is abandoned there, goes on, and complains in the log. As
    ``asyncio.timeout``, which cancels only once: a cancellation can get lost where a frame arrives with it. Leaving it
    raises CancelledError where somebody else has cancelled the task.
    """

    __slots__ = ("_abort", "_before", "_cancellations", "_handle", "_loop", "_task", "_timeout_s", "is_over")

    def __init__(self, timeout_s: float, abort: Callable[[], None]) -> None:
        self._timeout_s = timeout_s
        self._abort = abort
        self._cancellations = 0
        self.is_over = False

    def __enter__(self) -> Self:
        self._task = _current_task()
        self._before = self._task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._timeout_s, self.expire)
        return self

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody else has cancelled the task meanwhile."""
        return self._task.cancelling() - self._cancellations > self._before

    def check(self) -> None:
        """Raise CancelledError where the task was cancelled, or the time is over and it was cancelled for that."""
        if self._task.cancelling() > self._before:
            raise asyncio.CancelledError

    def expire(self) -> None:
        """Let the time be over now."""
        self._handle.cancel()
        if self.is_over:
            self._cancellations += 1
            self._task.cancel()
        else:
            self.is_over = True
            self._abort()
        self._handle = self._loop.call_later(CANCEL_AGAIN_S, self.expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.cancel()
        for _ in range(self._cancellations):
            self._task.uncancel()
        if self._task.cancelling() <= self._before:
            if self.is_over and kind is not None:
                raise TimeoutError from error
        elif not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError from error


async def handed_over(work: Awaitable[T]) -> T:
    """What the work returns, and where its task was cancelled meanwhile, the cancellation at the next await.

    For what must not get lost, as messages that have been received.
    """
    task = _current_task()
    before = task.cancelling()
    try:
        outcome = await work
    except Exception as error:
        if task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task.cancelling() > before:
        task.uncancel()
        task.cancel()
    return outcome


async def within(work: Awaitable[T], timeout_s: float) -> T:
    """As ``asyncio.wait_for``, which may swallow a cancellation."""
    task = _current_task()
    before = task.cancelling()
    async with asyncio.timeout(timeout_s):
        outcome = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return outcome


def _current_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None, "this is awaited by tasks only"
    return task
