"""The backlog on the command line."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from dashboard.fleet.state import message_counts
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import Queue


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("backlog", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def seen(pair) -> None:
    deviating = {"LockDuration": ("PT1M", "PT30S")}
    orphan = Queue("contoso/x-servicebus-transfer/12", 12, status="SendDisabled")
    message_counts.record_depths("contoso", [Queue(active=1234, deviations=deviating), orphan], NOW)


def test_queues_are_listed_with_what_is_wrong_with_them(seen):
    _, first, last = run().splitlines()

    assert "1,234" in first
    assert "SendDisabled" in last


def test_scripts_get_json(seen):
    rows = json.loads(run("--json", "--pair", "contoso"))["items"]

    assert [(row["active"], row["is_orphan"]) for row in rows] == [(1234, False), (0, True)]
    assert "LockDuration" in rows[0]["deviations"]


def test_an_unknown_pair_is_one_sentence(seen):
    with pytest.raises(CommandError, match="There is no pair with that name"):
        run("--pair", "fabrikam")
