"""The backlog queues as on the page, for a terminal or a script."""

from argparse import ArgumentParser

from dashboard.command_line.operations import operations
from dashboard.management.commands import pairing


class Command(pairing.Command):
    """The operation `pairing backlog` as a command of its own."""

    help = "List backlog queues with their counts and problems, as last sampled by the workers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        pairing.add(parser, next(one for one in operations() if one.name == "backlog"))
