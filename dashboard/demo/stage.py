"""The demo's options, its folder, and the environment of its processes."""

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from dashboard.demo import guardian
from dashboard.demo.configuration import demo_prices
from dashboard.demo.history.scenery import LIVE, LIVE_PAIR
from dashboard.demo.processes import DemoError
from dashboard.site.environment import Environment
from dashboard.site.places import BASE_DIR, CODE_DIR

HOST = "127.0.0.1"
PAIR = LIVE_PAIR
PRIMARY = LIVE_PAIR
QUEUES = LIVE
USER = "operator"
SAMPLE_PRICES = CODE_DIR / "pipeline" / "data" / "prices-sample.json"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The DEMO_… variables. Raises DemoError for invalid values."""

    port: int
    seconds: int | None
    folder: Path
    password: str = field(repr=False)
    has_history: bool = True
    has_gateway: bool = False

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] | None = None) -> "DemoOptions":
        """The options, from the environment."""
        reported = Environment(variables)
        try:
            return cls(
                port=reported.whole("DEMO_PORT", 8000, least=1, most=65535),
                seconds=reported.whole("DEMO_SECONDS", 0, least=0, most=10**9)
                if reported.text("DEMO_SECONDS", "")
                else None,
                folder=reported.path("DEMO_DIR", BASE_DIR / ".demo").absolute(),
                password=reported.text("DEMO_PASSWORD", "") or secrets.token_urlsafe(9),
                has_history=reported.flag("DEMO_HISTORY", True),
                has_gateway=reported.flag("DEMO_GATEWAY", False),
            )
        except ImproperlyConfigured as error:
            raise DemoError(str(error)) from None


class Stage:
    """The folder of one run, emptied of earlier runs, and the settings of its processes."""

    def __init__(self, options: DemoOptions) -> None:
        self.options = options
        self.run_id = secrets.token_hex(8)
        self.state = options.folder / "state"
        self.logs = options.folder / "logs"
        self.temporary = options.folder / "temporary"
        self.usage = self.state / "metering"
        self.packages = options.folder / "javascript"  # kept for the next run
        self.begun_at = datetime.now(UTC).replace(second=0, microsecond=0)
        self._variables: dict[str, str] = {}

    @property
    def marker(self) -> str:
        """The marker in the environment of all processes of this run."""
        return f"{guardian.DEMO}={self.run_id}"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.options.port}/"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Lock the folder for this run, and empty it."""
        folder = self.options.folder
        lock = folder / "demo.lock"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not lock.exists() and any(folder.iterdir()):
            raise DemoError(f"DEMO_DIR is {folder}, which holds other files: name an empty folder.")
        with lock.open("a") as held:
            self._lock(held.fileno())
            for old in (self.state, self.logs, self.temporary):
                shutil.rmtree(old, ignore_errors=True)
                old.mkdir(mode=0o700)
            yield

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"Another demo is running in {self.options.folder}: stop it, or set DEMO_DIR to another folder."
            ) from None

    def write(self, name: str, text: str) -> Path:
        """Write a file to the state folder that only its owner can read."""
        path = self.state / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return path

    def write_prices(self) -> None:
        """With a simulated past: prices at which an incident costs something."""
        if self.options.has_history:
            prices = self.write("prices.json", demo_prices(SAMPLE_PRICES.read_text(encoding="utf-8")))
            self.export(PRICES_FILE=str(prices), PRICES_REGION="")

    def export(self, **variables: str) -> None:
        """Add variables to the environment of processes started from now on."""
        self._variables |= variables

    def environment(self) -> dict[str, str]:
        """The environment of a process of the demo: the host's, overridden by the demo's own variables."""
        ours = self.own_environment()
        hidden = ("DEMO_PASSWORD", *(f"{name}_FILE" for name in ours))
        return os.environ | dict.fromkeys(hidden, "") | ours

    def own_environment(self) -> dict[str, str]:
        """The complete configuration, so that no setting of the host or of a .env file leads to real namespaces."""
        return {
            "STATE_DIR": str(self.state),
            "TMPDIR": str(self.temporary),  # what a process leaves that is killed is gone with the next demo
            "DATABASE_URL": f"sqlite:///{self.state / 'control-plane.sqlite3'}",
            "PAIRS_FILE": str(self.state / "pairs.toml"),
            "USAGE_DIR": str(self.usage),
            "SECRET_KEY": "",
            "ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
            "CSRF_TRUSTED_ORIGINS": "",
            "HTTPS": "0",
            "DEBUG": "0",
            "DEMO": "1",
            "SAMPLE_INTERVAL_S": "5",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "SIMULATED_UNTIL": self.begun_at.isoformat() if self.options.has_history else "",
            guardian.DEMO: self.run_id,
            **self._variables,
        }


@contextlib.contextmanager
def reserved_port(port: int = 0) -> Iterator[int]:
    """Hold a port for a server that starts later, or any free one for 0. Raises DemoError if the port is in use.

    The socket is bound and does not listen: the system gives its port to nobody who asks for any free port, and a
    server that asks for this one gets it, since both have SO_REUSEADDR (as uvicorn and redis-server have).
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((HOST, port))
        except OSError:
            raise DemoError(
                f"Port {port} is in use or not allowed: stop what listens there, or choose another with DEMO_PORT=8001."
            ) from None
        yield int(held.getsockname()[1])


def python(*arguments: str) -> tuple[str, ...]:
    """The command of the current Python interpreter."""
    return (sys.executable, *arguments)
