"""What the product imports is what it declares: each package its own extra, and nothing that comes by chance."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = {"pairing", "emulator", "dashboard", "workers", "pipeline", "examples"}
EXTRAS = {
    "pairing": ["aio", "identity", "redis", "tracing", "websockets"],
    "emulator": [],
    "dashboard": ["control-plane"],
    "workers": ["control-plane"],
    "pipeline": ["pipeline"],
}
"""What an installation has that runs a package; the library alone must be imported without any of its extras."""
NOT_IMPORTED = {
    "django-htmx": "named in INSTALLED_APPS and MIDDLEWARE",
    "django-template-partials": "named in INSTALLED_APPS and TEMPLATES",
    "argon2-cffi": "Django's password hasher imports it, by PASSWORD_HASHERS",
    "aiohttp": "the SDK imports it, for asyncio",
    "psycopg": "Django imports it, where DATABASE_URL names PostgreSQL",
    "uvicorn": "a program that serves the pages",
    "websocket-client": "the SDK imports it, for AMQP over WebSockets",
}


BY_DISTRIBUTION = {top: {canonicalize_name(name) for name in names} for top, names in packages_distributions().items()}
ELSEWHERE = {"emulator": {"pytest"}}
"""The emulator's fixture is imported by pytest alone."""


@cache
def declared(extra: str) -> frozenset[str]:
    """The distributions of an extra, those of its own extras included; of the project itself for ''."""
    project = PROJECT["project"]
    texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
    found: set[str] = set()
    for requirement in map(Requirement, texts):
        if requirement.name == project["name"]:
            found.update(*(declared(name) for name in requirement.extras))
        else:
            found.add(canonicalize_name(requirement.name))
    return frozenset(found)


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
    known = BY_DISTRIBUTION[top]
    words = [name for name in known if name == canonicalize_name(re.sub(r"[._]", "-", module))]
    starts = [name for name in known if canonicalize_name(module.replace(".", "-")).startswith(name)]
    return set(words or starts or known)


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_whatever_a_package_imports_is_declared_for_it(package):
    allowed = {name for extra in ("", *EXTRAS[package]) for name in declared(extra)}
    allowed |= ELSEWHERE.get(package, set())
    undeclared = {module for module in imported(package) if not distributions(module) & allowed}

    assert undeclared == set()


def test_whatever_is_declared_is_imported_or_somebody_else_needs_it():
    everything = {name for extra in ("", *PROJECT["project"]["optional-dependencies"]) for name in declared(extra)}
    used = {name for package in EXTRAS for module in imported(package) for name in distributions(module)}

    assert everything - used == set(NOT_IMPORTED)
