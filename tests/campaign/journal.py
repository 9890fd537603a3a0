"""Journals: lines of JSON that are on the disk before the next step, whatever ends the process that writes them.

Times are seconds since 1970 that no step of a clock changes: the monotonic clock, which all processes of a machine
share, plus what the campaign found when it began (CAMPAIGN_EPOCH).
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EPOCH = "CAMPAIGN_EPOCH"


def epoch() -> str:
    """What the campaign gives its processes."""
    return repr(time.time() - time.monotonic())


def now() -> float:
    """The time for journals. KeyError outside a campaign."""
    return time.monotonic() + float(os.environ[EPOCH])


class Journal:
    """One file that one process appends to. A line that a kill has torn is closed when the next process opens it."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def write(self, *records: dict[str, Any]) -> None:
        """Append all of them; on the disk when it returns."""
        data = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def read(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal. A torn line was never acted upon, and is left out; any other damage raises."""
    if not file.exists():
        return
    with file.open("rb") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                if line.startswith(b"{") and not line.rstrip().endswith(b"}"):
                    continue
                raise
