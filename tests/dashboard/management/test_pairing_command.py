"""The control plane in a shell does what the pages do, by the same rules (docs/dashboard.md)."""

import json

import pytest
from django.core.management import CommandError, call_command

from dashboard.models import AuditEntry, BacklogQueue, Heartbeat
from tests.dashboard.conftest import NOW


@pytest.fixture
def shell(capsys, pair, people, alive):
    def run(*words: str) -> str:
        call_command("pairing", *words)
        return capsys.readouterr().out

    return run


def as_operator(*words: str) -> tuple[str, ...]:
    return (*words, "--reason", "storage is down", "--user", "operator")


def test_a_failover_from_the_shell_reaches_the_fleet_under_the_persons_name(shell, shared):
    assert "orders is failed over" in shell(*as_operator("fail-over", "contoso", "orders"))
    assert shared.health()["orders"].held_by == "operator"
    assert AuditEntry.objects.get().operator == "operator"


def test_status_names_what_is_not_healthy_and_why(shell, shared):
    shell(*as_operator("fail-over", "contoso", "orders", "--minutes", "15"))
    (row,) = json.loads(shell("status", "--json"))
    assert (row["entity"], row["status"], row["reason"]) == ("orders", "held", "storage is down")
    assert row["expires"]
    assert "contoso/orders" in shell("status", "contoso")
    assert {row["entity"] for row in json.loads(shell("status", "--all", "--json"))} == {"orders", "payments"}


def test_a_hold_from_the_shell_may_end_by_itself(shell, shared):
    shared.fail_over("orders", "organic", operator="ada", process="far-away:1:bbbb", hold=False)
    shell(*as_operator("hold", "contoso", "orders", "--minutes", "15"))
    assert shared.health()["orders"].expires


def test_status_of_a_healthy_fleet_says_so(shell):
    assert "All entities are healthy" in shell("status")


def test_a_fleet_nobody_hears_of_is_unknown_and_not_called_healthy(shell):
    Heartbeat.objects.all().delete()
    assert {row["status"] for row in json.loads(shell("status", "--json"))} == {"unknown"}


def test_release_and_mark_healthy_undo_it(shell, shared):
    shell(*as_operator("fail-over", "contoso", "orders"))
    assert "released" in shell(*as_operator("release", "contoso", "orders"))
    assert "marked healthy" in shell(*as_operator("mark-healthy", "contoso", "orders"))
    assert "All entities are healthy" in shell("status")


def test_the_same_request_id_twice_is_one_action(shell, shared):
    once = as_operator("fail-over", "contoso", "orders", "--request-id", "7", "--json")
    assert json.loads(shell(*once))["outcome"] == "done"
    assert json.loads(shell(*once))["outcome"] == "unchanged"
    assert AuditEntry.objects.count() == 1


def test_a_syphon_is_paused_and_resumed_as_a_whole_or_by_queue(shell, shared, pair):
    BacklogQueue.objects.create(pair=pair, path="contoso/x-servicebus-transfer/0", index=0, seen_at=NOW)
    for target in ("*", "contoso/x-servicebus-transfer/0"):
        shell(*as_operator("pause", "contoso", target))
        assert target in shared.paused()
        shell(*as_operator("resume", "contoso", target))
        assert not shared.paused()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fail-over", "contoso", "oders", "--user", "operator"), "no entity oders"),
        (("pause", "contoso", "nothing", "--user", "operator"), "no entity or backlog queue nothing"),
        (("fail-over", "fabrikam", "orders", "--user", "operator"), "the known ones are: contoso"),
        (("fail-over", "contoso", "orders", "--user", "mallory"), "There is no user mallory"),
        (("fail-over", "contoso", "orders", "--user", "viewer"), "needs the group operator"),
        (("fail-over", "contoso", "orders", "--user", "operator", "--minutes", "-1"), "--minutes"),
        (("fail-over", "contoso", "orders", "--user", "operator", "--request-id", 37 * "7"), "at most 36 characters"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_do(shell, shared, words, sentence):
    with pytest.raises(CommandError, match=sentence):
        shell(*words, "--reason", "storage is down")
    assert not shared.health()


def test_redis_away_is_reported_and_changes_nothing(shell, redis_away):
    with pytest.raises(CommandError, match="Redis does not answer"):
        shell(*as_operator("fail-over", "contoso", "orders"))
