"""The pages of drills: asking, beginning, watching, calling off, reading the report.

docs/readiness.md.
"""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from django.utils import timezone

from dashboard.costs.forecasts.current_month import Used
from dashboard.costs.forecasts.tariffs import Bills, Tariff
from dashboard.drills import canary, report
from dashboard.drills.boards import stages
from dashboard.drills.canary import CANARY, Canary, Moment, hindrances
from dashboard.drills.course import Arrival, Course, Step
from dashboard.models import Drill, EntityHealth
from pipeline.price_tiers import Price, Tier
from tests.dashboard.conftest import NOW
from tests.dashboard.markup import one_line

FORM = {"pair": "contoso", "path": CANARY, "reason": "the monthly one", "messages": "12"}


@pytest.fixture
def primary(reachable, alive):
    """The pair's primary, which has no canary yet."""
    primary = reachable.primary_administration
    yield primary
    for delete in (primary.delete_queue, primary.delete_topic):
        with suppress(ResourceNotFoundError):
            delete(CANARY)


@pytest.fixture
def canary_queue(primary):
    primary.create_queue(CANARY)
    return primary


def drill(pair, **changes):
    """A row as one is begun."""
    at = timezone.now()
    given = {
        "pair": pair,
        "path": CANARY,
        "by": "ada",
        "at": at,
        "request_id": f"{Drill.objects.count():032x}",
        "expires_at": at + timedelta(minutes=15),
        "course": Course(Step.PREPARING, 12).as_json(),
    }
    return Drill.objects.create(**{**given, **changes})


def test_neither_the_question_nor_nonsense_begins_a_drill(canary_queue, as_role):
    page = as_role("operator").get("/drills/start/?pair=contoso")

    assert page.status_code == 200
    assert "The drill affects only pairing-canary" in page.text
    assert "other messages are not touched" in page.text
    for wrong in ({"messages": "3"}, {"messages": "many"}, {"pair": "no pair"}):
        assert as_role("operator").post("/drills/start/", {**FORM, **wrong}).status_code == 400, wrong
    assert not Drill.objects.exists()


def test_a_pair_has_one_drill_at_a_time(canary_queue, as_role):
    operator = as_role("operator")
    operator.post("/drills/start/", FORM)

    answer = operator.post("/drills/start/", FORM)

    assert answer.status_code == 409
    assert "A drill is already running" in answer.text
    assert Drill.objects.count() == 1


def test_a_queue_that_is_not_marked_takes_its_name_typed(canary_queue, as_role):
    operator = as_role("operator")
    asked = operator.get("/drills/start/?pair=contoso&path=orders").text
    refused = operator.post("/drills/start/", {**FORM, "path": "orders"})

    assert "is not marked as a canary" in asked
    assert refused.status_code == 409
    assert not Drill.objects.exists()

    operator.post("/drills/start/", {**FORM, "path": "orders", "typed": "orders"})
    assert Drill.objects.get().path == "orders"


def test_the_canary_of_the_pairs_file_is_the_one_that_is_meant(canary_queue, as_role, settings):
    settings.PAIRS_FILE.write_text(settings.PAIRS_FILE.read_text() + 'drill = { entity = "orders" }\n')

    page = as_role("operator").get("/drills/start/?pair=contoso").text

    assert "The drill affects only orders" in page
    assert "is not marked" not in page


def test_a_missing_canary_is_made_only_if_that_is_ticked(primary, as_role):
    operator = as_role("operator")
    assert "Create pairing-canary" in operator.get("/drills/start/?pair=contoso").text

    refused = operator.post("/drills/start/", FORM)
    assert "There is no queue or topic pairing-canary." in refused.text
    assert not Drill.objects.exists()

    operator.post("/drills/start/", {**FORM, "creates": "1"})
    assert Drill.objects.get().creates_canary is True


def test_what_speaks_against_is_reported_before_the_click_and_holds_at_it(canary_queue, as_role):
    EntityHealth.objects.filter(path="orders").update(state="failing", since=NOW)
    operator = as_role("operator")

    assert "drills require a healthy pair" in operator.get("/drills/start/?pair=contoso").text
    assert operator.post("/drills/start/", FORM).status_code == 409
    assert not Drill.objects.exists()


def test_a_topic_is_a_canary_once_it_has_the_drills_subscription_and_neither_another_nor_messages(primary, reachable):
    primary.create_topic(CANARY)
    seen = canary.look("contoso", CANARY)
    assert (seen.kind, seen.missing) == ("topic", "the subscription pairing-canary of pairing-canary")
    assert "has no subscription pairing-canary" in hindrances(seen, Moment())[0]
    assert hindrances(seen, Moment(), creates=True) == []

    primary.create_subscription(CANARY, CANARY)
    seen = canary.look("contoso", CANARY)
    assert (hindrances(seen, Moment()), seen.strangers) == ([], False)
    with reachable.primary.get_topic_sender(CANARY) as sender:
        sender.send_messages(ServiceBusMessage("somebody's"))
    assert canary.look("contoso", CANARY).strangers is True

    primary.create_subscription(CANARY, "billing")
    assert any("billing" in one for one in hindrances(canary.look("contoso", CANARY), Moment()))


def test_the_page_shows_what_kind_of_canary_it_is_and_asks_what_to_make(primary, as_role):
    operator = as_role("operator")
    asked = operator.get("/drills/start/?pair=contoso").text
    assert '<option value="topic"' in asked
    operator.post("/drills/start/", {**FORM, "creates": "1", "kind": "topic"})
    row = Drill.objects.get()
    assert (row.kind, row.creates_canary) == ("topic", True)
    row.delete()
    primary.create_queue(CANARY, requires_session=True)

    reported = operator.get("/drills/start/?pair=contoso").text

    assert "a queue with sessions of contoso" in " ".join(reported.split())
    assert "in a session of their own" in reported
    operator.post("/drills/start/", FORM)
    assert Drill.objects.get().kind == "session_queue"


def test_messages_of_others_are_seen_and_those_of_drills_are_not_others(canary_queue, reachable):
    with reachable.primary.get_queue_sender(CANARY) as sender:
        sender.send_messages(ServiceBusMessage("left by a drill", application_properties={"drill": "1"}))
        assert canary.look("contoso", CANARY).strangers is False
        sender.send_messages(ServiceBusMessage("somebody's"))
        assert canary.look("contoso", CANARY).strangers is True


FIT = Canary(CANARY, is_there=True)
AGAINST = {
    "a drill runs": (FIT, Moment(running="orders"), "A drill is already running"),
    "nobody works": (FIT, Moment(is_silent=True), "No worker is alive"),
    "an outage": (FIT, Moment(away=("orders",)), "drills require a healthy pair"),
    "a paused syphon": (FIT, Moment(paused=True), "Resume it first"),
    "no queue": (replace(FIT, is_there=False), Moment(), "There is no queue"),
    "other subscriptions": (replace(FIT, others=("billing",)), Moment(), "other subscriptions"),
    "sessions in a subscription": (replace(FIT, needs_sessions=True), Moment(), "requires sessions"),
    "no subscription": (replace(FIT, lacks_subscription=True), Moment(), "has no subscription"),
    "disabled": (replace(FIT, status="Disabled"), Moment(), "is Disabled, not Active"),
    "forwarding": (replace(FIT, forwards_to="elsewhere"), Moment(), "forwards its messages"),
    "cannot be asked": (replace(FIT, is_there=False, trouble="no answer"), Moment(), "no answer"),
}


@pytest.mark.parametrize(("queue", "now", "reported"), AGAINST.values(), ids=AGAINST.keys())
def test_each_hindrance_is_reported(queue, now, reported):
    against = hindrances(queue, now)

    assert len(against) == 1
    assert reported in against[0]


def test_nothing_speaks_against_a_fit_canary_in_calm():
    assert hindrances(FIT, Moment()) == []


def test_a_running_drill_shows_its_steps_and_the_button_to_call_it_off(pair, redis_here, as_role):
    at = timezone.now()
    course = Course(Step.DIVERTING, 12, sent=6, done=3, forced_at=at, known_at=at)
    row = drill(pair, course=course.as_json(), step="diverting")
    operator = as_role("operator")

    page = operator.get(f"/drills/{row.pk}/").text
    assert "2 of 4 accepted, 0 seen in the backlog" in page
    assert page.count('data-state="done"') == 3
    assert page.count('data-state="now"') == 1
    assert "Abort and roll back" in page


def test_a_drill_that_is_over_is_not_called_off(pair, redis_here, as_role):
    row = drill(pair, ended_at=timezone.now(), outcome="passed")

    answer = as_role("operator").post(f"/drills/{row.pk}/abort/", follow=True)

    assert "The drill is over" in answer.text


def ended(pair):
    at = timezone.now()
    course = Course(
        Step.COUNTING,
        12,
        sent=12,
        done=7,
        forced_at=at,
        fleet=("app:1:aaaa", "app:2:bbbb", "app:3:cccc", "app:4:dddd"),
        heard={"app:1:aaaa": 0.1, "app:2:bbbb": 0.3, "app:3:cccc": 2.5},
        known_at=at + timedelta(seconds=0.2),
        diverted_at=at + timedelta(seconds=0.5),
        released_at=at + timedelta(seconds=3),
        healed_at=at + timedelta(seconds=4),
        home_at=at + timedelta(seconds=9),
        seen_in_backlog=4,
        resent=(6,),
        arrivals=(*(Arrival(number, number) for number in range(1, 12)), Arrival(6, 20)),
        operations={"send": 8, "send_backlog": 4, "receive": 12, "settle": 12},
    )
    reported = report.report(course, at, at + timedelta(seconds=20)) | {"cost": None}
    return drill(
        pair,
        course=course.as_json(),
        step="ended",
        ended_at=at + timedelta(seconds=20),
        outcome="failed",
        detail="1 of 12 messages did not arrive: 12.",
        report=reported,
    )


def test_the_report_shows_what_was_lost_doubled_and_how_long_it_took(pair, redis_here, as_role):
    row = ended(pair)

    page = one_line(as_role("viewer").get(f"/drills/{row.pk}/").text)

    assert 'data-outcome="failed"' in page
    assert '<span class="bad">12</span>' in page
    assert "sent again after an error: 6" in page
    assert "0.5\N{NO-BREAK SPACE}s" in page
    assert "Sent to the primary by the syphon" in page
    words = " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "half of them within 300 ms, all within 2.5 s" in words
    assert "(3 of 4 reported)" in words


def test_the_report_is_there_as_json(pair, redis_here, as_role):
    row = ended(pair)

    reported = json.loads(as_role("viewer").get(f"/drills/{row.pk}.json").text)

    assert reported["outcome"] == "failed"
    assert reported["report"]["messages"]["lost"] == [12]
    assert reported["report"]["times_s"]["until_all_was_home"] == 5.0
    assert reported["report"]["operations"]["syphon_receive"] == 4
    assert reported["report"]["propagation"] == {"processes": 4, "reported": 3, "p50_s": 0.3, "max_s": 2.5}


def test_the_list_shows_every_drill_and_the_pair_s_canary(pair, redis_here, as_role):
    row = ended(pair)
    assert as_role("viewer").get("/drills/999/").status_code == 404

    page = as_role("viewer").get("/drills/").text

    assert f'data-drill="{row.pk}"' in page
    assert "did not arrive: 12" in page
    assert "none is marked" in page


PRICE = Price((Tier(0, Fraction(0)), Tier(100, Fraction(1, 1_000_000))))


def test_only_what_is_billed_has_a_price():
    reported = report.priced(Bills(PRICE.after(1_000)), {"send": 8, "settle": 12, "syphon_settle": 4, "receive": 12})

    assert reported == {"billable_operations": 20, "amount": "0.00002"}


@pytest.mark.parametrize(
    ("used", "used_secondary", "amount"),
    [(1_000, None, "0.000041"), (1_000, 0, "0.000015"), (0, 1_000, "0.000026"), (90, 95, "0.000026")],
    ids=["one bill", "the secondary's is free as yet", "the primary's is free as yet", "both cross the tier"],
)
def test_each_subscription_s_operations_are_priced_on_its_own_ladder(used, used_secondary, amount):
    home = {"send": 6, "syphon_send": 3, "receive": 3, "ping": 1, "manage": 2}
    away = {"send_backlog": 3, "syphon_receive": 3, "syphon_settle": 9, "manage": 20}
    reported = {kind: home.get(kind, 0) + away.get(kind, 0) for kind in {**home, **away}}

    bills = Tariff(primary=PRICE, secondary=PRICE).bills(Used(used, used_secondary))

    assert report.priced(bills, reported) == {"billable_operations": 41, "amount": amount}


@pytest.mark.parametrize(("exact", "reported"), [("0", "0.00"), ("1.5", "1.50"), ("0.00000012", "0.00000012")])
def test_money_has_two_decimals_at_least(exact, reported):
    assert report.money(Decimal(exact)) == reported


ORDERS = [
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], {"before": True, "during": True, "after": True}),
    ([1, 2, 3, 7, 8, 9, 4, 5, 6], {"before": True, "during": True, "after": True}),
    ([1, 2, 3, 5, 4, 6, 7, 8, 9], {"before": True, "during": False, "after": True}),
    ([1, 2, 3, 4, 5, 4, 6, 7, 8, 9], {"before": True, "during": True, "after": True}),
]


@pytest.mark.parametrize(("numbers", "reported"), ORDERS)
def test_order_is_reported_by_thirds_and_a_double_does_not_break_it(numbers, reported):
    arrivals = tuple(Arrival(number, sequence) for sequence, number in enumerate(numbers))

    assert report.is_in_order(Course(Step.COUNTING, 9, arrivals=arrivals)) == reported


def test_of_a_third_of_which_nothing_arrived_no_order_is_reported():
    course = Course(Step.COUNTING, 9, arrivals=(Arrival(1, 1),))

    assert report.is_in_order(course) == {"before": True, "during": None, "after": None}


def test_counting_that_found_a_loss_is_not_shown_as_good():
    course = Course(Step.COUNTING, 9, sent=9, done=7)

    assert stages(course, is_over=True)[-1].tone == "is-failed-over"


def test_a_drill_rolled_back_in_the_middle_shows_how_far_it_came():
    course = Course(Step.ROLLING_BACK, 9, sent=4, done=3, known_at=NOW, failure="no answer")

    reported = [(stage.word, stage.state) for stage in stages(course, is_over=False)]

    assert reported[2] == ("Forcing the failover", "done")
    assert reported[3] == ("Sending to the backlog", "never")
    assert reported[-1] == ("Rolling back", "now")
