"""The Spark session: the same results everywhere; local defaults only if nothing else configures it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from pipeline.java import require_java

SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # the only way in which Spark reads times in nanoseconds
}
LOCAL_DEFAULTS = {
    "spark.driver.memory": "4g",
    "spark.driver.maxResultSize": "0",  # the sums of a month with a row of the report for each record
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # several more calls of the JVM for every expression
    "spark.sql.shuffle.partitions": "8",
    # A map of the first 65,536 sums is looked into before that of all: of more sums, a fifth of the time, in vain.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # A collector writes a file every half minute. Listed by tasks, they take as long as being read; and each would
    # count as 4 MB when they are put together into tasks.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.files.openCostInBytes": "64k",
}
FEW_ROWS = 12_500_000
"""Half of what is summed at once: of a larger month the first sum has more."""
LOCAL = "local[*]"
NO_ENCODING = ("C", "POSIX")
ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
FROM_ENVIRONMENT = {
    "spark.driver.memory": "SPARK_DRIVER_MEMORY",
    "spark.driver.host": "SPARK_DRIVER_HOST",
    "spark.driver.bindAddress": "SPARK_DRIVER_BIND_ADDRESS",
    "spark.driver.port": "SPARK_DRIVER_PORT",
    "spark.blockManager.port": "SPARK_BLOCK_MANAGER_PORT",
    "spark.jars": "SPARK_JARS",
    "spark.jars.packages": "SPARK_JARS_PACKAGES",
}


def of_a_plain_process(environment: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings of a driver that spark-submit did not start: it listens on this machine only, unless it has a
    cluster to answer.
    """
    settings = {**LOCAL_DEFAULTS, **overrides}
    if not environment.get("SPARK_MASTER", LOCAL).startswith("local"):
        settings = {name: value for name, value in settings.items() if name not in ADDRESSES}
    given = {name: environment[variable] for name, variable in FROM_ENVIRONMENT.items() if environment.get(variable)}
    return settings | given


def quick(rows: int) -> dict[str, str]:
    """The settings of a session for so many rows: of few, code that Java optimizes further has not paid for it."""
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"} if rows < FEW_ROWS else {}


def build_session(app: str, **overrides: str) -> SparkSession:
    """A session in UTC with ANSI arithmetic; under spark-submit everything else is the submitter's."""
    if os.environ.get("LC_ALL") in NO_ENCODING:  # Java would not find files whose names are not ASCII
        os.environ["LC_ALL"] = "C.UTF-8"
    builder = SparkSession.builder.appName(app)
    settings = dict(SEMANTICS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        builder = builder.master(os.environ.get("SPARK_MASTER", LOCAL))
        settings |= of_a_plain_process(os.environ, overrides)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "ERROR"))
    return session
