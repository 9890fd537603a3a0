"""The web process."""

from dashboard.command_line.programs import ProgramCommand
from dashboard.command_line.ranges import OF_UVICORN


class Command(ProgramCommand):
    """Live pages are open streams: without the timeout a restart would wait until all readers have left."""

    help = "Serve pages and API with uvicorn, on 127.0.0.1:8000 unless --host and --port say otherwise."
    program = ("uvicorn", "dashboard.asgi:application", "--timeout-graceful-shutdown", "3")
    rules = OF_UVICORN
