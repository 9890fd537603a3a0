"""The environment of a syphon: the client whose backlog it drains, and its execution by threads or asyncio."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pairing.drain.actions import Settle, Settled
from pairing.drive import Operation
from pairing.links import LinkFailure

if TYPE_CHECKING:
    from pairing.clock import Clock
    from pairing.fleet.coordination import Coordination
    from pairing.health.availability import PathAvailability
    from pairing.options import SendAvailabilityOptions
    from pairing.telemetry.metering import UsageMeter
    from pairing.telemetry.tracing import Tracing

R = TypeVar("R")
ASK_S = 5.0
"""The timeout of a request to the administration."""


class Namespace(Protocol):
    """One end of a pair, with the SDK's clients for it."""

    @property
    def namespace(self) -> str: ...

    @property
    def sdk(self) -> Any: ...

    @property
    def administration(self) -> Any: ...


class SyphonHost(Protocol):
    """A paired client, blocking or asyncio."""

    options: "SendAvailabilityOptions"
    meter: "UsageMeter"
    tracing: "Tracing | None"
    clock: "Clock"
    pair: str
    process: str

    @property
    def primary(self) -> Namespace: ...

    @property
    def secondary(self) -> Namespace: ...

    @property
    def state(self) -> str: ...

    @property
    def coordination(self) -> "Coordination | None": ...

    @property
    def backlog_paths(self) -> tuple[str, ...]: ...

    def availability(self, path: str) -> "PathAvailability": ...

    def emit(self, kind: str, entity: str, reason: str) -> object: ...

    def backlog_refused(self, path: str, error: Exception, began: float) -> None: ...

    def sdk_sender(self, role: Literal["primary", "secondary"], name: str) -> Any: ...


class SyphonLink(Protocol):
    """A link to a queue or an entity, of ``pairing.links`` or ``pairing.aio.links``."""

    @property
    def sender(self) -> Any: ...

    def attempt(
        self, operation: Callable[[Any, float], Any], timeout_s: float
    ) -> LinkFailure | Awaitable[LinkFailure | None] | None: ...

    def close(self, timeout_s: float) -> object: ...


class StopEvent(Protocol):
    """``threading.Event`` or ``asyncio.Event``."""

    def is_set(self) -> bool: ...


class World(Protocol):
    """The differences between threads and asyncio; a method may return an awaitable in asyncio."""

    def run(self, operation: Operation[R]) -> R | Awaitable[R]:
        """Run an operation and return its result."""
        ...

    def block(self, function: Callable[[], R]) -> R | Awaitable[R]:
        """Call a function that may block on Redis."""
        ...

    def ask(self, look: Callable[..., Any], path: str) -> Any:
        """Call a method of the administration, with a timeout."""
        ...

    def rest(self, stop: Any, seconds: float) -> object:
        """Wait, unless ``stop`` is set."""
        ...

    def link(self, make: Callable[[], Any]) -> SyphonLink:
        """A link that opens the result of ``make``."""
        ...

    def close_links(self, links: Iterable[SyphonLink]) -> object:
        """Close links without operations in progress."""
        ...

    def settle(self, receiver: Any, action: Settle, outcomes: list[Settled], timeout_s: float) -> object:
        """Settle the messages, overlapped; each outcome is recorded as it becomes known."""
        ...

    def spawn(self, operation: Operation[None], name: str) -> Any:
        """Run an operation concurrently; returns a worker for ``is_busy``, ``wait`` and ``cancel``."""
        ...

    def is_busy(self, worker: Any) -> bool:
        """Whether it is still running."""
        ...

    def wait(self, workers: list[Any], seconds: float) -> object:
        """Wait until they have ended, or for this time."""
        ...

    def cancel(self, workers: list[Any]) -> object:
        """Cancel those that can be cancelled from outside."""
        ...
