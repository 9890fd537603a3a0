"""The result file of a charges run: JSON lines, the `run` first and the `end` last (`pipeline.results`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboard.costs.jobs import JobFailed


def records_in(result: Path) -> Iterator[dict[str, Any]]:
    """The records of the file. Raises JobFailed if it is not a whole result."""
    count, record = 0, dict[str, Any]()
    try:
        with result.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                count += 1
                yield dict(record)
    except OSError as error:
        raise JobFailed(f"The result {result} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise JobFailed(f"The result {result} cannot be read: line {count + 1} is not a record.") from error
    if record.get("record") != "end" or record.get("records") != count - 1:
        raise JobFailed(f"The result {result} is not complete: copy it again, or run the job again.")
