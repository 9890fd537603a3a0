"""Operations one step at a time: the stand-ins of a world yield what they are asked for, and a test answers."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any


@dataclass
class ToPrimary:
    work: Any
    timeout_s: float


@dataclass
class ToBacklog:
    work: Any
    queue: str
    timeout_s: float


@dataclass
class Wait:
    seconds: float


@dataclass
class Pause:
    seconds: float


@dataclass
class Ask:
    question: Callable[[], Any]


@dataclass
class Receive:
    count: int
    wait_s: float


@dataclass
class Fetch:
    numbers: list[int]


@dataclass
class Peek:
    number: int


@dataclass
class Count:
    pass


@dataclass
class Send:
    path: str
    items: list[Any]


@dataclass
class Settle:
    verb: str
    items: list[Any]
    reason: str = ""
    description: str = ""


@dataclass
class Keep:
    ledger: Any


@dataclass
class Renew:
    items: list[Any]


@dataclass
class Rest:
    seconds: float


@dataclass
class Barred:
    pass


@dataclass
class Bar:
    keys: list[str]


@dataclass
class Lift:
    drained: dict[str, int]


@dataclass
class Hold:
    keys: list[str]
    seconds: float


@dataclass
class ListQueues:
    pass


@dataclass
class CreateQueue:
    path: str


@dataclass
class PauseBetween:
    seconds: float
    reason: str


def asking(step: type) -> Callable[..., Generator[Any, Any, Any]]:
    """A method that yields this step, and returns the answer."""

    def ask(_: Any, *arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        return (yield step(*arguments, **keywords))

    return ask


class Attempts:
    """A sender's attempts (``pairing.health.flows``, ``pairing.sessions.order``)."""

    to_primary, to_backlog, wait = asking(ToPrimary), asking(ToBacklog), asking(Wait)
    pause, ask = asking(Pause), asking(Ask)


class Queue:
    """A backlog queue (``pairing.drain.session_order.BarredQueue``)."""

    receive, fetch, peek, count, send = asking(Receive), asking(Fetch), asking(Peek), asking(Count), asking(Send)
    settle, keep, renew, rest = asking(Settle), asking(Keep), asking(Renew), asking(Rest)
    barred, bar, lift, hold = asking(Barred), asking(Bar), asking(Lift), asking(Hold)


class Administration:
    """A namespace's (``pairing.backlog.administration``)."""

    list_queues, create_queue, pause = asking(ListQueues), asking(CreateQueue), asking(PauseBetween)


def answered(operation: Generator[Any, Any, Any], answer: Callable[[Any], Any]) -> Any:
    """The result of an operation whose steps are answered; an exception is an answer, and is raised in it."""
    try:
        step = next(operation)
        while True:
            found = answer(step)
            step = operation.throw(found) if isinstance(found, Exception) else operation.send(found)
    except StopIteration as end:
        return end.value
