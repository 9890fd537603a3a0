"""Requests of a browser: a page of another host may not use a namespace of this machine."""

import pytest

from amqp10.transport.origin import is_loopback, objection

LOCAL = {"host": "localhost:5672"}


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        (LOCAL, False),
        ({"host": "127.0.0.1:5672"}, False),
        ({"host": "[::1]:5672"}, False),
        ({"host": "Contoso"}, False),
        ({"host": "contoso.servicebus.windows.net"}, False),
        ({"host": "contoso.attacker.example"}, True),
        ({"host": "attacker.example:5672"}, True),
        ({"host": "[broken"}, True),
        ({}, True),
        (LOCAL | {"origin": "http://127.0.0.1:3000", "sec-fetch-site": "cross-site"}, False),
        (LOCAL | {"origin": "https://attacker.example"}, True),
        (LOCAL | {"origin": "null"}, True),
        (LOCAL | {"origin": "http://[broken"}, True),
        (LOCAL | {"sec-fetch-site": "none"}, False),
        (LOCAL | {"sec-fetch-site": "same-origin"}, False),
        (LOCAL | {"sec-fetch-site": "cross-site"}, True),
        (LOCAL | {"sec-fetch-site": "same-site"}, True),
    ],
)
def test_only_this_machine_and_its_pages_use_a_local_namespace(headers, is_refused):
    for namespace in ("contoso", "Contoso.servicebus.windows.net"):
        assert (objection(headers, namespace, is_local=True) is not None) is is_refused


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [({"host": "emulator:5672"}, False), ({"host": "a", "origin": "http://a"}, False), ({"origin": "http://b"}, True)],
)
def test_a_namespace_beyond_the_loopback_has_any_name(headers, is_refused):
    assert (objection(headers, "contoso", is_local=False) is not None) is is_refused


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("x.example", False),
    ],
)
def test_only_the_loopback_is_this_machine(address, is_local):
    assert is_loopback(address) is is_local
