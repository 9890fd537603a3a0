"""Evaluates alerts and sends due notifications in a separate process, so that silent workers are reported too."""

import signal
import threading
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import DatabaseError, close_old_connections

from dashboard.alerts import rounds
from dashboard.alerts.sending import delivery
from dashboard.command_line.commands import OneSentenceCommand

EVERY_S = 5.0
log = structlog.get_logger(__name__)


class Command(OneSentenceCommand):
    """Runs until it is stopped; it can run beside workers."""

    help = "Evaluate alerts every five seconds and send due notifications, until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="evaluate and send once, then exit")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        once()
        while not options["once"] and not stop.wait(EVERY_S):
            close_old_connections()
            once()


def once() -> None:
    """Evaluate once, and try each due message once. An unavailable database is one line in the log."""
    try:
        rounds.look(datetime.now(UTC))
        for channel in delivery.due_channels(datetime.now(UTC)):
            delivery.deliver(channel)
    except DatabaseError as error:
        log.error("alerts not evaluated", problem=type(error).__name__)
