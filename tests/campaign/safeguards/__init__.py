"""Each safeguard of the library, and what removes it from a copy: a campaign without it has to find that something is
broken. None of this is code of the product; a change whose text is not there exactly once fails loudly.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COPY = "CAMPAIGN_COPY"
ROOMS = ("pairing", "amqp10", "gateway", "emulator", "dashboard", "workers", "pipeline", "tests", "templates", "tools")
FILES = ("manage.py", "pyproject.toml")


class SafeguardError(Exception):
    """The code has changed: the text that a safeguard consists of is not there exactly once."""


@dataclass(frozen=True, slots=True)
class Change:
    """A text of a file that is replaced by another one."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Replace it. Raises SafeguardError."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.count(self.old) != 1:
            raise SafeguardError(f"{self.file} has {text.count(self.old)} times, instead of once: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Safeguard:
    """What protects against what, how it is removed, and what holds it beside the campaign."""

    protects: str
    changes: tuple[Change, ...]
    checks: tuple[str, ...]
    """The checks of the judge that notice it."""
    tests: tuple[str, ...]
    """Tests that fail without it."""


_MAY_SERVE = """\
        if self._shared is None:
            return True
        lease = self._leases[queue]
        if lease"""

SETTLE = Safeguard(
    "a message is completed in the backlog only after the primary has acknowledged it",
    (Change("pairing/drain/sending.py", "done += group[: sent.count]", "done += group[:tried]"),),
    ("lost",),
    ("tests/pairing/test_syphon_model.py",),
)
LEASE = Safeguard(
    "one process at a time drains a backlog queue, and one that has lost it stores no ledger",
    (
        Change(
            "pairing/drain/shared/lease_holder.py",
            _MAY_SERVE,
            _MAY_SERVE.replace("if self._shared is None:\n            return True", "return True"),
        ),
        Change(
            "pairing/drain/shared/lease_holder.py",
            "if self._shared is None or token is None:\n            return True",
            "return True",
        ),
        Change("pairing/fleet/lua/keep_ledger.lua", "if tonumber(ARGV[3]) < fence then return 0 end\n", ""),
    ),
    ("ledger", "order", "doubled", "left behind"),
    ("tests/pairing/test_lease_holder.py", "tests/pairing/test_syphon_fleet.py"),
)
ASK = Safeguard(
    "the lease is asked right before each send, so that a process that was frozen sends nothing",
    (
        Change(
            "pairing/drain/primary_operations.py",
            "            require_lease(self._holds)\n            yield",
            "            yield",
        ),
    ),
    ("doubled", "order"),
    ("tests/pairing/test_syphon_fleet.py",),
)
IDENTITY = Safeguard(
    "a message keeps its message id on its way through the backlog",
    (
        Change(
            "pairing/messages/rewriting.py",
            "        properties.group_id = session_id\n",
            "        properties.group_id = session_id\n        properties.message_id = str(uuid4())\n",
        ),
    ),
    ("foreign",),
    ("tests/pairing/test_messages_round_trip.py",),
)
BARRIER = Safeguard(
    "new messages of a session follow those in the backlog",
    (
        Change(
            "pairing/sessions/order.py",
            "        if session is not None:\n            key, token",
            "        if session is not None and not session:\n            key, token",
        ),
    ),
    ("order",),
    ("tests/pairing/test_session_order_model.py", "tests/pairing/test_session_order_fleet.py"),
)
USAGE = Safeguard(
    "a usage record that is reported again with higher numbers replaces the one before",
    (
        Change(
            "pairing/telemetry/metering.py", '{kind}/{namespace}/{entity}"\n', '{kind}/{namespace}/{entity}/{seq}"\n'
        ),
    ),
    ("usage",),
    ("tests/pairing/test_metering.py",),
)
RETAINED = Safeguard(
    "a gateway keeps a delivery, and accepts it once a namespace has",
    (
        Change(
            "gateway/guard/link.py",
            "            self._pass_on(parts, kept)\n",
            "            self._settle(kept, ACCEPTED)\n            self._pass_on(parts, number)\n            return\n",
        ),
    ),
    ("lost",),
    ("tests/gateway/test_guard.py",),
)
RELEASED = Safeguard(
    "a gateway rejects what neither namespace has accepted, and does not release it, which SDKs take for success",
    (Change("gateway/guard/link.py", "encode(p.rejected(p.error(name, str(error))))", 'b"\\x00\\x53\\x26\\x45"'),),
    ("seen", "lost", "hung"),
    ("tests/gateway/test_limits.py",),
)
HIDDEN = Safeguard(
    "a client does not learn that the primary has detached a link on which deliveries have no outcome",
    (Change("gateway/guard/link.py", "if not self.is_known:  # refused", "if not self.is_known or self._kept:"),),
    ("seen",),
    ("tests/gateway/test_guard.py",),
)
PROVEN = Safeguard(
    "while the primary is away, only who has proved a right is let in",
    (Change("gateway/standin.py", "if self._access.proves(grant.shown, audience):", "if audience:"),),
    ("foreign",),
    ("tests/gateway/test_standin.py",),
)
SAFEGUARDS: dict[str, Safeguard] = {
    "settle": SETTLE,
    "lease": LEASE,
    "ask": ASK,
    "identity": IDENTITY,
    "barrier": BARRIER,
    "usage": USAGE,
    "retained": RETAINED,
    "released": RELEASED,
    "hidden": HIDDEN,
    "proven": PROVEN,
}


def make_copy(name: str, root: Path) -> None:
    """A copy of this checkout without the safeguard. Raises SafeguardError."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for room in ROOMS:
        shutil.copytree(ROOT / room, root / room, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, root / file)
    for change in SAFEGUARDS[name].changes:
        change.apply(root)


def run_copy(name: str, folder: Path) -> int:
    """The campaign of a folder, run by a copy without the safeguard; its exit code."""
    root = folder / "copy"
    make_copy(name, root)
    environment = {**os.environ, COPY: "1", "PYTHONPATH": str(root)}
    argv = [sys.executable, "-m", "tests.campaign", "--resume", str(folder)]
    return subprocess.run(argv, cwd=root, env=environment, check=False).returncode
