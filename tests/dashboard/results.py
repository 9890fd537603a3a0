"""Results of the charges job, as files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def result_of(folder: str | Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """The file of a job that wrote these records, with its end."""
    path, known = Path(folder, "result.jsonl"), list(records)
    known.append({"record": "end", "records": len(known)})
    path.write_text("".join(json.dumps(record) + "\n" for record in known))
    return path
