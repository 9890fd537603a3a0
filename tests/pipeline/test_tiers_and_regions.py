"""Basic, Standard and Premium in one billing scope, and the bytes that cross regions (docs/pricing.md, 2, 7)."""

from __future__ import annotations

import json
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError, PriceError
from pipeline.invoice import Connections, Line, Terms, invoice
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.placing import Placed
from pipeline.prices import parse_items, price_list
from pipeline.pricing import price
from pipeline.schemas import USAGE
from pipeline.tariffs import Crossing, Namespace, Tariffs, read_tariffs
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import MILLION, OCTOBER, PRICES, computed, invoice_of, record
from tests.selection import nightly

NAMESPACES = {
    "small": Namespace(name="small", scope="sub", tier="basic"),
    "large": Namespace(name="large", scope="sub", tier="premium", messaging_units=2),
    "elsewhere": Namespace(name="elsewhere", scope="other", tier="premium"),
}
MIXED = Tariffs(namespaces=NAMESPACES, crossings={})


@pytest.mark.spark
@pytest.mark.parametrize("allocation", ["time", *nightly("pro-rata")])
def test_only_standard_operations_climb_the_ladder(
    spark: SparkSession, usage: Path, write: Write, allocation: str
) -> None:
    first, later = OCTOBER.start, OCTOBER.start + timedelta(days=3)
    write(
        [
            record("a", first, units=12 * MILLION, namespace="large"),
            record("b", first, units=20 * MILLION, namespace="small"),
            record("c", first, units=12 * MILLION),
            record("d", later, units=8 * MILLION),  # 13 to 20 million of them are billed
            record("e", later, units=MILLION, namespace="small", kind="settle"),
        ],
        USAGE,
    )
    outcome = computed(spark, usage, tariffs=MIXED, allocation=allocation)
    made = invoice_of(outcome)
    by_place: dict[tuple[str, str], Fraction] = {}
    for line in made.lines:
        place = (line.namespace, line.kind)
        by_place[place] = by_place.get(place, Fraction(0)) + line.exact
    assert by_place["contoso", "send"] == Fraction("5.6")
    assert by_place["small", "send"] == 1
    assert by_place["large", "send"] == 0
    assert by_place["$system", "base"] == Fraction("0.013441") * 744
    assert by_place["large", "base"] == Fraction("0.9275") * 744 * 2
    assert ("elsewhere", "base") not in by_place
    assert {line.kind: line.included for line in made.lines if line.namespace == "large"}["send"] == 12 * MILLION
    days = next(priced.days for priced in outcome.priced if priced.invoice is made)
    assert sum(day.exact for day in days) == Fraction("6.6")
    assert invoice_of(outcome, "settlements").exact - made.exact == Fraction("0.05")


def test_a_scope_of_basic_namespaces_has_no_base_charge_and_pays_for_no_connections() -> None:
    usage = [Line(namespace="small", entity="orders", kind="send", units=MILLION, tiers=(0, 0, 0, 0, MILLION, 0))]
    tariffs = Tariffs(namespaces={"small": NAMESPACES["small"]}, crossings={})
    terms = Terms(month=OCTOBER, prices=PRICES, tariffs=tariffs)
    made = invoice(terms, "sub", usage, [Connections(namespace="small", hours=744 * 5_000)])
    found = {(line.namespace, line.kind): line.exact for line in made.lines}
    assert found == {("small", "send"): Fraction("0.05"), ("*", "connections"): 0}


@pytest.mark.parametrize(
    ("messaging_units", "hours", "cents"), [(1, 744, 69_006), (2, 744, 138_012)], ids=["one unit", "two units"]
)
def test_premium_is_paid_by_messaging_unit_and_hour(messaging_units: int, hours: int, cents: int) -> None:
    large = Namespace(name="large", scope="sub", tier="premium", messaging_units=messaging_units)
    usage = [Line(namespace="large", entity="orders", kind="send", units=9, tiers=(0, 0, 0, 0, 0, 9))]
    terms = Terms(month=OCTOBER, prices=PRICES, tariffs=Tariffs(namespaces={"large": large}, crossings={}))
    assert invoice(terms, "sub", usage, []).cents == cents
    assert OCTOBER.hours == hours


def test_an_idle_premium_namespace_is_a_bill_of_its_own() -> None:
    tariffs = Tariffs(namespaces={"elsewhere": NAMESPACES["elsewhere"]}, crossings={})
    terms = Terms(month=OCTOBER, prices=PRICES, tariffs=tariffs)
    found = [one.invoice for one in price(lambda rule: terms, Placed(6), {})]
    assert {(made.scope, made.cents) for made in found} == {("other", 69_006)}


@pytest.mark.parametrize(("tier", "meter"), [("basic", "Basic Messaging"), ("premium", "Premium Messaging Unit")])
def test_a_tier_without_its_row_in_the_price_list_is_refused_by_name(tier: str, meter: str) -> None:
    items = [item for item in parse_items(SAMPLE_PRICES.read_text()) if not item["meterName"].startswith(meter)]
    namespace = Namespace(name="n", scope="sub", tier=tier)
    tariffs = Tariffs(namespaces={"n": namespace}, crossings={})
    terms = Terms(month=OCTOBER, prices=price_list(items, OCTOBER), tariffs=tariffs)
    with pytest.raises(PriceError, match=meter):
        invoice(terms, "sub", [Line(namespace="n", entity="q", kind="send", units=1, tiers=(0, 0, 0, 0, 0, 1))], [])


def crossed(kind: str, pair: str = "contoso") -> Line:
    size = 1_000_000 * 71_680
    return Line(namespace="dr", entity="orders", kind=kind, pair=pair, bytes=size, tiers=(0, 0, 0, 0))


@pytest.mark.parametrize(
    ("per_gigabyte", "kinds", "cents"),
    [
        pytest.param("0.02", ["send_backlog"], 143, id="one crossing at 0.02"),
        pytest.param("0.02", ["send_backlog", "syphon_receive"], 287, id="there and back at 0.02"),
        pytest.param("0.05", ["send_backlog"], 358, id="one crossing at 0.05"),
        pytest.param("0.05", ["send_backlog", "syphon_receive"], 717, id="there and back at 0.05"),
        pytest.param(None, ["send_backlog"], 143, id="by the price list"),
        pytest.param("0.05", ["send", "syphon_send", "receive", "settle"], 0, id="what crosses nothing"),
    ],
)
def test_bytes_that_leave_a_region_are_on_the_invoice(per_gigabyte: str | None, kinds: list[str], cents: int) -> None:
    crossing = Crossing(per_gigabyte=None if per_gigabyte is None else Fraction(per_gigabyte))
    terms = Terms(month=OCTOBER, prices=PRICES, tariffs=Tariffs(namespaces={}, crossings={"contoso": crossing}))
    made = invoice(terms, "sub", [crossed(kind) for kind in kinds], [])
    assert made.cents - 1_000 == cents
    assert made.unpriced_bytes == 0


def test_pairs_that_share_a_secondary_have_rows_of_their_own() -> None:
    crossings = {"beta": Crossing(per_gigabyte=Fraction("0.02")), "gamma": Crossing(per_gigabyte=Fraction("0.05"))}
    terms = Terms(month=OCTOBER, prices=PRICES, tariffs=Tariffs(namespaces={}, crossings=crossings))
    made = invoice(terms, "sub", [crossed("send_backlog", pair) for pair in ("alpha", "beta", "gamma")], [])
    bandwidth = {line.pair: line.exact for line in made.lines if line.kind == "bandwidth"}
    assert bandwidth == {"beta": Fraction("1.4336"), "gamma": Fraction("3.584")}
    assert sum(line.cents for line in made.lines) == made.cents


@pytest.mark.spark
def test_what_two_pairs_send_to_one_secondary_is_distinguished(spark: SparkSession, usage: Path, write: Write) -> None:
    backlog = record("a", namespace="dr", kind="send_backlog", units=20, bytes=10**9, pair="alpha")
    write([backlog, backlog | {"record_id": "b", "pair": "beta", "bytes": 10**8}], USAGE)
    tariffs = Tariffs(namespaces={}, crossings={"beta": Crossing(per_gigabyte=Fraction(1))})
    lines = [line for line in invoice_of(computed(spark, usage, tariffs=tariffs)).lines if line.pair]
    assert [(line.kind, line.pair, line.bytes, line.cents) for line in lines] == [
        ("send_backlog", "alpha", 10**9, 0),
        ("send_backlog", "beta", 10**8, 0),
        ("bandwidth", "beta", 10**8, 10),
    ]


def test_bandwidth_nobody_knows_the_price_of_is_reported_and_not_free_of_charge_in_silence() -> None:
    tariffs = Tariffs(namespaces={}, crossings={"contoso": Crossing(meter="Inter Continent Data Transfer Out")})
    made = invoice(Terms(month=OCTOBER, prices=PRICES, tariffs=tariffs), "sub", [crossed("send_backlog")], [])
    assert made.unpriced_bytes == 71_680_000_000
    assert "bandwidth" not in {line.kind for line in made.lines}


def test_a_meter_with_several_prices_is_no_price() -> None:
    items = list(parse_items(SAMPLE_PRICES.read_text()))
    other = [item | {"retailPrice": 0.01} for item in items if item["meterName"].startswith("Intra Continent")]
    assert price_list(items + other, OCTOBER).bandwidth == {}


def test_what_the_control_plane_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "namespaces.jsonl"
    records = [
        {"record": "namespace", "name": "large", "scope": "sub", "tier": "premium", "messaging_units": 2},
        {"record": "crossing", "pair": "contoso", "per_gigabyte": 0.02, "meter": ""},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    tariffs = read_tariffs(path)
    assert tariffs.premium_of("sub") == [NAMESPACES["large"]]
    assert tariffs.crossings == {"contoso": Crossing(per_gigabyte=Fraction("0.02"))}


def test_namespaces_that_cannot_be_read_are_reported_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "namespaces.jsonl"
    path.write_text('{"record": "namespace", "name": "x", "scope": "s", "tier": "gold"}')
    with pytest.raises(PipelineError, match="gold is not a tier"):
        read_tariffs(path)
