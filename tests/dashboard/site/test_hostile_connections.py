"""Hostile connections to the documented web process, and operators who work meanwhile (docs/security.md)."""

import os
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests import forked
from tests.dashboard.served import PASSWORD, SEED, SETTINGS, SYNC
from tests.dashboard.site.test_behind_a_proxy import NAME, nginx, require_nginx, uvicorn
from tests.selection import nightly

PATIENCE_S = 120
ANSWERED = 10
"""How often an operator asks and acts while all of them are connected."""
MOST_KB = 100_000
"""What the process may need more while and after 500 are connected (measured: 25,000)."""
NOWHERE = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
STRINGS = {"CONTOSO_PRIMARY": NOWHERE, "CONTOSO_SECONDARY": NOWHERE.replace("contoso", "contoso-dr")}
FILES = 512
"""The files that it may open: 256 connections."""
HEAD = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\n"
GET = b"GET /login/ HTTP/1.1\r\nHost: localhost\r\n"
HOSTILE: dict[str, bytes] = {
    "says nothing": b"",
    "half of a request line": b"GET /login",
    "headers without an end": GET + b"X-A: 1\r\n" * 50,
    "a body without an end": HEAD + b"Content-Length: 50000\r\n\r\n" + b"x" * 40_000,
    "a chunked body without an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000\r\n" + b"x" * 0xFFF,
    "a large body": HEAD + b"Content-Length: 62914560\r\n\r\n" + b"x" * 2**16,
    "a large chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3c00000\r\n" + b"x" * 2**17,
    "more headers than fit": GET + b"X-A: " + b"1" * 2**16,
    "ten thousand headers": GET + b"a:1\r\n" * 10_000,
    "rubbish": bytes(range(256)) * 100,
    "rubbish behind a request": GET + b"\r\n" + b"\xff\x00" * 2**15,
    "a request after another, none of their answers read": (GET + b"\r\n") * 20,
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a length and chunks": HEAD
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "the greeting of another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64,
}


@dataclass(frozen=True)
class Web:
    """A web process: its address, and what the system says of it."""

    port: int
    process: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def memory_kb(self) -> int:
        lines = (self.process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

    @property
    def files(self) -> int:
        return len(os.listdir(self.process / "fd"))


@contextmanager
def serving(folder: Path, redis_url: str, **settings: str) -> Iterator[Web]:
    """The documented command with these settings and few files, a pair and people."""
    with uvicorn(folder, REDIS_URL=redis_url, **STRINGS, **settings) as port:
        known = {"STATE_DIR": str(folder), "PAIRS_FILE": str(folder / "pairs.toml"), "REDIS_URL": redis_url}
        environment = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": SETTINGS, **known, **STRINGS}
        forked.run(("manage.py", "shell", "-v0", "-c", f"{SYNC}\n{SEED}"), environment, check=True)
        process = listener(port)
        resource.prlimit(process, resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        yield Web(port, Path("/proc") / str(process))


@pytest.fixture
def web(tmp_path, redis_client, redis_url) -> Iterator[Web]:
    with serving(tmp_path, redis_url) as web:
        yield web


def listener(port: int) -> int:
    """The process of ours that listens at this port."""
    inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if listens(line, port)}
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(OSError):
            links = {os.readlink(entry) for entry in Path(f"/proc/{child}/fd").iterdir()}
            if links & {f"socket:[{inode}]" for inode in inodes}:
                return int(child)
    raise AssertionError(f"nobody listens at {port}")


def listens(line: str, port: int) -> bool:
    words = line.split()
    return words[3] == "0A" and words[1].endswith(f":{port:04X}")


@contextmanager
def hostile_connections(
    port: int, number: int, *, host: str = "localhost", tls: ssl.SSLContext | None = None
) -> Iterator[list[socket.socket]]:
    """So many of them, of each kind in turn, which have said what they say; with TLS every fourth says it without."""
    kinds = [said.replace(b"localhost", host.encode()) for said in HOSTILE.values()]
    with ExitStack() as stack:
        opened = []
        for i in range(number):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            if tls is not None and i // len(kinds) % 4 != 3:
                one = stack.enter_context(tls.wrap_socket(one))
            one.setblocking(False)
            with suppress(OSError):  # it may have been ended already, and what does not fit is not sent
                one.send(kinds[i % len(kinds)])
            opened.append(one)
        yield opened


def has_ended(one: socket.socket) -> bool:
    """Whether the server has ended it: whatever was answered is read."""
    try:
        while one.recv(2**16):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True


def until(condition: Callable[[], bool], fact: str) -> None:
    ended = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ended, f"not in {PATIENCE_S} s: {fact}"
        time.sleep(0.1)


def signed_in(client: httpx.Client) -> None:
    client.get("/login/")
    sent = {"username": "operator", "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.post("/login/", data=sent).status_code == 302


def operate(client: httpx.Client, i: int) -> None:
    """A page, and an action that is done."""
    path = "/pairs/contoso/actions/fail_over/" if i % 2 else "/pairs/contoso/actions/release/"
    sent = {"path": "orders", "reason": f"try {i}", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.get("/pairs/contoso/").status_code == 200
    answer = client.post(path, data=sent)
    assert answer.status_code == 302, answer.text


@pytest.mark.parametrize("number", [60, *nightly(500)])
def test_operators_work_while_hostile_connections_are_open_and_all_of_those_end(web, number):
    with httpx.Client(base_url=web.address, timeout=PATIENCE_S) as client:
        signed_in(client)
        operate(client, 0)
        memory, files = web.memory_kb, web.files
        with hostile_connections(web.port, number) as hostile:
            for i in range(1, ANSWERED):
                operate(client, i)
            assert (web.files <= FILES, web.memory_kb < memory + MOST_KB) == (True, True)
            until(lambda: sum(map(has_ended, hostile)) == number, "every hostile connection has ended")
        operate(client, ANSWERED)
        assert web.memory_kb < memory + MOST_KB
        until(lambda: web.files <= files + 20, "the files of the connections are closed")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [500])
def test_the_same_behind_nginx_as_its_configuration_ships(tmp_path, redis_client, redis_url, number):
    """The operator has an address of their own, since nginx bounds the connections of each."""
    require_nginx()
    strangers = ssl.create_default_context()
    strangers.check_hostname, strangers.verify_mode = False, ssl.CERT_NONE
    of_operator = httpx.HTTPTransport(verify=False, local_address="127.0.0.2")
    headers = {"Host": NAME, "Origin": f"https://{NAME}"}
    with (
        serving(tmp_path, redis_url, ALLOWED_HOSTS=NAME, TRUSTED_PROXIES="127.0.0.1") as web,
        nginx(tmp_path, web.port) as port,
        httpx.Client(
            base_url=f"https://127.0.0.1:{port}", headers=headers, transport=of_operator, timeout=PATIENCE_S
        ) as client,
    ):
        signed_in(client)
        operate(client, 0)
        memory, files = web.memory_kb, web.files
        with hostile_connections(port, number, host=NAME, tls=strangers) as hostile:
            for i in range(1, ANSWERED):
                operate(client, i)
            assert (web.files <= FILES, web.memory_kb < memory + MOST_KB) == (True, True)
            assert not sum(kept.stat().st_size for kept in (tmp_path / "client_body").iterdir())
            until(lambda: sum(map(has_ended, hostile)) == number, "every hostile connection has ended")
        operate(client, ANSWERED)
        until(lambda: web.files <= files + 40, "the files of the connections are closed")
