"""Attacks that were tried, each as the attacker would (docs/security.md): most of them once worked."""

import asyncio
import csv
import io
import json
import logging
import re
import socket
import threading
from contextlib import suppress
from email.header import decode_header
from importlib import import_module
from ipaddress import ip_network
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.conf import settings as configured
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import Group
from django.test import AsyncClient, Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard.access.logins import MOST_OF_A_NAME
from dashboard.alerts.rounds import look
from dashboard.alerts.sending.channels.base import Post
from dashboard.alerts.sending.delivery import deliver
from dashboard.alerts.sending.transport import post
from dashboard.alerts.watching.conditions import fits
from dashboard.fleet.state import live, message_counts, projection
from dashboard.models import AlertRule, AuditEntry, FailoverEvent, Pair
from dashboard.site import processes
from dashboard.site.redis import announce_change
from dashboard.site.tables import cell
from tests.dashboard.access.test_logins import LOCKED, sign_in
from tests.dashboard.conftest import NOW, PASSWORD, health, program_of
from tests.dashboard.receivers import http_server, smtp_server
from tests.pace import Stopwatch

pytestmark = pytest.mark.slow

EVIL = "evil.example"


def test_guesses_that_overlap_are_counted_before_any_of_them_is_judged(redis_here, people, monkeypatch):
    """Requests at once must not all be judged before the first is counted."""
    judged = []

    def slow(form):
        judged.append(form)
        if len(judged) < MOST_OF_A_NAME + 3:
            sign_in(password="wrong")
        raise forms.ValidationError("wrong")

    monkeypatch.setattr(AuthenticationForm, "clean", slow)
    sign_in(password="wrong")

    assert len(judged) == MOST_OF_A_NAME


def test_a_right_password_is_no_guess(redis_here, people):
    for _ in range(2 * MOST_OF_A_NAME):
        assert sign_in().status_code == 302


@pytest.mark.parametrize(
    "addresses",
    [
        [f"2001:db8:1:2:{number:x}::1" for number in range(MOST_OF_A_NAME + 1)],
        ["::ffff:203.0.113.77", "203.0.113.77"] * MOST_OF_A_NAME,
    ],
    ids=["of one network", "of two spellings"],
)
def test_many_addresses_of_one_machine_are_one_guesser(redis_here, people, addresses):
    answers = [sign_in(password="wrong", address=one) for one in addresses]

    assert LOCKED in answers[-1].text


ANYWHERE = ("/", "/login/", "/nothing", "/api/v1/health", "/api/v1/nothing", "/healthz", "/events.csv", "/admin/")


@pytest.mark.parametrize("role", ["stranger", "administrator"])
def test_nothing_is_shown_in_a_frame_of_somebody_else(pair, redis_here, alive, as_role, role):
    client = as_role(role)
    for path in ANYWHERE:
        answer = client.get(path)
        assert (path, answer["X-Frame-Options"], answer["X-Content-Type-Options"]) == (path, "DENY", "nosniff")
        policy = answer["Content-Security-Policy"]
        found = ("default-src 'self'" in policy, "frame-ancestors 'none'" in policy, "unsafe" in policy)
        assert (path, found) == (path, (True, True, False))


def test_a_host_that_is_not_ours_is_answered_nothing_and_one_of_a_header_is_in_no_page(pair, redis_here, as_role):
    administrator = as_role("administrator")
    for path in ("/login/", "/healthz", "/api/v1/health", "/tokens/"):
        answer = administrator.get(path, HTTP_HOST=EVIL)

        assert answer.status_code == 400 or path == "/healthz"
        assert EVIL not in answer.text
    assert EVIL not in administrator.get("/tokens/", headers={"X-Forwarded-Host": EVIL}).text


LINKS = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "\\\\evil.example/",
    "http:evil.example",
    "javascript:alert(1)",
    "\thttps://evil.example/",
    "https:///evil.example",
    "http://testserver@evil.example/",
]


def test_no_link_leads_elsewhere_after_a_sign_in_or_an_action(pair, shared, people, as_role):
    operator, where = as_role("operator"), "/pairs/contoso/actions/fail_over/"
    for link in LINKS:
        signed_in = Client().post("/login/", {"username": "operator", "password": PASSWORD, "next": link})
        done = operator.post(where, {"path": "orders", "reason": "x", "next": link})

        assert (link, signed_in["Location"], done["Location"]) == (link, "/", "/pairs/contoso/")


def test_the_numbers_are_open_to_this_machine_by_no_proxy_on_it_and_ask_those_from_elsewhere_for_the_token(
    db, redis_here, settings, client
):
    settings.METRICS_TOKEN = ""
    assert client.get("/metrics").status_code == 200
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert client.get("/metrics", headers={header: "203.0.113.9"}).status_code == 401, header

    settings.METRICS_TOKEN = "a-token-for-prometheus"
    shown = ("", "Bearer wrong", "Bearer \xe4\xf6\xfc", "Bearer a-token-for-prometheus")
    answers = [client.get("/metrics", REMOTE_ADDR="203.0.113.9", headers={"Authorization": one}) for one in shown]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 200]


def sign_out(client: AsyncClient, people) -> None:
    store = import_module(configured.SESSION_ENGINE).SessionStore
    store(client.cookies[configured.SESSION_COOKIE_NAME].value).delete()


def leave_the_group(client: AsyncClient, people) -> None:
    people["viewer"].groups.clear()


def lose_a_pair(client: AsyncClient, people) -> None:
    Pair.objects.get().groups.add(Group.objects.create(name="theirs"))


@pytest.mark.parametrize("leave", [sign_out, leave_the_group, lose_a_pair])
@pytest.mark.django_db(transaction=True)
async def test_a_stream_ends_with_the_right_to_it(pair, redis_here, people, monkeypatch, leave):
    monkeypatch.setattr(live, "ASKED_AGAIN_S", 0.0)
    client = AsyncClient()
    await client.aforce_login(people["viewer"])
    answer = await client.get("/live/")
    reported = aiter(answer.streaming_content)
    assert b"event: changed" in await anext(reported)

    await sync_to_async(leave)(client, people)
    async with asyncio.timeout(20):
        await sync_to_async(announce_change)()
        async for _ in reported:
            await sync_to_async(announce_change)()


DEEP = "[" * 100_000


BODIES = (
    (DEEP, 400),
    ('{"paths": ' + DEEP, 400),
    ('{"paths": ["orders"], "reason": "\\ud800"}', 422),
    ('{"paths": ["orders"], "reason": "x", "minutes": 1e999}', 422),
    ('{"paths": ["orders"], "reason": "x", "minutes": ' + "9" * 5000 + "}", 400),
    ('{"paths": ["orders"], "reason": "x", "operator": "somebody else"}', 422),
    ('{"paths": ["orders"], "reason": "x", "user": 1, "held_by": "root"}', 422),
    ('{"paths": ["orders"], "reason": "\\u0000"}', 422),
    ('{"paths": ["../../etc/passwd"], "reason": "x"}', 404),
    ('{"paths": {"$ne": ""}, "reason": "x"}', 422),
)


def test_no_body_breaks_the_api_or_becomes_more_than_was_asked_for(pair, people, redis_here):
    program = program_of(people["operator"])
    for body, status in BODIES:
        answer = program.post("/api/v1/pairs/contoso/fail-over", body, "application/json")

        assert (body[:60], answer.status_code) == (body[:60], status), answer.text
    assert not AuditEntry.objects.filter(verb="fail_over").exists()


def test_a_session_alone_does_nothing_through_the_api_whatever_the_body_is_called(pair, as_role, redis_here):
    """What a form of another site can send with the person's cookie: no custom header, three media types."""
    browser = as_role("operator", enforce_csrf_checks=True)
    body = json.dumps({"paths": ["orders"], "reason": "forged"})
    for media in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json",
    ):
        answer = browser.post("/api/v1/pairs/contoso/fail-over", body, media, headers={"Origin": f"https://{EVIL}"})
        assert answer.status_code == 403

    assert not AuditEntry.objects.exists()


ADDRESSES = (
    "/alerts/rules/99999999999999999999999999/",
    "/drills/99999999999999999999999999/",
    "/drills/99999999999999999999999999.json",
    "/alerts/?page=99999999999999999999999999",
    "/events/?since=9999999-01-01&until=x",
    "/pairs/contoso/actions/fail_over/?path=orders&seen=99999999999999999999999999",
    "/backlog/contoso/messages/?queue=x&after=99999999999999999999999999&older_min=1e999",
    "/costs/?month=2026-99",
    "/pairs/contoso/entities/../../../etc/passwd/",
    "/pairs/contoso/entities/..%2f..%2fetc%2fpasswd/",
    "/costs/reconcile/?month=../../etc/passwd",
    *("/pairs/contoso/entities/%00/", "/readiness/contoso/%00/", "/alerts/?pair=%00", "/events.csv?pair=%00"),
    *("/backlog/contoso/messages/?queue=%00", "/costs/forecast/?pair=%00", "/drills/start/?pair=%00&path=%00"),
    *("/api/v1/alerts?pair=%00", "/api/v1/incidents/contoso/%00", "/api/v1/pairs/%00"),
)
FORMS = ("/pairs/contoso/demo/break/", "/pairs/contoso/actions/fail_over/", "/login/")


@pytest.mark.postgres_nightly
def test_no_address_and_no_form_breaks_a_page(pair, redis_here, alive, as_role):
    """PostgreSQL takes no NUL."""
    administrator = as_role("administrator")
    sent = dict.fromkeys(("path", "how", "reason", "username", "password"), "\0")

    assert [path for path in ADDRESSES if administrator.get(path).status_code >= 500] == []
    assert [path for path in FORMS if administrator.post(path, sent).status_code >= 500] == []


@pytest.mark.timeout(900)
def test_no_pattern_of_a_rule_keeps_the_workers_busy():
    assert not fits("*a" * 40 + "*b", "a" * 260)


@given(pattern=st.text("ab*.", min_size=1, max_size=8), name=st.text("abAB.", min_size=1, max_size=8))
def test_a_star_stands_for_any_characters(pattern, name):
    meant = ".*".join(map(re.escape, pattern.split("*")))

    assert fits(pattern, name) == bool(re.fullmatch(meant, name, re.IGNORECASE))


CELLS = ["\n=1+1", "a;=1+1", "a\t=1+1", "a\r\n=1+1", 'a";=1', "a; =1", "|=1"]
WIDE = ["\uff1d1+1", "\uff0b1", "\uff0d1", "\uff201", "a;\uff1d1"]


@pytest.mark.parametrize("text", [*CELLS, *WIDE])
def test_no_spreadsheet_of_any_country_computes_a_name(text):
    """Where lists are parted by semicolons a spreadsheet parts a cell there, quoted or not."""
    out = io.StringIO()
    csv.writer(out).writerow([cell(text)])

    for part in re.split(r'[,;\t\r\n|"]+', out.getvalue()):
        assert not re.match("\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]", part)


def test_a_harmless_name_is_reported_as_it_is():
    assert [cell(text) for text in ("orders", "invoices/eu", "a-b", "a;b", "x=1", "")] == [
        "orders", "invoices/eu", "a-b", "a;b", "x=1", "",
    ]  # fmt: skip


@pytest.mark.parametrize("format", processes.FORMATS)
def test_nobody_writes_a_line_of_the_log_that_looks_like_another(format):
    forged = "x\n2026-11-02 level='info' event='forced by root'\r\n\x1b[2J\u2028\x85"
    record = logging.LogRecord("django.request", logging.WARNING, "", 0, "Not Found: %s", (forged,), None)

    assert len(processes.formatter(format).format(record).splitlines()) == 1


@pytest.mark.django_db
def test_no_name_or_reason_writes_a_header_of_a_mail(pair, settings, tmp_path):
    settings.CHANNELS_FILE = tmp_path / "channels.toml"
    settings.CHANNELS_FILE.write_text('[channels.mail]\nkind = "email"\nto = ["night@example.com"]\n')
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    AlertRule.objects.create(name="all", channels=["mail"], changed_at=NOW)
    name = "orders\r\nBcc: everybody@evil.example\r\n\r\n<script>"
    pair.entities.create(path=name, is_configured=True)
    reason = "x\r\n.\r\nMAIL FROM:<root>\r\n\u202egnp.exe"
    projection.apply_all_health("contoso", [health(name, since=NOW, reason=reason)])
    look(NOW)
    with smtp_server() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = mailbox.host, mailbox.port
        deliver("mail", lambda: NOW)

    (mail,) = mailbox.mails
    assert mailbox.recipients == ["night@example.com"]
    assert mail["Bcc"] is None
    assert "\n" not in str(decode_header(mail["Subject"])[0][0])
    assert "\u202e" not in mail.get_content()


@pytest.mark.django_db
def test_an_event_with_markup_is_text_on_every_page_that_shows_it(pair, redis_here, alive, as_role):
    FailoverEvent.objects.create(
        event_id="e" * 32, time=timezone.now(), pair="contoso", entity="orders", kind="failed_over",
        reason="<img src=x onerror=alert(1)>{{7*7}}${7*7}", process='"><script>alert(2)</script>', operator="<b>root",
    )  # fmt: skip
    name = 'a"><script>alert(1)</script>'
    projection.apply_all_health("contoso", [health(name, reason=name)])
    message_counts.record_waiting("contoso", {name: 5}, timezone.now())
    look(timezone.now())  # the alert repeats the reason
    entity, incident = "/pairs/contoso/entities/orders/", f"/pairs/contoso/incidents/{'e' * 32}/"
    for path in ("/", "/events/", "/alerts/", "/pairs/contoso/", entity, incident):
        page = as_role("viewer").get(path)
        assert page.status_code == 200
        assert not re.search("<img src=x|<script>alert|<b>root", page.text)


HOSTS = [
    "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "0",
    "0x7f000001", "017700000001", "127.0.1", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[::ffff:0:127.0.0.1]", "[2002:7f00:1::]", "LOCALHOST", "0.0.0.0", "[::]",
]  # fmt: skip


def test_no_spelling_of_this_machine_is_sent_anything():
    """By the resolver of this machine, and a server that would take it."""
    with http_server() as receiver:
        port = urlsplit(receiver.url).port
        for url in (f"{scheme}://{host}:{port}/latest/meta-data/" for host in HOSTS for scheme in ("http", "https")):
            assert post(Post(url, b"{}"), ()).problem, url

    assert receiver.requests == []


@pytest.mark.parametrize(
    "answers",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2**20,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20,
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=["giant body", "giant header", "go on for ever"],
)
def test_an_answer_without_an_end_costs_no_more_than_the_time_of_an_attempt(answers):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_for_ever() -> None:
            connection, _ = server.accept()
            connection.settimeout(5)  # Linux lets a sender wait for a minute if the other side closed a full connection
            with connection, suppress(OSError):
                while True:
                    connection.send(answers)

        thread = threading.Thread(target=answer_for_ever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with Stopwatch() as watch:
            post(Post(url, b"{}"), [ip_network("127.0.0.0/8")], limit_s=1.0)
        assert watch.took < 10
        socket.create_connection(server.getsockname()).close()  # on a stalled machine the attempt did not even connect
        thread.join(60)
        assert not thread.is_alive()
