"""Jobs of charges in the Spark session that a worker keeps between them (`SPARK_SESSION_IDLE_S`)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from dashboard.costs.jobs import JobFailed, OnProgress

SOCKET = "SPARK_SESSION_SOCKET"
"""The variable by which a worker names the socket to the command that it starts."""


def run_warm(arguments: Sequence[str], on_progress: OnProgress) -> bool:
    """Run the charges job in the kept session. Returns False if there is none, or it does not suit the job.

    Raises JobFailed. A session that ends in the middle of the job is none: the job can be run again.
    """
    path = os.environ.get(SOCKET)
    error = ""
    for said in _answers(path, arguments) if path else ():
        error = str(said.get("error", error))
        if "stage" in said:
            on_progress(said)
        if "cold" in said:
            return False
        if "status" in said:
            if said["status"] != 0:
                raise JobFailed(error or f"The job ended with status {said['status']}.")
            return True
    return False


def _answers(path: str, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What the session says of the job, until it ends."""
    try:
        with socket.socket(socket.AF_UNIX) as session:
            session.connect(path)
            with session.makefile("rw", encoding="utf-8") as lines:
                print(json.dumps(list(arguments)), file=lines, flush=True)
                for line in lines:
                    yield json.loads(line)
    except (OSError, ValueError):  # nobody is there, or no longer: a line can be cut off then
        return
