"""A terminal of somebody who follows a page: commands as printed, with other ports, paths and addresses at most."""

import errno
import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.documented.blocks import ROOT, Block
from tests.documented.tried import is_tried
from tests.packages.environments import HIDDEN

PATIENCE_S = 600
_NOT_COPIED = (
    *(".git", ".venv", ".state", ".demo", ".campaign"),
    *("__pycache__", ".*_cache", "build", "dist", "node_modules"),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command printed, and how it ended."""

    status: int
    text: str


@dataclass
class Terminal:
    """`instead`: what is replaced in each command, and by what. Nothing in the environment leads to this checkout."""

    folder: Path
    instead: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._served: list[Served] = []

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        return inherited | dict(self.variables)

    def spelt(self, command: str) -> str:
        for text, other in self.instead.items():
            command = command.replace(text, other)
        return command

    def run(self, command: str) -> Ended:
        """One command, to its end. What it exports is there for those that follow."""
        if exported := re.match(r"export (\w+)=", command):
            command += f'; printf %s "${exported[1]}"'
        done = subprocess.run(
            self.spelt(command),
            shell=True,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        if exported:
            self.variables = {**self.variables, exported[1]: done.stdout}
        return Ended(done.returncode, done.stdout + done.stderr)

    def succeed(self, command: str) -> str:
        """What it prints. Raises AssertionError if it fails."""
        ended = self.run(command)
        assert ended.status == 0, f"{command}: {ended.text[-5000:]}"
        return ended.text

    def follow(self, block: Block, skipped: Callable[[str], bool] = lambda command: False) -> dict[str, str]:
        """What each command of the block prints that a test runs; all of them succeed."""
        return {command: self.succeed(command) for command in tried(block) if not skipped(command)}

    def answer(self, command: str, answers: Mapping[str, str]) -> Ended:
        """A command that asks: each answer is typed when its question is there."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.spelt(command),
            shell=True,
            cwd=self.folder,
            env=self.environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        printed, left = "", dict(answers)
        for text in _chunks(ours):
            printed += text
            for question in [one for one in left if one in printed]:
                os.write(ours, f"{left.pop(question)}\n".encode())
        os.close(ours)
        assert not left, f"not asked: {list(left)}; {printed}"
        return Ended(process.wait(PATIENCE_S), printed)

    def serve(self, command: str) -> "Served":
        """A command that runs until the terminal is closed."""
        self._served.append(Served(self.spelt(command), self.folder, self.environment()))
        return self._served[-1]

    def close(self) -> None:
        """Ctrl-C to whatever still runs; all of it ends."""
        for served in reversed(self._served):
            served.end()
        self._served.clear()


class Served:
    """A process in the background, with the lines that it has printed so far."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self._file = folder / f"output-{time.monotonic_ns()}.txt"
        with self._file.open("wb") as output:
            self.process = subprocess.Popen(
                f"exec {command}",
                shell=True,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # A shell starts what is in its background with Ctrl-C ignored, and so this suite there.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    @property
    def text(self) -> str:
        return self._file.read_text(encoding="utf-8", errors="replace")

    def until(self, holds: Callable[[str], object], what: str) -> None:
        """Returns once this is so of what it has printed. Raises AssertionError where it ends before."""
        until_that(lambda: holds(self.text), what, lambda: f"{self.command}: {self.text[-3000:]}", self.process)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)
            raise AssertionError(f"does not end at Ctrl-C: {self.command}") from None


def until_that(
    holds: Callable[[], object],
    what: str,
    story: Callable[[], str] = str,
    process: "subprocess.Popen[bytes] | None" = None,
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert process is None or process.poll() is None, f"ended before {what}; {story()}"
        assert time.monotonic() < deadline, f"{what}; {story()}"
        time.sleep(0.1)  # between two looks


def tried(block: Block) -> list[str]:
    """The commands of a block that a test runs."""
    return list(filter(is_tried, block.commands))


def _chunks(terminal: int) -> Iterator[str]:
    while True:
        try:
            text = os.read(terminal, 65536).decode(errors="replace")
        except OSError as error:
            if error.errno == errno.EIO:  # nobody has the other end any more
                return
            raise
        if not text:
            return
        yield text


@contextmanager
def terminal(folder: Path, instead: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[Terminal]:
    opened = Terminal(folder, instead, variables)
    try:
        yield opened
    finally:
        opened.close()


def checkout(folder: Path) -> Path:
    """A copy of this checkout, as a clone has it: without what was installed or written since."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    return folder


def empty_environment(folder: Path) -> dict[str, str]:
    """A new virtual environment, made as its users do; returns the variables by which its programs are found."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(folder)}
