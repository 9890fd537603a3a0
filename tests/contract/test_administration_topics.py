"""What the administration promises about topics, subscriptions and rules (docs/wire.md, section 10)."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

pytestmark = pytest.mark.contract

FOREVER = timedelta(days=10675199)


@pytest.fixture
def topic(administration) -> Iterator[str]:
    """A topic of the test's own, with slashes in its name."""
    name = f"contract/{uuid4().hex}"
    administration.create_topic(name)
    yield name
    with suppress(ResourceNotFoundError):
        administration.delete_topic(name)


@pytest.fixture
def subscription(administration, topic) -> str:
    return administration.create_subscription(topic, "audit").name


@pytest.fixture
def target(administration) -> Iterator[str]:
    name = f"contract/{uuid4().hex}"
    administration.create_queue(name)
    yield name
    administration.delete_queue(name)


def test_a_new_topic_has_the_defaults_of_the_service(administration, topic):
    created = administration.get_topic(topic)

    assert (created.name, created.max_size_in_megabytes) == (topic, 1024)
    assert min(created.default_message_time_to_live, created.auto_delete_on_idle) >= FOREVER
    assert created.duplicate_detection_history_time_window == timedelta(minutes=10)
    for switch in ("requires_duplicate_detection", "enable_partitioning", "enable_express"):
        assert created[switch] is False, switch
    assert (created.enable_batched_operations, created.support_ordering) == (True, True)
    assert (created.status, created.availability_status) == (EntityStatus.ACTIVE, "Available")


def test_every_property_of_a_topic_is_read_back_and_updated(administration, topic):
    given = {
        "default_message_time_to_live": timedelta(minutes=11),
        "auto_delete_on_idle": timedelta(minutes=10),
        "duplicate_detection_history_time_window": timedelta(minutes=12),
        "max_size_in_megabytes": 3072,
        "enable_express": True,
        "support_ordering": False,
        "enable_batched_operations": False,
        "user_metadata": "shipments",
        "status": EntityStatus.SEND_DISABLED,
    }
    administration.update_topic(administration.get_topic(topic), **given)

    changed = administration.get_topic(topic)
    assert {name: changed[name] for name in given} == given


@pytest.mark.parametrize(
    "change",
    [
        {"requires_duplicate_detection": True},
        {"duplicate_detection_history_time_window": timedelta(days=25)},
        {"max_size_in_megabytes": 7},
        {"max_message_size_in_kilobytes": 1024},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_topic_cannot_be_is_refused(administration, topic, change):
    with pytest.raises(HttpResponseError) as refused:
        administration.update_topic(administration.get_topic(topic), **change)
    assert refused.value.status_code == 400


def test_topics_and_queues_share_their_names(administration, topic):
    with pytest.raises(ResourceExistsError):
        administration.create_topic(topic)
    with pytest.raises(ResourceExistsError):
        administration.create_queue(topic.upper())


def test_a_topic_counts_its_subscriptions_and_their_filters(administration, topic, subscription):
    """The rule every subscription begins with counts as one of SQL."""
    administration.create_rule(topic, subscription, "sql", filter=SqlRuleFilter("1=1"))
    administration.create_rule(topic, subscription, "correlation", filter=CorrelationRuleFilter(correlation_id="c"))
    runtime = administration.get_topic_runtime_properties(topic)
    assert (runtime.sql_filter_count, runtime.correlation_filter_count) == (2, 1)
    assert (runtime.subscription_count, runtime.size_in_bytes, runtime.scheduled_message_count) == (1, 0, 0)


def test_a_deleted_topic_is_not_found_and_takes_its_subscriptions_along(administration, topic, subscription):
    administration.delete_topic(topic)
    for call in (administration.get_topic, administration.get_topic_runtime_properties, administration.delete_topic):
        with pytest.raises(ResourceNotFoundError):
            call(topic)
    with pytest.raises(ResourceNotFoundError):
        administration.get_subscription(topic, subscription)


def test_a_topic_may_be_created_partitioned_and_express_with_durations_as_text(administration):
    name = f"contract/{uuid4().hex}"
    durations = {"auto_delete_on_idle": 10, "default_message_time_to_live": 11}
    administration.create_topic(
        name,
        **{key: f"PT{minutes}M" for key, minutes in durations.items()},
        enable_express=True,
        enable_partitioning=True,
        max_size_in_megabytes=3072,
    )

    created = administration.get_topic(name)

    administration.delete_topic(name)
    assert {key: created[key] for key in durations} == {key: timedelta(minutes=n) for key, n in durations.items()}
    assert (created.enable_express, created.enable_partitioning) == (True, True)
    assert created.max_size_in_megabytes % 3072 == 0  # the service tells the sum of sixteen partitions


def test_an_update_of_a_topic_that_is_not_there_is_refused(administration, topic):
    described = administration.get_topic(topic)
    described.name = f"contract/{uuid4().hex}"
    with pytest.raises(HttpResponseError):
        administration.update_topic(described)
    assert described.name not in [each.name for each in administration.list_topics()]


def test_topics_are_listed_by_name_with_their_runtime_properties(administration, topic):
    others = [f"{topic}/.-_{number}" for number in (2, 1)]
    for name in others:
        administration.create_topic(name)
    wanted = [topic, *sorted(others)]

    names = [each.name for each in administration.list_topics() if each.name in wanted]
    runtimes = [each for each in administration.list_topics_runtime_properties() if each.name in wanted]
    queues = [each.name for each in administration.list_queues()]

    for name in others:
        administration.delete_topic(name)
    assert topic not in queues
    assert names == wanted
    assert [each.name for each in runtimes] == wanted
    assert all(None not in (each.created_at_utc, each.accessed_at_utc, each.updated_at_utc) for each in runtimes)
    assert all((each.subscription_count, each.scheduled_message_count) == (0, 0) for each in runtimes)


def test_a_new_subscription_has_the_defaults_of_the_service(administration, topic):
    created = administration.create_subscription(topic, "audit")

    assert (created.name, created.max_delivery_count, created.status) == ("audit", 10, EntityStatus.ACTIVE)
    assert created.lock_duration == timedelta(minutes=1)
    assert min(created.default_message_time_to_live, created.auto_delete_on_idle) >= FOREVER
    assert (created.requires_session, created.dead_lettering_on_message_expiration) == (False, False)
    assert (created.dead_lettering_on_filter_evaluation_exceptions, created.enable_batched_operations) == (True, True)
    assert created.forward_to is None


def test_every_property_of_a_subscription_is_read_back(administration, topic):
    administration.create_queue(f"{topic}.target")
    given = {
        "lock_duration": timedelta(seconds=13),
        "requires_session": True,
        "default_message_time_to_live": timedelta(minutes=11),
        "dead_lettering_on_message_expiration": True,
        "dead_lettering_on_filter_evaluation_exceptions": False,
        "max_delivery_count": 14,
        "enable_batched_operations": False,
        "user_metadata": "x",
        "auto_delete_on_idle": timedelta(minutes=10),
    }
    administration.create_subscription(topic, "audit", forward_dead_lettered_messages_to=f"{topic}.target", **given)

    created = administration.get_subscription(topic, "audit")
    assert {name: created[name] for name in given} == given
    assert created.forward_dead_lettered_messages_to.endswith(f"{topic}.target")
    administration.delete_queue(f"{topic}.target")


def test_a_subscription_is_updated_listed_and_deleted(administration, topic, subscription):
    found = administration.get_subscription(topic, "AUDIT")
    found.max_delivery_count = 3
    administration.update_subscription(topic, found)
    administration.create_subscription(topic, "zebra")

    listed = list(administration.list_subscriptions(topic, max_page_size=1))
    assert [(each.name, each.max_delivery_count) for each in listed] == [("audit", 3), ("zebra", 10)]
    runtimes = list(administration.list_subscriptions_runtime_properties(topic))
    assert [each.name for each in runtimes] == ["audit", "zebra"]

    administration.delete_subscription(topic, "audit")
    with pytest.raises(ResourceNotFoundError):
        administration.get_subscription(topic, "audit")
    with pytest.raises(ResourceNotFoundError):
        administration.delete_subscription(topic, "audit")


@pytest.mark.parametrize("name", ["a" * 51, "a b", "a/b", ""], ids=["too long", "space", "slash", "empty"])
def test_names_no_subscription_may_have_are_refused(administration, topic, name):
    with pytest.raises((HttpResponseError, ValueError)):
        administration.create_subscription(topic, name)
    assert list(administration.list_subscriptions(topic)) == []


def test_what_a_subscription_cannot_be_is_refused(administration, topic, subscription):
    found = administration.get_subscription(topic, subscription)
    for change in ({"requires_session": True}, {"lock_duration": timedelta(minutes=6)}, {"forward_to": "nowhere"}):
        with pytest.raises(HttpResponseError) as refused:
            administration.update_subscription(topic, found, **change)
        assert refused.value.status_code == 400


def test_a_subscription_needs_its_topic(administration):
    with pytest.raises(ResourceNotFoundError):
        administration.create_subscription(f"contract/{uuid4().hex}", "audit")
    with pytest.raises(ResourceNotFoundError):
        list(administration.list_subscriptions(f"contract/{uuid4().hex}"))


def test_a_subscription_forwards_to_what_is_named_by_name_or_address_or_no_more(
    administration, connection_string, topic, subscription, target
):
    """Its own topic is an address like any other; what goes around in circles is stopped by its hops."""
    host = connection_string.partition("sb://")[2].partition(";")[0].strip("/").partition(":")[0]
    found = administration.get_subscription(topic, subscription)
    for name, to in ((topic, f"sb://{host}/{topic}"), (target, target)):
        found.forward_to = found.forward_dead_lettered_messages_to = to
        administration.update_subscription(topic, found)
        found = administration.get_subscription(topic, subscription)
        assert found.forward_to.endswith(f"/{name}")
        assert found.forward_dead_lettered_messages_to.endswith(f"/{name}")

    found.forward_to = found.forward_dead_lettered_messages_to = None
    administration.update_subscription(topic, found)

    found = administration.get_subscription(topic, subscription)
    assert (found.forward_to, found.forward_dead_lettered_messages_to) == (None, None)


def test_a_new_subscription_takes_everything(administration, topic, subscription):
    [rule] = administration.list_rules(topic, subscription)
    assert rule.name == "$Default"
    assert isinstance(rule.filter, TrueRuleFilter)
    assert rule.filter.sql_expression == "1=1"
    assert rule.action is None


VALUES = {
    "key_string": "str1 <&>",
    "key_int": 2,
    "key_long": 2**31 + 2,
    "key_negative": -5,
    "key_double": 2.5,
    "key_bool": False,
    "key_datetime": datetime(2020, 7, 5, 11, 12, 13),
    "key_duration": timedelta(days=1, hours=2, minutes=3),
}


def test_a_correlation_filter_keeps_its_typed_properties(administration, topic, subscription):
    given = {
        "correlation_id": "c",
        "message_id": "m",
        "to": "t",
        "reply_to": "r",
        "label": "l",
        "session_id": "s",
        "reply_to_session_id": "rs",
        "content_type": "ct",
    }
    administration.create_rule(topic, subscription, "typed", filter=CorrelationRuleFilter(properties=VALUES, **given))

    kept = administration.get_rule(topic, subscription, "typed").filter

    assert isinstance(kept, CorrelationRuleFilter)
    assert {name: getattr(kept, name) for name in given} == given
    assert dict(kept.properties) == VALUES
    assert {name: type(value) for name, value in kept.properties.items()} == {
        name: type(value) for name, value in VALUES.items()
    }


def test_sql_filters_and_actions_keep_their_parameters(administration, topic, subscription):
    parameters = {f"@{name}": value for name, value in VALUES.items()}
    administration.create_rule(
        topic,
        subscription,
        "sql",
        filter=SqlRuleFilter("color = @key_string AND size < @key_int", parameters=parameters),
        action=SqlRuleAction("SET priority = @key_datetime", parameters=parameters),
    )

    rule = administration.get_rule(topic, subscription, "sql")

    assert type(rule.filter) is SqlRuleFilter
    assert rule.filter.sql_expression == "color = @key_string AND size < @key_int"
    assert dict(rule.filter.parameters) == parameters
    assert rule.action.sql_expression == "SET priority = @key_datetime"
    assert dict(rule.action.parameters) == parameters
    assert rule.created_at_utc is not None


def test_a_rule_is_updated_listed_and_deleted(administration, topic, subscription):
    administration.create_rule(topic, subscription, "rule", filter=FalseRuleFilter())
    rule = administration.get_rule(topic, subscription, "rule")
    assert isinstance(rule.filter, FalseRuleFilter)

    rule.filter = CorrelationRuleFilter(correlation_id="x")
    rule.action = SqlRuleAction("SET a = 1")
    administration.update_rule(topic, subscription, rule)
    rule = administration.get_rule(topic, subscription, "rule")
    assert rule.filter.correlation_id == "x"
    assert rule.action.sql_expression == "SET a = 1"
    administration.update_rule(topic, subscription, rule, action=None)
    assert administration.get_rule(topic, subscription, "rule").action is None

    assert [each.name for each in administration.list_rules(topic, subscription, max_page_size=1)] == [
        "$Default",
        "rule",
    ]
    administration.delete_rule(topic, subscription, "$Default")
    administration.delete_rule(topic, subscription, "rule")
    assert list(administration.list_rules(topic, subscription)) == []


def test_unknown_rules_are_not_found_and_known_ones_exist(administration, topic, subscription):
    with pytest.raises(ResourceNotFoundError):
        administration.get_rule(topic, subscription, "rule")
    with pytest.raises(ResourceNotFoundError):
        administration.delete_rule(topic, subscription, "rule")
    rule = administration.create_rule(topic, subscription, "rule")
    with pytest.raises(ResourceExistsError):
        administration.create_rule(topic, subscription, "RULE")
    rule.name = "unknown"
    with pytest.raises(ResourceNotFoundError):
        administration.update_rule(topic, subscription, rule)


@pytest.mark.parametrize(
    "rule",
    [
        {"filter": SqlRuleFilter("color = ")},
        {"filter": SqlRuleFilter("color = @missing")},
        {"filter": SqlRuleFilter("")},
        {"filter": SqlRuleFilter("sys.Nothing = 1")},
        {"filter": SqlRuleFilter("a = '" + "x" * 1024 + "'")},
        {"filter": CorrelationRuleFilter()},
        {"action": SqlRuleAction("SET color")},
        {"action": SqlRuleAction("SET sys.SequenceNumber = 1")},
    ],
)
def test_a_rule_that_cannot_be_understood_is_refused(administration, topic, subscription, rule):
    with pytest.raises(HttpResponseError) as refused:
        administration.create_rule(topic, subscription, "rule", **rule)
    assert refused.value.status_code == 400
    assert len(list(administration.list_rules(topic, subscription))) == 1
