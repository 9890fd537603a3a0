"""Commands that become another program: the processes of the control plane under one name."""

import os
import sys
from collections.abc import Sequence

from dashboard.command_line.errors import OneSentenceCommand


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
