"""What each integration makes of a message: the request its receiver wants, whatever foreign texts are in it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.alerts.channels import INTEGRATIONS
from dashboard.alerts.channels.base import Mail, Post, Target
from dashboard.alerts.channels.discord import LONGEST, LONGEST_TITLE
from dashboard.alerts.message import MOST_LINES, Known, Message, compose, one_line

NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
TARGET = Target(url="https://hooks.example.com/SECRET", secrets=("whsec_" + "QUFB" * 8,), to=("a@example.com",))
CHATS = ("slack", "teams", "mattermost", "discord")
NASTY = "<!channel> <https://evil.example.com|click> @everyone @here [x](https://evil.example.com) *bold*\r\nBcc: x"


def known(title="orders failed over", detail="no answer", **changes):
    fields = {
        "pair": "contoso",
        "entity": "orders",
        "kind": "failover",
        "severity": "critical",
        "title": title,
        "detail": detail,
        "began_at": NOW,
        "ended_at": None,
    }
    return Known(**{**fields, **changes})


def message(*alerts, phase="opened"):
    return compose("3b5f…".replace("…", "0"), phase, alerts or (known(),), "https://pairs.example.com/alerts/", NOW)


def built(kind, reported):
    return INTEGRATIONS[kind].build(TARGET, reported, NOW)


def body(kind, reported):
    return json.loads(built(kind, reported).body)


def test_every_integration_is_in_a_file_of_its_own():
    assert {one.build.__module__.rpartition(".")[2] for one in INTEGRATIONS.values()} == set(INTEGRATIONS)


@pytest.mark.parametrize("kind", INTEGRATIONS)
def test_the_same_message_makes_the_same_request(kind):
    assert built(kind, message()) == built(kind, message())


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
    nasty = message(known(NASTY, NASTY))
    slack = body("slack", nasty)
    assert "<!channel>" not in json.dumps(slack)
    assert "<https://evil" not in json.dumps(slack)
    assert "](https://evil" not in json.dumps(body("teams", nasty))
    mattermost = body("mattermost", nasty)["attachments"][0]
    assert "@everyone" not in mattermost["text"] + mattermost["title"]
    assert "](https://evil" not in mattermost["text"]
    assert body("discord", nasty)["allowed_mentions"] == {"parse": []}


def test_no_header_of_a_mail_can_be_made_by_what_somebody_wrote():
    mail = built("email", message(known(NASTY, NASTY)))
    assert isinstance(mail, Mail)
    assert "\n" not in mail.subject
    assert "\r" not in mail.subject + mail.text


@pytest.mark.parametrize("kind", INTEGRATIONS)
def test_ten_thousand_alerts_are_a_short_message(kind):
    many = message(*(known("t" * 300, "d" * 5000, entity=f"queue-{n}") for n in range(10_000)))
    request = built(kind, many)
    size = len(request.body) if isinstance(request, Post) else len(request.text)

    assert len(many.lines) == MOST_LINES
    assert many.more == 10_000 - MOST_LINES
    assert size < 28_000  # Teams refuses more than 28 KB, the others take more


def test_the_limits_of_slack_and_discord_are_kept():
    many = message(*(known("t" * 300, "d" * 300, entity=f"queue-{n}") for n in range(30)))
    assert all(len(block["text"]["text"]) <= 3000 for block in body("slack", many)["blocks"])
    embed = body("discord", many)["embeds"][0]
    assert len(embed["title"]) <= LONGEST_TITLE
    assert len(embed["description"]) <= LONGEST


TEXT = st.text(max_size=400)


@given(title=TEXT, detail=TEXT, entity=TEXT, phase=st.sampled_from(["opened", "escalated", "resolved"]))
def test_every_integration_takes_any_text(title, detail, entity, phase):
    ended = NOW + timedelta(minutes=3) if phase == "resolved" else None
    reported = message(known(title, detail, entity=entity, ended_at=ended), phase=phase)
    assert Message.from_json(json.loads(json.dumps(reported.to_json()))) == reported
    for kind in INTEGRATIONS:
        request = built(kind, reported)
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


def test_the_worst_and_oldest_comes_first():
    reported = message(
        known("mild", severity="warning", began_at=NOW - timedelta(hours=1)),
        known("bad and new"),
        known("bad and old", began_at=NOW - timedelta(minutes=1)),
    )
    assert [line.title for line in reported.lines] == ["bad and old", "bad and new", "mild"]
    assert reported.severity == "critical"
