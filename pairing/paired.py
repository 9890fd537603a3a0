"""The common part of all paired clients: identity, life cycle, health, events. No network."""

import os
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4
from weakref import WeakSet

from pairing.backlog.administration import Paired
from pairing.clock import Clock, SystemClock
from pairing.ends import End, Endpoint, LifeCycle, Role
from pairing.errors import Fault, PairedNamespaceFaultedError, PairingError, ServerBusyError
from pairing.events import Event
from pairing.health.faults import describe, has_expired, is_ambiguous
from pairing.health.flows import Failed
from pairing.links.failures import LinkCrowdedError
from pairing.loading import needing
from pairing.membership import Fleet
from pairing.messages.payload import STANDARD_LIMIT, Payload
from pairing.options import SendAvailabilityOptions
from pairing.pair import EntityHealth, Pair
from pairing.telemetry.callbacks import Callbacks
from pairing.telemetry.metering import UsageMeter
from pairing.telemetry.trace_context import is_wanted

if TYPE_CHECKING:
    from pairing.fleet.coordination import RedisCoordination
    from pairing.telemetry.tracing import Tracing

ClientState = Literal["created", "opened", "closing", "closed", "faulted"]
CLOSE_S = 5.0
"""The time limit of closing a client or a sender."""

_clients: "WeakSet[PairedClient]" = WeakSet()
"""The clients of this process, which a fork copies without their threads."""


class PairedClient:
    """The part of a paired client that never waits."""

    primary: Any
    secondary: Any

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        if not isinstance(options, SendAvailabilityOptions | None):
            raise TypeError(f"options must be SendAvailabilityOptions or None, not {type(options).__name__}")
        self.options = options or SendAvailabilityOptions()
        self.clock: Clock = clock or SystemClock()
        if primary.address == secondary.address:
            raise ValueError(
                f"primary and secondary are the same namespace, {primary.host}: an outage would take both; "
                "give the connection string of a second namespace as the secondary"
            )
        name = self.options.primary_namespace or primary.label
        if name is None:
            raise ValueError(
                f"primary_namespace must name the namespace: its host {primary.host} does not contain it; "
                "give options=SendAvailabilityOptions(primary_namespace=…)"
            )
        self.process = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        """The identity of this client in events and usage records."""
        self.pair = self.options.pair or name
        """Name of the pair."""
        self.pair_state = Pair(self.options, self.pair, self.process, self.clock)
        self._callbacks = Callbacks()
        self.pair_state.on_event = self._callbacks.report
        self.meter = UsageMeter(self.pair, self.process, self.clock)
        self.primary = self._end(primary, name)
        self.secondary = self._end(secondary, self.options.secondary_namespace or secondary.label or secondary.host)
        self.deviating_backlog_queues: dict[str, dict[str, tuple[Any, Any]]] = {}
        """Path → property → (expected, actual) of backlog queues with deviating properties."""
        self._backlog_limit = STANDARD_LIMIT
        """The size limit of a message in the backlog, in bytes, if known."""
        self._backlog_batch_limit = STANDARD_LIMIT
        """The size limit of a batch in bytes."""
        self._refusal: Exception | None = PairingError("the paired client is not open")
        """The error that every call raises now; None while the client is open."""
        self._fleet = Fleet(self.pair_state, self.options.coordination)
        self.tracing = _tracing(self.options.tracing, primary.host, secondary.host)
        self._state: ClientState = "created"
        self._life = LifeCycle()
        _clients.add(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> End:
        raise NotImplementedError

    # Life ----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """``created``, ``opened``, ``closing``, ``closed`` or ``faulted``."""
        return self._state

    def _opened(self) -> None:
        self._state = self.primary.state = self.secondary.state = "opened"
        self._refusal = None

    def _begin_closing(self) -> bool:
        """Whether there is anything to close."""
        if self._state in ("closing", "closed"):
            return False
        if self._state != "faulted":
            self._refusal = PairingError("the paired client is closed")
        self._state = "closing"
        return True

    def _end_is_down(self, end: End) -> None:
        self._life.down(end.role, self.clock.now(), end.error)
        if self._state == "opened" and end.role == "primary":
            self._refusal = PairingError(f"the primary end is {end.state}")

    def _tick(self) -> None:
        """Called four times a second: apply what is due."""
        self.pair_state.tick()
        self.meter.fold()
        if self._state != "opened" or not self._life.down_at:
            return
        overdue = self._life.overdue(self.clock.now())
        if overdue is not None:
            self._fault(*overdue)
        elif len(self._life.down_at) == 2:
            self._both_ends_are_down()

    def _fault(self, role: Role, error: PairedNamespaceFaultedError) -> None:
        self._state, self._refusal = "faulted", error
        (self.primary if role == "primary" else self.secondary).fault(error)
        self._stop_working()

    def _both_ends_are_down(self) -> None:
        cause = next(iter(self._life.errors.values()), None)
        if cause is None:
            self._state, self._refusal = "closed", PairingError("both ends of the pair were closed")
        else:
            error = PairedNamespaceFaultedError("both ends of the pair are down")
            error.__cause__ = cause
            self._state, self._refusal = "faulted", error
        self._stop_working()

    def _stop_working(self) -> None:
        """Stop pings and the syphon, because both ends are down."""
        raise NotImplementedError

    def _forked(self) -> None:
        """This is a copy of a client in a child process: it has no threads, and the parent owns its connections."""
        if self._state == "created":
            return
        self._state = "closed"
        self._refusal = PairedNamespaceFaultedError(
            "the paired client was opened before this process was forked: create one in each process after the fork"
        )
        self.pair_state.condition = threading.Condition()  # a thread of the parent may have held the old one

    def _check_open(self) -> None:
        """Raise the error of an unusable client, if any."""
        if self._refusal is not None:
            raise self._refusal

    def _check_name(self, what: str, name: str) -> None:
        """Raise if no sender can be created: the name is invalid, or the client is unusable, and not just unopened."""
        check_entity(what, name)
        if self._state in ("faulted", "closing", "closed"):
            self._check_open()

    # Pairing -------------------------------------------------------------------------------------------------------

    @property
    def backlog_queue_count(self) -> int:
        """The number of configured backlog queues that were found or created."""
        return self.pair_state.rotation.present

    @property
    def backlog_paths(self) -> tuple[str, ...]:
        """The backlog queues in use, by index."""
        return self.pair_state.rotation.paths

    def _count_administration(self, calls: int = 1) -> None:
        self.meter.count("manage", self.secondary.namespace, "*", operations=calls, billing_units=calls)

    def _paired(self, paired: Paired) -> None:
        self.deviating_backlog_queues = paired.deviating
        with self.pair_state.condition:
            self.pair_state.rotation.replace(paired.paths)
        for path, error in paired.missing.items():
            self.pair_state.emit("queue_pulled", path, f"missing, and could not be created: {describe(error)}")

    def _found_again(self, paired: Paired) -> None:
        """Deleted queues were created again, by this process or another one."""
        self.deviating_backlog_queues = paired.deviating
        with self.pair_state.condition:
            returned = self.pair_state.rotation.found(paired.paths, self.clock.now())
        self.pair_state.report(returned)

    # Sending -------------------------------------------------------------------------------------------------------

    def _primary_failed(self, error: Exception, path: str, *, reused: bool) -> Failed:
        """A failure of the primary as the flows see it; that of a busy server is a ServerBusyError.

        The SDK's text for refused credentials does not say what to do, so a note is added to the error.
        """
        return self._failed(error, lambda error: self._classified(error, path), reused)

    def _backlog_failed(self, error: Exception, *, reused: bool) -> Failed:
        """A failure of a backlog queue as the flows see it."""
        return self._failed(error, self.pair_state.classify_backlog, reused)

    def _classified(self, error: Exception, path: str) -> Fault:
        fault = self.pair_state.classify(error, path)
        if fault is Fault.CONFIGURATION and not getattr(error, "__notes__", None):
            error.add_note(
                f"{path} in namespace {self.primary.namespace}: {describe(error)}. "
                "Check the connection string or the credential's rights, and the entity's name."
            )
        return fault

    def _failed(self, error: Exception, classify: Callable[[Exception], Fault], reused: bool) -> Failed:
        if isinstance(error, LinkCrowdedError):
            return Failed(Fault.CALLER, error, is_crowded=True)
        if reused and has_expired(error):
            return Failed(Fault.OUTAGE, error, repeatable=True)
        self.pair_state.note_shortage(error)
        fault, is_hidden = classify(error), is_ambiguous(error)
        if fault is Fault.BUSY:
            cause, error = error, ServerBusyError(message=str(error))
            error.__cause__ = cause
        return Failed(fault, error, reused and is_hidden, is_hidden)

    def _count_send(self, kind: str, namespace: str, work: Payload, *, accepted: bool) -> None:
        """Meter one send; one to a backlog queue is billed to the secondary, and recorded for its destination."""
        if accepted:
            self.meter.count(
                kind, namespace, work.path, messages=len(work.messages), bytes=work.size, billing_units=work.units
            )
        else:
            self.meter.count(kind, namespace, work.path)

    def _report_usage(self) -> None:
        """Pass what was metered to the fleet; when closing also at once, because links may take all the time."""
        if self.coordination is not None:
            self._fleet.record(self.meter.drain(self.clock.now(), everything=True))

    def _learn_limit(self, sender: Any) -> None:
        """Learn the message size limit of the backlog from an open link."""
        self._backlog_limit = int(getattr(sender, "_max_message_size_on_link", 0)) or self._backlog_limit
        self._backlog_batch_limit = int(getattr(sender, "_max_batch_size_on_link", 0)) or self._backlog_batch_limit

    # Health --------------------------------------------------------------------------------------------------------

    def entity_health(self, path: str) -> EntityHealth:
        """The health of an entity, as seen by this process."""
        self._check_path(path)
        return self.pair_state.health(path)

    def health(self) -> list[EntityHealth]:
        """The health of every entity that this process has used or learned of."""
        self._check_faulted()
        return [self.pair_state.health(entity.path) for entity in self.pair_state.entities()]

    def fail_over(
        self,
        path: str,
        reason: str,
        hold: bool = True,
        expires: timedelta | datetime | None = None,
        *,
        operator: str | None = None,
    ) -> None:
        """Send messages for the entity to the backlog; with ``hold``, until it is released, marked healthy or expired.

        ValueError for ``expires`` without ``hold``, because only a hold can expire, or not in the future.
        """
        self._check_path(path)
        if not isinstance(reason, str):
            raise TypeError(f"reason must be text, not {type(reason).__name__}")
        self.pair_state.fail_over(path, reason, hold, expires, operator or self.process)

    def hold(self, path: str, *, operator: str | None = None) -> None:
        """Keep a failed-over entity from recovering automatically."""
        self._check_path(path)
        self.pair_state.hold(path, operator or self.process)

    def release(self, path: str, *, operator: str | None = None) -> None:
        """End a hold: the entity stays failed over and is pinged immediately."""
        self._check_path(path)
        self.pair_state.release(path, operator or self.process)
        self._fleet.release(path, operator or self.process)

    def mark_healthy(self, path: str, *, operator: str | None = None) -> None:
        """End hold and failover together."""
        self._check_path(path)
        self.pair_state.mark_healthy(path, operator or self.process)

    def _check_new(self) -> None:
        """Raise unless the client can be opened."""
        self._check_faulted()
        if self._state != "created":
            raise PairingError(f"the paired client is {self._state}: create a new one")

    def _check_path(self, path: str) -> None:
        self._check_faulted()
        check_entity("path", path)

    def _check_faulted(self) -> None:
        if isinstance(self._refusal, PairedNamespaceFaultedError):
            raise self._refusal

    # Events --------------------------------------------------------------------------------------------------------

    @property
    def coordination(self) -> "RedisCoordination | None":
        """The shared state with the fleet; None without coordination."""
        return self._fleet.coordination

    def on_event(self, callback: Callable[[Event], None]) -> Callable[[], object]:
        """Call back with each event, on a thread of its own, until the returned function is called.

        Exceptions of the callback are logged only. TypeError for a coroutine function, because nothing would await it.
        """
        self._check_faulted()
        if not callable(callback) or iscoroutinefunction(callback):
            raise TypeError(f"callback must be a function that is called, and not awaited, not {callback!r}")
        return self._callbacks.add(callback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pair}: {self._state}>"


def check_entity(what: str, name: str) -> None:
    """Raise a ValueError for what cannot be the name of an entity."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{what} must be the name of an entity, not {name!r}")


def _tracing(option: bool | None, primary_host: str, secondary_host: str) -> "Tracing | None":
    """The reporter to OpenTelemetry; ImportError if the option requires it and it is not installed."""
    if not is_wanted(option):
        return None
    try:
        with needing("tracing", "tracing=True"):
            from pairing.telemetry.tracing import Tracing  # only if needed: it is slow to import
    except ImportError:
        if option:
            raise
        return None
    return Tracing(primary_host, secondary_host)


def _after_fork() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
