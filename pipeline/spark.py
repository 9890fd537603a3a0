"""The Spark session: the same results everywhere; local defaults only if nothing else configures it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pipeline import class_archive
from pipeline.amounts import Amount, of_month, to_be_read
from pipeline.java import require_java
from pipeline.plans import FOR_FEW_ROWS

SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
# A third of the time for ten million rows went into optimizing the code that plans them. What is called for each row is
# called so often, too.
ONLY_OF_ROWS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=20000 "
    "-XX:Tier4CompileThreshold=200000 -XX:Tier4BackEdgeThreshold=250000"
)
LOCAL_DEFAULTS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # several more calls of the JVM for every expression
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {ONLY_OF_ROWS}",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000000",
    # By itself 100: a run has more pieces of code than that, so that the next one of a kept session found none of its.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
# Little data spends its time compiling: a JVM that compiles lightly, and cheaper plans, halve that.
FOR_LITTLE_DATA = {
    **FOR_FEW_ROWS,
    "spark.driver.memory": "1g",
    # 48 MiB of code would be kept: the plans of a few months' runs fill them, and are compiled again and again.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    "spark.buffer.pageSize": "1m",  # by itself 16 MB: so much each sum and each side of a join takes, and is cleared
}
OF_LOCAL_FILES = {
    # A collector writes a file every half minute. Listed by tasks, they take as long as being read; and each would
    # count as 4 MB when they are put together into tasks.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.files.openCostInBytes": "64k",
}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A handful of rows is through before the code for them is compiled."""
OF_EXPRESSIONS = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
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
LITTLE_BYTES, LITTLE_ROWS = 64 * 1024 * 1024, 3_000_000
TINY_BYTES, TINY_ROWS = 4 * 1024 * 1024, 100_000
"""What is less than both. Rows, because they compress well: 400,000 rows of the report can come from 4 MiB. Many small
files take more bytes for them, so that these count only where the rows are not known.
"""


def _is_tiny(amount: Amount) -> bool:
    return _is_below(amount, LITTLE_BYTES if amount.rows else TINY_BYTES, TINY_ROWS)


def _is_below(amount: Amount, size: int, rows: int) -> bool:
    return amount.bytes < size and amount.rows < rows


def settings_for(folder: str, month: str, *, incremental: bool = False) -> dict[str, str]:
    """What the session is built with beside the defaults; the kept hours of a big month need room even so. Of an object
    store nothing is known beforehand.
    """
    if "://" in folder:
        return {}
    if not _is_below(to_be_read(folder, month, incremental=incremental), LITTLE_BYTES, LITTLE_ROWS):
        return OF_LOCAL_FILES
    whole = of_month(folder, month)
    is_little = _is_below(whole, LITTLE_BYTES, LITTLE_ROWS)
    memory = {} if is_little else {"spark.driver.memory": LOCAL_DEFAULTS["spark.driver.memory"]}
    return OF_LOCAL_FILES | FOR_LITTLE_DATA | memory | (INTERPRETED if _is_tiny(whole) else {})


def is_enough_for(
    kept: Mapping[str, str], wanted: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether a session that was built with the settings `kept` does for a job that would be given `wanted`: it has the
    memory (of which all have the same if the environment gives it), and a JVM that compiles as much.
    """
    memory, options = "spark.driver.memory", "spark.driver.extraJavaOptions"
    has, needs = (int(each.get(memory, LOCAL_DEFAULTS[memory]).removesuffix("g")) for each in (kept, wanted))
    has_memory = has >= needs or bool(environment.get(FROM_ENVIRONMENT[memory]))
    return has_memory and (options not in kept or options in wanted)


def _of_a_plain_process(environment: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings of a driver that spark-submit did not start: it listens on this machine only, unless it has a
    cluster to answer.
    """
    settings = {**LOCAL_DEFAULTS, **overrides}
    if not environment.get("SPARK_MASTER", LOCAL).startswith("local"):
        settings = {name: value for name, value in settings.items() if name not in ADDRESSES}
    options = settings["spark.driver.extraJavaOptions"]
    if class_archive.OPTION not in options and (archive := class_archive.using()):
        settings["spark.driver.extraJavaOptions"] = f"{options} {archive}"
    given = {name: environment[variable] for name, variable in FROM_ENVIRONMENT.items() if environment.get(variable)}
    return settings | given


def build_session(app: str, **overrides: str) -> SparkSession:
    """A session in UTC with ANSI arithmetic; under spark-submit everything else is the submitter's."""
    if os.environ.get("LC_ALL") in NO_ENCODING:  # Java would not find files whose names are not ASCII
        os.environ["LC_ALL"] = "C.UTF-8"
    builder = SparkSession.builder.appName(app)
    settings = dict(SEMANTICS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
        builder = builder.master(os.environ.get("SPARK_MASTER", LOCAL))
        settings |= _of_a_plain_process(os.environ, overrides)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "ERROR"))
    _look_up_once(session)
    return session


class _Members:
    """A class of the JVM that is asked once for each of its members."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._java_class, name)
        setattr(self, name, found)
        return found


def _look_up_once(session: SparkSession) -> None:
    """PySpark looks up these classes, and the function in them, again for each part of an expression: the JVM searches
    all its packages for them.
    """
    jvm: Any = session._jvm
    for name in OF_EXPRESSIONS:
        if name not in vars(jvm):
            setattr(jvm, name, _Members(getattr(jvm, name)))
