"""What users of the SDK take for granted when they change topics, subscriptions and rules."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.servicebus.management import (
    ApiVersion,
    CorrelationRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

pytestmark = pytest.mark.contract


@pytest.fixture
def topic(administration) -> Iterator[str]:
    name = f"contract/{uuid4().hex}"
    administration.create_topic(name)
    yield name
    with suppress(ResourceNotFoundError):
        administration.delete_topic(name)


@pytest.fixture
def target(administration) -> Iterator[str]:
    name = f"contract/{uuid4().hex}"
    administration.create_queue(name)
    yield name
    administration.delete_queue(name)


@pytest.fixture
def subscription(administration, topic) -> str:
    return administration.create_subscription(topic, "audit").name


# --- topics ---------------------------------------------------------------------------------------------------------


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


def test_a_topic_may_be_updated_from_its_dictionary_and_with_durations_as_text(administration, topic):
    described = dict(administration.get_topic(topic))
    described |= {"auto_delete_on_idle": "PT10M1S", "default_message_time_to_live": "PT11M2S"}
    described |= {"duplicate_detection_history_time_window": "PT12M3S", "enable_express": True}

    administration.update_topic(described, max_size_in_megabytes=2048, support_ordering=False)

    changed = administration.get_topic(topic)
    assert changed.auto_delete_on_idle == timedelta(minutes=10, seconds=1)
    assert changed.default_message_time_to_live == timedelta(minutes=11, seconds=2)
    assert changed.duplicate_detection_history_time_window == timedelta(minutes=12, seconds=3)
    assert (changed.enable_express, changed.max_size_in_megabytes, changed.support_ordering) == (True, 2048, False)


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

    for name in others:
        administration.delete_topic(name)
    assert names == wanted
    assert [each.name for each in runtimes] == wanted
    assert all(None not in (each.created_at_utc, each.accessed_at_utc, each.updated_at_utc) for each in runtimes)
    assert all((each.subscription_count, each.scheduled_message_count) == (0, 0) for each in runtimes)


def test_the_oldest_version_creates_lists_and_deletes_topics(administration_with):
    oldest = administration_with(api_version=ApiVersion.V2017_04)
    name = f"contract/{uuid4().hex}"

    oldest.create_topic(name)

    assert oldest.get_topic(name).name == name
    assert name in [each.name for each in oldest.list_topics()]
    oldest.delete_topic(name)
    assert name not in [each.name for each in oldest.list_topics()]


# --- subscriptions --------------------------------------------------------------------------------------------------


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


def test_a_subscription_may_be_updated_from_its_dictionary(administration, topic, subscription):
    described = dict(administration.get_subscription(topic, subscription))
    described |= {"lock_duration": "PT3M3S", "max_delivery_count": 14, "dead_lettering_on_message_expiration": True}

    administration.update_subscription(topic, described, default_message_time_to_live=timedelta(minutes=16))

    changed = administration.get_subscription(topic, subscription)
    assert changed.lock_duration == timedelta(minutes=3, seconds=3)
    assert changed.default_message_time_to_live == timedelta(minutes=16)
    assert (changed.max_delivery_count, changed.dead_lettering_on_message_expiration) == (14, True)


# --- rules ----------------------------------------------------------------------------------------------------------


def test_rules_are_listed_by_name(administration, topic, subscription):
    for priority in ("middle", "low", "high"):
        administration.create_rule(topic, subscription, priority, filter=SqlRuleFilter(f"Priority = '{priority}'"))
    assert [rule.name for rule in administration.list_rules(topic, subscription)] == [
        "$Default",
        "high",
        "low",
        "middle",
    ]


def test_a_rule_without_a_filter_takes_everything(administration, topic, subscription):
    administration.create_rule(topic, subscription, "all")
    assert type(administration.get_rule(topic, subscription, "all").filter) is TrueRuleFilter


def test_a_filter_may_become_one_of_another_kind_and_its_action_go(administration, topic, subscription):
    administration.create_rule(topic, subscription, "rule", filter=SqlRuleFilter("Priority = 'low'"))
    described = dict(administration.get_rule(topic, subscription, "rule"))
    described |= {
        "filter": CorrelationRuleFilter(correlation_id="first"),
        "action": SqlRuleAction("SET Priority = @when", parameters={"@when": datetime(2020, 7, 5, 11, 12, 13)}),
    }

    administration.update_rule(topic, subscription, described)

    rule = administration.get_rule(topic, subscription, "rule")
    assert type(rule.filter) is CorrelationRuleFilter
    assert dict(rule.action.parameters) == {"@when": datetime(2020, 7, 5, 11, 12, 13)}
    administration.update_rule(
        topic, subscription, dict(rule), filter=CorrelationRuleFilter(correlation_id="second"), action=None
    )
    rule = administration.get_rule(topic, subscription, "rule")
    assert (rule.filter.correlation_id, rule.action) == ("second", None)
