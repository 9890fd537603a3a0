"""What a gateway counts, in Prometheus's text format."""

from __future__ import annotations

from dataclasses import dataclass, fields

_HELP = {
    "clients": ("gauge", "Clients that are connected."),
    "clients_total": ("counter", "Clients that have connected."),
    "primary_lost_total": ("counter", "Connections to the primary that failed or ended before the client closed them."),
    "from_clients_bytes_total": ("counter", "Bytes that clients sent."),
    "to_clients_bytes_total": ("counter", "Bytes that clients were sent."),
}


@dataclass(slots=True)
class Metrics:
    """The numbers of one process."""

    clients: int = 0
    clients_total: int = 0
    primary_lost_total: int = 0
    from_clients_bytes_total: int = 0
    to_clients_bytes_total: int = 0

    def exposition(self, pair: str) -> str:
        """The text of /metrics."""
        lines = []
        for name in (field.name for field in fields(self)):
            kind, meaning = _HELP[name]
            family = f"paired_gateway_{name}"
            lines += [f"# HELP {family} {meaning}", f"# TYPE {family} {kind}"]
            lines.append(f'{family}{{pair="{pair}"}} {getattr(self, name)}')
        return "\n".join(lines) + "\n"
