"""Workers know what is failed over without reading it again and again (docs/specification.md, section 7)."""

import redis

from pairing.fleet.coordination import SharedState
from workers import pingers


def test_an_entity_is_watched_while_it_is_failed_over(fleet: redis.Redis) -> None:
    shared = SharedState(fleet, "contoso")
    assert pingers.away("contoso") == set()
    for path in ("orders", "payments"):
        shared.fail_over(path, "drill", operator="ada", process="web")
    assert pingers.away("contoso") == {"orders", "payments"}
    shared.mark_healthy("orders", operator="ada", process="web")
    assert pingers.away("contoso") == {"payments"}


def test_a_redis_that_has_forgotten_has_nothing_failed_over(fleet: redis.Redis) -> None:
    SharedState(fleet, "contoso").fail_over("orders", "drill", operator="ada", process="web")
    assert pingers.away("contoso") == {"orders"}
    fleet.flushall()
    assert pingers.away("contoso") == set()
