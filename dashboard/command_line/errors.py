"""Commands whose errors are one sentence, in the format of manage.py's own errors."""

from importlib.metadata import version
from typing import Any

from django.core.management.base import BaseCommand, CommandError


class OneSentenceCommand(BaseCommand):
    """On the command line an error is printed as `error: …` and sets the exit status; in code, it is raised.

    Django's checks look at code, not at the environment, and load all pages for it: that would double the time of the
    command. `manage.py check` and the test suite run them.
    """

    requires_system_checks: tuple[str, ...] = ()

    def get_version(self) -> str:
        """For --version: that of the product, not Django's."""
        return version("paired-namespaces")

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as error:
            if not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            self.stderr.write(f"error: {error}")
            raise SystemExit(error.returncode) from None
