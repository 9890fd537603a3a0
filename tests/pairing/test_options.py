"""docs/specification.md, section 3; docs/contract.md, section 2: options check themselves when built."""

from datetime import timedelta

import pytest

from pairing import SendAvailabilityOptions, classify

DEFAULTS = {
    "backlog_queue_count": 10,
    "failover_interval": timedelta(minutes=1),
    "ping_primary_interval": timedelta(minutes=1),
    "enable_syphon": False,
    "syphon_retry_interval": timedelta(seconds=1),
    "ping_timeout": timedelta(minutes=2),
    "close_grace": timedelta(seconds=5),
    "send_timeout": timedelta(seconds=30),
    "creation_retry_interval": timedelta(seconds=30),
    "backlog_probation": timedelta(minutes=1),
    "require_headroom": True,
    "require_secondary": True,
    "ttl_policy": "restore",
    "max_restore_attempts": 10,
    "flap_damping": True,
    "server_busy": "raise",
    "coordination": None,
    "primary_namespace": None,
    "classify": None,
}


def test_defaults():
    assert {name: getattr(SendAvailabilityOptions(), name) for name in DEFAULTS} == DEFAULTS


async def not_awaited(error, *, known):
    """A rule that nothing would await."""


MINUTE, SECOND, ZERO = timedelta(minutes=1), timedelta(seconds=1), timedelta(0)
ACCEPTED = [
    ("failover_interval", ZERO),
    ("failover_interval", 60 * MINUTE),
    ("ping_primary_interval", SECOND),
    ("ping_primary_interval", 30 * MINUTE),
    ("syphon_retry_interval", SECOND),
    ("syphon_retry_interval", 2 * MINUTE),
    ("backlog_queue_count", 1),
    ("creation_retry_interval", ZERO),
    ("max_rate", 0.5),
    ("ttl_policy", "remaining"),
    ("server_busy", "wait"),
    ("coordination", "redis://localhost/0"),
    ("primary_namespace", "contoso"),
    ("classify", classify),
    ("classify", max),  # does not show its arguments
]


@pytest.mark.parametrize(("name", "value"), ACCEPTED, ids=[f"{n}={getattr(v, '__name__', v)}" for n, v in ACCEPTED])
def test_accepted_at_the_bounds(name, value):
    assert getattr(SendAvailabilityOptions(**{name: value}), name) == value


REFUSED = [
    ("backlog_queue_count", 0),
    ("backlog_queue_count", -3),
    ("backlog_queue_count", 1.5),
    ("backlog_queue_count", True),
    ("failover_interval", -SECOND),
    ("failover_interval", 60 * MINUTE + SECOND),
    ("failover_interval", 60),
    ("ping_primary_interval", SECOND / 2),
    ("ping_primary_interval", 31 * MINUTE),
    ("syphon_retry_interval", SECOND / 2),
    ("syphon_retry_interval", 3 * MINUTE),
    ("send_timeout", ZERO),
    ("ping_timeout", ZERO),
    ("creation_retry_interval", -SECOND),
    ("backlog_probation", ZERO),
    ("close_grace", -SECOND),
    ("max_restore_attempts", 0),
    ("max_rate", 0),
    ("max_rate", -1.0),
    ("ttl_policy", "drop"),
    ("server_busy", ["wait"]),
    ("enable_syphon", "yes"),
    ("flap_damping", 1),
    ("primary_namespace", ""),
    ("pair", " contoso"),
    ("classify", "mine"),
    ("classify", lambda error: None),
    ("classify", not_awaited),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=[f"{n}={getattr(v, '__name__', v)}" for n, v in REFUSED])
def test_a_wrong_value_is_named_with_its_option(name, value):
    with pytest.raises(ValueError, match=name) as refused:
        SendAvailabilityOptions(**{name: value})
    assert repr(value) in str(refused.value)


def test_the_password_of_redis_is_neither_shown_nor_repeated_in_an_error():
    assert "s3cret" not in repr(SendAvailabilityOptions(coordination="redis://:s3cret@host/0"))
    with pytest.raises(ValueError, match="coordination") as refused:
        SendAvailabilityOptions(coordination="http://:s3cret@host/0")
    assert "s3cret" not in str(refused.value)
