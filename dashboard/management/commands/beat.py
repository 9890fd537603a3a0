"""The process that triggers the tasks of the workers."""

from dashboard.command_line.commands import ProgramCommand


class Command(ProgramCommand):
    """One is needed; a second one does no harm."""

    help = "Run Celery's beat, which triggers the tasks of the workers."
    program = ("celery", "-A", "workers", "beat")
