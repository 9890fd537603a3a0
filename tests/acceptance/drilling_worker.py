"""A program that bears processes which carry a drill on and kill themselves: one for each line of its standard input.

`begin` asks for a drill and says its number; `DRILL STEP before|after|never` carries one on, which dies at its first
action in that step: just before it is done or just after, before anything of it is written down. Only waiting is not
worth dying for. `ended CODE` tells how a process ended.
"""

import os
import signal
import sys
import uuid
from collections.abc import Callable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

import django

django.setup()


from dashboard.access.audited import Request  # noqa: E402
from dashboard.drills import exercise  # noqa: E402
from dashboard.drills.exercise import Exercise  # noqa: E402
from dashboard.drills.plan import Plan  # noqa: E402
from dashboard.drills.requests import Delegate, wanted  # noqa: E402
from dashboard.drills.tasks import Task, Wait  # noqa: E402
from dashboard.models import Pair  # noqa: E402
from workers import drills  # noqa: E402

exercise.CLAIM_S = 0.5
LIMIT_S = 120


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def begin() -> None:
    request = Request(
        Delegate("ada"), Pair.objects.get(), "pairing-canary", reason="a test", request_id=uuid.uuid4().hex
    )
    row = wanted(request, creates=False, messages=9)
    assert row is not None
    print("begun", row.pk, flush=True)


def carry_on(drill: str, step: str, when: str) -> None:
    _do = Exercise._do

    def do(running: Exercise, plan: Plan, task: Task) -> Plan:
        """The task, or death."""
        is_here = plan.step.value == step and not isinstance(task, Wait)
        if is_here and when == "before":
            die()
        after = _do(running, plan, task)
        if is_here and when == "after":
            die()
        return after

    Exercise._do = do  # type: ignore[method-assign]
    drills.carry_on(int(drill))
    drills.client("contoso").close()


def live(action: Callable[..., None], *reported: str) -> None:
    """A process's life; it ends whatever happens."""
    signal.alarm(LIMIT_S)
    try:
        action(*reported)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Imports once what takes seconds; from then on each process is there at once, and none knows of another."""
    for line in sys.stdin:
        words = line.split()
        child = os.fork()
        if child == 0:
            live(begin) if words == ["begin"] else live(carry_on, *words)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
