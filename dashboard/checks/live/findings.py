"""What a trial says about one assumption, and what an error says. Pure."""

from __future__ import annotations

from azure.core.exceptions import HttpResponseError

from dashboard.checks.live.assumptions import Holding, Result
from pairing.errors import Fault
from pairing.health.faults import classify, describe

Found = Result
_BAD_REQUEST = 400


def held(id_: str) -> Found:
    """The service does as assumed."""
    return Result(id_, Holding.HOLDS, "")


def failed(id_: str, reason: str) -> Found:
    """The service does something else."""
    return Result(id_, Holding.FAILS, reason)


def unknown(id_: str, reason: str) -> Found:
    """Nothing was learned."""
    return Result(id_, Holding.UNKNOWN, reason)


def held_if(id_: str, is_so: bool, otherwise: str) -> Found:
    """Held, or failed with what was found instead."""
    return held(id_) if is_so else failed(id_, otherwise)


def after_error(id_: str, error: Exception) -> Found:
    """What an error says about the assumption that was being tried.

    A namespace that does not answer, is busy, or misses a right says nothing about it; a definite refusal does.
    """
    reason = describe(error)
    if isinstance(error, HttpResponseError) and error.status_code == _BAD_REQUEST:
        return failed(id_, reason)
    is_refused = classify(error, known=True) is Fault.CALLER
    return failed(id_, reason) if is_refused else unknown(id_, reason)
