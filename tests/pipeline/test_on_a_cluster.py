"""A standalone master with two workers computes what a local run does, to the last digit (docs/costs.md, On a cluster).

Master, workers and drivers are processes with addresses of their own on the loopback.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyspark
import pytest

from pipeline.java import require_java
from pipeline.schemas import USAGE
from tests.documented.blocks import ROOT, block
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, record
from tests.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800)]
HOME = Path(pyspark.__file__).parent
MASTER, WORKERS, DRIVER = "127.0.0.1", ("127.0.0.2", "127.0.0.3"), "127.0.0.4"
DEPLOY = "org.apache.spark.deploy"
PATIENCE_S = 1_200
ROWS, DAYS = 3_000, 4


@dataclass(frozen=True, slots=True)
class Cluster:
    """`folder` has a log for each process, and what the executors write."""

    url: str
    folder: Path

    def executors(self, since: int) -> set[str]:
        """The workers that have started an executor for an application after the first ones."""
        text = (self.folder / "master.log").read_text()
        started = re.findall(r"Launching executor app-\d+-(\d+)/\d+ on worker worker-\d+-([\d.]+)-", text)
        return {worker for application, worker in started if int(application) >= since}

    def applications(self) -> int:
        return len(re.findall(r"Registered app ", (self.folder / "master.log").read_text()))


def environment(**more: str) -> dict[str, str]:
    """What a process gets: no setting of Spark but these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {**inherited, "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, **more}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_java()
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    found = Cluster(f"spark://{MASTER}:{port}", folder)
    with ExitStack() as ending:
        serve(ending, folder / "master.log", "master.Master", "--host", MASTER, "--port", str(port))
        for worker in WORKERS:
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / worker), "--host", worker]
            serve(ending, folder / f"{worker}.log", "worker.Worker", *options, found.url)
        registered = f"{found.folder}/master.log"
        until(lambda: Path(registered).read_text().count("Registering worker") == len(WORKERS), "two workers")
        yield found


def serve(ending: ExitStack, log: Path, program: str, *arguments: str) -> None:
    command = [str(HOME / "bin/spark-class"), f"{DEPLOY}.{program}", *arguments, "--webui-port", str(free_port())]
    output = ending.enter_context(log.open("wb"))
    process = subprocess.Popen(command, env=environment(), stdout=output, stderr=output)
    ending.callback(process.wait, 60)
    ending.callback(process.terminate)


def until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)  # between two looks


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days with copies, of several entities, that reach into the second tier."""
    folder, random = tmp_path_factory.mktemp("usage"), Random(19)
    rows = []
    for number in range(ROWS):
        minute = OCTOBER.start + timedelta(minutes=random.randrange(DAYS * 24 * 60))
        units = random.randrange(20_000)
        entity, kind = random.choice(["orders", "payments", "news"]), random.choice(["send", "receive", "settle"])
        row = record(str(number), minute, kind=kind, entity=entity)
        rows.append(row | {"operations": units, "billing_units": units})
    rows += random.sample(rows, ROWS // 100)
    for day in {row["minute"].date() for row in rows}:
        its_rows = [row for row in rows if row["minute"].date() == day]
        write_table(folder / "usage" / f"date={day}" / "part-0.parquet", its_rows, USAGE)
    return folder


def result(command: list[str], file: Path, **variables: str) -> list[dict[str, Any]]:
    """The records of a run."""
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(**variables), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def job(usage: Path, file: Path) -> list[str]:
    return ["--month", "2026-10", "--usage", str(usage), "--result", str(file)]


@pytest.fixture(scope="module")
def here(usage: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a local run computes."""
    file = tmp_path_factory.mktemp("local") / "result.jsonl"
    found = result([sys.executable, "-m", "pipeline.jobs.charges", *job(usage, file)], file)
    (invoice,) = [one for one in found if one.get("record") == "invoice" and one["rule"] == "settlements"]
    assert invoice["cents"] > 1_000, "nothing beyond the included operations: the tiers were not tried"
    return found


def test_spark_master_names_the_cluster_for_the_job_of_the_control_plane(
    cluster: Cluster, usage: Path, here: list[dict[str, Any]], tmp_path: Path
) -> None:
    file, before = tmp_path / "result.jsonl", cluster.applications()
    variables = {"SPARK_MASTER": cluster.url, "SPARK_DRIVER_HOST": DRIVER, "SPARK_DRIVER_BIND_ADDRESS": DRIVER}
    variables |= {"SPARK_DRIVER_PORT": str(free_port()), "SPARK_BLOCK_MANAGER_PORT": str(free_port())}

    found = result([sys.executable, "-m", "pipeline.jobs.charges", *job(usage, file)], file, **variables)

    assert found == here
    assert cluster.executors(before) == set(WORKERS)


def test_the_documented_line_submits_the_job_to_executors_that_have_nothing_but_spark(
    cluster: Cluster, usage: Path, here: list[dict[str, Any]], tmp_path: Path
) -> None:
    """`--py-files` brings the package; the driver's Python has PyArrow beside PySpark, and the executors need none."""
    file, before = tmp_path / "result.jsonl", cluster.applications()
    pack, submit = block("docs/costs.md", 5).commands
    address = f"--conf spark.driver.host={DRIVER} --conf spark.driver.bindAddress={DRIVER}"
    instead = {
        "--master URL": f"--master {cluster.url} {address}",
        "file:///mnt/usage": f"file://{usage}",
        "result.jsonl": str(file),
        "pipeline.zip": str(tmp_path / "pipeline.zip"),
    }
    subprocess.run(
        shlex.split(pack.replace("'pipeline', 'zip'", f"'{tmp_path / 'pipeline'}', 'zip'")), cwd=ROOT, check=True
    )
    for text, other in instead.items():
        assert text in submit, text
        submit = submit.replace(text, other)
    bare = str(Path(sys.base_prefix) / "bin/python3")
    command = shlex.split(submit)
    command[0] = str(HOME / "bin/spark-submit")

    found = result(command, file, PYSPARK_PYTHON=bare, PYSPARK_DRIVER_PYTHON=sys.executable)

    assert found == here
    assert cluster.executors(before) == set(WORKERS)
