"""The dependency audit fails for what is known, and says so where nothing is (docs/security.md)."""

import json
import subprocess
from importlib import import_module

import pytest

from tools import audit
from tools.audit import Findings, read

CLEAN = {"dependencies": [{"name": "django", "version": "5.2.19", "vulns": []}]}
NOT_ASKED = {"dependencies": [{"name": "django", "skip_reason": "Dependency not found on PyPI"}]}
BAD = {
    "dependencies": [
        {"name": "jinja2", "version": "2.4", "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"]}]},
        {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-2020-1", "fix_versions": []}]},
    ]
}


@pytest.fixture
def answers(monkeypatch):
    """What pip-audit prints, by the list it is asked about."""
    reported: dict[str, object] = {}
    asked: list[str] = []

    def run(command, **_):
        name = command[-1].stem
        asked.append(name)
        given = reported[name]
        if isinstance(given, Exception):
            raise given
        text = given if isinstance(given, str) else json.dumps(given)
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(audit.subprocess, "run", run)
    monkeypatch.setattr(audit, "npm_sentence", str)
    reported["asked"] = asked
    return reported


def test_a_known_vulnerability_fails_the_check_and_says_where_it_is_mended(answers, capsys):
    answers.update(dict.fromkeys(audit.LISTS, CLEAN) | {"test": BAD})

    assert audit.main() == 1
    reported = capsys.readouterr().out
    assert "jinja2 2.4: PYSEC-2014-8, mended in 2.7.2" in reported
    assert "mended in nowhere yet" in reported


def test_what_is_clean_passes(answers, capsys):
    answers.update(dict.fromkeys(audit.LISTS, CLEAN))

    assert audit.main() == 0
    assert "no known vulnerability in 4 packages" in capsys.readouterr().out


@pytest.mark.parametrize(
    "answer", [NOT_ASKED, "", "{}", OSError("no such program"), subprocess.TimeoutExpired("pip-audit", 1)], ids=repr
)
def test_a_service_that_cannot_be_asked_is_said_and_no_reason_to_fail(answers, capsys, answer):
    answers["setup"] = answer

    assert audit.main() == 0
    assert "could not be asked; nothing is known" in capsys.readouterr().out
    assert answers["asked"] == ["setup"]


def test_what_was_left_out_is_counted():
    found = read(CLEAN) + read(NOT_ASKED)

    assert found == Findings(asked=1, unknown=1)
    assert "1 could not be asked about" in found.sentence


def test_the_audit_is_a_part_of_make_check(monkeypatch):
    monkeypatch.syspath_prepend(audit.ROOT / "tools")  # it imports its neighbours, as a script does
    check = import_module("tools.check")

    assert ["python", "tools/audit.py"] in check.CHECKS
    assert all((audit.ROOT / "requirements" / f"{name}.txt").is_file() for name in audit.LISTS)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"metadata": {"vulnerabilities": {"low": 0, "high": 2, "total": 2}}}, "JavaScript: 2 high"),
        ({"metadata": {"vulnerabilities": {"low": 0, "total": 0}}}, "JavaScript: no known vulnerability"),
        ({"message": "405 Method Not Allowed", "statusCode": 405}, "npm audit could not be asked"),
        ({"metadata": {"vulnerabilities": []}}, "npm audit could not be asked"),
        ("", "npm audit could not be asked"),
        (subprocess.TimeoutExpired("npm", 1), "npm audit could not be asked"),
        (OSError("not a program"), "npm audit could not be asked"),
    ],
    ids=repr,
)
def test_npm_is_asked_in_bounded_time_and_says_what_it_knows(monkeypatch, answer, sentence):
    def run(command, timeout, **_):
        assert timeout <= 60
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, 1, answer if isinstance(answer, str) else json.dumps(answer), "")

    monkeypatch.setattr(audit.shutil, "which", lambda _: "/usr/bin/npm")
    monkeypatch.setattr(audit.subprocess, "run", run)

    assert sentence in audit.npm_sentence()


def test_without_npm_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(audit.shutil, "which", lambda _: None)

    assert "npm is not installed" in audit.npm_sentence()
