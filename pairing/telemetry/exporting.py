"""Sends the spans of a process of ours to the collector that OpenTelemetry's variables name.

Applications have a tracer provider of their own; workers and gateways call this.
"""

import os
import threading
from typing import Any

from pairing.telemetry.trace_context import is_wanted

_LEAVING_S = 3.0
_ends: list[Any] = []


def begin(service: str) -> None:
    """Called once; imports nothing if tracing is not configured. ``OTEL_SERVICE_NAME`` takes precedence."""
    if _ends or not (is_wanted(None, os.environ) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"):
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _ends.append(provider)


def end() -> None:
    """Export the remaining spans; an unresponsive collector delays the process by at most three seconds."""
    while _ends:
        ending = threading.Thread(target=_ends.pop().shutdown, name="traces-leaving", daemon=True)
        ending.start()
        ending.join(_LEAVING_S)
