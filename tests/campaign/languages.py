"""Senders in other languages: programs of their SDKs, which the sender's process has under it, through a gateway.

Those of Go, Java and JavaScript get each send as a line; that of .NET makes sends of its own until it is ended.
"""

import base64
import os
import subprocess
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from azure.servicebus import ServiceBusMessage

from tests.campaign import letters
from tests.campaign.letters import Letter, Turn
from tests.emulator.clients import programs

NET = ".NET"
LANGUAGES = ("Go", "Java", "JavaScript", NET)
WHOLE = ("UBYTE", "USHORT", "UINT", "ULONG", "BYTE", "SHORT", "INT", "LONG")
FIELDS = {name.lower(): {"TYPE": name, "VALUE": 7} for name in WHOLE} | {"ratio": 0.5, "due": letters.MOMENT}
"""The application properties that each program sets."""
OF_NET, EVERY_MS = 20, 1000
"""The sends of .NET: what it says of one has to be read before it begins the next."""
TRY_S = "20"  # as docs/gateway-clients.md advises
_numbers = count()


@dataclass(frozen=True, slots=True)
class Written(Letter):
    """A message as the programs write it; .NET's has no property, by which it would be known, and no subject."""

    @property
    def digest(self) -> str:
        known = {**self.properties, letters.IDENTITY: self.identity} if self.properties else {}
        return letters.digested([self.body, None, self.subject or None, None, None], known)


def turn(turn: Turn, language: str, prefix: str) -> Turn:
    """A turn as this program sends it. Those of .NET are asked for in order, each once."""
    if language != NET:
        made = (Written(one.identity, one.body, FIELDS, one.identity, None, turn.target) for one in turn.letters)
        return replace(turn, letters=tuple(made))
    ids = [f"{prefix}{next(_numbers)}" for _ in range(OF_NET)]
    made = (Written(f"<{one}>", one.encode(), {}, one, None, "") for one in ids)
    return Turn(turn.number, "orders", "list", tuple(made))


class Program:
    """A program with its connection to a gateway."""

    def __init__(self, language: str, connection_string: str, prefix: str) -> None:
        more = ("--prefix", prefix, "--batch", str(OF_NET), "--every", str(EVERY_MS), "--try", TRY_S)
        argv, environment = programs.sends(language, connection_string, 10**9, *more)
        environment["TRY_S"] = TRY_S
        self.process = subprocess.Popen(
            argv, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines = OF_NET if language == NET else 1

    def get_queue_sender(self, entity: str) -> "Sender":
        return Sender(self, entity)

    get_topic_sender = get_queue_sender

    def close(self) -> None:
        """End it between two sends: .NET pauses after each."""
        self.process.kill()
        self.process.wait()


class Sender:
    """A sender of the SDK to one entity, as far as a campaign uses it."""

    def __init__(self, program: Program, entity: str) -> None:
        self._program, self._entity, self.pid = program, entity, program.process.pid
        self.create_message_batch = _Batch

    def send_messages(self, messages: ServiceBusMessage | list[ServiceBusMessage]) -> None:
        """Raises RuntimeError if the program says that it failed."""
        process = self._program.process
        assert process.stdin is not None
        assert process.stdout is not None
        if self._program.lines == 1:
            some = messages if isinstance(messages, list) else [messages]
            parts = [(str(one.message_id), base64.b64encode(b"".join(one.body)).decode()) for one in some]
            process.stdin.write(" ".join((self._entity, *(word for part in parts for word in part))) + "\n")
        said = [process.stdout.readline() for _ in range(self._program.lines)]
        if not all(said):
            raise SystemExit("the program has ended by itself")
        if failed := [line for line in said if not line.startswith("accepted")]:
            raise RuntimeError(failed[0].strip())


class _Batch(list[Any]):
    add_message = list.append
