"""Exports the traces of workers to the OTLP endpoint in the environment variables of OpenTelemetry, if set.

The library creates the spans (`pairing.telemetry.tracing`); the provider that exports them is set once per worker here.
"""

import os
import threading
from typing import Any

from celery.signals import worker_init, worker_shutdown

from pairing.telemetry.trace_context import is_wanted

NAME = "paired-namespaces-workers"
_LEAVING_S = 3.0

_ends: list[Any] = []


@worker_init.connect
def begin(**_: Any) -> None:
    """Called once before the first task; imports nothing if tracing is not configured."""
    is_configured = is_wanted(None, os.environ) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    if _ends or not is_configured:
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # OTEL_SERVICE_NAME takes precedence
    resource = Resource({SERVICE_NAME: NAME}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _ends.append(provider)


@worker_shutdown.connect
def end(**_: Any) -> None:
    """Export the remaining spans; an unresponsive collector delays the worker by at most three seconds."""
    while _ends:
        ending = threading.Thread(target=_ends.pop().shutdown, name="traces-leaving", daemon=True)
        ending.start()
        ending.join(_LEAVING_S)
