"""Where messages may go, and that they go nowhere else: real sockets, real TLS, a resolver that lies."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from dashboard.alerts.sending.addresses import is_allowed
from dashboard.alerts.sending.channels.base import Post, Target, url_problem
from dashboard.alerts.sending.transport import post
from tests.dashboard.receivers import http_server
from tests.pace import Stopwatch, slowed

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
FORBIDDEN = [
    *("127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1", "240.0.0.1"),
    *("169.254.169.254", "168.63.129.16"),  # the metadata services of clouds
    *("255.255.255.255", "192.0.2.1", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "192.0.0.192", "192.88.99.1"),
    *("3fff::1", "::ffff:192.0.0.192", "::ffff:0:127.0.0.1"),
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_nothing_is_sent_to_addresses_of_this_machine_this_network_or_nobody(address):
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_the_public_internet_may_be_notified(address):
    assert is_allowed(ip_address(address), ())


def test_what_a_setting_lists_is_allowed_and_nothing_beside_it():
    allowed = [ip_network("10.1.2.0/24")]
    assert is_allowed(ip_address("10.1.2.3"), allowed)
    assert is_allowed(ip_address("::ffff:10.1.2.3"), allowed)
    assert not is_allowed(ip_address("10.1.3.3"), allowed)


@given(st.ip_addresses(v=4))
def test_an_address_hidden_in_another_is_judged_as_what_it_is(address):
    mapped = ip_address(f"::ffff:{address}")
    assert is_allowed(mapped, ()) == is_allowed(address, ())


def sent(receiver, body=b"{}", allowed=LOOPBACK, **options):
    return post(Post(receiver.url, body, {"Content-Type": "application/json"}), allowed, **options)


def test_a_message_is_posted_with_its_path_headers_and_body():
    with http_server() as receiver:
        answer = sent(receiver, b'{"a":1}')

    (path, headers, body), *more = receiver.requests
    assert (answer.status, answer.problem, more) == (204, "", [])
    assert (path, body, headers["content-type"]) == ("/hook?key=SECRET", b'{"a":1}', "application/json")


def test_a_message_to_this_machine_is_refused_unless_it_is_listed():
    with http_server() as receiver:
        answer = sent(receiver, allowed=())

    assert answer.is_permanent
    assert "ALERT_ALLOWED_NETWORKS" in answer.problem
    assert not receiver.requests


def test_a_name_that_is_resolved_elsewhere_is_refused():
    with http_server() as receiver:
        port = receiver.url.split(":")[2].partition("/")[0]
        answer = post(
            Post(f"https://hooks.example.com:{port}/", b""), (), resolver=lambda *_: ["127.0.0.1", "10.0.0.1"]
        )

    assert answer.is_permanent
    assert not receiver.requests


def test_a_name_that_changes_its_mind_leads_nowhere_else(monkeypatch):
    """The connection goes to the address that was looked at; the name is not asked a second time."""
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    monkeypatch.setattr(socket, "getaddrinfo", _only_addresses(socket.getaddrinfo))
    with http_server() as receiver:  # listens on 127.0.0.1 only
        url = receiver.url.replace("127.0.0.1", "hooks.example.com")
        answer = post(Post(url, b""), LOOPBACK, resolver=rebinding)

    assert asked == ["hooks.example.com"]
    assert answer.status is None
    assert not receiver.requests


def _only_addresses(real):
    def getaddrinfo(host, *rest, **more):
        ip_address(host)  # raises where a name is asked for behind the resolver's back
        return real(host, *rest, **more)

    return getaddrinfo


def test_no_redirect_is_followed():
    with http_server() as elsewhere, http_server() as receiver:
        receiver.answers = [(307, {"Location": elsewhere.url})]
        answer = sent(receiver)

    assert (answer.status, answer.is_permanent) == (307, True)
    assert not elsewhere.requests


def test_only_this_machine_may_be_asked_without_tls():
    answer = post(Post("http://hooks.example.com/", b""), (), resolver=lambda *_: ["93.184.216.34"])
    assert answer.is_permanent
    assert "https" in answer.problem


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example.com").configure_cert(context)
    return context


def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_the_certificate_is_that_of_the_name_though_the_address_is_connected_to(tls, authority):
    with http_server(tls) as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example.com")
        reported = post(Post(url, b"x"), LOOPBACK, resolver=lambda *_: ["127.0.0.1"], context=trusting(authority))
        wrong = post(Post(receiver.url, b"x"), LOOPBACK, context=trusting(authority))
        stranger = post(Post(url, b"x"), LOOPBACK, resolver=lambda *_: ["127.0.0.1"])

    assert reported.status == 204
    assert receiver.requests[0][1]["host"].startswith("hooks.example.com:")
    assert "certificate" in wrong.problem
    assert "certificate" in stranger.problem
    assert len(receiver.requests) == 1


def test_a_server_that_never_answers_holds_up_nobody_for_long():
    with http_server() as receiver:
        receiver.hold = threading.Event()
        with Stopwatch() as watch:
            answer = sent(receiver, limit_s=0.5)

    assert answer.problem
    assert not answer.is_permanent
    assert watch.took < 5


ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
RECORD = bytes([22, 3, 3, 63, 255])  # of a TLS handshake, with 16,383 bytes to come


@contextmanager
def trickling(beginning: bytes, context: ssl.SSLContext | None = None, *, resets: bool = False) -> Iterator[int]:
    """The port of a server that answers with a beginning, and then with a byte now and then, for ever; or resets."""
    ended = threading.Event()

    def answer() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with context.wrap_socket(connection, server_side=True) if context else connection as taken:
                taken.recv(4096)
                taken.sendall(beginning)
                if resets:
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                while not ended.wait(0.05):
                    taken.send(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            socket.create_connection(server.getsockname()).close()  # nobody may have come
            thread.join()


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["http", "https"])
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(is_encrypted, tls, authority):
    with trickling(ANSWER, tls if is_encrypted else None) as port, Stopwatch() as watch:
        url = f"https://hooks.example.com:{port}/" if is_encrypted else f"http://127.0.0.1:{port}/"
        ours, limit_s = trusting(authority), slowed(2.0)  # in which the status has to arrive
        answer = post(Post(url, b"x"), LOOPBACK, resolver=lambda *_: ["127.0.0.1"], context=ours, limit_s=limit_s)

    assert answer.status == 200
    assert watch.took < 5 + limit_s


def test_a_status_counts_though_the_connection_is_reset_in_the_body():
    """So it may end for who stops waiting for the body, too: what arrives after that is answered with a reset."""
    with trickling(ANSWER, resets=True) as port:
        answer = post(Post(f"http://127.0.0.1:{port}/", b""), LOOPBACK)

    assert (answer.status, answer.problem) == (200, "")


@pytest.mark.parametrize(("scheme", "beginning"), [("http", b"H"), ("https", RECORD)], ids=["a status", "a handshake"])
def test_a_beginning_that_comes_byte_by_byte_is_not_waited_for(scheme, beginning):
    with trickling(beginning) as port, Stopwatch() as watch:
        answer = post(Post(f"{scheme}://127.0.0.1:{port}/", b"x"), LOOPBACK, limit_s=0.5)

    assert answer.problem
    assert not answer.is_permanent
    assert watch.took < 5


def test_the_next_address_is_tried_where_one_takes_no_connection():
    with http_server() as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        answer = post(Post(url, b""), LOOPBACK, resolver=lambda *_: ["127.0.0.3", "127.0.0.1"])

    assert answer.status == 204


def test_a_name_that_nobody_knows_is_tried_again_later():
    def unknown(*_):
        raise socket.gaierror(-2, "Name or service not known")

    answer = post(Post("https://hooks.example.com/", b""), (), resolver=unknown)
    assert answer.problem == "Invalid response from hooks.example.com: name or service not known."
    assert not answer.is_permanent


UNUSABLE = ["", "hooks.example.com", "ftp://hooks.example.com/", "file:///etc/passwd", "https://", "https://[::1"]
UNUSABLE += ["https://user:password@hooks.example.com/", "https://hooks.example.com:port/"]
UNUSABLE += ["https://hooks.example.com/a b", "https://hooks.example.com/\r\nX: y"]


@pytest.mark.parametrize("url", UNUSABLE)
def test_an_address_that_cannot_be_used_is_said_to_be_so_without_being_repeated(url):
    problem = url_problem(url)
    assert problem
    assert "password" not in problem.replace("a user or a password", "")
    assert "hooks.example.com" not in problem


def test_neither_address_nor_secret_is_shown_by_what_carries_them():
    target = Target(url="https://hooks.example.com/SECRET", secrets=("whsec_SECRET",))
    assert "SECRET" not in repr(target)
    assert "SECRET" not in repr(Post(target.url, b"", {"webhook-signature": "SECRET"}))
