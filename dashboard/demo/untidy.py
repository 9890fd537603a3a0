"""Orphans to clean up in the demo: an empty one, and one of another primary with dead letters.

They are not part of the sample traffic or its counts: the dead letters are for a queue without receivers.
"""

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing import emulator_transport
from pairing.backlog.administration import CREATED_WITH
from pairing.backlog.rotation import backlog_path
from pairing.messages.rewriting import to_backlog

DESTINATION = "returns"
EMPTY = backlog_path("contoso", 9)
WITH_DEAD_LETTERS = backlog_path("fabrikam", 0)
RETURNS = (
    ("return-1001", '{"order": 1001, "reason": "too small"}'),
    ("return-1002", '{"order": 1002, "reason": "changed my mind"}'),
    ("return-1003", '{"order": 1003, "reason": "arrived twice"}'),
)
WHY = ("RestoreFailed", "returns refused it 5 times: the queue did not exist then. It does now.")
_WAIT_S = 10.0


def make_untidy(primary: str, secondary: str) -> None:
    """Create them in the namespaces of the two connection strings. Raises the SDK's errors."""
    with ServiceBusAdministrationClient.from_connection_string(
        primary, transport=emulator_transport()
    ) as administration:
        administration.create_queue(DESTINATION)
    with ServiceBusAdministrationClient.from_connection_string(
        secondary, transport=emulator_transport()
    ) as administration:
        for path in (EMPTY, WITH_DEAD_LETTERS):
            administration.create_queue(path, **CREATED_WITH)
    with ServiceBusClient.from_connection_string(secondary) as client:
        _leave_dead_letters(client)


def _leave_dead_letters(client: ServiceBusClient) -> None:
    with client.get_queue_sender(WITH_DEAD_LETTERS) as sender:
        for message_id, body in RETURNS:
            sender.send_messages(to_backlog(ServiceBusMessage(body, message_id=message_id), DESTINATION))
    left = len(RETURNS)
    with client.get_queue_receiver(WITH_DEAD_LETTERS) as receiver:
        while left and (received := receiver.receive_messages(max_message_count=left, max_wait_time=_WAIT_S)):
            for message in received:
                receiver.dead_letter_message(message, *WHY)
                left -= 1
