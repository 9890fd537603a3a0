"""Commands that become another program: the processes of the control plane under one name."""

import os
import sys
from collections.abc import Mapping, Sequence

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.command_line.ranges import Rule, problem_of

NOT_USABLE = 2
"""The exit status that uvicorn and Celery have for arguments that they cannot read."""


class ProgramCommand(OneSentenceCommand):
    """Replaces this process by `program`, so that signals and the exit status are the program's.

    Arguments are the program's own, and are added to those given here. A value that one of ``rules`` refuses is one
    sentence, where the program would end with a traceback.
    """

    program: tuple[str, ...] = ()
    rules: Mapping[str, Rule] = {}

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Called with the command line, before Django would refuse options that it does not know."""
        if argv[2:] in (["--help"], ["-h"]):
            print(f"{self.help} Options are those of {self.program[0]}:\n", flush=True)
        if problem := problem_of(argv[2:], self.rules):
            print(f"error: {problem}", file=sys.stderr)
            raise SystemExit(NOT_USABLE)
        # The words are those of the caller's own command line.
        os.execv(sys.executable, [sys.executable, "-m", *self.program, *argv[2:]])  # noqa: S606
