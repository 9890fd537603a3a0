"""A process that runs a syphon under leases and stops itself (SIGSTOP) right before the step that it is reported.

Once it goes on, it says what became of that step.
"""

import signal
import sys
import threading
from typing import Any

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.drain.backlog_queue import Sent
from pairing.drain.operations import DrainOperations
from pairing.drive import Operation

sent: list[Sent] = []


def step_of(name: str, *arguments: Any) -> str:
    if name == "settle":
        return str(arguments[0])
    return name if name == "send" or sent else ""


def reported(outcome: Any) -> str:
    return f"{outcome.count} {outcome.why}" if isinstance(outcome, Sent) else str(outcome)


def freezing(name: str) -> Any:
    perform = getattr(DrainOperations, name)

    def freeze_and_perform(operations: DrainOperations, *arguments: Any) -> Operation[Any]:
        is_the_one = step_of(name, *arguments) in ahead
        if is_the_one:
            ahead.clear()
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: another would run on a little
        outcome = yield from perform(operations, *arguments)
        if is_the_one:
            print(reported(outcome), flush=True)
        elif isinstance(outcome, Sent):
            sent.append(outcome)
        return outcome

    return freeze_and_perform


for name in ("send", "keep", "settle"):
    setattr(DrainOperations, name, freezing(name))
primary, secondary, pair, redis_url, *ahead = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *reported: stop.set())
options = SendAvailabilityOptions(
    primary_namespace=pair, backlog_queue_count=2, enable_pings=False, coordination=redis_url
)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(stop)
