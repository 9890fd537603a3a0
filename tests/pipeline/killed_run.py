"""`python -m tests.pipeline.killed_run FOLDER [many]`: an incremental charges job, killed while it writes what it sums
up; `many`: it sums as many rows are summed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline.jobs.charges import main
from tests.pipeline.test_charges_on_spark import as_of_many_rows


def die_while_writing(table: Path) -> None:
    """Where Spark prepares the files of the days there is a folder: some files may be in place by then, some not."""
    while not any(table.glob(".spark-staging*")):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "many" in sys.argv:
        as_of_many_rows(pytest.MonkeyPatch())
    threading.Thread(target=die_while_writing, args=[folder / "hourly"], daemon=True).start()
    given = ["--month", "2026-10", "--usage", str(folder), "--result", str(folder / "result.json"), "--incremental"]
    sys.exit(main(given))
