"""Messages of backlog queues and their dead letters: browsed, found, downloaded, sent again, discarded."""

import base64
import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from dashboard.backlog import browsing
from dashboard.backlog.browsing import Shown, Wanted
from dashboard.fleet.pairs.namespaces import namespace
from dashboard.models import AuditEntry, BacklogQueue, DeadLetterJob, EntityHealth
from tests.dashboard.markup import one_line
from tests.dashboard.secondary import ORPHAN

HTMX = {"HX-Request": "true"}
HERE = "/backlog/contoso/messages/"
ACT = "/backlog/contoso/dead-letters/"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTILE = "<script>"


@pytest.fixture
def queue(reachable, pair):
    reachable.make()
    return BacklogQueue.objects.create(
        pair=pair, path=ORPHAN, index=7, is_orphan=True, active=2, dead_lettered=2, seen_at=timezone.now()
    )


@pytest.fixture
def dead(queue, reachable):
    """Two dead letters of `orders`, one of them hostile."""
    reachable.fill(ORPHAN, "plain", HOSTILE)
    reachable.dead_letter(ORPHAN, 2, reason="<b>Refused</b>")
    return reachable


def numbers() -> list[int]:
    with namespace("contoso") as here:
        return [message.sequence_number or 0 for message in here.peek(ORPHAN, 0, dead=True)]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (Wanted(), True),
        (Wanted(words="REFUSED"), True),
        (Wanted(words="elsewhere"), False),
        (Wanted(entity="Orders"), True),
        (Wanted(entity="order"), False),
        (Wanted(session="s1"), True),
        (Wanted(session="s2"), False),
        (Wanted(older_than=NOON), True),
        (Wanted(older_than=NOON - timedelta(seconds=1)), False),
        (Wanted(larger_than=100), True),
        (Wanted(larger_than=101), False),
    ],
)
def test_messages_are_found_by_words_destination_session_age_and_size(wanted, fits):
    one = Shown(ORPHAN, 1, entity="orders", session="s1", enqueued_at=NOON, size=100, reason="Refused")

    assert wanted.fits(one) is fits


def test_a_queue_is_browsed_page_by_page(queue, reachable, monkeypatch):
    monkeypatch.setattr(browsing, "SHOWN", 2)
    reachable.fill(ORPHAN, *"abcde")

    seen, after = [], 0
    with namespace("contoso") as here:
        while after is not None:
            found = browsing.scan(here, ORPHAN, Wanted(), dead=False, after=after)
            seen.append([one.body for one in found.messages])
            after = found.goes_on_at

    assert seen == [["a", "b"], ["c", "d"], ["e"]]


def test_a_search_ends_in_time_and_shows_where_to_go_on(queue, reachable):
    reachable.fill(ORPHAN, *"abc")
    times = iter([0.0, 100.0])

    with namespace("contoso") as here:
        found = browsing.scan(here, ORPHAN, Wanted(words="nothing"), dead=False, now=lambda: next(times))

    assert (found.messages, found.scanned) == ([], 3)
    assert found.goes_on_at is not None


def test_the_highest_number_is_found_by_bisection(queue, reachable):
    with namespace("contoso") as here:
        assert browsing.highest_number(here, ORPHAN, dead=False) == -1
    reachable.fill(ORPHAN, *"abcdefg")

    with namespace("contoso") as here:
        highest = browsing.highest_number(here, ORPHAN, dead=False)
        last = browsing.scan(here, ORPHAN, Wanted(), dead=False).messages[-1]

    assert highest == last.number


def test_the_page_shows_what_waits_for_whom_narrowed_by_its_filters(queue, reachable, as_role):
    reachable.fill(ORPHAN, "for orders", entity="orders", session_id="s1")
    reachable.fill(ORPHAN, "for payments", entity="payments")
    viewer = as_role("viewer")

    assert "for orders" in viewer.get(HERE, {"queue": ORPHAN}).text
    narrowed = viewer.get(HERE, {"queue": ORPHAN, "entity": "payments"}).text
    assert "for payments" in narrowed
    assert "for orders" not in narrowed
    assert "session s1" in viewer.get(HERE).text


def test_the_page_says_why_its_sizes_are_not_those_of_the_queue(queue, reachable, as_role):
    reachable.fill(ORPHAN, "one", "two")
    with namespace("contoso") as here:
        shown = sum(one.size for one in browsing.scan(here, ORPHAN, Wanted(), dead=False).messages)
    filled = reachable.administration.get_queue_runtime_properties(ORPHAN).size_in_bytes

    assert 0 < filled < shown
    page = one_line(as_role("viewer").get(HERE, {"queue": ORPHAN}).text)
    assert "Sizes are upper bounds of messages as received; how far a queue is filled is the namespace's own" in page


def test_an_empty_queue_says_what_to_do_next_and_a_namespace_that_cannot_be_asked_is_reported(
    queue, settings, tmp_path, as_role
):
    viewer = as_role("viewer")
    for show in ("", "dead"):
        assert 'class="empty"' in viewer.get(HERE, {"queue": ORPHAN, "show": show}).text
    assert viewer.get(HERE, {"queue": "orders"}).status_code == 404
    settings.PAIRS_FILE = tmp_path / "none.toml"

    answer = viewer.get(HERE, {"queue": ORPHAN})

    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert "The messages could not be read" in answer.text
    assert "is empty" not in answer.text


def test_dead_letters_are_downloaded_whole_and_that_is_on_record(dead, as_role):
    assert "Resubmit" not in as_role("viewer").get(HERE, {"queue": ORPHAN, "show": "dead"}).text
    first = numbers()[1]

    reported = as_role("operator").get(
        "/backlog/contoso/messages.json", {"queue": ORPHAN, "show": "dead", "number": first}
    )

    assert reported["Content-Disposition"].startswith("attachment")
    (one,) = reported.json()["messages"]
    assert base64.b64decode(one["body_base64"]).decode() == HOSTILE
    assert one["entity"] == "orders"
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.target, entry.detail) == ("download", ORPHAN, "1 dead letters")


def bodies(reported: dict) -> list[str]:
    return [base64.b64decode(one["body_base64"]).decode() for one in reported["messages"]]


@pytest.mark.parametrize(("limit", "bound"), [("MOST_WHOLE", 2), ("MOST_BYTES", 4), ("MOST_SCANNED", 1), ("SCAN_S", 0)])
def test_a_download_is_bounded_and_shows_where_it_goes_on(queue, reachable, as_role, monkeypatch, limit, bound):
    reachable.fill(ORPHAN, "1st", "2nd", "3rd")
    monkeypatch.setattr(browsing, limit, bound)
    monkeypatch.setattr(browsing, "_PEEKED_WHOLE", 2)
    operator, got, after = as_role("operator"), [], 0

    while after is not None:
        reported = operator.get("/backlog/contoso/messages.json", {"queue": ORPHAN, "after": after}).json()
        got.append(bodies(reported))
        after = reported["goes_on_at"]

    assert [part for part in got if part] == [["1st", "2nd"], ["3rd"]]


def test_a_filter_that_matches_nothing_does_not_read_a_long_queue_to_its_end(queue, reachable, as_role, monkeypatch):
    reachable.fill(ORPHAN, "1st", "2nd", "3rd")
    monkeypatch.setattr(browsing, "SCAN_S", 0)
    monkeypatch.setattr(browsing, "_PEEKED_WHOLE", 1)

    reported = as_role("operator").get("/backlog/contoso/messages.json", {"queue": ORPHAN, "q": "nothing"}).json()

    assert (reported["messages"], reported["goes_on_at"]) == ([], 2)


def test_what_lies_between_chosen_ones_is_not_read(dead, reachable, as_role, monkeypatch):
    reachable.fill(ORPHAN, "third")
    reachable.dead_letter(ORPHAN, 1)
    first, _, third = numbers()
    monkeypatch.setattr(browsing, "MOST_SCANNED", 2)
    monkeypatch.setattr(browsing, "_PEEKED_WHOLE", 1)

    reported = (
        as_role("operator")
        .get("/backlog/contoso/messages.json", {"queue": ORPHAN, "show": "dead", "number": [first, third]})
        .json()
    )

    assert (bodies(reported), reported["goes_on_at"]) == (["plain", "third"], None)


def test_chosen_dead_letters_are_resubmitted_without_scripts(dead, as_role):
    operator, chosen = as_role("operator"), numbers()[:1]
    asked = operator.get(ACT, {"queue": ORPHAN, "verb": "resubmit", "number": chosen})
    assert "Resubmit 1 dead letter" in asked.text

    answer = operator.post(
        ACT, {"queue": ORPHAN, "verb": "resubmit", "number": chosen, "destination": "payments", "reason": "mended"}
    )

    assert answer.status_code == 302
    row = DeadLetterJob.objects.get()
    assert (row.kind, row.numbers, row.destination, row.total, row.by) == (
        "resubmit",
        chosen,
        "payments",
        1,
        "operator",
    )
    page = operator.get(answer["Location"]).text
    assert "0 of 1" in page
    assert "waiting for a worker" in page


def test_resubmitting_all_covers_what_is_there_now_is_under_way_once_and_is_stopped_by_an_operator(dead, as_role):
    operator, wanted = as_role("operator"), {"queue": ORPHAN, "verb": "resubmit", "which": "all"}
    operator.post(ACT, wanted)
    assert "already running" in operator.post(ACT, wanted, headers=HTMX).text
    row = DeadLetterJob.objects.get()
    assert (row.numbers, row.upto, row.total) == ([], max(numbers()), 2)

    operator.post(ACT, {"queue": ORPHAN, "verb": "stop"})

    assert DeadLetterJob.objects.get().detail == "Stopped by operator."
    assert "Stopped by operator" in operator.get("/backlog/contoso/jobs/", {"queue": ORPHAN}, headers=HTMX).text


@pytest.mark.parametrize(
    ("destination", "why"), [("nowhere", "has neither a queue nor a topic nowhere"), (ORPHAN, "is a backlog queue")]
)
def test_a_destination_that_is_none_is_refused_at_once(dead, as_role, destination, why):
    answer = as_role("operator").post(
        ACT, {"queue": ORPHAN, "verb": "resubmit", "which": "all", "destination": destination}, headers=HTMX
    )

    assert (answer.status_code, answer["HX-Retarget"], why in answer.text) == (200, "#dialog", True)
    assert f'value="{destination}"' in answer.text
    assert not DeadLetterJob.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.outcome, why in entry.detail) == ("resubmit_dead_letters", "failed", True)


def test_every_entity_of_the_primary_is_offered_as_a_destination(dead, pair, as_role):
    EntityHealth.objects.create(pair=pair, path="known/here-alone")

    question = as_role("operator").get(ACT, {"queue": ORPHAN, "verb": "resubmit", "which": "all"}).text
    offered = re.findall(r'<option value="([^"]+)"></option>', question)

    assert {"orders", "payments", "known/here-alone"} <= set(offered)
    assert not any("x-servicebus-transfer" in path for path in offered)


def test_a_destination_that_is_too_long_is_refused_at_its_field_and_kept(dead, as_role):
    form = {"queue": ORPHAN, "verb": "resubmit", "which": "all", "destination": "x" * 301, "reason": "mended"}
    answer = as_role("operator").post(ACT, form)

    assert answer.status_code == 400
    assert "Nothing was done. Send to: Ensure this value has at most 300 characters" in answer.text
    assert 'aria-invalid="true" aria-describedby="wrong-destination"' in answer.text
    assert ">mended</textarea>" in answer.text


def test_nothing_chosen_is_reported(dead, as_role):
    answer = as_role("operator").get(ACT, {"queue": ORPHAN, "verb": "resubmit"}, headers=HTMX)

    assert "Choose at least one" in answer.text
    assert answer["HX-Retarget"] == "#toasts"


def test_all_messages_of_all_queues_are_reached_page_by_page(reachable, pair, as_role):
    queues = [f"contoso/x-servicebus-transfer/{index}" for index in (0, 1)]
    for queue in queues:
        reachable.make(queue)
        pair.backlog_queues.create(path=queue, index=int(queue[-1]), seen_at=timezone.now(), active=60)
    for number in range(0, 60, 10):  # by turns, so that a page has messages of both
        for queue in queues:
            reachable.fill(queue, *(f"{queue[-1]}-{number + n}" for n in range(10)))
    viewer, address, seen, pages = as_role("viewer"), "/backlog/contoso/messages/", [], 0

    while address:
        page = viewer.get(address).text
        pages += 1
        seen += re.findall(r'<span class="mono">id-of-([01]-\d+)</span>', page)
        following = re.search(r'rel="next" href="(\?[^"]+)"', page)
        address = "/backlog/contoso/messages/" + html.unescape(following[1]) if following else ""

    assert pages == 3
    assert sorted(seen) == sorted(f"{queue}-{number}" for queue in (0, 1) for number in range(60))
