"""The folder or URL of the usage files, as jobs and messages may have it: without keys (`pipeline.usage.place`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.usage.place import VARIABLE, AddressError, missing_connector, remedy_for, without_keys

__all__ = ["AddressError", "argument_for", "missing_connector", "remedy_for", "variables_for"]


def argument_for(usage: str) -> str:
    """What a job is given: an absolute path, or a URL without keys."""
    return without_keys(usage) if "://" in usage else str(Path(usage).expanduser().absolute())


def variables_for(usage: str) -> Mapping[str, str]:
    """The variable that passes a URL with its keys to a job, where other users cannot read it."""
    return {VARIABLE: usage} if "://" in usage else {}
