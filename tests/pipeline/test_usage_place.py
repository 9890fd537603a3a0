"""One URL means the same for PyArrow and for Spark, and its keys go nowhere but into settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from pyspark.sql import SparkSession

from pipeline.charges import compute
from pipeline.errors import InputError
from pipeline.jobs import charges
from pipeline.schemas import USAGE
from pipeline.usage.folder import UsageFolder
from pipeline.usage.place import VARIABLE, AddressError, missing_connector, place_of, without_keys
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import NOW, OCTOBER, computed, record, request

ROOT = Path(__file__).resolve().parents[2]
MINIO = "s3://KEY:SEC%2FRET@usage/metering?region=eu-west-1&scheme=http&endpoint_override=127.0.0.1:9000"
AZURE_KEY = "fs.azure.account.key.contoso.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("url", "address", "settings"),
    [
        ("/var/usage", "/var/usage", {}),
        ("file:///mnt/my%20usage", "file:///mnt/my usage", {}),
        ("file:/mnt/usage", "file:///mnt/usage", {}),
        ("hdfs://name:8020/usage", "hdfs://name:8020/usage", {}),
        ("s3a://usage/metering", "s3a://usage/metering", {}),
        ("s3://usage/metering", "s3a://usage/metering", {}),
        ("s3://usage/metering?region=eu-west-1", "s3a://usage/metering", {"fs.s3a.endpoint.region": "eu-west-1"}),
        (
            MINIO,
            "s3a://usage/metering",
            {
                "fs.s3a.access.key": "KEY",
                "fs.s3a.secret.key": "SEC/RET",
                "fs.s3a.endpoint.region": "eu-west-1",
                "fs.s3a.endpoint": "http://127.0.0.1:9000",
                "fs.s3a.path.style.access": "true",
                "fs.s3a.connection.ssl.enabled": "false",
            },
        ),
        ("gcs://usage/metering", "gs://usage/metering", {}),
        ("gs://anonymous@usage/metering", "gs://usage/metering", {"fs.gs.auth.type": "UNAUTHENTICATED"}),
        (
            "abfss://usage:KEY@contoso.dfs.core.windows.net/metering",
            "abfss://usage@contoso.dfs.core.windows.net/metering",
            {AZURE_KEY: "KEY"},
        ),
        (
            "abfss://:KEY@contoso.blob.core.windows.net/usage/metering",
            "abfss://usage@contoso.dfs.core.windows.net/metering",
            {AZURE_KEY: "KEY"},
        ),
        ("abfs://contoso@usage/metering", "abfs://usage@contoso.dfs.core.windows.net/metering", {}),
    ],
)
def test_what_spark_needs_for_an_address_of_the_collector(url: str, address: str, settings: dict[str, str]) -> None:
    place = place_of(url, {})

    assert (place.address, place.settings) == (address, settings)
    assert "RET" not in repr(place)


def test_an_address_of_azure_that_only_pyarrow_knows_is_refused() -> None:
    for url in ("abfs://account:SECRET@127.0.0.1:10000/usage", "abfss://:SECRET@contoso.blob.core.windows.net/"):
        with pytest.raises(AddressError, match="abfss://CONTAINER@ACCOUNT") as refused:
            place_of(url, {})
        assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (MINIO, "s3://usage/metering"),
        ("abfss://usage:KEY@contoso.dfs.core.windows.net/m", "abfss://usage@contoso.dfs.core.windows.net/m"),
        ("gs://usage/metering", "gs://usage/metering"),
    ],
)
def test_a_url_is_shown_without_its_keys_and_a_job_finds_them_in_its_environment(url: str, shown: str) -> None:
    assert without_keys(url) == shown
    assert place_of(shown, {VARIABLE: url}) == place_of(url, {})
    assert place_of(f"{shown}/other", {VARIABLE: url}).settings == {}


def test_pyarrow_takes_the_same_url() -> None:
    store, root = pafs.FileSystem.from_uri(MINIO)

    assert (store.type_name, root) == ("s3", "usage/metering")


@pytest.mark.parametrize(
    ("url", "connector"),
    [
        ("/var/usage", ""),
        ("file:///mnt/usage", ""),
        ("hdfs://name/usage", ""),
        ("s3://usage", "org.apache.hadoop:hadoop-aws:3.5.0"),
        ("abfss://usage@contoso.dfs.core.windows.net/", "org.apache.hadoop:hadoop-azure:3.5.0"),
        ("gs://usage", "com.google.cloud.bigdataoss:gcs-connector:3.1.7"),
    ],
)
def test_the_connector_that_spark_lacks_is_named_with_its_version(url: str, connector: str, tmp_path: Path) -> None:
    assert missing_connector(url, {}) == connector
    assert connector in (ROOT / "docs" / "costs.md").read_text(), "the table of the documentation names another one"

    assert missing_connector(url, {"SPARK_JARS_PACKAGES": connector}) == ""
    if connector:
        (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.packages {connector}\n")
        assert missing_connector(url, {"SPARK_CONF_DIR": str(tmp_path)}) == ""


def test_a_store_whose_connector_is_missing_says_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--month", "2026-10", "--usage", "s3://usage/metering", "--result", str(tmp_path / "r.jsonl")]
    assert charges.main(given) == 2
    assert capsys.readouterr().err == (
        "Spark cannot read s3a://… without org.apache.hadoop:hadoop-aws:3.5.0. Set "
        "SPARK_JARS_PACKAGES=org.apache.hadoop:hadoop-aws:3.5.0, with which Spark downloads it, or name its JARs in "
        "SPARK_JARS.\n"
    )


@pytest.mark.spark
def test_a_folder_has_the_same_charges_and_the_same_table_by_its_path_and_its_url(
    spark: SparkSession, write: Write, usage: Path
) -> None:
    write([record("1", units=3), record("1", units=3), record("2", OCTOBER.start.replace(day=9), units=4)], USAGE)
    found = [computed(spark, Path(f"{scheme}{usage}"), usage.parent / "table") for scheme in ("", "file:")]
    assert found[0].counts.accepted == 2
    assert found[0] == found[1]
    assert len(list((usage.parent / "table").iterdir())) == 1


@pytest.mark.spark
def test_the_settings_of_a_store_reach_hadoop_at_run_time(spark: SparkSession, write: Write, usage: Path) -> None:
    """`viewfs` comes with Spark: only with this setting does it know the folder."""
    write([record("1", units=3)], USAGE)
    settings = {"fs.viewfs.mounttable.stored.link./metering": f"file://{usage}"}
    asked = request(usage)
    elsewhere = replace(asked.usage, address="viewfs://stored/metering", settings=settings)
    assert compute(lambda rows: spark, replace(asked, usage=elsewhere), NOW).counts.accepted == 1


@pytest.mark.spark
def test_a_folder_that_is_not_the_one_of_the_records_is_refused(spark: SparkSession, write: Write, usage: Path) -> None:
    write([record("1")], USAGE)
    for wrong in (usage / "usage", usage.parent, usage / "nowhere"):
        with pytest.raises(InputError, match=f"^{wrong} has no usage/ and no connections/: give the folder"):
            computed(spark, wrong, usage, may_be_empty=False)
    assert computed(spark, usage, may_be_empty=False).counts.accepted == 1


@pytest.mark.spark
def test_a_file_that_may_not_be_read_ends_the_run_instead_of_being_left_out(
    spark: SparkSession, write: Write, usage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user of the tests may read every file: the error is the one that others get."""
    write([record("1")], USAGE)

    def denied(source: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pipeline.usage.files.pq.ParquetFile", denied)
    with pytest.raises(InputError, match=r"0\.parquet may not be read: permission denied to the user of the job"):
        computed(spark, usage)


def test_a_folder_that_spark_takes_for_a_pattern_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"usage\[1\] has \[ \], which Spark takes for a pattern: rename the folder"):
        UsageFolder.of(str(tmp_path / "usage[1]"))
