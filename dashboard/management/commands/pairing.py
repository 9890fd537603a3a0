"""The control plane on the command line: what the pages show, and what their buttons do, by the same rules."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from dashboard.accounts import cli as tokens
from dashboard.actions import cli as entities
from dashboard.alerts import cli as alerts
from dashboard.backlog import cli as queues
from dashboard.command_line.errors import OneSentenceCommand
from dashboard.command_line.subcommands import Answer, as_json
from dashboard.costs import cli as costs
from dashboard.drills import cli as drills
from dashboard.fleet import cli as status
from dashboard.readiness import cli as readiness


class Command(OneSentenceCommand):
    """Every action is permission-checked and audited under the person that --user names.

    Exit status: 0 done, or so already; 1 not done, and a sentence why; 2 the command line is wrong.
    """

    help = "Look at pairs, backlogs, dead letters, costs, readiness and alerts, and do what the pages' buttons do."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")
        for kind in (status, entities, queues, costs, readiness, drills, alerts, tokens):
            kind.add(commands)

    def handle(self, *args: Any, **options: Any) -> None:
        answer: Answer = options["run"](options)
        self.stdout.write(as_json(answer.document) if options["json"] else "\n".join(answer.lines))
        if answer.status:
            sys.exit(answer.status)
