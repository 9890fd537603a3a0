"""Names of a package whose modules are loaded when they are first used, because most applications do not need them."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def loaded_on_use(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the package. ``modules``: where each of the names is defined.

    They are assigned where a type checker does not see them: it would accept every name of a package that has them.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Imports for which an extra of the package must be installed: an ImportError names it."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs an extra: pip install 'paired-namespaces[{extra}]' ({error})") from error
