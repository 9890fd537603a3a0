"""The progress of a job: one JSON object per line on standard output, for the process that started it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

Progress = Callable[[str, float, int], None]
LOOKING = "looking at the files"
"""The stage in which a run lists the files that it then reads."""


def to_stdout(stage: str, share: float, rows: int) -> None:
    """The stage that begins, the share of the work that is done (0 to 1), and the rows seen so far."""
    print(json.dumps({"stage": stage, "share": share, "rows": rows}), file=sys.stdout, flush=True)


def failed(sentence: str) -> None:
    """Why the job ends without a result: for the program that started it, and for a person who did."""
    print(json.dumps({"error": sentence}), file=sys.stdout, flush=True)
    print(sentence, file=sys.stderr, flush=True)


def end_with_stdin() -> None:
    """End this process when the process at the other end of its standard input has ended."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin, whose lock would abort the interpreter as it shuts down
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def silent(stage: str, share: float, rows: int) -> None:
    """For callers without progress output."""
