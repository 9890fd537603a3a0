"""A pytest plugin for `tests/contract` in an environment with another version of the SDK (test_python_versions.py).

These versions speak AMQP over TLS at port 5671 only, and their administration clients take no transport.
"""

import os
from typing import Any

import certifi
from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport

HOST, PORT = os.environ["SERVICEBUS_HOST"], os.environ["SERVICEBUS_PORT"]


def _lead_here(transport: Any) -> None:
    """The administration is asked over plain HTTP, at the port of AMQP."""
    send = transport.send

    def redirected(self: Any, request: Any, **more: Any) -> Any:
        request.url = request.url.replace(f"https://{HOST}", f"http://{HOST}:{PORT}", 1)
        return send(self, request, **more)

    transport.send = redirected


certifi.where = lambda: os.environ["SSL_CERT_FILE"]
for each in (RequestsTransport, AioHttpTransport):
    _lead_here(each)
