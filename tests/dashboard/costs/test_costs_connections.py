"""Connections as computed here beside what Azure Monitor measured: read from its files, compared hour by hour."""

import io
import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

from dashboard.costs.azure_metrics import read_metrics
from dashboard.costs.measured_connections import compare
from dashboard.costs.reconciliation import against_bill, take_statement
from dashboard.costs.statements import Parsed, StatementError
from dashboard.costs.storing import store
from dashboard.models import ChargeRun, ConnectionDay
from tests.dashboard.costs.test_costs import MONTH, RUN, invoice, line
from tests.dashboard.costs.test_costs_reconcile import bill
from tests.dashboard.costs.test_costs_statements import RESOURCE
from tests.dashboard.costs.test_costs_statements import line as billed

METER = "Standard Brokered Connection"
CONNECTION_PRICES = [
    {"meter": METER, "unit": "1", "from": "0", "price": "0.0", "currency": "USD"},
    {"meter": METER, "unit": "1", "from": "1000", "price": "0.03", "currency": "USD"},
]
THOUSAND_A_MONTH = 744 * 1_000


def answer(*points: dict[str, object], interval: str | None = "PT1M", namespace: str = "Contoso") -> dict[str, object]:
    resource = RESOURCE.replace("Contoso", namespace)
    metric = {
        "id": f"{resource}/providers/Microsoft.Insights/metrics/ActiveConnections",
        "name": {"value": "ActiveConnections"},
        "timeseries": [{"metadatavalues": [], "data": list(points)}],
    }
    return {"interval": interval, "value": [metric]}


def point(time: str = "04:00", **reported: float) -> dict[str, object]:
    return {"timeStamp": f"2026-10-03T{time}:00Z"} | reported


def read(document: object) -> Parsed:
    return read_metrics(io.BytesIO(json.dumps(document).encode()), MONTH)


def test_an_hour_has_the_highest_of_its_samples() -> None:
    parsed = read([answer(point("04:00", total=7), point("04:59", total=9), point("05:00", total=3)), answer(point())])
    peaks = [(peak.hour, peak.namespace, peak.connections) for peak in parsed.peaks]
    assert peaks == [
        (datetime(2026, 10, 3, 4, tzinfo=UTC), "contoso", 9),
        (datetime(2026, 10, 3, 5, tzinfo=UTC), "contoso", 3),
    ]
    assert (parsed.sums, parsed.rows) == ((), 3)
    assert parsed.skipped == {"of connections over more than a minute, without a maximum": 1}


@pytest.mark.parametrize(
    ("interval", "reported", "peak"),
    [
        ("PT1M", {"total": 5}, 5),
        ("0:01:00", {"total": 5}, 5),
        ("PT1H", {"total": 300, "maximum": 9}, 9),
        ("PT1H", {"total": 300}, None),  # sixty samples added up are no peak
        (None, {"total": 300}, None),
        (None, {"maximum": 9}, 9),
        ("PT6H", {"maximum": 9}, None),
        ("P1D", {"maximum": 9}, None),
        ("PT1M", {"total": -1}, None),
        ("PT1M", {"total": 1e300}, None),
        ("PT1M", {"maximum": 2.5, "total": 2.5}, 3),
    ],
)
def test_a_number_that_is_no_peak_is_left_out(interval: str, reported: dict[str, float], peak: int | None) -> None:
    parsed = read([answer(point("08:00", total=1)), answer(point(**reported), interval=interval)])
    found = {each.hour.hour: each.connections for each in parsed.peaks}
    assert found.get(4) == peak
    assert sum(parsed.skipped.values()) == (peak is None)


def test_a_file_without_one_usable_sample_is_refused_with_the_reason() -> None:
    with pytest.raises(StatementError, match="1 of connections over more than an hour"):
        read(answer(point(maximum=5), interval="P1D"))


def peaks(namespace: str, hours: dict[int, int], scope: str = "sub") -> dict[str, object]:
    reported = [hours.get(hour) for hour in range(24)]
    return {"record": "peaks", "scope": scope, "namespace": namespace, "date": "2026-10-03", "peaks": reported}


@pytest.fixture
def computed(db: None, tmp_path: Path) -> None:
    """An hour of 2,200 connections by the month's average in contoso, 1,000 of them in its fourth hour."""
    connections = line("connections", 3_600, entity="*") | {"quantity": "2200.000000000000"}
    hours = {4: THOUSAND_A_MONTH, 5: 1_200 * 744}
    records = [
        RUN | {"prices": [*RUN["prices"], *CONNECTION_PRICES]},
        peaks("contoso", hours),
        *(record for rule in ("published", "settlements") for record in (invoice(rule, 3_600), connections)),
    ]
    result = tmp_path / "result.jsonl"
    result.write_text("\n".join(map(json.dumps, records)))
    now = timezone.now()
    for _ in range(2):  # a rerun takes the place of the first
        store(ChargeRun.objects.create(month=MONTH, started_at=now, heard_at=now), result)


def give(document: object, month: str = MONTH) -> None:
    take_statement(month, "metrics", "metrics.json", json.dumps(document).encode(), "operator", timezone.now())


def test_measured_hours_stand_beside_ours_and_in_their_place_are_priced(computed: None) -> None:
    assert compare(MONTH) is None, "nothing was measured yet"
    give(answer(point("05:00", total=900 * 744), point("06:00", total=744 * 10)))
    found = compare(MONTH)
    assert found is not None
    # The fourth hour was not measured: ours stays. 1,000 connections are included, a further one costs 0.03.
    assert (found.computed, found.computed_charge) == (2_200, 36)
    assert (found.measured, found.measured_charge) == (1_000 + 900 + 10, Fraction("27.3"))
    (contoso,) = found.namespaces
    assert (contoso.computed, contoso.measured, contoso.more_measured) == (1_200, 910, 1)
    assert [(hour.at.hour, hour.difference) for hour in contoso.different] == [(5, -300 * 744), (6, 7_440)]
    assert "programs without the library" in contoso.finding


@pytest.mark.parametrize(
    ("measured", "finding"), [(1_200, "the same"), (1_100, "peak is higher"), (1_300, "more than recorded")]
)
def test_a_difference_is_explained(computed: None, as_role, measured: int, finding: str) -> None:
    give(answer(point("05:00", total=measured * 744)))
    found = compare(MONTH)
    assert found is not None
    assert finding in found.namespaces[0].finding
    assert finding in as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text


def test_a_bill_between_both_figures_is_explained(computed: None) -> None:
    give(answer(point("05:00", total=900 * 744)))
    for quantity, rest in (("1900", 0), ("2200", 0), ("1850", -50), ("2300", 100)):
        text = bill("1", billed(METER, "1", quantity))
        take_statement(MONTH, "export", "bill.csv", text.encode(), "operator", timezone.now())
        against = against_bill(MONTH, "USD")
        assert against is not None
        (meter,) = [each for each in against.meters if each.unit == "connections"]
        assert (meter.quantity.least, meter.quantity.most, meter.quantity.unexplained) == (1_900, 2_200, rest)
        assert (meter.cost.least, meter.cost.most) == (27, 36)


def test_the_page_and_the_command_show_both(computed: None, as_role, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(answer(point("05:00", total=1_300 * 744))))
    said = io.StringIO()
    call_command("reconcile", month=MONTH, metrics=path, stdout=said)
    assert "contoso, connections in 1 hours: computed 1,200, measured 1,300: more than recorded" in said.getvalue()
    page = as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text
    for text in ("Connections, as measured", "2026-10-03 05:00", "892,800", "967,200", "+74,400", "39.00"):
        assert text in page


def test_metrics_go_with_their_statement_and_our_own_peaks_stay(computed: None) -> None:
    give(answer(point("05:00", total=5)))
    give(answer(point("06:00", total=5)))
    reported = ConnectionDay.objects.exclude(statement=None).get()
    assert (reported.peaks[5], reported.peaks[6]) == (None, 5)
    assert ConnectionDay.objects.filter(statement=None).count() == 1
