"""Probes and metrics answer by any name of this host: orchestrators ask by an address that nobody lists."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PATHS = ("/healthz", "/readyz", "/metrics")


class ProbesMiddleware:
    """Takes any Host for these addresses, whose answers name no host. Who may read what stays as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in PATHS:
            request.get_host = lambda: "localhost"  # type: ignore[method-assign]
        return self.get_response(request)
