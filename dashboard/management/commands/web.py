"""The web process."""

from dashboard.command_line.commands import ProgramCommand


class Command(ProgramCommand):
    """Live pages are open streams: without the timeout a restart would wait until all readers have left.

    Whose `X-Forwarded-For` counts is decided by TRUSTED_PROXIES alone.
    """

    help = "Serve pages and API with uvicorn, on 127.0.0.1:8000 unless --host and --port say otherwise."
    program = ("uvicorn", "dashboard.asgi:application", "--timeout-graceful-shutdown", "3", "--no-proxy-headers")
