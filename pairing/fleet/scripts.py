"""Lua scripts for Redis: files beside the module that registers them, each read once."""

from functools import cache
from importlib.resources import files


@cache
def script(package: str, *names: str) -> str:
    """The text of a script made of these parts, in order: ``lua/<name>.lua`` in the package.

    A file that uses definitions of another one, such as ``now`` of ``clock``, is not a script on its own.
    """
    folder = files(package) / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)
