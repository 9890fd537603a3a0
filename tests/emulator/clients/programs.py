"""Programs made of other clients, built once into the cache: `python -m tests.emulator.clients.programs`.

The set-up builds them before the tests run. Where a tool is absent it says so in a sentence; the tests of that program
are then skipped, or fail where the program is required.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.emulator.clients.installed import CACHE, JAVASCRIPT, install, made_once, missing, node_packages

HERE = Path(__file__).parent
NET_CLIENT = os.environ.get("NET_CLIENT")
UV = (sys.executable, "-m", "uv")
JAVA_CLASSES = ("javac", "-d", "classes", "-cp", "lib/*")


@dataclass(frozen=True)
class Program:
    """How a program is built of the sources in `folder`, and run in the folder where it was built."""

    folder: str
    required_by: str
    build: Sequence[Sequence[str]]
    command: Sequence[str]
    is_nightly: bool = False


def _java(folder: str, main: str, *options: str, is_nightly: bool) -> Program:
    sources = sorted(path.name for path in (HERE / folder).glob("*.java"))
    libraries = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", *options)
    run = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "{0}/classes:{0}/lib/*", main)
    return Program(folder, "REQUIRE_JAVA", (libraries, (*JAVA_CLASSES, *sources)), run, is_nightly)


PROGRAMS = {
    "Go": Program("go", "REQUIRE_GO", (("go", "build", "-o", "steps", "."),), ("{0}/steps",)),
    "live tests of Go": Program(
        "go", "REQUIRE_GO", (("go", "version"), ("sh", "live.sh", "build")), ("sh", "{0}/live.sh"), is_nightly=True
    ),
    "Java": _java("java", "ServiceBus", is_nightly=False),
    "Java of 2024": _java("java", "ServiceBus", "-Dservicebus.version=7.17.7", is_nightly=True),
    "JMS": _java("jms", "Jms", is_nightly=True),
    "qpid-proton": Program(
        "proton",
        "REQUIRE_PROTON",
        (
            (*UV, "venv", "-q", "--python", sys.executable, ".venv"),
            # It is compiled here; without the headers of OpenSSL it would lack TLS.
            (*UV, "pip", "install", "-q", "--python", ".venv", "python-qpid-proton==0.40.0"),
            ("sh", "-c", ".venv/bin/python -c 'import proton; proton.SSLDomain(1)'"),
        ),
        ("{0}/.venv/bin/python", "{0}/steps.py"),
        is_nightly=True,
    ),
    "Rust": Program("rust", "REQUIRE_RUST", (("cargo", "build", "-q"),), ("{0}/target/debug/steps",), is_nightly=True),
}


def command(name: str) -> list[str]:
    """What runs a program, which is built if it was not yet. Where it cannot be, the test is skipped or fails."""
    program = PROGRAMS[name]
    sources = HERE / program.folder
    is_required = os.environ.get(program.required_by) == "1"
    for tool in {step[0] for step in program.build}:
        if shutil.which(tool) is None:
            missing(f"The client for {name} needs {tool} on the PATH.", is_required=is_required)
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    inputs = repr(program).encode() + b"".join(path.read_bytes() for path in files)
    folder = CACHE / f"{program.folder}-{hashlib.sha256(inputs).hexdigest()[:12]}"
    with made_once(folder) as fresh:
        if fresh is not None:
            shutil.copytree(sources, fresh, dirs_exist_ok=True)
            for step in program.build:
                install(step, fresh, is_required=is_required)
    return [part.format(folder) for part in program.command]


def sends(language: str, connection_string: str, count: int, *more: str) -> tuple[list[str], dict[str, str]]:
    """What makes a send of each line on stdin, and its environment; for .NET so many, with more options."""
    environment = {"SERVICEBUS_CONNECTION_STRING": connection_string}
    if language == "JavaScript":
        return ["node", str(JAVASCRIPT / "sends.mjs")], {**environment, "CLIENT_PACKAGES": str(node_packages())}
    if language == ".NET":
        if NET_CLIENT is None:
            pytest.skip("The sends of .NET need NET_CLIENT, the path of a program of its SDK.")
        return [NET_CLIENT, "send", connection_string, "orders", str(count), "--retries", "3", *more], {}
    return [*command(language), "sends"] if language == "Go" else [*command(language)[:-1], "Sends"], environment


def build(*, nightly: bool) -> None:
    """Build all programs, those of the nightly tests only if these follow; print why one is missing."""
    for name, program in PROGRAMS.items():
        if nightly or not program.is_nightly:
            try:
                command(name)
            except (pytest.skip.Exception, pytest.fail.Exception) as problem:
                print(f"warning: {problem}", flush=True)


if __name__ == "__main__":
    build(nightly="nightly" in sys.argv)
