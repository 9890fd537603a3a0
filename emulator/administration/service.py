"""The administration of one namespace: answers requests, without sockets and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from xml.etree.ElementTree import Element

from amqp10.sas import TokenError, verify
from emulator.administration import atom, documents, targets
from emulator.administration.changes import Changes, topic_at
from emulator.administration.entries import Entries
from emulator.administration.messages import ENTRY, FEED, AdminRequest, AdminResponse, refusal
from emulator.broker.descriptions import DescriptionError
from emulator.broker.errors import BrokerError
from emulator.broker.namespace import Namespace

OLDEST_VERSION = "2017-04"
AUTHORIZATION = "authorization"
FORWARDING_AUTHORIZATION = ("servicebussupplementaryauthorization", "servicebusdlqsupplementaryauthorization")
# Properties that a version of the API does not have are neither returned to its clients nor accepted from them.
UNKNOWN = {OLDEST_VERSION: frozenset({"MaxMessageSizeInKilobytes"})}

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Administration:
    """Answers the requests of administration clients.

    `keys` are the namespace's shared access keys by name; `created_at` in seconds since the epoch.
    """

    namespace: Namespace
    keys: Mapping[str, str] = field(repr=False)
    created_at: float

    def handle(self, request: AdminRequest, now: float) -> AdminResponse:
        """Process a request; errors become answers, never exceptions."""
        try:
            self._authorize(request, now)
            return _Call(self, request, now).answer()
        except TokenError as error:
            return refusal(401, str(error))
        except (DescriptionError, atom.DocumentError) as error:
            return refusal(400, str(error))
        except BrokerError as error:
            return refusal(error.status, str(error))

    def _authorize(self, request: AdminRequest, now: float) -> None:
        """Raise TokenError unless the request, and each entity it forwards to, has a valid token."""
        for header in (AUTHORIZATION, *FORWARDING_AUTHORIZATION):
            token = request.headers.get(header)
            if token is not None:
                # A client that was given a signature instead of a key sends it as if it were a bearer token.
                granted = verify(token.removeprefix("Bearer "), self.keys, now)
                if header == AUTHORIZATION and not granted.covers(targets.read_path(request.target)):
                    raise TokenError("The token is for another entity.")
            elif header == AUTHORIZATION:
                raise TokenError("The request has no Authorization header.")


class _Call:
    """One request that is being processed."""

    def __init__(self, administration: Administration, request: AdminRequest, now: float) -> None:
        self.administration = administration
        self.namespace = administration.namespace
        self.request = request
        self.now = now
        self.host = request.headers.get("host", self.namespace.name)
        self.base = f"https://{self.host}"
        self.query = targets.read_query(request.target)
        self.version = self.query.get("api-version", OLDEST_VERSION)
        self.hidden: frozenset[str] = UNKNOWN.get(self.version, frozenset())
        self.entries = Entries(self.host, self.hidden)

    def answer(self) -> AdminResponse:
        target = targets.read_target(self.request.target)
        match self.request.method:
            case "GET":
                return self._get(target)
            case "PUT":
                return self._put(target)
            case "DELETE":
                is_possible = self._changes().delete(target)
                return AdminResponse(200) if is_possible else refusal(405, "This address cannot be deleted.")
            case method:
                return refusal(405, f"The method {method[:20]} is not allowed: GET, PUT or DELETE.")

    # --- GET -------------------------------------------------------------------------------------------------------

    def _get(self, target: targets.Target) -> AdminResponse:
        match target:
            case targets.NamespaceInfo():
                return self._show(self.entries.namespace(self.namespace.name, self.administration.created_at))
            case targets.Queues():
                return self._list("Queues", self.namespace.queues(), self.entries.queue)
            case targets.Topics():
                return self._list("Topics", self.namespace.topics(), self.entries.topic)
            case targets.Subscriptions(topic):
                found = self.namespace.topic(topic).subscriptions()
                return self._list("Subscriptions", found, self.entries.subscription)
            case targets.Rules(topic, name):
                owner = self.namespace.topic(topic).subscription(name)
                return self._list("Rules", owner.rules(), lambda rule: self.entries.rule(owner, rule))
            case targets.Entity() | targets.Subscription() | targets.Rule():
                return self._get_one(target)

    def _get_one(self, target: targets.Entity | targets.Subscription | targets.Rule) -> AdminResponse:
        match target:
            case targets.Entity(path) if topic := topic_at(self.namespace, path):
                return self._show(self.entries.topic(topic))
            case targets.Entity(path) if self.namespace.exists(path):
                return self._show(self.entries.queue(self.namespace.queue(path)))
            case targets.Subscription(topic, name) if self.namespace.topic(topic).has_subscription(name):
                return self._show(self.entries.subscription(self.namespace.topic(topic).subscription(name)))
            case targets.Rule(topic, name, rule):
                owner = self.namespace.topic(topic).subscription(name)
                return self._show(self.entries.rule(owner, owner.rule(rule)))
        # An empty feed is how the service reports that an entity does not exist.
        return self._feed("Publicly Listed Services", (), None)

    def _show(self, entry: atom.Entry, status: int = 200) -> AdminResponse:
        return AdminResponse(status, atom.entry(entry, self.base, self.namespace.name), ENTRY)

    def _list(self, title: str, items: Iterable[Item], entry: Callable[[Item], atom.Entry]) -> AdminResponse:
        page = targets.read_page(self.query)
        everything = list(items)
        end = page.skip + page.top
        path = self.request.target.partition("?")[0]
        following = f"{self.base}{path}?$skip={end}&$top={page.top}&api-version={self.version}"
        entries = [entry(item) for item in everything[page.skip : end]]
        return self._feed(title, entries, following if end < len(everything) else None)

    def _feed(self, title: str, entries: Iterable[atom.Entry], following: str | None) -> AdminResponse:
        body = atom.feed(
            entries,
            title=title,
            base=self.base,
            namespace=self.namespace.name,
            self_link=self.base + self.request.target,
            next_link=following,
            now=self.now,
        )
        return AdminResponse(200, body, FEED)

    # --- PUT -------------------------------------------------------------------------------------------------------

    def _put(self, target: targets.Target) -> AdminResponse:
        changes = self._changes()
        match target:
            case targets.Entity(path):
                description = atom.read_content(self.request.body, "QueueDescription", "TopicDescription")
                self._check_version(description)
                if description.tag.endswith("}QueueDescription"):
                    entry = self.entries.queue(changes.queue(path, description))
                else:
                    entry = self.entries.topic(changes.topic(path, description))
            case targets.Subscription():
                description = atom.read_content(self.request.body, "SubscriptionDescription")
                entry = self.entries.subscription(changes.subscription(target, description))
            case targets.Rule():
                description = atom.read_content(self.request.body, "RuleDescription")
                entry = self.entries.rule(*changes.rule(target, description))
            case _:
                return refusal(405, "This address can be read only.")
        return self._show(entry, 200 if changes.is_update else 201)

    def _changes(self) -> Changes:
        return Changes(self.namespace, "if-match" in self.request.headers, self.now)

    def _check_version(self, description: Element) -> None:
        for name in self.hidden:
            if documents.mentions(description, name):
                raise DescriptionError(f"{name} is not known to api-version {self.version}.")
