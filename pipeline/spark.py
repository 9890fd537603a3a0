"""The Spark session: the same meaning everywhere, local defaults only where nobody else configures it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.errors import PipelineError

SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
LOCAL_DEFAULTS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000000",
}
# Little data spends its time compiling: a JVM that compiles lightly, and no shuffle to speak of, halves that.
FOR_LITTLE_DATA = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
}
LITTLE_BYTES = 64 * 1024 * 1024


def is_little(folder: str) -> bool:
    """Whether a local folder holds less than 64 MiB; of an object store nothing is known beforehand."""
    if "://" in folder:
        return False
    return sum(file.stat().st_size for file in Path(folder).rglob("*.parquet")) < LITTLE_BYTES


def require_java() -> None:
    """Makes sure Spark finds a Java: the one of JAVA_HOME, of the PATH, or the one set up beside this Python."""
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=str(Path(home, "bin"))):
        return
    beside = Path(sys.prefix, "java")
    if home:
        raise PipelineError(f"JAVA_HOME is {home}, but there is no bin/java in it: correct or unset it.")
    if shutil.which("java"):
        return
    if not (beside / "bin" / "java").exists():
        raise PipelineError(
            "No Java was found: install a JRE 17 or newer (apt install default-jre-headless), or set JAVA_HOME."
        )
    os.environ["JAVA_HOME"] = str(beside)


def build_session(app: str, **overrides: str) -> SparkSession:
    """A session in UTC with ANSI arithmetic; under spark-submit everything else is the submitter's."""
    builder = SparkSession.builder.appName(app)
    settings = dict(SEMANTICS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
        settings |= LOCAL_DEFAULTS | overrides
        if memory := os.environ.get("SPARK_DRIVER_MEMORY"):
            settings["spark.driver.memory"] = memory
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "ERROR"))
    return session
