"""Files made to harm: bombs, deep and huge and doubled values; each is refused with a sentence, in bounded time."""

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from dashboard.costs.bill.statements import LONGEST_FIELD, StatementError, read_export, resource_of
from dashboard.models import AuditEntry, Statement
from pipeline.months import Month
from pipeline.prices import PriceError, parse_items, price_list
from tests.dashboard.costs.test_costs_reconcile import bill
from tests.dashboard.costs.test_costs_statements import RESOURCE, rows
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.pace import Stopwatch

pytestmark = pytest.mark.slow

MONTH = "2026-10"
LARGE = 50 * 2**20
GOOD = bill().encode()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bill.csv", b" " * LARGE)
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"Date": ["2026-10-01"] * 1000}), out)
    return out.getvalue()


BOMBS = {
    "zip": zipped,
    "gzip": lambda: gzip.compress(b" " * LARGE),
    "bzip2": lambda: bz2.compress(b" " * LARGE),
    "xz": lambda: lzma.compress(b" " * 2**20),
    "parquet": parquet,
    "gzip in gzip": lambda: gzip.compress(gzip.compress(b" " * LARGE)),
    "a spreadsheet": lambda: b"PK\x03\x04[Content_Types].xml" + b"\x00" * 100,
    "XML with entities": lambda: b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a>&c;</a>',
}


@pytest.mark.parametrize("kind", BOMBS)
def test_no_archive_is_unpacked(kind):
    with pytest.raises(StatementError):
        read_export(io.BytesIO(BOMBS[kind]()), MONTH)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "data",
    [gzip.compress(GOOD), b"PAR1" + b"\x00" * 50, b"[" * 100_000, b"\x00" * 1000, b'"' * 10_000],
    ids=["gzip", "parquet", "deep lists", "zeros", "quotes"],
)
def test_what_is_no_statement_is_a_sentence_on_the_page_and_in_the_trail(as_role, data):
    sent = {"month": MONTH, "file": SimpleUploadedFile("<script>=1+1.csv", data)}
    answer = as_role("operator").post("/costs/reconcile/upload/", sent)

    assert answer.status_code == 400
    assert "Traceback" not in answer.text
    assert "<script>=1" not in answer.text
    assert not Statement.objects.exists()
    assert AuditEntry.objects.get().outcome == "failed"


HUGE = "9" * 5000
NUMBERS = [
    "NaN",
    "-NaN",
    "sNaN",
    "Infinity",
    "-Infinity",
    "1e999999999",
    "1e-999999999",
    HUGE,
    f"0.{HUGE}",
    "0x10",
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:12])
def test_a_number_that_no_bill_has_is_no_number(number):
    parsed = read_export(io.BytesIO(rows(billed(quantity="1"), billed(quantity=number)).encode()), MONTH)

    assert (parsed.rows, dict(parsed.skipped)) == (1, {"with an unreadable number": 1})


@pytest.mark.parametrize(
    "unit", [f"{'0' * 11}1{HUGE}", HUGE, f"{HUGE} M", "0", "-1M", "1MM", "١٢M" * 10], ids=lambda text: text[:12]
)
def test_a_unit_that_no_bill_has_is_unknown(unit):
    parsed = read_export(io.BytesIO(rows(billed(quantity="1"), billed(unit=unit)).encode()), MONTH)

    assert (parsed.rows, dict(parsed.skipped)) == (1, {"in an unknown unit": 1})


SLOW = [
    "/subscriptions/a/" * 3800,
    "/subscriptions/a/" * 1900 + "/providers/" * 2900,
    "/subscriptions/a/" + "/providers/microsoft.servicebus/namespaces/" * 1500 + "!",
    "/subscriptions/a/providers/microsoft.servicebus/namespaces/" + "n" * 60_000 + "!",
]


@pytest.mark.parametrize("resource", SLOW, ids=range(len(SLOW)))
def test_no_resource_id_takes_more_time_than_its_length(resource):
    """A single one took four seconds before, and an upload has room for a thousand."""
    assert len(resource) < LONGEST_FIELD
    with Stopwatch() as watch:
        for _ in range(20):
            assert resource_of(resource) is None
    assert watch.took < 10


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        (RESOURCE, True),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N", ("s", "n")),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N/queues/q", ("s", "n")),
        ("/subscriptions/S/providers/Microsoft.ServiceBus/namespaces/N", None),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N!", None),
        ("/providers/Microsoft.ServiceBus/namespaces/N/subscriptions/S/x", None),
        ("", None),
    ],
)
def test_the_namespace_of_a_resource_is_found(resource, found):
    assert (bool(resource_of(resource)) if found is True else resource_of(resource)) == found


def test_many_long_numbers_are_not_added_up():
    """Exact sums of thousands of numbers with 60,000 digits each would take minutes."""
    long = billed(quantity=f"0.{'7' * 60_000}")
    with Stopwatch() as watch:
        parsed = read_export(io.BytesIO(rows(billed(quantity="1"), *([long] * 300)).encode()), MONTH)
    assert (parsed.rows, sum(parsed.skipped.values())) == (1, 300)
    assert watch.took < 10


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"Items":' * 50_000,
        '{"Items": [{"meterName": "x", "retailPrice": NaN}]}',
        "\x00",
        "{}",
        "1" * 10_000,
    ],
    ids=["deep lists", "deep objects", "NaN", "zero byte", "nothing", "a long number"],
)
def test_a_hostile_price_list_is_a_sentence(text):
    with pytest.raises(PriceError):
        price_list(list(parse_items(text)), Month(2026, 10))


def test_a_price_list_of_many_documents_takes_no_more_time_than_its_length():
    with Stopwatch() as watch:
        assert len(list(parse_items('{"meterName": 1}\n' * 100_000))) == 100_000
    assert watch.took < 30
