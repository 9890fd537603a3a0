"""Operations one step at a time: the stand-ins of a world yield what they are asked for, and a test answers."""

from collections import namedtuple
from collections.abc import Callable, Generator
from typing import Any

ToPrimary = namedtuple("ToPrimary", "work timeout_s")
ToBacklog = namedtuple("ToBacklog", "work queue timeout_s")
Wait = namedtuple("Wait", "seconds")
Pause = namedtuple("Pause", "seconds")
Ask = namedtuple("Ask", "question")
Receive = namedtuple("Receive", "count wait_s")
Fetch = namedtuple("Fetch", "numbers")
Peek = namedtuple("Peek", "number")
Count = namedtuple("Count", "")
Send = namedtuple("Send", "path items")
Answers = namedtuple("Answers", "wait_s")
Settle = namedtuple("Settle", "verb items reason description", defaults=("", ""))
Keep = namedtuple("Keep", "ledger")
Renew = namedtuple("Renew", "items")
Rest = namedtuple("Rest", "seconds")
Barred = namedtuple("Barred", "")
Bar = namedtuple("Bar", "keys")
Lift = namedtuple("Lift", "drained")
Hold = namedtuple("Hold", "keys seconds")
ListQueues = namedtuple("ListQueues", "")
CreateQueue = namedtuple("CreateQueue", "path")
PauseBetween = namedtuple("PauseBetween", "seconds reason")


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
    answers, settle, keep, renew, rest = asking(Answers), asking(Settle), asking(Keep), asking(Renew), asking(Rest)
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
