"""The API tells what the pages tell, and does what their buttons do, on the same path (docs/api.md)."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.access import tokens
from dashboard.fleet.state import projection
from dashboard.models import AuditEntry, BacklogQueue, Charge, ChargeRun, EntityHealth, Invoice, Pair, Readiness
from dashboard.site.redis import RedisError
from tests.dashboard.conftest import NOW, health
from tests.dashboard.fleet.test_projection import event

QUEUE = "contoso/x-servicebus-transfer/0"


class Program:
    """Something that asks with a token."""

    def __init__(self, token: str) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {token}"})

    def get(self, path: str, **query):
        return self.client.get(f"/api/v1{path}", query)

    def post(self, path: str, body=None, key: str = ""):
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post(f"/api/v1{path}", json.dumps(body or {}), "application/json", headers=headers)


@pytest.fixture
def program(people, redis_here, pair, alive):
    def of(role="operator", scope="operate") -> Program:
        return Program(tokens.make(people[role], "a script", scope, 30, timezone.now())[1])

    return of


def forced(**more):
    return {"paths": ["orders"], "reason": "storage is down", **more}


def many_pairs() -> None:
    names = [f"pair-{number:02}" for number in range(30)]
    rows = [Pair(name=name, primary_namespace=name, secondary_namespace=f"{name}-dr", synced_at=NOW) for name in names]
    Pair.objects.bulk_create(rows)
    EntityHealth.objects.bulk_create(EntityHealth(pair=row, path="orders", state="healthy", since=NOW) for row in rows)


def test_a_redis_that_does_not_answer_is_asked_for_the_paces_of_one_pair_only(program, monkeypatch):
    many_pairs()
    asked = []

    def away(pair):
        asked.append(pair)
        raise RedisError

    monkeypatch.setattr("dashboard.fleet.state.paces.shared_state", away)

    assert program("viewer", "read").get("/health").status_code == 200
    assert len(asked) == 1


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer pns_0000000000_x"}, {"Authorization": "Basic eA=="}])
def test_strangers_get_a_problem_and_no_redirect(pair, redis_here, as_role, headers):
    for path in ("/health", "/openapi.json", "/charges?month=2026-10", "/pairs/contoso"):
        answer = Client().get(f"/api/v1{path}", headers=headers)

        assert (path, answer.status_code, answer["Content-Type"]) == (path, 401, "application/problem+json")
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert answer.json()["status"] == 401
    status = 401 if headers else 200  # who shows what is no token is not saved by a session
    assert as_role("operator").get("/api/v1/health", headers=headers).status_code == status


def test_browsers_come_with_their_session_and_need_the_token_against_forgery(pair, redis_here, as_role):
    client = as_role("operator", enforce_csrf_checks=True)
    assert client.get("/api/v1/me").json() == {"user": "operator", "may": ["read", "operate"]}

    def post(**headers):
        path, body = "/api/v1/pairs/contoso/fail-over", json.dumps(forced())
        return client.post(path, body, "application/json", headers=headers)

    assert post().status_code == 403
    client.get("/login/")
    page = client.get("/pairs/contoso/actions/fail-over/?path=orders").text
    assert post(**{"X-CSRFToken": page.split('csrfmiddlewaretoken" value="')[1].split('"')[0]}).status_code == 200


def test_a_token_may_no_more_than_its_scope_though_its_owner_may(program, shared):
    answer = program("administrator", "read").post("/pairs/contoso/fail-over", forced())

    assert answer.status_code == 403
    assert "wider scope" in answer.json()["detail"]
    assert not shared.health()


@pytest.fixture
def same_minute(monkeypatch):
    """However long it takes: requests are counted by the minute of the clock."""
    monkeypatch.setattr("dashboard.api.authentication.time", SimpleNamespace(time=lambda: 1_800_000_030.0))


@pytest.mark.usefixtures("same_minute")
def test_who_asks_too_often_is_informed_when_to_come_back(program, settings):
    settings.API_REQUESTS_PER_MINUTE = 2
    mine = program()
    for _ in range(3):
        answer = mine.get("/me")

    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 60


@pytest.mark.usefixtures("same_minute")
def test_wrong_tokens_from_one_address_are_throttled_and_valid_ones_are_not(program, redis_here, monkeypatch):
    mine = program()
    monkeypatch.setattr("dashboard.api.authentication.MOST_FAILURES", 3)
    statuses = [Program("pns_0000000000_x").get("/me").status_code for _ in range(4)]

    assert statuses == [401, 401, 401, 429]
    assert mine.get("/me").status_code == 200


@pytest.mark.usefixtures("same_minute")
def test_throttling_outlives_redis(program, settings, redis_away):
    settings.API_REQUESTS_PER_MINUTE = 1
    mine = program()

    assert {mine.get("/me").status_code for _ in range(3)} == {200, 429}


def test_health_shows_the_headline_and_the_pairs(program, pair):
    projection.apply_all_health("contoso", [health()])

    reported = program("viewer", "read").get("/health").json()

    assert (reported["status"], reported["headline"]) == ("failed-over", "1 of 2 entities failed over")
    assert reported["pairs"][0]["name"] == "contoso"
    assert reported["pairs"][0]["entities"]["failed-over"] == 1
    assert reported["pairs"] == program().get("/pairs").json() == [program().get("/pairs/contoso").json()]


def test_entities_show_state_reason_and_what_can_be_done(program):
    projection.apply_all_health("contoso", [health()])

    (one,) = program().get("/entities", status="failed-over").json()["items"]

    assert (one["path"], one["reason"], one["verbs"]) == ("orders", "no answer", ["hold", "mark-healthy"])
    assert [each["path"] for each in program().get("/entities", q="PAY").json()["items"]] == ["payments"]
    assert program().get("/entities", pair="fabrikam").status_code == 404


def test_pages_follow_a_cursor_and_lose_nothing_when_rows_come_in_between(program):
    def add(*names):
        projection.record_events([event(name, time=NOW + timedelta(seconds=i // 2)) for i, name in enumerate(names)])

    add(*"abcdef")
    first = program().get("/events", limit=4).json()
    projection.record_events([event("0", time=NOW + timedelta(hours=1))])
    rest = program().get("/events", limit=4, cursor=first["next"]).json()

    assert [one["id"][0] for one in first["items"] + rest["items"]] == list("fedcba")
    assert rest["next"] is None


def test_a_cursor_that_nobody_gave_is_no_page(program):
    mine = program()
    for cursor in ("x", "W10=", "WzEsMl0=", "WyJcdTAwMDAiLCAxXQ==", "WzFlNDAwLDFd", "WyI5OTk5LTAxLTAxIiwxXQ=="):
        assert mine.get("/events", cursor=cursor).status_code == 404, cursor


def test_events_are_filtered(program):
    projection.record_events([event(), event("b", kind="recovered", time=NOW + timedelta(minutes=1))])

    def ids(**query):
        return [one["id"][0] for one in program().get("/events", **query).json()["items"]]

    assert ids(kind="recovered") == ["b"]
    assert ids(until="2026-11-02T03:01:00Z") == ["a"]
    assert ids(since="2026-11-02T04:01:00+01:00") == ["b"]
    assert ids(entity="nothing") == []
    assert program().get("/events", since="0").status_code == 422


def test_an_incident_is_reported_in_the_list_and_whole(program):
    projection.record_events([event(), event("b", kind="recovered", time=NOW + timedelta(minutes=1))])

    (one,) = program().get("/incidents").json()["items"]
    whole = program().get(f"/incidents/contoso/{one['id']}").json()

    assert one["recovered_at"].startswith("2026-11-02T03:01:00")
    assert {name: whole[name] for name in one} == one
    assert [each["kind"] for each in whole["events"]] == ["failed_over", "recovered"]
    assert program().get("/incidents/contoso/nothing").status_code == 404


def test_backlog_queues_are_reported_and_chosen(program, pair):
    BacklogQueue.objects.create(pair=pair, path=QUEUE, index=0, seen_at=NOW, active=3)
    BacklogQueue.objects.create(
        pair=pair, path="old/x-servicebus-transfer/9", seen_at=NOW, is_orphan=True, dead_lettered=1
    )

    def paths(**query):
        return [one["path"] for one in program().get("/backlog", **query).json()["items"]]

    assert paths() == [QUEUE, "old/x-servicebus-transfer/9"]
    assert paths(show="orphans") == paths(show="dead-letters") == ["old/x-servicebus-transfer/9"]
    assert paths(show="deviating") == []


def test_charges_are_reported_to_the_cent(program):
    run = ChargeRun.objects.create(month="2026-10", status="succeeded", started_at=NOW, heard_at=NOW)
    bill = Invoice.objects.create(
        run=run, month="2026-10", scope="sub", rule="published", allocation="time", currency="EUR", cents=1234,
        exact="12.34", units=9,
    )  # fmt: skip
    for number, cents in enumerate((1000, 234)):
        Charge.objects.create(
            invoice=bill, pair="contoso", namespace="contoso", entity=f"q{number}", kind="send", operations=1,
            billing_units=1, included_units=0, quantity="1", exact="1", cents=cents,
        )  # fmt: skip

    (reported,) = program().get("/invoices", month="2026-10").json()
    rows = program().get("/charges", month="2026-10").json()["items"]

    assert (reported["amount"], reported["currency"], reported["scope"]) == ("12.34", "EUR", "sub")
    assert [row["amount"] for row in rows] == ["10.00", "2.34"]
    assert program().get("/charges", month="2026-10", entity="q1").json()["items"] == rows[1:]
    assert program().get("/charges", month="October").status_code == 422


def test_a_key_is_for_one_request_only_and_of_one_person_only(program, shared):
    mine = program()
    mine.post("/pairs/contoso/fail-over", forced(), key="7")

    assert mine.post("/pairs/contoso/fail-over", forced(reason="another"), key="7").status_code == 422
    assert mine.post("/pairs/contoso/release", forced(), key="7").status_code == 422
    assert program("administrator").post("/pairs/contoso/release", forced(), key="7").json()["outcome"] == "done"


def test_while_the_first_is_under_way_the_second_waits(program, shared, people):
    mine = program()
    mine.post("/pairs/contoso/fail-over", forced(), key="7")
    AuditEntry.objects.filter(verb="fail_over").update(outcome="")

    assert mine.post("/pairs/contoso/fail-over", forced(), key="7").status_code == 409
    AuditEntry.objects.filter(verb="fail_over").update(at=timezone.now() - timedelta(minutes=3))
    assert mine.post("/pairs/contoso/fail-over", forced(), key="7").json()["outcome"] == "unchanged"


def test_the_pauses_and_paces_of_a_pair_are_reported(program, shared):
    mine = program()

    mine.post("/pairs/contoso/pause-syphon", {"reason": "x"})
    mine.post("/pairs/contoso/pace-syphon", {"reason": "x", "messages_per_s": 5.0})
    reported = mine.get("/pairs/contoso").json()
    assert (reported["pauses"][0]["by"], reported["paces"][0]["messages_per_s"]) == ("operator", 5)


PROBLEMS = (
    ("/pairs/contoso/hold", forced(), 409, "not failed over"),
    ("/pairs/contoso/hold", {"paths": ["oders"], "reason": "x"}, 404, "no entity oders"),
    ("/pairs/fabrikam/hold", forced(), 404, "no pair"),
    ("/pairs/contoso/hold", {"paths": ["orders"]}, 422, ""),
    ("/pairs/contoso/hold", forced(reasom="x"), 422, ""),
    ("/pairs/contoso/hold", forced(reason=" \t"), 422, ""),
    ("/pairs/contoso/hold", forced(dry_run="yes"), 422, ""),
    ("/pairs/contoso/fail-over", forced(minutes=0), 422, ""),
    ("/pairs/contoso/pause-syphon", {"target": "oders", "reason": "x"}, 404, "backlog queue"),
    ("/pairs/contoso/drain-queue", {"queue": "orders", "reason": "x"}, 404, "backlog queue"),
    ("/pairs/contoso/nothing", {}, 404, "openapi.json"),
    ("/budgets", {"amount": "1.5"}, 422, ""),
    ("/health", {}, 405, ""),
)


def test_what_cannot_be_done_is_a_problem(program, shared):
    mine, problem = program(), "application/problem+json"
    for path, body, status, sentence in PROBLEMS:
        answer = mine.post(path, body)

        assert (path, body, answer.status_code, answer["Content-Type"]) == (path, body, status, problem)
        assert sentence in answer.json()["detail"]
    assert answer["Allow"] == "GET"
    answer = mine.client.post("/api/v1/pairs/contoso/hold", "{", "application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, problem)


def test_what_nobody_foresaw_is_reported_without_its_text(program, monkeypatch):
    def fail(*_):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("dashboard.fleet.api.health.watched_pairs", fail)
    answer = program().get("/health")

    assert answer.status_code == 500
    assert "hunter2" not in answer.text


def test_an_orphan_is_deleted_only_as_it_was_looked_at(program, pair, reachable):
    orphan = "contoso/x-servicebus-transfer/7"
    reachable.make(orphan)
    BacklogQueue.objects.create(pair=pair, path=orphan, index=7, seen_at=NOW, is_orphan=True)
    mine, body = program(), {"queue": orphan, "reason": "not used"}

    assert mine.post("/pairs/contoso/delete-queue", body).status_code == 409
    reported = mine.post("/pairs/contoso/delete-queue", {**body, "dry_run": True}).json()
    assert reported["hindrance"] == ""
    assert mine.post("/pairs/contoso/delete-queue", {**body, "confirm": "something else"}).status_code == 409
    done = mine.post("/pairs/contoso/delete-queue", {**body, "confirm": reported["confirm"]}, key="1")
    assert done.json()["outcome"] == "done"
    assert mine.get("/pairs/contoso/jobs").json()[0]["kind"] == "delete"
    assert mine.post("/pairs/contoso/take-back", body).json()["outcome"] == "done"


def test_readiness_is_reported_with_its_reasons(program, pair):
    now = timezone.now()
    fault = {"name": "syphon", "result": "bad", "reason": "none runs", "todo": "start a worker"}
    for entity, score in (("orders", 40), ("payments", 100)):
        reasons = [fault] if score < 100 else []
        Readiness.objects.create(pair=pair, entity=entity, score=score, reasons=reasons, checked_at=now)
    mine = program("viewer", "read")

    worst, best = mine.get("/readiness").json()["items"]
    assert (worst["entity"], worst["score"], worst["reasons"]) == ("orders", 40, [fault])
    assert mine.get("/readiness", state="ready").json()["items"] == [best]
    assert mine.get("/pairs/contoso/readiness").json()["score"] is None


def test_no_token_makes_or_shows_tokens(program, people):
    mine = program("administrator", "administer")
    assert mine.get("/tokens").status_code == mine.post("/tokens", {"name": "another"}).status_code == 401
