"""What every page knows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dashboard.access.rights import Right, may
from dashboard.site.open_alerts import open_alerts
from dashboard.urls import MENU


def page(request: HttpRequest) -> dict[str, Any]:
    """The person's rights, the menu, and how many alerts are open; that is asked for by the menu alone."""
    user = getattr(request, "user", None)
    if user is None:
        return {}
    return {
        "may_operate": may(user, Right.OPERATE),
        "may_administer": may(user, Right.ADMINISTER),
        "is_demo": settings.DEMO,
        "simulated_until": settings.SIMULATED_UNTIL,
        "has_provider": bool(settings.OIDC_ISSUER),
        "has_local_login": settings.LOCAL_LOGIN,
        "menu": MENU,
        "menu_alerts": open_alerts,
    }
