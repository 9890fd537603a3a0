"""The environment of a syphon: the client whose backlog it drains, and its execution by threads or asyncio."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pairing.drain.actions import Settle, Settled
from pairing.drive import Operation
from pairing.links import LinkFailure

if TYPE_CHECKING:
    from pairing.fleet.coordination import Coordination
    from pairing.health.availability import PathAvailability
    from pairing.options import SendAvailabilityOptions
    from pairing.telemetry.metering import UsageMeter
    from pairing.telemetry.tracing import Tracing

R = TypeVar("R")
ASK_S = 5.0
"""How long an answer of an administration is waited for."""


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

    def backlog_refused(self, path: str, error: Exception) -> None: ...

    def sdk_sender(self, role: Literal["primary", "secondary"], name: str) -> Any: ...


class SyphonLink(Protocol):
    """A link to a queue or an entity, as ``pairing.links`` and ``pairing.aio.links`` have it."""

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
    """What threads and asyncio do differently; where a method may return an awaitable, asyncio's does."""

    def run(self, operation: Operation[R]) -> R | Awaitable[R]:
        """What the operation returns."""
        ...

    def block(self, function: Callable[[], R]) -> R | Awaitable[R]:
        """Call a function that may wait for Redis."""
        ...

    def ask(self, look: Callable[..., Any], path: str) -> Any:
        """Call a method of the administration, which must answer soon."""
        ...

    def rest(self, stop: Any, seconds: float) -> object:
        """Wait, unless ``stop`` is set."""
        ...

    def link(self, make: Callable[[], Any]) -> SyphonLink:
        """A link that opens what ``make`` returns."""
        ...

    def close_links(self, links: Iterable[SyphonLink]) -> object:
        """Close links on which nothing is under way any more."""
        ...

    def settle(self, receiver: Any, action: Settle, outcomes: list[Settled], timeout_s: float) -> object:
        """Settle the messages, overlapped; each outcome is written down as it becomes known."""
        ...

    def spawn(self, operation: Operation[None], name: str) -> Any:
        """Run an operation beside the caller; what ``is_busy``, ``wait`` and ``cancel`` take."""
        ...

    def is_busy(self, worker: Any) -> bool:
        """Whether it has not ended yet."""
        ...

    def wait(self, workers: list[Any], seconds: float) -> object:
        """Wait until they have ended, or until the time is over."""
        ...

    def cancel(self, workers: list[Any]) -> object:
        """End those that can be ended from outside."""
        ...
