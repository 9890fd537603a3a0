"""`manage.py alerts`: a process of its own that looks and sends."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from django.core.management import call_command

from dashboard.models import Alert, AlertRule, Notice
from tests.dashboard.alerts.test_alerts_rounds import fail_over
from tests.dashboard.conftest import NOW
from tests.dashboard.receivers import smtp_server
from tests.dashboard.served import ROOT


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


LOOK = """
import django; django.setup()
from django.core.management import call_command
from dashboard.management.commands import alerts
alerts.once = lambda: print("looked", flush=True)
call_command("alerts")
"""


def test_it_ends_when_it_is_asked_to(tmp_path):
    known = {"PATH": os.environ["PATH"], "STATE_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    with subprocess.Popen([sys.executable, "-c", LOOK], cwd=ROOT, env=known, stdout=subprocess.PIPE) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        assert process.stdout is not None
        assert process.stdout.readline() == b"looked\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        guard.cancel()
