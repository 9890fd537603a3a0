"""Django's checks of the code; with --live, a check of two real namespaces."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from azure.core.exceptions import AzureError
from django.core.management.base import CommandError
from django.core.management.commands import check

from dashboard.checks import failovers, service  # noqa: F401 (they register their assumptions)
from dashboard.checks.assumptions import ASSUMPTIONS, Holding
from dashboard.checks.stage import PREFIX, Stage
from dashboard.command_line.commands import OneSentenceCommand
from dashboard.fleet.pairs.pairs_file import load_pairs
from pairing.health.faults import describe

EMULATOR = "Tried on a local namespace (emulator): the results are about the emulator, and show nothing about Azure."
AZURE = "Tried on Azure Service Bus: the results are about these two namespaces, at this time."


class Command(OneSentenceCommand, check.Command):
    """Without one of our options it is Django's own command."""

    help = "Check the code, or with --live whether two namespaces behave as the documentation assumes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]
        parser.add_argument("--live", metavar="PAIR", help="try this pair's namespaces, with scratch entities in them")
        parser.add_argument("--only", action="append", choices=[*ASSUMPTIONS], help="with --live: only this assumption")

    def handle(self, *app_labels: Any, **options: Any) -> None:
        if options["live"] is None:
            return super().handle(*app_labels, **options)
        pairs = load_pairs()
        if options["live"] not in pairs:
            raise CommandError(
                f"There is no pair {options['live']} in PAIRS_FILE; the known ones are: {', '.join(pairs)}."
            )
        try:
            with Stage(pairs[options["live"]]) as stage:
                found = self._try(stage, options["only"] or list(ASSUMPTIONS))
        except (AzureError, OSError, ValueError) as error:
            raise CommandError(f"Entities named {PREFIX}… may be left: {describe(error)}.") from None
        sys.exit(1 if Holding.FAILS in found else 0)

    def _try(self, stage: Stage, ids: Sequence[str]) -> list[Holding]:
        """Try the assumptions one after another, with a line for each."""
        found = []
        for one in map(ASSUMPTIONS.__getitem__, ids):
            holding, reason = one.tried(stage)
            found.append(holding)
            self.stdout.write(one.line(holding, reason))
            self.stdout.flush()
        counts = ", ".join(f"{found.count(holding)} {holding}" for holding in Holding)
        is_emulator = any(end.emulator for end in stage.endpoints.values())
        self.stdout.write(f"{counts}\n{EMULATOR if is_emulator else AZURE}")
        return found
