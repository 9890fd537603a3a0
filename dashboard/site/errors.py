"""Errors shared by all rooms."""


class Unavailable(Exception):
    """An external service that is needed does not respond or refuses. The text is for people."""
