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

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Generic, NewType, ParamSpec, Self, TypeAlias, TypeVar, cast, overload

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741
R = TypeVar("R")
OutcomeT = TypeVar("OutcomeT")
P = ParamSpec("P")

Eventually: TypeAlias = OutcomeT | Awaitable[OutcomeT]
"""The result of a call: the outcome with threads, an awaitable of it in asyncio."""

Reply = NewType("Reply", object)
"""The outcome of an action, returned to the flow that yielded it; created by ``Action.reply`` only."""


class Action(Generic[OutcomeT]):
    """An operation requested by a flow, with the type of its outcome."""

    __slots__ = ()

    def __iter__(self) -> Generator[Self, Reply, OutcomeT]:
        """``yield from action``: have it performed, and get its outcome."""
        reply = yield self
        return cast(OutcomeT, reply)

    def reply(self, outcome: OutcomeT) -> Reply:
        """Wrap the outcome for the flow."""
        return Reply(outcome)


Operation: TypeAlias = Generator[Callable[[], Any], Any, R]
"""An operation of a client, for threads and asyncio: it yields calls and receives their outcomes, by ``call`` only."""


@overload
def call(
    function: Callable[P, Awaitable[OutcomeT]], *arguments: P.args, **keywords: P.kwargs
) -> Operation[OutcomeT]: ...


@overload
def call(
    function: Callable[P, Eventually[OutcomeT]], *arguments: P.args, **keywords: P.kwargs
) -> Operation[OutcomeT]: ...


def call(function: Callable[P, Any], *arguments: P.args, **keywords: P.kwargs) -> Operation[Any]:
    """``yield from call(f, x)``: f(x), awaited in asyncio."""
    return (yield partial(function, *arguments, **keywords))


def drive(flow: Generator[A, O, R], perform: Callable[[A], O]) -> R:
    """Run a flow and return its result; actions are performed on the caller's thread, errors are raised in the flow."""
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
    """Run a flow and return its result; actions are awaited, errors and cancellations are raised in the flow."""
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
    """Run a flow within an operation: each of its actions is performed by an operation."""
    try:
        action = next(flow)
        while True:
            try:
                outcome = yield from perform(action)
            except GeneratorExit:
                flow.close()
                raise
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result


def run(operation: Operation[R]) -> R:
    """Run an operation and return its result; its calls are made on the caller's thread."""
    try:
        function = next(operation)
        while True:
            try:
                outcome = function()
            except BaseException as error:
                function = operation.throw(error)
            else:
                function = operation.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result


async def run_async(operation: Operation[R]) -> R:
    """Run an operation and return its result; awaitable results of its calls are awaited."""
    try:
        function = next(operation)
        while True:
            try:
                outcome = function()
                if hasattr(outcome, "__await__"):
                    outcome = await outcome
            except BaseException as error:
                function = operation.throw(error)
            else:
                function = operation.send(outcome)
    except StopIteration as end:
        result: R = end.value
        return result
