"""What a soak reads of a demo: its processes by name, the elements of its keys, the rows of its tables."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import redis

from dashboard.demo import programs
from dashboard.demo.stage import DemoOptions, Stage
from dashboard.models import FailoverEvent
from tests.campaign import sampling


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(DemoOptions(port=8000, seconds=None, folder=tmp_path, password="", has_history=False))


def test_every_process_that_stays_has_a_name_of_its_own_and_what_ends_by_itself_none(stage: Stage) -> None:
    started = [programs.web(stage), programs.beat(stage), programs.namespaces(stage, "key")]
    started += [programs.worker(stage, 1), programs.worker(stage, 2)]
    assert [sampling.name_of(" ".join(one.argv)) for one in started] == [one.name for one in started]
    assert sampling.name_of(" ".join(programs.sender(stage, 1).argv)) == "sender"
    assert sampling.name_of(" ".join(programs.receiver(stage, 1).argv)) == "receiver"
    assert sampling.name_of(" ".join(programs.database(stage).argv)) is None
    assert sampling.name_of(" ".join(programs.charges(stage).argv)) is None


def test_a_descriptor_and_a_socket_more_are_counted(redis_url: str) -> None:
    before = sampling.of_processes({"us": os.getpid()})
    with open(os.devnull) as _, redis.Redis.from_url(redis_url) as another:
        another.ping()
        after = sampling.of_processes({"us": os.getpid()})
    assert after["descriptors: us"] >= before["descriptors: us"] + 2
    assert after["connections: us"] >= before["connections: us"] + 1
    assert after["threads: us"] >= 1
    assert after["memory (MiB): us"] > 10
    assert sampling.of_processes({"gone": 2**22 + 1}) == {}


def test_the_files_of_a_database_are_counted_apart(tmp_path: Path) -> None:
    """While another connection has a lock, SQLite keeps the file of a closed one, and uses it for the next one."""
    before = sampling.of_processes({"us": os.getpid()})
    name = tmp_path / "control-plane.sqlite3"
    with closing(sqlite3.connect(name)) as one:
        one.execute("create table t (n)")
        one.execute("begin exclusive")
        for _ in range(5):
            sqlite3.connect(name).close()
        after = sampling.of_processes({"us": os.getpid()})
    assert after["database files: us"] == before["database files: us"] + 2
    assert sampling.of_processes({"us": os.getpid()})["database files: us"] == before["database files: us"]


def test_elements_are_counted_by_kind_of_key(redis_client: redis.Redis, redis_url: str) -> None:
    redis_client.hset("pairing:{contoso}:health", mapping={"orders": "1", "payments": "2"})
    redis_client.xadd("pairing:events", {"a": "b"})
    redis_client.set("lease:0123456789abcdef", "x")
    redis_client.set("lease:fedcba9876543210", "x")
    with redis.Redis.from_url(redis_url) as reader:
        found = sampling.of_redis(reader)
    assert found["keys"] == 4
    assert found["elements: pairing:{contoso}:health"] == 2
    assert found["elements: pairing:events"] == 1
    assert found["elements: lease:*"] == 2


def test_rows_are_counted_by_model(tmp_path: Path) -> None:
    file = tmp_path / "database.sqlite3"
    with closing(sqlite3.connect(file)) as writer, writer:
        writer.execute(f'create table "{FailoverEvent._meta.db_table}" (id integer)')
        writer.execute(f'insert into "{FailoverEvent._meta.db_table}" values (1), (2)')
    assert sampling.of_database(file) == {"rows: FailoverEvent": 2.0}
