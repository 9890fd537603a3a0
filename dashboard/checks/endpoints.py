"""Probes of the namespaces of all pairs: reachable, the rights of each credential, and the clock."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusClient
from azure.servicebus.management import ServiceBusAdministrationClient
from django.core.exceptions import ImproperlyConfigured

from dashboard.checks.clocks import ahead_of_date, clock_finding
from dashboard.checks.findings import Finding, ok, problem, warning
from dashboard.checks.side_by_side import Probe as Look
from dashboard.fleet.pairs.namespaces import endpoint_of, watchdog
from dashboard.fleet.pairs.pairs_file import EndpointConfig, PairConfig, load_pairs
from dashboard.readiness import probing
from dashboard.readiness.facts import Answer, Probe
from pairing.backlog.administration import emulator_transport
from pairing.backlog.rotation import backlog_path
from pairing.ends import Endpoint, Role

_DATE_S = 4.0
_GIVE = "Give the credential this right (docs/production.md, Rights)."
_REACH = "Check the host name, the firewall and that the namespace exists."


def probes() -> dict[str, Look]:
    """A probe for each end of each pair, by item; none if PAIRS_FILE cannot be read, which another probe reports."""
    try:
        pairs = load_pairs()
    except ImproperlyConfigured:
        return {}
    ends = [(pair, role) for pair in pairs.values() for role in ("primary", "secondary")]
    return {f"{pair.name} {role}": partial(_look, pair, role) for pair, role in ends}  # type: ignore[arg-type]


def _look(pair: PairConfig, role: Role) -> Sequence[Finding]:
    item = f"{pair.name} {role}"
    where = pair.primary if role == "primary" else pair.secondary
    try:
        endpoint = endpoint_of(where, role)
    except (ImproperlyConfigured, ValueError) as error:
        return [problem(item, f"{error}.", "See docs/contract.md, section 3.")]
    with endpoint.administration(ServiceBusAdministrationClient, emulator_transport) as administration:
        manage = probing.administered(administration)
    if manage.answer is Answer.SILENT:
        return [problem(item, f"It does not answer: {manage.reason}.", _REACH)]
    return [*rights_findings(pair, role, manage, _links(pair, role, endpoint)), *_clock(item, where, endpoint)]


def needs_manage(pair: PairConfig, role: Role) -> bool:
    """Whether workers need Manage there: to create backlog queues, and to list entities."""
    return role == "secondary" or pair.watches_all


def rights_findings(
    pair: PairConfig, role: Role, manage: Probe, links: Iterable[tuple[str, str, Probe]]
) -> list[Finding]:
    """The rights that the credential has, and those that are missing. Pure."""
    item, found, missing = f"{pair.name} {role}", [], []
    if manage.answer is Answer.ALLOWED:
        found.append("Manage")
    elif needs_manage(pair, role):
        missing.append(problem(item, f"Manage is refused: {manage.reason}.", _GIVE))
    for right, path, probe in links:
        if probe.answer is Answer.ALLOWED:
            found.append(f"{right} at {path}")
        else:
            missing.append(_refused(item, right, path, probe))
    return missing or [ok(item, f"It answers; shown by using them: {', '.join(found) or 'no right was tried'}.")]


def _refused(item: str, right: str, path: str, probe: Probe) -> Finding:
    if probe.answer is Answer.REFUSED:
        return warning(item, f"{right} at {path} is refused, or it does not exist: {probe.reason}.", _GIVE)
    return warning(item, f"{right} at {path} could not be tried: {probe.reason}.", _REACH)


def _links(pair: PairConfig, role: Role, endpoint: Endpoint) -> list[tuple[str, str, Probe]]:
    """Send and Listen at the first backlog queue, or Send at the first entity, each by opening a link."""
    client = endpoint.service_bus(ServiceBusClient, own_retries=True)
    if role == "secondary":
        path = backlog_path(pair.primary.namespace, 0)
        listen = probing.opened(watchdog(), lambda: client.get_queue_receiver(path), probing.peek)
        return [
            ("Send", path, probing.opened(watchdog(), lambda: client.get_queue_sender(path))),
            ("Listen", path, listen),
        ]
    if not pair.entities:
        return []
    first = pair.entities[0]
    make = client.get_topic_sender if first.kind == "topic" else client.get_queue_sender
    return [("Send", first.path, probing.opened(watchdog(), lambda: make(first.path)))]


def _clock(item: str, where: EndpointConfig, endpoint: Endpoint) -> list[Finding]:
    """The clock of the service, by the Date of any answer; an emulator has this host's."""
    if endpoint.emulator:
        return []
    with suppress(OSError, ValueError, AzureError):
        asked_at = datetime.now(UTC)
        date = parsedate_to_datetime(_date_of(f"https://{endpoint.address}/"))
        return [clock_finding(f"clock of {item}", ahead_of_date(date, asked_at, datetime.now(UTC)))]
    return [warning(f"clock of {item}", f"{where.namespace} gave no time over HTTPS.", _REACH)]


def _date_of(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=_DATE_S) as response:  # noqa: S310
            return str(response.headers["Date"])
    except urllib.error.HTTPError as error:  # refused without a token, with a date
        return str(error.headers["Date"])
