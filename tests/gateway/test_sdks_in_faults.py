"""What an application sees of each fault of the primary, by the SDKs through a gateway.

`make nightly ARGS="tests/gateway/test_sdks_in_faults.py -n 0 -rP"` prints the table of docs/gateway-clients.md.
"""

import contextlib
import time
from functools import partial

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from tests.gateway.running import gateway
from tests.gateway.test_away import Program, backlog, backlog_queues, pair  # noqa: F401
from tests.pace import eventually

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
FAULTS = {
    "reject": {"effect": "reject"},
    "silent": {"effect": "silent"},
    "reset": {"effect": "reset"},
    "refuse": None,
    "detach": {"effect": "detach"},
    "connection forced": {"effect": "close", "condition": "amqp:connection:forced"},
    "busy, twice": {"effect": "reject", "condition": "com.microsoft:server-busy", "count": 2},
    "quota": {"effect": "reject", "condition": "amqp:resource-limit-exceeded"},
    "slow by 5 s": {"effect": "delay", "delay_s": 5},
}
DURING = 4


class InPython:
    """Sends with the SDK for Python."""

    def __init__(self, connection_string):
        self._client = ServiceBusClient.from_connection_string(connection_string)
        self._sender = self._client.get_queue_sender("orders")

    def ask(self, number):
        try:
            self._sender.send_messages(ServiceBusMessage("x", message_id=str(number)))
        except ServiceBusError as error:
            return f"failed {number} {error}"
        return f"accepted {number}"

    def end(self):
        self._sender.close()
        self._client.close()


@pytest.mark.parametrize("language", ["Python", ".NET", "Java", "Go", "JavaScript"])
def test_no_send_fails(pair, tmp_path, language):  # noqa: F811
    primary, secondary = pair
    place, far = primary.own.connection_string, secondary.connection_string
    with gateway(tmp_path, place, secondary=far) as through, contextlib.ExitStack() as stack:
        while not backlog_queues(secondary):
            pass
        client = (InPython if language == "Python" else partial(Program, language))(through.connection_string)
        stack.callback(client.end)
        lines, cells = [], []

        def stored():
            return primary.own.stats()["orders"]["enqueued"]

        def send():
            began = time.monotonic()
            lines.append(client.ask(len(lines)))
            return time.monotonic() - began

        def is_healthy():
            before = stored()
            send()
            return stored() > before

        for name, fault in FAULTS.items():
            eventually(is_healthy, 60, every_s=0.2)
            with primary.own.unreachable() if fault is None else primary.own.faulty("send", **fault):
                longest = max(send() for _ in range(DURING))
            cells.append(f"{longest:.1f}")
            assert [line for line in lines if not line.startswith("accepted")] == [], name
        print(f"| {language} | {' | '.join(cells)} |")
        assert stored() + backlog(secondary) >= len(lines)
