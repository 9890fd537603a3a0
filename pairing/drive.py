"""Flows: a rule is written once, as a generator that yields actions, and driven twice: blocking and in asyncio.

An action knows the type of its outcome. In a flow, ``outcome = yield from action`` has that type; in the code that
performs it, ``return action.reply(outcome)`` accepts no other::

    @dataclass(slots=True)
    class Count(Action[int]): ...


    def flow() -> Generator[Count | Pause, Reply, str]:
        count = yield from Count()  # an int
        ...


    def perform(action: Count | Pause) -> Reply:
        match action:
            case Count():
                return action.reply(42)
            case Pause():
                return action.reply(time.sleep(action.seconds))
        assert_never(action)
"""

import inspect
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NewType, ParamSpec, Self, TypeAlias, TypeVar, cast, overload

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741
R = TypeVar("R")
OutcomeT = TypeVar("OutcomeT")
P = ParamSpec("P")

Reply = NewType("Reply", object)
"""The outcome of an action on its way back into the flow that yielded it; made by ``Action.reply`` only."""


class Action(Generic[OutcomeT]):
    """Something that a flow wants done, with the type of what comes of it."""

    __slots__ = ()

    def __iter__(self) -> Generator[Self, Reply, OutcomeT]:
        """``yield from action``: have it performed; its outcome."""
        reply = yield self
        return cast(OutcomeT, reply)

    def reply(self, outcome: OutcomeT) -> Reply:
        """The outcome, as what the flow is sent."""
        return Reply(outcome)


@dataclass(slots=True)
class Call(Action[OutcomeT]):
    """Call a function; in asyncio, await what it returns where that is awaitable."""

    function: Callable[[], OutcomeT | Awaitable[OutcomeT]]


Operation: TypeAlias = Generator[Call[Any], Reply, R]
"""A flow whose only actions are calls: what a client does, written once for both worlds."""


@overload
def call(
    function: Callable[P, Awaitable[OutcomeT]], *arguments: P.args, **keywords: P.kwargs
) -> Operation[OutcomeT]: ...


@overload
def call(
    function: Callable[P, OutcomeT | Awaitable[OutcomeT]], *arguments: P.args, **keywords: P.kwargs
) -> Operation[OutcomeT]: ...


def call(function: Callable[P, Any], *arguments: P.args, **keywords: P.kwargs) -> Operation[Any]:
    """``yield from call(f, x)``: f(x), awaited in asyncio."""
    return Call[Any](partial(function, *arguments, **keywords)).__iter__()


def drive(flow: Generator[A, O, R], perform: Callable[[A], O]) -> R:
    """What the flow returns, each of its actions performed on the caller's thread; errors are raised in the flow."""
    try:
        action = next(flow)
        while True:
            try:
                outcome = perform(action)
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


async def drive_async(flow: Generator[A, O, R], perform: Callable[[A], Awaitable[O]]) -> R:
    """What the flow returns, each of its actions awaited; errors, cancellation too, are raised in the flow."""
    try:
        action = next(flow)
        while True:
            try:
                outcome = await perform(action)
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def nested(flow: Generator[A, O, R], perform: Callable[[A], Operation[O]]) -> Operation[R]:
    """A flow as part of an operation: each of its actions is performed by an operation."""
    try:
        action = next(flow)
        while True:
            try:
                outcome = yield from perform(action)
            except GeneratorExit:
                raise
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result
    finally:
        flow.close()


def run(operation: Operation[R]) -> R:
    """What the operation returns, its calls made on the caller's thread."""
    return drive(operation, _made)


async def run_async(operation: Operation[R]) -> R:
    """What the operation returns, its calls awaited where they are awaitable."""
    return await drive_async(operation, _awaited)


def _made(action: Call[Any]) -> Reply:
    return action.reply(action.function())


async def _awaited(action: Call[Any]) -> Reply:
    outcome = action.function()
    return action.reply(await outcome if inspect.isawaitable(outcome) else outcome)
