"""Which Java Spark runs on, and what to do without one; no JVM is started for this."""

from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.java import require_java


def test_a_java_home_without_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PipelineError, match="there is no bin/java in it"):
        require_java()
