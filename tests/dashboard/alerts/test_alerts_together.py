"""Several workers at once, on a database that lets them: reported once, sent once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from dashboard.alerts.channels.base import Request
from dashboard.alerts.delivery import deliver
from dashboard.alerts.rounds import look
from dashboard.alerts.transport import Answer
from dashboard.models import Alert, AlertRule, Notice, NoticeItem
from tests.dashboard.alerts.test_alerts_rounds import fail_over, recover
from tests.dashboard.conftest import NOW
from tests.dashboard.together import SEVERAL_CONNECTIONS, at_once, in_a_thread

pytestmark = [pytest.mark.postgres, *SEVERAL_CONNECTIONS]
S = timedelta(seconds=1)
CHANNELS = '[channels.mail]\nkind = "email"\nto = ["a@example.com"]\n'


@pytest.fixture(autouse=True)
def channels(settings, tmp_path):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text(CHANNELS)


def test_looks_at_once_open_and_resolve_an_alert_once(pair):
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW)
    fail_over("orders", "payments")
    opened = at_once(lambda: len(look(NOW + S).opened))
    recover("orders", "payments", at=NOW + 60 * S)
    resolved = at_once(lambda: len(look(NOW + 60 * S).resolved))

    assert (sum(opened), sum(resolved)) == (2, 2)
    assert Alert.objects.count() == 2
    assert (Notice.objects.count(), NoticeItem.objects.count()) == (2, 4)


def test_senders_at_once_send_each_message_once(pair):
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW, group_s=0)
    paths = [f"queue-{number}" for number in range(20)]
    for number, path in enumerate(paths):
        fail_over(path, at=NOW + number * S)
        look(NOW + number * S)
    sent: list[str] = []
    lock = threading.Lock()

    def send(request: Request) -> Answer:
        with lock:
            sent.append(request.subject)
        return Answer()

    at_once(lambda: deliver("mail", now=lambda: NOW + 60 * S, send=send))

    assert sorted(sent) == sorted(f"[critical] {path} failed over" for path in paths)
    assert set(Notice.objects.values_list("state", "attempts")) == {("sent", 1)}


def test_no_alert_is_left_out_of_a_message_that_is_written_while_it_joins(pair):
    """An alert joins a message, or gets its own; whichever process is first."""
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW, group_s=5)
    reported: list[str] = []

    def send(request: Request) -> Answer:
        reported.append(request.text)
        return Answer()

    for number in range(10):
        fail_over(f"early-{number}")
        look(NOW + (20 * number) * S)
        fail_over(f"late-{number}")
        with ThreadPoolExecutor(2) as pool:
            later = NOW + (20 * number + 4) * S
            waits = [pool.submit(in_a_thread, look, later), pool.submit(in_a_thread, _send, later, send)]
            for wait in waits:
                wait.result(60)
    _send(NOW + 1000 * S, send)

    text = "\n".join(reported)
    assert all(text.count(f"{when}-{number} failed over,") == 1 for number in range(10) for when in ("early", "late"))


def _send(now, send):
    return deliver("mail", now=lambda: now + 2 * S, send=send)


def test_it_was_postgresql():
    assert connection.vendor == "postgresql"
