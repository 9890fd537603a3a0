"""Errors that every room may meet."""


class Unavailable(Exception):
    """Something outside the control plane, which it needs, does not answer or refuses. The text is for people."""
