"""Commands whose errors are one sentence for a person, beginning as manage.py's own do."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError


class OneSentenceCommand(BaseCommand):
    """On the command line an error is written as `error: …`, with its own status; called from code, it is raised."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as error:
            if not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            self.stderr.write(f"error: {error}")
            raise SystemExit(error.returncode) from None
