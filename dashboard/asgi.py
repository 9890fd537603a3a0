"""The control plane under an ASGI server: `uvicorn dashboard.asgi:application --timeout-graceful-shutdown 3`."""

import os
import sys

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from dashboard.site import database
from dashboard.site.bodies import BoundedBodies
from dashboard.site.connections import bound_connections_of
from dashboard.site.forwarded import ForwardedClients, disregard_trust_of, loading_server, named_networks
from dashboard.site.logs import adopt_server

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
try:
    server = loading_server()
    bound_connections_of(server)
    proxies = (*settings.TRUSTED_PROXIES, *named_networks("--forwarded-allow-ips", disregard_trust_of(server)))
    handler = get_asgi_application()
    from dashboard.access.senders import is_known  # it needs the models

    application = ForwardedClients(BoundedBodies(handler, is_known), proxies, settings.PROXY_HOPS)
    adopt_server(settings.LOG_FORMAT)
    if server is not None:
        database.report()
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
