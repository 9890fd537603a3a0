"""A process that sends the messages of one session, one after the other, from a number on, until it is killed.

It keeps the numbers of the messages that were accepted, one a line, in a file; a message that was not is sent again.
"""

import sys
import threading
from datetime import timedelta

from azure.servicebus import ServiceBusMessage

from pairing import PairedServiceBusClient, SendAvailabilityOptions

primary, secondary, pair, redis_url, queue, session, first, file = sys.argv[1:]
options = SendAvailabilityOptions(
    primary_namespace=pair,
    secondary_namespace="contoso-dr",
    backlog_queue_count=2,
    failover_interval=timedelta(0),
    ping_primary_interval=timedelta(seconds=1),
    coordination=redis_url,
    preserve_session_order=True,
)
number, pace = int(first), threading.Event()
with (
    PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client,
    client.get_queue_sender(queue) as sender,
    open(file, "a", buffering=1) as accepted,
):
    while True:
        message = ServiceBusMessage(str(number), session_id=session, message_id=f"{session}/{number}")
        sender.send_messages(message)
        accepted.write(f"{number}\n")
        number += 1
        pace.wait(0.1)
