"""Jobs of the pipeline as processes of their own."""

import sys

import pytest

from dashboard.costs.prices import listed
from dashboard.costs.runs.jobs import JobFailed, run_job


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
