"""What our commands leave to the suite: Django's checks of models, pages and templates."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands, load_command_class

import dashboard.management.commands as ours
from tests import forked

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = sorted(file.stem for file in Path(ours.__path__[0]).glob("[!_]*.py"))


@pytest.mark.django_db
def test_djangos_checks_find_nothing():
    call_command("check", fail_level="DEBUG", databases=["default"])


def test_our_commands_do_not_load_the_pages_to_check_them():
    for name in COMMANDS:
        command = load_command_class(get_commands()[name], name)
        assert type(command) is import_module(f"{ours.__name__}.{name}").Command
        assert list(command.requires_system_checks) == [], name


@pytest.mark.parametrize("words", [["--version"], ["version"], ["sync_pairs", "--version"]])
def test_the_version_is_that_of_the_product(words):
    ran = forked.run(("manage.py", *words), {"PATH": ""}, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ran.stdout == f"{project['version']}\n"
