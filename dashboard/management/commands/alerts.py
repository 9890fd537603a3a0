"""Looks for alerts and sends what is due, in a process of its own: so that silent workers are told of, too."""

import signal
import threading
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import DatabaseError, close_old_connections

from dashboard.alerts import delivery, rounds
from dashboard.command_line.errors import OneSentenceCommand

EVERY_S = 5.0
log = structlog.get_logger(__name__)


class Command(OneSentenceCommand):
    """Runs until it is told to stop; beside workers it does no harm."""

    help = "Look for alerts every five seconds and send what is due, until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="look and send once, then end")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        once()
        while not options["once"] and not stop.wait(EVERY_S):
            close_old_connections()
            once()


def once() -> None:
    """One look, and one attempt for each message that is due. A database that is away is one line in the log."""
    try:
        rounds.look(datetime.now(UTC))
        for channel in delivery.due_channels(datetime.now(UTC)):
            delivery.deliver(channel)
    except DatabaseError as error:
        log.error("no look for alerts", problem=type(error).__name__)
