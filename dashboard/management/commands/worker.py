"""A worker process."""

from dashboard.command_line.commands import ProgramCommand


class Command(ProgramCommand):
    """Any number of them, on any number of hosts."""

    help = "Run a Celery worker: pings, syphons, samplers, collectors, alerts."
    program = ("celery", "-A", "workers", "worker")
