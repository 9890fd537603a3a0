"""Commands whose errors are one sentence, in the format of manage.py's own, and those that become another program."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from django.core.management.base import BaseCommand, CommandError


class OneSentenceCommand(BaseCommand):
    """On the command line an error is printed as `error: …` and sets the exit status; in code, it is raised.

    Django's checks look at code, not at the environment, and load all pages for it: that would double the time of the
    command. `manage.py check` and the test suite run them.
    """

    requires_system_checks: tuple[str, ...] = ()

    def get_version(self) -> str:
        """For --version: that of the product, not Django's."""
        return version("paired-namespaces")

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as error:
            if not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            self.stderr.write(f"error: {error}")
            raise SystemExit(error.returncode) from None


class ProgramCommand(OneSentenceCommand):
    """Replaces this process by `program`, so that signals and the exit status are the program's.

    Arguments are the program's own, and are added to those given here.
    """

    program: tuple[str, ...] = ()

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Called with the command line, before Django would refuse options that it does not know."""
        if argv[2:] in (["--help"], ["-h"]):
            print(f"{self.help} Options are those of {self.program[0]}:\n", flush=True)
        # The words are those of the caller's own command line.
        os.execv(sys.executable, [sys.executable, "-m", *self.program, *argv[2:]])  # noqa: S606
