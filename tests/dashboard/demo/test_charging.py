"""The charges of the demo are computed while the dashboard serves, and the cost page says what happens."""

import subprocess
from datetime import UTC, datetime

import pytest

from dashboard.demo import charging
from dashboard.models import ChargeRun

NOW = datetime(2026, 11, 22, 18, 20, tzinfo=UTC)


@pytest.fixture
def computed(monkeypatch, settings, tmp_path):
    """The months that Spark would have computed."""
    (tmp_path / "usage" / "date=2026-11-01").mkdir(parents=True)
    (tmp_path / "usage" / "date=2026-11-01" / "part-1.parquet").touch()
    settings.USAGE_DIR, settings.SIMULATED_UNTIL = str(tmp_path), None
    months = []
    monkeypatch.setattr(charging, "compute_month", lambda request, run: months.append((request.month, run.month)))
    return months


def installing(monkeypatch, code):
    """Instead of the set-up: returns what the cost page shows meanwhile."""
    monkeypatch.setenv(charging.SPARK_LATER, "1")
    stages = []

    def run(command, **_):
        assert command[1:] == [str(charging.BASE_DIR / "tools" / "bootstrap.py"), "spark"]
        stages.extend(ChargeRun.objects.values_list("status", "stage"))
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(charging.subprocess, "run", run)
    return stages


@pytest.mark.django_db
def test_spark_is_installed_first_and_the_page_says_so(computed, monkeypatch):
    stages = installing(monkeypatch, 0)

    assert charging.compute(NOW) == "the charges of 2026-11 are computed"

    assert stages == [("running", charging.INSTALLING)]
    assert computed == [("2026-11", "2026-11")]


@pytest.mark.django_db
def test_a_spark_that_cannot_be_installed_is_the_error_of_every_run(computed, monkeypatch):
    installing(monkeypatch, 1)

    with pytest.raises(charging.ChargingError, match="could not be installed"):
        charging.compute(NOW)

    assert computed == []
    assert {(run.status, run.error[:29]) for run in ChargeRun.objects.all()} == {
        ("failed", "Spark could not be installed,")
    }


@pytest.mark.django_db
def test_with_spark_at_hand_nothing_is_installed_and_with_a_past_the_month_before_is_computed_too(
    computed, monkeypatch, settings
):
    installing(monkeypatch, 1)
    monkeypatch.delenv(charging.SPARK_LATER)
    settings.SIMULATED_UNTIL = NOW

    charging.compute(NOW)

    assert [month for month, _ in computed] == ["2026-11", "2026-10"]
