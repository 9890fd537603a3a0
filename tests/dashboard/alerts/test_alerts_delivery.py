"""Messages on their way: real receivers over HTTP and SMTP, signatures checked by other means, failures and kills."""

import base64
import hashlib
import hmac
import json
import secrets
from ipaddress import ip_network

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from dashboard.alerts import notices
from dashboard.alerts.rounds import look
from dashboard.alerts.sending import delivery
from dashboard.alerts.sending.channels.webhook import key_of, sign
from dashboard.alerts.sending.config import load_channels
from dashboard.alerts.sending.delivery import deliver
from dashboard.alerts.sending.transport import Answer
from dashboard.models import AlertRule, ChannelState, Notice
from tests.dashboard.alerts.test_alerts_rounds import M, S, fail_over, recover
from tests.dashboard.conftest import NOW
from tests.dashboard.receivers import http_server, smtp_server

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
OLD, NEW = (f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}" for _ in range(2))
CHANNELS = """
[channels.mail]
kind = "email"
to = ["night@example.com", "day@example.com"]
from = "control-plane@example.com"

[channels.hook]
kind = "webhook"
url_env = "HOOK_URL"
secrets_env = "HOOK_SECRETS"

[channels.chat]
kind = "slack"
url_env = "CHAT_URL"
"""


@pytest.fixture(autouse=True)
def channels(settings, tmp_path, monkeypatch):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text(CHANNELS)
    settings.PUBLIC_URL = "https://pairs.example.com/"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    monkeypatch.setenv("HOOK_SECRETS", OLD)
    settings.ALERT_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]


@pytest.fixture
def hook(monkeypatch):
    with http_server() as receiver:
        monkeypatch.setenv("HOOK_URL", receiver.url)
        monkeypatch.setenv("CHAT_URL", receiver.url)
        yield receiver


@pytest.fixture
def mailbox(settings):
    with smtp_server() as box:
        settings.EMAIL_HOST, settings.EMAIL_PORT = box.host, box.port
        yield box


def rule(*channels, **more):
    return AlertRule.objects.create(name="r", channels=list(channels), changed_at=NOW, **more)


def failed_over(*paths, at=NOW):
    fail_over(*paths or ("orders",), at=at)
    look(at + S)


def sent(channel, at=NOW + S):
    """What was tried of a channel, at this moment."""
    return deliver(channel, now=lambda: at)


def notified(channel):
    """What was tried of a channel after the first failover."""
    rule(channel)
    failed_over()
    return sent(channel)


def standing(channel="hook"):
    return list(Notice.objects.filter(channel=channel).order_by("pk").values_list("state", flat=True))


def test_a_webhook_is_signed_as_standard_webhooks_says(pair, hook):
    notified("hook")

    (_, headers, body), *more = hook.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(OLD.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert (headers["webhook-signature"], more) == (f"v1,{expected}", [])
    assert headers["webhook-id"] == str(Notice.objects.get().notice_id)
    reported = json.loads(body)
    assert (reported["type"], reported["data"]["title"]) == ("alert.opened", "orders failed over")
    assert reported["data"]["detail"] == "amqp:internal-error"
    assert reported["data"]["url"] == "https://pairs.example.com/alerts/"


def test_the_signature_is_that_of_the_standards_own_example():
    """From the specification of Standard Webhooks."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_while_a_secret_is_replaced_both_sign(pair, hook, monkeypatch):
    monkeypatch.setenv("HOOK_SECRETS", f"{NEW} {OLD}")
    notified("hook")

    assert len(hook.requests[0][1]["webhook-signature"].split(" ")) == 2


def test_a_mail_arrives_with_subject_text_and_an_id_and_another_that_says_how_long_it_lasted(pair, mailbox):
    notified("mail")

    (mail,) = mailbox.mails
    assert mail["Subject"] == "[critical] orders failed over"
    assert mail["From"] == "control-plane@example.com"
    assert mailbox.recipients == ["night@example.com", "day@example.com"]
    assert str(Notice.objects.get().notice_id) in mail["Message-ID"]
    text = mail.get_content()
    assert "orders failed over, since 2026-11-02 03:00 UTC. amqp:internal-error" in text
    assert "https://pairs.example.com/alerts/" in text

    recover("orders", at=NOW + 12 * M)
    look(NOW + 12 * M)
    sent("mail", NOW + 12 * M)

    assert mailbox.mails[1]["Subject"] == "Resolved: orders failed over"
    assert "over after 12 min" in mailbox.mails[1].get_content()


def test_a_failure_is_tried_again_with_the_same_id_and_the_same_words(pair, hook):
    hook.answers = [(500, {}), (429, {"Retry-After": "90"})]
    notified("hook")
    assert sent("hook", NOW + 3 * S) == 0, "too early"
    sent("hook", NOW + 10 * S)
    assert sent("hook", NOW + 60 * S) == 0, "it asked for ninety seconds"
    sent("hook", NOW + 110 * S)

    assert standing() == ["sent"]
    assert len({headers["webhook-id"] for _, headers, _ in hook.requests}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in hook.requests}) == 3
    assert len(set(hook.bodies)) == 1
    assert len(hook.requests) == 3


def test_a_refusal_for_good_marks_the_channel_and_is_said(pair, hook):
    hook.answers = [(404, {})]
    notified("hook")

    assert standing() == ["given_up"]
    assert ChannelState.objects.get().failing_since == NOW + S
    assert ChannelState.objects.get().reason == "It answered 404."

    failed_over("payments", at=NOW + M)
    sent("hook", NOW + 2 * M)

    assert ChannelState.objects.get().failing_since is None, "it takes messages again"


def test_a_channel_that_is_gone_is_not_asked_again_until_it_takes_a_test(pair, hook):
    hook.answers = [(410, {})]
    notified("hook")
    failed_over("payments", at=NOW + M)
    sent("hook", NOW + 2 * M)

    assert len(hook.requests) == 1
    assert ChannelState.objects.get(channel="hook").disabled_at
    assert standing() == ["given_up", "given_up"]

    notices.write_test("hook", "ada", NOW + 3 * M)
    sent("hook", NOW + 3 * M)

    state = ChannelState.objects.get()
    assert (state.disabled_at, state.failing_since, state.reason) == (None, None, "")


def test_a_channel_without_its_address_waits_until_it_is_set(pair, hook, monkeypatch):
    url = hook.url
    monkeypatch.delenv("HOOK_URL")
    notified("hook")
    assert Notice.objects.get().reason == "Channel hook: set HOOK_URL."
    monkeypatch.setenv("HOOK_URL", url)
    sent("hook", NOW + M)

    assert standing() == ["sent"]


def test_a_mail_server_that_is_away_is_asked_again(pair, settings, mailbox):
    settings.EMAIL_PORT, port = 1, settings.EMAIL_PORT
    notified("mail")
    assert standing("mail") == ["waiting"]
    assert "mail server" in Notice.objects.get().reason
    settings.EMAIL_PORT = port
    sent("mail", NOW + M)

    assert len(mailbox.mails) == 1


@pytest.mark.parametrize("address", ["@", "night@exam ple.com", "night@example..com", "a@b.c\\nBcc: d@example.com"])
def test_an_address_that_no_mail_can_have_is_the_reason_and_can_be_corrected(pair, settings, mailbox, address):
    settings.CHANNELS_FILE.write_text(CHANNELS.replace("day@example.com", address))
    assert notified("mail") == 1
    notice = Notice.objects.get()
    assert (notice.state, notice.attempts) == ("waiting", 1)
    assert notice.reason.startswith("No mail can be written to or from these addresses: ")

    settings.CHANNELS_FILE.write_text(CHANNELS)
    assert sent("mail", NOW + M) == 1
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(("reply", "state"), [("550 no such user", "given_up"), ("451 later", "waiting")])
def test_what_a_mail_server_refuses_is_given_up_only_where_it_is_for_good(pair, mailbox, reply, state):
    mailbox.refusals = [reply, reply]
    notified("mail")

    assert standing("mail") == [state]


def test_the_word_that_it_is_over_never_overtakes_the_word_that_it_began(pair, hook):
    hook.answers = [(500, {})]
    notified("hook")
    recover("orders", at=NOW + 2 * S)
    look(NOW + 2 * S)
    assert sent("hook", NOW + 3 * S) == 0

    sent("hook", NOW + M)

    assert [json.loads(body)["data"]["phase"] for body in hook.bodies] == ["opened", "opened", "resolved"]


def test_what_one_alert_waits_for_holds_up_no_other(pair, hook):
    rule("hook")
    hook.answers = [(500, {})]
    failed_over("orders")
    sent("hook")
    failed_over("payments", at=NOW + S)
    sent("hook", NOW + 3 * S)

    assert standing() == ["waiting", "sent"]


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    "where", ["before it is written", "before it is sent", "after it was sent", "while it is kept"]
)
def test_killed_anywhere_a_message_arrives_at_least_once_with_one_id(pair, hook, monkeypatch, where):
    rule("hook")
    failed_over()

    def die(*_, **__):
        raise Killed

    with monkeypatch.context() as broken:
        if where == "before it is written":
            broken.setattr(delivery, "_sealed", die)
        elif where == "before it is sent":
            broken.setattr(delivery, "send_for_real", die)
        elif where == "after it was sent":
            broken.setattr(delivery, "judge", die)
        else:
            broken.setattr(delivery, "_note_outcome", die)
        with pytest.raises(Killed):
            sent("hook")

    assert sent("hook", NOW + 10 * S) == 0, "the dead process still has its claim"
    sent("hook", NOW + 5 * M)
    assert sent("hook", NOW + 10 * M) == 0

    assert standing() == ["sent"]
    assert 1 <= len(hook.requests) <= 2
    assert {headers["webhook-id"] for _, headers, _ in hook.requests} == {str(Notice.objects.get().notice_id)}


def test_a_process_that_wakes_after_its_claim_lapsed_changes_nothing_more(pair, hook):
    rule("hook")
    failed_over()

    def slow(request):
        assert deliver("hook", now=lambda: NOW + 10 * M, send=lambda _: Answer(204)) == 1
        return Answer(404, "It answered 404.", is_permanent=True)

    deliver("hook", now=lambda: NOW + S, send=slow)

    assert standing() == ["sent"]
    assert ChannelState.objects.get().failing_since is None


def test_nothing_is_sent_that_the_database_does_not_hold(pair, hook, monkeypatch):
    rule("hook")
    failed_over()
    monkeypatch.setattr(Notice, "claim", lambda *_: (_ for _ in ()).throw(DatabaseError))
    with pytest.raises(DatabaseError):
        sent("hook")

    assert not hook.requests


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[channels.A]\nkind='slack'\nurl_env='A'", "channels.A"),
        ("[channels.a]\nkind='pigeon'", "write kind as one of email, webhook"),
        ("[channels.a]\nkind='slack'", "url_env is missing"),
        ("[channels.a]\nkind='slack'\nurl='https://x'", "channels.a.url: "),
        ("[channels.a]\nkind='slack'\nurl_env='https://hooks.example.com/SECRET'", "channels.a.url_env: "),
        ("[channels.a]\nkind='email'\nto='x@example.com'", "channels.a.to: "),
        ("channels = 1", "channels: "),
        ("[", "not TOML"),
    ],
)
def test_a_channels_file_that_cannot_be_used_says_why_without_revealing_a_secret(tmp_path, text, sentence):
    file = tmp_path / "channels.toml"
    file.write_text(text)
    with pytest.raises(ImproperlyConfigured, match=sentence) as refusal:
        load_channels(file)
    assert "SECRET" not in str(refusal.value)


def test_without_a_file_there_are_no_channels_but_one_that_was_named_is_missed(tmp_path, settings):
    settings.BASE_DIR = tmp_path / "empty"
    assert load_channels(settings.BASE_DIR / "channels.toml") == {}
    with pytest.raises(ImproperlyConfigured, match="No such file"):
        load_channels(tmp_path / "chanels.toml")


def test_secrets_may_be_in_files(tmp_path, monkeypatch):
    (tmp_path / "url").write_text("https://hooks.example.com/SECRET\n")
    monkeypatch.delenv("CHAT_URL", raising=False)
    monkeypatch.setenv("CHAT_URL_FILE", str(tmp_path / "url"))
    channel = load_channels()["chat"]
    assert channel.target().url == "https://hooks.example.com/SECRET"
    assert "SECRET" not in repr(channel)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_!!!", "short"])
def test_a_webhook_without_a_proper_secret_is_said_to_lack_one(monkeypatch, secret):
    monkeypatch.setenv("HOOK_URL", "https://hooks.example.com/")
    monkeypatch.setenv("HOOK_SECRETS", secret)
    assert "HOOK_SECRETS" in load_channels()["hook"].problem() or "its secrets are" in load_channels()["hook"].problem()


def test_no_secret_is_logged_or_stored(pair, hook, caplog):
    rule("hook", "chat")
    hook.answers = [(500, {}), (404, {})]
    failed_over()
    with caplog.at_level("DEBUG"):
        sent("hook")
        sent("chat")
    rows = [str(row) for row in (*Notice.objects.values(), *ChannelState.objects.values())]
    for text in (caplog.text, *rows):
        assert "SECRET" not in text
        assert OLD not in text
