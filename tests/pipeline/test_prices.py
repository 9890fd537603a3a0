"""Price lists as the Retail Prices API answers them; their six traps are in test_price_traps.py."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import PriceError
from pipeline.jobs import charges
from pipeline.jobs import prices as prices_job
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import PriceList, parse_items, price_list, read_prices

OCTOBER = Month.parse("2026-10")
OPERATIONS = "Standard Messaging Operations"
BASE = "Standard Base Unit"


def items() -> list[dict[str, Any]]:
    return list(parse_items(SAMPLE_PRICES.read_text()))


def rows_of(meter: str, unit: str = "1M") -> list[dict[str, Any]]:
    return [item for item in items() if item["meterName"] == meter and item["unitOfMeasure"] == unit]


def changed(item: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return item | fields


def rates(prices: PriceList) -> list[float]:
    return [float(tier.price * 1_000_000) for tier in prices.operations.tiers]


def test_rows_of_other_tiers_and_meters_do_not_disturb() -> None:
    relay = changed(
        items()[0], meterName="Standard Relay Hours", skuName="Standard", unitOfMeasure="100", currencyCode="EUR"
    )
    assert price_list([*items(), relay], OCTOBER).currency == "USD"


def test_two_currencies_are_refused() -> None:
    euros = [changed(row, currencyCode="EUR") for row in rows_of(OPERATIONS)]
    with pytest.raises(PriceError, match=r"several currencies \(EUR, USD\)"):
        price_list(items() + euros, OCTOBER)


def test_several_regions_ask_for_one() -> None:
    west = [changed(item, armRegionName="westeurope", retailPrice=9) for item in items()]
    with pytest.raises(PriceError, match=r"several regions \(eastus, westeurope\): name one with --region"):
        price_list(items() + west, OCTOBER)
    assert rates(price_list(items() + west, OCTOBER, "eastus")) == [0.0, 0.8, 0.5, 0.2]


def test_a_region_that_the_list_does_not_have_is_named() -> None:
    with pytest.raises(PriceError, match=f"no row for “{BASE} per hour” in the region “westeurope” valid in 2026-10"):
        price_list(items(), OCTOBER, "westeurope")


def test_the_sample_is_known_as_such_wherever_it_lies(tmp_path: Path) -> None:
    copy, mine = tmp_path / "prices.json", tmp_path / "mine.json"
    copy.write_text(SAMPLE_PRICES.read_text())
    mine.write_text(json.dumps({"Items": json.loads(SAMPLE_PRICES.read_text())["Items"]}))
    assert [read_prices(path, OCTOBER).is_sample for path in (SAMPLE_PRICES, copy, mine)] == [True, True, False]


@pytest.mark.parametrize("given", [[], ["--prices", str(SAMPLE_PRICES)]])
def test_both_jobs_say_that_the_prices_are_samples_however_the_list_was_given(
    tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "result.jsonl"
    options = charges.parser().parse_args(
        ["--month", "2026-10", "--usage", str(tmp_path), "--result", str(result), *given]
    )
    options.may_be_empty = True
    charges.run(options)
    assert json.loads(result.read_text().splitlines()[0])["sample_prices"]
    capsys.readouterr()
    assert prices_job.main(["--month", "2026-10", *given]) == 0
    assert json.loads(capsys.readouterr().out)["sample"]


@pytest.mark.parametrize("meter", [OPERATIONS, BASE])
def test_a_list_without_a_needed_row_is_refused_by_name(meter: str) -> None:
    with pytest.raises(PriceError, match=meter):
        price_list([item for item in items() if item["meterName"] != meter], OCTOBER)


def test_a_list_without_connections_is_good_for_a_month_without_them() -> None:
    kept = [item for item in items() if "Connection" not in item["meterName"]]
    assert price_list(kept, OCTOBER).connections is None


def test_contradicting_rows_are_refused() -> None:
    again = changed(rows_of(OPERATIONS)[1], retailPrice=0.9)
    with pytest.raises(PriceError, match="two different prices"):
        price_list([*items(), again], OCTOBER)


def test_repeated_rows_are_one_row() -> None:
    assert rates(price_list(items() + items(), OCTOBER)) == [0.0, 0.8, 0.5, 0.2]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param("2026-10-01T00:00:00Z", [0.0, 1.0], id="from the first of the month: the new one"),
        pytest.param("2026-09-15T00:00:00Z", [0.0, 1.0], id="before the month: the new one"),
        pytest.param("2026-10-02T00:00:00Z", [0.0, 0.8, 0.5, 0.2], id="within the month: the one it began with"),
        pytest.param("2026-11-01T00:00:00Z", [0.0, 0.8, 0.5, 0.2], id="after the month: the old one"),
    ],
)
def test_a_month_is_priced_with_what_is_valid_when_it_begins(since: str, expected: list[float]) -> None:
    free, paid, *_ = rows_of(OPERATIONS)
    new = [changed(free, effectiveStartDate=since), changed(paid, effectiveStartDate=since, retailPrice=1)]
    assert rates(price_list(items() + new, OCTOBER)) == expected


def test_a_new_price_of_one_tier_amends_the_ladder() -> None:
    dearer = changed(rows_of(OPERATIONS)[2], effectiveStartDate="2026-01-01T00:00:00Z", retailPrice=0.6)
    assert rates(price_list([*items(), dearer], OCTOBER)) == [0.0, 0.8, 0.6, 0.2]


def test_a_price_that_has_ended_is_not_used() -> None:
    ended = [changed(item, effectiveEndDate="2026-09-30T23:59:59Z") for item in items()]
    with pytest.raises(PriceError, match="valid in 2026-10"):
        price_list(ended, OCTOBER)


def test_prices_keep_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(SAMPLE_PRICES.read_text().replace('"retailPrice": 0.8', '"retailPrice": 0.8000000000000001'))
    assert read_prices(path, OCTOBER).operations.tiers[1].price == Fraction("0.8000000000000001") / 1_000_000


@pytest.mark.parametrize("joined", ["list", "one after the other", "bare items"])
def test_several_pages_are_read(tmp_path: Path, joined: str) -> None:
    everything = json.loads(SAMPLE_PRICES.read_text())["Items"]
    pages = [{"Items": everything[:5], "NextPageLink": "…"}, {"Items": everything[5:], "NextPageLink": None}]
    path = tmp_path / "prices.json"
    path.write_text(
        {
            "list": json.dumps(pages),
            "one after the other": "\n".join(map(json.dumps, pages)),
            "bare items": json.dumps(everything),
        }[joined]
    )
    assert rates(read_prices(path, OCTOBER)) == [0.0, 0.8, 0.5, 0.2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ('{"Items": []}', "no row for"),
        ("not json", "not JSON"),
        ('{"Error": "throttled"}', "no “Items”"),
        (
            '{"Items": [{"meterName": "Standard Messaging Operations", "skuName": "Standard"}]}',
            "has no 'unitOfMeasure'",
        ),
    ],
)
def test_a_file_that_is_no_price_list_is_refused_in_one_sentence(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content)
    with pytest.raises(PriceError, match=reason) as caught:
        read_prices(path, OCTOBER)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("unitOfMeasure", "1 dozen"),
        ("unitOfMeasure", "9" * 5_000),
        ("tierMinimumUnits", 1e14),
        *((name, value) for name in ("retailPrice", "tierMinimumUnits") for value in (-1, "x", "NaN", "-inf", "1e400")),
        ("retailPrice", "1e-999999"),
        ("effectiveStartDate", 7),
        ("currencyCode", "dollars"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(field: str, value: Any) -> None:
    broken = [changed(item, **{field: value}) if item in rows_of(OPERATIONS)[1:2] else item for item in items()]
    with pytest.raises(PriceError, match=OPERATIONS if field != "unitOfMeasure" else "1 dozen|9999|two different"):
        price_list(broken, OCTOBER)


def test_a_price_list_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="cannot be read: No such file"):
        read_prices(tmp_path / "prices.json", OCTOBER)


def paged(*sizes: int, last: str | None = None) -> list[dict[str, Any]]:
    """The sample as pages of these sizes, linked as the API links them; `last`: the link of the last page."""
    everything, pages, begin = items(), [], 0
    for size in sizes:
        begin += size
        link = f"https://prices.azure.com:443/api/retail/prices?$filter=x&$skip={begin}"
        pages.append({"Items": everything[begin - size : begin], "NextPageLink": link})
    pages[-1]["NextPageLink"] = last
    return pages


def read(tmp_path: Path, pages: list[dict[str, Any]]) -> PriceList:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(pages, default=float))
    return read_prices(path, OCTOBER)


def test_pages_are_complete_when_each_that_is_linked_to_is_there(tmp_path: Path) -> None:
    pages = paged(5, 4, len(items()) - 9)
    assert rates(read(tmp_path, pages)) == rates(read(tmp_path, pages[::-1])) == [0.0, 0.8, 0.5, 0.2]


@pytest.mark.parametrize("present", [(0,), (0, 1), (1, 2)])
def test_a_list_whose_pages_are_missing_is_refused(tmp_path: Path, present: tuple[int, ...]) -> None:
    pages = paged(5, 4, len(items()) - 9)
    with pytest.raises(PriceError, match="pages are missing: a page has a NextPageLink"):
        read(tmp_path, [pages[n] for n in present])


@pytest.mark.parametrize("meter", [OPERATIONS, "Standard Brokered Connection"])
def test_a_list_with_the_free_tier_alone_is_refused(meter: str) -> None:
    free = [row for row in items() if row["meterName"] != meter or row["tierMinimumUnits"] == 0]
    with pytest.raises(PriceError, match=f"only free rows for “{meter}”: the tiers with a price are missing"):
        price_list(free, OCTOBER)


@pytest.mark.parametrize("start", [13, 100])
def test_a_list_without_a_tier_below_another_is_refused(start: int) -> None:
    kept = [row for row in items() if row["meterName"] != OPERATIONS or row["tierMinimumUnits"] != start]
    with pytest.raises(PriceError, match=f"no row for “{OPERATIONS}” from {start} × 1M on, but has a higher tier"):
        price_list(kept, OCTOBER)


def test_tiers_that_begin_elsewhere_than_the_published_ones_are_used_as_they_are() -> None:
    moved = [
        changed(row, tierMinimumUnits=row["tierMinimumUnits"] * 2) if row["meterName"] == OPERATIONS else row
        for row in items()
    ]
    assert price_list(moved, OCTOBER).operations.starts == (0, 26_000_000, 200_000_000, 5_000_000_000)
