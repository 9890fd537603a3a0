"""The administration of entities over HTTP, for `ServiceBusAdministrationClient` (docs/wire.md, section 10)."""

from emulator.administration.messages import AdminRequest, AdminResponse
from emulator.administration.service import Administration

__all__ = ["AdminRequest", "AdminResponse", "Administration"]
