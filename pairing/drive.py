"""The two drivers of a flow: the same rule, blocking and awaited."""

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741
R = TypeVar("R")


def drive(flow: Generator[A, O, R], perform: Callable[[A], O]) -> R:
    """What the flow returns, each of its actions performed on the caller's thread."""
    try:
        action = next(flow)
        while True:
            action = flow.send(perform(action))
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


async def drive_async(flow: Generator[A, O, R], perform: Callable[[A], Awaitable[O]]) -> R:
    """What the flow returns, each of its actions awaited; cancellation passes through and is no fault."""
    try:
        action = next(flow)
        while True:
            action = flow.send(await perform(action))
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()
