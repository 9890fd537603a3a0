"""What every page knows."""

from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dashboard.access.rights import Right, may
from dashboard.access.visibility import sees_all
from dashboard.site.menu import open_alerts
from dashboard.site.queries import unread
from dashboard.urls import MENU


def page(request: HttpRequest) -> dict[str, Any]:
    """The person's rights (also for what concerns all pairs), the menu, and what of the address could not be read.

    How many alerts are open is asked at most once, by the menu or a headline.
    """
    user = getattr(request, "user", None)
    if user is None:
        return {}
    return {
        "may_operate": may(user, Right.OPERATE),
        "may_administer": may(user, Right.ADMINISTER),
        "may_operate_all": may(user, Right.OPERATE) and sees_all(),
        "is_demo": settings.DEMO,
        "simulated_until": settings.SIMULATED_UNTIL,
        "has_provider": bool(settings.OIDC_ISSUER),
        "has_local_login": settings.LOCAL_LOGIN,
        "menu": MENU,
        "menu_alerts": cache(open_alerts),
        "unread": unread(request),
    }
