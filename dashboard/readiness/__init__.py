"""Whether failover would work, checked before it is needed (docs/readiness.md).

`facts` says what was found out, `checks` decides what it means, `score` sums up: all pure. `gathering` asks Redis and
the database, `storing` writes down; only workers ask namespaces.
"""
