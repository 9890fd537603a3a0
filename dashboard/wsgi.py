"""The control plane under a WSGI server. Live updates need ASGI; here the pages fall back to polling."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
try:
    application = get_wsgi_application()
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")
