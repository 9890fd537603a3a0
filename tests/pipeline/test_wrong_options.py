"""Mistakes in the options of the job are one sentence, before Spark is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from pipeline import amounts
from pipeline.jobs import charges
from tests.pipeline.test_damaged_files import SCHEMA


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


def test_a_share_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        charges.parser().parse_args(["--max-quarantined", "1/0"])
    assert "invalid" in capsys.readouterr().err


def test_what_is_wrong_with_a_footer_or_a_link_is_left_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    day = tmp_path / "usage" / "date=2026-10-01"
    day.mkdir(parents=True)
    pq.write_table(SCHEMA.empty_table(), day / "a.parquet")
    (day / "itself.parquet").symlink_to(day / "itself.parquet")

    def not_text(_: Path) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(pq, "read_metadata", not_text)
    assert amounts.of_month(str(tmp_path), "2026-10").rows == 0


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited.", "check SPARK_MASTER, SPARK"),
        ("Cannot call methods on a stopped SparkContext.", "check SPARK_MASTER, and that its workers can reach"),
        ("Mkdirs failed to create /usage/hourly (exists=false)", "let the user of the job write to hourly/"),
        ("Something else.\nmore", "Spark could not finish: Something else."),
    ],
)
def test_what_spark_says_becomes_what_to_do(said: str, sentence: str) -> None:
    assert sentence in str(charges.spark_error(PySparkException(said)))


@pytest.mark.spark
@pytest.mark.nightly
def test_names_that_are_not_ascii_are_found_without_a_language(tmp_path: Path) -> None:
    """LC_ALL=C, which the control plane passes on; Java would look for files with other names."""
    script = (
        "import sys; from pipeline.spark import *; from pipeline.folders import Footers\n"
        "from pathlib import Path; import pyarrow as pa, pyarrow.parquet as pq\n"
        "path = Path(sys.argv[1], 'gr\\u00f6\\u00dfe.parquet'); pq.write_table(pa.table({'minute': [1, 2]}), path)\n"
        "session = build_session('test', **FOR_LITTLE_DATA)\n"
        "print(Footers.of(session).read(str(path), 'minute', 'note').rows)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "2"
