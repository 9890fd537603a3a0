"""What the files in `deploy/` may name: commands, settings and probes, each read from the code it belongs to."""

import ast
import tomllib
from pathlib import Path
from typing import Any

import yaml
from celery.bin.beat import beat as celery_beat
from celery.bin.worker import worker as celery_worker
from django.core.management import get_commands
from django.urls import Resolver404, resolve
from uvicorn.main import main as uvicorn

from workers.broker import QUEUES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SETTINGS = {
    node.args[0].value
    for node in ast.walk(ast.parse((ROOT / "dashboard" / "settings.py").read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
    and ast.unparse(node.func).startswith("_env.")
    and isinstance(node.args[0], ast.Constant)
}
SECRETS = {"DATABASE_URL", "EMAIL_URL", "METRICS_TOKEN", "OIDC_CLIENT_SECRET", "REDIS_URL", "SECRET_KEY"}
"""Settings that a file in `deploy/` names by their NAME_FILE only."""
PAIR = {"CONTOSO_PRIMARY", "CONTOSO_SECONDARY"}
"""What the pairs file of the examples names: connection strings, and so secrets."""


def documents(file: Path) -> list[Any]:
    """Those of a YAML file."""
    return list(yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader))


def programs() -> set[str]:
    """The console commands of the control plane's package."""
    project = tomllib.loads((ROOT / "packages" / "control-plane" / "pyproject.toml").read_text(encoding="utf-8"))
    return set(project["project"]["scripts"])


def subcommands() -> set[str]:
    """The commands that they have: Django's and ours."""
    return set(get_commands())


def unknown_variables(names: set[str]) -> set[str]:
    """The names that are no setting, no file of a setting and no connection string of the example pair."""
    known = SETTINGS | PAIR
    return {name for name in names if name not in known and name.removesuffix("_FILE") not in known}


def inline_secrets(names: set[str]) -> set[str]:
    """The variables that would have a secret as their value."""
    return names & (SECRETS | PAIR)


def is_page(path: str) -> bool:
    """Whether the web process has a page at this path."""
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def unknown_options(command: str, arguments: list[str]) -> set[str]:
    """The options among the arguments of a process that its program does not have."""
    program = {"web": uvicorn, "worker": celery_worker, "beat": celery_beat}[command]
    known = {option for one in program.params for option in (*one.opts, *one.secondary_opts)}
    return {argument for argument in arguments if argument.startswith("-")} - known


def queues(arguments: list[str]) -> set[str]:
    """The queues that a worker serves."""
    return set(arguments[arguments.index("-Q") + 1].split(",")) if "-Q" in arguments else set(QUEUES)


def assert_processes(commands: list[list[str]]) -> None:
    """That all commands and options are those of the product, all queues are served, and beat runs."""
    served: set[str] = set()
    for command, *arguments in commands:
        assert command in subcommands()
        if command in ("web", "worker", "beat"):
            assert not unknown_options(command, arguments)
        if command == "worker":
            served |= queues(arguments)
    assert served == set(QUEUES)
    assert {"web", "beat", "migrate", "sync_pairs"} <= {command for command, *_ in commands}
