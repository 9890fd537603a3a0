"""Several workers at once, on a database that lets them: reported once, sent once."""

import threading
from datetime import timedelta

import pytest

from dashboard.alerts.rounds import look
from dashboard.alerts.sending.channels.base import Request
from dashboard.alerts.sending.delivery import deliver
from dashboard.alerts.sending.transport import Answer
from dashboard.models import Alert, AlertRule, Notice
from tests.dashboard.alerts.test_alerts_rounds import fail_over, recover
from tests.dashboard.conftest import NOW
from tests.dashboard.together import SEVERAL_CONNECTIONS, at_once

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
    assert Notice.objects.count() == 4


def test_senders_at_once_send_each_message_once(pair):
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW)
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
