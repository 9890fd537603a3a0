"""The control plane on the command line: the operations of the API, with the same rules."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.command_line.lines import is_well, lines
from dashboard.command_line.operations import Operation, operations

NOT_WELL = 3


class Command(OneSentenceCommand):
    """Every action is permission-checked and audited for the person given by --user.

    Exit status: 0 done, or the state was as requested; 1 not done, with the reason; 2 invalid command line; 3 with
    --exit-code.
    """

    help = "Show pairs, backlogs, dead letters, costs, readiness and alerts, and run the actions of the pages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="operation", required=True, metavar="OPERATION")
        for one in operations():
            add(commands.add_parser(one.name, help=one.description, description=one.description), one)

    def handle(self, *args: Any, **options: Any) -> None:
        document = options["run"].call(options)
        if options["only"]:
            self.stdout.write(str(document[options["only"]]))
        else:
            self.stdout.write(json.dumps(document, indent=2) if options["json"] else "\n".join(lines(document)))
        if options.get("exit_code") and not is_well(document):
            sys.exit(NOT_WELL)


def add(parser: ArgumentParser, operation: Operation) -> None:
    """Add the values of an operation, and the options that all operations have."""
    parser.set_defaults(run=operation)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--only", metavar="FIELD", help="only this field of the document")
    parser.add_argument("--user", help="a user of the pages, whose rights apply (default: the name of the login)")
    if operation.method == "GET":
        parser.add_argument(
            "--exit-code", action="store_true", help=f"exit with {NOT_WELL} if something is listed, or is not ready"
        )
    for value in operation.values:
        value.add_to(parser)
