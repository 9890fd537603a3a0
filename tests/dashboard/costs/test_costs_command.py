"""`manage.py compute_charges`: what it refuses, and what its job is given. What it computes: pipeline/test_bill.py."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from dashboard.costs.runs.charges import ChargesRequest
from dashboard.costs.runs.jobs import variables_for
from dashboard.models import ChargeRun, Invoice
from pairing.telemetry.metering import UsageRecord
from workers import usage

ROOT = Path(__file__).resolve().parents[3]


def write_usage(folder: Path, units: int = 8_003_720) -> None:
    first, place = datetime(2026, 10, 1, tzinfo=UTC), ("sub", "contoso", "contoso", "orders")
    usage.write(
        [
            UsageRecord(kind, first + timedelta(minutes=minute), *place, kind, "r", 1, units, 0, 0, units)
            for minute, kind in enumerate(("send", "receive", "settle"))
        ],
        str(folder),
    )


@pytest.mark.spark
@pytest.mark.django_db
def test_a_month_with_much_that_is_unusable_is_not_published_and_the_job_says_so(tmp_path, capsys):
    """In a process of its own, which needs no Spark for that."""
    broken = tmp_path / "usage" / "date=2026-10-01" / "broken.parquet"
    broken.parent.mkdir(parents=True)
    broken.touch()
    with pytest.raises(CommandError, match=r"nothing was published\. \S+broken\.parquet is empty.*--max-quarantined 1"):
        call_command("compute_charges", month="2026-10", usage=str(tmp_path))
    assert capsys.readouterr().err.splitlines()[0].endswith("looking at the files")
    assert not Invoice.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--month", "2026-13"], "“2026-13” is not a month: write it as YYYY-MM, for example 2026-10."),
        (["--month", "9999-12"], "“9999-12” is not a month"),
        (["--store", "result.jsonl", "--prices", "p.json"], "leave out --prices"),
        (["--month", "2026-10", "--hours-in-month", "0"], "--hours-in-month must be more than 0."),
        (["--month", "2026-10", "--hours-in-month", "99999"], "--hours-in-month must be at most 10000."),
        (
            ["--month", "2026-10", "--prices", "nowhere.json"],
            "/nowhere.json cannot be read: No such file or directory.",
        ),
    ],
)
@pytest.mark.django_db
def test_a_wrong_argument_is_reported_in_one_sentence(arguments, sentence):
    with pytest.raises(CommandError) as caught:
        call_command("compute_charges", *arguments)
    assert sentence in str(caught.value)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.django_db
def test_a_folder_too_deep_is_no_month_without_usage(tmp_path):
    write_usage(tmp_path)
    for wrong in (tmp_path / "usage", f"file://{tmp_path}/usage"):
        with pytest.raises(CommandError, match="/usage has no usage/ and no connections/: give the folder that"):
            call_command("compute_charges", month="2026-10", usage=str(wrong))
    assert not ChargeRun.objects.exclude(status=ChargeRun.Status.FAILED).exists()


@pytest.mark.spark
@pytest.mark.django_db
def test_no_key_of_an_object_store_is_stored_or_shown(settings, capsys):
    settings.USAGE_DIR = "s3://KEY:SECRET@usage/metering?region=eu-west-1"
    with pytest.raises(CommandError) as failed:
        call_command("compute_charges", month="2026-10")
    assert "Spark cannot read s3a://… without org.apache.hadoop:hadoop-aws:" in str(failed.value)
    said = capsys.readouterr()
    assert "SECRET" not in f"{failed.value} {said} {ChargeRun.objects.get().error}"


def test_a_job_gets_a_url_in_its_environment_and_only_its_address_as_an_argument():
    url = "s3://KEY:SECRET@usage/metering?region=eu-west-1"
    arguments = ChargesRequest(month="2026-10", usage=url).arguments(Path("result.jsonl"))
    assert arguments[arguments.index("--usage") + 1] == "s3://usage/metering"
    assert variables_for(url) == {"USAGE_URL": url}
    assert variables_for("/metering") == {}
