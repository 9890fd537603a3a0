"""The number of open alerts in the menu: on every page, for everybody, and with each part that is fetched anew."""

import json
import re
from html import unescape

import pytest

from dashboard.models import Alert, BacklogQueue
from dashboard.site.menu import OpenAlerts, open_alerts
from tests.dashboard.conftest import NOW
from tests.dashboard.markup import one_line

HTMX = {"HX-Request": "true"}


def alert(number: int, **changes: object) -> Alert:
    known = {"kind": "failover", "severity": "critical", "pair": "contoso", "title": f"alert {number}"}
    return Alert.objects.create(key=str(number), began_at=NOW, opened_at=NOW, **(known | changes))


@pytest.fixture
def three_open(pair) -> None:
    alert(1)
    alert(2)
    alert(3, acknowledged_at=NOW, acknowledged_by="ada")
    alert(4, ended_at=NOW, resolved_at=NOW)


def badge(page: str) -> str:
    return re.search(r'<span class="count[^>]*data-alerts.*?</span> </span>', one_line(page))[0]


@pytest.mark.parametrize("address", ["/", "/alerts/", "/no-such-page/", "/pairs/contoso/"])
def test_every_page_shows_how_many_alerts_are_open(three_open, redis_here, as_role, address):
    reported = badge(as_role("viewer").get(address).text)

    assert '<b>3</b><span class="hidden"> open</span>' in reported
    assert "3 open, 2 of them not acknowledged" in reported
    assert "loud" in reported


def test_no_number_is_shown_where_nothing_is_wrong_and_a_quiet_one_where_all_are_acknowledged(
    pair, redis_here, as_role
):
    viewer = as_role("viewer")
    assert " hidden>" in badge(viewer.get("/").text)

    alert(1, acknowledged_at=NOW, acknowledged_by="ada")
    quiet = badge(viewer.get("/").text)
    assert ("<b>1</b>" in quiet, "loud" in quiet) == (True, False)


def test_what_a_page_fetches_anew_brings_the_number_along(three_open, redis_here, as_role):
    answer = as_role("viewer").get("/events/", headers=HTMX)

    reported = json.loads(answer["HX-Trigger"])["alerts"]
    assert reported == {"word": "3", "title": "3 open, 2 of them not acknowledged", "isLoud": True}


def test_a_question_before_an_action_asks_for_no_number(three_open, redis_here, as_role):
    answer = as_role("operator").get("/pairs/contoso/actions/hold/?path=orders", headers=HTMX)

    assert "HX-Trigger" not in answer


def test_the_number_costs_one_query(pair, redis_here, as_role, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert open_alerts().word == ""


def test_thousands_are_reported_as_more_than_there_is_room_for():
    assert OpenAlerts(1000, 0).word == "999+"


DEAD = "/backlog/contoso/messages/?queue=contoso%2Fx-servicebus-transfer%2F0&amp;show=dead"


@pytest.mark.parametrize(
    ("about", "place"),
    [
        ({"entity": "orders"}, "/pairs/contoso/entities/orders/"),
        ({"kind": "stalled"}, "/pairs/contoso/"),
        ({"kind": "dead_letters", "entity": "contoso/x-servicebus-transfer/0"}, DEAD),
        ({"kind": "readiness"}, "/readiness/?pair=contoso"),
        ({"kind": "budget", "pair": "*"}, "/costs/"),
        ({"kind": "workers", "pair": "*"}, "/workers/"),
    ],
)
def test_an_alert_leads_to_where_something_can_be_done_about_it(pair, redis_here, as_role, about, place):
    BacklogQueue.objects.create(pair=pair, path="contoso/x-servicebus-transfer/0", index=0, seen_at=NOW)
    alert(1, **about)
    viewer = as_role("viewer")

    page = one_line(viewer.get("/alerts/").text)

    assert f'<td data-label="Where" class="path"> <a href="{place}">' in page
    assert viewer.get(unescape(place)).status_code == 200
