"""Little data is computed with settings for little data (docs/costs.md, "On a cluster")."""

import json
import os
from pathlib import Path

from pipeline import spark
from pipeline.schemas import KEPT_SHAPE
from pipeline.spark import (
    ADDRESSES,
    FOR_LITTLE_DATA,
    INTERPRETED,
    LOCAL_DEFAULTS,
    OF_LOCAL_FILES,
    settings_for,
)

MONTH = "2026-10"


def put(folder: Path, day: str, size: int, at: float) -> None:
    file = folder / "usage" / f"date={day}" / f"{size}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    os.utime(file, (at, at))


def test_what_is_to_be_read_decides_how_the_session_is_set_up(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(spark, "LITTLE_BYTES", 100)  # type: ignore[attr-defined]
    monkeypatch.setattr(spark, "TINY_BYTES", 50)  # type: ignore[attr-defined]
    put(tmp_path, "2026-09-30", 500, 1000)  # of another month: not read
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES | FOR_LITTLE_DATA | INTERPRETED
    put(tmp_path, "2026-10-01", 90, 1000)
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES | FOR_LITTLE_DATA
    put(tmp_path, "2026-10-02", 90, 1000)
    assert settings_for(str(tmp_path), MONTH) == settings_for(str(tmp_path), MONTH, incremental=True) == OF_LOCAL_FILES
    (tmp_path / "hourly").mkdir()
    kept = tmp_path / "hourly" / f"_{MONTH}.json"
    kept.write_text(json.dumps({f"2026-10-{n:02}": {"shape": KEPT_SHAPE} for n in (1, 2)}))
    os.utime(kept, (2000, 2000))
    put(tmp_path, "2026-10-02", 5, 3000)
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES
    changed = settings_for(str(tmp_path), MONTH, incremental=True)
    assert changed == OF_LOCAL_FILES | FOR_LITTLE_DATA | {"spark.driver.memory": LOCAL_DEFAULTS["spark.driver.memory"]}
    for useless in ('{"2026-10-01": {"shape": 1}, "2026-10-02": {}}', "[]", "{half written"):  # all is summed again
        kept.write_text(useless)
        assert settings_for(str(tmp_path), MONTH, incremental=True) == OF_LOCAL_FILES
    assert settings_for("abfss://usage@account/metering", MONTH) == {}


def test_the_driver_listens_on_this_machine_only_unless_it_has_a_cluster_to_answer() -> None:
    local = spark._of_a_plain_process({}, FOR_LITTLE_DATA)
    assert {local[name] for name in ADDRESSES} == {"127.0.0.1"}
    assert local["spark.driver.memory"] == FOR_LITTLE_DATA["spark.driver.memory"]
    cluster = {"SPARK_MASTER": "spark://master:7077"}
    assert not set(ADDRESSES) & spark._of_a_plain_process(cluster, {}).keys()
    addresses = {"SPARK_DRIVER_HOST": "10.0.0.5", "SPARK_DRIVER_BIND_ADDRESS": "0.0.0.0", "SPARK_DRIVER_PORT": "7001"}
    given = spark._of_a_plain_process(cluster | addresses | {"SPARK_DRIVER_MEMORY": "9g"}, {})
    assert [given[name] for name in (*ADDRESSES, "spark.driver.port")] == ["10.0.0.5", "0.0.0.0", "7001"]
    assert given["spark.driver.memory"] == "9g"
