"""What the product imports is what it declares: each package its own extra, and nothing that comes by chance."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LIBRARY, AMQP10, EMULATOR, GATEWAY, CONTROL_PLANE = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
    for folder in (".", "packages/amqp10", "packages/emulator", "packages/gateway", "packages/control-plane")
)
OURS = {"pairing", "amqp10", "emulator", "gateway", "dashboard", "workers", "pipeline", "examples"}
INSTALLED_WITH = {
    "pairing": (LIBRARY, ["aio", "identity", "redis", "tracing", "websockets"]),
    "amqp10": (AMQP10, []),
    "emulator": (EMULATOR, []),
    "gateway": (GATEWAY, []),
    "dashboard": (CONTROL_PLANE, []),
    "workers": (CONTROL_PLANE, []),
    "pipeline": (CONTROL_PLANE, ["pipeline"]),
}
"""The project that contains a package, and the extras that an installation has that runs all of it."""
NOT_IMPORTED = {
    "django-htmx": "named in INSTALLED_APPS and MIDDLEWARE",
    "django-template-partials": "named in INSTALLED_APPS and TEMPLATES",
    "argon2-cffi": "Django's password hasher imports it, by PASSWORD_HASHERS",
    "aiohttp": "the SDK imports it, for asyncio",
    "psycopg": "Django imports it, where DATABASE_URL names PostgreSQL",
    "websocket-client": "the SDK imports it, for AMQP over WebSockets",
}


by_top_name = cache(packages_distributions)
ELSEWHERE = {"emulator": {"pytest"}}
"""The emulator's fixture is imported by pytest alone."""


def declared(project: dict[str, Any], *extras: str) -> set[str]:
    """The distributions that a project requires with these extras, those of our own projects that it requires, too."""
    texts = list(project["project"]["dependencies"])
    for extra in extras:
        texts += project["project"]["optional-dependencies"][extra]
    for sibling in map(Requirement, project["tool"]["build-packages"].get("requires", [])):
        required = next(one for one in (LIBRARY, AMQP10, EMULATOR) if one["project"]["name"] == sibling.name)
        texts += declared(required, *sibling.extras)
    return {canonicalize_name(Requirement(text).name) for text in texts}


@cache
def imported(package: str) -> frozenset[str]:
    """The modules of others that a package of ours imports anywhere, as far down as they are namespaces."""
    found: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module)
    tops = {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names | OURS}
    return frozenset(tops)


def distributions(module: str) -> set[str]:
    """The distributions that a module may come from: several where its first name is a namespace."""
    top = module.partition(".")[0]
    known = {canonicalize_name(name) for name in by_top_name()[top]}
    words = [name for name in known if name == canonicalize_name(re.sub(r"[._]", "-", module))]
    starts = [name for name in known if canonicalize_name(module.replace(".", "-")).startswith(name)]
    return set(words or starts or known)


@pytest.mark.parametrize("package", sorted(INSTALLED_WITH))
def test_whatever_a_package_imports_is_declared_for_it(package):
    project, extras = INSTALLED_WITH[package]
    allowed = declared(project, *extras) | ELSEWHERE.get(package, set())
    undeclared = {module for module in imported(package) if not distributions(module) & allowed}

    assert undeclared == set()


def test_whatever_is_declared_is_imported_or_somebody_else_needs_it():
    projects = (LIBRARY, AMQP10, EMULATOR, GATEWAY, CONTROL_PLANE)
    everything = set().union(*(declared(one, *one["project"].get("optional-dependencies", [])) for one in projects))
    used = {name for package in INSTALLED_WITH for module in imported(package) for name in distributions(module)}

    assert everything - used == set(NOT_IMPORTED)
