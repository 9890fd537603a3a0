"""A process that runs a syphon under leases until it is asked to stop (SIGTERM) or killed."""

import signal
import sys
import threading

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon

primary, secondary, pair, redis_url = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *reported: stop.set())
options = SendAvailabilityOptions(
    primary_namespace=pair, backlog_queue_count=2, enable_pings=False, coordination=redis_url
)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(stop)
