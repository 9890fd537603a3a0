"""A user of the demo: starts it, looks at it over HTTP, breaks and mends, and reads the applications' counters."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import redis

from dashboard.demo import guardian
from dashboard.demo.stage import QUEUES
from tests import pace
from tests.pace import GUARD
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct-horse-battery"
READY_S = 180.0  # what the contract grants
NO_JAVA = {"JAVA_HOME": "/nowhere"}
"""Without Spark, whose start takes as much processor time as half of that of the demo."""


def eventually(condition: Callable[[], Any], limit_s: float, what: str) -> Any:
    """What the condition gives as soon as it is true; fails with `what` where it does not come true.

    The limit is for a quiet machine; a busy one gets several times as long.
    """
    return pace.eventually(condition, GUARD * limit_s, lambda: what, every_s=0.1)


class Demo:
    """A demo of one's own, in a folder and on a port of its own; without a past, unless it is asked for."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.said: list[str] = []
        environment = os.environ | {"DEMO_DIR": str(folder), "DEMO_PORT": str(self.port), "DEMO_HISTORY": "0"}
        environment |= variables
        environment |= {"STATE_DIR": str(folder.parent / "outer")}
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "demo"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if line.startswith(("ready ", "error: ")):
                self._ready.set()
        self._ready.set()

    def await_ready(self) -> re.Match[str]:
        """The ready line, as the contract writes it."""
        assert self._ready.wait(READY_S), self.said
        ready = re.fullmatch(r"ready (http://127\.0\.0\.1:(\d+)/) user=operator password=(\S+)", self.said[-1])
        assert ready, self.said
        return ready

    @property
    def environment(self) -> dict[str, str]:
        """What its processes know."""
        return dict(json.loads((self.folder / "state" / "environment.json").read_text()))

    @property
    def marker(self) -> str:
        """By which its processes are known."""
        return f"{guardian.DEMO}={self.environment[guardian.DEMO]}"

    def processes(self, *words: str) -> list[int]:
        """Its living processes whose command line has all the words."""
        found = []
        for pid in guardian.survivors(self.marker, set()):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if all(word in line for word in words):
                found.append(pid)
        return found

    def redis(self) -> redis.Redis:
        """A client of its Redis."""
        return redis.Redis.from_url(self.environment["REDIS_URL"])

    def redis_is_gone(self) -> bool:
        """redis-server overwrites its environment: it is known by its port."""
        try:
            with self.redis() as client:
                client.ping()
        except redis.RedisError:
            return True
        return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def last_words(self) -> str:
        """The end of every log, for whoever wants to know why a test failed."""
        logs = sorted((self.folder / "logs").glob("*.log"))
        tails = [(log.name, deque(log.open(errors="replace"), maxlen=8)) for log in logs]
        return "\n".join([*self.said, *(f"--- {name}\n{''.join(lines)}" for name, lines in tails)])


class Accounts:
    """What the applications have entered of one queue."""

    def __init__(self, client: redis.Redis, queue: str) -> None:
        self._redis = client
        self._prefix = f"demo:{{{queue}}}:"

    def count(self, book: str) -> int:
        """Messages accepted or received; sends refused; duplicates; damaged."""
        if book in ("accepted", "received"):
            return self._bits(book).bit_count()
        return int(self._redis.get(self._prefix + book) or 0)

    def accepted(self) -> int:
        """A bit for each message that was accepted."""
        return self._bits("accepted")

    def received(self) -> int:
        """A bit for each message that was received."""
        return self._bits("received")

    def outstanding(self) -> int:
        """Accepted and not received (yet)."""
        return (self.accepted() & ~self.received()).bit_count()

    def _bits(self, book: str) -> int:
        return int.from_bytes(self._redis.get(self._prefix + book) or b"", "little")


class DemoClient:
    """Somebody at the browser, logged in as the operator."""

    def __init__(self, demo: Demo, url: str, password: str) -> None:
        self.demo = demo
        self.http = httpx.Client(base_url=url, follow_redirects=True, timeout=120, trust_env=False)
        self.accounts = {queue: Accounts(demo.redis(), queue) for queue in QUEUES}
        self._post("login/", self.http.get("login/").text, username="operator", password=password)
        assert "sessionid" in self.http.cookies or "paired_session" in self.http.cookies

    def _post(self, address: str, page: str, **fields: str) -> httpx.Response:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, page
        answer = self.http.post(
            address, data={"csrfmiddlewaretoken": token[1], **fields}, headers={"Referer": str(self.http.base_url)}
        )
        assert answer.status_code == 200, answer.text
        return answer

    def act(self, verb: str, **fields: str) -> None:
        """An operator's action, through the page that asks for a confirmation."""
        path = f"pairs/contoso/actions/{verb}/"
        self._post(path, self.http.get(path, params=fields).text, **fields)

    def demo_button(self, verb: str, path: str, how: str = "rejects") -> None:
        """Break or mend an entity, `*` the whole primary."""
        self._post(f"pairs/contoso/demo/{verb}/", self.http.get("pairs/contoso/").text, path=path, how=how)

    def try_channel(self, name: str) -> None:
        """The test button of a channel."""
        self._post(f"alerts/channels/{name}/test/", self.http.get("alerts/rules/").text)

    def kinds_of_events(self, entity: str, since: str) -> list[str]:
        """What the event page tells of an entity, oldest first."""
        rows = csv.DictReader(io.StringIO(self.http.get("events.csv", params={"entity": entity}).text))
        return [row["kind"] for row in sorted(rows, key=lambda row: row["time"]) if row["time"] >= since]

    def state_of(self, entity: str) -> str:
        """The state the fleet shares; healthy where nothing was ever heard."""
        reported = self.demo.redis().hget("pairing:{contoso}:health", entity)
        return str(json.loads(reported)["state"]) if reported else "healthy"

    def pings_of(self, entity: str) -> int:
        """How many pings the fleet has sent to it."""
        reported = self.demo.redis().hget("pairing:{contoso}:pings", entity)
        return int(json.loads(reported)["count"]) if reported else 0

    def slow_down(self, delay_s: float) -> None:
        """Every send to the primary takes so much longer, until everything is mended."""
        fault = {"operation": "send", "effect": "delay", "delay_s": delay_s}
        address = re.search(r"Endpoint=sb://([^;/]+)", self.demo.environment["CONTOSO_PRIMARY"])
        assert address
        answer = httpx.post(f"http://{address[1]}/$emulator/faults", json=fault, timeout=120, trust_env=False)
        assert answer.status_code < 300, answer.text

    def holder_of_the_leases(self) -> int | None:
        """The worker that moves the first backlog queue; None where none does."""
        owner = self.demo.redis().get("pairing:{contoso}:lease:contoso/x-servicebus-transfer/0")
        return int(owner.decode().split(":")[1]) if owner else None

    def kill_the_holder_of_the_leases(self, limit_s: float) -> int:
        """Kills one worker process, and never what is not one: os.kill(0) would end this run and whatever began it."""
        holder: int = eventually(self.holder_of_the_leases, limit_s, "a worker moves the first backlog queue")
        assert holder in self.demo.processes("celery")
        os.kill(holder, signal.SIGKILL)
        return holder
