"""A process that runs a syphon, under leases if Redis is named, until it is asked to stop (SIGTERM) or killed.

``python serving_syphon.py PRIMARY SECONDARY PAIR REDIS_URL [send|keep|complete|die]``: it stops itself (SIGSTOP) right
before this step, and says what became of it once it goes on; or dies between its first send and the completion.
"""

import os
import signal
import sys
import threading
from typing import Any

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.drain.backlog_queue import Sent
from pairing.drain.operations import DrainOperations
from pairing.drain.primary_operations import PrimaryOperations
from pairing.drive import Operation

sent: list[Sent] = []


def step_of(name: str, *arguments: Any) -> str:
    if name == "settle":
        return str(arguments[0])
    return name if name == "send" or sent else ""


def reported(outcome: Any) -> str:
    return f"{outcome.count} {outcome.why}" if isinstance(outcome, Sent) else str(outcome)


def struck(class_: type, name: str) -> Any:
    perform = getattr(class_, name)

    def strike_and_perform(operations: Any, *arguments: Any) -> Operation[Any]:
        step = step_of(name, *arguments)
        if step == "complete" and "die" in ahead:
            os.kill(os.getpid(), signal.SIGKILL)
        is_the_one = step in ahead
        if is_the_one:
            ahead.clear()
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: another would run on a little
        outcome = yield from perform(operations, *arguments)
        if is_the_one:
            print(reported(outcome), flush=True)
        elif isinstance(outcome, Sent):
            sent.append(outcome)
        return outcome

    return strike_and_perform


primary, secondary, pair, redis_url, *ahead = sys.argv[1:]
steps = ((PrimaryOperations, "send"), (DrainOperations, "keep"), (DrainOperations, "settle"))
for class_, name in steps if ahead else ():
    setattr(class_, name, struck(class_, name))
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
options = SendAvailabilityOptions(
    primary_namespace=pair, backlog_queue_count=2, enable_pings=False, coordination=redis_url or None
)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(stop)
