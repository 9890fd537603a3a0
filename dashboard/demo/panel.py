"""The demo's panel: delivery counts and faults. Only in the demo, with both namespaces on this host."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from dashboard.demo.delivery_proof import Account, Bookkeeper, Held, Totals, bitmaps
from dashboard.demo.faults import EVERYTHING, EmulatorError, Fault, LocalNamespace
from dashboard.demo.stage import PAIR, QUEUES
from dashboard.fleet.pairs.pairs_file import PairsFileError, load_pairs
from dashboard.models import Pair
from dashboard.site.redis import RedisError

TRANSFER = "/x-servicebus-transfer/"
WORDS = {"reject": "rejects", "silent": "does not answer", "reset": "resets"}
_bookkeepers: dict[str, Bookkeeper] = defaultdict(Bookkeeper)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The present fault of an entity."""

    path: str
    word: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The demo's part of the pair page. `problem` is why there are no counts."""

    totals: Totals | None
    breakdowns: Sequence[Breakdown]
    paths: Sequence[str]
    problem: str = ""

    @property
    def whole_primary(self) -> Breakdown | None:
        return next((one for one in self.breakdowns if one.path == EVERYTHING), None)

    @property
    def rows(self) -> list[tuple[Account, str]]:
        """The counts of each queue, and a label for its fault, if any."""
        words = {one.path: one.word for one in self.breakdowns}
        return [(account, words.get(account.queue, "")) for account in (self.totals.accounts if self.totals else ())]


def is_demo(pair: Pair) -> bool:
    """Whether faults may be injected into this pair from its page."""
    return bool(settings.DEMO) and pair.is_emulated


def primary_of(pair: Pair) -> LocalNamespace:
    """The pair's primary. Raises EmulatorError if it is not local."""
    return _ends(pair)[0]


def panel(pair: Pair) -> Panel | None:
    """The panel of a pair; None outside the demo, and for a pair without sample applications."""
    if not is_demo(pair):
        return None
    sampled = pair.entities.filter(is_configured=True, kind="queue", path__in=QUEUES)
    paths = list(sampled.order_by("path").values_list("path", flat=True)) if pair.name == PAIR else []
    if not paths:
        return None
    try:
        primary, secondary = _ends(pair)
        faults = primary.faults()
        totals = _bookkeepers[pair.name].close(
            paths, bitmaps(settings.REDIS_URL), lambda: held(primary, secondary, paths)
        )
    except EmulatorError as error:
        return Panel(None, (), paths, str(error))
    except RedisError:
        return Panel(None, (), paths, "Redis does not answer.")
    return Panel(totals, _breakdowns(faults), paths)


def held(primary: LocalNamespace, secondary: LocalNamespace, paths: Sequence[str]) -> Held:
    """The messages in both namespaces. The backlog is read first, so drained messages are not missed."""
    ours = f"{primary.name}{TRANSFER}".lower()  # backlog queues of other primaries hold no messages of this pair
    backlog = sum(_stock(row) for path, row in secondary.stats().items() if path.lower().startswith(ours))
    counts = primary.stats()
    return Held({path: _stock(counts.get(path, {})) for path in paths}, backlog)


def _stock(row: Mapping[str, int]) -> int:
    return row.get("active", 0) + row.get("dead_lettered", 0)


def _ends(pair: Pair) -> tuple[LocalNamespace, LocalNamespace]:
    try:
        config = load_pairs().get(pair.name)
    except PairsFileError as error:
        raise EmulatorError(str(error)) from error
    if config is None:
        raise EmulatorError(f"PAIRS_FILE no longer names {pair.name}.")
    return LocalNamespace.of(config.primary), LocalNamespace.of(config.secondary)


def _breakdowns(faults: Sequence[Fault]) -> list[Breakdown]:
    found = {fault.path: WORDS.get(fault.effect, fault.effect) for fault in reversed(faults)}
    return [Breakdown(path, word) for path, word in sorted(found.items())]
