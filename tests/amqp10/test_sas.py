"""Shared access signatures: the SDK's own are taken, all others refused alike (docs/wire.md, section 2)."""

import time
from contextlib import suppress

import pytest
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.sas import Token, TokenError, expiry, sign, verify
from emulator.running import EmulatorError, running

KEYS = {"Root": "a key with = & + / and ä", "other": "second"}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("resource", ["sb://127.0.0.1:5672/orders", "https://127.0.0.1:5672", "sb://h/a b/ü%2F?x=1&y"])
def test_tokens_of_the_sdk_are_good_until_they_expire(name, resource):
    made = ServiceBusSharedKeyCredential(name, KEYS[name]).get_token(resource)

    token = verify(made.token, KEYS, time.time())

    assert (token.resource, token.key_name, token.expires_at) == (resource, name, made.expires_on)
    with pytest.raises(TokenError, match="expired"):
        verify(made.token, KEYS, made.expires_on)


@given(st.text(min_size=1), st.text(min_size=1), st.text(), st.integers(0, 2**40))
def test_what_is_signed_is_verified_with_the_same_key_only(name, key, resource, expiry):
    with suppress(UnicodeEncodeError):
        token = sign(name, key, resource, expiry)
        assert verify(token, {name: key}, expiry - 1) == Token(resource, name, expiry)
        with pytest.raises(TokenError, match="signature"):
            verify(token, {name: key + "x"}, expiry - 1)


@pytest.mark.parametrize(
    "change", [("orders", "payments"), ("se=", "se=9"), ("skn=Root", "skn=other"), ("sig=", "sig=A")]
)
def test_a_changed_token_is_refused(change):
    token = sign("Root", KEYS["Root"], "sb://h/orders", 2_000_000_000)
    with pytest.raises(TokenError, match="signature"):
        verify(token.replace(*change), KEYS, 1_000_000_000)


def test_a_token_that_says_twice_when_it_ends_ends_never_later():
    token = sign("Root", KEYS["Root"], "sb://h/orders", 2_000_000_000)
    twice = token.replace(" ", " se=99999999999&")
    assert (expiry(token), expiry(twice)) == (2_000_000_000.0, 0.0)
    with pytest.raises(TokenError, match="twice"):
        verify(twice, KEYS, 1_000_000_000)


def test_an_unknown_name_and_a_wrong_key_read_the_same():
    errors = []
    for name in ("Root", "unknown"):
        with pytest.raises(TokenError) as refused:
            verify(sign(name, "wrong", "sb://h", 2_000_000_000), KEYS, 1_000_000_000)
        errors.append(str(refused.value))
    assert errors[0] == errors[1]


@given(
    st.one_of(
        st.text(),
        st.text().map("SharedAccessSignature {}".format),
        st.text("sr=&igeskn%0Aé ").map("SharedAccessSignature sr=a&sig={}&se=9&skn=Root".format),
    )
)
@example("SharedAccessSignature sr=a&sig=&se=" + "9" * 400 + "&skn=Root")
@example("SharedAccessSignature sr=sb%3A%2F%2F%5B&sig=&se=9&skn=Root")
def test_no_text_does_more_than_be_refused(text):
    with pytest.raises(TokenError) as refused:
        verify(text, KEYS, 10.0)
    assert len(text) < 20 or text not in str(refused.value)


@pytest.mark.parametrize(
    ("resource", "path", "covered"),
    [
        ("sb://h:1/", "orders", True),
        ("sb://h:1", "", True),
        ("https://h:1/", "a/b/$management", True),
        ("sb://h:1/orders", "orders", True),
        ("sb://h:1/ORDERS/", "/orders/", True),
        ("sb://h:1/orders", "orders/$DeadLetterQueue", True),
        ("sb://h:1/t", "t/Subscriptions/s", True),
        ("sb://h:1/a%2Fb", "a/b", True),
        ("sb://h:1/orders", "orders2", False),
        ("sb://h:1/orders", "", False),
        ("sb://h:1/t/Subscriptions/s", "t", False),
    ],
)
def test_a_token_opens_its_resource_and_what_lies_below(resource, path, covered):
    assert Token(resource, "Root", 0.0).covers(path) is covered


def test_keys_that_no_connection_string_can_hold_are_refused():
    with running("contoso") as namespaces:
        for keys in ({}, [], "key", {"policy": 1}, {"policy": ""}, {"policy": "a;b"}, {"a;b": "key"}, {"p": "\ud800"}):
            with pytest.raises(EmulatorError, match="key of each policy"):
                namespaces["contoso"]._call("PUT", "keys", keys)
