"""Spans of what the gateway redirects. Loaded only if OpenTelemetry's variables ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace

from pairing.telemetry.tracing import Tracing, Work, context_of


class Redirections(Tracing):
    """As the library's, but messages stay as their clients made them, and their own context is the parent."""

    def carry(self, work: Work) -> None:
        """Add nothing."""

    @contextmanager
    def redirecting(self, queue: str, work: Work) -> Iterator[Callable[[Any], None]]:
        """An attempt on a backlog queue, in the trace of the first message; those of others are linked to."""
        contexts = [context for message in work.messages if (context := context_of(message)) is not None]
        parent = trace.NonRecordingSpan(contexts[0]) if contexts else trace.INVALID_SPAN
        with trace.use_span(parent), super().redirecting(queue, work) as ended:
            for other in contexts[1:]:
                trace.get_current_span().add_link(other)
            yield ended
