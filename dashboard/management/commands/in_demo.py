"""Runs another command with the settings of the current demo: `manage.py in_demo pairing entities`."""

import argparse
import json
import os
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.demo.processes import DemoError
from dashboard.demo.stage import DemoOptions
from dashboard.site.places import manage


class Command(OneSentenceCommand):
    """Replaces this process, so that output and exit status are those of the other command."""

    help = "Run a command of manage.py with the settings of the demo, for example: in_demo pairing entities"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command, and its options")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["words"]:
            raise CommandError("Name a command: in_demo pairing entities, for example.")
        words = manage(*options["words"])
        os.execve(sys.executable, words, {**os.environ, **_settings()})  # noqa: S606 - the words are the caller's own


def _settings() -> dict[str, str]:
    try:
        folder = DemoOptions.from_environment().folder
        reported: dict[str, str] = json.loads((folder / "state" / "environment.json").read_text(encoding="utf-8"))
    except DemoError as error:
        raise CommandError(str(error)) from None
    except (OSError, ValueError):
        raise CommandError(f"There is no demo in {folder}: start one, or set DEMO_DIR to its folder.") from None
    return reported
