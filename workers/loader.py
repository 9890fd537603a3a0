"""What a worker does first: it looks at PAIRS_FILE before Celery loads all tasks and Django all pages.

That takes seconds of processor time, on a busy machine half a minute, and a wrong file would be reported after it.
"""

import sys
from collections.abc import Mapping
from typing import Any

from celery.loaders.app import AppLoader
from celery.signals import celeryd_init
from django.core.exceptions import ImproperlyConfigured

from dashboard.fleet.pairs_file import load_pairs, require_connection_strings
from workers.broker import QUEUES


class Loader(AppLoader):
    """Ends a worker with one sentence if PAIRS_FILE or a connection string cannot be read; others are not asked."""

    def init_worker(self) -> None:
        """Called by a worker before anything else; by beat never."""
        try:
            require_connection_strings(load_pairs().values())
        except ImproperlyConfigured as error:
            sys.exit(f"error: {error}")
        super().init_worker()


@celeryd_init.connect
def require_known_queues(options: Mapping[str, Any], **_: object) -> None:
    """Prevent the start of a worker for a queue that nobody fills: Celery would make it."""
    named = [*(options.get("queues") or ()), *(options.get("exclude_queues") or ())]
    if unknown := [name for name in named if name not in QUEUES]:
        sys.exit(f"error: There is no queue {unknown[0]!r}: workers serve {', '.join(QUEUES)}.")
