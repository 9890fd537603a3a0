"""The keys in Redis that the library uses, and the type of each; ``docs/design/coordination.md`` describes them."""

import re
from collections.abc import Iterable, Mapping

PAIRING: Mapping[str, str] = {
    "pairing:events": "stream",
    "pairing:usage": "stream",
    "pairing:set-aside": "hash",
    "pairing:{*}:health": "hash",
    "pairing:{*}:latest": "string",
    "pairing:{*}:changed": "zset",
    "pairing:{*}:born": "string",
    "pairing:{*}:known": "set",
    "pairing:{*}:ping-due": "hash",
    "pairing:{*}:pings": "hash",
    "pairing:{*}:syphon": "hash",
    "pairing:{*}:pace": "hash",
    "pairing:{*}:ledger": "hash",
    "pairing:{*}:ledger-token": "hash",
    "pairing:{*}:fence": "hash",
    "pairing:{*}:lease:*": "string",
    "pairing:{*}:rotations": "hash",
    "pairing:{*}:processes": "hash",
    "pairing:{*}:fills": "hash",
    "pairing:{*}:fills-warned": "hash",
    "pairing:{*}:fills-look": "string",
    "pairing:{*}:queues": "hash",
    "pairing:{*}:queues-repair": "string",
    "pairing:{*}:dead_letter_results:*": "list",
    "pairing:{*}:left-ledgers:*": "list",
    "pairing:{*}:session-gates": "hash",
    "pairing:{*}:session-epoch": "string",
    "pairing:{*}:session-latest": "string",
    "pairing:{*}:session-queues": "hash",
    "pairing:{*}:sessions:*": "hash",
}
"""Type by pattern: ``{*}`` is the name of a pair, any other ``*`` any characters. ``counter`` is a whole number."""

SET_ASIDE = "pairing:set-aside"
"""Hash: key → JSON with the type that was found, and when it was set aside."""


class Keys:
    """The type of each key of a table."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._patterns = [(_compiled(pattern), kind) for pattern, kind in table.items()]

    def kind_of(self, key: str) -> str | None:
        """The type of a key; None if it is not in the table."""
        return next((kind for pattern, kind in self._patterns if pattern.fullmatch(key)), None)

    def among(self, arguments: Iterable[object]) -> dict[str, str]:
        """The arguments of a command that are keys of the table, with their types."""
        texts = (one.decode(errors="replace") if isinstance(one, bytes) else one for one in arguments)
        found = ((text, self.kind_of(text)) for text in texts if isinstance(text, str))
        return {text: kind for text, kind in found if kind is not None}


def _compiled(pattern: str) -> re.Pattern[str]:
    names = re.escape(pattern).replace(re.escape("{*}"), r"\{[^}]*\}").replace(re.escape("*"), ".*")
    return re.compile(names, re.DOTALL)
