"""Whom the control plane believes about its clients: through uvicorn, and behind nginx as its configuration ships."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from dashboard.management.commands.web import Command
from tests import forked, migrated
from tests.dashboard.served import DATABASE, PAIRS, ROOT, SETTINGS
from tests.ports import free_port
from tests.selection import is_nightly

SHIPPED = ROOT / "deploy" / "nginx" / "control-plane.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:{sys.prefix}/fallback")
NAME = "bus.example.com"
TRIES = 25
MOST = 10
"""Wrong passwords for a name from one address, before the next is not looked at (docs/security.md)."""
MOST_OF_AN_ADDRESS = 50
"""The same for an address, whatever the names."""
SPOOFS = (
    lambda i: {"X-Forwarded-For": f"203.0.113.{i}"},
    lambda i: {"X-Forwarded-For": f"203.0.113.{i}, 127.0.0.1"},
    lambda i: {"X-Forwarded-For": f"127.0.0.1, 203.0.113.{i}:80"},
    lambda i: {"X-Real-IP": f"203.0.113.{i}", "X-Client-IP": f"203.0.113.{i}", "True-Client-IP": f"203.0.113.{i}"},
    lambda i: {"Forwarded": f"for=203.0.113.{i}"},
    lambda i: {"X-Forwarded-For": f"2001:db8:{i}::1, [2001:db8:{i}::2]:80"},
)


@contextmanager
def web(folder: Path, **variables: str) -> Iterator[int]:
    """The port of the program that the documented command becomes, once it answers."""
    (folder / "pairs.toml").write_text(PAIRS)
    if not (folder / DATABASE).exists():
        migrated.copy(folder / DATABASE)
    port = free_port()
    known = {"STATE_DIR": str(folder), "PAIRS_FILE": str(folder / "pairs.toml"), "REDIS_URL": "redis://127.0.0.1:1/0"}
    environment = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": SETTINGS, **known, **variables}
    words = ("-m", *Command.program, "--host", "127.0.0.1", "--port", str(port))
    with (folder / "log").open("ab") as log:
        process = forked.start(words, environment, log.fileno(), log.fileno())
        try:
            answers(f"http://127.0.0.1:{port}/healthz")
            answers(f"http://127.0.0.1:{port}/healthz")
            yield port
        finally:
            process.terminate()
            process.wait(60)


def answers(address: str) -> None:
    ended = time.monotonic() + 60
    while time.monotonic() < ended:
        try:
            httpx.get(address, verify=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{address} does not answer")


@contextmanager
def nginx(folder: Path, *upstreams: int, plain: int = 0, burst: int = 1000) -> Iterator[int]:
    """The port for HTTPS of nginx with the shipped configuration; ports, files and the limit of its own are changed.

    `plain`: the port for HTTP, if it is wanted.
    """
    key, certificate, port = folder / "key", folder / "certificate", free_port()
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    made = ("openssl", "req", "-x509", *kind, "-nodes", "-days", "2", "-subj", f"/CN={NAME}")
    subprocess.run((*made, "-keyout", key, "-out", certificate), check=True, capture_output=True)
    shipped = SHIPPED.read_text(encoding="utf-8")
    for here, there in {
        "listen 80;": f"listen 127.0.0.1:{plain or free_port()};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "server 127.0.0.1:8000;": "".join(f"server 127.0.0.1:{upstream};" for upstream in upstreams),
        "/etc/ssl/certs/bus.example.com.pem": str(certificate),
        "/etc/ssl/private/bus.example.com.key": str(key),
        "/var/log/nginx/control-plane.log": str(folder / "access.log"),
        "/var/log/nginx/control-plane-error.log": str(folder / "requests-error.log"),
        "burst=20": f"burst={burst}",
    }.items():
        assert here in shipped, here
        shipped = shipped.replace(here, there)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi"))
    temporary += "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("uwsgi", "scgi"))
    user = "user root; " if os.geteuid() == 0 else ""  # whom the folder of this test belongs to
    (folder / "nginx.conf").write_text(
        f"daemon off; {user}pid {folder}/pid; error_log {folder}/error.log; worker_rlimit_nofile 8192;\n"
        f"events {{ worker_connections 4096; }}\nhttp {{\n{temporary}{shipped}\n}}\n"
    )
    assert NGINX
    with subprocess.Popen((NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log")) as process:
        try:
            answers(f"https://127.0.0.1:{port}/healthz")
            yield port
        finally:
            process.terminate()


def require_nginx() -> None:
    """The test is skipped without nginx, or fails with REQUIRE_NGINX=1."""
    if NGINX is None:
        problem = "no nginx found (apt install nginx, or run the tests with `make test`, which brings one)"
        (pytest.fail if os.environ.get("REQUIRE_NGINX") == "1" else pytest.skip)(problem)


def refused(client: httpx.Client, spoof: int, scheme: str) -> int:
    """How many of the tries are answered that there were too many wrong passwords."""
    client.cookies.clear()
    page = client.get("/login/")
    assert page.status_code == 200, page.text
    sent = {"username": f"somebody-{spoof}", "password": "wrong", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    origin = {"Referer": f"{scheme}://{NAME}/login/", "Origin": f"{scheme}://{NAME}"}
    answered = [client.post("/login/", data=sent, headers=origin | SPOOFS[spoof](i)) for i in range(TRIES)]
    assert {answer.status_code for answer in answered} == {200}
    return sum("Too many wrong passwords" in answer.text for answer in answered)


def expected_refusals(names_before: int) -> int:
    """How many tries are refused for a new name, after as many others from this address."""
    return TRIES - min(MOST, max(MOST_OF_AN_ADDRESS - MOST * names_before, 0))


def spoofs(by_day: tuple[int, ...]) -> tuple[int, ...]:
    """Every header at night; by day each on one of the three ways."""
    return tuple(range(len(SPOOFS))) if is_nightly() else by_day


def test_no_header_makes_more_guesses_without_a_proxy_and_probes_answer_by_any_name(tmp_path):
    with (
        web(tmp_path, ALLOWED_HOSTS=NAME, HTTPS="0") as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Host": NAME}, timeout=60) as client,
    ):
        for before, spoof in enumerate(spoofs((0, 1, 2, 3))):
            assert refused(client, spoof, "http") == expected_refusals(before)
        for path, status in (("/healthz", 200), ("/readyz", 503), ("/metrics", 200), ("/", 400)):
            assert client.get(path, headers={"Host": "10.1.2.3:8000"}).status_code == status, path
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_no_header_makes_more_guesses_behind_nginx_and_probes_answer(tmp_path):
    require_nginx()
    with (
        web(tmp_path, ALLOWED_HOSTS=NAME, TRUSTED_PROXIES="127.0.0.1") as upstream,
        nginx(tmp_path, upstream) as port,
        httpx.Client(base_url=f"https://127.0.0.1:{port}", headers={"Host": NAME}, verify=False, timeout=60) as client,
    ):
        for before, spoof in enumerate(spoofs((4, 5, 0))):
            assert refused(client, spoof, "https") == expected_refusals(before)
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/", params={"search": "marigold"}).status_code == 302
    said = (tmp_path / "access.log").read_text() + (tmp_path / "log").read_text()
    assert "marigold" not in said
    assert "GET / HTTP/1.1" in said


def test_nginx_tells_no_query_where_it_refuses_or_the_control_plane_is_away(tmp_path):
    require_nginx()
    with (
        nginx(tmp_path, free_port(), burst=1) as port,
        httpx.Client(base_url=f"https://127.0.0.1:{port}", headers={"Host": NAME}, verify=False, timeout=60) as client,
    ):
        answered = [client.get("/login/", params={"code": "marigold"}).status_code for _ in range(6)]
        assert {502, 429} <= set(answered) <= {502, 429}
    said = {file.name: file.read_text() for file in tmp_path.glob("*.log")}
    assert {name: "marigold" in text for name, text in said.items()} == dict.fromkeys(said, False)
    assert {"access.log", "error.log", "requests-error.log"} <= said.keys()
    assert re.search(r'"GET /login/ HTTP/1.1" 502 .* upstream=502', said["access.log"]), "the failure is on record"


@pytest.mark.parametrize("address", ["/", "/pairs/contoso/?search=x", "/%0d%0aSet-Cookie:%20evil=1", "//evil.example/"])
@pytest.mark.parametrize("host", [NAME, "evil.example"])
def test_whoever_comes_without_tls_is_sent_to_the_same_address_with_it_and_nowhere_else(redirecting, address, host):
    with socket.create_connection(("127.0.0.1", redirecting), timeout=60) as connection:
        connection.sendall(f"GET {address} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = b"".join(iter(lambda: connection.recv(65536), b"")).decode().partition("\r\n\r\n")[0]
    status, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert (status.split()[1], headers["location"]) == ("301", f"https://{NAME}{address}")
    assert "set-cookie" not in headers


@pytest.fixture(scope="module")
def redirecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port for HTTP of nginx with the shipped configuration."""
    require_nginx()
    plain = free_port()
    with nginx(tmp_path_factory.mktemp("nginx"), free_port(), plain=plain):
        yield plain
