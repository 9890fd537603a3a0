"""Errors that end the demo early."""


class DemoError(Exception):
    """The demo cannot start or continue; the text is one sentence that says what to do."""
