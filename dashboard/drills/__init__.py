"""Drills: a real failover of a canary entity, step by step, with a report (docs/readiness.md).

`plan` decides the next task and is pure; `exercise` executes it; `report` summarises the result; `requests` and
`schedule` start and abort drills.
"""
