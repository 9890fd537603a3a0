"""The emulator's own interface over HTTP: faults and statistics, as JSON below `/$emulator/`."""

from __future__ import annotations

import hmac
import json
from typing import Any
from urllib.parse import unquote

from emulator.administration import AdminRequest, AdminResponse
from emulator.faults import FaultError, fault_from_json
from emulator.host import Host

PREFIX = "/$emulator/"
HEALTH = "/health"
JSON = "application/json"
RESOURCES = ("faults", "stats", "meter", "keys")
HEALTHY = {"status": "healthy", "message": "Service is healthy."}


def handle(host: Host, request: AdminRequest, *, requires_key: bool) -> AdminResponse:
    """Answer a request below `/$emulator/`, or for the health of the namespace, which needs no key."""
    if _asks_for_health(request):
        return _answer(200, HEALTHY)
    if requires_key and not _has_key(request, host.key):
        return refusal(401, "This interface requires the namespace's key: Authorization: Bearer <key>.")
    parts = request.target.partition("?")[0].replace("%24", "$").removeprefix(PREFIX).strip("/").split("/")
    match request.method, parts:
        case "GET", ["stats"]:
            return _answer(200, host.stats())
        case "GET", ["meter"]:
            return _answer(200, host.meter.as_json())
        case "GET", ["faults"]:
            return _answer(200, [fault.as_json() for fault in host.faults])
        case "POST", ["faults"]:
            return _add(host, request)
        case "DELETE", ["faults"]:
            host.faults.clear()
            return AdminResponse(204)
        case "DELETE", ["faults", fault_id]:
            found = host.faults.remove(fault_id)
            return AdminResponse(204) if found else refusal(404, f"There is no fault with the id {fault_id!r}.")
        case "PUT", ["keys"]:
            return _replace_keys(host, request)
        case _, ["stats"] | ["meter"] | ["keys"] | ["faults"] | ["faults", _]:
            return refusal(405, "This method is not allowed here.")
    return refusal(404, f"Not found: the resources are {', '.join(f'{PREFIX}{name}' for name in RESOURCES)}.")


def _add(host: Host, request: AdminRequest) -> AdminResponse:
    try:
        fault = fault_from_json(json.loads(request.body), host.clock())
    except FaultError as error:
        return refusal(400, str(error))
    except (ValueError, RecursionError):
        return refusal(400, "The body is not valid JSON.")
    host.add_fault(fault)
    return _answer(201, {"id": fault.id})


def _replace_keys(host: Host, request: AdminRequest) -> AdminResponse:
    try:
        keys = json.loads(request.body)
    except (ValueError, RecursionError):
        return refusal(400, "The body is not valid JSON.")
    texts = [text for pair in keys.items() for text in pair] if isinstance(keys, dict) else []
    if not texts or not all(map(_fits_a_connection_string, texts)):
        return refusal(400, "Give an object with the key of each policy by its name, printable and without semicolons.")
    host.replace_keys(keys)
    return AdminResponse(204)


def _fits_a_connection_string(text: Any) -> bool:
    return isinstance(text, str) and bool(text) and text.isprintable() and ";" not in text


def _has_key(request: AdminRequest, key: str) -> bool:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    return hmac.compare_digest(given.encode(), key.encode())


def _answer(status: int, data: Any) -> AdminResponse:
    return AdminResponse(status, json.dumps(data).encode(), JSON)


def refusal(status: int, reason: str) -> AdminResponse:
    """A refusal with its reason, as JSON."""
    return _answer(status, {"error": reason})


def handles(request: AdminRequest) -> bool:
    """Whether the request is for this interface."""
    return request.target.replace("%24", "$").startswith(PREFIX) or _asks_for_health(request)


def _asks_for_health(request: AdminRequest) -> bool:
    """An administration client that reads an entity named `health` signs its request and names a version."""
    return request.method == "GET" and request.target == HEALTH and "authorization" not in request.headers


def administered_entity(request: AdminRequest) -> str:
    """The path of the entity an administration request is about."""
    return unquote(request.target.partition("?")[0]).strip("/")
