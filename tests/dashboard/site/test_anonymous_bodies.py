"""Anonymous requests cost nothing: large bodies are refused before they are taken, slow ones end (docs/security.md)."""

import asyncio
import socket
from contextlib import ExitStack
from datetime import UTC, datetime

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.test import AsyncClient

from dashboard.access import tokens
from dashboard.asgi import application
from dashboard.site import bodies
from tests.dashboard.site.test_behind_a_proxy import uvicorn

pytestmark = pytest.mark.slow

HOSTILE = 300
UPLOADS = ("/costs/reconcile/upload/", "/api/v1/statements")
STRANGERS = ({}, {"cookie": "sessionid=" + "x" * 32}, {"authorization": "Bearer pns_0000000000_" + "x" * 43})


async def asked(path: str, headers: dict[str, str], parts: list[bytes], *, ends: bool = True) -> tuple[int, int]:
    """The status of the answer, and how many parts of the body were taken."""
    taken, sent = 0, []

    async def receive():
        nonlocal taken
        if taken == len(parts):
            await asyncio.Future()
        taken += 1
        return {"type": "http.request", "body": parts[taken - 1], "more_body": not ends or taken < len(parts)}

    async def send(message):
        sent.append(message)

    known = {"host": "localhost", **headers}
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "scheme": "http"}
    scope["headers"] = [(name.encode(), text.encode()) for name, text in known.items()]
    await application(scope, receive, send)
    return sent[0]["status"], taken


@pytest.mark.parametrize("path", [*UPLOADS, "/login/"])
@pytest.mark.parametrize("headers", STRANGERS, ids=["nothing", "a session of nobody", "a token of nobody"])
@pytest.mark.django_db(transaction=True)
async def test_a_strangers_large_body_is_refused_before_it_is_taken(redis_here, path, headers):
    announced = {**headers, "content-length": str(60 * 2**20)}
    assert await asked(path, announced, [b"x"]) == (413, 0)
    status, taken = await asked(path, headers, [b"x" * 2**15] * 1000)
    assert status == 413
    assert taken <= 4


@pytest.mark.parametrize("path", UPLOADS)
@pytest.mark.django_db(transaction=True)
async def test_an_upload_of_somebody_who_is_signed_in_is_taken(redis_here, people, path):
    client = AsyncClient()
    await client.aforce_login(people["administrator"])
    key = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    status, taken = await asked(path, {"cookie": f"{django_settings.SESSION_COOKIE_NAME}={key}"}, [b"x" * 2**16] * 20)
    assert (status == 413, taken) == (False, 20)


@pytest.mark.django_db(transaction=True)
async def test_an_upload_with_a_token_is_taken(redis_here, people):
    make = sync_to_async(tokens.make)
    token = (await make(people["administrator"], "a program", "administer", 30, datetime.now(UTC)))[1]
    status, taken = await asked("/api/v1/statements", {"authorization": f"Bearer {token}"}, [b"x" * 2**16] * 20)
    assert (status == 413, taken) == (False, 20)


@pytest.mark.parametrize("path", [*UPLOADS, "/login/"])
async def test_a_body_that_does_not_arrive_is_given_up(monkeypatch, path):
    monkeypatch.setattr(bodies, "ANONYMOUS_S", 0.1)
    async with asyncio.timeout(60):
        status, _ = await asked(path, {}, [b"x"], ends=False)
    assert status == 408


def test_operators_are_served_while_strangers_keep_unfinished_uploads_open(tmp_path):
    """Each announces 60 MB and sends a part; before, four of them held 240 MB of disk."""
    head = b"POST /costs/reconcile/upload/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    announced, endless = head + b"Content-Length: 62914560\r\n\r\n", head + b"Transfer-Encoding: chunked\r\n\r\n"
    with uvicorn(tmp_path) as port, ExitStack() as stack:
        strangers = []
        for number in range(HOSTILE):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            stranger.sendall(announced + b"x" * 1000 if number % 2 else endless + b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
            strangers.append(stranger)
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200
        assert httpx.get(f"http://127.0.0.1:{port}/login/", timeout=60).status_code == 200
        assert all(stranger.recv(12) == b"HTTP/1.1 413" for stranger in strangers[1::2])
        assert strangers[0].recv(12) == b"HTTP/1.1 408"
