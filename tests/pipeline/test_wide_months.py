"""What there are hundreds of thousands of in a wide month is computed in whole numbers, exactly."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from math import floor

from hypothesis import given
from hypothesis import strategies as st

from pipeline import results
from pipeline.allocation import largest_remainder, round_half_up
from pipeline.invoice import Line
from pipeline.price_tiers import UnitPrices
from pipeline.results import decimal_text, line_of

PARTS = st.fractions(0, 1_000, max_denominator=10**30)


@given(st.lists(PARTS, min_size=1, max_size=9), st.sampled_from([1, 100]))
def test_the_missing_cents_go_to_the_largest_remainders_by_name_where_they_are_equal(
    amounts: list[Fraction], parts: int
) -> None:
    shares = {(str(n),): amount for n, amount in enumerate([*amounts, amounts[0]])}
    whole = round_half_up(sum(shares.values(), Fraction(0)) * parts)
    expected = {key: floor(share * parts) for key, share in shares.items()}
    by_remainder = sorted(shares, key=lambda key: (expected[key] - shares[key] * parts, key))
    for key in by_remainder[: whole - sum(expected.values())]:
        expected[key] += 1
    assert largest_remainder(whole, shares, parts) == expected


@given(st.lists(st.tuples(PARTS, st.integers(0, 10**30)), min_size=1, max_size=6))
def test_prices_of_units_are_exact(places: list[tuple[Fraction, int]]) -> None:
    prices, units = zip(*places, strict=True)
    assert UnitPrices.of(prices).price_of(units) == sum(price * count for price, count in places)


NAMES = st.text(max_size=20)
WHOLE = st.integers(0, 10**18)


@given(NAMES, NAMES, WHOLE, WHOLE, PARTS)
def test_a_line_is_written_as_any_other_record(
    namespace: str, entity: str, size: int, units: int, exact: Fraction
) -> None:
    line = Line(
        namespace=namespace,
        entity=entity,
        kind="send",
        bytes=size,
        units=units,
        quantity=units,
        exact=exact,
        tiers=(units, 0),
    )
    record = {"record": "line", **asdict(line), "quantity": decimal_text(Fraction(units)), "exact": decimal_text(exact)}
    written = results._line(line, results._quoted)
    assert json.loads(written) == json.loads(line_of(record))
    assert written.endswith("}\n")
    assert written.count("\n") == 1
