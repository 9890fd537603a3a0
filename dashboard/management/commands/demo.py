"""The demo: all processes on this host, supervised."""

import contextlib
import sys
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.demo.processes import DemoError
from dashboard.demo.stage import DemoOptions
from dashboard.demo.story import play


class Command(BaseCommand):
    """Starts the demo and stays until it is stopped (Ctrl-C, SIGTERM) or DEMO_SECONDS have passed."""

    help = (
        "Run two local namespaces, Redis, workers, beat, the dashboard and sample traffic on this machine until "
        "Ctrl-C. Environment: DEMO_PORT (8000), DEMO_SECONDS (seconds from the ready line until it ends by itself), "
        "DEMO_PASSWORD, DEMO_DIR (.demo), DEMO_HISTORY (0: without the simulated history), "
        "DEMO_GATEWAY (1: with a gateway, and an application in JavaScript that sends through it)."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own form

    def handle(self, *args: Any, **options: Any) -> None:
        """Any failure is one sentence."""
        try:
            play(DemoOptions.from_environment(), self.say)
        except (DemoError, OSError) as error:
            sys.exit(f"error: {str(error).removeprefix('error: ')}")

    def say(self, line: str) -> None:
        """Print one line immediately; a closed output is not an error."""
        with contextlib.suppress(OSError):
            print(line, flush=True)
