"""Whatever number is given to a command, the answer is one sentence with an exit status, and never a traceback."""

import argparse
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import click
import pytest
from celery.bin.beat import beat
from celery.bin.worker import worker
from django.core.management import CommandError, call_command, get_commands, load_command_class
from uvicorn.main import main as uvicorn

import dashboard.management.commands as ours
from dashboard.command_line.programs import NOT_USABLE
from dashboard.command_line.ranges import OF_BEAT, OF_UVICORN, OF_WORKERS, Rule, problem_of
from dashboard.models import BacklogQueue
from pipeline.jobs import charges
from tests import forked
from tests.campaign import __main__ as campaign
from tests.campaign import soak
from tests.dashboard.conftest import NOW
from tests.dashboard.secondary import ORPHAN

ROOT = Path(__file__).resolve().parents[3]
ABSURD = ("0", "-1", "99999", "nan", "inf", "1e400", "text", "", "1.5", str(10**20), "9" * 5000)
COLLECTED = re.compile(r"^Exception ignored in: .*\nTraceback", re.MULTILINE)
"""What Python prints where the garbage of a test before this one is collected meanwhile."""
BEYOND = ("-1", str(10**20), "-" + str(10**20))
"""What no option takes that is a number."""
PROGRAMS = {"web": (uvicorn, OF_UVICORN), "worker": (worker, OF_WORKERS), "beat": (beat, OF_BEAT)}
NUMBERS = (click.types.IntParamType, click.types.FloatParamType)

# -- the options of uvicorn and Celery --------------------------------------------------------------------------------


def options_with_numbers(program: click.Command) -> Iterator[str]:
    for parameter in program.params:
        if isinstance(parameter.type, NUMBERS):
            yield from parameter.opts


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_with_a_number_has_a_range_and_every_range_an_option(name: str) -> None:
    program, rules = PROGRAMS[name]
    assert set(options_with_numbers(program)) <= set(rules)
    assert set(rules) <= {option for parameter in program.params for option in parameter.opts}


@pytest.mark.parametrize(
    ("program", "rules", "option"),
    [(program, rules, option) for program, rules in PROGRAMS.values() for option in options_with_numbers(program)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_number_beyond_everything_is_refused_and_the_default_is_not(
    program: click.Command, rules: dict[str, Rule], option: str
) -> None:
    for value in BEYOND:
        assert problem_of([f"{option}={value}"], rules).startswith(f"{option} is {value}: give ")
    (parameter,) = [one for one in program.params if option in one.opts]
    if isinstance(parameter.default, int | float):
        assert not problem_of([option, str(parameter.default)], rules)


@pytest.mark.parametrize(
    ("words", "rules", "problem"),
    [
        (["--port", "65535"], OF_UVICORN, ""),
        (["--port", "text"], OF_UVICORN, ""),  # click says so
        (["--port"], OF_UVICORN, ""),
        (["--port", "1", "--port", "65536"], OF_UVICORN, "--port is 65536: give a whole number from 0 to 65535."),
        (["--ws-ping-timeout", "nan"], OF_UVICORN, "--ws-ping-timeout is nan: give seconds from 0 to 86400."),
        (["--fd", "99999"], OF_UVICORN, "--fd is 99999: give the number of a socket that is open."),
        (["--fd", "0"], OF_UVICORN, ""),
        (["--ssl-version", "99999"], OF_UVICORN, "--ssl-version is 99999: give 17."),
        (["--ssl-certfile", "/nowhere"], OF_UVICORN, "--ssl-certfile is /nowhere: there is no such file."),
        (["--uds", "/nowhere/x"], OF_UVICORN, "--uds is /nowhere/x: there is no such folder."),
        (["-c4"], OF_WORKERS, ""),
        (["-c-1"], OF_WORKERS, "-c is -1: give a whole number from 0 to 10000."),
        (["-Q", "pings", "-c", "99999"], OF_WORKERS, "-c is 99999: give a whole number from 0 to 10000."),
        (["--autoscale", "8,2"], OF_WORKERS, ""),
        (["--autoscale", "nan,0"], OF_WORKERS, "--autoscale is nan,0: give MOST,LEAST, from 10000,10000 to 1,1."),
        (["--autoscale", "2,8"], OF_WORKERS, "--autoscale is 2,8: give MOST,LEAST, from 10000,10000 to 1,1."),
        (["--uid", "0"], OF_WORKERS, ""),
        (["--uid", "nobody-is-called-so"], OF_WORKERS, "--uid is nobody-is-called-so: there is no such user."),
        (["--gid", str(10**20)], OF_BEAT, f"--gid is {10**20}: there is no such group."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_is_refused_with_what_to_give_instead(words: list[str], rules: dict[str, Rule], problem: str) -> None:
    assert problem_of(words, rules) == problem


@pytest.mark.parametrize(
    "command",
    [
        "manage.py web --port 99999",
        "manage.py web --workers 99999 --port 0",
        "manage.py web --port text",
        "manage.py worker --autoscale nan,0",
        "manage.py worker --time-limit text",
        "manage.py beat --max-interval -1",
    ],
)
def test_a_program_ends_by_itself_with_the_status_of_a_wrong_argument(command: str, tmp_path: Path) -> None:
    ran = forked.run(command.split(), {"PATH": "", "STATE_DIR": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (NOT_USABLE, "")
    assert "Traceback" not in ran.stderr
    assert command.split()[2] in ran.stderr.splitlines()[-1]


def test_a_web_process_without_manage_py_refuses_a_port_as_well(tmp_path: Path) -> None:
    words = ("-m", "uvicorn", "dashboard.asgi:application", "--port", "99999")
    ran = forked.run(words, {"PATH": "", "STATE_DIR": str(tmp_path)})
    assert ran.returncode == 1
    assert ran.stderr == "error: --port is 99999: give a whole number from 0 to 65535.\n"


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
    with nullcontext() if is_taken else pytest.raises(SystemExit, match=f"^{NOT_USABLE}$"):
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
