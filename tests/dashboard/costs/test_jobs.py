"""Jobs of the pipeline as processes of their own."""

import sys
from typing import Any

import pytest

from dashboard.costs.prices import listed
from dashboard.costs.runs.jobs import JobFailed, run_job

TELLS = "import json, os; print(json.dumps({'stage': 'reported', **os.environ}))"
KEY = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=hunter2"


@pytest.fixture
def reported(tmp_path, monkeypatch) -> dict[str, Any]:
    """The environment of a job that was started among secrets."""
    secrets = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "DEMO_PASSWORD", "OIDC_CLIENT_SECRET", "METRICS_TOKEN")
    for name in (*secrets, "EMAIL_URL", "CHAT_URL"):
        monkeypatch.setenv(name, "hunter2")
    for name in ("CONTOSO_PRIMARY", "AZURE_SERVICEBUS"):
        monkeypatch.setenv(name, KEY)
    for name in ("AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "SPARK_MASTER"):
        monkeypatch.setenv(name, "for the job")
    (tmp_path / "tells.py").write_text(TELLS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[dict[str, Any]] = []
    run_job("tells", [], said.append)
    return said[0]


def test_a_job_knows_no_secret_but_the_keys_of_object_stores(reported):
    assert [name for name, value in reported.items() if "hunter2" in value] == []
    passed_on = {name for name, value in reported.items() if value == "for the job"}
    assert passed_on == {
        *("AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "SPARK_MASTER")
    }
    assert reported["PATH"]


def test_only_what_computes_needs_spark(monkeypatch, tmp_path):
    """The packages of the control plane come without it."""
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(name='pyspark')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(
        JobFailed, match=r"^PySpark is not installed: install paired-namespaces-control-plane\[pipeline\]"
    ):
        run_job("pipeline.jobs.charges", [], lambda said: None)
    assert listed("2026-02").currency == "USD"
