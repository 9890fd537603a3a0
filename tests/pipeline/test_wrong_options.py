"""Mistakes in the options of the job are one sentence, before Spark is started; the settings that Spark starts with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from pipeline.errors import PipelineError
from pipeline.java import require_java
from pipeline.jobs import charges
from pipeline.schemas import USAGE
from pipeline.usage.spark import ADDRESSES, LOCAL_DEFAULTS, of_a_plain_process
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import record

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--result", "{folder}"], "--result {folder} is a folder, or its folder does not exist: name a file."),
        (["--result", "{folder}/none/r.jsonl"], "--result {folder}/none/r.jsonl is a folder, or its folder does not"),
        (["--result", "{folder}/r.jsonl", "--inventory", "{folder}/none"], "{folder}/none cannot be read: No such"),
        (["--usage", "abfss://:K@a.blob.core.windows.net/"], "abfss://a.blob.core.windows.net/ lacks an account or a"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    given = ["--month", "2026-10", "--usage", str(tmp_path), "--result", str(tmp_path / "result.jsonl")]
    status = charges.main([*given, *(word.format(folder=tmp_path) for word in options)])
    said = capsys.readouterr()
    assert status == 2
    assert said.err.count("\n") == 1
    assert sentence.format(folder=tmp_path) in said.err


@pytest.mark.parametrize("text", ["nan", "-1", "2", "1/0", "much"])
def test_a_share_is_a_number_from_0_to_1(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        charges.parser().parse_args([f"--max-quarantined={text}"])
    assert "invalid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited.", "check SPARK_MASTER, SPARK"),
        ("Cannot call methods on a stopped SparkContext.", "check SPARK_MASTER, and that its workers can reach"),
        ("Something else.\nmore", "Spark could not finish: Something else."),
    ],
)
def test_what_spark_says_becomes_what_to_do(said: str, sentence: str) -> None:
    assert sentence in str(charges.spark_error(PySparkException(said)))


@pytest.mark.spark
@pytest.mark.nightly
def test_names_that_are_not_ascii_are_found_without_a_language(tmp_path: Path) -> None:
    """LC_ALL=C, which the control plane passes on; Java would look for files with other names."""
    write_table(tmp_path / "usage" / "date=2026-10-01" / "gr\u00f6\u00dfe.parquet", [record("a")], USAGE)
    result = tmp_path / "result.jsonl"
    given = ["--month", "2026-10", "--usage", str(tmp_path), "--result", str(result)]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    command = [sys.executable, "-m", "pipeline.jobs.charges", *given]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=300, check=True)
    assert json.loads(result.read_text().splitlines()[0])["counts"]["accepted"] == 1


def test_a_java_home_without_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PipelineError, match="there is no bin/java in it"):
        require_java()


def test_the_driver_listens_on_this_machine_only_unless_it_has_a_cluster_to_answer() -> None:
    """docs/costs.md, "On a cluster"."""
    local = of_a_plain_process({}, {})
    assert {local[name] for name in ADDRESSES} == {"127.0.0.1"}
    assert local["spark.driver.memory"] == LOCAL_DEFAULTS["spark.driver.memory"]
    cluster = {"SPARK_MASTER": "spark://master:7077"}
    assert not set(ADDRESSES) & of_a_plain_process(cluster, {}).keys()
    addresses = {"SPARK_DRIVER_HOST": "10.0.0.5", "SPARK_DRIVER_BIND_ADDRESS": "0.0.0.0", "SPARK_DRIVER_PORT": "7001"}
    given = of_a_plain_process(cluster | addresses | {"SPARK_DRIVER_MEMORY": "9g"}, {})
    assert [given[name] for name in (*ADDRESSES, "spark.driver.port")] == ["10.0.0.5", "0.0.0.0", "7001"]
    assert given["spark.driver.memory"] == "9g"
