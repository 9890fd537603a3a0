"""The commands of the pages for operators, in one deployment that is up: API, checks, costs, readiness, emulator."""

import json
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.costs.test_costs_command import write_usage
from tests.dashboard.costs.test_costs_statements import line, rows
from tests.documented.blocks import ROOT, block
from tests.documented.stage import ANSWERS, USER, Stage, stage
from tests.documented.terminal import Terminal, terminal, until_that
from tests.ports import free_port
from tests.postgres import programs

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed here"),
]
MANAGE = ".venv/bin/python manage.py"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("operated") / "stage") as found:
        yield found


@pytest.fixture(scope="module")
def shell(here: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A folder with the commands of a checkout, and nothing else; web, worker and beat run."""
    folder = tmp_path_factory.mktemp("checkout")
    for name, there in {".venv": Path(sys.prefix), "manage.py": ROOT / "manage.py"}.items():
        (folder / name).symlink_to(there)
    variables = {
        **here.variables,
        "STATE_DIR": str(folder / ".state"),
        "PRICES_FILE": str(folder / "prices.json"),
        "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shutil.copy(ROOT / "pipeline/data/prices-sample.json", folder / "prices.json")
    instead = {**here.instead, "https://example.com": here.address}
    with terminal(folder, instead, variables) as opened:
        opened.succeed(f"{MANAGE} migrate -v0")
        opened.succeed(f"{MANAGE} sync_pairs")
        assert opened.answer(f"{MANAGE} createsuperuser", ANSWERS).status == 0
        for process in (f"web --port {here.port}", "worker", "beat"):
            opened.serve(f"{MANAGE} {process}")
        until_that(here.is_ready, "all is ready")
        yield opened


def test_the_api_answers_the_commands_of_its_page(shell: Terminal) -> None:
    made = shell.succeed(f"{MANAGE} pairing make-token trying --scope operate --user {USER} --json")
    token = {"TOKEN": str(json.loads(made)["token"])}
    with terminal(shell.folder, shell.instead, {**shell.variables, **token}) as with_token:
        health, fail_over = block("docs/api.md", 1).commands
        assert json.loads(with_token.succeed(health.replace("curl", "curl -s")))
        answer = json.loads(with_token.succeed(fail_over.replace("curl", "curl -s")))
        assert answer["outcome"] == "done", answer
        until_that(lambda: "held" in shell.run(f"{MANAGE} pairing entities").text, "the failover is known")
        again = json.loads(with_token.succeed(fail_over.replace("curl", "curl -s")))
        assert again["is_repeated"]
    shell.succeed(f"{MANAGE} pairing mark-healthy contoso orders --user {USER} --reason trying")


def test_two_namespaces_are_checked_after_a_confirmation(shell: Terminal) -> None:
    (command,) = block("docs/check.md", 1).commands
    assert shell.run(command).status == 2  # nobody is there to be asked
    ended = shell.answer(command, {"Run them? [y/N]": "y"})
    assert ended.status == 0, ended.text
    assert " 0 does not hold" in ended.text


def test_readiness_is_a_document_with_a_status(shell: Terminal) -> None:
    ended = shell.run(block("docs/readiness.md", 1).commands[0])
    assert ended.status in (0, 1)
    assert "contoso" in json.dumps(json.loads(ended.text))


@pytest.mark.spark
def test_a_month_is_computed_compared_with_its_bill_and_forecast(shell: Terminal) -> None:
    write_usage(shell.folder / ".state/metering", units=1_000_000)
    (shell.folder / "bill.csv").write_text(rows(line(quantity="2")), encoding="utf-8")

    compute, compute_otherwise = block("docs/costs.md", 1).commands
    shell.succeed(compute)
    shell.succeed(compute_otherwise)
    assert (shell.folder / "charges.csv").read_text().count("\n") > 1
    (give,) = block("docs/costs.md", 3).commands
    assert "is compared with" in shell.succeed(give.replace("--user operator", f"--user {USER}"))
    (forecast,) = block("docs/costs.md", 4).commands
    assert shell.succeed(forecast)


def test_the_local_namespace_is_started_and_broken_as_its_page_says(tmp_path: Path) -> None:
    ports = {"contoso:5672": f"contoso:{free_port()}", "contoso-dr:5673": f"contoso-dr:{free_port()}"}
    port = ports["contoso:5672"].partition(":")[2]
    instead = {**ports, "127.0.0.1:5672": f"127.0.0.1:{port}", "servicebus-emulator": f"{sys.executable} -m emulator"}
    with terminal(tmp_path, instead, {"PYTHONPATH": str(ROOT)}) as shell:
        start = block("docs/emulator.md", 2).commands[0]
        served = shell.serve(start)
        served.until(lambda text: text.count("ready ") == 2, "both namespaces are ready")

        commands = block("docs/emulator.md", 4).commands
        add, tell, remove = (command.replace("curl", "curl -s") for command in commands)
        fault = json.loads(shell.succeed(add))["id"]
        assert [one["id"] for one in json.loads(shell.succeed(tell))] == [fault]
        shell.succeed(remove.replace("5f0c…", fault))
        assert json.loads(shell.succeed(tell)) == []


def test_the_local_namespace_reads_the_file_of_microsofts_emulator(tmp_path: Path) -> None:
    """With other ports than the fixed ones, which somebody may use here."""
    entities = {"Queues": [{"Name": "orders", "Properties": {}}], "Topics": []}
    file = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", **entities}]}}
    (tmp_path / "Config.json").write_text(json.dumps(file), encoding="utf-8")
    (command,) = block("docs/emulator.md", 3).commands
    port = free_port()
    instead = {"servicebus-emulator": f"{sys.executable} -m emulator"}
    with terminal(tmp_path, instead, {"PYTHONPATH": str(ROOT)}) as shell:
        served = shell.serve(f"{command} --namespace sbemulatorns:{port}")
        served.until(lambda text: "ready sbemulatorns" in text, "the namespace is ready")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            assert answer.status == 200
