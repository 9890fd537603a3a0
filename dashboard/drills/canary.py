"""The canary of drills: a queue or topic of the primary, its state, and reasons against a drill.

Messages of a topic are received from a dedicated subscription. In a queue with sessions, each drill uses its own
session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from azure.core.exceptions import ResourceNotFoundError
from django.utils import timezone

from dashboard.backlog.orphans import status_of
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.pairs.namespaces import Namespace, NamespaceError, namespace
from dashboard.fleet.pairs.pairs_file import DrillConfig, PairsFileError, load_pairs
from dashboard.fleet.state.status import is_silent
from dashboard.models import Drill, EntityHealth, Pair, SyphonPause
from dashboard.models.entity import DRILLS_CANARY
from dashboard.models.syphon import WHOLE_PAIR

CANARY = DRILLS_CANARY
"""The name of canaries that drills create, and of the subscription that drills receive from."""
MARK = "drill"
"""The application property that identifies the messages of a drill."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The state of a queue or topic in the primary; `strangers`: whether it holds messages of others."""

    path: str
    is_there: bool
    kind: str = Drill.Kind.QUEUE
    status: str = "Active"
    forwards_to: str = ""
    strangers: bool = False
    lacks_subscription: bool = False
    """A topic without the subscription that drills receive from."""
    needs_sessions: bool = False
    """That subscription requires sessions."""
    others: tuple[str, ...] = ()
    """The topic's other subscriptions."""
    trouble: str = ""
    """Why its state could not be read."""

    subscription: ClassVar[str] = CANARY

    @property
    def word(self) -> str:
        """Its type as text."""
        return str(Drill.Kind(self.kind).label).lower()

    @property
    def missing(self) -> str:
        """What a drill would have to create first; empty if nothing."""
        if self.trouble:
            return ""
        if self.lacks_subscription:
            return f"the subscription {CANARY} of {self.path}"
        return "" if self.is_there else self.path


@dataclass(frozen=True, slots=True)
class Moment:
    """Further conditions of a drill."""

    away: tuple[str, ...] = ()
    """Entities of the pair that are failing or failed over."""
    paused: bool = False
    running: str = ""
    """The canary of a running drill."""
    is_silent: bool = False
    """No worker is alive."""


def hindrances(canary: Canary, moment: Moment, *, creates: bool = False) -> list[str]:
    """Reasons why a drill cannot start now, as sentences; empty if it can. Pure."""
    reported = [
        (bool(moment.running), f"A drill is already running on {moment.running}."),
        (moment.is_silent, "No worker is alive to execute it."),
        (bool(moment.away), f"{', '.join(moment.away[:3])} is failing or failed over: drills require a healthy pair."),
        (moment.paused, "The syphon is paused, so nothing would be drained. Resume it first."),
        *_faults(canary, creates),
    ]
    return [sentence for is_so, sentence in reported if is_so]


def _faults(canary: Canary, creates: bool) -> list[tuple[bool, str]]:
    path, others = canary.path, ", ".join(canary.others[:3])
    return [
        (bool(canary.trouble), canary.trouble),
        (not canary.is_there and not creates and not canary.trouble, f"There is no queue or topic {path}."),
        (canary.lacks_subscription and not creates, f"{path} has no subscription {CANARY}, from which drills receive."),
        (bool(others), f"{path} has other subscriptions, which would receive a drill's messages: {others}."),
        (canary.needs_sessions, f"The subscription {CANARY} of {path} requires sessions, which drills do not support."),
        (canary.status != "Active", f"{path} is {canary.status}, not Active."),
        (bool(canary.forwards_to), f"{path} forwards its messages, so a drill cannot receive them."),
        (canary.strangers, f"{path} holds messages that no drill has sent; a drill would disturb their receivers."),
    ]


def look(pair: str, path: str) -> Canary:
    """Read the queue or topic from the primary; errors of the service do not raise."""
    try:
        with namespace(pair, "primary") as here:
            return _queue(here, path) or _topic(here, path) or Canary(path, is_there=False)
    except NamespaceError as error:
        return Canary(path, is_there=False, trouble=str(error))


def _queue(here: Namespace, path: str) -> Canary | None:
    try:
        with here.asked() as administration:
            queue = administration.get_queue(path)
    except (ResourceNotFoundError, AttributeError):  # the SDK raises AttributeError if a topic has the name
        return None
    found = Canary(path, is_there=True, status=status_of(queue), forwards_to=queue.forward_to or "")
    if queue.requires_session:
        return replace(found, kind=Drill.Kind.SESSIONS)  # the session of a drill does not disturb others
    return replace(found, strangers=_has_strangers(here, path))


def _topic(here: Namespace, path: str) -> Canary | None:
    try:
        with here.asked(2) as administration:
            topic: Any = administration.get_topic(path)
            subscriptions = {one.name.lower(): one for one in administration.list_subscriptions(path)}
    except ResourceNotFoundError:
        return None
    own: Any = subscriptions.pop(CANARY, None)
    others = tuple(one.name for one in subscriptions.values())
    found = Canary(path, is_there=True, kind=Drill.Kind.TOPIC, status=status_of(topic), others=others)
    if own is None:
        return replace(found, lacks_subscription=True)
    return replace(
        found,
        status=found.status if found.status != "Active" else status_of(own),
        forwards_to=own.forward_to or "",
        needs_sessions=bool(own.requires_session),
        strangers=not own.requires_session and _has_strangers(here, path, subscription=CANARY),
    )


def _has_strangers(here: Namespace, path: str, *, subscription: str = "") -> bool:
    seen = here.peek(path, 0, dead=False, subscription=subscription)
    return None in [(message.application_properties or {}).get(MARK.encode()) for message in seen]


def moment(pair: Pair) -> Moment:
    """The further conditions, from the database."""
    away = EntityHealth.objects.filter(pair=pair, state__in=("failing", "failed_over")).order_by("rank", "path")
    running = Drill.open_ones().filter(pair=pair).first()
    return Moment(
        away=tuple(away.values_list("path", flat=True)[:4]),
        paused=SyphonPause.objects.filter(pair=pair, queue=WHOLE_PAIR).exists(),
        running=running.path if running else "",
        is_silent=is_silent(last_heartbeat(), timezone.now()),
    )


def marked(pair: str) -> DrillConfig | None:
    """The canary that PAIRS_FILE names for the pair."""
    try:
        found = load_pairs().get(pair)
    except PairsFileError:
        return None
    return found.drill if found else None


def canary_of(pair: str) -> str | None:
    """The canary of PAIRS_FILE, or None."""
    config = marked(pair)
    return config.entity if config else None


def is_marked(path: str, named: str | None) -> bool:
    """Whether drills on an entity need no typed name: it is the marked canary, or one that drills create. Pure."""
    return path.lower() in {CANARY, (named or CANARY).lower()}
