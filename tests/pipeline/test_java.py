"""Which Java Spark runs on, and what to do without one; no JVM is started for these."""

import os
from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.java import java_version, version_of


@pytest.mark.parametrize(
    ("reported", "version"),
    [
        ('openjdk version "17.0.13" 2024-10-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("command not found", 0),
    ],
)
def test_the_version_is_read_from_the_first_line(reported: str, version: int) -> None:
    assert version_of(reported) == version


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "Java 11 is too old: install a JRE 17 or newer."),
        ("exit 1", "Java of an unknown version is too old"),
        (None, "there is no bin/java in it"),
    ],
)
def test_a_java_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, sentence: str
) -> None:
    if script is not None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PipelineError, match=sentence):
        java_version()


def test_a_recent_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    os.chmod(java, 0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert java_version() == 21
