"""Workers show rights by using them, on two real local namespaces and a real Redis.

docs/readiness.md.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
)

from dashboard.models import Pair, PairReadiness, Readiness
from dashboard.readiness import probing
from dashboard.readiness.facts import Answer, Probe
from dashboard.readiness.probing import answer_of
from emulator.running import RunningNamespace
from tests.workers.conftest import Begin
from tests.workers.test_orphans_drained import PAIRS
from workers import connections, watchers

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
Strings = Mapping[str, str]


@pytest.fixture
def pair(strings: Strings, worker_of: Begin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A worker process of the pair; the namespaces are whole at the beginning and the end."""
    monkeypatch.setattr(probing, "OPEN_S", 60.0)  # of a busy machine
    worker_of(strings, PAIRS)
    yield Pair.objects.get()
    for name in strings:
        at(strings, name).mend()


def at(strings: Strings, name: str) -> RunningNamespace:
    return RunningNamespace(name, strings[name])


def enqueued(strings: Strings) -> int:
    stats = at(strings, "CONTOSO_PRIMARY").stats()
    return sum(one["enqueued"] for path, one in stats.items() if path in ("orders", "payments"))


def look_now() -> PairReadiness:
    """A round of checks, whenever the last one was."""
    PairReadiness.objects.update(due_at=NOW)
    watchers.check_readiness("contoso")
    return PairReadiness.objects.get()


def reported(row: PairReadiness) -> dict[str, str]:
    return {check["name"]: check["result"] for check in row.checks}


def test_rights_that_are_there_are_shown_by_using_them_and_nothing_is_sent(pair, strings):
    before = enqueued(strings)
    watchers.sample("contoso")
    look_now()  # the first look learns which entities there are

    row = look_now()

    results = reported(row)
    assert (results["secondary"], results["queues"], results["rights"]) == ("good", "good", "good")
    assert Readiness.objects.get(entity="orders").own["home"] == "good"
    assert Readiness.objects.get(entity="payments").own["home"] == "good"
    assert enqueued(strings) == before
    assert look_now().probes == row.probes, "what was shown is not tried again at once"


def test_a_refused_link_is_reported_with_the_queue_and_what_to_give(pair, strings):
    path = "contoso/x-servicebus-transfer/1"
    refusal = {"effect": "refuse", "condition": "amqp:unauthorized-access", "operation": "attach"}
    connections.client("contoso")
    at(strings, "CONTOSO_SECONDARY").fault(entity=path, **refusal)
    watchers.sample("contoso")

    row = look_now()

    rights = next(check for check in row.checks if check["name"] == "rights")
    assert rights["result"] == "bad"
    assert path in rights["reason"]
    assert "Send, Listen and Manage" in rights["todo"]


def test_a_refused_primary_costs_that_entity_only_until_the_right_is_given_back(pair, strings):
    look_now()
    refusal = {"operation": "attach", "effect": "refuse", "condition": "amqp:unauthorized-access"}
    at(strings, "CONTOSO_PRIMARY").fault(entity="payments", **refusal)

    look_now()
    own = {row.entity: row.own["home"] for row in Readiness.objects.all()}
    assert own == {"orders": "good", "payments": "bad"}

    for name in strings:
        at(strings, name).mend()
    look_now()
    row = Readiness.objects.get(entity="payments")
    assert (row.own["home"], row.fell_at) == ("good", None)


def test_an_administration_that_refuses_is_reported(pair, strings):
    connections.client("contoso")
    at(strings, "CONTOSO_SECONDARY").fault(operation="admin", effect="status", status=401)

    row = look_now()

    assert reported(row)["secondary"] == "bad"
    assert "Manage claim" in next(check["todo"] for check in row.checks if check["name"] == "secondary")


def test_a_pair_that_cannot_be_opened_is_judged_all_the_same(pair, monkeypatch):
    def fails(name: str) -> None:
        raise connections.NotConnected("set CONTOSO_SECONDARY")

    monkeypatch.setattr(watchers, "client", fails)

    row = look_now()

    assert reported(row)["secondary"] == "bad"
    assert Readiness.objects.get(entity="orders").score <= 20


def test_of_many_entities_the_longest_untried_have_their_turn_first(pair):
    for number in range(30):
        row = Readiness(pair=pair, entity=f"q{number:02}", score=0, checked_at=NOW)
        row.probed_at = None if number == 29 else NOW - timedelta(minutes=number)
        row.save()
    shown = Probe(Answer.ALLOWED, NOW).as_json()
    Readiness.objects.filter(entity="q05").update(probe=shown)

    found = probing.turn(pair, NOW)

    assert len(found) == probing.ENTITIES_AT_ONCE
    assert found[:3] == ["q29", "q28", "q27"]
    assert "q05" not in found


ERRORS = {
    "a missing right": (ServiceBusAuthorizationError(message="no"), "refused"),
    "a wrong key": (ServiceBusAuthenticationError(message="no"), "refused"),
    "no such entity": (MessagingEntityNotFoundError(message="no"), "refused"),
    "no token": (ClientAuthenticationError("no"), "refused"),
    "a torn connection": (ServiceBusConnectionError(message="no"), "silent"),
    "no answer": (OperationTimeoutError(message="no"), "silent"),
    "an error of the network": (OSError("no"), "silent"),
}


@pytest.mark.parametrize(("error", "answer"), ERRORS.values(), ids=ERRORS.keys())
def test_refusals_are_distinguished_from_silence(error, answer):
    assert answer_of(error) == answer


AGES = {
    "never": (None, True),
    "just now": (Probe(Answer.ALLOWED, NOW), False),
    "ten minutes ago": (Probe(Answer.ALLOWED, NOW - timedelta(minutes=10)), True),
    "refused just now": (Probe(Answer.REFUSED, NOW), True),
}


@pytest.mark.parametrize(("probe", "due"), AGES.values(), ids=AGES.keys())
def test_a_right_is_tried_again_where_it_was_not_shown_or_long_ago(probe, due):
    assert probing.is_due(probe and probe.as_json(), NOW, probing.AGAIN) is due
