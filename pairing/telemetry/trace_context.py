"""How the context of a trace travels on a message, and whether traces are wanted: without OpenTelemetry itself.

By the W3C's names, as the SDK of Azure writes them; ``Diagnostic-Id`` is what .NET reads.
"""

import os
from collections.abc import Mapping
from typing import Any

from azure.servicebus import ServiceBusMessage

TRACE_PARENT, TRACE_STATE, DIAGNOSTIC_ID = "traceparent", "tracestate", "Diagnostic-Id"


def is_wanted(option: bool | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to trace: as the option says, or as OpenTelemetry's own variables do where it is None."""
    if option is not None:
        return option
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exporter != "none" and (bool(exporter) or any(environment.get(name) for name in endpoints))


def carried(message: ServiceBusMessage) -> dict[str, str]:
    """The context that a message carries, as ``traceparent`` and ``tracestate``; empty where it carries none."""
    properties = {_text(key): _text(value) for key, value in (message.application_properties or {}).items()}
    found = {
        TRACE_PARENT: properties.get(TRACE_PARENT) or properties.get(DIAGNOSTIC_ID),
        TRACE_STATE: properties.get(TRACE_STATE),
    }
    return {name: value for name, value in found.items() if value}


def write(message: ServiceBusMessage, context: Mapping[str, str]) -> None:
    """Let the message carry this context; the caller's own mapping of properties stays as it is."""
    if TRACE_PARENT in context:
        properties: dict[str | bytes, Any] = dict(message.application_properties or {})
        properties[DIAGNOSTIC_ID] = context[TRACE_PARENT]
        properties.update(context.items())
        message.application_properties = properties


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else None
