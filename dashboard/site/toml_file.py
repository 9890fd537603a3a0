"""Reading a TOML file of an installation."""

import tomllib
from pathlib import Path
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ValidationError

Content = TypeVar("Content", bound=BaseModel)


def read_toml(file: Path, model: type[Content]) -> Content:
    """The content of the file. Raises ImproperlyConfigured, which names the key and what is expected."""
    try:
        return model.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ImproperlyConfigured(f"it cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ImproperlyConfigured(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImproperlyConfigured(f"it is not TOML: {error}.") from None
