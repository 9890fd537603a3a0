"""Events for display: what several processes report is one line, and says how many and how often."""

from datetime import timedelta

import pytest

from dashboard.fleet.state.event_lines import together
from dashboard.models import FailoverEvent
from tests.dashboard.conftest import NOW


def reported(*processes: str, kind: str = "dead_lettered") -> list[FailoverEvent]:
    """Events a second apart, newest first."""
    return [
        FailoverEvent(
            time=NOW - timedelta(seconds=n), pair="contoso", entity="orders", kind=kind, reason=f"{n}", process=name
        )
        for n, name in enumerate(processes)
    ]


@pytest.mark.parametrize(
    ("processes", "often"),
    [
        (("a",), ""),
        (("a", "a"), "2 times"),
        (("a", "b"), "in 2 processes"),
        (("a", "b", "a", "b"), "in 2 processes"),
    ],
)
def test_a_line_says_in_how_many_processes_or_how_often_it_happened(processes, often):
    (line,) = together(reported(*processes))

    assert (line.often, line.times, line.event.reason) == (often, len(processes), "0")
