"""The static files of the pages are searched once by each process of the tests.

Every client of Django's tests loads the middleware anew, and WhiteNoise's looks at all files: 10 ms for a client.
"""

from typing import Any

from whitenoise.middleware import WhiteNoiseMiddleware

_search = WhiteNoiseMiddleware.add_files_from_finders
_found: dict[str, Any] = {}


def add_files_from_finders(self: Any) -> None:
    """What the middleware does when it is loaded: the files that were found first, instead of a search."""
    if not _found:
        _search(self)
        _found.update(self.files)
    self.files.update(_found)


def search_once() -> None:
    """Use it from now on."""
    WhiteNoiseMiddleware.add_files_from_finders = add_files_from_finders
