"""The register of assumptions about Service Bus: each is one function that tries it. `tests/contract` runs the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from azure.core.exceptions import HttpResponseError

from dashboard.checks.stage import Stage
from pairing.errors import Fault
from pairing.health.faults import classify, describe

Trial = Callable[[Stage], None]
_BAD_REQUEST = 400


class Holding(StrEnum):
    """The result of trying an assumption."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "could not tell"


class Contradicted(Exception):
    """The service does something else; the text says what."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """One statement about the service, and the function that tries it."""

    id: str
    sentence: str
    section: str
    """A page of docs/ with the anchor of a heading."""
    trial: Trial

    def line(self, holding: Holding, reason: str) -> str:
        """The result as a line; only what does not hold, or is not known, needs its reason."""
        line = f"{holding:<14} {self.id:<22} {self.sentence}"
        return f"{line} {reason.rstrip('.')}. (docs/{self.section})" if reason else line

    def tried(self, stage: Stage) -> tuple[Holding, str]:
        """The result, with a reason unless it holds.

        A namespace that does not answer, is busy, or refuses a right says nothing about the assumption.
        """
        try:
            self.trial(stage)
        except Contradicted as found:
            return Holding.FAILS, str(found)
        except Exception as error:
            return (Holding.FAILS if _is_definite(error) else Holding.UNKNOWN), describe(error)
        return Holding.HOLDS, ""


ASSUMPTIONS: dict[str, Assumption] = {}
"""By id, in the order in which they are tried."""


def assumption(id_: str, section: str) -> Callable[[Trial], Trial]:
    """Register a trial; its docstring is the assumption."""

    def register(trial: Trial) -> Trial:
        ASSUMPTIONS[id_] = Assumption(id_, trial.__doc__ or "", section, trial)
        return trial

    return register


def expect(is_so: bool, otherwise: str) -> None:
    """Raise Contradicted with what was found instead."""
    if not is_so:
        raise Contradicted(otherwise)


def _is_definite(error: Exception) -> bool:
    is_bad_request = isinstance(error, HttpResponseError) and error.status_code == _BAD_REQUEST
    return is_bad_request or classify(error, known=True) is Fault.CALLER
