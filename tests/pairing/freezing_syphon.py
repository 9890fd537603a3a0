"""A process that runs a syphon under leases and stops itself (SIGSTOP) right before the step that it is reported.

Once it goes on, it says what became of that step.
"""

import signal
import sys
import threading
from typing import Any

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.drain.actions import Keep, Send, Sent, Settle
from pairing.drain.operations import DrainOperations
from pairing.drive import Operation, Reply

perform = DrainOperations.perform


sent: list[Sent] = []


def step_of(action: object) -> str:
    match action:
        case Send():
            return "send"
        case Keep() if sent:
            return "keep"
        case Settle("complete"):
            return "complete"
    return ""


def reported(outcome: Any) -> str:
    return f"{outcome.count} {outcome.why}" if isinstance(outcome, Sent) else str(outcome)


def freeze_and_perform(operations: DrainOperations, action: Any) -> Operation[Reply]:
    if step_of(action) not in ahead:
        outcome = yield from perform(operations, action)
        if isinstance(outcome, Sent):
            sent.append(outcome)
        return outcome
    ahead.clear()
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: another would let it run on a little
    outcome = yield from perform(operations, action)
    print(reported(outcome), flush=True)
    return outcome


DrainOperations.perform = freeze_and_perform
primary, secondary, pair, redis_url, *ahead = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *reported: stop.set())
options = SendAvailabilityOptions(
    primary_namespace=pair, backlog_queue_count=2, enable_pings=False, coordination=redis_url
)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(stop)
