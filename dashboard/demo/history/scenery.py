"""The entities of the demo's two pairs, and how busy they are. Pure."""

from dataclasses import dataclass

LIVE_PAIR, OTHER_PAIR = "contoso", "northwind"
LIVE = ("orders", "payments", "shipments", "invoices/eu")
"""The queues that the sample applications use; all others have traffic in the simulated past only."""
SUBSCRIPTION = "demo-simulated"
"""The billing scope of both pairs, so that rows of charges show where they come from."""
BACKLOG_QUEUES = 4
MESSAGE_BYTES = 900
TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Watched:
    """An entity, and its messages per hour on average."""

    pair: str
    path: str
    per_hour: int
    kind: str = "queue"

    @property
    def configured(self) -> str:
        """As PAIRS_FILE writes it."""
        return f"topic:{self.path}" if self.kind == TOPIC else self.path

    @property
    def created(self) -> str:
        """As the emulator's `--entity` takes it; a topic with a subscription."""
        return f"{self.pair}/topic:{self.path}/audit" if self.kind == TOPIC else f"{self.pair}/{self.path}"


def _of(pair: str, folder: str, **per_hour: int) -> list[Watched]:
    return [Watched(pair, f"{folder}/{name.replace('_', '-')}", rate) for name, rate in per_hour.items()]


ENTITIES: tuple[Watched, ...] = (
    *(Watched(LIVE_PAIR, path, 3_600) for path in LIVE),
    *_of(LIVE_PAIR, "invoices", us=2_900, apac=1_700),
    *_of(LIVE_PAIR, "billing", credit_notes=240, reminders=610, exports=90),
    *_of(LIVE_PAIR, "shop", basket=7_400, checkout=2_600, wishlist=1_150),
    *_of(LIVE_PAIR, "fulfilment", picking=3_100, packing=2_950, labels=2_800),
    *_of(LIVE_PAIR, "crm", contacts=420, cases=310, newsletters=1_900),
    *_of(LIVE_PAIR, "risk", screening=2_450, chargebacks=60, reviews=130),
    Watched(LIVE_PAIR, "catalogue", 800, TOPIC),
    *_of(OTHER_PAIR, "plant", sensors=9_600, alarms=140, maintenance=75, shifts=50),
    *_of(OTHER_PAIR, "stock", levels=5_200, moves=4_100, counts=380, replenishment=900),
    *_of(OTHER_PAIR, "carriers", bookings=1_300, tracking=6_800, claims=45),
    *_of(OTHER_PAIR, "customs", declarations=520, releases=510, duties=260),
    *_of(OTHER_PAIR, "fleet", positions=8_900, fuel=350, tachographs=700),
    Watched(OTHER_PAIR, "suppliers", 480, TOPIC),
)


def of_pair(pair: str) -> list[Watched]:
    """The entities of a pair."""
    return [one for one in ENTITIES if one.pair == pair]


def secondary_of(pair: str) -> str:
    """The name of a pair's secondary namespace; that of the primary is the pair's."""
    return f"{pair}-dr"
