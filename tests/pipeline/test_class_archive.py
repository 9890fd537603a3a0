"""The archive of classes with which the JVM starts faster; that it is made and used is tried at night."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import class_archive
from pipeline.spark import FOR_LITTLE_DATA, _of_a_plain_process

OPTIONS = "spark.driver.extraJavaOptions"
PATIENCE_S = 1_200
FIRST_QUERY = """
from pipeline.spark import FOR_LITTLE_DATA, build_session
options = {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=" + __import__("sys").argv[1]}
build_session("test", **FOR_LITTLE_DATA | options).range(3).collect()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(class_archive.FOLDER, str(tmp_path))
    return tmp_path


def test_the_jvm_gets_an_archive_only_if_it_is_complete(folder: Path) -> None:
    """HotSpot crashes on a truncated archive."""
    assert class_archive.using() == ""
    archive = folder / "spark-10.jsa"
    archive.write_bytes(b"x" * 9)
    assert class_archive.using() == ""
    assert _of_a_plain_process({}, FOR_LITTLE_DATA)[OPTIONS] == FOR_LITTLE_DATA[OPTIONS]
    archive.write_bytes(b"x" * 10)
    assert _of_a_plain_process({}, FOR_LITTLE_DATA)[OPTIONS].startswith(
        f"{FOR_LITTLE_DATA[OPTIONS]} -XX:SharedArchiveFile={archive} "
    )


def test_a_jvm_that_makes_an_archive_uses_none(folder: Path) -> None:
    (folder / "spark-1.jsa").write_bytes(b"x")
    making = class_archive.making(folder / "1.part")
    assert _of_a_plain_process({}, {OPTIONS: making})[OPTIONS] == making


def test_a_new_archive_replaces_the_others_and_leaves_other_files_alone(folder: Path) -> None:
    for name in ("spark-1.jsa", "spark-7.jsa", "mine.jsa"):
        (folder / name).write_bytes(b"x")
    part = folder / "1.part"
    part.write_bytes(b"new")
    assert class_archive.publish(part) == folder / "spark-3.jsa"
    assert {path.name for path in folder.iterdir()} == {"spark-3.jsa", "mine.jsa"}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(2 * PATIENCE_S)
def test_spark_takes_its_classes_from_the_archive_that_the_documented_line_makes(folder: Path) -> None:
    program = [sys.executable, "-m", "pipeline.jobs.class_archive"]
    made = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_S)
    assert made.returncode == 0, made.stderr[-3000:]
    (archive,) = folder.iterdir()
    said = json.loads(made.stdout.splitlines()[-1])
    assert said == {"archive": str(archive), "bytes": archive.stat().st_size}

    log = folder / "loaded.log"
    used = subprocess.run(
        [sys.executable, "-c", FIRST_QUERY, str(log)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (used.returncode, used.stdout) == (0, ""), used.stderr[-3000:]
    of_spark = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    archived = sum("shared objects file (top)" in line for line in of_spark)
    assert archived > len(of_spark) / 2 > 500, of_spark[:5]


def test_a_folder_that_cannot_be_written_to_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.jobs import class_archive as job

    (folder / "file").write_text("")
    monkeypatch.setenv(class_archive.FOLDER, str(folder / "file"))
    assert job.main([]) == 2
    assert os.listdir(folder) == ["file"]
