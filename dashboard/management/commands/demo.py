"""The demo: everything on this machine, supervised."""

import contextlib
import sys
from typing import Any

from django.core.management.base import BaseCommand

from dashboard.demo.errors import DemoError
from dashboard.demo.stage import DemoOptions
from dashboard.demo.story import play


class Command(BaseCommand):
    """Starts it and stays until it is stopped (Ctrl-C, SIGTERM) or DEMO_SECONDS are over."""

    help = (
        "Run two local namespaces, Redis, workers, beat, the dashboard and sample traffic on this machine until "
        "Ctrl-C. Environment: DEMO_PORT (8000), DEMO_SECONDS (end by itself so long after the ready line), "
        "DEMO_PASSWORD, DEMO_DIR (.demo)."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own form

    def handle(self, *args: Any, **options: Any) -> None:
        """Any failure is one sentence."""
        try:
            play(DemoOptions.from_environment(), self.say)
        except DemoError as error:
            sys.exit(f"error: {str(error).removeprefix('error: ')}")

    def say(self, line: str) -> None:
        """One line at once; that nobody reads them any more is no reason to fail."""
        with contextlib.suppress(OSError):
            print(line, flush=True)
