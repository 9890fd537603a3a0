"""A control plane as it is deployed: migrated, served by uvicorn, with a Redis and two local namespaces of its own."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from redis import Redis

from emulator.running import running
from tests import forked, migrated

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a-password-for-this-test"
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", region = "westeurope" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr", region = "northeurope" }
failover_interval_s = 5
ping_primary_interval_s = 2
entities = ["orders", "payments", "topic:shipments/eu-west"]
"""
DATABASE = "control-plane.sqlite3"
SETTINGS = "tests.dashboard.served_settings"
SYNC = "from django.core.management import call_command; call_command('sync_pairs')"
BEGIN = """
import contextlib, threading
import django
django.setup()
from django.db import DatabaseError
from django.utils import timezone
from dashboard.fleet.state import projection
from workers import collectors
"""
COLLECT = """
stop = threading.Event()
def beat():
    while not stop.wait(2):
        with contextlib.suppress(DatabaseError):  # the next one comes in two seconds
            projection.record_heartbeat("host:1:aaaa", "pings", timezone.now())
threading.Thread(target=beat, daemon=True).start()
print("collecting", flush=True)
collectors.collect_health(stop)
"""
SEED = f"""
from django.contrib.auth.models import Group, User
from django.utils import timezone
from dashboard.fleet.state import projection
for name in ("viewer", "operator", "administrator"):
    User.objects.create_user(name, password="{PASSWORD}").groups.add(Group.objects.get(name=name))
projection.record_heartbeat("host:1:aaaa", "pings", timezone.now())
"""


@contextmanager
def namespaces() -> Iterator[dict[str, str]]:
    """Connection strings of the two local namespaces, by the variable that holds them."""
    with running("contoso", "contoso-dr", entities=["contoso/orders", "contoso/payments"]) as both:
        strings = [both[name].connection_string for name in ("contoso", "contoso-dr")]
        yield dict(zip(("CONTOSO_PRIMARY", "CONTOSO_SECONDARY"), strings, strict=True))


@contextmanager
def served(folder: Path, redis_url: str, port: int) -> Iterator[str]:
    """The address of a control plane with the people viewer, operator and administrator, and namespaces of its own."""
    with namespaces() as strings, serve(folder, environment_of(folder, strings, redis_url), port) as address:
        yield address


def environment_of(folder: Path, strings: Mapping[str, str], redis_url: str) -> dict[str, str]:
    """What the processes of a control plane know, for namespaces that are there already."""
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **strings,
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "STATE_DIR": str(folder / "state"),
        "PAIRS_FILE": str(folder / "pairs.toml"),
        "REDIS_URL": redis_url,
        "DEMO": "1",
        "LOG_LEVEL": "WARNING",
    }


@contextmanager
def serve(folder: Path, environment: Mapping[str, str], port: int, more: str = "") -> Iterator[str]:
    """The same, with this environment, and with what this code adds before anybody is served."""
    (folder / "pairs.toml").write_text(PAIRS)
    with Redis.from_url(environment["REDIS_URL"]) as client:
        client.flushall()  # what tests before this one have said of these entities is not true of this site
    migrated.copy(Path(environment["STATE_DIR"]) / DATABASE)
    with _collector(environment, f"{SYNC}\n{SEED}\n{more}"), _web(environment, port) as address:
        yield address


@contextmanager
def _collector(environment: Mapping[str, str], first: str) -> Iterator[None]:
    """What a worker does all the time: changes of health are written into the database, and open pages woken.

    The same process first adds what the site begins with: one less that imports all of the control plane.
    """
    with _started(("-c", "\n".join((BEGIN, first, COLLECT))), environment, says_on=1) as lines:
        assert "collecting\n" in lines  # what the other code prints comes before it
        yield


@contextmanager
def _web(environment: Mapping[str, str], port: int) -> Iterator[str]:
    command = ("-m", "uvicorn", "dashboard.asgi:application", "--port", str(port))
    with _started((*command, "--timeout-graceful-shutdown", "2"), environment, says_on=2) as lines:
        _await_running(lines)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _started(words: Sequence[str], environment: Mapping[str, str], says_on: int) -> Iterator[TextIO]:
    """A process that is ended afterwards: the lines that it writes to standard output (1) or error (2)."""
    reading, writing = os.pipe()
    out, err = (writing if number == says_on else number for number in (1, 2))
    try:
        process = forked.start(words, environment, out, err)
    finally:
        os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as lines:
        try:
            yield lines
        finally:
            process.terminate()
            process.wait(60)


def _await_running(lines: TextIO) -> None:
    log = []
    for line in lines:
        log.append(line)
        if "Uvicorn running" in line:
            return
    raise AssertionError("the web process ended:\n" + "".join(log))
