"""What an outage would cost: the worked example of docs/pricing.md, section 9, and where it is told."""

from fractions import Fraction
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.forecast import Outage, forecast
from dashboard.jobs import JobFailed
from dashboard.ladder import Step, charge
from dashboard.money import cents
from dashboard.present import prices
from pipeline.ladder import Ladder, Tier

MILLION = 1_000_000
STEPS = [(0, "0"), (13 * MILLION, "0.8"), (100 * MILLION, "0.5"), (2_500 * MILLION, "0.2")]
LADDER = [Step(start, Fraction(price) / MILLION) for start, price in STEPS]
BASIC = [Step(0, Fraction(5, 100 * MILLION))]


def three_hours(**changes: Any) -> Outage:
    """Three hours, a million messages of 70 KB, 20 clients that ping once a minute, 10 queues, one syphon."""
    assumed: dict[str, Any] = {
        "hours": Fraction(3),
        "messages_per_hour": Fraction(MILLION, 3),
        "message_bytes": 70 * 1024,
        "pingers": 20,
        "per_gigabyte": Fraction("0.02"),
    }
    return Outage(**assumed | changes)


@pytest.mark.parametrize(
    ("settlements", "total", "extra"), [(False, 8_003_720, 4_003_720), (True, 10_003_720, 5_003_720)]
)
def test_the_operations_of_the_worked_example(settlements: bool, total: int, extra: int) -> None:
    done = forecast(three_hours(), LADDER, settlements).operations
    assert (done.pings, done.polls, done.total, done.extra) == (3_600, 120, total, extra)


@pytest.mark.parametrize(
    ("ladder", "used", "charges", "extras"),
    [
        pytest.param(LADDER, 0, (0, 0), (0, 0), id="inside the allowance"),
        pytest.param(LADDER, 13 * MILLION, (640, 800), (320, 400), id="at 0.80"),
        pytest.param(LADDER, 100 * MILLION, (400, 500), (200, 250), id="at 0.50"),
        pytest.param(LADDER, 2_500 * MILLION, (160, 200), (80, 100), id="at 0.20"),
        pytest.param(BASIC, 0, (40, 50), (20, 25), id="Basic"),
    ],
)
def test_the_money_depends_on_where_the_month_stands(
    ladder: list[Step], used: int, charges: tuple[int, int], extras: tuple[int, int]
) -> None:
    made = [forecast(three_hours(used=used), ladder, settlements) for settlements in (False, True)]
    assert tuple(cents(each.charge) for each in made) == charges
    assert tuple(cents(each.extra_charge) for each in made) == extras


def test_an_outage_that_straddles_the_allowance() -> None:
    made = forecast(three_hours(used=10 * MILLION), LADDER, settlements=False)
    assert (cents(made.charge), made.rate * MILLION) == (400, Fraction("0.8"))


@pytest.mark.parametrize(("crossings", "price"), [(1, 143), (2, 287)])
def test_bandwidth_is_paid_by_the_crossing(crossings: int, price: int) -> None:
    made = forecast(three_hours(crossings=crossings), LADDER, settlements=False)
    assert (float(made.gigabytes), cents(made.bandwidth)) == (71.68, price)


def test_ten_queues_do_not_hold_it_and_draining_takes_a_thousand_seconds() -> None:
    made = forecast(three_hours(), LADDER, settlements=False)
    assert (made.queues_needed, made.fits, made.drain_s) == (14, False, 1_000)


@given(units=st.integers(0, 3_000 * MILLION))
def test_the_control_planes_ladder_agrees_with_the_pipelines(units: int) -> None:
    pipelines = Ladder(tuple(Tier(step.start, step.price) for step in LADDER))
    assert charge(LADDER, units) == pipelines.charge(units)


def test_prices_that_were_named_and_are_not_there_are_no_reason_to_take_the_sample(
    tmp_path: Any, settings: Any
) -> None:
    settings.PRICES_FILE = tmp_path / "none.json"
    with pytest.raises(JobFailed, match="cannot be read: No such file"):
        prices("2026-10")


def test_the_prices_are_the_samples_where_none_are_configured(tmp_path: Any, settings: Any, monkeypatch: Any) -> None:
    settings.PRICES_FILE = tmp_path / "none.json"
    monkeypatch.setattr("dashboard.charges.DEFAULT_PRICES", tmp_path / "none.json")
    told = prices("2026-10")
    assert (list(told.ladder), told.currency, told.is_sample) == (LADDER, "USD", True)


@pytest.fixture
def viewer(client: Client, db: None) -> Client:
    user = User.objects.create_user("vera", password="correct horse battery")
    user.groups.add(Group.objects.get(name="viewer"))
    client.force_login(user)
    return client


FIELDS = {"hours": 3, "messages_per_hour": 333_334, "message_bytes": 71_680, "used": 13 * MILLION}


def test_the_page_answers_with_money_operations_room_and_time(viewer: Client) -> None:
    page = viewer.get("/costs/forecast/", FIELDS).content.decode()
    for text in ("3.20–4.00", "8,000,", "at least 14 are needed", "17 min", "1.43", "Nothing has been metered yet"):
        assert text in page


def test_a_changed_field_is_answered_with_the_answer_alone(viewer: Client) -> None:
    answer = viewer.get("/costs/forecast/", FIELDS, headers={"HX-Request": "true"}).content.decode()
    assert "3.20–4.00" in answer
    assert "<html" not in answer


@pytest.mark.parametrize("hours", ["0", "-1", "x", "NaN", "1e9"])
def test_a_field_that_makes_no_sense_is_named(viewer: Client, hours: str) -> None:
    page = viewer.get("/costs/forecast/", {"hours": hours})
    assert (page.status_code, "hours: " in page.content.decode()) == (200, True)


@pytest.mark.django_db
def test_the_command_tells_both_rules(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("forecast", hours="3", messages_per_hour="333334", message_bytes="71680", used=str(13 * MILLION))
    told = capsys.readouterr().out
    assert "published: 8,000,3" in told
    assert "settlements: 10,000,3" in told
    assert "it needs 14 at least" in told


@pytest.mark.django_db
def test_the_command_names_the_option_it_cannot_read() -> None:
    with pytest.raises(CommandError, match="--messages-per-hour is 'many'"):
        call_command("forecast", messages_per_hour="many")
