"""Incidents, read out of events and samples (docs/specification.md, sections 5 and 8)."""

import json
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.fleet.depth.peaks import roll_up
from dashboard.fleet.pruning import prune
from dashboard.fleet.state import message_counts, projection
from dashboard.fleet.usage import metered
from dashboard.incidents.folding import LONGEST, drain, drained, incidents
from dashboard.models import AuditEntry, DeadLetterJob, DiscardedMessage, FailoverEvent, ResubmittedMessage
from dashboard.site.redis import shared_state
from pairing.events import EXPIRED, counted
from pairing.fleet.shared_health import PingRecord
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_metered import record
from tests.dashboard.fleet.test_projection import Queue, event
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.postgres_nightly

FIVE_S = timedelta(seconds=5)


def at(second: float, kind: str, **more) -> FailoverEvent:
    known = {"pair": "contoso", "entity": "orders", "reason": f"{kind} at {second:g}", "process": "host:1:aaaa"}
    return FailoverEvent(
        event_id=f"{kind}-{second:g}", time=NOW + timedelta(seconds=second), kind=kind, **{**known, **more}
    )


def depth(*points: tuple[float, int]):
    return [(NOW + timedelta(seconds=second), waiting) for second, waiting in points]


def test_an_incident_goes_from_the_first_failure_to_the_recovery():
    (one,) = incidents([at(0, "failing"), at(5, "failed_over"), at(60, "recovered")], FIVE_S)

    times = [(at - NOW).total_seconds() for at in (one.began_at, one.failed_over_at, one.recovered_at)]
    assert times == [0, 5, 60]
    assert one.id == "failed_over-5"


def test_a_failure_long_before_is_another_story_and_what_several_saw_is_one():
    seen = (at(0, "failing"), at(600, "failing"), at(601, "failing"), at(605, "failed_over"), at(606, "failed_over"))
    (one,) = incidents(seen, FIVE_S)

    assert (one.began_at, one.recovered_at, len(one.events)) == (NOW + timedelta(seconds=600), None, 4)


def test_a_forced_failover_begins_when_it_was_forced():
    (one,) = incidents([at(0, "forced", operator="ada"), at(9, "released", operator="ada")], FIVE_S)

    assert (one.began_at, one.forced_by) == (NOW, "ada")


@pytest.mark.parametrize(
    ("samples", "look_s", "home_s"),
    [
        pytest.param(depth((10, 5), (58, 40), (70, 20), (80, 0)), 70, 80, id="drained after the recovery"),
        pytest.param(depth((10, 5), (58, 40), (70, 20)), 70, None, id="still draining"),
        pytest.param(depth((10, 5), (58, 40)), None, None, id="not looked at since"),
        pytest.param([], 63, 63, id="nothing was ever seen waiting"),
        pytest.param([], None, None, id="nobody ever looked"),
        pytest.param(depth((62, 9), (70, 0)), 62, 70, id="seen waiting only afterwards"),
    ],
)
def test_an_incident_is_over_when_the_backlog_was_seen_to_be_home(samples, look_s, home_s):
    (one,) = incidents([at(0, "failed_over"), at(60, "recovered")], FIVE_S)

    over = drained(one, samples, None if look_s is None else NOW + timedelta(seconds=look_s))

    assert over.drained_at == (None if home_s is None else NOW + timedelta(seconds=home_s))


def test_the_time_left_follows_from_the_rate_so_far():
    (one,) = incidents([at(0, "failed_over"), at(60, "recovered")], FIVE_S)
    samples = depth((30, 500), (60, 1000), (70, 900), (80, 800))

    reported = drain(one, samples, NOW + timedelta(seconds=81))

    assert (reported.peak, reported.waiting) == (1000, 800)
    assert reported.rate == pytest.approx(10)
    assert reported.left == timedelta(seconds=80)


def test_the_rate_of_a_drain_leaves_its_pause_out():
    (one,) = incidents([at(0, "failed_over"), at(60, "recovered")], FIVE_S)
    samples = depth((60, 400), (70, 300), (80, 300), (110, 300), (120, 200))

    assert drain(one, samples, NOW + timedelta(seconds=121)).rate == 10


@pytest.mark.parametrize("samples", [depth((60, 100), (70, 100)), depth((60, 100), (70, 120)), depth((65, 100))])
def test_a_backlog_that_does_not_shrink_has_no_time_left(samples):
    (one,) = incidents([at(0, "failed_over"), at(60, "recovered")], FIVE_S)

    reported = drain(one, samples, NOW + timedelta(seconds=81))

    assert (reported.rate, reported.left) == (None, None)


@pytest.mark.parametrize(
    ("samples", "left"),
    [
        (depth((60, 2**62 + 4096), (80, 2**62)), LONGEST),
        (depth((70, 100), (70, 60)), None),
        (depth((80, 60), (80, 60), (80, 60)), None),
    ],
    ids=["more than time can tell", "two looks at one moment", "one look thrice"],
)
def test_no_number_of_messages_and_no_two_looks_at_one_moment_break_the_page(samples, left):
    (one,) = incidents([at(0, "failed_over"), at(60, "recovered")], FIVE_S)

    assert drain(one, samples, NOW + timedelta(seconds=81)).left == left


@pytest.fixture
def story(pair, redis_here, alive):
    """An outage half an hour ago that is over; the id of its failover."""
    began = timezone.now() - timedelta(minutes=30)

    def then(second, kind, identity, **more):
        return event(identity * 32, kind, time=began + timedelta(seconds=second), **more)

    projection.record_events(
        [then(0, "failing", "1"), then(5, "failed_over", "2", reason="no answer"), then(60, "recovered", "3")]
    )
    for second, waiting in ((10, 40), (59, 400), (65, 100), (75, 0)):
        message_counts.record_depths("contoso", [Queue(active=waiting)], began + timedelta(seconds=second))
        message_counts.record_waiting("contoso", {"orders": waiting}, began + timedelta(seconds=second))
    AuditEntry(
        request_id="1", at=began + timedelta(seconds=30), operator="ada", verb="hold", pair="contoso", target="orders"
    ).save()
    return "2" * 32


def test_of_a_long_timeline_a_dozen_lines_stand_open(story, as_role):
    began = FailoverEvent.objects.earliest("time").time
    known = {"operator": "ada", "verb": "pause_syphon", "pair": "contoso", "target": "orders"}
    for n in range(30):
        AuditEntry(request_id=f"pause-{n}", at=began + timedelta(seconds=6 + n), **known).save()
    page = as_role("viewer").get(f"/pairs/contoso/incidents/{story}/").text
    timeline = page[page.index('id="timeline"') : page.index('id="ledger"')]
    assert [part.count("<tr") - 1 for part in timeline.split('id="timeline-rest"')] == [12, 25]


def test_the_order_that_forced_a_failover_is_among_the_actions(pair, redis_here, alive, as_role):
    forced = timezone.now() - timedelta(minutes=1)
    projection.record_events([event("4" * 32, "forced", time=forced, operator="ada", reason="ticket 7")])
    before, after = forced - timedelta(milliseconds=40), forced + timedelta(seconds=5)  # the trail is written first
    done, paced = {"target": "orders", "reason": "because of ticket 7"}, {"detail": "at most 5 messages a second."}
    for at, verb, more in ((before, "fail_over", done), (after, "pace_syphon", paced | {"outcome": "done"})):
        AuditEntry(request_id=verb, at=at, operator="ada", verb=verb, pair="contoso", **more).save()

    page = as_role("viewer").get(f"/pairs/contoso/incidents/{'4' * 32}/").text
    assert "because of ticket 7" in page
    assert "at most 5 messages a second" in page


def test_a_pace_of_the_whole_pair_is_reported_where_one_entity_waits_for_it(pair, redis_here, alive, as_role):
    recovered = timezone.now() - timedelta(minutes=1)
    projection.record_events(
        [
            event("5" * 32, "failed_over", time=recovered - timedelta(seconds=9)),
            event("6" * 32, "recovered", time=recovered),
        ]
    )
    message_counts.record_waiting("contoso", {"orders": 180}, recovered)
    message_counts.record_waiting("contoso", {"orders": 90}, recovered + timedelta(seconds=30))
    shared_state("contoso").pace_syphon(None, 3.0, "ada", "the primary is weak")

    entity, incident = "/pairs/contoso/entities/orders/", f"/pairs/contoso/incidents/{'5' * 32}/"

    page = as_role("viewer").get(entity).text
    assert "whole pair at most 3 a second, set by ada" in one_line(page)
    assert "in about 30\N{NO-BREAK SPACE}s at this rate" in page
    assert "the whole pair paced by ada to 3 a second" in one_line(as_role("viewer").get(incident).text)


def test_the_json_has_what_a_post_mortem_needs(story, as_role):
    answer = as_role("viewer").get(f"/pairs/contoso/incidents/{story}.json")
    reported = json.loads(answer.content)

    assert "attachment" in answer["Content-Disposition"]
    assert (reported["entity"], reported["peak_messages"], reported["lasted_s"]) == ("orders", 400, 75.0)
    assert [one["kind"] for one in reported["events"]] == ["failing", "failed_over", "recovered"]
    assert reported["actions"][0]["operator"] == "ada"
    assert [waiting for _, waiting in reported["depth"]] == [40, 400, 100, 0]


def test_the_messages_of_the_entity_are_counted_apart_from_those_of_others_and_of_other_times(story, as_role):
    minute = timedelta(minutes=1)
    began = FailoverEvent.objects.get(kind="failed_over").time.replace(second=0, microsecond=0)
    sends = [record(began, 400, kind="send_backlog"), record(began + minute, 397, kind="syphon_send")]
    sends += [record(began, 50, kind="send_backlog", entity="payments"), record(began - minute, 9, kind="send_backlog")]
    metered.store(sends, timezone.now())
    gone = counted(2, "contoso/x-servicebus-transfer/0", "refused 10 times: too large")
    during = FailoverEvent.objects.get(kind="failed_over").time + timedelta(seconds=60)
    for identity, kind in (("a", "dead_lettered"), ("b", "set_aside")):
        projection.record_events([event(identity * 32, kind, time=during, reason=gone)])
    projection.record_events([event("c" * 32, "set_aside", entity="payments", time=during, reason=gone)])
    viewer, address = as_role("viewer"), f"/pairs/contoso/incidents/{story}"

    ledger = viewer.get(f"{address}.json").json()["moved"]
    counted_ones = {"to_backlog": 400, "to_primary": 397, "dead_lettered": 2, "set_aside": 2, "unexplained": -1}
    none = ("waiting_before", "waiting", "expired", "resubmitted", "discarded", "of_unknown_entity")
    assert ledger == counted_ones | dict.fromkeys(none, 0)
    assert viewer.get(f"/api/v1/incidents/contoso/{story}").json()["moved"] == ledger
    page, document = one_line(viewer.get(f"{address}/").text), viewer.get(f"{address}.md").text
    assert '<b class="bad">-1</b>' in page
    assert "More were drained than were sent" in page
    assert "| Not accounted for | -1 |" in document


def test_what_expired_what_names_no_entity_and_what_was_decided_about_dead_letters_is_named(story, pair, as_role):
    failed_over = FailoverEvent.objects.get(kind="failed_over").time
    during, minute = failed_over + timedelta(seconds=60), failed_over.replace(second=0, microsecond=0)
    queue = "contoso/x-servicebus-transfer/0"
    metered.store([record(minute, 20, kind="send_backlog"), record(minute, 12, kind="syphon_send")], timezone.now())
    late = counted(2, queue, f"{EXPIRED}0:00:05 was over after 0:01:00 in the backlog")
    for identity, entity, kind, reason in (
        ("a", "orders", "dead_lettered", late),
        ("b", "orders", "dead_lettered", counted(4, queue, "refused 10 times: too large")),
        ("c", queue, "set_aside", counted(2, queue, "the SDK cannot decode it")),
        ("d", queue, "set_aside", "receives nothing, 5 waiting"),
        ("e", "payments", "dead_lettered", late),
    ):
        projection.record_events([event(identity * 32, kind, entity=entity, time=during, reason=reason)])
    decide(pair, queue, "orders", during, resubmitted=3, discarded=1)
    decide(pair, queue, "orders", failed_over - timedelta(hours=1), resubmitted=5, discarded=5)
    decide(pair, queue, "payments", during, resubmitted=5, discarded=5)
    decide(pair, "orders", "orders", during, resubmitted=0, discarded=5)
    viewer, address = as_role("viewer"), f"/pairs/contoso/incidents/{story}"

    ledger = viewer.get(f"{address}.json").json()["moved"]

    named = ("dead_lettered", "expired", "resubmitted", "discarded", "of_unknown_entity", "unexplained")
    assert [ledger[name] for name in named] == [6, 2, 3, 1, 2, 2]
    assert viewer.get(f"/api/v1/incidents/contoso/{story}").json()["moved"] == ledger
    page, document = one_line(viewer.get(f"{address}/").text), viewer.get(f"{address}.md").text
    assert "<dt>Dead-lettered</dt> <dd>6 <small>2 of them expired in the backlog</small></dd>" in page
    assert "<dt>Resubmitted later</dt> <dd>3</dd>" in page
    assert "<dt>Discarded later</dt> <dd>1</dd>" in page
    assert "<b>Of an unknown entity: 2</b>" in page
    assert "may be among those of an unknown entity" in page
    for line in (
        "| Of these, expired in the backlog | 2 |",
        "| Resubmitted later | 3 |",
        "| Discarded later | 1 |",
        "| Taken out of the pair's backlog, of an unknown entity | 2 |",
    ):
        assert line in document


def decide(pair, queue, entity, enqueued_at, *, resubmitted, discarded):
    """What jobs of operators have stored of the dead letters of a queue."""
    known = {"entity": entity, "enqueued_at": enqueued_at, "at": timezone.now()}
    done = {"pair": pair, "path": queue, "by": "ada", "at": timezone.now(), "ended_at": timezone.now(), "upto": 1}
    decided = (("resubmit", ResubmittedMessage, resubmitted), ("discard", DiscardedMessage, discarded))
    for kind, model, count in decided:
        job = DeadLetterJob.objects.create(kind=kind, request_id=uuid.uuid4().hex, **done)
        model.objects.bulk_create(model(job=job, number=number, **known) for number in range(count))


def test_what_an_earlier_outage_left_in_the_backlog_is_in_the_ledger_of_the_next(pair, redis_here, alive, as_role):
    minute = timedelta(minutes=1)
    began = timezone.now().replace(second=0, microsecond=0) - 30 * minute
    message_counts.record_waiting("contoso", {"orders": 30}, began - minute)
    projection.record_events([event("1" * 32, "failed_over", time=began)])
    metered.store([record(began, 100, kind="send_backlog")], timezone.now())
    message_counts.record_waiting("contoso", {"orders": 130}, began + minute)

    def ledger():
        return as_role("viewer").get(f"/pairs/contoso/incidents/{'1' * 32}.json").json()["moved"]

    assert (ledger()["waiting_before"], ledger()["waiting"], ledger()["unexplained"]) == (30, 130, None)

    projection.record_events([event("2" * 32, "recovered", time=began + 2 * minute)])
    metered.store([record(began + 3 * minute, 130, kind="syphon_send")], timezone.now())
    message_counts.record_depths("contoso", [Queue(active=0)], began + 4 * minute)
    message_counts.record_waiting("contoso", {"orders": 0}, began + 4 * minute)
    assert (ledger()["to_primary"], ledger()["waiting"], ledger()["unexplained"]) == (130, 0, 0)
    page = one_line(as_role("viewer").get(f"/pairs/contoso/incidents/{'1' * 32}/").text)
    assert "<dt>In the backlog before</dt> <dd>30</dd>" in page
    assert '<dt>Not accounted for</dt> <dd> <b class="good">0</b>' in page


def test_pings_are_reported_for_the_failover_they_belong_to_alone(story, as_role):
    def reported(identity):
        return as_role("viewer").get(f"/pairs/contoso/incidents/{identity}.json").json()["pings"]

    now = timezone.now()
    began = FailoverEvent.objects.get(event_id=story).time.replace(second=0, microsecond=0)
    metered.store([record(began + timedelta(minutes=1), 4, kind="ping")], now)
    projection.record_events([event("7" * 32, "failed_over", time=now - timedelta(minutes=2))])
    projection.record_pings("contoso", {"orders": PingRecord(now, False, "tonight's", 1, None)})

    assert [reported(story)[name] for name in ("count", "last_at")] == [4, None]
    assert [reported("7" * 32)[name] for name in ("count", "reason")] == [0, "tonight's"]


def test_the_json_says_what_holds_up_the_way_home(pair, redis_here, alive, as_role):
    recovered = timezone.now() - timedelta(minutes=1)
    beginning = event("5" * 32, "failed_over", time=recovered - timedelta(seconds=9))
    projection.record_events([beginning, event("6" * 32, "recovered", time=recovered)])
    message_counts.record_waiting("contoso", {"orders": 180}, recovered)
    shared_state("contoso").pace_syphon(None, 3.0, "ada", "the primary is weak")
    pair.pauses.create(queue="orders", by="bob", reason="ticket 8", at=recovered)

    reported = as_role("viewer").get(f"/pairs/contoso/incidents/{'5' * 32}.json").json()

    assert [reported["pause"][name] for name in ("queue", "by", "reason")] == ["orders", "bob", "ticket 8"]
    assert [(one["target"], one["messages_per_s"], one["by"]) for one in reported["paces"]] == [("*", 3.0, "ada")]


FORGOTTEN = {"10 days later": 10, "40 days later": 40, "399 days later": 399}


@pytest.fixture(params=FORGOTTEN.values(), ids=FORGOTTEN)
def long_ago(request, pair, orders, redis_here, alive):
    """An outage whose samples are forgotten; the id of its failover."""
    began = timezone.now().replace(minute=20, second=0, microsecond=0) - timedelta(days=request.param)
    then = began + timedelta(seconds=60)
    known = [("1", "failed_over", began), ("2", "recovered", then)]
    projection.record_events([event(identity * 32, kind, time=at) for identity, kind, at in known])
    for second, waiting in ((-1200, 0), (10, 40), (59, 400), (65, 100), (75, 0), (3000, 0)):
        message_counts.record_depths("contoso", [Queue(active=waiting)], began + timedelta(seconds=second))
        message_counts.record_waiting("contoso", {"orders": waiting}, began + timedelta(seconds=second))
    roll_up(pair)
    assert prune(timezone.now())["WaitingSample"] == 3
    return "1" * 32


def test_an_incident_whose_samples_are_forgotten_still_shows_its_peak_and_its_end(long_ago, as_role):
    reported = as_role("viewer").get(f"/pairs/contoso/incidents/{long_ago}.json").json()

    assert (reported["peak_messages"], reported["lasted_s"]) == (400, 75.0)
    assert max(waiting for _, waiting in reported["depth"]) == 400
    assert reported["depth"][-1][1] == 0
    assert "No depth has been measured" not in as_role("viewer").get(f"/pairs/contoso/incidents/{long_ago}/").text


def test_an_earlier_outage_in_the_same_hour_lends_it_no_peak(pair, orders, redis_here, alive, as_role):
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
    for minute, kind in ((5, "failed_over"), (10, "recovered"), (40, "failed_over"), (45, "recovered")):
        projection.record_events([event(f"{minute:032}", kind, time=hour + timedelta(minutes=minute))])
    for minute, waiting in ((6, 900), (11, 0), (41, 20), (46, 0)):
        message_counts.record_depths("contoso", [Queue(active=waiting)], hour + timedelta(minutes=minute))
        message_counts.record_waiting("contoso", {"orders": waiting}, hour + timedelta(minutes=minute))
    roll_up(pair)

    reported = as_role("viewer").get(f"/pairs/contoso/incidents/{40:032}.json").json()

    assert reported["peak_messages"] == 20


def test_an_event_that_began_nothing_is_no_incident(story, as_role):
    assert as_role("viewer").get(f"/pairs/contoso/incidents/{'9' * 32}/").status_code == 404
