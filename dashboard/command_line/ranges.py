"""The values that uvicorn and Celery take for their options, where they would answer another one with a traceback."""

import grp
import os
import pwd
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

MOST_PORTS = 65_535
MOST_PROCESSES = 1_000
MOST_THREADS = 10_000
MOST = 2**31 - 1
"""What the operating system takes as an int."""

Rule = Callable[[str], str]
"""What to give instead of a value; empty if the value is usable, or is no number, which the program itself refuses."""


def whole(least: int, most: int = MOST) -> Rule:
    """A whole number of this range."""
    return _number(int, least, most, "a whole number")


def seconds(least: float = 0, most: float = 86_400) -> Rule:
    """Seconds of this range; nan is not one of them."""
    return _number(float, least, most, "seconds")


def _number(read: Callable[[str], float], least: float, most: float, what: str) -> Rule:
    def instead(text: str) -> str:
        try:
            return "" if least <= read(text) <= most else f"give {what} from {least} to {most}."
        except ValueError:
            return ""

    return instead


def _open_file(text: str) -> str:
    try:
        os.fstat(int(text))
    except ValueError:
        return ""
    except (OSError, OverflowError):
        return "give the number of a socket that is open."
    return ""


def _tls_version(text: str) -> str:
    known = {int(version) for version in ssl._SSLMethod}
    return "" if not re.fullmatch(r"-?\d+", text) or int(text) in known else f"give {int(ssl.PROTOCOL_TLS_SERVER)}."


def _file(text: str) -> str:
    return "" if Path(text).is_file() else "there is no such file."


def _in_a_folder(text: str) -> str:
    return "" if Path(text).parent.is_dir() else "there is no such folder."


def _threads(text: str) -> str:
    found = re.fullmatch(r"(\d{1,9}),(\d{1,9})", text)
    if found and 1 <= int(found[2]) <= int(found[1]) <= MOST_THREADS:
        return ""
    return f"give MOST,LEAST, from {MOST_THREADS},{MOST_THREADS} to 1,1."


def _user(text: str) -> str:
    return _known(text, pwd.getpwuid, pwd.getpwnam, "user")


def _group(text: str) -> str:
    return _known(text, grp.getgrgid, grp.getgrnam, "group")


def _known(text: str, numbered: Callable[[int], object], named: Callable[[str], object], what: str) -> str:
    try:
        numbered(int(text)) if re.fullmatch(r"-?\d+", text) else named(text)
    except (KeyError, OverflowError, ValueError):
        return f"there is no such {what}."
    return ""


OF_UVICORN: Mapping[str, Rule] = {
    "--port": whole(0, MOST_PORTS),
    "--fd": _open_file,
    "--uds": _in_a_folder,
    "--workers": whole(1, MOST_PROCESSES),
    "--reload-delay": seconds(),
    "--ws-max-size": whole(1),
    "--ws-max-queue": whole(1),
    "--ws-ping-interval": seconds(),
    "--ws-ping-timeout": seconds(),
    "--limit-concurrency": whole(1),
    "--backlog": whole(0),
    "--limit-max-requests": whole(1),
    "--limit-max-requests-jitter": whole(0),
    "--timeout-keep-alive": whole(0, 86_400),
    "--timeout-graceful-shutdown": whole(0, 86_400),
    "--timeout-worker-healthcheck": whole(1, 86_400),
    "--ssl-version": _tls_version,
    "--ssl-cert-reqs": whole(0, int(ssl.CERT_REQUIRED)),
    "--ssl-certfile": _file,
    "--ssl-keyfile": _file,
    "--ssl-ca-certs": _file,
    "--h11-max-incomplete-event-size": whole(1),
}
_OF_BOTH: Mapping[str, Rule] = {"--uid": _user, "--gid": _group}
OF_WORKERS: Mapping[str, Rule] = {
    **_OF_BOTH,
    "--concurrency": whole(0, MOST_THREADS),
    "-c": whole(0, MOST_THREADS),
    "--autoscale": _threads,
    "--prefetch-multiplier": whole(0, MOST_THREADS),
    "--heartbeat-interval": whole(1, 86_400),
    "--time-limit": seconds(),
    "--soft-time-limit": seconds(),
    "--max-tasks-per-child": whole(1),
    "--max-memory-per-child": whole(1),
}
OF_BEAT: Mapping[str, Rule] = {**_OF_BOTH, "--max-interval": whole(0, 86_400)}


def problem_of(words: Sequence[str], rules: Mapping[str, Rule]) -> str:
    """One sentence about the first option whose value its program cannot use; empty if there is none."""
    for option, value in _given(words, rules):
        if instead := rules[option](value):
            return f"{option} is {value if len(value) <= 60 else value[:60] + '…'}: {instead}"
    return ""


def _given(words: Sequence[str], rules: Mapping[str, Rule]) -> list[tuple[str, str]]:
    """The options with rules, and their values: `--port 1`, `--port=1`, `-c 1` or `-c1`."""
    found = []
    for word, following in zip_longest(words, words[1:]):
        name, equals, value = word.partition("=")
        if word in rules and following is not None:
            found.append((word, following))
        elif equals and name in rules:
            found.append((name, value))
        elif word[:2] in rules and not word.startswith("--") and len(word) > 2:
            found.append((word[:2], word[2:]))
    return found
