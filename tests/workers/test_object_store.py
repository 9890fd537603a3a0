"""Collector, compaction and the check of the usage folder on a server that speaks the protocol of S3.

The server is moto's, installed into an environment of its own, or what S3_SERVER names. Spark's own connector to such
a store is not tried here (docs/costs.md).
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pytest

from dashboard.checks import usage_folder
from dashboard.checks.findings import Level
from pairing.telemetry.metering import UsageRecord
from pipeline.usage.compaction import compact
from pipeline.usage.folder import UsageFolder
from pipeline.usage.listing import changed_days
from pipeline.usage.table import DayTable
from tests.emulator.clients.installed import python_with
from tests.ports import free_port
from tools.build_packages import ROOT
from workers.usage import write

MOTO = "moto[server]>=5.1,!=5.2.1"
"""PyArrow takes the answer of 5.2.1 to the end of an upload for an error (getmoto/moto, issue 10055)."""
pytestmark = [pytest.mark.nightly, pytest.mark.slow]
NOW = datetime.now(UTC)
DAY = (NOW - timedelta(days=3)).replace(hour=8, minute=0, second=0, microsecond=0)
FILES = 12


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A USAGE_DIR in a bucket of its own."""
    server = os.environ.get("S3_SERVER") or Path(python_with(MOTO)).with_name("moto_server")
    port = free_port()
    with (tmp_path_factory.mktemp("store") / "log").open("wb") as log:
        process = subprocess.Popen([server, "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log)
        try:
            until_it_answers(port, process)
            options = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_bucket_creation=true"
            store, bucket = pafs.FileSystem.from_uri(f"s3://key:secret@usage-of-contoso?{options}")
            store.create_dir(bucket)
            yield f"s3://key:secret@{bucket}/metering?{options}"
        finally:
            process.terminate()
            process.wait(60)


def until_it_answers(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while True:
        with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{port}/", timeout=60):
            return
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)  # between two looks


def record(number: int, seq: int = 1) -> UsageRecord:
    return UsageRecord(
        record_id=str(number),
        minute=DAY + timedelta(minutes=number),
        scope="sub",
        pair="contoso",
        namespace="contoso",
        entity="orders",
        kind="send",
        reporter="host:1",
        seq=seq,
        operations=1,
        messages=1,
        bytes=256,
        billing_units=1,
    )


def stored(url: str) -> tuple[list[str], list[str]]:
    """Record ids and file names in the store."""
    store, root = pafs.FileSystem.from_uri(url)
    table = ds.dataset(f"{root}/usage", filesystem=store, format="parquet").to_table(columns=["record_id"])
    files = store.get_file_info(pafs.FileSelector(f"{root}/usage", recursive=True))
    return sorted(table["record_id"].to_pylist()), [info.base_name for info in files if info.is_file]


def test_usage_is_written_and_compacted_in_an_object_store(url: str, tmp_path: Path) -> None:
    for number in range(FILES):
        write([record(number)], url)
    expected = sorted(str(number) for number in range(FILES))
    assert (stored(url)[0], len(stored(url)[1])) == (expected, FILES)
    folder = UsageFolder.of(url, {})
    assert changed_days(folder, DayTable.of(tmp_path, folder.url)) == [f"{DAY:%Y-%m-%d}"]

    assert compact(folder, NOW) == FILES

    ids, files = stored(url)
    assert ids == expected
    assert [name.partition("-")[0] for name in files] == ["compact"]


def test_the_check_writes_a_file_and_leaves_nothing(url: str, settings: object) -> None:
    settings.USAGE_DIR = url  # type: ignore[attr-defined]
    found, spark = usage_folder.probe()
    assert (found.level, spark.level) == (Level.OK, Level.WARNING)
    assert "no connector for it (org.apache.hadoop:hadoop-aws:" in spark.cause
    assert "secret" not in f"{found} {spark}"
    store, root = pafs.FileSystem.from_uri(url)
    left = store.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    assert not [info for info in left if info.is_file]


def checked(url: str, state: Path) -> tuple[str, str]:
    """Level and cause of the usage folder, as the command prints them."""
    printed = subprocess.run(
        [sys.executable, "manage.py", "check", "--environment", "--json"],
        cwd=ROOT,
        env={**os.environ, "USAGE_DIR": url, "STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "secret" not in printed.stdout + printed.stderr
    found = next(one for one in json.loads(printed.stdout)["findings"] if one["item"] == "usage folder")
    return found["level"], found["cause"]


def test_the_command_names_what_the_store_answers(url: str, tmp_path: Path) -> None:
    assert checked(url, tmp_path) == ("ok", "s3://…: a file was written and deleted.")

    level, cause = checked(
        url.replace("usage-of-contoso", "bucket-of-nobody").replace("&allow_bucket_creation=true", ""), tmp_path
    )
    assert (level, "NO_SUCH_BUCKET" in cause) == ("problem", True), cause

    level, cause = checked(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", url), tmp_path)
    assert (level, "NETWORK_CONNECTION" in cause) == ("problem", True), cause


def test_a_store_that_is_away_is_a_problem_without_a_secret(settings: object) -> None:
    away = f"scheme=http&endpoint_override=127.0.0.1:{free_port()}&region=us-east-1"
    settings.USAGE_DIR = f"s3://key:secret@usage-of-contoso/metering?{away}"  # type: ignore[attr-defined]
    (found,) = usage_folder.probe()
    assert found.level == Level.PROBLEM
    assert "secret" not in f"{found}"
