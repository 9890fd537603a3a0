"""Bills as Azure writes them: every account type's columns, and what no such file is."""

import io
from datetime import date
from fractions import Fraction

import pytest

from dashboard.costs.bill import statements
from dashboard.costs.bill.statements import Parsed, StatementError, read_export

MONTH = "2026-10"
RESOURCE = "/subscriptions/S1/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/Contoso"
SYSTEM = "/subscriptions/S1/resourceGroups/$system/providers/Microsoft.ServiceBus/namespaces/$system"
OPERATIONS = "Standard Messaging Operations"
# account type: its header, and a row of 1.5 million operations for 1.20 on the second of the month
SPELLINGS = {
    "MCA": (
        "date,meterName,meterCategory,SubscriptionId,ResourceId,quantity,unitOfMeasure,chargeType,billingCurrency,"
        "costInBillingCurrency",
        f"10/02/2026,{OPERATIONS},Service Bus,S1,{RESOURCE},1.5,1M,Usage,USD,1.20",
    ),
    "EA": (
        "Date,MeterCategory,MeterName,UnitOfMeasure,Quantity,CostInBillingCurrency,BillingCurrencyCode,ResourceId,"
        "SubscriptionId,ChargeType",
        f"10/02/2026,Service Bus,{OPERATIONS},1M,1.5,1.20,USD,{RESOURCE},S1,Usage",
    ),
    "old EA": (
        "Date,Meter Category,Meter Name,Unit of Measure,Consumed Quantity,ExtendedCost,Currency,Instance ID,"
        "SubscriptionGuid",
        f"10/02/2026,Service Bus,{OPERATIONS},1M,1.5,1.20,USD,{RESOURCE},S1",
    ),
    "pay-as-you-go": (
        "SubscriptionGuid,UsageDateTime,MeterCategory,MeterName,UsageQuantity,UnitOfMeasure,PreTaxCost,Currency,InstanceId",
        f"S1,2026-10-02T00:00:00Z,Service Bus,{OPERATIONS},1.5,1M,1.20,USD,{RESOURCE}",
    ),
    "FOCUS": (
        "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ConsumedQuantity,ConsumedUnit,PricingQuantity,"
        "PricingUnit,ResourceId,ServiceName,SubAccountId,x_SkuMeterCategory,x_SkuMeterName",
        f"1.20,USD,Usage,2026-10-02T00:00:00Z,1500000,1,1.5,1M,{RESOURCE},Azure Service Bus,/subscriptions/S1,"
        f"Service Bus,{OPERATIONS}",
    ),
}


def export(text: str | bytes) -> Parsed:
    return read_export(io.BytesIO(text.encode() if isinstance(text, str) else text), MONTH)


@pytest.mark.parametrize("account", SPELLINGS)
def test_an_export_is_read_however_its_account_type_spells_the_columns(account):
    head, row = SPELLINGS[account]
    parsed = export(f"\ufeff{head}\r\n{row}\r\n")
    (found,) = parsed.sums
    assert (found.date, found.namespace, found.meter) == (date(2026, 10, 2), "contoso", OPERATIONS)
    assert (found.quantity, found.cost, found.scope) == (1_500_000, Fraction("1.2"), "s1")
    assert (parsed.currency, parsed.rows, parsed.skipped) == ("USD", 1, {})


def rows(*lines: str) -> str:
    return "\n".join([SPELLINGS["EA"][0], *lines])


def line(meter: str = OPERATIONS, unit: str = "1M", quantity: str = "1", **other: str) -> str:
    known = {"date": "2026-10-03", "category": "Service Bus", "currency": "USD", "resource": RESOURCE, "kind": "Usage"}
    date, category, currency, resource, kind = (known | other).values()
    return ",".join([date, category, meter, unit, quantity, "1", currency, resource, "S1", kind])


@pytest.mark.parametrize(
    ("unit", "quantity", "expected"),
    [
        ("1/Hour", "24", 24),
        ("1 Hour", "24", 24),
        ("1M", "0.0000005", Fraction(1, 2)),
        ("10K", "2", 20_000),
        ("1 GB", "3", 3),
        ("1", "7", 7),
    ],
)
def test_a_quantity_is_reported_in_single_units(unit, quantity, expected):
    assert export(rows(line(unit=unit, quantity=quantity))).sums[0].quantity == expected


def test_rows_of_a_day_namespace_and_meter_add_up():
    parsed = export(rows(line(), line(quantity="2"), line("Standard Base Unit", "1/Hour", "24", resource=SYSTEM)))
    assert [(each.namespace, each.quantity) for each in parsed.sums] == [("$system", 24), ("contoso", 3_000_000)]


def test_what_is_left_out_is_counted_with_the_reason():
    parsed = export(
        rows(
            line(),
            line(date="2026-09-30"),
            line(date="soon"),
            line(category="Storage"),
            line(category="Bandwidth", resource="/subscriptions/S1/x/virtualMachines/vm"),
            line(kind="Refund"),
            line(quantity="many"),
            line(quantity="NaN"),
            line(quantity="1e400"),
            line(unit="1 dozen"),
            line(""),
            "2026-10-01,too,short",
        )
    )
    assert parsed.rows == 1
    assert parsed.skipped == {
        "of another month": 1,
        "with an unreadable date": 1,
        "of other services": 2,
        "that are not usage": 1,
        "with an unreadable number": 3,
        "in an unknown unit": 1,
        "without a meter": 1,
        "with too few columns": 1,
    }


def test_egress_of_the_namespace_is_taken():
    parsed = export(rows(line("Intra Continent Data Transfer Out", "1 GB", "71.68", category="Bandwidth")))
    assert parsed.sums[0].quantity == Fraction("71.68")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("   \n", "is empty", id="blank"),
        pytest.param("hello", "no column for the date", id="prose"),
        pytest.param(b"\xc3\x28\xa0", "not UTF-8 text", id="binary"),
        pytest.param(b"PK\x03\x04zip", "compressed or Parquet", id="zip"),
        pytest.param(b"\x1f\x8bgz", "compressed or Parquet", id="gzip"),
        pytest.param(b"PAR1data", "compressed or Parquet", id="Parquet"),
        pytest.param("a,b\n".encode("utf-16-le"), "zero bytes", id="UTF-16 without a mark"),
        pytest.param("a,b\n".encode("utf-32"), "zero bytes|not UTF-8 text", id="UTF-32"),
        pytest.param("é,b\n".encode("cp1252"), "not UTF-8 text", id="Windows"),
        pytest.param("Date,MeterName\n", "no column for the category", id="a column missing"),
        pytest.param(rows(), "no row of Service Bus in 2026-10", id="no rows"),
        pytest.param(rows(line(date="2026-09-01")), "1 of another month", id="another month"),
        pytest.param(rows(line(), line(currency="EUR")), r"mixes currencies \(EUR, USD\)", id="two currencies"),
        pytest.param(rows("a" * 70_000), "not CSV: field larger", id="an endless field"),
        pytest.param("<html><body>Sign in</body></html>", "no column", id="a sign-in page"),
        pytest.param(
            rows(line(date="10/10/2026"), line(date="31/10/2026")),
            r"have the day first \(31/10/2026\)",
            id="the day first",
        ),
    ],
)
def test_what_is_no_export_is_refused_in_one_sentence(text, reason):
    with pytest.raises(StatementError, match=reason):
        export(text)


def test_size_and_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(statements, "MOST_ROWS", 2)
    with pytest.raises(StatementError, match="more than 2 rows"):
        export(rows(line(), line(), line()))
    monkeypatch.setattr(statements, "LARGEST_BYTES", 100)
    with pytest.raises(StatementError, match="larger than"):
        export(rows(line()))
