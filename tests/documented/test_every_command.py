"""Every command in a shell block of the documentation is run by a test, or named with the reason why not; all exist.

What runs them is nightly, for the most part. By day each command is read by the parser of its own program.
"""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from emulator.command_line.arguments import parse
from gateway import command as gateway
from pipeline.jobs import charges
from tests.campaign import __main__ as campaign
from tests.campaign import soak
from tests.deployment import product
from tests.documented.blocks import PAGES, ROOT, Block, block, blocks, fenced
from tests.documented.tried import NOT_TRIED, TRIED_BY, is_tried

BLOCKS = {one.name: one for one in blocks()}
GRAMMARS = {ROOT / "docs" / "contract.md"}
"""Pages whose commands have no language, because brackets in them mean "optional"."""


@pytest.mark.parametrize("one", BLOCKS.values(), ids=lambda one: one.name)
def test_every_block_is_run_by_a_test_or_each_of_its_commands_is_named_with_a_reason(one: Block) -> None:
    assert one.commands
    assert any(map(is_tried, one.commands)) == (one.name in TRIED_BY)


def test_the_list_names_no_block_and_no_command_that_is_gone() -> None:
    assert not TRIED_BY.keys() - BLOCKS.keys()
    commands = [command for one in BLOCKS.values() for command in one.commands]
    for pattern in NOT_TRIED:
        assert any(re.match(pattern, command) for command in commands), pattern


@pytest.mark.parametrize("test", sorted(set(TRIED_BY.values())))
def test_every_test_that_the_list_names_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


PROGRAMS = (
    "make|pip|python3?|curl|paired-namespaces(-gateway)?|servicebus-emulator|spark-submit|kubectl|docker|systemctl"
    "|redis-cli"
)


def test_a_command_is_in_a_block_that_says_so() -> None:
    for page in (page for page in PAGES if page not in GRAMMARS):
        for text in (text for language, text in fenced(page) if not language):
            assert not re.search(rf"^(\$ )?(\.venv/bin/)?({PROGRAMS}) ", text, re.MULTILINE), f"{page.name}: {text}"


def of_django(words: list[str]) -> None:
    """A command of manage.py, which is that of the wheel too, with its options."""
    name, *arguments = words
    commands = get_commands()
    assert name in commands
    if name in ("web", "worker", "beat"):
        assert not product.unknown_options(name, arguments)
    else:
        where = commands[name]
        command = load_command_class(where, name) if isinstance(where, str) else where
        command.create_parser("manage.py", name).parse_args(arguments)


def of_python(words: list[str]) -> None:
    match words:
        case ["-m", "venv", _]:
            return
        case ["-m", "emulator", *arguments]:
            parse(arguments)
        case ["-m", module, *_]:
            assert importlib.util.find_spec(module)
        case ["-c", program]:
            compile(program, "the documentation", "exec")
        case ["manage.py", *command]:
            of_django(command)
        case [script, *_]:
            assert (ROOT / script).is_file()


def of_make(words: list[str]) -> None:
    (target, *rest) = words
    targets = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    assert target in targets[1].split()
    for arguments in (word.removeprefix("ARGS=") for word in rest):
        {"campaign": campaign.parser, "soak": soak.parser}[target]().parse_args(shlex.split(arguments))


def of_pip(words: list[str]) -> None:
    """Only our packages and files of the checkout are installed, with extras that they have."""
    extras = {}
    for file in (ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        extras[project["name"]] = set(project.get("optional-dependencies", ()))
    action, *rest = words
    assert action == "install"
    for word in rest:
        if word.endswith(".txt"):
            assert (ROOT / word).is_file()
        elif word.endswith(".whl"):
            assert Path(word).name.partition("-")[0].replace("_", "-") in extras
        elif not word.startswith("-") and word not in (".", "dist"):
            name, _, wanted = word.rstrip("]").partition("[")
            assert set(filter(None, wanted.split(","))) <= extras[name]


def of_celery(words: list[str]) -> None:
    assert words[:2] == ["-A", "workers"]
    assert not product.unknown_options(words[2], words[3:])


def of_uvicorn(words: list[str]) -> None:
    assert words[0] == "dashboard.asgi:application"
    assert not product.unknown_options("web", words[1:])


def of_spark_submit(words: list[str]) -> None:
    job = next(number for number, word in enumerate(words) if word.endswith(".py"))
    assert (ROOT / words[job]).is_file()
    charges.parser().parse_args(words[job + 1 :])


MADE = ("deploy/paired-namespaces-", "deploy/container/config")
"""Deployments of Kubernetes, and a folder that its command makes."""


def of_the_system(words: list[str]) -> None:
    """A program of the host: the files of the checkout that it is given exist."""
    for word in words:
        if word.startswith("deploy/") and not word.startswith(MADE):
            assert list(ROOT.glob(word)), word


READERS: dict[str, Callable[[list[str]], None]] = {
    "celery": of_celery,
    "make": of_make,
    "paired-namespaces": of_django,
    "paired-namespaces-gateway": lambda words: gateway.parser({}).parse_args(words),
    "pip": of_pip,
    "python": of_python,
    "python3": of_python,
    "servicebus-emulator": lambda words: None if "--config" in words else of_python(["-m", "emulator", *words]),
    "spark-submit": of_spark_submit,
    "uvicorn": of_uvicorn,
}
OF_THE_SYSTEM = {
    *("cp", "curl", "docker", "kubectl", "mkdir", "pg_dump", "pg_isready", "pg_restore", "promtool"),
    *("export", "redis-cli", "sh", "sqlite3", "tar"),
    *("systemctl", "systemd-run", "systemd-sysusers"),
}


@pytest.mark.parametrize("one", BLOCKS.values(), ids=lambda one: one.name)
def test_every_command_is_understood_by_its_program(one: Block) -> None:
    for command in one.commands:
        program, *words = shlex.split(command)
        name = Path(program).name
        assert name in READERS or name in OF_THE_SYSTEM, f"{one.name}: what is {name}?"
        try:
            READERS.get(name, of_the_system)(words)
        except SystemExit:
            pytest.fail(f"{one.name}: {command}")


SPAN = re.compile(r"`(?:\.venv/bin/python |python )?(?:manage\.py|paired-namespaces) ([^`]+)`")


SENTENCES = [(page, span) for page in PAGES for span in SPAN.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "span"), SENTENCES, ids=lambda one: getattr(one, "name", one))
def test_every_command_of_manage_py_within_a_sentence_has_its_options(page: Path, span: str) -> None:
    words = re.findall(r"[^\s\[\]|]+", span)
    if words != ["COMMAND"]:  # "any of them"
        name = words[1] if words[0] == "in_demo" and len(words) > 1 else words[0]
        assert name in get_commands(), f"{page.name}: {span}"
        if name not in ("web", "worker", "beat"):
            assert not {word for word in words if word.startswith("--")} - options_of(name)


def options_of(name: str) -> set[str]:
    """The options of a command and of its subcommands."""
    where = get_commands()[name]
    parsers = [(load_command_class(where, name) if isinstance(where, str) else where).create_parser("manage.py", name)]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action.choices, dict):
                parsers += action.choices.values()
    return {option for parser in parsers for action in parser._actions for option in action.option_strings}


def test_a_schedule_of_the_campaign_is_printed() -> None:
    (command,) = [one for one in block("docs/proof.md", 1).commands if "--schedule" in one]
    arguments = shlex.split(shlex.split(command)[2].removeprefix("ARGS="))
    printed = subprocess.run(
        [sys.executable, "-m", "tests.campaign", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert len(printed.stdout.splitlines()) > 10
