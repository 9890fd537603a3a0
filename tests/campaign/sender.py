"""An application that sends: every second one blocking, every other one on asyncio.

Each message is in the journal before it is sent, and its outcome before the next one. What was refused is repeated once
now and then, and in a session until it is accepted: the same message objects, as an application that keeps them would.
"""

import asyncio
import inspect
import os
import random
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import azure.servicebus.aio
from azure.servicebus import ServiceBusMessage

import pairing
import pairing.aio
from tests.campaign import crowd, languages, letters
from tests.campaign.application import Application, options
from tests.campaign.journal import now, read
from tests.campaign.letters import Turn

REPEATED = 0.5
"""The share of refused messages outside of sessions that the application sends again, once."""
PAUSE_S = 0.5
GATEWAYED_S, LANGUAGE_S = 60.0, 90.0
"""Two tries of the SDK for Python, four of 20 s of others, with pauses; what a gateway takes of that is `seen`."""


@dataclass(frozen=True, slots=True)
class Send:
    """What a world has to do next: one call, or a pause only."""

    turn: Turn | None
    messages: list[ServiceBusMessage]
    pause_s: float


class Result:
    """How a call ended, and how long it took of its own: without the time for which it had no processor."""

    def __init__(self, process: int | str = "self") -> None:
        self._process = process
        self._began, self._waited = time.monotonic(), _waited_s(process)
        self.error: BaseException | None = None

    def over(self, error: BaseException | None) -> "Result":
        self.took_s = time.monotonic() - self._began
        # what threads that ended had waited is gone
        self.withheld_s = max(_waited_s(self._process) - self._waited, 0.0)
        self.error = error
        return self


def _waited_s(process: int | str) -> float:
    """Seconds for which the threads of a process were ready to run and had no processor."""
    total = 0
    for account in Path("/proc").glob(f"{process}/task/*/schedstat"):
        try:
            total += int(account.read_text().split()[1])
        except (OSError, IndexError):
            continue
    return total / 1e9


def life(application: Application) -> Generator[Send, Result | None, None]:
    """All sends of one process, until it is asked to stop; goes on where the process before it was killed."""
    plan, chance = application.plan, random.Random()
    pause_s = 1 / plan.rate
    number, interrupted = _resumed(application)
    while not application.stop.is_set():
        turn = _turn(application, number)
        if turn is None:
            yield Send(None, [], PAUSE_S)
            continue
        is_left_out = turn.is_ordered or (application.language and turn.form == "schedule")
        if is_left_out and application.is_gatewayed:  # a gateway keeps no order of sessions
            number += 1
            continue
        if not interrupted or turn.is_ordered:
            yield from _sent(application, turn, chance)
        number, interrupted = number + 1, False
        is_paced = application.name != crowd.SENDER and application.language != languages.NET
        yield Send(None, [], pause_s * chance.uniform(0.5, 1.5) if is_paced else 0.0)


def _turn(application: Application, number: int) -> Turn | None:
    """The turn of this number; None if the one that sends in outages has sent to every queue."""
    plan, file = application.plan, application.folder / crowd.FILE
    if application.name != crowd.SENDER:
        turn = letters.turn(plan.seed, application.name, number, plan.batch)
        language = application.language
        return languages.turn(turn, language, _prefix(application)) if language else turn
    outages = int(file.read_text()) if file.exists() else 0
    is_due = number < outages * len(crowd.targets(plan.crowd))
    return crowd.turn(plan.seed, number, plan.crowd) if is_due else None


def _prefix(application: Application) -> str:
    """That of the ids of one process of .NET, which counts from 0."""
    return f"{application.name}-{os.getpid()}-"


def _resumed(application: Application) -> tuple[int, bool]:
    """The next turn, and whether it is one whose outcome nobody knows."""
    last, is_over = -1, True
    for record in read(application.file):
        if record["kind"] == "attempted":
            last, is_over = int(record["turn"]), False
        elif record["kind"] in ("accepted", "dropped"):
            is_over = True
    return (last + 1, False) if is_over or application.language == languages.NET else (last, True)


def _sent(application: Application, turn: Turn, chance: random.Random) -> Generator[Send, Result | None, None]:
    messages = [letter.message() for letter in turn.letters]
    bound_s = application.plan.send_timeout_s
    if application.is_gatewayed:
        bound_s = LANGUAGE_S if application.language else GATEWAYED_S
        for message, letter in zip(messages, turn.letters, strict=True):
            message.message_id = message.message_id or letter.identity
    while True:
        application.journal.write(_attempted(turn, bound_s))
        result = yield Send(turn, messages, 0.0)
        assert result is not None
        is_accepted = result.error is None
        application.journal.write(_outcome(turn, messages, result))
        if is_accepted:
            return
        is_dropped = (not turn.is_ordered and chance.random() > REPEATED) or application.language == languages.NET
        if is_dropped or application.stop.is_set():
            application.journal.write({"kind": "dropped", "at": now(), "turn": turn.number})
            return
        yield Send(None, [], PAUSE_S)


def _attempted(turn: Turn, bound_s: float) -> dict[str, Any]:
    found = [[letter.identity, letter.digest] for letter in turn.letters]
    record = {"kind": "attempted", "at": now(), "turn": turn.number, "target": turn.target, "form": turn.form}
    if turn.schedule_s:
        record["due"] = now() + turn.schedule_s
    return record | {"session": turn.letters[0].session_id, "letters": found, "bound_s": bound_s}


def _outcome(turn: Turn, messages: list[ServiceBusMessage], result: Result) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": "accepted" if result.error is None else "refused", "at": now()}
    record |= {"turn": turn.number, "took_s": round(result.took_s, 4), "withheld_s": round(result.withheld_s, 4)}
    if result.error is None:
        record["message_ids"] = [message.message_id for message in messages]
    else:
        record["error"] = f"{type(result.error).__name__}: {result.error}"[:300]
    return record


async def _opened(application: Application, is_asyncio: bool) -> tuple[Any, str]:
    """The paired client and its name, or the SDK's client of a gateway."""
    ways = application.ways
    if application.is_gatewayed:
        gateway = ways.gateways[application.number % len(ways.gateways)]
        if application.language:
            return languages.Program(application.language, gateway, _prefix(application)), ""
        sdk = azure.servicebus.aio if is_asyncio else azure.servicebus
        return sdk.ServiceBusClient.from_connection_string(gateway), ""
    library = pairing.aio if is_asyncio else pairing
    client = library.PairedServiceBusClient.from_connection_string(
        ways.primary, ways.secondary, options=options(ways, application.plan)
    )
    await _settled(client.open())
    return client, client.process


async def send(application: Application, is_asyncio: bool) -> None:
    """All sends of one process, through the blocking client or that of asyncio; nothing else runs beside them."""
    client, process = await _opened(application, is_asyncio)
    try:
        application.begins(process)
        queues = ("orders", "payments", "sessions", *crowd.names(application.plan.crowd))
        senders = {name: client.get_queue_sender(name) for name in queues}
        senders["events"] = client.get_topic_sender("events")
        steps = life(application)
        step = _next(steps, None)
        while step is not None:
            result = await _call(senders[step.turn.target], step.turn, step.messages) if step.turn else None
            await asyncio.sleep(step.pause_s)
            step = _next(steps, result)
    finally:
        await _settled(client.close())
    application.ends()


async def _settled(answer: Any) -> Any:
    """What a call returns, in both worlds."""
    return await answer if inspect.isawaitable(answer) else answer


def _next(steps: Generator[Send, Result | None, None], result: Result | None) -> Send | None:
    try:
        return steps.send(result)
    except StopIteration:
        return None


async def _call(sender: Any, turn: Turn, messages: list[ServiceBusMessage]) -> Result:
    process = getattr(sender, "pid", "self")
    watch = Result(process)
    try:
        if turn.form == "schedule":
            await _settled(sender.schedule_messages(messages, _due(turn)))
        elif turn.form == "batch":
            batch = await _settled(sender.create_message_batch())
            for message in messages:
                batch.add_message(message)
            watch = Result(process)
            await _settled(sender.send_messages(batch))
        else:
            await _settled(sender.send_messages(messages if turn.form == "list" else messages[0]))
    except Exception as error:
        return watch.over(error)
    return watch.over(None)


def _due(turn: Turn) -> datetime:
    """By the clock of the journals: one that a disturbance has stepped would schedule for hours later."""
    return datetime.fromtimestamp(now() + turn.schedule_s, UTC)


def main() -> None:
    application = Application("senders")
    asyncio.run(send(application, bool(application.number % 2)))


if __name__ == "__main__":
    main()
