"""`python -m pipeline.jobs.days`: merges the small usage files of past days, or names the days whose files changed.

The days are those that the table of day sums has other sums of, or none. It needs PyArrow, but no Spark.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.progress import end_with_stdin, failed
from pipeline.usage.compaction import compact
from pipeline.usage.folder import UsageFolder
from pipeline.usage.listing import changed_days
from pipeline.usage.table import DayTable


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the number of merged files, or the changed days, as JSON; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m pipeline.jobs.days", description="Look after usage files.")
    options.add_argument("--usage", required=True, help="folder or URL that holds usage/ and connections/")
    options.add_argument("--table", type=Path, help="name the days that differ from the sums in this folder")
    options.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    given = options.parse_args(arguments)
    if given.end_with_stdin:
        end_with_stdin()
    try:
        usage = UsageFolder.of(given.usage)
        if given.table is None:
            found: dict[str, object] = {"merged": compact(usage, datetime.now(UTC))}
        else:
            found = {"days": changed_days(usage, DayTable.of(given.table, usage.url))}
    except (PipelineError, OSError) as error:
        failed(str(error))
        return 2
    print(json.dumps({"stage": "done"} | found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
