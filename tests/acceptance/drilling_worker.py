"""A process that carries a drill on and kills itself: `drilling_worker.py DRILL STEP before|after|never`.

It dies at its first deed in that step, just before it is done or just after, before anything of it is written down.
Only waiting is not worth dying for.
"""

import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

import django

django.setup()

from dashboard.drills.course import Course, Deed, Wait  # noqa: E402
from workers import drills  # noqa: E402

key, step, when = int(sys.argv[1]), sys.argv[2], sys.argv[3]
drills.CLAIM_S = 2.0
_do = drills.Exercise._do


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def do(exercise: drills.Exercise, course: Course, deed: Deed) -> Course:
    """The deed, or death."""
    is_here = course.step.value == step and not isinstance(deed, Wait)
    if is_here and when == "before":
        die()
    after = _do(exercise, course, deed)
    if is_here and when == "after":
        die()
    return after


drills.Exercise._do = do  # type: ignore[method-assign]
drills.carry_on(key)
drills.client("contoso").close()
