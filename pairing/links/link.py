"""AMQP links of the blocking SDK that never hang: opening has a deadline, and sends are watched.

The SDK can wait without a limit (docs/wire.md, section 9). So opening runs on a daemon thread, and a send on
an open link runs on the caller's thread, while one watchdog per client shuts down the socket of an overdue send.
"""

import atexit
import contextlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any
from weakref import WeakSet

from azure.servicebus import ServiceBusSender
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from pairing.clock import joined, left_until, start
from pairing.links.credentials import opens_until
from pairing.links.failures import LinkCrowdedError, LinkFailure, keeps_link, raise_interruption
from pairing.links.sockets import break_transport, close_socket_with, is_alive, on_each_handler, token_is_aging

_TICK_S = 0.25
_AHEAD_S = 0.3
"""How long before a deadline the watchdog ends an operation, because it checks periodically."""
_SHORT_S = 2.0
_LINGER_S = 0.05
HEARTBEAT_S = 50.0
RETRY_WARM_S = 15.0

_LOGGER = logging.getLogger("pairing")

Operation = Callable[[ServiceBusSender, float], object]
_get_ident, _monotonic = threading.get_ident, time.monotonic  # steps that each send is spared


@atexit.register
def _guard_sends_without_watchdog() -> None:
    """While the interpreter ends, its threads stand still."""
    global _SHORT_S
    _SHORT_S = inf


class Opening(threading.Thread):
    """The opening of one link; if it takes too long it is abandoned, and later closes what it opened."""

    def __init__(self, make: Callable[[], ServiceBusSender], until: float) -> None:
        super().__init__(name="pairing-opening", daemon=True)
        self._make, self._until = make, until
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._abandoned = False
        self.sender: ServiceBusSender | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Open; never raises."""
        opens_until.set(self._until)
        try:
            self.sender = self._make()
            on_each_handler(self.sender, close_socket_with)
            self.sender.__enter__()
        except Exception as error:
            self.error = error
        with self._lock:
            self._done.set()
            orphaned = self._abandoned or self.error is not None
        if orphaned and self.sender is not None:
            with contextlib.suppress(Exception):
                self.sender.close()

    def result(self) -> ServiceBusSender:
        """The open sender. Raises OperationTimeoutError if it is not open in time, or the SDK's own error."""
        if not self._done.wait(left_until(self._until)):
            raise OperationTimeoutError(message="The link did not open within the timeout of this send.")
        if self.error is not None:
            raise self.error
        assert self.sender is not None
        return self.sender

    def give_up(self) -> ServiceBusSender | None:
        """Have the link closed once it is open; the sender, where it is open by now and the caller must close it."""
        with self._lock:
            self._abandoned = True
            return self.sender if self._done.is_set() and self.error is None else None

    def nudge(self) -> None:
        """Interrupt an abandoned opening that still waits for its peer."""
        if self.sender is not None:
            break_transport(self.sender)


class Watchdog(threading.Thread):
    """One per client: ends overdue sends and openings, closes dropped senders, and calls ``on_tick``."""

    def __init__(self, on_tick: Callable[[], None]) -> None:
        super().__init__(name="pairing-watchdog", daemon=True)
        self._on_tick = on_tick
        self._stop_event = threading.Event()
        self._links: WeakSet[Link] = WeakSet()
        self._links_lock = threading.RLock()
        self._overdue: list[Opening] = []
        self._dropped: queue.SimpleQueue[ServiceBusSender | None] = queue.SimpleQueue()
        self._reaper = threading.Thread(target=self._reap, name="pairing-reaper", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        super().start()
        self._reaper.start()

    def stop(self, timeout_s: float) -> None:
        """End watching; all its threads are gone afterwards, unless the time limit is reached."""
        self._stop_event.set()
        self._dropped.put(None)
        until = time.monotonic() + timeout_s
        for thread in (self, self._reaper):
            joined(thread, until - time.monotonic())

    def watch(self, link: "Link") -> None:
        """Watch this link while it exists."""
        with self._links_lock:
            self._links.add(link)

    def links(self) -> list["Link"]:
        """The links being watched."""
        with self._links_lock:
            return list(self._links)

    def forget_links(self) -> None:
        """After a fork, in the child: leave the links alone, because they belong to the parent process."""
        self._links_lock = threading.RLock()
        for link in self.links():
            link.forget()

    def abandon(self, opening: Opening) -> None:
        """Interrupt an opening until it has ended."""
        opening.nudge()
        with self._links_lock:
            self._overdue.append(opening)

    def drop(self, sender: ServiceBusSender, *, torn: bool) -> None:
        """Close a sender on another thread; a broken one is not written to."""
        if torn:
            break_transport(sender)
        self._dropped.put(sender)

    def run(self) -> None:
        """Check every link four times a second."""
        while not self._stop_event.wait(_TICK_S):
            for check in (self._look, self._on_tick):
                try:
                    check()
                except Exception:  # sends depend on this thread, so it must not end
                    _LOGGER.exception("the watchdog failed; it continues")
        self._look()

    def _look(self) -> None:
        now = time.monotonic()
        for link in self.links():
            link.interrupt_if_overdue(now)
        with self._links_lock:
            self._overdue = [opening for opening in self._overdue if opening.is_alive()]
            overdue = list(self._overdue)
        for opening in overdue:
            opening.nudge()

    def _reap(self) -> None:
        while (dropped := self._dropped.get()) is not None:
            self._stop_event.wait(_LINGER_S)  # the thread that dropped it should first send its message elsewhere
            with contextlib.suppress(Exception):
                dropped.close()


class Link:
    """A link to one entity, opened by the first operation and again after a failure; safe to share by threads.

    KeyboardInterrupt, or any exception that is no ``Exception``, leaves half a frame behind, or an answer that nobody
    reads: the link is dropped, and the next operation opens another. Such an exception may come after each call.
    ``taken += map(acquire, …)`` is one step of the interpreter, so there is no moment at which the lock is held and not
    noted; and no call comes before its release.
    """

    def __init__(
        self, make: Callable[[], ServiceBusSender], watchdog: Watchdog, *, warm: bool = False, idle_s: float = inf
    ) -> None:
        self._make = make
        self._watchdog = watchdog
        self._warm, self._idle_s = warm, idle_s
        self._lock = threading.Lock()
        self._sender: ServiceBusSender | None = None
        self._opening: Opening | None = None
        self._until = 0.0
        self._thread = 0
        """The thread with the operation under way; 0 without one."""
        self._interrupted = False
        self._closed = False
        self._inherited: ServiceBusSender | None = None
        self.used_at = self._checked_at = time.monotonic()
        watchdog.watch(self)

    @property
    def sender(self) -> ServiceBusSender | None:
        """The SDK's sender while the link is open."""
        return self._sender

    @property
    def is_in_use(self) -> bool:
        """Whether an operation is under way."""
        return self._lock.locked()

    def attempt(self, operation: Operation, timeout_s: float) -> LinkFailure | None:
        """Perform one operation within the timeout, opening the link first if needed; None if it succeeded.

        Waiting for the turn takes at most half of the timeout: less than the rest would not suffice for an operation.
        """
        until = _monotonic() + timeout_s
        taken: list[bool] = []
        is_over = False
        try:
            taken += map(self._lock.acquire, (True,), (max(timeout_s / 2, 0),))
            if not taken[0]:
                return LinkFailure(LinkCrowdedError(), False)
            failure = self._perform(operation, until, timeout_s)
            is_over = True
            return failure
        finally:
            if True in taken:
                try:
                    if not is_over:  # by KeyboardInterrupt, say
                        self._drop(torn=True)
                finally:
                    self._until, self._thread = 0.0, 0
                    self._lock.release()

    def _perform(self, operation: Operation, until: float, timeout_s: float) -> LinkFailure | None:
        self._thread = _get_ident()
        sender = self._sender
        reused = sender is not None
        handled = sys.exc_info()[1]
        try:
            if sender is None:
                sender = self._open(until)
            left = until - _monotonic()
            if left <= 0:
                return LinkFailure(OperationTimeoutError(message="No time was left when the link was open."), False)
            self._until = until - min(_AHEAD_S, left * 0.15)
            operation(sender, left - min(0.5, left * 0.25))
        except Exception as error:
            raise_interruption(error, handled)
            return LinkFailure(self._failed(error, timeout_s), reused)
        return None

    def send(self, message: Any, timeout_s: float) -> LinkFailure | None:
        """Send on the link within the timeout, opening it first if needed; None if it succeeded."""
        return self.attempt(_sending(message), timeout_s)

    def warm(self, timeout_s: float) -> LinkFailure | None:
        """Open the link ahead of its use."""
        return None if self._sender is not None else self.attempt(_nothing, timeout_s)

    def interrupt_if_overdue(self, now: float) -> None:
        """Called by the watchdog: end an operation that has exceeded its deadline."""
        sender = self._sender
        if 0.0 < self._until < now and sender is not None:
            self._interrupted = True
            break_transport(sender)

    def maintain(self, now: float) -> bool:
        """Keep an idle link alive, and detect that the peer has closed it; whether it should be warmed."""
        ages = self._sender is not None and token_is_aging(self._sender)
        if not self._lock.acquire(timeout=_TICK_S if ages else 0):
            return False
        try:
            if self._sender is not None and not is_alive(self._sender, now - self._checked_at >= HEARTBEAT_S):
                self._drop(torn=True)
            if self._sender is not None and now - self._checked_at >= HEARTBEAT_S:
                self._checked_at = now
            if now - self.used_at >= self._idle_s:
                self._drop(torn=False)
            if self._sender is not None and token_is_aging(self._sender):
                self._drop(torn=False)
                return True
            if self._sender is None and self._warm and not self._closed and now - self.used_at >= RETRY_WARM_S:
                self.used_at = now
                return True
            return False
        finally:
            self._lock.release()

    def close(self, timeout_s: float) -> None:
        """Close the link, waiting at most this long for an operation in progress and the end of its thread.

        Not for an operation of this thread, which a signal handler has interrupted: it goes on only after the close.
        """
        if self._thread == _get_ident():
            timeout_s = 0.0
        until = time.monotonic() + timeout_s
        self._closed = True
        opening = self._opening
        if opening is not None:
            opening.nudge()
        taken: list[bool] = []
        try:
            taken += map(self._lock.acquire, (True,), (max(timeout_s, 0),))
        finally:
            try:
                self._drop(torn=True not in taken)
            finally:
                if True in taken:
                    self._lock.release()
        if opening is not None:
            joined(opening, until - time.monotonic())

    def forget(self) -> None:
        """After a fork, in the child: neither use nor close the connection, because it belongs to the parent."""
        self._lock = threading.Lock()
        self._closed = True
        self._inherited, self._sender, self._opening = self._sender, None, None

    def _open(self, until: float) -> ServiceBusSender:
        if self._closed:
            raise ServiceBusError("The link has been closed.")
        opening = Opening(self._make, until)
        is_over = False
        try:
            self._opening = opening
            start(opening)
            sender = opening.result()
            is_over = True
        finally:
            self._opening = None
            if not is_over:  # in time, or at all, or the caller was interrupted
                self._leave_alone(opening)
        if self._closed:  # otherwise nothing would close it, as the link was closed meanwhile
            break_transport(sender)
            with contextlib.suppress(Exception):
                sender.close()
            raise ServiceBusError("The link has been closed.")
        self._interrupted = False
        self._sender = sender
        self._checked_at = time.monotonic()
        return sender

    def _leave_alone(self, opening: Opening) -> None:
        """The result of the opening is not used."""
        sender = opening.give_up()
        if sender is None:
            self._watchdog.abandon(opening)
        else:
            self._watchdog.drop(sender, torn=True)

    def _failed(self, error: Exception, timeout_s: float) -> Exception:
        interrupted, self._interrupted = self._interrupted, False
        if interrupted:
            overdue = OperationTimeoutError(message=f"No answer within {timeout_s:.1f} s.")
            overdue.__cause__ = error
            error = overdue
        if self._sender is not None and not (keeps_link(error) and getattr(self._sender, "_running", False)):
            self._drop(torn=True)
        return error

    def _drop(self, *, torn: bool) -> None:
        sender, self._sender = self._sender, None
        self.used_at = time.monotonic()
        if sender is not None:
            self._watchdog.drop(sender, torn=torn)


def _sending(message: Any) -> Operation:
    """A send; if the timeout is long, the watchdog alone guards it: the SDK's own costs some microseconds."""

    def send(sender: ServiceBusSender, timeout_s: float) -> None:
        if timeout_s >= _SHORT_S:
            sender.send_messages(message)
        else:
            sender.send_messages(message, timeout=timeout_s)

    return send


def _nothing(sender: ServiceBusSender, timeout_s: float) -> None:
    """The operation of a link that is only opened."""
