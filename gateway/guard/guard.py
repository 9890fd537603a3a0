"""The guarded links of one client, and the sessions they are in."""

from __future__ import annotations

from typing import Any

from amqp10 import performatives as p
from amqp10.addresses import address_of, is_node, is_token_node, path_of
from amqp10.codec import decode
from amqp10.frame_fields import FrameFields
from amqp10.types import AmqpError
from gateway.guard.backlog import sdk_error
from gateway.guard.client import GatewayClient
from gateway.guard.link import GuardedLink, Session
from gateway.guard.session import GuardRelay

_VIA = "com.microsoft:transfer-destination-address"
_WITH_HANDLE = (p.Attach.CODE, p.Transfer.CODE, p.Detach.CODE)


class Guard:
    """Takes part in a relay: every frame of a session passes through it."""

    def __init__(self, relay: GuardRelay, client: GatewayClient) -> None:
        self._relay, self._client = relay, client
        self._sessions: dict[int, Session] = {}  # by the client's channel
        self._by_back: dict[int, Session] = {}  # by the primary's
        self._has_others = False
        self._unanswered = 0  # begins and attaches

    @property
    def is_all(self) -> bool:
        """Whether the client has only senders and tokens, and waits for no answer of the primary."""
        return bool(self._links()) and not (self._has_others or self.is_waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether the primary has yet to answer."""
        return self._unanswered > 0 or bool(self._relay.proofs.asked)

    @property
    def retained(self) -> int:
        """How many deliveries wait for an outcome."""
        return sum(link.retained for link in self._links())

    @property
    def waiting(self) -> int:
        """How many bytes wait for room in the primary's windows."""
        return sum(len(body) for session in self._sessions.values() for body in session.waiting)

    def _links(self) -> list[GuardedLink]:
        return [link for session in self._sessions.values() for link in session.links.values()]

    def goes_on(self, code: int, channel: int, fields: FrameFields) -> bool:
        """Deal with a frame while the primary is away, if it is about a guarded link; whether it was."""
        session = self._sessions.get(channel)
        if code not in (p.Transfer.CODE, p.Flow.CODE) or session is None:
            return False
        return fields.value("handle") in session.links and self._is_taken(session, code, fields, [])

    # --- frames ----------------------------------------------------------------------------------------------------

    def from_client(self, code: int, channel: int, fields: FrameFields, bodies: list[bytes]) -> None:
        """A frame of the client, and what the primary would get of it."""
        session = self._sessions.get(channel)
        self._unanswered += code in (p.Begin.CODE, p.Attach.CODE)
        if code == p.Begin.CODE:
            self._sessions[channel] = Session(self._relay, channel, fields)
        elif session is not None and self._is_taken(session, code, fields, bodies):
            return
        for body in bodies:
            self._relay.to_primary(channel, body)

    def _is_taken(self, session: Session, code: int, fields: FrameFields, bodies: list[bytes]) -> bool:
        match code:
            case p.Transfer.CODE:
                handle, tokens = fields.value("handle"), self._relay.tokens.get(session.channel, ())
                self._has_others |= handle not in session.links and handle not in tokens  # and waits for an answer
                session.transfer(fields, bodies)
                return True
            case p.Flow.CODE:
                session.flow_from_client(fields)
                return True
            case p.Attach.CODE:
                session.unfinished.pop(fields.value("handle"), None)
                target = p.terminus(decode(fields.encoded("target"))[0])
                path = guarded_path(fields.value("role"), target, fields.value("properties"))
                if session.is_relayed_whole is None:  # a coordinator comes first where its transactions cross entities
                    session.is_relayed_whole = target is not None and target.code == p.COORDINATOR
                if path is None or session.is_relayed_whole:
                    end = p.terminus(decode(fields.encoded("source"))[0]) if fields.value("role") else target
                    self._has_others |= end is None or not is_node(path_of(end.address))
                else:
                    link = GuardedLink(session, FrameFields(bodies[0]), self._client, path)
                    session.links[fields.value("handle")] = link
            case p.Detach.CODE if (left := session.links.pop(fields.value("handle"), None)) is not None:
                return left.detached_by_client(fields)
            case p.End.CODE:
                self._sessions.pop(session.channel).end()
        return False

    def from_primary(self, code: int, channel: int, fields: FrameFields) -> bool:
        """Whether a frame of the primary is dealt with here."""
        self._unanswered -= code in (p.Begin.CODE, p.Attach.CODE)
        if code == p.Begin.CODE and (begun := self._sessions.get(fields.value("remote_channel"))) is not None:
            begun.begun(channel, fields)
            self._by_back[channel] = begun
            return False
        session = self._by_back.get(channel)
        if session is None:
            return False
        match code:
            case p.Transfer.CODE:
                session.transferred_to_client()
                if fields.value("handle") == session.tokens_handle and not fields.value("more"):
                    self._relay.proofs.answered(fields.body[fields.payload :])
            case p.Disposition.CODE:
                return session.disposition(fields)
            case p.Flow.CODE:
                return session.flow_from_primary(fields)
            case p.Attach.CODE if not fields.value("role") and is_token_node(address_of(fields.encoded("source"))):
                session.tokens_handle = fields.value("handle")
            case p.Attach.CODE if is_token_node(address_of(fields.encoded("target"))):
                self._relay.token_link = channel, fields.value("handle")
            case p.Attach.CODE if (link := _named(session, fields)) is not None:
                return self._attached(session, link, fields)
            case p.Detach.CODE if fields.value("handle") == session.tokens_handle:
                session.tokens_handle = None
            case p.Detach.CODE if (behind := session.link_behind(fields.value("handle"))) is not None:
                if behind.detached_by_primary(fields):
                    session.shown.pop(fields.value("handle"), None)
                    return True
            case p.End.CODE:
                if any(link.retained for link in session.links.values()):
                    raise AmqpError("amqp:illegal-state", "it has ended a session in which messages were on their way")
                self._by_back.pop(channel).end()
        return code in _WITH_HANDLE and self._is_shown(session, code, fields)

    def _is_shown(self, session: Session, code: int, fields: FrameFields) -> bool:
        """Whether the client gets a frame with another handle, as it knows a hidden link by that of the primary."""
        handle: int = fields.value("handle")
        known = session.show(handle) if code == p.Attach.CODE else session.shown.get(handle, handle)
        if code == p.Detach.CODE:
            session.shown.pop(handle, None)
        if known != handle:
            self._relay.to_client(session.back, fields.replaced(handle=known))
        return known != handle

    def _attached(self, session: Session, link: GuardedLink, answer: FrameFields) -> bool:
        is_again = link.is_known
        self._unanswered += is_again  # the client did not ask
        if p.terminus(decode(answer.encoded("target"))[0]) is None:
            return link.refused(answer) or self._is_shown(session, p.Attach.CODE, answer)
        if not is_again and not self._is_shown(session, p.Attach.CODE, answer):
            self._relay.to_client(session.back, answer.body)  # before the credit
        link.attached(answer)
        return True

    # --- the end ---------------------------------------------------------------------------------------------------

    def primary_lost(self, reason: str) -> None:
        """What the primary has not settled goes by the rules."""
        for link in self._links():
            link.lost(sdk_error(None, f"The connection to the primary namespace is lost: {reason}."))

    def end(self) -> None:
        """The client is lost, or gets no outcome any more: whatever it has not heard of it sends again."""
        for session in self._sessions.values():
            session.end()


def _named(session: Session, answer: FrameFields) -> GuardedLink | None:
    """The guarded link that the primary answers."""
    links = [*(link for link in session.leaving if link.is_asked), *session.links.values()]
    return next((link for link in links if answer.value("role") and link.name == answer.value("name")), None)


def guarded_path(role: bool, target: p.Terminus | None, properties: Any) -> str | None:
    """The entity that a link sends to, if it is guarded."""
    if role or target is None or target.code == p.COORDINATOR or not target.address:
        return None
    path = path_of(target.address)
    return None if not path or is_node(path) or _VIA in (properties or {}) else path
