"""Topics through the SDK's asyncio clients."""

from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction

pytestmark = pytest.mark.contract


async def test_a_topic_is_made_filtered_sent_to_received_from_and_deleted(connection_string, async_administration):
    topic = f"contract/{uuid4().hex}"
    async with async_administration() as administration:
        await administration.create_topic(topic)
        await administration.create_subscription(topic, "red")
        await administration.delete_rule(topic, "red", "$Default")
        await administration.create_rule(
            topic, "red", "rule", filter=CorrelationRuleFilter(label="red"), action=SqlRuleAction("SET seen = TRUE")
        )
        assert [rule.name async for rule in administration.list_rules(topic, "red")] == ["rule"]

        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
            async with client.get_topic_sender(topic) as sender:
                await sender.send_messages([ServiceBusMessage(label, subject=label) for label in ("red", "blue")])
            async with client.get_subscription_receiver(topic, "red", receive_mode=mode) as receiver:
                [message] = await receiver.receive_messages(max_message_count=2, max_wait_time=60)
        assert str(message) == "red"
        assert message.application_properties == {b"seen": True, b"RuleName": b"rule"}

        runtime = await administration.get_subscription_runtime_properties(topic, "red")
        assert runtime.total_message_count == 0
        assert [each.name async for each in administration.list_subscriptions(topic)] == ["red"]
        await administration.delete_topic(topic)
        assert topic not in [each.name async for each in administration.list_topics()]
