"""Template tags of readiness: badges of scores and results, and links to them for other pages."""

from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.models import EntityHealth, Pair, Readiness
from dashboard.readiness.boards import BADGES, RESULT_BADGES, is_stale
from dashboard.readiness.score import WEIGHTS, capped, word
from dashboard.templatetags.dashboard import badge

register = template.Library()
register.filter(capped)

WORDS = {"ready": "Ready", "weak": "Weak", "endangered": "Endangered", "unknown": "Not known"}
MEANINGS = {
    "ready": "According to all checks, a failover would work.",
    "weak": "A failover would work, but some checks failed.",
    "endangered": "According to the checks, a failover would not work or not complete.",
    "unknown": "Not checked recently.",
}
RESULT_LABELS = {"good": "Good", "weak": "Weak", "bad": "Bad", "unknown": "Not known"}


@register.simple_tag
def score_badge(points: int | None) -> SafeString:
    """A score as shape, colour, word and number."""
    level = word(points)
    label = WORDS[level] if points is None else f"{WORDS[level]} {points}"
    return badge(BADGES[level], label, MEANINGS[level])


@register.simple_tag
def result_badge(result: str) -> SafeString:
    """The result of a check as shape, colour and word."""
    return badge(RESULT_BADGES[result], RESULT_LABELS[result], RESULT_LABELS[result])


@register.filter
def check_title(name: str) -> str:
    """The title of a check; the name of one that is no longer run."""
    return WEIGHTS[name].title if name in WEIGHTS else name


@register.filter
def result_label(result: str) -> str:
    """The result of a check in words within a sentence."""
    return RESULT_LABELS[result].lower()


@register.inclusion_tag("readiness/small.html")
def pair_readiness(pair: Pair) -> dict[str, Any]:
    """The score of one of `watched_pairs` with a link to its checks, for other pages."""
    known = vars(pair)
    score = _if_recent(known.get("ready_score"), known.get("ready_checked_at"))
    lowest = known.get("ready_lowest")
    differs = score is not None and lowest is not None and lowest != score
    return {
        "score": score,
        "lowest": lowest if differs else None,
        "href": f"{reverse('readiness')}?pair={pair.name}",
    }


@register.inclusion_tag("readiness/small.html")
def entity_readiness(entity: EntityHealth) -> dict[str, Any]:
    """The entity's score with a link to its checks, for other pages."""
    row = Readiness.objects.filter(pair=entity.pair_id, entity=entity.path).first()
    href = reverse("readiness-entity", args=[entity.pair.name, entity.path])
    return {"score": row and _if_recent(row.score, row.checked_at), "lowest": None, "href": href}


def _if_recent(score: int | None, checked_at: datetime | None) -> int | None:
    return None if is_stale(checked_at, timezone.now()) else score
