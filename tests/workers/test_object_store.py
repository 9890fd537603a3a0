"""Collector, compaction and Spark on a server that speaks the protocol of S3.

The server is moto's, installed into an environment of its own, or what S3_SERVER names; Spark's JARs are those of
`make object-stores`, in the cache of other installed programs.
"""

import hashlib
import json
import os
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

from pairing.telemetry.metering import CONNECTIONS, UsageRecord
from pipeline.usage.compaction import compact
from pipeline.usage.folder import UsageFolder
from pipeline.usage.listing import changed_days
from pipeline.usage.place import VARIABLE, without_keys
from pipeline.usage.table import DayTable
from tests.documented.blocks import ROOT
from tests.emulator.clients.installed import CACHE, install, made_once, python_with
from tests.ports import free_port
from tests.workers.test_usage import RECORD
from workers.usage import write

MOTO = "moto[server]>=5.1,!=5.2.1"
"""PyArrow takes the answer of 5.2.1 to the end of an upload for an error (getmoto/moto, issue 10055)."""
pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(1800)]
NOW = datetime.now(UTC)
DAY = (NOW - timedelta(days=3)).replace(hour=8, minute=0, second=0, microsecond=0)
FILES = 12


@pytest.fixture
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


def record(number: int) -> UsageRecord:
    return RECORD._replace(record_id=str(number), minute=DAY + timedelta(minutes=number))


def stored(url: str) -> tuple[list[str], list[str]]:
    """Record ids and file names in the store."""
    store, root = pafs.FileSystem.from_uri(url)
    table = ds.dataset(f"{root}/usage", filesystem=store, format="parquet").to_table(columns=["record_id"])
    files = store.get_file_info(pafs.FileSelector(f"{root}/usage", recursive=True))
    return sorted(table["record_id"].to_pylist()), [info.base_name for info in files if info.is_file]


def test_usage_is_written_and_compacted_in_an_object_store(url, tmp_path):
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


@pytest.fixture(scope="module")
def jars() -> str:
    """SPARK_JARS for stores, as the documented command installs them."""
    wanted = b"".join(path.read_bytes() for path in sorted((ROOT / "requirements/object-stores").iterdir()))
    folder = CACHE / f"jars-{hashlib.sha256(wanted).hexdigest()[:12]}"
    with made_once(folder) as fresh:
        if fresh is not None:
            install([sys.executable, str(ROOT / "tools/object_stores.py"), str(fresh)], fresh)
    return ",".join(str(path) for path in sorted(folder.iterdir()))


def charged(usage: str, result: Path, **variables: str) -> list[dict[str, object]]:
    """The records of the month's charges, as the control plane's job computes them."""
    job = ["-m", "pipeline.jobs.charges", "--month", f"{DAY:%Y-%m}", "--usage", usage, "--result", str(result)]
    environment = {**os.environ, **variables}
    command = [sys.executable, *job]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
    run, *records = [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines()]
    del run["counts"]["files"]  # one of the two places is compacted
    return [run, *records]


def sends(number: int, count: int) -> UsageRecord:
    entity = f"orders-{number % 3}"
    return record(number)._replace(entity=entity, operations=count, messages=count, billing_units=count)


@pytest.mark.spark
def test_a_month_in_an_object_store_costs_what_a_local_one_does(url, jars, tmp_path):
    usage = tmp_path / "usage"
    for number in range(FILES):
        peak = record(number)._replace(kind=CONNECTIONS, operations=2_000 + number)
        for place in (url, str(usage)):
            write([sends(number, 7_654_321), peak], place)
    assert compact(UsageFolder.of(url, {}), NOW) == 2 * FILES
    for place in (url, str(usage)):
        write([sends(0, 9_999_999)._replace(seq=2)], place)

    stored = charged(without_keys(url), tmp_path / "stored.jsonl", SPARK_JARS=jars, **{VARIABLE: url})

    assert stored == charged(str(usage), tmp_path / "local.jsonl")
    assert all(one["cents"] > 5_000 for one in stored if one["record"] == "invoice")
