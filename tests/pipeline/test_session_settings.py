"""What a driver of Spark starts with: its Java, and its settings without spark-submit; no JVM is started for this."""

from pathlib import Path

import pytest

from pipeline.errors import PipelineError
from pipeline.java import require_java
from pipeline.usage.spark import ADDRESSES, LOCAL_DEFAULTS, of_a_plain_process


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
