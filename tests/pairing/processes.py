"""A fleet of whole processes of one pair, which a test starts, kills, freezes and stops."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pairing.fleet.shared_state import SharedState
from tests import forked

HERE = Path(__file__).parent


def started(program: str, *arguments: str, out: int = 1, err: int = 2) -> forked.Process:
    """A process that runs a program of this folder."""
    return forked.start([str(HERE / program), *arguments], {}, out, err)


class Fleet:
    """Processes that run the programs of this folder, with two backlog queues."""

    def __init__(self, primary: Any, secondary: Any, redis_url: str, redis_client: Any) -> None:
        self.primary, self.secondary, self.redis_url = primary, secondary, redis_url
        self.name = f"contoso-{uuid4().hex[:8]}"
        self.queues = [f"{self.name}/x-servicebus-transfer/{index}" for index in range(2)]
        self.shared = SharedState(redis_client, self.name)
        self.processes: list[forked.Process] = []

    def start(self, program: str = "serving_syphon.py", *more: str, **outputs: int) -> forked.Process:
        strings = self.primary.connection_string, self.secondary.connection_string
        self.processes.append(started(program, *strings, self.name, self.redis_url, *more, **outputs))
        return self.processes[-1]

    def create_queues(self, lock_s: float) -> None:
        """With locks that end sooner than after a minute, so that what a killed process has locked comes again."""
        with self.secondary.administration() as administration:
            for queue in self.queues:
                administration.create_queue(queue, lock_duration=timedelta(seconds=lock_s))

    def end(self) -> None:
        for process in self.processes:
            kill(process)


def kill(process: forked.Process) -> None:
    process.kill()
    process.wait()
