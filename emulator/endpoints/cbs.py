"""The `$cbs` node: clients put the tokens that authorize their links."""

from __future__ import annotations

from amqp10.requests import Request, response
from amqp10.sas import TokenError
from amqp10.types import Int
from emulator import access
from emulator.broker.namespace import parse_address
from emulator.endpoints.requests import RequestEndpoint


class CbsEndpoint(RequestEndpoint):
    """The link on which a client puts tokens."""

    def process(self, request: Request) -> None:
        audience = access.audience_path(request.properties.get("name"))
        self.client.attempt(
            "cbs",
            parse_address(audience).path,
            self.link,
            lambda answered: self.perform_in_turn(request, lambda: self._put_token(request, audience)),
            lambda condition, text: None,
            lambda fault: self.perform_in_turn(request, lambda: self._respond(request, fault.status, "Fault: status.")),
        )

    def _put_token(self, request: Request, audience: str) -> None:
        now = self.host.clock()
        try:
            grant = access.grant(request.body, audience, self.host.key_rings(parse_address(audience).path), now)
        except TokenError as error:
            self._respond(request, 401, str(error))
            return
        if audience and self.host.refuses_unknown_tokens and not self.host.namespace.knows(audience):
            self._respond(request, 404, f"The messaging entity '{audience}' could not be found.")
            return
        self.client.add_grant(grant)
        self._respond(request, 202, "Accepted")

    def _respond(self, request: Request, status: int, description: str) -> None:
        self.respond(request, response(request, {"status-code": Int(status), "status-description": description}))
