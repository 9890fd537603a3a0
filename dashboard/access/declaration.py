"""Declaration of an action: once, for pages, API, commands, administration, audit trail and docs.

Each room declares its own actions; `dashboard.access.registry` lists all of them. A function becomes the execution of
an action by its decorator `audited`, which checks the right, records the request before and the outcome after it, and
carries out a request that is sent twice once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Concatenate, ParamSpec

from dashboard.access.audited import Outcome, Request, carry_out
from dashboard.access.rights import Right

P = ParamSpec("P")


class Argument(StrEnum):
    """An argument of an action in addition to its target and a reason."""

    EXPIRES = "expires"
    RATE = "rate"
    NUMBERS = "numbers"
    DESTINATION = "destination"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation of the API, and the subcommand `pairing <id>`: path, id, and the sentence that describes it.

    `title` is the summary that the OpenAPI document publishes.
    """

    path: str
    id: str
    description: str
    title: str = ""

    @property
    def summary(self) -> str:
        return self.title or self.id.replace("_", " ").title()


def of_pair(name: str, description: str, title: str = "") -> Operation:
    """The operation of the action with this name on something of a pair."""
    return Operation(f"/pairs/{{pair}}/{name.replace('_', '-')}", name, description, title)


@dataclass(frozen=True, slots=True)
class ListAction:
    """The action on selected rows in Django's admin: its name, its label below the list, and the title of the question.

    The question is the template `admin/<name of the action>.html`.
    """

    name: str
    label: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What an entry of the audit trail is about: the name that is stored, and the label that pages show."""

    name: str
    label: str

    def record(self, request: Request, detail: str) -> None:
        """Record what Django's admin or a worker has done; it has decided by itself that it may."""
        entry = request.entry(self.name)
        entry.outcome, entry.detail = "done", detail
        entry.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Verb):
    """One action of people: its labels, its right, its arguments, and the interfaces that offer it.

    `name` is also part of addresses. `label` is for lists and buttons, `title` and `button` are for the confirmation.
    `preview` describes the effect; `{it}` stands for the target of the action.
    """

    title: str = ""
    button: str = ""
    preview: str = ""
    undo: str = ""
    """How it is undone, for the table in the docs."""
    right: Right = Right.OPERATE
    arguments: tuple[Argument, ...] = ()
    is_atomic: bool = True
    """Whether it is one transaction. Not if it calls a namespace: no database lock is held during network calls."""
    is_limited: bool = False
    """Whether it changes only what the person sees, whatever the pair of the request is."""
    is_severe: bool = False
    """A reason is required."""
    asks_reason: bool = True
    event: str = ""
    """The kind of event that it records."""
    operation: Operation | None = None
    administration: ListAction | None = None
    offered: Mapping[str, int] = field(default_factory=dict)
    """The states of an entity in which pages offer it, each with its position among the offered actions."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Other labels, by the state of an entity."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.label)
        object.__setattr__(self, "button", self.button or self.label)

    def audited(self, run: Callable[Concatenate[Request, P], Outcome]) -> Callable[Concatenate[Request, P], Outcome]:
        """Make a function the execution of this action. It raises Refused and ActionError, which are recorded."""

        @wraps(run)
        def audited(request: Request, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
            return self.execute(request, lambda: run(request, *args, **kwargs))

        return audited

    def execute(self, request: Request, run: Callable[[], Outcome]) -> Outcome:
        """Run this once as the action: permission-checked and audited."""
        return carry_out(
            request.entry(self.name),
            request.user,
            run,
            right=self.right,
            atomic=self.is_atomic,
            is_limited=self.is_limited,
        )

    @property
    def effect(self) -> str:
        """One sentence about the effect, for the table in the docs."""
        return self.operation.description if self.operation else self.preview

    @property
    def asks_expiry(self) -> bool:
        return Argument.EXPIRES in self.arguments

    @property
    def asks_rate(self) -> bool:
        return Argument.RATE in self.arguments

    def describe(self, name: str) -> str:
        """The preview, with the name of the target."""
        sentence = self.preview.format(it=name)
        return sentence[:1].upper() + sentence[1:] if self.preview.startswith("{it} ") and " " in name else sentence
