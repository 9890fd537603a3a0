"""The trace context on messages, and whether tracing is enabled, without OpenTelemetry itself.

The names are those of the W3C, as the Azure SDK writes them; .NET reads ``Diagnostic-Id``.
"""

import os
from collections.abc import Mapping
from typing import Any

from azure.servicebus import ServiceBusMessage

TRACE_PARENT, TRACE_STATE, DIAGNOSTIC_ID = "traceparent", "tracestate", "Diagnostic-Id"


def is_wanted(option: bool | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to trace: by the option, or if it is None, by the environment variables of OpenTelemetry."""
    if option is not None:
        return option
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exporter != "none" and (bool(exporter) or any(environment.get(name) for name in endpoints))


def carried(message: ServiceBusMessage) -> dict[str, str]:
    """The context of a message, as ``traceparent`` and ``tracestate``; empty if it has none."""
    properties = {_text(key): _text(value) for key, value in (message.application_properties or {}).items()}
    found = {
        TRACE_PARENT: properties.get(TRACE_PARENT) or properties.get(DIAGNOSTIC_ID),
        TRACE_STATE: properties.get(TRACE_STATE),
    }
    return {name: value for name, value in found.items() if value}


def write(message: ServiceBusMessage, context: Mapping[str, str]) -> None:
    """Add this context to the message; the caller's own mapping of properties is not changed."""
    if TRACE_PARENT in context:
        properties: dict[str | bytes, Any] = dict(message.application_properties or {})
        properties[DIAGNOSTIC_ID] = context[TRACE_PARENT]
        properties.update(context.items())
        message.application_properties = properties


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else None
