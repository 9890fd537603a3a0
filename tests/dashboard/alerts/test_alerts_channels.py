"""What each integration makes of a message: the request its receiver wants, whatever foreign texts are in it."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.alerts.sending.channels import INTEGRATIONS
from dashboard.alerts.sending.channels.base import Post, Target
from dashboard.alerts.sending.channels.chats import LONGEST, LONGEST_TITLE
from dashboard.alerts.sending.message import Message, about, one_line
from dashboard.models import Alert

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
TARGET = Target(url="https://hooks.example.com/SECRET", secrets=("whsec_" + "QUFB" * 8,), to=("a@example.com",))
CHATS = ("slack", "teams", "mattermost", "discord")
NASTY = "<!channel> <https://evil.example.com|click> @everyone @here [x](https://evil.example.com) *bold*\r\nBcc: x"


def message(title="orders failed over", detail="no answer", *, phase="opened", **changes):
    alert = Alert(
        kind="failover", severity="critical", pair="contoso", title=title, detail=detail, began_at=NOW,
        **{"entity": "orders", **changes},
    )  # fmt: skip
    url = "https://pairs.example.com/alerts/"
    return about(alert, phase=phase, id="3b5f0", condition="the failover of orders", url=url, at=NOW.isoformat())


def built(kind, reported):
    return INTEGRATIONS[kind].build(TARGET, reported, NOW)


def body(kind, reported):
    return json.loads(built(kind, reported).body)


@pytest.mark.parametrize("kind", CHATS)
def test_a_chat_message_says_what_happened_where_to_look_and_when_it_began(kind):
    text = json.dumps(body(kind, message()), ensure_ascii=False)
    assert "orders failed over" in text.replace("\\", "").replace("\N{ZERO WIDTH SPACE}", "")
    assert "https://pairs.example.com/alerts/" in text
    assert "03:00 UTC" in text


def test_slack_wants_blocks():
    reported = body("slack", message())
    assert [block["type"] for block in reported["blocks"]] == ["section", "section"]
    assert reported["blocks"][0]["text"]["text"] == ":red_circle: *orders failed over*"
    assert "<https://pairs.example.com/alerts/|Open the alerts>" in reported["blocks"][1]["text"]["text"]


def test_teams_wants_an_adaptive_card_in_a_message():
    reported = body("teams", message())
    (attachment,) = reported["attachments"]
    assert reported["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["type"] == "AdaptiveCard"
    assert attachment["content"]["body"][0] == {
        "type": "TextBlock",
        "text": "orders failed over",
        "wrap": True,
        "weight": "Bolder",
        "size": "Medium",
        "color": "Attention",
    }


def test_mattermost_wants_attachments_and_discord_embeds():
    assert body("mattermost", message())["attachments"][0]["title"] == "orders failed over"
    reported = body("discord", message())
    assert reported["embeds"][0]["title"] == "orders failed over"
    assert reported["allowed_mentions"] == {"parse": []}


def test_nothing_foreign_links_mentions_or_formats_in_a_chat():
    nasty = message(NASTY, NASTY)
    slack = body("slack", nasty)
    assert "<!channel>" not in json.dumps(slack)
    assert "<https://evil" not in json.dumps(slack)
    assert "](https://evil" not in json.dumps(body("teams", nasty))
    mattermost = body("mattermost", nasty)["attachments"][0]
    assert "@everyone" not in mattermost["text"] + mattermost["title"]
    assert "](https://evil" not in mattermost["text"]
    assert body("discord", nasty)["allowed_mentions"] == {"parse": []}


def test_pagerduty_opens_an_incident_and_resolves_the_same_one():
    target = Target(secrets=("0123456789abcdef",))
    opened, resolved = (
        INTEGRATIONS["pagerduty"].build(target, message(phase=phase), NOW) for phase in ("opened", "resolved")
    )
    first, last = json.loads(opened.body), json.loads(resolved.body)

    assert opened.url == resolved.url == "https://events.pagerduty.com/v2/enqueue"
    assert (first["routing_key"], first["event_action"], last["event_action"]) == (
        "0123456789abcdef",
        "trigger",
        "resolve",
    )
    assert first["dedup_key"] == last["dedup_key"] == "the failover of orders"
    assert first["payload"]["severity"] == "critical"
    assert first["payload"]["source"] == "contoso/orders"
    assert first["client_url"] == "https://pairs.example.com/alerts/"


def test_a_channel_of_pagerduty_needs_its_key_only():
    assert INTEGRATIONS["pagerduty"].problem(Target(secrets=("key",))) == ""
    assert "https://" in INTEGRATIONS["pagerduty"].problem(Target(url="ftp://example.com", secrets=("key",)))
    assert "https://" in INTEGRATIONS["slack"].problem(Target())


def test_the_limits_of_slack_and_discord_are_kept():
    long = message("t" * 300, "*" * 300)
    assert all(len(block["text"]["text"]) <= 3000 for block in body("slack", long)["blocks"])
    embed = body("discord", long)["embeds"][0]
    assert len(embed["title"]) <= LONGEST_TITLE
    assert len(embed["description"]) <= LONGEST


TEXT = st.text(max_size=400)


@given(title=TEXT, detail=TEXT, entity=TEXT, phase=st.sampled_from(["opened", "resolved"]))
def test_every_integration_takes_any_text(title, detail, entity, phase):
    reported = message(title, detail, entity=entity, ended_at=NOW + timedelta(minutes=3), phase=phase)
    assert Message(**json.loads(json.dumps(asdict(reported)))) == reported
    for kind in INTEGRATIONS:
        request = built(kind, reported)
        assert request == built(kind, reported)
        if isinstance(request, Post):
            json.loads(request.body)
            assert all("\n" not in value and "\r" not in value for value in request.headers.values())
        else:
            assert "\n" not in request.subject


@given(st.text())
def test_one_line_is_one_short_line(text):
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= 300
