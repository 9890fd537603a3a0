"""How an operation is attempted on a link of a syphon, blocking or in asyncio."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from pairing.drain.host import SyphonLink, World
from pairing.drive import Operation, call
from pairing.links import LinkFailure

R = TypeVar("R")


def attempt(
    world: World, link: SyphonLink, operation: Callable[[Any, float], Operation[R]], timeout_s: float
) -> Operation[tuple[list[R], LinkFailure | None]]:
    """What the operation returned on the link, in a list, and why it failed, where it did."""
    answers: list[R] = []

    def answered(sdk: Any, left_s: float) -> Operation[None]:
        answers.append((yield from operation(sdk, left_s)))

    def on_link(sdk: Any, left_s: float) -> Any:
        return world.run(answered(sdk, left_s))

    failure = yield from call(cast("Callable[..., LinkFailure | None]", link.attempt), on_link, timeout_s)
    return answers, failure
