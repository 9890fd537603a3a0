"""The control plane under an ASGI server: `uvicorn dashboard.asgi:application --timeout-graceful-shutdown 3`."""

import os
import sys

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from dashboard.site import database
from dashboard.site.bodies import BoundedBodies
from dashboard.site.logs import adopt_server

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
try:
    application = BoundedBodies(get_asgi_application())
    adopt_server(settings.LOG_FORMAT)
    database.report()
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
