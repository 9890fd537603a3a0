"""A worker keeps a Spark session between two computations of charges (docs/costs.md, "A session kept warm")."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dashboard.costs.jobs import JobFailed, run_job
from dashboard.costs.warm_session import SOCKET, run_warm
from pipeline.jobs import warm
from pipeline.jobs.warm import HUNG_UP, WarmSession
from pipeline.schemas import USAGE
from pipeline.spark import FOR_LITTLE_DATA, LOCAL_DEFAULTS, OF_LOCAL_FILES, is_enough_for
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, record
from tests.selection import is_nightly
from workers.warm_session import SessionKeeper

pytestmark = pytest.mark.timeout(300)
LONG = 3600.0


@pytest.fixture
def keeper() -> Iterator[SessionKeeper]:
    found = SessionKeeper(LONG)
    yield found
    found.close()


@pytest.fixture
def usage(tmp_path: Path) -> Path:
    add(tmp_path, "1", units=7)
    return tmp_path


def add(folder: Path, name: str, **fields: Any) -> None:
    write_table(
        folder / "usage" / "date=2026-10-01" / f"{name}.parquet", [record(name, OCTOBER.start, **fields)], USAGE
    )


def job(folder: Path, result: str, *more: str) -> list[str]:
    return ["--month", "2026-10", "--usage", str(folder), "--result", str(folder / result), *more]


def records(folder: Path, result: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / result).read_text(encoding="utf-8").splitlines()]


def operations(folder: Path, result: str) -> int:
    return sum(each["operations"] for each in records(folder, result) if each["record"] == "day")


@pytest.mark.spark
def test_the_next_job_finds_the_session_of_the_first_and_computes_the_same(
    kept_session: SessionKeeper, usage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []

    def kept(result: str, *more: str) -> bool:
        with kept_session.session() as variables:
            monkeypatch.setenv(SOCKET, variables[SOCKET])
            return run_warm(job(usage, result, *more), lambda said: stages.append(said["stage"]))

    assert kept("first.jsonl")
    process = kept_session._process
    add(usage, "2", units=70)
    assert kept("second.jsonl")
    with pytest.raises(JobFailed, match="--hours-in-month must be more than 0"):
        kept("none.jsonl", "--hours-in-month", "0")
    assert kept_session._process is process
    assert [operations(usage, f"{n}.jsonl") for n in ("first", "second")] == [14, 154]
    assert stages.count("pricing") == 2
    if is_nightly():
        run_job("pipeline.jobs.charges", job(usage, "cold.jsonl"), lambda said: None)
        assert records(usage, "second.jsonl") == records(usage, "cold.jsonl")


def test_while_a_job_uses_the_session_another_one_runs_by_itself(keeper: SessionKeeper) -> None:
    with keeper.session() as first, keeper.session() as second:
        assert set(first) == {SOCKET}
        assert second == {}
    with SessionKeeper(0).session() as none:
        assert none == {}


def test_who_hangs_up_ends_the_job_and_the_next_one_gets_a_new_session(keeper: SessionKeeper, usage: Path) -> None:
    with keeper.session() as variables:
        process = keeper._process
        assert process is not None
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(variables[SOCKET])
            client.sendall(json.dumps(job(usage, "result.jsonl")).encode() + b"\n")
        assert process.wait(60) == HUNG_UP
    with keeper.session():
        assert keeper._process is not process


def test_a_session_that_is_killed_in_the_middle_of_a_job_leaves_it_to_another_process(
    keeper: SessionKeeper, usage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []

    def kill(said: dict[str, Any]) -> None:
        stages.append(said["stage"])
        assert keeper._process is not None
        keeper._process.kill()

    with keeper.session() as variables:
        monkeypatch.setenv(SOCKET, variables[SOCKET])
        assert not run_warm(job(usage, "result.jsonl"), kill)
    assert stages
    assert not (usage / "result.jsonl").exists()


def test_where_no_session_can_be_kept_the_job_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 40)  # a socket there would have too long an address
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with closing(SessionKeeper(LONG)) as keeper, keeper.session() as variables:
        assert variables == {}


def test_a_session_that_a_job_needs_more_than_ends_so_that_the_next_is_larger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, usage: Path
) -> None:
    small = WarmSession()
    small.session, small.built_with = cast("Any", object()), FOR_LITTLE_DATA
    monkeypatch.setattr(warm, "WarmSession", lambda: small)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as process:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        monkeypatch.setenv(SOCKET, str(tmp_path / "socket"))
        serving = process.submit(warm.serve, listener, LONG)
        of_unknown_size = f"file://{usage}"
        assert not run_warm([*job(usage, "result.jsonl"), "--usage", of_unknown_size], lambda said: None)
        serving.result(60)


def test_a_client_that_says_nothing_or_nonsense_keeps_no_other_from_its_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, usage: Path
) -> None:
    monkeypatch.setattr(warm, "SILENT_S", 0.1)
    small = WarmSession()
    small.session, small.built_with = cast("Any", object()), FOR_LITTLE_DATA
    monkeypatch.setattr(warm, "WarmSession", lambda: small)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as process:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        monkeypatch.setenv(SOCKET, str(tmp_path / "socket"))
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(tmp_path / "socket"))
            serving = process.submit(warm.serve, listener, LONG)
            with pytest.raises(JobFailed, match="--hours-in-month must be more than 0"):
                run_warm([*job(usage, "none.jsonl"), "--hours-in-month", "0"], lambda said: None)
            assert silent.recv(1) == b"", "it was hung up on"
        for nonsense in (b"not JSON\n", b"5\n", b"\xff\n"):
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(str(tmp_path / "socket"))
                other.sendall(nonsense)
                assert other.recv(1) == b"", "it was hung up on"
        run_warm([*job(usage, "result.jsonl"), "--usage", f"file://{usage}"], lambda said: None)  # ends the process
        serving.result(60)


def test_a_large_job_finds_the_settings_of_the_session_again_after_a_little_one() -> None:
    settings: dict[str, str] = {}
    conf = SimpleNamespace(set=settings.__setitem__, unset=settings.pop)
    large = WarmSession()
    large.session, large.built_with = cast("Any", SimpleNamespace(conf=conf)), OF_LOCAL_FILES
    large._session_for(OF_LOCAL_FILES)
    of_large = dict(settings)
    large._session_for(OF_LOCAL_FILES | FOR_LITTLE_DATA)
    assert settings["spark.sql.shuffle.partitions"] == "1"
    large._session_for(OF_LOCAL_FILES)
    assert settings.pop("spark.sql.shuffle.partitions") == LOCAL_DEFAULTS["spark.sql.shuffle.partitions"]
    assert settings == of_large


def test_a_session_does_for_jobs_that_need_no_more_than_it_has() -> None:
    large: dict[str, str] = {}
    little_of_a_large_month = FOR_LITTLE_DATA | {"spark.driver.memory": "4g"}
    by_need = [FOR_LITTLE_DATA, little_of_a_large_month, large]
    enough = [[is_enough_for(kept, wanted, {}) for wanted in by_need] for kept in by_need]
    assert enough == [[True, False, False], [True, True, False], [True, True, True]]
    all_the_same = {"SPARK_DRIVER_MEMORY": "2048m"}
    enough = [[is_enough_for(kept, wanted, all_the_same) for wanted in by_need] for kept in by_need]
    assert enough == [[True, True, False], [True, True, False], [True, True, True]]


def test_the_session_ends_with_its_worker_and_when_nobody_needs_it(keeper: SessionKeeper) -> None:
    with keeper.session():
        process = keeper._process
    keeper.close()
    assert process is not None
    assert process.returncode == 3
    with closing(SessionKeeper(0.1)) as idle:
        with idle.session():
            process = idle._process
        assert process is not None
        assert process.wait(60) == 0


def test_without_a_session_the_job_runs_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    assert not run_warm(["--month", "2026-10"], lambda said: None)
    monkeypatch.setenv(SOCKET, str(tmp_path / "nobody"))
    assert not run_warm(["--month", "2026-10"], lambda said: None)


@pytest.mark.parametrize("answer", [b'{"cold": "the job needs more than this session has"}\n', b"", b'{"stage": "pri'])
def test_a_session_that_does_not_suit_or_ends_leaves_the_job_to_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as session:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        monkeypatch.setenv(SOCKET, str(tmp_path / "socket"))

        def give() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1024)
                client.sendall(answer)

        answered = session.submit(give)
        assert not run_warm(["--month", "2026-10"], lambda said: None)
        answered.result()
