"""`check --environment`: one line for each item, with a cause and a remedy, without waiting and without secrets."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from dashboard.checks import environment, usage_folder
from dashboard.checks.clocks import ahead_of_date, clock_finding
from dashboard.checks.findings import Finding, Level, document, lines, ok, problem, status_of, warning
from dashboard.checks.side_by_side import findings_of
from dashboard.fleet.state import projection
from tests.dashboard.site.test_settings import run

KEY = "hunter2hunter2hunter2"
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
"""
NOBODY = f"Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=K;SharedAccessKey={KEY};UseDevelopmentEmulator=true;"


def levels(found: Any) -> dict[str, str]:
    """The worst level of each item."""
    order = list(Level)
    worst: dict[str, Level] = {}
    for finding in found:
        worst[finding.item] = max(worst.get(finding.item, Level.OK), finding.level, key=order.index)
    return {item: str(level) for item, level in worst.items()}


def test_a_pair_of_one_namespace_is_a_problem_of_the_pairs_file(
    settings: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(PAIRS.replace('"CONTOSO_PRIMARY"', '"CONTOSO_PRIMARY", namespace = "contoso"'))
    monkeypatch.setenv("CONTOSO_PRIMARY", NOBODY)
    monkeypatch.setenv("CONTOSO_SECONDARY", NOBODY)
    (found,) = environment.pairs_probe()
    assert (found.item, found.level) == ("pairs file", Level.PROBLEM)
    assert "the same namespace, 127.0.0.1:1" in found.cause
    monkeypatch.setenv("CONTOSO_SECONDARY", NOBODY.replace(":1;", ":2;"))
    assert [one.level for one in environment.pairs_probe()] == [Level.OK]


def test_no_channels_are_a_warning_but_a_named_file_that_is_missing_a_problem(settings: Any, tmp_path: Path) -> None:
    settings.BASE_DIR, settings.CHANNELS_FILE = tmp_path, tmp_path / "channels.toml"
    (found,) = environment.channels_probe()
    assert (found.level, found.cause) == (
        Level.WARNING,
        "No channel is configured, so nobody is notified of an alert.",
    )
    settings.CHANNELS_FILE = tmp_path / "chanels.toml"
    (found,) = environment.channels_probe()
    assert (found.level, found.remedy) == (Level.PROBLEM, "Correct CHANNELS_FILE.")
    assert "chanels.toml: there is no such file" in found.cause


# -- output ------------------------------------------------------------------------------------------------------------


def test_only_a_problem_sets_the_exit_status() -> None:
    assert status_of([ok("a", "x"), warning("b", "y", "z")]) == 0
    assert status_of([ok("a", "x"), problem("b", "y", "z")]) == 1


def test_a_finding_is_one_line_with_cause_and_remedy() -> None:
    printed = lines([ok("redis", "It answers."), problem("database", "It is\naway.", "Start it.")])

    assert printed == [
        "ok       redis     It answers.",
        "problem  database  It is away. Start it.",
        "1 ok, 0 warning, 1 problem",
    ]


def test_the_document_says_the_same() -> None:
    assert document([warning("a", "b", "c")]) == {
        "is_complete": True,
        "findings": [{"item": "a", "level": "warning", "cause": "b", "remedy": "c"}],
    }


# -- probes side by side -----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_probe_that_hangs_is_a_problem_and_is_not_waited_for() -> None:
    ended = threading.Event()
    try:
        (found,) = findings_of({"slow": lambda: [ok("slow", str(ended.wait(600)))]}, 0.05)
    finally:
        ended.set()

    assert found.level is Level.PROBLEM
    assert "did not answer" in found.cause


@pytest.mark.django_db
def test_probes_run_side_by_side_and_are_reported_in_order() -> None:
    second_ran = threading.Event()

    def first() -> list[Finding]:
        return [ok("first", str(second_ran.wait(60)))]

    def second() -> list[Finding]:
        second_ran.set()
        return [ok("second", "")]

    found = findings_of({"first": first, "second": second}, 120.0)

    assert [(finding.item, finding.cause) for finding in found] == [("first", "True"), ("second", "")]


@pytest.mark.django_db
def test_what_a_probe_raises_is_a_problem_without_secrets() -> None:
    def fails() -> list[Finding]:
        raise OSError(f"cannot use redis://:{KEY}@host/0 or SharedAccessKey={KEY};")

    (found,) = findings_of({"it": fails}, 60.0)

    assert found.level is Level.PROBLEM
    assert "cannot use" in found.cause
    assert KEY not in found.cause


# -- single items ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "7.2.4", "maxmemory_policy": "noeviction", "aof_enabled": 1}, "ok"),
        ({"redis_version": "7.2.4", "maxmemory_policy": "allkeys-lru", "aof_enabled": 1}, "warning"),
        ({"redis_version": "7.2.4", "maxmemory_policy": "noeviction", "aof_enabled": 0}, "warning"),
        ({"redis_version": "6.0.16", "maxmemory_policy": "noeviction", "aof_enabled": 1}, "problem"),
        ({"redis_version": "6.2", "maxmemory_policy": "noeviction", "aof_enabled": 1}, "ok"),
    ],
)
def test_redis_has_to_be_durable_and_recent_enough(info: dict[str, Any], level: str) -> None:
    assert levels(environment.redis_findings(info)) == {"redis": level}


@pytest.mark.parametrize(
    ("ahead_s", "level"), [(0.0, "ok"), (-0.9, "ok"), (1.5, "warning"), (-4.9, "warning"), (6.0, "problem")]
)
def test_a_clock_is_judged_by_the_limits_of_readiness(ahead_s: float, level: str) -> None:
    assert clock_finding("clock", ahead_s).level == level


@pytest.mark.parametrize(
    ("date_s", "ahead_s"),
    [
        (100, 0.0),
        (101, 0.0),  # the answer came at 101.5
        (99, -0.0),  # and was 99.999 when asked at 100
        (98, 1.0),
        (104, -2.5),
    ],
)
def test_whole_seconds_of_a_date_are_no_difference(date_s: int, ahead_s: float) -> None:
    start = datetime(2026, 11, 2, tzinfo=UTC)
    asked, answered = start + timedelta(seconds=100), start + timedelta(seconds=101.5)

    assert ahead_of_date(start + timedelta(seconds=date_s), asked, answered) == ahead_s


@pytest.mark.parametrize(
    ("mode", "free", "level"),
    [
        (0o40700, 10**11, "ok"),
        (0o40755, 10**11, "warning"),
        (0o40777, 10**11, "problem"),
        (0o40700, 10**9, "warning"),
        (0o40700, 10**7, "problem"),
    ],
)
def test_the_usage_folder_is_private_and_has_room(mode: int, free: int, level: str) -> None:
    assert levels(usage_folder.judged(Path("usage"), mode, free)) == {"usage folder": level}


def test_a_usage_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with override_settings(USAGE_DIR=str(tmp_path / "file" / "usage")):
        (found,) = usage_folder.probe()

    assert found.level is Level.PROBLEM
    assert "cannot be written" in found.cause


def test_nothing_is_left_in_the_usage_folder(tmp_path: Path) -> None:
    for where in (str(tmp_path), f"file://{tmp_path}"):
        with override_settings(USAGE_DIR=where):
            assert usage_folder.probe()[0].level is not Level.PROBLEM
    assert not list(tmp_path.iterdir())


@pytest.mark.django_db
def test_workers_without_a_heartbeat_are_a_problem() -> None:
    assert levels(environment.workers_probe()) == {"workers": "problem"}

    projection.record_heartbeat("host:1:aaaa", "pings", timezone.now())
    assert levels(environment.workers_probe()) == {"workers": "ok"}


@pytest.mark.django_db
def test_a_migrated_database_is_ok() -> None:
    assert levels(environment.database_probe())["database"] == "ok"


def test_redis_is_looked_at_with_its_clock(redis_here) -> None:
    found = levels(environment.redis_probe())

    assert found["redis"] != "problem"
    assert found["clock of redis"] == "ok"


def test_redis_that_is_away_is_a_problem(redis_away) -> None:
    assert levels(environment.redis_probe()) == {"redis": "problem"}


@pytest.mark.parametrize(
    ("content", "level"), [('{"Items": [{}]}', "ok"), ("[]", "problem"), ("{", "problem"), (None, "problem")]
)
def test_a_price_list_that_cannot_be_read_is_a_problem(tmp_path: Path, content: str | None, level: str) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_text(content)
    with override_settings(PRICES_FILE=file):
        assert levels(environment.prices_probe()) == {"prices": level}


# -- the command -------------------------------------------------------------------------------------------------------


def test_everything_that_an_environment_lacks_is_reported(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(PAIRS)
    ran = run(
        tmp_path,
        "manage.py check --environment --json",
        PAIRS_FILE=str(tmp_path / "given.toml"),
        REDIS_URL=f"redis://:{KEY}@127.0.0.1:1/0",
        CONTOSO_PRIMARY=NOBODY,
        CONTOSO_SECONDARY=NOBODY,
    )

    assert ran.returncode == 1, ran.stderr
    assert KEY not in ran.stdout + ran.stderr
    found = [Finding(**each) for each in json.loads(ran.stdout)["findings"]]
    problems = {item for item, level in levels(found).items() if level == "problem"}
    assert problems >= {"redis", "database", "workers", "contoso primary", "contoso secondary"}
    assert levels(found)["settings"] == "ok"
    assert all(finding.remedy or "run manage.py migrate" in finding.cause for finding in found if finding.level != "ok")
