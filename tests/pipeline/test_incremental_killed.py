"""An incremental run that is killed while it writes what it keeps: the next comes to what a full run comes to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.schemas import USAGE
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import MILLION, computed, record
from tests.pipeline.test_incremental import month

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.nightly
@pytest.mark.parametrize("rows", ["few", "many"])
def test_a_run_killed_while_it_writes_is_not_believed(
    spark: SparkSession, usage: Path, write: Write, rows: str
) -> None:
    write(month(1), USAGE)
    before = computed(spark, usage, incremental=True)
    write([record("more", month(2)[0]["minute"], units=MILLION)], USAGE)  # type: ignore[arg-type]
    job = [sys.executable, "-m", "tests.pipeline.killed_run", str(usage), rows]
    killed = subprocess.run(job, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    after = computed(spark, usage, incremental=True)
    assert after.counts.accepted == before.counts.accepted + 1
    assert after == computed(spark, usage)
