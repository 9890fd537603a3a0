"""Rules of alerts, channels and deliveries over the API: what the pages do, on the same path (docs/api.md)."""

from typing import get_args

import pytest

from dashboard.alerts.api.rules import Kind
from dashboard.models import Alert, AlertRule, AuditEntry, Notice
from tests.dashboard.api.test_api import program

__all__ = ["program"]
CHANNELS = """
[channels.mail]
kind = "email"
to = ["night@example.com"]

[channels.team]
kind = "slack"
url_env = "TEAM_URL"
"""
RULE = {"name": "nights", "channels": ["mail"], "reason": "somebody must know"}


@pytest.fixture
def administrator(program, settings, tmp_path, monkeypatch):
    """A program of an administrator, where there are two channels."""
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text(CHANNELS)
    monkeypatch.delenv("TEAM_URL", raising=False)
    return program("administrator", "administer")


def test_a_rule_is_made_shown_changed_and_deleted_on_the_audited_path(administrator):
    wanted = {**RULE, "kinds": ["backlog"], "threshold": 1000, "notifies_resolved": False}

    made = administrator.post("/alerts/rules", wanted).json()
    reported = administrator.get(f"/alerts/rules/{made['rule']}").json()

    assert made["outcome"] == "done"
    assert {name: reported[name] for name in wanted if name != "reason"} == {
        name: value for name, value in wanted.items() if name != "reason"
    }
    assert reported["changed_by"] == "administrator"
    changed = administrator.post(f"/alerts/rules/{made['rule']}/change", {**RULE, "is_enabled": False}).json()
    assert changed["rule"] == made["rule"]
    row = AlertRule.objects.get()
    assert (row.is_enabled, row.kinds, row.threshold, row.notifies_resolved) == (False, [], None, True)
    assert administrator.post(f"/alerts/rules/{made['rule']}/delete", {"reason": "not needed"}).json()["rule"] is None
    assert administrator.get("/alerts/rules").json()["items"] == []
    trail = AuditEntry.objects.exclude(verb="make_token").order_by("pk")
    assert list(trail.values_list("verb", "reason", "via")) == [
        ("make_alert_rule", "somebody must know", "token a script"),
        ("change_alert_rule", "somebody must know", "token a script"),
        ("delete_alert_rule", "not needed", "token a script"),
    ]


@pytest.mark.parametrize(
    ("wrong", "status", "sentence"),
    [
        ({"channels": ["phone"]}, 409, "phone is not one of the available choices"),
        ({"kinds": ["backlog"]}, 409, "the number of messages"),
        ({"channels": []}, 422, "request is invalid"),
        ({"kinds": ["weather"]}, 422, "request is invalid"),
        ({"threshold": 0}, 422, "request is invalid"),
        ({"threshhold": 5}, 422, "request is invalid"),
    ],
)
def test_a_rule_that_makes_no_sense_is_reported_and_not_made(administrator, wrong, status, sentence):
    answer = administrator.post("/alerts/rules", {**RULE, **wrong})

    assert (answer.status_code, AlertRule.objects.count()) == (status, 0)
    assert sentence in answer.json()["detail"]


def test_operators_read_rules_two_of_one_name_are_a_conflict_and_what_is_none_is_not_found(program, administrator):
    statuses = [administrator.post("/alerts/rules", RULE).status_code for _ in range(2)]

    assert (statuses, AlertRule.objects.count()) == ([200, 409], 1)
    assert [one["name"] for one in program().get("/alerts/rules").json()["items"]] == ["nights"]
    assert administrator.get("/alerts/rules/99").status_code == 404
    assert administrator.post("/alerts/rules/99/delete", {"reason": "x"}).status_code == 404


def test_channels_show_how_they_fare_and_what_a_test_came_to(administrator):
    reported = {one["channel"]: one for one in administrator.get("/alerts/channels").json()["items"]}

    assert (reported["mail"]["state"], reported["team"]["state"]) == ("never used", "not ready")
    assert "TEAM_URL" in reported["team"]["problem"]
    administrator.post("/alerts/channels/mail/try", {"reason": "does it work"})
    (sent,) = administrator.get("/alerts/deliveries", channel="mail").json()["items"]
    assert (sent["phase"], sent["state"], sent["attempts"]) == ("test", "waiting", 0)
    assert administrator.get("/alerts/deliveries", state="sent").json()["items"] == []
    assert Notice.objects.get().by == "administrator"


def test_a_channels_file_that_cannot_be_read_is_reported(administrator, settings):
    settings.CHANNELS_FILE.write_text("nonsense")

    reported = administrator.get("/alerts/channels").json()

    assert reported["items"] == []
    assert "is not TOML" in reported["problem"]


def test_the_kinds_of_the_api_are_those_of_alerts():
    assert list(get_args(Kind)) == Alert.Kind.values
