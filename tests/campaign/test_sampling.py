"""What a soak reads of a demo: its processes by name, the elements of its keys, the rows of its tables."""

import os
from pathlib import Path

import pytest
import redis

from dashboard.demo import programs
from dashboard.demo.stage import DemoOptions, Stage
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
