"""Whether failover would work, for a terminal, a deployment gate or a monitor, by exit status."""

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.readiness import summary
from dashboard.readiness.score import READY

LOW = 1


class Command(OneSentenceCommand):
    """Reads the last results of the workers; accesses no namespace itself."""

    help = "Show whether failover would work. Exit status: 0 if every entity is ready, 1 if not, 2 if unknown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pair", help="only entities of this pair")
        parser.add_argument("--least", type=int, default=READY, help="the score that counts as ready (default: 90)")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        reported = summary.summary(options["pair"], options["least"])
        self.stdout.write(json.dumps(reported, indent=2) if options["json"] else "\n".join(summary.lines(reported)))
        if not reported["is_ready"]:
            sys.exit(LOW)
