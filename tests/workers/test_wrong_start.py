"""A process that cannot work says so in one sentence and ends by itself, before it loads what takes long."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.dashboard.served import _started

STRING = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=K;SharedAccessKey=V"
PAIRS = '[pairs.contoso]\nprimary = { connection_string_env = "ONE" }\nsecondary = { connection_string_env = "TWO" }\n'
LONG = {"dashboard.urls", "dashboard.api", "workers.syphons"}
"""Modules that take most of the time of a start, with what they import."""
LISTING = """
import atexit, runpy, sys
atexit.register(lambda: print("loaded:", *sys.modules, file=sys.stderr))
is_module = sys.argv[1] == "-m"
del sys.argv[:2 if is_module else 1]
(runpy.run_module if is_module else runpy.run_path)(sys.argv[0], run_name="__main__")
"""
"""Becomes the program that is named behind it, and says at its end what is loaded."""
WRONG = {"REDIS_URL": "http://redis.example", "DATABASE_URL": "mysql://database.example/n"}
PROGRAMS = {
    "web": ("manage.py", "web", "--port", "0"),
    "worker": ("manage.py", "worker"),
    "beat": ("manage.py", "beat"),
    "uvicorn": ("-m", "uvicorn", "dashboard.asgi:application", "--port", "0"),
    "celery worker": ("-m", "celery", "-A", "workers", "worker"),
    "celery beat": ("-m", "celery", "-A", "workers", "beat"),
}


def environment(folder: Path, **variables: str) -> dict[str, str]:
    (folder / "pairs.toml").write_text(PAIRS)
    known = {
        "PATH": os.environ["PATH"],
        "STATE_DIR": str(folder / "state"),
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "PAIRS_FILE": str(folder / "pairs.toml"),
        "ONE": STRING.format("one"),
        "TWO": STRING.format("two"),
    }
    return known | variables


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The process, when it has ended by itself."""
    return forked.run(words, environment(folder, **variables))


def loaded(ran: subprocess.CompletedProcess[str]) -> set[str]:
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("loaded: ")]
    return set(line.split())


def errors(ran: subprocess.CompletedProcess[str]) -> list[str]:
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    return [line for line in ran.stderr.splitlines() if line.startswith("error: ")]


@pytest.mark.sampled
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_address_ends_every_process(tmp_path, program, name):
    (sentence,) = errors(run(tmp_path, *PROGRAMS[program], **{name: WRONG[name]}))
    assert sentence.startswith(f"error: {name} cannot be read: give ")


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"PAIRS_FILE": "/nowhere.toml"}, "/nowhere.toml: there is no such file; write one with a table [pairs."),
        ({"PAIRS_FILE": "/"}, "/: it cannot be read: Is a directory"),
        ({"TWO": "hunter2"}, "TWO: the secondary connection string is malformed"),
    ],
)
def test_a_worker_without_usable_pairs_ends_before_it_loads_pages_and_tasks(tmp_path, variables, sentence):
    ran = run(tmp_path, "-c", LISTING, *PROGRAMS["celery worker"], **variables)
    (said,) = errors(ran)
    assert sentence in said
    assert "hunter2" not in ran.stderr
    assert "workers.worker" in loaded(ran)
    assert not loaded(ran) & LONG


@pytest.mark.parametrize("option", ["-Q", "-X"])
def test_a_worker_for_a_queue_that_nobody_fills_ends(tmp_path, option):
    (sentence,) = errors(run(tmp_path, *PROGRAMS["celery worker"], option, "pings,ping"))
    assert sentence.startswith("error: There is no queue 'ping': workers serve pings, syphons, ")


def test_a_web_process_says_at_its_start_that_the_pairs_file_and_the_database_cannot_be_used(tmp_path):
    wanted = ("/nowhere/pairs.toml: there is no such file", "is not migrated: run manage.py migrate first.")
    said = ""
    with _started(PROGRAMS["uvicorn"], environment(tmp_path, PAIRS_FILE="/nowhere/pairs.toml"), says_on=2) as lines:
        while not all(words in said for words in wanted):
            said += next(lines)
    assert "the pairs file cannot be used" in said
