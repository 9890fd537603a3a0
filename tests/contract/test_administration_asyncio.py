"""The administration through the SDK's asyncio client (docs/wire.md, section 10)."""

from datetime import timedelta
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError

pytestmark = pytest.mark.contract


async def test_a_queue_is_created_read_changed_listed_and_deleted(async_administration):
    name = f"contract/{uuid4().hex}"
    async with async_administration() as client:
        created = await client.create_queue(name, max_delivery_count=3)
        assert created.max_delivery_count == 3

        created.lock_duration = timedelta(seconds=30)
        await client.update_queue(created)
        assert (await client.get_queue(name)).lock_duration == timedelta(seconds=30)
        assert (await client.get_queue_runtime_properties(name)).total_message_count == 0
        assert name in [queue.name async for queue in client.list_queues(max_page_size=2)]

        await client.delete_queue(name)
        with pytest.raises(ResourceNotFoundError):
            await client.get_queue(name)


async def test_refusals_are_the_same_as_in_the_blocking_client(async_administration):
    name = f"contract/{uuid4().hex}"
    async with async_administration() as client:
        await client.create_queue(name)
        with pytest.raises(ResourceExistsError):
            await client.create_queue(name)
        await client.delete_queue(name)
        with pytest.raises(HttpResponseError) as refused:
            await client.create_queue(name, lock_duration=timedelta(minutes=6))
        assert refused.value.status_code == 400
