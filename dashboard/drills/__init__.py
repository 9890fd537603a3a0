"""Drills: a real failover of a canary entity, step by step, with a report (docs/readiness.md).

`steps` is the drill and is pure; `hands` touch the namespaces; `report` summarises the result.
"""
