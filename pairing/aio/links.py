"""AMQP links of the asyncio SDK with deadlines: overdue operations are cancelled, and their transport is aborted.

A cancellation by the caller is raised even where the SDK swallows it (``pairing.aio.cancellation``).
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any
from weakref import WeakSet

from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from pairing.aio.cancellation import CANCEL_AGAIN_S, Deadline
from pairing.aio.turn import Turn
from pairing.links.credentials import opens_until
from pairing.links.failures import LinkCrowdedError, LinkFailure, keeps_link
from pairing.links.link import HEARTBEAT_S, RETRY_WARM_S
from pairing.links.sockets import on_each_handler, token_is_aging

_CLOSING_S = 2.0
_LISTENING_S = 1.0
_SHORT_S = 2.0
_MOST_THREADS = 32
_AHEAD_S = 0.3
"""How long before a deadline the client cancels a send, because it checks periodically."""
_LEAVING_S = 0.5
"""How long an interrupted operation may take to end: the SDK sometimes swallows a cancellation."""

Operation = Callable[[ServiceBusSender, float], Awaitable[object]]
_current_task, _monotonic = asyncio.current_task, time.monotonic  # steps that each send is spared


class Background:
    """The tasks that a client starts beside its callers; none outlives it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.threads: ThreadPoolExecutor | None = ThreadPoolExecutor(_MOST_THREADS, "pairing-blocking")
        """For what may block on Redis: the application may keep the event loop's own threads busy."""
        self.links: WeakSet[Link] = WeakSet()

    def start(self, work: Awaitable[object], name: str) -> "asyncio.Task[Any]":
        """Run this beside the caller."""
        task = asyncio.ensure_future(_quietly(work))
        task.set_name(f"pairing-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self, tasks: Iterable["asyncio.Task[Any]"]) -> None:
        """Cancel these until they have ended, for at most a second: the SDK sometimes swallows a cancellation."""
        for _ in range(10):
            left = [task for task in tasks if not task.done() and task is not asyncio.current_task()]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=0.1)

    async def end(self, timeout_s: float) -> None:
        """Wait for links that are closing, then cancel the rest."""
        tasks = self.others()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        await self.cancel(tasks)

    def others(self) -> "list[asyncio.Task[Any]]":
        """The tasks that have not ended, except the one that asks."""
        return [task for task in self._tasks if task is not asyncio.current_task()]


async def _quietly(work: Awaitable[object]) -> None:
    with contextlib.suppress(Exception):
        await work


async def closed(sender: Any) -> None:
    """Close a sender of the SDK within 2 s."""
    with Deadline(_CLOSING_S, partial(abort_transport, sender)):
        await sender.close()


def abort_transport(sender: Any) -> None:
    """Close the sender's connection immediately, without notice to the peer."""
    _abort(getattr(sender, "_handler", None))


def _abort(handler: Any) -> None:
    writer = getattr(getattr(getattr(handler, "_connection", None), "_transport", None), "writer", None)
    if writer is not None:
        with contextlib.suppress(Exception):
            writer.transport.abort()


class Link:
    """A link to one entity, opened by the first operation and again after a failure."""

    def __init__(
        self, make: Callable[[], ServiceBusSender], background: Background, *, warm: bool = False, idle_s: float = inf
    ) -> None:
        self._make = make
        self._background = background
        self._warm, self._idle_s = warm, idle_s
        self._turn = Turn()
        self._attempting: Deadline | None = None
        self._sending: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._until = 0.0
        self._cancellations = 0
        self._closed = False
        self._opening: ServiceBusSender | None = None
        self._inherited: ServiceBusSender | None = None
        self.used_at = self._checked_at = time.monotonic()
        self.sender: ServiceBusSender | None = None
        """The SDK's sender while the link is open."""
        background.links.add(self)

    @property
    def is_in_use(self) -> bool:
        """Whether an operation is under way."""
        return self._turn.is_taken

    async def attempt(self, operation: Operation, timeout_s: float) -> LinkFailure | None:
        """Perform one operation within the timeout, opening the link first if needed; None if it succeeded.

        Waiting for the turn takes at most half of the timeout: less than the rest would not suffice for an operation.
        """
        reused = False
        until = time.monotonic() + timeout_s
        if not await self._taken(timeout_s / 2):
            return LinkFailure(LinkCrowdedError(), False)
        try:
            with Deadline(max(until - time.monotonic(), 0.0), self._abort) as deadline:
                self._attempting = deadline
                try:
                    reused = self.sender is not None
                    sender = self.sender or await self._open(until)
                    deadline.check()
                    left = until - time.monotonic()
                    await operation(sender, max(left - min(0.3, left * 0.2), 0.001))
                except BaseException as error:  # also a cancellation: the SDK's sender is unusable
                    self._let_go(error)
                    raise
            if deadline.is_over:  # it succeeded in the last moment, on a transport that was aborted in it
                self._drop(torn=True)
            return None
        except TimeoutError as error:
            return LinkFailure(self._overdue(timeout_s, error), reused)
        except Exception as error:
            return LinkFailure(error, reused)
        finally:
            self._attempting = None
            self._turn.leave()

    async def send(self, message: Any, timeout_s: float) -> LinkFailure | None:
        """Send on the link within the timeout; on an open, idle link in as few steps as possible.

        If the timeout is long, ``interrupt_if_overdue`` guards it, because a timer for each send costs ten
        microseconds.
        """
        sender, turn = self.sender, self._turn
        if sender is None or turn.is_taken or timeout_s < _SHORT_S:
            return await self.attempt(_sending(message), timeout_s)
        turn.is_taken = True
        task: Any = _current_task()
        self._sending = task
        self._cancelling = before = task.cancelling()
        self._until = _monotonic() + timeout_s - _AHEAD_S
        try:
            await sender.send_messages(message)
        except BaseException as error:  # also a cancellation, as in ``attempt``
            return self._failed(error, timeout_s)
        if task.cancelling() > before:
            self._cancelled_late(task)
            return None
        self._sending = None
        if turn.waiting:
            turn.leave()
        else:
            turn.is_taken = False
        return None

    def _cancelled_late(self, task: "asyncio.Task[Any]") -> None:
        """The send has succeeded all the same; a cancellation that the SDK has swallowed is raised."""
        self._take_back()
        self._sending = None
        self._turn.leave()
        if task.cancelling() > self._cancelling:
            raise asyncio.CancelledError

    def _failed(self, error: BaseException, timeout_s: float) -> LinkFailure:
        """Why a send failed; a cancellation is raised, unless it was for being overdue."""
        task = self._sending
        try:
            self._let_go(error)
            is_overdue = self._take_back()
        finally:
            self._sending = None
            self._turn.leave()
        if is_overdue:
            return LinkFailure(self._overdue(timeout_s, error), True)
        if not isinstance(error, Exception):
            raise error
        if task is not None and task.cancelling() > self._cancelling:
            raise asyncio.CancelledError from error
        return LinkFailure(error, True)

    def _overdue(self, timeout_s: float, cause: BaseException) -> OperationTimeoutError:
        text = "No answer before the link was closed." if self._closed else f"No answer within {timeout_s:.1f} s."
        overdue = OperationTimeoutError(message=text)
        overdue.__cause__ = cause
        return overdue

    def interrupt_if_overdue(self, now: float) -> None:
        """Called by the client four times a second: end a send that has outlived its deadline.

        Also end an operation of a task that was cancelled and goes on: the SDK has swallowed the cancellation.
        """
        if self._attempting is not None:
            if self._attempting.is_cancelled:
                self._attempting.expire()
        elif self._sending is None or self._cancellations:
            return
        elif now > self._until or self._sending.cancelling() > self._cancelling:
            self._cancel(self._sending, self._until)

    def _cancel(self, task: "asyncio.Task[Any]", until: float) -> None:
        """Cancel the send until it ends, because the SDK sometimes swallows a cancellation."""
        if self._sending is task and self._until == until:
            self._cancellations += 1
            task.cancel()
            asyncio.get_running_loop().call_later(CANCEL_AGAIN_S, self._cancel, task, until)

    def _take_back(self) -> bool:
        """Revoke our cancellations; whether only they ended the send."""
        cancellations, self._cancellations = self._cancellations, 0
        task = self._sending
        if task is None:
            return False
        for _ in range(cancellations):
            task.uncancel()
        return cancellations > 0 and task.cancelling() <= self._cancelling

    async def warm(self, timeout_s: float) -> LinkFailure | None:
        """Open the link ahead of its use."""
        return None if self.sender is not None else await self.attempt(_nothing, timeout_s)

    async def maintain(self, now: float) -> bool:
        """Keep an idle link alive, and detect that the peer has closed it; whether it should be warmed."""
        if self._turn.is_taken:
            return False
        await self._turn.take()
        try:
            if self.sender is not None:
                beat = now - self._checked_at >= HEARTBEAT_S
                self._checked_at = now if beat else self._checked_at
                if not await _is_alive(self.sender, beat):
                    self._drop(torn=True)
            if now - self.used_at >= self._idle_s:
                self._drop(torn=False)
            if self.sender is not None and token_is_aging(self.sender):
                self._drop(torn=False)
                return True
            if self.sender is None and self._warm and not self._closed and now - self.used_at >= RETRY_WARM_S:
                self.used_at = now
                return True
            return False
        finally:
            self._turn.leave()

    async def close(self, timeout_s: float) -> None:
        """Close the link, waiting at most this long for an operation in progress to notice its interruption and end.

        The SDK's sender is closed after its operation has ended: an operation on a closed sender fails with noisy
        errors.
        """
        self._closed = True
        until = time.monotonic() + timeout_s
        is_quiet = is_left = False
        try:
            while self._opening is not None and time.monotonic() < until:  # it may have no transport yet
                abort_transport(self._opening)
                await asyncio.sleep(CANCEL_AGAIN_S)
            is_quiet = await self._taken(until - time.monotonic())
            if not is_quiet:
                self._interrupt()
                is_left = await self._taken(_LEAVING_S)
        finally:  # also if the caller is cancelled: there is no second close
            self._drop(torn=not is_quiet)
            if is_quiet or is_left:
                self._turn.leave()

    def forget(self) -> None:
        """After a fork, in the child: neither use nor close the connection, because it belongs to the parent."""
        self._turn = Turn()
        self._closed = True
        self._inherited, self.sender, self._opening = self.sender, None, None

    async def _taken(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._turn.take()
        except TimeoutError:
            return False
        return True

    def _interrupt(self) -> None:
        """End the operation under way."""
        self._abort()
        if self._attempting is not None:
            self._attempting.expire()
        elif self._sending is not None and not self._cancellations:
            self._cancel(self._sending, self._until)

    def _abort(self) -> None:
        for sender in (self.sender, self._opening):
            if sender is not None:
                abort_transport(sender)

    async def _open(self, until: float) -> ServiceBusSender:
        if self._closed:
            raise ServiceBusError("The link has been closed.")
        sender = self._opening = self._make()
        opens = opens_until.set(until)
        handlers: list[Any] = []  # if the opening is cancelled, the SDK loses the reference to the socket
        on_each_handler(sender, handlers.append)
        try:
            await sender.__aenter__()
        except BaseException:
            for handler in handlers:
                _abort(handler)
            self._part(sender, torn=True)
            raise
        finally:
            self._opening = None
            opens_until.reset(opens)
        if self._closed:  # otherwise nothing would close it
            self._part(sender, torn=True)
            raise ServiceBusError("The link has been closed.")
        self.sender = sender
        self._checked_at = time.monotonic()
        return sender

    def _let_go(self, error: BaseException) -> None:
        keeps = isinstance(error, Exception) and keeps_link(error) and getattr(self.sender, "_running", False)
        if not keeps:
            self._drop(torn=True)

    def _drop(self, *, torn: bool) -> None:
        sender, self.sender = self.sender, None
        self.used_at = time.monotonic()
        if sender is not None:
            self._part(sender, torn=torn)

    def _part(self, sender: ServiceBusSender, *, torn: bool) -> None:
        if torn:
            abort_transport(sender)
        self._background.start(closed(sender), "closing")


def _sending(message: Any) -> Operation:
    return lambda sender, timeout_s: sender.send_messages(message)


async def _nothing(sender: ServiceBusSender, timeout_s: float) -> None:
    """The operation of a link that is only opened."""


async def _is_alive(sender: Any, heartbeat: bool) -> bool:
    """Whether an idle link is still open: reads what the peer has sent, and sends a heartbeat where one is due."""
    connection = getattr(getattr(sender, "_handler", None), "_connection", None)
    reader = getattr(getattr(connection, "_transport", None), "reader", None)
    if connection is None or reader is None:
        return bool(getattr(sender, "_running", False))
    try:
        if reader.at_eof() or reader.exception() is not None:
            return False
        if heartbeat or bool(getattr(reader, "_buffer", None)):
            with Deadline(_LISTENING_S, partial(abort_transport, sender)):
                await connection.listen(wait=False)
        link = getattr(sender._handler, "_link", None)
        state = link.get_state() if link is not None and hasattr(link, "get_state") else None
        return getattr(connection, "_error", None) is None and (state is None or state.value == 3)
    except Exception:
        return False
