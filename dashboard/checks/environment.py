"""Probes of what the control plane itself needs: settings, Redis, database, clocks, workers, folders, Java."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.checks import ERROR, CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils import timezone

from dashboard.alerts.sending.config import load_channels
from dashboard.checks import usage_folder
from dashboard.checks.clocks import clock_finding
from dashboard.checks.findings import Finding, ok, problem, warning
from dashboard.checks.side_by_side import Probe
from dashboard.costs.runs.inputs import DEFAULT_PRICES, configured_prices
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.pairs.pairs_file import load_pairs, require_connection_strings, require_two_namespaces
from dashboard.fleet.state.status import is_silent
from dashboard.site import redis
from dashboard.site.database import problem_now
from pairing.fleet.clock import FleetClock

OLDEST_REDIS = (6, 2)
_START_WORKER = "Start `worker` and `beat`, with the same settings as here."
_START_REDIS = "Start Redis, or correct REDIS_URL."
_JAVA_S = 8.0


def probes() -> dict[str, Probe]:
    """Every probe of this module that waits for something, by item."""
    return {
        "pairs file": pairs_probe,
        "prices": prices_probe,
        "channels": channels_probe,
        "redis": redis_probe,
        "database": database_probe,
        "workers": workers_probe,
        "usage folder": usage_folder.probe,
        "java": java_probe,
    }


def settings_findings() -> Sequence[Finding]:
    """Django's checks, those of a deployment included if HTTPS is expected; the values themselves were read.

    They load all pages and wait for nothing, so they are no probe with a time limit.
    """
    messages = run_checks(include_deployment_checks=settings.HTTPS)
    found = [_of_django(message) for message in messages if not message.is_silenced()]
    if settings.DEBUG:
        found.append(warning("settings", "DEBUG is on: errors show code and settings.", "Unset DEBUG in production."))
    if settings.DEMO:
        found.append(warning("settings", "DEMO is on.", "Unset DEMO unless this is the demo."))
    return found or [ok("settings", "All settings can be read.")]


def _of_django(message: CheckMessage) -> Finding:
    make = problem if message.level >= ERROR else warning
    return make("settings", f"{message.id}: {message.msg}", message.hint or "See Django's documentation of this id.")


def pairs_probe() -> Sequence[Finding]:
    """PAIRS_FILE and the variables with connection strings."""
    try:
        pairs = load_pairs()
        require_connection_strings(pairs.values())
        for pair in pairs.values():
            require_two_namespaces(pair)
    except ImproperlyConfigured as error:
        return [problem("pairs file", str(error), "See docs/contract.md, section 3.")]
    return [ok("pairs file", f"{settings.PAIRS_FILE}: {', '.join(pairs)}.")]


def channels_probe() -> Sequence[Finding]:
    """CHANNELS_FILE; without one, alerts are shown on pages only."""
    try:
        channels = load_channels()
    except ImproperlyConfigured as error:
        return [problem("channels", str(error), "See docs/alerts.md.")]
    if not channels and settings.CHANNELS_FILE != settings.BASE_DIR / "channels.toml":
        return [problem("channels", f"{settings.CHANNELS_FILE}: there is no such file.", "Correct CHANNELS_FILE.")]
    if not channels:
        remedy = "Write CHANNELS_FILE, unless somebody watches the pages."
        return [warning("channels", "No channel is configured, so nobody is notified of an alert.", remedy)]
    if not settings.PUBLIC_URL:
        return [warning("channels", "Notifications have no link.", "Set PUBLIC_URL to the address that people open.")]
    return [ok("channels", f"{', '.join(channels)}.")]


def prices_probe() -> Sequence[Finding]:
    """PRICES_FILE: whether costs are those of a real price list."""
    path = configured_prices()
    if not path:
        remedy = f"Store the prices of your region in {DEFAULT_PRICES}, or set PRICES_FILE (docs/pricing.md)."
        return [warning("prices", "Costs are computed with the bundled sample list.", remedy)]
    try:
        with open(path, encoding="utf-8") as file:
            rows = len(json.load(file)["Items"])
    except OSError as error:
        return [problem("prices", f"{path} cannot be read: {error.strerror}.", "Correct PRICES_FILE.")]
    except (ValueError, LookupError, TypeError, RecursionError):
        remedy = "Store the unchanged response of the Retail Prices API."
        return [problem("prices", f"{path} is not a response of the Retail Prices API.", remedy)]
    return [ok("prices", f"{path}: {rows:,} rows.")]


def redis_probe() -> Sequence[Finding]:
    """Whether Redis answers, with the version, durability and memory policy that docs/production.md asks for."""
    client = redis.connection()
    clock = FleetClock()
    try:
        client.ping()
        for _ in range(3):
            clock.look(lambda: _time_of(client.time()))
        return [*redis_findings(client.info()), clock_finding("clock of redis", clock.ahead_s)]
    except redis.RedisError as error:
        return [problem("redis", f"Redis does not answer ({type(error).__name__}).", _START_REDIS)]


def _time_of(answer: Any) -> datetime:
    seconds, micros = answer
    return datetime.fromtimestamp(int(seconds) + int(micros) / 1e6, UTC)


def redis_findings(info: Mapping[str, Any]) -> list[Finding]:
    """The findings from its INFO. Pure."""
    version = str(info.get("redis_version", "0.0"))
    found = []
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_REDIS:
        found.append(problem("redis", f"Version {version} is too old.", "Use version 6.2 or later."))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        cause = f"maxmemory-policy is {policy}: evicted keys are lost tasks and leases."
        found.append(warning("redis", cause, "Set it to noeviction."))
    if not info.get("aof_enabled"):
        cause = "appendonly is off: a restart loses tasks, events and usage that are not stored yet."
        found.append(warning("redis", cause, "Set appendonly to yes."))
    return found or [ok("redis", f"Version {version}, durable, without eviction.")]


def database_probe() -> Sequence[Finding]:
    """Whether the database answers and is migrated, and its clock where it is another host's."""
    if reason := problem_now():
        return [problem("database", reason, "")]
    if connection.vendor == "sqlite":
        return [ok("database", "SQLite, migrated; for one host.")]
    clock = FleetClock()
    for _ in range(3):
        clock.look(_now_of_the_database)
    return [ok("database", f"{connection.display_name}, migrated."), clock_finding("clock of database", clock.ahead_s)]


def _now_of_the_database() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found


def workers_probe() -> Sequence[Finding]:
    """Whether a worker has sent a heartbeat lately. Without the database nothing is known."""
    if problem_now():
        return [problem("workers", "Not known without the database.", "Correct the database first.")]
    seen = last_heartbeat()
    if not is_silent(seen, timezone.now()):
        return [ok("workers", "A worker has sent a heartbeat.")]
    since = f"since {seen:%Y-%m-%d %H:%M:%S} UTC" if seen else "at any time"
    return [problem("workers", f"No worker has sent a heartbeat {since}.", _START_WORKER)]


def java_probe() -> Sequence[Finding]:
    """Whether charges can be computed here; the pipeline looks itself, in a process of its own."""
    command = (sys.executable, "-m", "pipeline.java")
    try:
        ran = subprocess.run(
            command, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=_JAVA_S, check=False
        )
        found = json.loads(ran.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return [warning("java", "Whether Spark can run is not known.", "Run `python -m pipeline.java`.")]
    if "error" in found:
        return [warning("java", str(found["error"]), "Only needed where charges are computed.")]
    return [ok("java", f"Version {found['java']}, and PySpark is installed.")]
