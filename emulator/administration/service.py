"""The administration of one namespace: a request in, an answer out, no sockets and no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote
from xml.etree.ElementTree import Element

from emulator.administration import atom, documents, targets
from emulator.administration.durations import format_time
from emulator.administration.messages import ENTRY, FEED, MAX_BODY_BYTES, AdminRequest, AdminResponse, refusal
from emulator.broker.descriptions import DescriptionError, QueueDescription, validate_queue, validate_update
from emulator.broker.errors import BrokerError
from emulator.broker.namespace import Namespace
from emulator.broker.queue import Queue
from emulator.signatures import TokenError, verify

OLDEST_VERSION = "2017-04"
AUTHORIZATION = "authorization"
FORWARDING_AUTHORIZATION = ("servicebussupplementaryauthorization", "servicebusdlqsupplementaryauthorization")

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
        """Do what the request asks for; what is wrong with it becomes the answer, never an exception."""
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
        """Raise TokenError unless the request, and each entity it forwards to, comes with a good token."""
        for header in (AUTHORIZATION, *FORWARDING_AUTHORIZATION):
            token = request.headers.get(header)
            if token is not None:
                granted = verify(token, self.keys, now)
                if header == AUTHORIZATION and not granted.covers(targets.read_path(request.target)):
                    raise TokenError("The token is for another entity.")
            elif header == AUTHORIZATION:
                raise TokenError("The request has no Authorization header.")


class _Call:
    """One request being answered."""

    def __init__(self, administration: Administration, request: AdminRequest, now: float) -> None:
        self.namespace = administration.namespace
        self.created_at = administration.created_at
        self.request = request
        self.now = now
        self.host = request.headers.get("host", self.namespace.name)
        self.query = targets.read_query(request.target)

    @property
    def version(self) -> str:
        return self.query.get("api-version", OLDEST_VERSION)

    @property
    def base(self) -> str:
        return f"https://{self.host}"

    def answer(self) -> AdminResponse:
        if len(self.request.body) > MAX_BODY_BYTES:
            return refusal(413, "The body is too large.")
        target = targets.read_target(self.request.target)
        match self.request.method:
            case "GET":
                return self._get(target)
            case "PUT":
                return self._put(target)
            case "DELETE":
                return self._delete(target)
            case method:
                return refusal(405, f"The method {method[:20]} is not allowed: GET, PUT or DELETE.")

    # --- GET -------------------------------------------------------------------------------------------------------

    def _get(self, target: targets.Target) -> AdminResponse:
        match target:
            case targets.NamespaceInfo():
                return self._namespace_info()
            case targets.Queues():
                return self._list("Queues", self.namespace.queues(), self._queue_entry)
            case targets.Entity(path) if self.namespace.exists(path):
                return self._show(self._queue_entry(self.namespace.queue(path)))
            case _:
                return self._nothing()

    def _queue_entry(self, queue: Queue) -> atom.Entry:
        runtime = _queue_runtime(queue)
        description = documents.write(queue.description, runtime, self.host, self._hidden)
        return _entry(queue.path, queue.path, description, runtime)

    @property
    def _hidden(self) -> frozenset[str]:
        """Properties this version of the interface does not know."""
        return frozenset({"MaxMessageSizeInKilobytes"}) if self.version == OLDEST_VERSION else frozenset()

    def _namespace_info(self) -> AdminResponse:
        times = format_time(self.created_at)
        info = documents.wrap(
            "NamespaceInfo",
            f"<CreatedTime>{times}</CreatedTime><MessagingSKU>Standard</MessagingSKU>"
            f"<ModifiedTime>{times}</ModifiedTime>{atom.element('Name', self.namespace.name)}"
            "<NamespaceType>Messaging</NamespaceType>",
        )
        return self._show(atom.Entry(self.namespace.name, "$namespaceinfo", info, self.created_at, self.created_at))

    def _show(self, entry: atom.Entry, status: int = 200) -> AdminResponse:
        return AdminResponse(status, atom.entry(entry, self.base, self.namespace.name), ENTRY)

    def _nothing(self) -> AdminResponse:
        """How the service says that an entity does not exist: a feed of nothing."""
        return self._feed("Publicly Listed Services", (), None)

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
        match target:
            case targets.Entity(path):
                return self._put_queue(path, atom.read_content(self.request.body, "QueueDescription"))
            case _:
                return refusal(405, "This address can be read only.")

    @property
    def _is_update(self) -> bool:
        return "if-match" in self.request.headers

    def _put_queue(self, path: str, element: Element) -> AdminResponse:
        before = self.namespace.queue(path).description if self._is_update else None
        wanted = documents.read(element, QueueDescription(before.name if before else path), before)
        self._check_version(element)
        validate_queue(wanted)
        self._check_forwarding(wanted)
        if before is None:
            queue = self.namespace.create_queue(path, wanted, self.now)
        else:
            validate_update(before, wanted)
            queue = self.namespace.update_queue(path, wanted, self.now)
        return self._show(self._queue_entry(queue), 200 if before else 201)

    def _check_version(self, element: Element) -> None:
        for name in self._hidden:
            if documents.mentions(element, name):
                raise DescriptionError(f"{name} is not known to api-version {OLDEST_VERSION}.")

    def _check_forwarding(self, wanted: QueueDescription) -> None:
        for name, path in (
            ("ForwardTo", wanted.forward_to),
            ("ForwardDeadLetteredMessagesTo", wanted.forward_dead_lettered_messages_to),
        ):
            if path is not None and not self.namespace.exists(path):
                raise DescriptionError(f"The entity {path!r} named by {name} could not be found.")

    # --- DELETE ----------------------------------------------------------------------------------------------------

    def _delete(self, target: targets.Target) -> AdminResponse:
        match target:
            case targets.Entity(path):
                self.namespace.delete_queue(path)
            case _:
                return refusal(405, "This address cannot be deleted.")
        return AdminResponse(200)


def _entry(title: str, address: str, description: str, runtime: documents.Runtime) -> atom.Entry:
    return atom.Entry(title, quote(address), description, runtime.created_at, runtime.updated_at)


def _queue_runtime(queue: Queue) -> documents.Runtime:
    counted = queue.runtime()
    return documents.Runtime(
        created_at=counted["created_at"],
        updated_at=counted["updated_at"],
        accessed_at=counted["accessed_at"],
        size_in_bytes=counted["size_bytes"],
        active=counted["active"],
        dead_lettered=counted["dead_lettered"],
        scheduled=counted["scheduled"],
        transfer=counted.get("transfer", 0),
        transfer_dead_lettered=counted["transfer_dead_lettered"],
    )
