"""The administration without a socket: requests in, answers out (docs/wire.md, section 10)."""

import re
from dataclasses import fields
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10.sas import sign
from emulator.administration import Administration, AdminRequest
from emulator.administration.atom import MAX_DEPTH, DocumentError, parse
from emulator.administration.documents import ORDER
from emulator.administration.durations import FOREVER, format_duration, parse_duration
from emulator.administration.rule_documents import CORRELATION_PROPERTIES
from emulator.administration.targets import (
    Entity,
    NamespaceInfo,
    Queues,
    Rule,
    Rules,
    Subscription,
    Subscriptions,
    Topics,
    read_target,
)
from emulator.broker.descriptions import DescriptionError, QueueDescription
from emulator.broker.filters import CorrelationFilter
from emulator.broker.namespace import Namespace
from tests.selection import depth

NOW = 1_790_000_000.0
KEYS = {"Root": "secret"}
VERSION = "api-version=2024-05"
BODY = (
    '<ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom"><ns0:content type="application/xml">'
    '<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">{}</QueueDescription>'
    "</ns0:content></ns0:entry>"
)


class Client:
    """Sends requests to an administration of its own."""

    def __init__(self) -> None:
        self.namespace = Namespace("contoso")
        self._administration = Administration(self.namespace, KEYS, NOW)

    def __call__(self, method, target, body="", *, token="", version=VERSION, **headers):
        sent = {"authorization": token or sign("Root", "secret", "https://127.0.0.1:5672", int(NOW) + 60)}
        sent |= {"host": "127.0.0.1:5672"} | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else body.encode()
        separator = "&" if "?" in target else "?"
        request = AdminRequest(method, f"{target}{separator}{version}", sent, data)
        return self._administration.handle(request, NOW)


@pytest.fixture
def client() -> Client:
    return Client()


def detail(response) -> str:
    root = ElementTree.fromstring(response.body)
    assert root.tag == "Error"
    assert root.findtext("Code") == str(response.status)
    return root.findtext("Detail")


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/orders", Entity("orders")),
        ("/contoso%2Fx-servicebus-transfer%2F0", Entity("contoso/x-servicebus-transfer/0")),
        ("/plain/slashes/too", Entity("plain/slashes/too")),
        ("/$Resources/queues?$skip=0&$top=100", Queues()),
        ("/$resources/Topics", Topics()),
        ("/$namespaceinfo", NamespaceInfo()),
        ("/a%2Fb/subscriptions", Subscriptions("a/b")),
        ("/a%2Fb/Subscriptions/audit", Subscription("a/b", "audit")),
        ("/a/subscriptions/audit/rules", Rules("a", "audit")),
        ("/a/subscriptions/audit/rules/$Default", Rule("a", "audit", "$Default")),
        ("/a%2Fsubscriptions%2Fb", Entity("a/subscriptions/b")),
        ("/", Entity("")),
        ("https://127.0.0.1:5672/a%2Fb?x=1", Entity("a/b")),
    ],
)
def test_an_encoded_slash_belongs_to_the_name_and_subscriptions_separates(address, target):
    assert read_target(address) == target


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1M", 60.0),
        ("PT0.5S", 0.5),
        ("P1DT2H3M4S", 93784.0),
        ("P7D", 604800.0),
        (FOREVER, float("inf")),
        ("P10675199DT2H48M5.477539S", float("inf")),
        ("PT5M1.0000005S", 301.0000005),
    ],
)
def test_durations_are_read_as_the_service_writes_them(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1M", "-PT1M", "P1Y", "PT1H2S3M", "PT١S", "P1DT", "PT1.S"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(DescriptionError):
        parse_duration(text)


@given(st.integers(0, 10**9 * 10_000_000))
def test_a_duration_survives_being_written_and_read(ticks):
    seconds = ticks / 10_000_000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12, abs=1e-7)


def test_creation_is_answered_201_and_everything_else_200(client):
    assert client("PUT", "/orders", BODY.format("")).status == 201
    assert client("PUT", "/orders", BODY.format(""), if_match="*").status == 200
    assert client("GET", "/orders").status == 200
    assert client("DELETE", "/orders").status == 200


def test_the_elements_of_a_queue_stand_in_the_order_other_clients_need(client):
    body = BODY.format("<ForwardTo>sb://127.0.0.1:5672/orders</ForwardTo><UserMetadata>x</UserMetadata>")
    client("PUT", "/orders", BODY.format(""))
    body = client("PUT", "/orders", body, if_match="*").body.decode()

    names = re.findall(r"<(\w+)[ />]", body.partition("<QueueDescription ")[2])

    expected = [name for name in ORDER[QueueDescription] if name != "ForwardDeadLetteredMessagesTo"]
    assert [name for name in names if name in expected] == expected


def test_prefixes_do_not_matter(client):
    body = BODY.format("<MaxDeliveryCount>7</MaxDeliveryCount>").replace("<Max", "<q:Max").replace("</Max", "</q:Max")
    prefix = 'xmlns:q="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"'

    client("PUT", "/orders", body.replace("<QueueDescription ", f"<QueueDescription {prefix} "))

    assert client.namespace.queue("orders").description.max_delivery_count == 7


def test_an_unknown_entity_is_a_feed_without_entries(client):
    answer = client("GET", "/nowhere")

    assert answer.status == 200
    root = ElementTree.fromstring(answer.body)
    assert root.tag.endswith("}feed")
    assert not [child for child in root if child.tag.endswith("}entry")]


@pytest.mark.parametrize("query", ["$skip=-1", "$top=0", "$top=x", "$skip=1.5", "$top=", "$skip=" + "9" * 30])
def test_a_page_that_cannot_be_is_refused(client, query):
    assert client("GET", f"/$Resources/queues?{query}").status == 400


@pytest.mark.parametrize(
    ("token", "why"),
    [(sign("Root", "wrong", "https://127.0.0.1:5672", int(NOW) + 60), "signature"), ("Bearer abc", "SharedAccess")],
)
def test_only_a_good_token_is_let_in(client, token, why):
    answer = client("GET", "/orders", token=token)
    assert answer.status == 401
    assert why in detail(answer)


def test_a_token_for_an_entity_opens_what_lies_below_it(client):
    client("PUT", "/orders", BODY.format(""))
    token = sign("Root", "secret", "sb://127.0.0.1:5672/Orders", int(NOW) + 60)
    assert client("GET", "/orders", token=token).status == 200
    assert client("GET", "/orders2", token=token).status == 401


def test_a_forwarding_token_is_checked_too(client):
    bad = sign("Root", "wrong", "sb://127.0.0.1:5672/orders", int(NOW) + 60)
    assert client("PUT", "/orders", BODY.format(""), ServiceBusSupplementaryAuthorization=bad).status == 201
    answer = client("PUT", "/other", BODY.format(""), servicebussupplementaryauthorization=bad)
    assert answer.status == 401


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "not well-formed"),
        ("<entry/>", "Atom entry"),
        (BODY.replace("QueueDescription", "RuleDescription").format(""), "QueueDescription"),
        (BODY.format("<MaxDeliveryCount>many</MaxDeliveryCount>"), "MaxDeliveryCount"),
        (BODY.format("<LockDuration>a minute</LockDuration>"), "LockDuration"),
        (BODY.format("<RequiresSession>maybe</RequiresSession>"), "RequiresSession"),
        (BODY.format("<Status>Sleeping</Status>"), "Status"),
        (BODY.format("<a>" * 100 + "</a>" * 100), "deep"),
        (BODY.format("<a/>" * 20_000), "many"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + BODY.format(""), "type declaration"),
        ("<!DOCTYPE x>" + BODY.format(""), "type declaration"),
        (BODY.format("&undefined;"), "well-formed"),
        (b"\xff\xfe<\x00", "well-formed"),
        ('<?xml version="1.0" encoding="no-such"?><a/>', "well-formed"),
    ],
)
def test_a_bad_body_is_refused_with_the_reason(client, body, why):
    answer = client("PUT", "/orders", body)
    assert answer.status == 400
    assert why in detail(answer)
    assert not client.namespace.exists("orders")


@pytest.mark.parametrize("method", ["POST", "PATCH", "HEAD"])
def test_other_methods_are_not_allowed(client, method):
    assert client(method, "/orders").status == 405


def test_depth_is_counted_not_recursed():
    assert parse(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH) is not None
    with pytest.raises(DocumentError):
        parse(b"<a>" * 1_000_000)


def test_every_property_a_correlation_filter_compares_has_an_element():
    assert set(CORRELATION_PROPERTIES.values()) == {field.name for field in fields(CorrelationFilter)} - {"properties"}


@settings(max_examples=depth(300), deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60), st.sampled_from(["GET", "PUT", "DELETE"]))
@example("\\", "GET")
def test_no_address_makes_the_administration_raise(address, method):
    # 401: a path that may lead elsewhere (a backslash) is within no token.
    assert Client()(method, "/" + address, BODY.format("")).status in (200, 201, 400, 401, 404, 405)
