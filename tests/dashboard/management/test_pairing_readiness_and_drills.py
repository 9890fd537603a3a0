"""The words of `manage.py pairing` about readiness, drills and alerts (docs/dashboard.md)."""

import json

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dashboard.models import Alert, AlertRule, AuditEntry, Drill, Notice, Readiness
from tests.dashboard.conftest import NOW
from tests.dashboard.drills.test_drills_pages import canary_queue, drill, primary
from tests.dashboard.management.test_pairing_subcommands import by, shell

__all__ = ["canary_queue", "primary", "shell"]


@pytest.fixture
def alert(pair):
    return Alert.objects.create(
        key="failover:contoso:orders", kind="failover", severity="critical", pair="contoso", entity="orders",
        title="orders\x1b[31m failed over", detail="no answer", began_at=NOW, opened_at=NOW,
    )  # fmt: skip


@pytest.fixture
def channels(settings, tmp_path):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text('[channels.mail]\nkind = "email"\nto = ["night@example.com"]\n')


def test_alerts_are_listed_and_acknowledged_under_the_persons_name(shell, alert):
    reported = shell("alerts")
    assert "failed over" in reported
    assert "\x1b" not in reported
    assert json.loads(shell("alerts", "contoso", "--json"))[0]["id"] == alert.pk

    assert "nobody else is notified" in shell(*by("operator", "acknowledge", str(alert.pk)))

    alert.refresh_from_db()
    assert alert.acknowledged_by == "operator"
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.via, entry.reason) == ("acknowledge_alert", "a shell", "tidying up")
    assert "No alerts." in shell("alerts", "--state", "over")


def test_an_open_alert_can_be_an_exit_status(shell, alert):
    with pytest.raises(SystemExit) as ended:
        shell("alerts", "--exit-code")
    assert ended.value.code == 3
    Alert.objects.update(ended_at=NOW, resolved_at=NOW)
    shell("alerts", "--exit-code")


def test_all_are_acknowledged_at_once_and_twice_is_once(shell, alert):
    once = by("operator", "acknowledge", "all", "--request-id", "7")
    assert "1 acknowledged" in shell(*once)
    assert "1 acknowledged" in shell(*once)
    assert AuditEntry.objects.count() == 1


def test_a_channel_is_tried_and_its_state_reported(shell, channels):
    assert "never used" in shell("channels")
    assert "A test message to mail is queued" in shell(*by("operator", "try-channel", "mail"))
    assert Notice.objects.get().phase == "test"
    assert "already in use" in shell(*by("administrator", "enable-channel", "mail"))


def test_rules_are_reported_in_a_sentence(shell, pair):
    assert "nobody is notified" in shell("alert-rules")
    AlertRule.objects.create(name="nights", channels=["mail"], changed_at=NOW)
    assert "nights: " in shell("alert-rules")
    assert json.loads(shell("alert-rules", "--json"))[0]["rule"] == "nights"


def test_readiness_names_what_is_poor_and_can_be_an_exit_status(shell, redis_here, pair):
    Readiness.objects.create(
        pair=pair, entity="orders", score=20, checked_at=timezone.now(),
        reasons=[{"name": "queues", "result": "bad", "reason": "None takes messages.", "todo": "Restart a worker."}],
    )  # fmt: skip

    assert "contoso/orders" in shell("readiness")
    assert json.loads(shell("readiness", "contoso", "--json"))["counts"]["below"] == 1
    with pytest.raises(SystemExit) as ended:
        shell("readiness", "--exit-code")
    assert ended.value.code == 3


def test_a_drill_is_begun_listed_and_called_off(shell, canary_queue, shared):
    assert "begins: 12 messages" in shell(*by("operator", "drill", "contoso", "--messages", "12"))
    row = Drill.objects.get()
    assert (row.path, row.by, row.kind) == ("pairing-canary", "operator", "queue")
    assert json.loads(shell("drills", "contoso", "--json"))[0]["drill"] == row.pk
    assert "pairing-canary" in shell("drills")

    assert "rolled back" in shell(*by("operator", "abort-drill", str(row.pk)))

    row.refresh_from_db()
    assert row.abort_wanted_by == "operator"
    assert set(AuditEntry.objects.values_list("via", flat=True)) == {"a shell"}


def test_a_drill_on_what_is_no_canary_takes_its_name_again(shell, canary_queue, shared):
    canary_queue.create_queue("with-sessions", requires_session=True)
    with pytest.raises(CommandError, match="type its name"):
        shell(*by("operator", "drill", "contoso", "with-sessions"))

    shell(*by("operator", "drill", "contoso", "with-sessions", "--confirm", "with-sessions"))

    assert Drill.objects.get().kind == "session_queue"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("readiness", "fabrikam"), "There is no pair fabrikam"),
        (by("operator", "acknowledge", "one"), "not the number of an alert"),
        (by("operator", "acknowledge", "99"), "no longer exists"),
        (by("viewer", "acknowledge", "all"), "needs the group operator"),
        (by("operator", "try-channel", "phone"), "no channel phone"),
        (by("operator", "enable-channel", "mail"), "needs the group administrator"),
        (by("operator", "abort-drill", "99"), "There is no drill 99"),
        (by("operator", "drill", "fabrikam"), "the known ones are: contoso"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(shell, channels, redis_here, words, sentence):
    with pytest.raises(CommandError, match=sentence):
        shell(*words)


def test_a_drill_that_was_ended_is_reported_with_its_outcome(shell, pair, redis_here):
    now = timezone.now()
    drill(pair, ended_at=now, outcome="passed", detail="All 12 messages arrived.", step="ended")

    assert "passed" in shell("drills")


@pytest.mark.parametrize(
    "name",
    ["readiness", "drills", "drill", "abort-drill", "alerts", "acknowledge", "channels", "alert-rules", "try-channel"],
)
def test_every_word_has_help_and_json(capsys, name):
    with pytest.raises(SystemExit):
        call_command("pairing", name, "--help")
    assert "--json" in capsys.readouterr().out
