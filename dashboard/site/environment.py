"""Readers of environment variables that reject bad values with one sentence, and read NAME_FILE in place of NAME."""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from redis import RedisError

from pairing.fleet.redis_url import client_of

if TYPE_CHECKING:
    from pydantic import BaseModel

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}
Value = TypeVar("Value")
Content = TypeVar("Content", bound="BaseModel")


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
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise ImproperlyConfigured(f"{name}_FILE names {file_name}, which cannot be read: {reason}.") from None

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """One of the known words, in upper or lower case."""
        value = self.text(name, default)
        found = next((word for word in known if word.lower() == value.lower()), None)
        if found is None:
            *others, last = known
            raise ImproperlyConfigured(f"{name} is {value!r}: give {', '.join(others)} or {last}.")
        return found

    def words(self, name: str, default: str) -> list[str]:
        """A comma-separated list, without empty items."""
        return [word.strip() for word in self.text(name, default).split(",") if word.strip()]

    def networks(self, name: str, default: str) -> tuple[IPv4Network | IPv6Network, ...]:
        """A comma-separated list of networks and addresses."""
        try:
            return tuple(ip_network(text) for text in self.words(name, default))
        except ValueError:
            raise ImproperlyConfigured(
                f"{name} cannot be read: give addresses or networks such as 10.1.2.0/24, separated by commas."
            ) from None

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

    def moment(self, name: str) -> datetime | None:
        """A time in ISO 8601 with its offset; None if there is none."""
        value = self.text(name, "")
        try:
            found = datetime.fromisoformat(value) if value else None
        except ValueError:
            found = datetime.min
        if found is not None and found.tzinfo is None:
            raise ImproperlyConfigured(f"{name} is {value!r}: give a time such as 2026-10-01T00:00:00+00:00.")
        return found

    def path(self, name: str, default: Path) -> Path:
        """A local path; ~ is the home folder."""
        try:
            return Path(self.text(name, str(default))).expanduser()
        except RuntimeError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None

    def url(self, name: str, default: str, schemes: Sequence[str], read: Callable[[str], Value]) -> Value:
        """What `read` makes of a URL with one of the schemes. The error does not repeat it: it may have a password."""
        value = self.text(name, default)
        try:
            if value.partition("://")[0] in schemes:
                return read(value)
        except (ValueError, TypeError, RedisError):
            pass
        raise ImproperlyConfigured(f"{name} cannot be read: give {' or '.join(f'{one}://…' for one in schemes)}.")

    def address(self, name: str, default: str, like: str) -> str:
        """An address of the web, or the default; `like` is an example of one."""
        value = self.text(name, default)
        if value and not is_web_address(value):
            raise ImproperlyConfigured(f"{name} is {value!r}, which is not an address: give {like}.")
        return value


def redis_url(text: str) -> str:
    """The URL, if redis-py can read it. Raises ValueError, TypeError or RedisError; it connects to nothing."""
    client_of(text).connection_pool.make_connection()
    return text


def is_web_address(value: str) -> bool:
    """Whether it is http or https, with a host and, if there is one, a port."""
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def read_toml(file: Path, model: type[Content]) -> Content:
    """The content of the file. Raises ImproperlyConfigured, which names the key and what is expected."""
    from pydantic import ValidationError  # the settings do without it

    try:
        return model.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ImproperlyConfigured(f"it cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ImproperlyConfigured(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImproperlyConfigured(f"it is not TOML: {error}.") from None
