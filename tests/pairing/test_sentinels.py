"""Clients follow the master that Sentinels name (docs/production.md, Redis)."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import redis
from kombu import Consumer, Exchange, Producer, Queue
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from pairing.fleet.coordination import RedisCoordination, SharedHealth, SharedState
from pairing.fleet.redis_url import NamedRedis, Sentinels, async_client_of, client_of
from tests import sentinels
from workers.broker import PersistentConnection, broker_url

pytestmark = pytest.mark.slow

URL = "redis+sentinel://:secret@h1,h2:1,[::1]:2/master/3?sentinel_password=other&health_check_interval=3"


def test_a_url_names_the_sentinels_the_master_and_the_database():
    found = Sentinels.from_url(URL)

    assert found.addresses == (("h1", 26379), ("h2", 1), ("::1", 2))
    assert (found.master, found.of_servers["db"], found.of_servers["password"]) == ("master", 3, "secret")
    assert found.of_servers["health_check_interval"] == 3
    assert found.of_sentinels == {"password": "other"}


@pytest.mark.parametrize(
    ("scheme", "kind"), [("redis", SentinelManagedConnection), ("rediss", SentinelManagedSSLConnection)]
)
def test_servers_and_sentinels_are_asked_over_tls_together(scheme, kind):
    client = client_of(f"{scheme}+sentinel://h/master?ssl_ca_certs=/ca.pem" if scheme == "rediss" else URL)
    pool = client.connection_pool

    assert isinstance(client, NamedRedis)
    assert type(pool.make_connection()) is kind
    asked = pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs
    assert asked.get("ssl_ca_certs") == ("/ca.pem" if scheme == "rediss" else None)


@pytest.mark.parametrize(
    "url", ["redis+sentinel://h", "redis+sentinel://h/master/zero", "redis+sentinel://,h/m", "redis+sentinel://h:x/m"]
)
def test_an_incomplete_url_is_refused_without_its_password(url):
    with pytest.raises(ValueError, match=r"path|host|cast|port") as refused:
        Sentinels.from_url(url.replace("://", "://:secret@"))
    assert "secret" not in str(refused.value)


@pytest.fixture(scope="module", params=["redis", "rediss"])
def replicated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sentinels.Sentinels]:
    """Without TLS, and with nothing else."""
    if request.param == "rediss" and not sentinels.tls_is_built_in():
        pytest.skip("this redis-server was built without TLS")
    running = sentinels.Sentinels(tmp_path_factory.mktemp("sentinels"), tls=request.param == "rediss")
    yield running
    running.end()


def reconciles(one: RedisCoordination) -> bool:
    """As its thread does, again after each error."""
    try:
        one._reconcile()
    except redis.RedisError as error:
        one._cut_off(error)
        return False
    return True


def test_a_process_goes_on_with_the_promoted_replica_and_reports_what_it_lacks(replicated):
    """The failover of the entity is taken off the replica, as if it had not arrived there before the master died."""
    one = RedisCoordination(replicated.url, "contoso", "one")
    shared = SharedState(client_of(replicated.url, decode_responses=True), "contoso")
    _, news = one._threads
    news.start()
    replicated.until(lambda: one._must_compare, "it listens")
    one._reconcile()
    one.publish(SharedHealth("orders", "failed_over", datetime.now(UTC), "r", None, None, "organic", 0, "one"))
    one._report_all()
    known = shared.health_of("orders")
    assert not one._must_compare

    replicated.fail_over()
    with replicated.client(replicated.master()) as promoted:
        promoted.hdel("pairing:{contoso}:health", "orders")
    replicated.until(lambda: one._must_compare, "it has noticed that the master is gone")
    replicated.until(lambda: reconciles(one), "the promoted replica answers")

    assert known is not None
    assert shared.health_of("orders") == known
    one.close()


def test_live_pages_listen_to_the_master(replicated):
    async def ping() -> bool:
        async with async_client_of(replicated.url) as client:
            return bool(await client.ping())

    assert asyncio.run(ping())


def test_workers_take_their_tasks_from_the_master(replicated, settings):
    settings.REDIS_URL = replicated.url
    queue, taken = Queue("tasks-of-a-test", Exchange("tests"), routing_key="tasks"), []
    with PersistentConnection(broker_url(replicated.url)) as connection:
        Producer(connection, queue.exchange, queue.routing_key).publish("work", declare=[queue])
        with Consumer(connection, [queue], callbacks=[lambda body, message: (taken.append(body), message.ack())]):
            connection.drain_events(timeout=60)

    assert taken == ["work"]
