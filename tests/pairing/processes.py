"""A fleet of whole processes of one pair, which a test starts, kills, freezes and stops."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pairing.fleet.shared_state import SharedState

HERE = Path(__file__).parent


def command_of(program: str, *arguments: str) -> dict[str, Any]:
    """How a program of this folder is run."""
    return {
        "args": [sys.executable, str(HERE / program), *arguments],
        "cwd": HERE.parents[1],
        "env": {"PYTHONPATH": "."},
    }


class Fleet:
    """Processes that run the programs of this folder, with two backlog queues."""

    def __init__(self, primary: Any, secondary: Any, redis_url: str, redis_client: Any) -> None:
        self.primary, self.secondary, self.redis_url = primary, secondary, redis_url
        self.name = f"contoso-{uuid4().hex[:8]}"
        self.queues = [f"{self.name}/x-servicebus-transfer/{index}" for index in range(2)]
        self.shared = SharedState(redis_client, self.name)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, program: str = "serving_syphon.py", *more: str, **options: Any) -> "subprocess.Popen[str]":
        strings = self.primary.connection_string, self.secondary.connection_string
        command = command_of(program, *strings, self.name, self.redis_url, *more)
        self.processes.append(subprocess.Popen(**command, **options))
        return self.processes[-1]

    def create_queues(self, lock_s: float) -> None:
        """With locks that end sooner than after a minute, so that what a killed process has locked comes again."""
        with self.secondary.administration() as administration:
            for queue in self.queues:
                administration.create_queue(queue, lock_duration=timedelta(seconds=lock_s))

    def end(self) -> None:
        for process in self.processes:
            kill(process)
            if process.stdout is not None:
                process.stdout.close()


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
