"""The newer words of `manage.py pairing`: depth and pace, orphans, dead letters, costs, tokens (docs/dashboard.md)."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from dashboard.access import tokens
from dashboard.models import Adjustment, ApiToken, AuditEntry, BacklogQueue, Charge, ChargeRun, EntityHealth, Invoice
from tests.dashboard.conftest import NOW
from tests.dashboard.secondary import ORPHAN

QUEUE = "contoso/x-servicebus-transfer/0"


@pytest.fixture
def shell(capsys, pair, people, alive):
    def run(*words: str) -> str:
        call_command("pairing", *words)
        return capsys.readouterr().out

    return run


def by(who: str, *words: str) -> tuple[str, ...]:
    return (*words, "--reason", "tidying up", "--user", who)


@pytest.fixture
def orphan(pair, reachable) -> str:
    reachable.make(ORPHAN)
    BacklogQueue.objects.create(pair=pair, path=ORPHAN, index=7, seen_at=NOW, is_orphan=True)
    return ORPHAN


def test_status_shows_depth_and_pace(shell, shared):
    EntityHealth.objects.filter(path="orders").update(waiting=1200)
    shell(*by("operator", "pace", "contoso", "*", "--rate", "20"))
    shell(*by("operator", "pace", "contoso", "orders", "--rate", "5"))

    (row,) = json.loads(shell("status", "--json"))
    assert (row["entity"], row["backlog_messages"], row["pace_messages_per_s"]) == ("orders", 1200, 5)
    assert "1,200 in the backlog; syphon at most 5/s" in shell("status")
    shell(*by("operator", "pace", "contoso", "orders"))
    assert json.loads(shell("status", "--json"))[0]["pace_messages_per_s"] == 20


def test_what_is_not_healthy_can_be_an_exit_status(shell, shared):
    shell("status", "--exit-code")
    EntityHealth.objects.filter(path="orders").update(state="failing", since=NOW)

    with pytest.raises(SystemExit) as ended:
        shell("status", "--exit-code")
    assert ended.value.code == 3


def test_an_action_says_in_the_trail_that_it_came_from_a_shell(shell, shared):
    shell(*by("operator", "pace", "contoso", "*", "--rate", "20"))

    assert AuditEntry.objects.get().via == "a shell"


def test_orphans_are_listed_and_deleted_only_when_confirmed(shell, orphan, monkeypatch):
    assert ORPHAN in shell("orphans")
    assert json.loads(shell("orphans", "contoso", "--json"))[0]["queue"] == ORPHAN
    for said in ("", "yes", "contoso"):
        monkeypatch.setattr("sys.stdin", io.StringIO(said + "\n"))
        with pytest.raises(CommandError, match="Not confirmed"):
            shell(*by("operator", "delete", "contoso", ORPHAN))

    assert "deleted in" in shell(*by("operator", "delete", "contoso", ORPHAN, "--confirm", ORPHAN))
    assert "is kept" in shell(*by("operator", "take-back", "contoso", ORPHAN))


def test_only_administrators_delete_what_holds_messages(shell, orphan, reachable):
    reachable.fill(ORPHAN, "one")

    with pytest.raises(CommandError, match="group administrator"):
        shell(*by("operator", "delete", "contoso", ORPHAN, "--confirm", ORPHAN))
    assert "deleted in" in shell(*by("administrator", "delete", "contoso", ORPHAN, "--confirm", ORPHAN))


def test_dead_letters_are_counted_shown_resubmitted_and_discarded(shell, orphan, reachable):
    reachable.fill(ORPHAN, "the secret body")
    reachable.dead_letter(ORPHAN, 1, reason="Restore\x1b[31mFailed")
    BacklogQueue.objects.update(dead_lettered=1)

    assert f"{ORPHAN}" in shell("dead-letters")
    reported = shell("dead-letters", "contoso", ORPHAN)
    assert "Restore" in reported
    assert "\x1b" not in reported
    (message,) = json.loads(shell("dead-letters", "contoso", ORPHAN, "--json"))["messages"]
    assert "the secret body" not in {value for name, value in message.items() if name != "message_id"}
    assert "body" not in message
    with pytest.raises(CommandError, match="Not confirmed"):
        shell(*by("administrator", "discard", "contoso", ORPHAN, "--confirm", "no"))
    with pytest.raises(CommandError, match="group administrator"):
        shell(*by("operator", "discard", "contoso", ORPHAN, "--confirm", ORPHAN))
    assert "A worker resubmits 1 dead letter" in shell(*by("operator", "resubmit", "contoso", ORPHAN))
    assert "ends within seconds" in shell(*by("operator", "stop-dead-letters", "contoso", ORPHAN))
    assert "A worker discards 1" in shell(*by("administrator", "discard", "contoso", ORPHAN, "--confirm", ORPHAN))


def test_costs_show_a_computed_month(shell):
    run = ChargeRun.objects.create(month="2026-10", status="succeeded", started_at=NOW, heard_at=NOW)
    bill = Invoice.objects.create(
        run=run, month="2026-10", scope="s", rule="published", allocation="time", currency="EUR", cents=1234,
        exact="12.34", units=9,
    )  # fmt: skip
    Charge.objects.create(
        invoice=bill, pair="contoso", namespace="contoso", entity="orders", kind="send", operations=7,
        billing_units=7, included_units=0, quantity="7", exact="12.34", cents=1234,
    )  # fmt: skip

    assert "2026-10, published: 12.34 EUR" in shell("costs")
    reported = json.loads(shell("costs", "2026-10", "--pair", "contoso", "--json"))
    assert (reported["amount"], reported["entities"][0]["entity"]) == ("12.34", "orders")
    assert (reported["parts"], reported["not_attributed"]) == (
        [{"name": "operations", "amount": "12.34"}], ["base", "connections"],
    )  # fmt: skip
    assert "not attributed to a pair: base, connections" in shell("costs", "--pair", "contoso")

    place = {"pair": "contoso", "namespace": "contoso", "entity": "orders", "kind": "send"}
    Adjustment.objects.create(invoice=bill, run=run, cents=-34, made_at=NOW, **place)
    adjusted = json.loads(shell("costs", "2026-10", "--json"))
    assert (adjusted["amount"], adjusted["parts"][-1]) == ("12.00", {"name": "adjustments", "amount": "-0.34"})


def test_a_token_is_printed_once_listed_without_it_and_revoked(shell):
    text = shell("make-token", "export", "--user", "viewer").strip()
    row = ApiToken.objects.get()

    assert tokens.find(text, row.made_at) == row
    assert row.prefix in shell("tokens")
    assert text not in shell("tokens", "--json")
    assert "is revoked" in shell("revoke-token", row.prefix, "--user", "viewer")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("costs", "October"), "is not a month"),
        (("costs", "2020-01"), "compute_charges --month 2020-01"),
        (("orphans", "fabrikam"), "the known ones are: contoso"),
        (("dead-letters", "contoso", "refunds"), "no queue or subscription refunds"),
        (by("operator", "drain", "contoso", "orders"), "no backlog queue orders"),
        (by("operator", "pace", "contoso", "nothing", "--rate", "5"), "no entity or backlog queue nothing"),
        (("hold", "contoso", "orders", "--reason", " ", "--user", "operator"), "enter a reason"),
        (("make-token", "x", "--scope", "operate", "--user", "viewer"), "needs the group operator"),
        (("make-token", "x", "--days", "400", "--user", "viewer"), "365 days"),
        (("revoke-token", "0000000000", "--user", "viewer"), "There is no token"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(shell, shared, words, sentence):
    with pytest.raises(CommandError, match=sentence):
        shell(*words)


def test_every_word_has_help_and_json(capsys):
    with pytest.raises(SystemExit):
        call_command("pairing", "--help")
    reported = capsys.readouterr().out

    for name in ("status", "pace", "orphans", "delete", "dead-letters", "discard", "costs", "make-token"):
        assert name in reported
        with pytest.raises(SystemExit):
            call_command("pairing", name, "--help")
        assert "--json" in capsys.readouterr().out
