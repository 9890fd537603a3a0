"""A Redis that belongs to one test."""

import os
import signal
import subprocess
from pathlib import Path

import pytest


class RedisServer:
    """A redis-server of the test's own, that can be killed, frozen and started again empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/redis.sock"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
        )
        for line in self.process.stdout:
            if b"accept connections" in line:
                return
        pytest.fail("redis-server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)
