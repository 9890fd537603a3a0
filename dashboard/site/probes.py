"""Probes and metrics answer by any name of this host: orchestrators ask by an address that nobody lists."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from dashboard.site.forwarded import is_within

PATHS = ("/healthz", "/readyz", "/metrics")


class ProbesMiddleware:
    """Takes any Host for these addresses from the networks of PROBE_NETWORKS. Who may read what stays as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in PATHS and is_within(str(request.META.get("REMOTE_ADDR", "")), settings.PROBE_NETWORKS):
            request.get_host = lambda: "localhost"  # type: ignore[method-assign]
        return self.get_response(request)
