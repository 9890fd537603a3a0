"""What may end the demo before its time."""


class DemoError(Exception):
    """The demo cannot start or go on; the text is one sentence that says what to do."""
