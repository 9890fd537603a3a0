"""Readers of environment variables that reject bad values with one sentence, and read NAME_FILE in place of NAME."""

import os
from collections.abc import Mapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class Environment:
    """The environment, or a mapping in its place. Readers raise ImproperlyConfigured, without secret values."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    def text(self, name: str, default: str) -> str:
        """The value of NAME, or the content of the file that NAME_FILE names, or the default."""
        file_name = self._variables.get(f"{name}_FILE")
        if not file_name:
            return self._variables.get(name) or default
        try:
            return Path(file_name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise ImproperlyConfigured(f"{name}_FILE names {file_name}, which cannot be read: {reason}.") from None

    def words(self, name: str, default: str) -> list[str]:
        """A comma-separated list, without empty items."""
        return [word.strip() for word in self.text(name, default).split(",") if word.strip()]

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number in [least, most]."""
        value = self.text(name, str(default))
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ImproperlyConfigured(f"{name} is {value!r}: give a whole number from {least} to {most}.")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """True for 1, true, yes and on; False for 0, false, no and off."""
        value = self.text(name, "1" if default else "0").lower()
        if value not in TRUE | FALSE:
            raise ImproperlyConfigured(f"{name} is {value!r}: give 1 or 0.")
        return value in TRUE

    def path(self, name: str, default: Path) -> Path:
        """A local path; ~ is the home folder."""
        return Path(self.text(name, str(default))).expanduser()

    def url(self, name: str, default: str, schemes: tuple[str, ...]) -> str:
        """A URL with one of the schemes. The error does not contain the value, which may include a password."""
        value = self.text(name, default)
        if not value.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            known = " or ".join(f"{scheme}://…" for scheme in schemes)
            raise ImproperlyConfigured(f"{name} is not a supported URL: use {known}.")
        return value
