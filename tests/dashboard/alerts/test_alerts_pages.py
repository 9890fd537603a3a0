"""The pages of alerts: what is shown to whom, what administrators change, and that it is on record."""

import re

import pytest
from django.contrib.auth.models import Group

from dashboard.access.audited import ActionError, Request
from dashboard.alerts.actions import delete_rule, save_rule
from dashboard.alerts.rounds import look
from dashboard.models import Alert, AlertRule, AuditEntry, ChannelState, Notice
from tests.dashboard.alerts.test_alerts_rounds import M, S, backlog_queue, fail_over, recover
from tests.dashboard.conftest import NOW

pytestmark = pytest.mark.postgres_nightly

CHANNELS = """
[channels.mail]
kind = "email"
to = ["night@example.com"]

[channels.chat]
kind = "slack"
url_env = "CHAT_URL"
"""
RULE = {
    "name": "At night",
    "is_enabled": "on",
    "pair": "contoso",
    "entity": "*",
    "kinds": ["failover", "backlog"],
    "least_severity": "info",
    "threshold": "500",
    "channels": ["mail"],
    "notifies_resolved": "on",
}


@pytest.fixture(autouse=True)
def channels(settings, tmp_path, monkeypatch, redis_here):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text(CHANNELS)
    monkeypatch.setenv("CHAT_URL", "https://hooks.example.com/SECRET")


def test_what_is_so_now_and_what_was_are_shown(pair, as_role):
    fail_over("orders", "payments")
    look(NOW + S)
    recover("payments", at=NOW + 12 * M)
    look(NOW + 12 * M)

    page = as_role("viewer").get("/alerts/").text

    assert "Open: 1" in page
    assert page.index("orders failed over") < page.index("History") < page.index("payments failed over")
    assert "12\N{NO-BREAK SPACE}min" in page
    assert "Acknowledge</button>" not in page


def test_a_page_says_that_nobody_looks_or_is_notified(pair, as_role):
    assert "there was no evaluation yet" in " ".join(as_role("viewer").get("/alerts/").text.split())
    assert "no rule is enabled" in as_role("viewer").get("/alerts/").text


def test_a_second_click_on_test_sends_no_second_message_and_other_channels_are_tested_as_well(pair, as_role):
    page = as_role("operator").get("/alerts/rules/").text
    offered = {"request_id": re.search(r'name="request_id" value="([^"]+)"', page)[1]}

    for channel in ("mail", "mail", "chat"):
        as_role("operator").post(f"/alerts/channels/{channel}/test/", offered)

    assert sorted(Notice.objects.values_list("channel", flat=True)) == ["chat", "mail"]


def test_an_alert_that_began_after_the_page_was_shown_is_not_acknowledged_with_all(pair, as_role):
    operator = as_role("operator")
    fail_over("orders", "payments")
    look(NOW + S)
    shown = re.search(r'name="last" value="(\d+)"', operator.get("/alerts/").text)
    fail_over("invoices", at=NOW + M)
    look(NOW + M)
    assert operator.post("/alerts/acknowledge/", {"last": "x"}).status_code == 400
    assert not Alert.objects.exclude(acknowledged_at=None).exists()

    page = operator.post("/alerts/acknowledge/", {"last": shown[1]}, follow=True).text

    assert "2 acknowledged." in page
    assert Alert.objects.get(acknowledged_at=None).entity == "invoices"


def test_what_failed_is_not_reported_as_a_success_when_it_is_sent_again(pair, as_role):
    administrator, once = as_role("administrator"), {"request_id": "11111111-1111-4111-8111-111111111111"}
    test = "/alerts/channels/pigeon/test/"

    for _ in range(2):
        answer = administrator.post(test, once)
        assert (answer.status_code, "no channel pigeon" in answer.text) == (503, True)

    assert list(AuditEntry.objects.values_list("outcome", flat=True)) == ["failed", "failed"]


def test_who_was_refused_may_send_the_same_form_in_the_group_and_what_is_acknowledged_is_unchanged(
    pair, people, as_role
):
    fail_over("orders")
    look(NOW + S)
    alert, once = f"/alerts/{Alert.objects.get().pk}/acknowledge/", {"request_id": "one"}
    person = as_role("viewer")
    assert person.post(alert, once).status_code == 403

    people["viewer"].groups.add(Group.objects.get(name="operator"))
    person.post(alert, once)

    assert Alert.objects.get().acknowledged_by == "viewer"
    as_role("operator").post(alert)
    outcomes = list(AuditEntry.objects.order_by("pk").values_list("outcome", flat=True))
    assert outcomes == ["refused", "done", "unchanged"]


def test_deleting_is_confirmed_and_a_second_click_says_that_the_rule_is_gone(pair, as_role):
    client = as_role("administrator")
    made = client.post("/alerts/rules/new/", RULE, follow=True).text
    does = "Notifies mail of failed over, backlog over a threshold about every entity of contoso"
    assert f"{does}, and of a backlog of at least 500 messages, and when it is over." in made
    assert "Rule At night is saved." in made
    rule = AlertRule.objects.get()
    page = client.get(f"/alerts/rules/{rule.pk}/").text
    assert page.index("<summary>Delete this rule</summary>") < page.index('<button class="severe">Delete At night')

    client.post(f"/alerts/rules/{rule.pk}/delete/")
    answer = client.post(f"/alerts/rules/{rule.pk}/delete/", follow=True)

    assert "The rule no longer exists" in answer.text
    assert AuditEntry.objects.filter(verb="delete_alert_rule").count() == 1


def test_a_rule_that_is_deleted_while_it_is_saved_is_not_made_anew(pair, people):
    request = Request(people["administrator"])
    rule = AlertRule.objects.create(name="At night", channels=["mail"], changed_at=NOW)
    seen = AlertRule.objects.get()
    delete_rule(request, rule)

    with pytest.raises(ActionError, match="deleted in the meantime"):
        save_rule(request, seen)

    assert not AlertRule.objects.exists()


def test_a_refused_rule_keeps_what_was_typed_and_says_at_each_field_what_is_wrong(pair, as_role):
    page = as_role("administrator").post("/alerts/rules/new/", RULE | {"threshold": "0", "name": "Tonight"}).text

    assert "Nothing was done. Backlog from: Enter at least 1." in page
    assert 'value="Tonight"' in page
    assert 'aria-describedby="wrong-threshold"' in page
    assert 'id="wrong-threshold"' in page


def test_channels_are_shown_without_their_addresses_and_tried(pair, as_role):
    page = as_role("operator").post("/alerts/channels/chat/test/", follow=True).text

    assert "A test message to chat is queued." in page
    assert "CHAT_URL" in page
    assert "[critical] orders failed over" in page
    assert "SECRET" not in page
    assert Notice.objects.get().by == "operator"
    assert "operator is testing" not in page
    assert "Test" in as_role("viewer").get("/alerts/deliveries/").text


def test_a_channel_that_cannot_be_used_says_why_and_a_rule_which_of_its_channels_are_gone(
    pair, as_role, monkeypatch, settings
):
    AlertRule.objects.create(name="x", channels=["pigeon"], changed_at=NOW)
    assert "CHANNELS_FILE has no pigeon" in as_role("viewer").get("/alerts/rules/").text
    ChannelState.objects.create(channel="chat", disabled_at=NOW, failing_since=NOW, reason="It answered 410.")
    assert "It answered 410." in as_role("viewer").get("/alerts/rules/").text
    monkeypatch.delenv("CHAT_URL")
    assert "Channel chat: set CHAT_URL." in as_role("viewer").get("/alerts/rules/").text
    settings.CHANNELS_FILE.write_text("[")
    assert "it is not TOML" in as_role("viewer").get("/alerts/rules/").text
    settings.CHANNELS_FILE.unlink()
    assert "it cannot be read: No such file or directory" in as_role("viewer").get("/alerts/rules/").text


def test_deliveries_show_what_came_of_each_message(pair, as_role):
    AlertRule.objects.create(name="x", channels=["mail", "chat"], changed_at=NOW)
    backlog_queue(pair, dead_lettered=3)
    look(NOW)
    Notice.objects.filter(channel="chat").update(
        state="given_up", ended_at=NOW, attempts=3, status=404, reason="It answered 404."
    )
    page = as_role("viewer").get("/alerts/deliveries/").text
    assert "Dead letters in" in page
    assert "It answered 404." in page
    assert "It answered 404." not in as_role("viewer").get("/alerts/deliveries/?state=waiting").text
