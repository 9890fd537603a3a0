"""The demo: the whole system on one host, supervised by one process."""
