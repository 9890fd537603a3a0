"""What the process that drains a queue keeps in Redis: its lease, ledger and results."""
