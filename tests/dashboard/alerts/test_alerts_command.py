"""`manage.py alerts` looks and sends beside the workers."""

import os
import signal

import pytest
from django.core.management import call_command

from dashboard.management.commands import alerts
from dashboard.models import Alert, AlertRule, Notice
from tests.dashboard.alerts.test_alerts_rounds import fail_over
from tests.dashboard.conftest import NOW
from tests.dashboard.receivers import smtp_server


@pytest.fixture
def channels(settings, tmp_path):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text('[channels.mail]\nkind = "email"\nto = ["a@example.com"]\n')
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"


def test_it_looks_and_sends_where_no_worker_does(pair, channels, settings):
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW)
    fail_over("orders")
    with smtp_server() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = mailbox.host, mailbox.port
        call_command("alerts", "--once")

    assert [mail["Subject"] for mail in mailbox.mails] == ["[critical] orders failed over"]
    assert (Alert.objects.count(), Notice.objects.get().state) == (1, "sent")


def test_it_ends_when_it_is_asked_to(monkeypatch):
    def unheard(*_: object) -> None:
        raise AssertionError("it does not listen")

    asked = signal.signal(signal.SIGTERM, unheard), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(alerts, "once", lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        call_command("alerts")
    finally:
        for number, before in zip((signal.SIGTERM, signal.SIGINT), asked, strict=True):
            signal.signal(number, before)
