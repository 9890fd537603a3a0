"""Where the traces of the workers go: to the OTLP endpoint that OpenTelemetry's own variables name, if they do.

The library makes the spans (`pairing.telemetry.tracing`); here is the provider that takes them, set once per worker.
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
    """Once, before the worker takes its first task; nothing is imported where no traces are wanted."""
    is_told = is_wanted(None, os.environ) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    if _ends or not is_told:
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource({SERVICE_NAME: NAME}).merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME wins
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _ends.append(provider)


@worker_shutdown.connect
def end(**_: Any) -> None:
    """Send what is left; a collector that does not answer holds the worker up for three seconds, no more."""
    while _ends:
        ending = threading.Thread(target=_ends.pop().shutdown, name="traces-leaving", daemon=True)
        ending.start()
        ending.join(_LEAVING_S)
