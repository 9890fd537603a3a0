"""The control plane under an ASGI server: `manage.py web`.

Another server, or uvicorn itself, must leave `X-Forwarded-For` to TRUSTED_PROXIES: `--no-proxy-headers`.
"""

import os
import sys
from typing import Any

import structlog
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dashboard.fleet.pairs.pairs_file import load_pairs, require_connection_strings
from dashboard.site import database
from dashboard.site.processes import adopt_server, share_arenas

share_arenas()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")


def report_pairs() -> None:
    """One line in the log where PAIRS_FILE cannot be used: pages need it only where they reach into a namespace."""
    try:
        require_connection_strings(load_pairs().values())
    except ImproperlyConfigured as error:
        structlog.get_logger(__name__).error("the pairs file cannot be used", problem=str(error))


try:
    handler: Any = get_asgi_application()  # Django's types of ASGI are not those of uvicorn
    application = ProxyHeadersMiddleware(handler, settings.TRUSTED_PROXIES)
    adopt_server(settings.LOG_FORMAT)
    database.report()
    report_pairs()
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
