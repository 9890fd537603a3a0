"""The Dockerfile and the compose file, held to the product. test_image_build.py builds and starts the images."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ  # type: ignore[import-untyped]
import pytest
import yaml

from tests.deployment import product
from tools.build_packages import packages

FOLDER = product.DEPLOY / "container"
COMPOSE: dict[str, Any] = product.documents(FOLDER / "compose.yaml")[0]
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("paired-namespaces-")}
MOUNTED = "/run/secrets/"
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Of the Dockerfile: each with its arguments."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def stages() -> dict[str, list[Instruction]]:
    """The instructions of each stage, after those of the stage that it begins with."""
    found: dict[str, list[Instruction]] = {}
    for instruction, text in instructions():
        if instruction == "FROM":
            base, _, name = text.partition(" AS ")
            current = found[name] = [*found.get(base, []), (instruction, text)]
        else:
            current.append((instruction, text))
    return found


def last(stage: list[Instruction], instruction: str) -> str:
    return [text for name, text in stage if name == instruction][-1]


def words(exec_form: str) -> list[str]:
    found = yaml.safe_load(exec_form)
    assert isinstance(found, list), "a shell would be process 1, and get the signals"
    return [str(word) for word in found]


TARGETS = sorted({service["build"]["target"] for service in OURS.values() if "build" in service})


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_the_web_process_without_rights_and_asks_its_probe(target: str) -> None:
    stage = stages()[target]
    account = last(stage, "USER").partition(":")[0]
    command, *arguments = words(last(stage, "CMD"))
    address = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", last(stage, "HEALTHCHECK"))

    assert account.isdecimal()
    assert int(account) > 0
    assert set(words(last(stage, "ENTRYPOINT"))) <= product.programs()
    assert command == "web"
    assert not product.unknown_options(command, arguments)
    assert address
    assert address[1] == last(stage, "EXPOSE") == arguments[arguments.index("--port") + 1]
    assert product.is_page(address[2])


def test_packages_are_installed_by_their_hashes_or_from_the_build() -> None:
    installs = [
        step.strip()
        for instruction, text in instructions()
        if instruction == "RUN"
        for step in text.split("&&")
        if "pip install" in step
    ]
    assert len(installs) >= 3
    for step in installs:
        files = re.findall(r"-r (\S+)", step)
        assert all((product.ROOT / file).exists() for file in files)
        assert "--no-index --no-deps /wheels/" in step or ("--require-hashes" in step and files)


def test_the_build_gets_whatever_the_packages_are_built_from() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}

    assert "*" in ignored
    assert all((list(product.ROOT.glob(path))) for path in sent)
    folders = {folder for package in packages() for folder in package.folders}
    assert folders | {"LICENSE", "README.md", "pyproject.toml", "packages", "tools/build_packages.py"} <= sent


def test_the_processes_of_the_compose_file_are_those_of_the_product() -> None:
    product.assert_processes([service["command"] for service in OURS.values()])


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_has_rights_or_can_write_to_its_image(name: str) -> None:
    service = SERVICES[name]

    assert service["user"].partition(":")[0] not in ("", "0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert set(service["networks"]) <= set(COMPOSE["networks"])


@pytest.mark.parametrize("name", OURS)
def test_settings_are_known_and_secrets_are_files(name: str) -> None:
    variables = OURS[name]["environment"]
    files = {name: value for name, value in variables.items() if name.endswith("_FILE")}

    assert not product.unknown_variables(set(variables))
    assert not product.inline_secrets(set(variables))
    assert files == {f"{secret.upper()}_FILE": f"{MOUNTED}{secret}" for secret in OURS[name]["secrets"]}


def test_every_secret_is_a_file_of_its_own_that_some_service_gets() -> None:
    given = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}

    assert COMPOSE["secrets"] == {name: {"file": f"secrets/{name}"} for name in given}
    password = SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"]
    assert password.removeprefix(MOUNTED) in SERVICES["postgres"]["secrets"]
    assert any(word.removeprefix(MOUNTED) in SERVICES["redis"]["secrets"] for word in SERVICES["redis"]["command"])


def test_only_the_web_process_is_asked_and_at_a_page_that_is_there() -> None:
    for name, service in OURS.items():
        check = service["healthcheck"]
        assert (name == "web") != (check.get("disable") is True)
    address = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", SERVICES["web"]["healthcheck"]["test"][-1])
    assert address
    assert address[1] == SERVICES["web"]["command"][-1] == SERVICES["web"]["ports"][0].rpartition(":")[2]
    assert product.is_page(address[2])


def test_processes_start_after_the_migrations_and_the_stores() -> None:
    finished = "service_completed_successfully"
    for name, service in OURS.items():
        after = {other: wanted["condition"] for other, wanted in service["depends_on"].items()}
        assert set(after) <= set(SERVICES)
        expected = {"migrate": {"postgres": "service_healthy"}, "sync-pairs": {"migrate": finished}}
        assert after == expected.get(name, {"sync-pairs": finished, "redis": "service_healthy"})


def test_generated_secrets_fit_each_other_and_are_kept(tmp_path: Path) -> None:
    def made() -> dict[str, str]:
        command = ("sh", FOLDER / "make-secrets.sh", tmp_path / "secrets")
        subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
        return {path.name: path.read_text(encoding="utf-8").strip() for path in (tmp_path / "secrets").iterdir()}

    secrets = made()
    database = environ.Env.db_url_config(secrets["database_url"])
    postgres = SERVICES["postgres"]["environment"]

    assert set(secrets) == set(COMPOSE["secrets"]) - {name.lower() for name in product.PAIR}
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert len(secrets["secret_key"]) >= 50
    assert (database["HOST"], database["PASSWORD"]) == ("postgres", secrets["postgres_password"])
    assert (database["USER"], database["NAME"]) == (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"])
    assert (urlsplit(secrets["redis_url"]).hostname, secrets["redis_auth"]) == (
        "redis",
        f"requirepass {urlsplit(secrets['redis_url']).password}",
    )
    assert len({secrets["secret_key"], secrets["postgres_password"], urlsplit(secrets["redis_url"]).password}) == 3
    assert made() == secrets
