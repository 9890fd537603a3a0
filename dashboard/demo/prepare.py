"""Creates the demo's database: `python -m dashboard.demo.prepare`, DEMO_PASSWORD in the environment."""

import os
import sys

import django
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from dashboard.demo.configuration import ORPHANS, RETURNS
from dashboard.demo.history.plan import history
from dashboard.demo.history.scenery import LIVE_PAIR
from dashboard.fleet.pairs.pairs_file import load_pairs
from pairing.messages.rewriting import to_backlog

ACCOUNTS = {"operator": ("operator", "administrator"), "operator-only": ("operator",), "viewer": ("viewer",)}
"""The groups of the users. They have the same password."""


def main() -> None:
    """Create tables, pairs, users, the simulated past, and orphans to clean up."""
    django.setup()
    from django.contrib.auth.models import Group, User

    call_command("migrate", verbosity=0, interactive=False)
    call_command("sync_pairs")
    for name, groups in ACCOUNTS.items():
        user = User.objects.create_user(name, password=os.environ["DEMO_PASSWORD"], is_staff="administrator" in groups)
        user.groups.set(Group.objects.filter(name__in=groups))
    if settings.SIMULATED_UNTIL:
        from dashboard.demo.history.loading import load

        load(history(settings.SIMULATED_UNTIL))
    leave_dead_letters(load_pairs()[LIVE_PAIR].secondary.connection_string())


def leave_dead_letters(secondary: str) -> None:
    """Leave dead letters in an orphan, to be resubmitted or discarded."""
    why = ("RestoreFailed", "returns refused it 5 times: the queue did not exist then. It does now.")
    with (
        ServiceBusClient.from_connection_string(secondary) as client,
        client.get_queue_sender(ORPHANS[1]) as sender,
        client.get_queue_receiver(ORPHANS[1]) as receiver,
    ):
        for number in (1001, 1002, 1003):
            message = ServiceBusMessage(f'{{"order": {number}}}', message_id=f"return-{number}")
            sender.send_messages(to_backlog(message, RETURNS))
            for received in receiver.receive_messages(1, max_wait_time=10):
                receiver.dead_letter_message(received, *why)


if __name__ == "__main__":
    try:
        main()
    except (ImproperlyConfigured, CommandError) as error:
        sys.exit(f"error: {error}")
