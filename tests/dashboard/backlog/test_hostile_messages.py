"""Messages of hostile senders, as pages, the API, the shell and the download show them (docs/security.md)."""

import base64
import io
import json
import re

import pytest
from azure.servicebus import ServiceBusMessage
from django.core.management import call_command
from django.utils import timezone

from dashboard.models import BacklogQueue
from pairing.messages.rewriting import to_backlog
from tests.dashboard.conftest import program_of
from tests.dashboard.secondary import ORPHAN

HERE = "/backlog/contoso/messages/"
REASONS = [
    "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202egnp.exe\u2066\u2069\u200b\ufeff",
    '=HYPERLINK("http://evil.example")\n@SUM(1)\t+1;=2',
    "x\r\nBcc: everybody@evil.example\r\n\r\nbody",
    "{{ 7|add:7 }}{% debug %}${7*7}#{7*7}",
    'javascript:alert(1)" onmouseover="alert(2)',
    "a\x00b",
    "\U0001f4a9" * 100 + "\ufffd" * 100,
    "r" * 4000,
]
BODIES = [*(reason.encode() for reason in REASONS), b"\xff\xfe\x00\xd8" * 50, b"m" * 200_000, b""]
MARKUP = re.compile('<img src=x|<script>alert|" onmouseover="|>14<|494949')
STEERING = re.compile("[\x00\x1b\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(reachable, pair):
    """Dead letters whose ids, subjects, bodies, properties and reasons are all hostile."""
    reachable.make()
    BacklogQueue.objects.create(
        pair=pair, path=ORPHAN, index=7, is_orphan=True, active=0, dead_lettered=len(BODIES), seen_at=timezone.now()
    )
    with reachable.client.get_queue_sender(ORPHAN) as sender:
        for i, body in enumerate(BODIES):
            text = REASONS[i % len(REASONS)]
            message = ServiceBusMessage(
                body,
                message_id=text[:128],
                subject=text,
                application_properties={text[:100]: text, b"bytes": b"<script>alert(3)</script>", "number": 7},
            )
            sender.send_messages(to_backlog(message, "orders"))
    with reachable.client.get_queue_receiver(ORPHAN) as receiver:
        left = len(BODIES)
        while left:
            for message in receiver.receive_messages(max_message_count=left, max_wait_time=60):
                reason = REASONS[(len(BODIES) - left) % len(REASONS)]
                receiver.dead_letter_message(message, reason, reason)
                left -= 1
    return reachable


def test_a_hostile_message_is_quiet_text_everywhere_and_whole_in_the_download(hostile, as_role, people):
    """Page, part of a page, API and shell; one fixture for all, since sending takes most of the time."""
    operator, query = as_role("operator"), {"queue": ORPHAN, "show": "dead"}
    for headers in ({}, {"HX-Request": "true"}):
        page = operator.get(HERE, query, headers=headers)
        assert page.status_code == 200
        assert len(re.findall('name="number"', page.text)) == len(BODIES)
        assert not MARKUP.search(page.text)
        assert not STEERING.search(page.text)
        assert len(page.text) < 300_000
    for number, reason in enumerate(REASONS):
        answer = operator.get(HERE, {**query, "q": reason})
        assert (answer.status_code, number) == (200, number)
        assert not MARKUP.search(answer.text)  # what steers is the operator's own here: the field repeats it

    listed = program_of(people["operator"]).get("/api/v1/pairs/contoso/messages", {"queue": ORPHAN, "show": "dead"})
    assert listed.status_code == 200, listed.text
    assert len(listed.json()["items"]) == len(BODIES)
    texts = [text for one in listed.json()["items"] for text in one.values() if isinstance(text, str)]
    assert not STEERING.search(" ".join(texts))

    out = io.StringIO()
    call_command("pairing", "messages", "contoso", ORPHAN, "--show", "dead", stdout=out)
    assert len(out.getvalue().splitlines()) >= len(BODIES)
    assert not STEERING.search(out.getvalue())

    download = operator.get("/backlog/contoso/messages.json", query)
    assert download["Content-Type"].startswith("application/json")
    assert download["Content-Disposition"].startswith("attachment")
    assert download["X-Content-Type-Options"] == "nosniff"
    found = [base64.b64decode(one["body_base64"]) for one in json.loads(download.content)["messages"]]
    assert sorted(found) == sorted(BODIES)
