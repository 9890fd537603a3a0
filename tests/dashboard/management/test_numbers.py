"""Whatever number is given to a command, the answer is one sentence with an exit status, and never a traceback."""

import argparse
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

import dashboard.management.commands as ours
from dashboard.models import BacklogQueue
from pipeline.jobs import charges
from tests.campaign import __main__ as campaign
from tests.campaign import soak
from tests.dashboard.conftest import NOW
from tests.dashboard.secondary import ORPHAN

ABSURD = ("0", "-1", "99999", "nan", "inf", "1e400", "text", "", "1.5", str(10**20), "9" * 5000)
COLLECTED = re.compile(r"^Exception ignored in: .*\nTraceback", re.MULTILINE)
"""What Python prints where the garbage of a test before this one is collected meanwhile."""
PROGRAMS = ("web", "worker", "beat")

# -- jobs and campaigns -----------------------------------------------------------------------------------------------

PARSERS = {"campaign": campaign.parser, "soak": soak.parser, "charges": charges.parser}
TAKEN = {("campaign", "--seed"), ("charges", "--hours-in-month"), ("charges", "--max-quarantined")}
"""Any whole number is a seed; the job itself says what it cannot use."""


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, action.option_strings[0])
        for name, parser in PARSERS.items()
        for action in parser()._actions
        if action.type not in (None, Path)
    ],
)
@pytest.mark.parametrize("value", ["nan", "text", "-" + str(10**20)])
def test_a_number_of_a_job_or_a_campaign_is_refused_with_its_option(name, option, value, capsys) -> None:
    needed = ["--month=2026-10", "--usage=usage", "--result=result"] if name == "charges" else []
    is_taken = value.startswith("-") and (name, option) in TAKEN
    with nullcontext() if is_taken else pytest.raises(SystemExit, match=r"^2$"):
        PARSERS[name]().parse_args([*needed, f"{option}={value}"])
    assert is_taken or f"argument {option}" in capsys.readouterr().err.splitlines()[-1]


# -- our own commands -------------------------------------------------------------------------------------------------

NEEDED = {
    "pair": "contoso",
    "target": "orders",
    "queue": ORPHAN,
    "month": "2026-10",
    "reason": "trying",
    "user": "administrator",
    "confirm": "orders",
    "name": "a program",
    "channel": "none",
    "prefix": "none",
    "alert": "1",
    "drill": "1",
    "canary": "canary",
    "entity": "orders",
}
"""What a command needs beside the number, by the name of the argument."""
UNTRIED = {"compute_charges"}
"""Starts a program, which has its own test of the hours in a month."""


def parsers() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command and subcommand of ours with its parser."""
    for name in sorted(file.stem for file in Path(ours.__path__[0]).glob("[!_]*.py")):
        if name in PROGRAMS or name in UNTRIED:
            continue
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        yield (name,), parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from (((name, word), sub) for word, sub in action.choices.items())


def own(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command that are not Django's own."""
    for action in parser._actions:
        if action.dest not in ("verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "help"):
            yield action


def takes_a_number(command: tuple[str, ...], action: argparse.Action) -> bool:
    if action.choices is not None or action.nargs in (0, argparse.REMAINDER):
        return False
    is_read = action.type is not None and action.type is not Path and action.dest not in ("reason", "request_id")
    return is_read or action.dest == "alert" or (command == ("forecast",) and action.dest != "pair")


def words_for(action: argparse.Action, value: str) -> list[str]:
    return [f"{action.option_strings[0]}={value}"] if action.option_strings else ["--", value]


def others(parser: argparse.ArgumentParser, tried: argparse.Action) -> list[str]:
    """What is needed beside the argument that is tried."""
    return [
        word
        for action in own(parser)
        if action is not tried and (action.required or action.dest in ("user", "queue", "confirm"))
        for word in (
            [f"{action.option_strings[0]}={NEEDED[action.dest]}"] if action.option_strings else [NEEDED[action.dest]]
        )
    ]


CASES = [
    pytest.param(command, parser, action, id=" ".join((*command, action.dest)))
    for command, parser in parsers()
    for action in own(parser)
    if takes_a_number(command, action)
]


def test_the_numbers_of_our_commands_are_found() -> None:
    found = {case.id for case in CASES}
    assert {"readiness least", "forecast hours", "pairing pace rate", "pairing drill messages"} <= found
    assert {"pairing alerts most", "pairing dead-letters after", "pairing abort-drill drill"} <= found


@pytest.mark.parametrize(("command", "parser", "action"), CASES)
def test_an_absurd_number_is_taken_or_refused_in_one_sentence(
    command: tuple[str, ...],
    parser: argparse.ArgumentParser,
    action: argparse.Action,
    pair,
    people,
    alive,
    reachable,
    shared,
    capsys,
    tmp_path,
    monkeypatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    reachable.make(ORPHAN)
    BacklogQueue.objects.create(pair=pair, path=ORPHAN, index=7, seen_at=NOW, is_orphan=True)
    for value in ABSURD:
        refusal, status = answered(command, *others(parser, action), *words_for(action, value))
        assert "\n" not in refusal, (value, refusal)
        assert status == 0 or refusal, value
        assert "Traceback" not in COLLECTED.sub("", "".join(capsys.readouterr()))


def answered(command: tuple[str, ...], *words: str) -> tuple[str, int]:
    """What a command says against its arguments, if it does, and its exit status; any other error is a traceback."""
    try:
        call_command(*command, *words)
    except CommandError as error:
        return str(error).strip(), error.returncode
    except SystemExit as ended:  # a status that the command reports by it, as "not ready"
        return "a status", int(ended.code or 0)
    return "", 0
