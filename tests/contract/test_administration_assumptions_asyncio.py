"""Changing and listing what a namespace has, through the SDK's asyncio client."""

from datetime import timedelta
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter, TrueRuleFilter

pytestmark = pytest.mark.contract

TIMES = {"auto_delete_on_idle": timedelta(minutes=10), "default_message_time_to_live": timedelta(minutes=11)}


@pytest.fixture
async def client(async_administration):
    async with async_administration() as client:
        yield client


@pytest.fixture
async def topic(client):
    name = f"contract/{uuid4().hex}"
    yield await client.create_topic(name)
    await client.delete_topic(name)


@pytest.fixture
async def queue(client):
    name = f"contract/{uuid4().hex}"
    yield await client.create_queue(name)
    await client.delete_queue(name)


async def refused(call):
    with pytest.raises(HttpResponseError) as error:
        await call
    return error.value.status_code


@pytest.mark.parametrize("kind", ["properties", "dictionary", "keywords"])
async def test_a_queue_is_changed_by_its_properties_a_dictionary_or_keywords(client, queue, kind):
    changes = TIMES | {
        "dead_lettering_on_message_expiration": True,
        "duplicate_detection_history_time_window": timedelta(minutes=12),
        "enable_express": True,
        "lock_duration": timedelta(seconds=13),
        "max_delivery_count": 14,
        "max_size_in_megabytes": 3072,
        "forward_to": queue.name,
        "forward_dead_lettered_messages_to": queue.name,
    }
    if kind == "properties":
        for name, value in changes.items():
            setattr(queue, name, value)
        await client.update_queue(queue)
    elif kind == "dictionary":
        await client.update_queue(dict(queue) | changes)
    else:
        await client.update_queue(queue, **changes)
    changed = dict(await client.get_queue(queue.name))
    for name, value in changes.items():
        assert changed[name] == value or changed[name].endswith(f"/{value}"), name


async def test_a_wrong_change_of_a_queue_is_refused(client, queue):
    for nothing in (None, Exception("no queue"), {"name": queue.name}):
        with pytest.raises(TypeError):
            await client.update_queue(nothing)
    assert await refused(client.update_queue(dict(queue) | {"requires_session": True})) == 400
    assert await refused(client.update_queue(dict(queue) | {"lock_duration": timedelta(days=25)})) == 400
    assert await refused(client.update_queue(dict(queue) | {"name": uuid4().hex})) == 404
    with pytest.raises(ResourceNotFoundError):
        await client.delete_queue(uuid4().hex)
    with pytest.raises(ResourceNotFoundError):
        await client.get_queue_runtime_properties(uuid4().hex)


async def test_a_queue_is_listed_with_its_empty_counts(client, queue):
    [info] = [each async for each in client.list_queues_runtime_properties() if each.name == queue.name]
    assert None not in (info.created_at_utc, info.accessed_at_utc, info.updated_at_utc)
    assert (info.size_in_bytes, info.total_message_count, info.scheduled_message_count) == (0, 0, 0)


async def test_a_topic_is_changed_listed_and_held_to_its_limits(client, topic):
    with pytest.raises(ResourceExistsError):
        await client.create_topic(topic.name)
    changes = TIMES | {"enable_express": True, "max_size_in_megabytes": 3072, "support_ordering": True}
    await client.update_topic(dict(topic) | changes)
    changed = await client.get_topic(topic.name)
    assert {name: changed[name] for name in changes} == changes
    await client.update_topic(changed, auto_delete_on_idle="PT10M1S", support_ordering=False)
    changed = await client.get_topic(topic.name)
    assert (changed.auto_delete_on_idle, changed.support_ordering) == (timedelta(minutes=10, seconds=1), False)
    window = {"duplicate_detection_history_time_window": timedelta(days=25)}
    assert await refused(client.update_topic(dict(changed) | window)) == 400
    assert await refused(client.create_topic(uuid4().hex, max_message_size_in_kilobytes=1024)) == 400
    [info] = [each async for each in client.list_topics_runtime_properties() if each.name == topic.name]
    assert (info.subscription_count, info.size_in_bytes, info.scheduled_message_count) == (0, 0, 0)


async def test_a_subscription_is_changed_listed_and_deleted(client, topic):
    subscription = await client.create_subscription(topic.name, "b")
    await client.create_subscription(topic.name, "a")
    with pytest.raises(ResourceExistsError):
        await client.create_subscription(topic.name, "a")
    changes = TIMES | {"lock_duration": timedelta(seconds=12), "max_delivery_count": 14}
    await client.update_subscription(topic.name, dict(subscription) | changes)
    changed = await client.get_subscription(topic.name, "b")
    assert {name: changed[name] for name in changes} == changes
    assert await refused(client.update_subscription(topic.name, changed, lock_duration=timedelta(days=25))) == 400
    assert await refused(client.update_subscription(topic.name, dict(changed) | {"name": "c"})) == 404
    assert [each.name async for each in client.list_subscriptions(topic.name)] == ["a", "b"]
    await client.delete_subscription(topic.name, "a")
    [info] = [each async for each in client.list_subscriptions_runtime_properties(topic.name)]
    assert (info.name, info.total_message_count, info.dead_letter_message_count) == ("b", 0, 0)


async def test_a_rule_is_made_changed_listed_and_deleted(client, topic):
    place = (topic.name, "s")
    await client.create_subscription(*place)
    await client.create_rule(*place, "one", filter=SqlRuleFilter("color = @c", parameters={"@c": "red"}))
    await client.create_rule(*place, "two")
    with pytest.raises(ResourceExistsError):
        await client.create_rule(*place, "two")
    one, two = await client.get_rule(*place, "one"), await client.get_rule(*place, "two")
    assert (one.filter.sql_expression, one.filter.parameters) == ("color = @c", {"@c": "red"})
    assert isinstance(two.filter, TrueRuleFilter)
    one.filter, one.action = CorrelationRuleFilter(correlation_id="cid"), SqlRuleAction("SET color = 'blue'")
    await client.update_rule(*place, dict(one))
    one = await client.get_rule(*place, "one")
    assert (one.filter.correlation_id, one.action.sql_expression) == ("cid", "SET color = 'blue'")
    assert await refused(client.update_rule(*place, dict(one) | {"name": "three"})) == 404
    assert [rule.name async for rule in client.list_rules(*place)] == ["$Default", "one", "two"]
    await client.delete_rule(*place, "one")
    with pytest.raises(ResourceNotFoundError):
        await client.get_rule(*place, "one")


async def test_the_namespace_shows_its_tier(client):
    properties = await client.get_namespace_properties()
    assert (properties.messaging_sku, properties.namespace_type) == ("Standard", "Messaging")
    assert properties.name
