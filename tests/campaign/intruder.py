"""A client with a wrong key tries to send through a gateway: what arrives of it is a message that nobody sent."""

import contextlib
import json
import re
import sys
import time
from itertools import count
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from tests.campaign.application import WAYS

PAUSE_S = 0.5


def main() -> None:
    ways = json.loads((Path(sys.argv[1]) / WAYS).read_text())["senders"]
    for number in count():
        wrong = re.sub("SharedAccessKey=[^;]*", "SharedAccessKey=wrong", ways["gateways"][number % 2])
        with (
            contextlib.suppress(ServiceBusError, OSError, ValueError),
            ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
            client.get_queue_sender("orders") as sender,
        ):
            sender.send_messages(ServiceBusMessage("intruder", message_id=f"{sys.argv[2]}-{time.time()}"))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
