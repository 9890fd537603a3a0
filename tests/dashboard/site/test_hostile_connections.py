"""Operators work behind nginx as it ships while strangers hold connections and send bodies (docs/security.md)."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests import forked
from tests.dashboard.served import PASSWORD, SEED, SETTINGS, SYNC
from tests.dashboard.site.test_behind_a_proxy import NAME, nginx, require_nginx, web
from tests.selection import nightly

PATIENCE_S = 60
NOWHERE = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
STRINGS = {"CONTOSO_PRIMARY": NOWHERE, "CONTOSO_SECONDARY": NOWHERE.replace("contoso", "contoso-dr")}
LARGE = b"x" * 3_000_000
HEAD = f"POST /login/ HTTP/1.1\r\nHost: {NAME}\r\n".encode()
GET = f"GET /login/ HTTP/1.1\r\nHost: {NAME}\r\n".encode()
HOSTILE = [
    b"",
    b"GET /login",
    GET + b"X-A: 1\r\n" * 50,
    HEAD + b"Content-Length: 50000\r\n\r\n" + b"x" * 40_000,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000\r\n" + b"x" * 0xFFF,
    GET + b"X-A: " + b"1" * 2**16,
    bytes(range(256)) * 100,
    (GET + b"\r\n") * 20,
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64,
]
"""What a stranger sends, and then nothing more."""


@pytest.fixture
def address(tmp_path: Path, redis_client, redis_url: str) -> Iterator[str]:
    """The address of nginx before two web processes of one installation, which has a pair and people."""
    require_nginx()
    settings = {"ALLOWED_HOSTS": NAME, "TRUSTED_PROXIES": "127.0.0.1", "REDIS_URL": redis_url, **STRINGS}
    with web(tmp_path, **settings) as first, web(tmp_path, **settings) as second:
        files = {"STATE_DIR": str(tmp_path), "PAIRS_FILE": str(tmp_path / "pairs.toml")}
        environment = {"PATH": "", "DJANGO_SETTINGS_MODULE": SETTINGS, **files, **settings}
        forked.run(("manage.py", "shell", "-v0", "-c", f"{SYNC}\n{SEED}"), environment, check=True)
        with nginx(tmp_path, first, second) as port:
            yield f"https://127.0.0.1:{port}"


def from_address(local: str, address: str) -> httpx.Client:
    """A client with an address of its own, because nginx limits the connections of each."""
    headers = {"Host": NAME, "Origin": f"https://{NAME}"}
    transport = httpx.HTTPTransport(verify=False, local_address=local)
    return httpx.Client(base_url=address, headers=headers, transport=transport, timeout=PATIENCE_S)


@contextmanager
def hostile_connections(address: str, number: int) -> Iterator[None]:
    """Open so many of them; every fourth without TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        for i in range(number):
            port = httpx.URL(address).port
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            with suppress(OSError):  # nginx may have ended it already
                if i % 4 != 3:
                    one = stack.enter_context(context.wrap_socket(one))
                one.setblocking(False)
                one.send(HOSTILE[i % len(HOSTILE)])
        yield


def signed_in(client: httpx.Client) -> None:
    client.get("/login/")
    sent = {"username": "operator", "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.post("/login/", data=sent).status_code == 302


def operate(client: httpx.Client, i: int) -> None:
    """Open a page, and do an action."""
    path = "/pairs/contoso/actions/fail_over/" if i % 2 else "/pairs/contoso/actions/release/"
    sent = {"path": "orders", "reason": f"try {i}", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.get("/pairs/contoso/").status_code == 200
    assert client.post(path, data=sent).status_code == 302


@pytest.mark.parametrize("number", [60, *nightly(500)])
def test_operators_work_while_strangers_hold_connections_and_send_large_bodies(address, tmp_path, number):
    with (
        from_address("127.0.0.2", address) as operator,
        from_address("127.0.0.3", address) as stranger,
        hostile_connections(address, number),
    ):
        signed_in(operator)
        for i in range(2):
            assert stranger.post("/costs/", content=LARGE).status_code in (302, 403)
            assert stranger.post("/api/v1/statements", content=10 * LARGE).status_code == 401
            assert stranger.post("/costs/reconcile/upload/", content=10 * LARGE).status_code == 303
            assert stranger.post("/costs/", content=2 * LARGE).status_code == 413
            operate(operator, i)
        assert operator.post("/costs/reconcile/upload/", content=10 * LARGE).status_code not in (303, 413, 502)
    answered = (tmp_path / "access.log").read_text()
    assert " 502 " not in answered
    assert "upstream=502" not in answered
