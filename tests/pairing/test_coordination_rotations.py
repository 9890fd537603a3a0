"""Which backlog queues the processes of a fleet use: what any of them reports is no orphan.

docs/specification.md, section 12.
"""

import time

import pytest
import redis

from pairing.fleet.coordination import RedisCoordination, SharedState

QUEUES = ["contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1"]


@pytest.fixture
def shared(redis_client: redis.Redis) -> SharedState:
    return SharedState(redis_client, "contoso")


def test_a_process_s_rotation_is_known_to_others(shared: SharedState) -> None:
    shared.report_rotation("host:1:aaaa", QUEUES)

    assert shared.rotations() == {"host:1:aaaa": QUEUES}


def test_a_process_that_has_fallen_silent_uses_nothing(shared: SharedState, redis_client: redis.Redis) -> None:
    shared.report_rotation("host:1:aaaa", QUEUES)

    assert shared.rotations(within_s=-1) == {}


def test_a_process_silent_for_an_hour_is_forgotten(shared: SharedState, redis_client: redis.Redis) -> None:
    redis_client.hset("pairing:{contoso}:rotations", "host:0:dead", '{"at": 1000, "paths": []}')

    shared.report_rotation("host:1:aaaa", QUEUES)

    assert shared.rotations() == {"host:1:aaaa": QUEUES}
    assert redis_client.hkeys("pairing:{contoso}:rotations") == ["host:1:aaaa"]


def test_to_report_a_rotation_costs_the_same_however_many_processes_reported_theirs(shared, redis_client) -> None:
    redis_client.hset("pairing:{contoso}:rotations", mapping={f"host:{n}:aaaa": "what is not read" for n in range(100)})

    shared.report_rotation("host:1:bbbb", QUEUES)

    assert redis_client.hlen("pairing:{contoso}:rotations") == 101


def test_a_client_s_coordination_reports_its_rotation_by_itself(shared: SharedState, redis_url: str) -> None:
    coordination = RedisCoordination(redis_url, "contoso", "host:1:aaaa")
    coordination.rotation = lambda: QUEUES
    coordination.start(lambda change: None)
    try:
        deadline = time.monotonic() + 60
        while "host:1:aaaa" not in shared.rotations() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert shared.rotations() == {"host:1:aaaa": QUEUES}
    finally:
        coordination.close()
