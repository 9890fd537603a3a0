"""The control plane under an ASGI server: `uvicorn dashboard.asgi:application --timeout-graceful-shutdown 3`."""

import os
import sys
from typing import Any

import structlog
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from dashboard.command_line.ranges import OF_UVICORN, problem_of
from dashboard.fleet.pairs_file import load_pairs, require_connection_strings
from dashboard.site import database
from dashboard.site.bodies import BoundedBodies
from dashboard.site.connections import bound_connections_of
from dashboard.site.forwarded import ForwardedClients, disregard_trust_of, loading_server, named_networks
from dashboard.site.logs import adopt_server
from dashboard.site.memory import share_arenas

share_arenas()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")


def refuse_what_cannot_be_bound(server: Any) -> None:
    """ImproperlyConfigured where uvicorn, started without `manage.py web`, would raise OverflowError later."""
    if problem := problem_of([f"--port={server.port}", f"--backlog={server.backlog}"], OF_UVICORN):
        raise ImproperlyConfigured(problem)


def report_pairs() -> None:
    """One line in the log where PAIRS_FILE cannot be used: pages need it only where they reach into a namespace."""
    try:
        require_connection_strings(load_pairs().values())
    except ImproperlyConfigured as error:
        structlog.get_logger(__name__).error("the pairs file cannot be used", problem=str(error))


try:
    server = loading_server()
    if server is not None:
        refuse_what_cannot_be_bound(server)
    bound_connections_of(server)
    proxies = (*settings.TRUSTED_PROXIES, *named_networks("--forwarded-allow-ips", disregard_trust_of(server)))
    handler = get_asgi_application()
    from dashboard.access.senders import is_known  # it needs the models

    application = ForwardedClients(BoundedBodies(handler, is_known), proxies, settings.PROXY_HOPS)
    adopt_server(settings.LOG_FORMAT)
    if server is not None:
        database.report()
        report_pairs()
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
