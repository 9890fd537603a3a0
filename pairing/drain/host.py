"""The environment of a syphon: the client whose backlog it drains, and its runtime."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pairing.drive import Operation, Runtime, call
from pairing.links.failures import AnyLink, LinkFailure

if TYPE_CHECKING:
    from pairing.clock import Clock
    from pairing.fleet.coordination import RedisCoordination
    from pairing.options import SendAvailabilityOptions
    from pairing.pair import Pair
    from pairing.telemetry.metering import UsageMeter
    from pairing.telemetry.tracing import Tracing

R = TypeVar("R")
ASK_S = 5.0
"""The timeout of a request to the administration."""


class SyphonHost(Protocol):
    """A paired client, blocking or asyncio."""

    options: "SendAvailabilityOptions"
    meter: "UsageMeter"
    tracing: "Tracing | None"
    clock: "Clock"
    pair: str
    pair_state: "Pair"
    process: str
    primary: Any
    secondary: Any

    @property
    def state(self) -> str: ...

    @property
    def coordination(self) -> "RedisCoordination | None": ...

    @property
    def backlog_paths(self) -> tuple[str, ...]: ...

    def sdk_sender(self, role: Literal["primary", "secondary"], name: str) -> Any: ...


class StopEvent(Protocol):
    """``threading.Event`` or ``asyncio.Event``."""

    def is_set(self) -> bool: ...


class World(Runtime, Protocol):
    """The runtime of a syphon."""

    def ask(self, look: Callable[..., Any], path: str) -> Any: ...

    def link(self, make: Callable[[], Any]) -> AnyLink: ...

    def close_links(self, links: Iterable[AnyLink]) -> object: ...


def attempt(
    world: World, link: AnyLink, operation: Callable[[Any, float], Operation[R]], timeout_s: float
) -> Operation[tuple[list[R], LinkFailure | None]]:
    """What the operation returned on the link, in a list, and why it failed, where it did."""
    answers: list[R] = []

    def answered(sdk: Any, left_s: float) -> Operation[None]:
        answers.append((yield from operation(sdk, left_s)))

    def on_link(sdk: Any, left_s: float) -> Any:
        return world.run(answered(sdk, left_s))

    failure = yield from call(link.attempt, on_link, timeout_s)
    return answers, failure
