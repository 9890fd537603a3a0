"""What every page knows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dashboard.access import Right, may


def page(request: HttpRequest) -> dict[str, Any]:
    """The person's rights."""
    user = getattr(request, "user", None)
    if user is None:
        return {}
    return {
        "may_operate": may(user, Right.OPERATE),
        "may_administer": may(user, Right.ADMINISTER),
        "is_demo": settings.DEMO,
    }
