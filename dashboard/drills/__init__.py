"""Drills: a failover done for real on a canary entity, step by step, with a report (docs/readiness.md).

`plan` decides what comes next, and is pure; `exercise` carries it out; `report` says what came of it; `requests` and
`schedule` begin a drill or call it off.
"""
