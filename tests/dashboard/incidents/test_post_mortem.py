"""The post-mortem of an incident: one timeline of what happened and who did what, and the same as files."""

import csv
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.fleet.state import message_counts, projection
from dashboard.fleet.state.event_lines import EventLine
from dashboard.fleet.usage import metered
from dashboard.incidents.folding import Incident
from dashboard.incidents.timeline import timeline
from dashboard.models import AuditEntry, FailoverEvent
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_metered import record
from tests.dashboard.fleet.test_projection import Queue, event
from tests.dashboard.incidents.test_incidents import at
from tests.dashboard.markup import one_line

EVENT_OF = {"hold": "held", "pace_syphon": ""}
SECOND = timedelta(seconds=1)


def incident(**more: object) -> Incident:
    known = {"id": "x", "pair": "contoso", "entity": "orders", "began_at": NOW, "failed_over_at": NOW + 5 * SECOND}
    return Incident(**{**known, "reason": "no answer", "forced_by": None, **more})


def entry(second: float, verb: str, **more: object) -> AuditEntry:
    known = {"operator": "ada", "pair": "contoso", "target": "orders", "reason": "ticket 7", "outcome": "done"}
    return AuditEntry(at=NOW + second * SECOND, verb=verb, **{**known, **more})


def test_events_actions_and_depth_are_in_one_order():
    samples = [(NOW + n * SECOND, waiting) for n, waiting in ((6, 10), (30, 90), (60, 40), (70, 0))]
    events = [EventLine(at(0, "failing")), EventLine(at(5, "failed_over"), processes=3), EventLine(at(50, "recovered"))]
    over = incident(recovered_at=NOW + 50 * SECOND, drained_at=NOW + 70 * SECOND)

    lines = timeline(over, events, [entry(40, "pause_syphon", target="*")], samples, EVENT_OF)

    assert [(one.kind or one.verb or one.words, one.waiting) for one in lines] == [
        ("failing", 0),
        ("failed_over", 0),
        ("First messages seen in the backlog", 10),
        ("Most messages in the backlog", 90),
        ("pause_syphon", 90),
        ("recovered", 90),
        ("Backlog seen to be empty", 0),
    ]
    assert (lines[1].often, lines[4].about, lines[4].by) == ("in 3 processes", "*", "ada")


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        pytest.param({}, 1, id="the entry and the event of one action"),
        pytest.param({"outcome": ""}, 2, id="nobody knows whether it was carried out"),
        pytest.param({"outcome": "refused"}, 2, id="it was refused"),
        pytest.param({"operator": "bob"}, 2, id="another person"),
        pytest.param({"verb": "release"}, 2, id="another action"),
        pytest.param({"at": NOW + 60 * SECOND}, 2, id="a minute later"),
    ],
)
def test_an_action_that_is_recorded_twice_is_one_line(changes, lines):
    done = AuditEntry(**{**{f.name: getattr(entry(10, "hold"), f.name) for f in AuditEntry._meta.fields}, **changes})
    held = EventLine(at(10.1, "held", operator="ada"))

    found = timeline(incident(), [held], [done], [], EVENT_OF)

    assert len(found) == lines


@pytest.fixture
def story(pair, redis_here, alive):
    """An outage that is over, with a hostile reason, metered messages and an operator; the id of its failover."""
    began = (timezone.now() - timedelta(minutes=30)).replace(second=0, microsecond=0)
    reported = [(0, "failing", "1"), (5, "failed_over", "2"), (60, "recovered", "3")]
    reason = '=HYPERLINK("x") | <b>broken</b>'
    projection.record_events(
        [event(name * 32, kind, time=began + s * SECOND, reason=reason) for s, kind, name in reported]
    )
    paused = began + 20 * SECOND
    projection.record_events(
        [event("4" * 32, "syphon_paused", time=paused, entity="*", operator="@bob", reason="hush")]
    )
    for second, waiting in ((10, 40), (59, 400), (65, 100), (75, 0)):
        message_counts.record_depths("contoso", [Queue(active=waiting)], began + second * SECOND)
        message_counts.record_waiting("contoso", {"orders": waiting}, began + second * SECOND)
    metered.store([record(began, 450, kind="send_backlog"), record(began, 450, kind="syphon_send")], timezone.now())
    AuditEntry(
        request_id="1", at=began + 30 * SECOND, operator="ada", verb="hold", pair="contoso", target="orders",
        reason="ticket 7", outcome="failed",
    ).save()  # fmt: skip
    return "2" * 32


def test_the_page_has_one_timeline_with_absolute_times(story, as_role):
    page = one_line(as_role("viewer").get(f"/pairs/contoso/incidents/{story}/").text)
    began = FailoverEvent.objects.get(kind="failing").time
    table = page[page.index('<table class="log timeline">') :]

    for what in ("Failing", "Failed over", "Syphon paused", "whole pair", "hush", "Hold", "ticket 7", "Recovered"):
        assert what in table, what
    assert f"{began:%Y-%m-%d %H:%M:%S}" in table
    assert "data-relative" not in table
    assert table.index("hush") < table.index("ticket 7") < table.index("Backlog seen to be empty")
    for words in ("450 operations", "First failure", "Over", "Drained", "400", "1 min 15 s"):
        assert words in page.replace("\N{NO-BREAK SPACE}", " "), words


def test_the_timeline_is_a_file_for_a_spreadsheet_without_formulas(story, as_role):
    answer = as_role("viewer").get(f"/pairs/contoso/incidents/{story}.csv")
    lines = list(csv.DictReader(answer.text.splitlines()))

    assert answer["Content-Disposition"] == 'attachment; filename="incident-22222222.csv"'
    assert [line["since_first_failure_s"] for line in lines][:2] == ["0.0", "5.0"]
    assert {line["reason"][:2] for line in lines if "HYPERLINK" in line["reason"]} == {"'="}
    assert {line["by"] for line in lines} >= {"'@bob", "ada"}
    assert [line["waiting_messages"] for line in lines][-1] == "0"


def test_the_post_mortem_begins_as_markdown_in_which_names_mean_nothing(story, as_role):
    answer = as_role("viewer").get(f"/pairs/contoso/incidents/{story}.md")
    text = answer.content.decode()

    assert answer["Content-Type"].startswith("text/markdown")
    for part in (
        "# Incident of orders (contoso)",
        "## Timeline",
        "## What was drained",
        "## What it cost",
        "additional operations, as metered.",
    ):
        assert part in text, part
    assert "<b>" not in text.replace("\\<b", "")
    rows = [line for line in text.splitlines() if line.startswith("| 2")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {8}
    for line in ("| Sent to the backlog | 450 |", "| Drained | 450 |", "| Not accounted for | 0 |"):
        assert line in text


def test_the_plain_cause_stands_before_what_was_reported(pair, redis_here, alive, as_role):
    reported = "Errno 111 for 5 s"
    projection.record_events([event("2" * 32, "failed_over", time=timezone.now() - 60 * SECOND, reason=reported)])
    viewer, address = as_role("viewer"), f"/pairs/contoso/incidents/{'2' * 32}"

    assert f"Cause: the primary refuses connections ({reported})" in one_line(viewer.get(f"{address}/").text)
    assert f"Cause: the primary refuses connections ({reported})" in viewer.get(f"{address}.md").text
    of_the_entity = one_line(viewer.get("/pairs/contoso/entities/orders/").text)
    assert of_the_entity.count('<span class="cause">the primary refuses connections</span>') == 1
