"""How an action of operators is declared: once, for pages, API, commands, administration and docs.

Each room declares its own actions, as subclasses that also say what the action applies to and how it is carried out;
`dashboard.access.registry` lists all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dashboard.access.rights import Right


class Argument(StrEnum):
    """An argument of an action in addition to its target and a reason."""

    EXPIRES = "expires"
    RATE = "rate"
    NUMBERS = "numbers"
    DESTINATION = "destination"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, slots=True)
class Command:
    """The subcommand of `manage.py pairing`, and its line of help."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation of the API: path, operation id, and the sentence that describes it.

    `title` is the summary that the OpenAPI document publishes.
    """

    path: str
    id: str
    description: str
    title: str = ""

    @property
    def summary(self) -> str:
        return self.title or self.id.replace("_", " ").title()


@dataclass(frozen=True, slots=True)
class ListAction:
    """The action on selected rows in Django's admin: its name, its label below the list, and the title of the question.

    The question is the template `admin/<name of the action>.html`.
    """

    name: str
    label: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action: its name, its labels, its right, its arguments, and the interfaces that offer it.

    `name` is stored in the audit trail and is part of addresses. `label` is for lists and buttons, `title` and `button`
    are for the confirmation. `preview` describes the effect; `{it}` stands for the target of the action.
    """

    name: str
    label: str
    title: str = ""
    button: str = ""
    preview: str = ""
    undo: str = ""
    """How it is undone, for the table in the docs."""
    right: Right = Right.OPERATE
    arguments: tuple[Argument, ...] = ()
    is_severe: bool = False
    """A reason is required."""
    asks_reason: bool = True
    event: str = ""
    """The kind of event that it records."""
    command: Command | None = None
    operation: Operation | None = None
    administration: ListAction | None = None
    offered: Mapping[str, int] = field(default_factory=dict)
    """The states of an entity in which pages offer it, each with its position among the offered actions."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Other labels, by the state of an entity."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.label)
        object.__setattr__(self, "button", self.button or self.label)

    def title_in(self, state: str) -> str:
        """The title of the confirmation, for the state of an entity if there is one."""
        return self.labels.get(state, self.title)

    def button_in(self, state: str) -> str:
        """The label of its button, likewise."""
        return self.labels.get(state, self.button)

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
