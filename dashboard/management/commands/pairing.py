"""The control plane on the command line: the data and the actions of the pages, with the same rules."""

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
    """Every action is permission-checked and audited for the person given by --user.

    Exit status: 0 done, or the state was as requested; 1 not done, with the reason; 2 invalid command line.
    """

    help = "Show pairs, backlogs, dead letters, costs, readiness and alerts, and run the actions of the pages."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")
        for kind in (status, entities, queues, costs, readiness, drills, alerts, tokens):
            kind.add(commands)

    def handle(self, *args: Any, **options: Any) -> None:
        answer: Answer = options["run"](options)
        self.stdout.write(as_json(answer.document) if options["json"] else "\n".join(answer.lines))
        if answer.status:
            sys.exit(answer.status)
