"""Whether a request comes with a session or a token that is valid now: asked before a large body is taken."""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import DatabaseError, close_old_connections
from django.http import parse_cookie
from django.utils import timezone

from dashboard.access import tokens


def is_known(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the headers have a valid session or token. True if the database does not answer: it decides later."""
    named = {name: value.decode("latin-1") for name, value in headers}
    scheme, _, token = named.get(b"authorization", "").partition(" ")
    close_old_connections()
    try:
        if scheme.lower() == "bearer":
            return tokens.find(token, timezone.now()) is not None
        return _has_session(parse_cookie(named.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME, ""))
    except DatabaseError:
        return True
    finally:
        close_old_connections()


def _has_session(key: str) -> bool:
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    return bool(key) and SESSION_KEY in store(key)
