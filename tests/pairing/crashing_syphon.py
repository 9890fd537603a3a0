"""A process that runs a syphon and dies between its first send and the completion of what it sent."""

import os
import signal
import sys
import threading

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.drain import settlement


def die(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


settlement.OneByOne.settle = settlement.Overlapped.settle = die
primary, secondary, pair = sys.argv[1:]
options = SendAvailabilityOptions(primary_namespace=pair, backlog_queue_count=1, enable_pings=False)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(threading.Event())
