"""Drills: a failover done for real on a canary entity, step by step, with a report (docs/readiness.md).

`course` decides, purely, what comes next; `report` tells what came of it; `wanting` is how operators and the schedule
begin one and call it off. Workers do it.
"""
