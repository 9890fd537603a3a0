"""Fault schedules: a file that says which fault begins when, for repeatable fault injection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.faults import LONGEST_S, Fault, FaultError, fault_from_json

_FIELDS = {"at_s", "namespace", "fault", "clear"}


class ScheduleError(Exception):
    """An invalid schedule; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Step:
    """`at_s` seconds after the start a fault begins, or all are removed, in one namespace or in all."""

    at_s: float
    namespace: str | None
    fault: dict[str, Any] | None

    def new_fault(self, now: float) -> Fault | None:
        """A new fault for one namespace; None if all faults are to be removed."""
        return fault_from_json(self.fault, now) if self.fault is not None else None


def read_schedule(path: Path, namespaces: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a schedule file, ordered by time. Raises ScheduleError."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScheduleError(f"The fault schedule {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ScheduleError(f"The fault schedule {path} contains no JSON.") from None
    if not isinstance(entries, list):
        raise ScheduleError(f"The fault schedule {path} contains no list of steps.")
    try:
        steps = [_step(entry, namespaces) for entry in entries]
    except FaultError as error:
        raise ScheduleError(f"The fault schedule {path} is invalid: {error}") from None
    return tuple(sorted(steps, key=lambda step: step.at_s))


def _step(entry: Any, namespaces: Sequence[str]) -> Step:
    if not isinstance(entry, dict) or not set(entry) <= _FIELDS:
        raise FaultError(f"The fields of a step are {', '.join(sorted(_FIELDS))}.")
    at_s, namespace = entry.get("at_s"), entry.get("namespace")
    if not isinstance(at_s, int | float) or isinstance(at_s, bool) or not 0 <= at_s <= LONGEST_S:
        raise FaultError(f"A step requires at_s, the seconds after the start, at most {LONGEST_S}.")
    if namespace is not None and namespace not in namespaces:
        raise FaultError(f"There is no namespace {namespace!r}.")
    if ("fault" in entry) == (entry.get("clear") is True):
        raise FaultError('A step must have either a fault or "clear": true.')
    step = Step(float(at_s), namespace, entry.get("fault"))
    if "fault" in entry:
        fault_from_json(entry["fault"], 0.0)
    return step
