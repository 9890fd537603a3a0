"""Entities grouped by folder, the path up to its first slash, so that thousands fit on one page."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Case, CharField, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Left, StrIndex

from dashboard.models import EntityHealth

SLASH = StrIndex("path", Value("/"))
FOLDER = Case(When(path__contains="/", then=Left("path", SLASH)), default=F("path"), output_field=CharField())
MOST = 200


@dataclass(frozen=True, slots=True)
class Folder:
    """The counts of one pair's entities in one folder. An entity without a slash is its own folder."""

    pair: str
    name: str
    entities: int
    failed_over: int
    failing: int
    draining: int
    waiting: int

    @property
    def query(self) -> str:
        """The URL of its entities."""
        return urlencode({"under": self.name})


def folders(entities: QuerySet[EntityHealth]) -> list[Folder]:
    """The folders of these entities, unhealthy ones first; in one query."""
    counted = (
        entities.order_by()
        .annotate(folder=FOLDER)
        .values("pair__name", "folder")
        .annotate(
            n=Count("pk"),
            failed_over=Count("pk", filter=Q(state="failed_over")),
            failing=Count("pk", filter=Q(state="failing")),
            draining=Count("pk", filter=Q(rank=2)),
            messages=Sum("waiting", default=0),
        )
        .order_by("-failed_over", "-failing", "-messages", "pair__name", "folder")
    )
    return [
        Folder(
            row["pair__name"],
            row["folder"],
            row["n"],
            row["failed_over"],
            row["failing"],
            row["draining"],
            row["messages"],
        )
        for row in counted[:MOST]
    ]
