"""Django's checks of the code; with --live, a check of two real namespaces."""

import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from azure.core.exceptions import AzureError
from django.core.management.base import CommandError
from django.core.management.commands import check

from dashboard.checks.live.assumptions import ASSUMPTIONS
from dashboard.checks.live.running import NOT_CLEAN, OPERATIONS, Result, run_live
from dashboard.checks.live.stage import Stage
from dashboard.command_line.errors import OneSentenceCommand
from dashboard.fleet.pairs.pairs_file import PairConfig, load_pairs
from pairing.health.faults import describe

Options = dict[str, Any]


class Command(OneSentenceCommand, check.Command):
    """Without one of our options it is Django's own command."""

    help = "Check the code, or with --live whether two namespaces behave as the documentation assumes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]
        parser.add_argument("--live", metavar="PAIR", help="try this pair's namespaces, with scratch entities in them")
        parser.add_argument("--only", metavar="ID", action="append", help="with --live: only this assumption")
        parser.add_argument("--yes", action="store_true", help="with --live: do not ask for a confirmation")
        parser.add_argument("--clean", action="store_true", help="with --live: only delete what earlier runs have left")

    def handle(self, *app_labels: Any, **options: Any) -> None:
        if options["live"] is not None:
            self._check_live(options)
        else:
            super().handle(*app_labels, **options)

    def _check_live(self, options: Options) -> None:
        pair, ids = _pair(options["live"]), _known_ids(options["only"] or ())
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that scratch entities are deleted
        try:
            self._clean(pair, options)
            if not options["clean"]:
                self._run_live(pair, ids, options)
        finally:
            signal.signal(signal.SIGTERM, before)

    def _run_live(self, pair: PairConfig, ids: Sequence[str], options: Options) -> None:
        local = " Its namespaces are local (emulator): nothing is billed."
        is_emulator = pair.primary.is_emulator() or pair.secondary.is_emulator()
        self._say(
            f"{len(ids or ASSUMPTIONS)} trials on scratch entities of the pair {pair.name}: at most {OPERATIONS} "
            f"billable operations.{local if is_emulator else ''}"
        )
        _confirm("Run them?", options)
        report = run_live(pair, ids, self._show)
        self.stdout.write("\n".join(report.lines()))
        if report.status:
            sys.exit(report.status)

    def _clean(self, pair: PairConfig, options: Options) -> None:
        """Offer to delete what a killed run has left in the namespaces."""
        try:
            with Stage(pair, "") as stage:
                left = stage.leftovers()
                if not left:
                    return
                self._say("Left by earlier runs:\n  " + "\n  ".join(map(str, left)))
                _confirm("Delete them? If one of those runs is still going, it will fail.", options)
                for scratch in left:
                    stage.delete(scratch)
                self._say(f"Deleted: {len(left)}.")
        except (AzureError, OSError, ValueError) as error:
            self._say(f"Scratch entities of earlier runs may be left: {describe(error)}.")

    def _show(self, result: Result) -> None:
        self.stdout.write(result.line())
        self.stdout.flush()

    def _say(self, text: str) -> None:
        """What is no result goes to stderr."""
        self.stderr.write(text, self.style.NOTICE)


def _pair(name: str) -> PairConfig:
    pairs = load_pairs()
    if name not in pairs:
        raise CommandError(f"There is no pair {name} in PAIRS_FILE; the known ones are: {', '.join(pairs)}.")
    return pairs[name]


def _known_ids(ids: Sequence[str]) -> Sequence[str]:
    for id_ in ids:
        if id_ not in ASSUMPTIONS:
            raise CommandError(f"There is no assumption {id_}; docs/check.md lists them.")
    return ids


def _confirm(question: str, options: Options) -> None:
    if options["yes"]:
        return
    if not sys.stdin.isatty():
        raise CommandError("Not confirmed, so nothing was done. Without a terminal, use --yes.", returncode=NOT_CLEAN)
    try:
        answer = input(f"{question} [y/N] ")
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("Not confirmed, so nothing was done.", returncode=NOT_CLEAN)
