"""Commands against the demo that runs (docs/production.md)."""

import json
import sys

import pytest
from django.core.management import CommandError, call_command


@pytest.fixture
def taken(monkeypatch):
    """What took the place of the process, in its stead."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda _, words, environment: calls.append((words, environment)))
    return calls


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.setenv("DEMO_DIR", str(tmp_path))
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "environment.json"


def test_a_command_runs_with_the_settings_of_the_demo_over_those_of_this_shell(demo, taken, monkeypatch):
    demo.write_text(json.dumps({"REDIS_URL": "redis://127.0.0.1:1/0"}))
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere/0")
    monkeypatch.setenv("CHANNELS_FILE", "mine.toml")

    call_command("in_demo", "pairing", "entities", "--json")

    ((words, environment),) = taken
    assert (words[0], words[2:]) == (sys.executable, ["pairing", "entities", "--json"])
    assert words[1].endswith("manage.py")
    assert (environment["REDIS_URL"], environment["CHANNELS_FILE"]) == ("redis://127.0.0.1:1/0", "mine.toml")


def test_without_a_demo_or_a_command_it_is_one_sentence(demo, taken):
    with pytest.raises(CommandError, match="There is no demo"):
        call_command("in_demo", "pairing", "pairs")
    demo.write_text("{}")
    with pytest.raises(CommandError, match="Name a command"):
        call_command("in_demo")
    assert not taken
