"""Topics without AMQP or HTTP: what is published where, and what may not break it (docs/emulator.md)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.codec import encode, encode_list, encode_map
from amqp10.types import Described, Long, Symbol, Timestamp
from emulator.broker.descriptions import EntityStatus, RuleDescription, SubscriptionDescription, TopicDescription
from emulator.broker.errors import QuotaExceeded
from emulator.broker.filters import SqlFilter, SqlRuleAction
from emulator.broker.message import Message, parse
from emulator.broker.namespace import Namespace
from emulator.broker.properties import _SYSTEM, MessageProperties, from_amqp, to_amqp
from emulator.broker.sql.parser import SETTABLE, SYSTEM_PROPERTIES

NOW = 1_790_000_000.0
STANDARD = ("message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding")
STANDARD += ("absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id")


def message(application=None, *, body=b"x", raw_application=None, **standard) -> Message:
    """A message with these application properties and standard properties."""
    head = encode_list([encode(standard.pop(name, None)) for name in STANDARD])
    assert not standard
    pairs = [(encode(key), encode(value)) for key, value in (application or {}).items()]
    section = raw_application if raw_application is not None else encode_map(pairs)
    return parse(b"\x00\x53\x73" + head + b"\x00\x53\x74" + section + b"\x00\x53\x75" + encode(body))


@pytest.fixture
def namespace() -> Namespace:
    namespace = Namespace("contoso")
    namespace.create_topic("t", TopicDescription("t"), NOW)
    return namespace


def subscribe(namespace, name="s", *rules, topic="t", **properties):
    described = [RuleDescription(f"r{number}", *each) for number, each in enumerate(rules)]
    description = SubscriptionDescription(topic, name, **properties)
    if not rules:
        return namespace.create_subscription(topic, description, NOW).queue
    return namespace.create_subscription(topic, description, NOW, described).queue


def publish(namespace, *messages, topic="t", now=NOW) -> None:
    for message in messages:
        namespace.resolve_sender(topic).enqueue(message, now)


def stored(queue) -> list[Message]:
    return [each.message for each in queue.contents.messages()]


def test_copies_know_their_number_in_the_topic_and_have_one_of_their_own(namespace):
    queue = subscribe(namespace, "s", (SqlFilter("n > 1"),))
    publish(namespace, *(message({"n": number}) for number in range(4)))
    assert [(each.sequence_number, each.enqueue_sequence_number) for each in queue.contents.messages()] == [
        (1, 3),
        (2, 4),
    ]


def test_a_topic_is_full_when_its_subscriptions_together_are(namespace):
    namespace.update_topic("t", TopicDescription("t", max_size_in_megabytes=1), NOW)
    queues = [subscribe(namespace, name) for name in "ab"]
    publish(namespace, message(body=b"x" * 500_000))
    with pytest.raises(QuotaExceeded):
        publish(namespace, message(body=b"x" * 100_000))
    for queue in queues:
        queue.deliveries.receive_and_delete(NOW)
    publish(namespace, message(body=b"x" * 100_000))


def test_a_disabled_topic_closes_its_subscriptions_until_it_is_active_again(namespace):
    queue = subscribe(namespace)
    namespace.update_topic("t", TopicDescription("t", status=EntityStatus.DISABLED), NOW)
    assert not queue.description.status.accepts_receives
    namespace.update_topic("t", TopicDescription("t"), NOW)
    assert queue.description.status is EntityStatus.ACTIVE


def test_topics_may_be_chained_but_not_for_ever(namespace):
    namespace.create_topic("u", TopicDescription("u"), NOW)
    subscribe(namespace, "on", forward_to="u")
    end = subscribe(namespace, "end", topic="u")
    publish(namespace, message({"a": 1}))
    assert len(end) == 1

    circle = subscribe(namespace, "back", topic="u", forward_to="t")
    publish(namespace, message({"a": 2}))
    assert len(end) <= 8
    assert sum(len(queue.transfer_dead_letters) for queue in (circle, namespace.resolve("t/subscriptions/on"))) == 1


def test_application_properties_that_cannot_be_read_are_delivered_where_nobody_asks_for_them(namespace):
    plain = subscribe(namespace, "plain")
    asking = subscribe(namespace, "asking", (SqlFilter("a = 1"),))
    broken = b"\xc1\x04\x02\xa1\x01a"  # a map that promises a value and ends
    sent = replace(message({"a": 1}), bare=b"\x00\x53\x74" + broken + b"\x00\x53\x75\xa0\x01x")
    publish(namespace, sent)
    assert len(plain) == 1
    assert len(asking) == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Timestamp(1_783_250_000_123), datetime(2026, 7, 5, 11, 13, 20, 123_000, tzinfo=UTC)),
        (Described(Symbol("com.microsoft:timespan"), 3_000_000_000), timedelta(minutes=5)),
        (Described(Symbol("com.microsoft:datetime-offset"), 621_355_968_000_000_000), datetime(1970, 1, 1, tzinfo=UTC)),
        (Symbol("text"), "text"),
        (UUID(int=5), UUID(int=5)),
        (Timestamp(2**62), None),
    ],
)
def test_amqp_values_are_compared_as_what_they_mean(given, expected):
    assert from_amqp(given) == expected


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(), st.booleans(), st.uuids(), st.none(), st.binary()))
def test_values_an_action_copies_come_back_the_same(value):
    assert from_amqp(to_amqp(value)) == value


@settings(deadline=None)
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.timedeltas(timedelta(-9999), timedelta(9999)))
def test_times_and_durations_an_action_sets_keep_their_milliseconds(time, duration):
    assert abs(from_amqp(to_amqp(time)) - time.replace(tzinfo=UTC)) < timedelta(milliseconds=1)
    assert abs(from_amqp(to_amqp(duration)) - duration) < timedelta(milliseconds=1)


def test_every_system_property_the_language_knows_is_read_from_messages():
    properties = MessageProperties(message(subject="l"), 1, NOW)
    assert set(_SYSTEM) == SYSTEM_PROPERTIES - {"subject"}
    assert SETTABLE < SYSTEM_PROPERTIES
    for name in _SYSTEM:
        properties.system(name)


def test_an_action_may_change_every_property_it_is_allowed_to(namespace):
    texts = sorted(SETTABLE - {"timetolive", "scheduledenqueuetimeutc", "partitionkey"})
    action = ";".join([*(f"SET sys.{name} = '{name}'" for name in texts), "SET sys.TimeToLive = @d"])
    queue = subscribe(namespace, "s", (SqlFilter("1=1"), SqlRuleAction(action, {"@d": timedelta(seconds=7)})))
    publish(namespace, message(subject="l", message_id="m"))

    [changed] = stored(queue)
    view = MessageProperties(changed)
    assert {name: view.system(name) for name in texts if name != "subject"} == {
        name: ("subject" if name == "label" else name) for name in texts if name != "subject"
    }
    assert (changed.ttl_s, changed.session_id, changed.message_id) == (7.0, "sessionid", "messageid")
    [kept] = queue.contents.messages()
    assert kept.expires_at == NOW + 7


@pytest.mark.parametrize(
    "action",
    [
        "SET a = b / 0",
        "SET a = text; " + "SET a = a + a; " * 20,
        "; ".join(f"SET a{n} = text" for n in range(20)),
        "SET sys.TimeToLive = 5",
        "SET a = 'x' - 1",
        "SET a = -9223372036854775807 - 2",
    ],
)
def test_an_action_that_fails_buries_the_message(namespace, action):
    queue = subscribe(namespace, "s", (SqlFilter("1=1"), SqlRuleAction(action)))
    publish(namespace, message({"b": 1, "text": "x" * 5000}))
    assert len(queue) == 0
    [buried] = stored(queue.dead_letters)
    assert buried.application_properties["DeadLetterReason"] == "FilterException"
    assert queue.counters.dead_lettered == 1


def test_an_action_converts_to_the_type_the_property_had(namespace):
    action = SqlRuleAction("SET text = 5; SET number = '7'; SET fraction = 2; SET flag = 1; SET new = 1.5; SET n = 5")
    queue = subscribe(namespace, "s", (SqlFilter("1=1"), action))
    publish(namespace, message({"text": "t", "number": 1, "fraction": 1.5, "flag": True}))
    [changed] = stored(queue)
    assert changed.application_properties == {
        "text": "5",
        "number": 7,
        "fraction": 2.0,
        "flag": 1,
        "new": 1.5,
        "n": 5,
        "RuleName": "r0",
    }
    assert type(changed.application_properties["n"]) is Long


def test_a_topic_nobody_uses_goes_by_itself_though_it_takes_every_message(namespace):
    namespace.create_topic("idle", TopicDescription("idle", auto_delete_on_idle_s=300.0), NOW)
    publish(namespace, message(), topic="idle", now=NOW + 100)
    namespace.advance(NOW + 301)
    assert namespace.exists("idle")
    namespace.advance(NOW + 401)
    assert not namespace.exists("idle")


def test_a_subscription_nobody_receives_from_goes_by_itself_though_messages_come(namespace):
    left = subscribe(namespace, "left", auto_delete_on_idle_s=300.0)
    read = subscribe(namespace, "read", auto_delete_on_idle_s=300.0)
    for at in (100, 200, 290):
        publish(namespace, message(), now=NOW + at)
        assert read.deliveries.receive_and_delete(NOW + at) is not None
    namespace.advance(NOW + 301)
    assert [each.queue for each in namespace.topic("t").subscriptions()] == [read]
    assert left.is_closed


def test_a_topic_is_not_idle_while_a_subscription_is_read(namespace):
    namespace.create_topic("idle", TopicDescription("idle", auto_delete_on_idle_s=300.0), NOW)
    queue = subscribe(namespace, topic="idle")
    queue.deliveries.receive_and_delete(NOW + 200)
    publish(namespace, message(), topic="idle", now=NOW + 10)
    queue.deliveries.receive_and_delete(NOW + 200)
    namespace.advance(NOW + 311)
    assert namespace.exists("idle")
    namespace.advance(NOW + 501)
    assert not namespace.exists("idle")
