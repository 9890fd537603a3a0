"""Store the pairs of PAIRS_FILE in the database."""

from typing import Any

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.fleet.pairs.pairs_file import (
    PairsFileError,
    load_pairs,
    require_connection_strings,
    require_two_namespaces,
)
from dashboard.fleet.pairs.sync import sync


class Command(OneSentenceCommand):
    """Pairs that are no longer in the file are kept and marked as not configured: their backlog may hold messages."""

    help = "Update the pairs and their entities in the database from PAIRS_FILE. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        pairs = load_pairs()
        require_connection_strings(pairs.values())
        for line in sync(pairs):
            self.stdout.write(line)
        for pair in pairs.values():
            try:
                require_two_namespaces(pair)
            except PairsFileError as error:  # the pair can be shown, and its file corrected later
                self.stderr.write(f"warning: {error}", self.style.WARNING)
