"""The gateway's own keys, and its credential at the primary, which clients have that prove one of those keys.

Everything else that a client shows is passed on as it is: the primary decides.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from amqp10 import performatives as p
from amqp10 import sas, sasl
from amqp10.addresses import path_of
from amqp10.cbs import SAS_TOKEN
from gateway.namespace import Namespace
from gateway.pairs import PairError

KEY_NAME = "gateway"


class Access:
    """Replaces what was signed with one of the gateway's keys by what the gateway's own credential signs."""

    def __init__(self, keys: Mapping[str, str], primary: Namespace) -> None:
        self._keys, self._primary = keys, primary
        self._name, self._key = primary.key_name, primary.key
        if keys and not self._key:
            raise PairError("Clients with keys of the gateway need a primary with a key: give connection_string_env.")

    def plain(self, init: p.SaslInit) -> bytes | None:
        """The `sasl-init` that the primary gets for one with a key of the gateway; None for any other."""
        if init.mechanism != "PLAIN" or not self.has(name_and_key(init)):
            return None
        own = sasl.Credentials.plain(self._name, self._key)
        return p.encode_performative(p.SaslInit(own.mechanism, own.response, self._primary.hostname))

    def has(self, shown: str) -> bool:
        """Whether this is the name and the value of a key of the gateway, with a zero between them."""
        name, _, key = shown.partition("\0")
        return sas.KeyRing(self._keys).has(name, key)

    def for_primary(self, init: p.SaslInit) -> bytes | None:
        """The `sasl-init` with the primary as its host; None if it names none or the primary already."""
        if init.hostname in (None, self._primary.hostname):
            return None
        return p.encode_performative(replace(init, hostname=self._primary.hostname))

    def token(self, token: str, audience: str) -> tuple[str, str] | None:
        """Kind and token that the primary gets for one that a key of the gateway signed; None for any other.

        The audience is the primary's; both tokens end at the same time.
        """
        if (signed := _signed(token, self._keys, audience)) is None:
            return None
        return SAS_TOKEN, sas.sign(self._name, self._key, audience, int(signed.expires_at))

    def proves(self, token: str, audience: str) -> bool:
        """Whether a key of the gateway, or its own credential, has signed a token for this audience."""
        keys = {**self._keys, **({self._name: self._key} if self._key else {})}
        return _signed(token, keys, audience) is not None


def name_and_key(init: p.SaslInit) -> str:
    """What a client shows with PLAIN: a name, a zero and a key."""
    return (init.initial_response or b"").partition(b"\0")[2].decode(errors="replace")


def _signed(token: str, keys: Mapping[str, str], audience: str) -> sas.Token | None:
    """A token that one of these keys has signed for this audience; None for any other."""
    try:
        signed = sas.verify(token, keys, time.time())
    except sas.TokenError:
        return None
    return signed if signed.covers(path_of(audience)) else None


def read_keys(file: Path) -> dict[str, str]:
    """Keys by name: a line with a name and a key for each, or a key alone. Raises PairError."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines or any(len(line) > 2 or ";" in "".join(line) for line in lines):
        raise PairError(f"The key file {file} needs a name and a key on each line, or one key; none has a semicolon.")
    return {line[0] if len(line) == 2 else KEY_NAME: line[-1] for line in lines}
