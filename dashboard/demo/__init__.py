"""The demo: everything a visitor needs on one machine, supervised by one process."""
