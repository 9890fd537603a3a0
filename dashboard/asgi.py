"""The control plane under an ASGI server: `uvicorn dashboard.asgi:application --timeout-graceful-shutdown 3`."""

import os
import sys

from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from dashboard.site.bodies import BoundedBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
try:
    application = BoundedBodies(get_asgi_application())
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
