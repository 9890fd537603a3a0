"""What a public forge and pre-commit read: it runs the commands of this repository, and no others."""

import re
from pathlib import Path
from typing import Any

from tests.deployment.product import ROOT, documents
from tools.build_packages import version

FORGE = ROOT / ".github"
FORMS = sorted(path for path in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
CI: dict[str, Any] = documents(FORGE / "workflows" / "ci.yml")[0]
HOOKS: list[dict[str, Any]] = [
    hook for repository in documents(ROOT / ".pre-commit-config.yaml")[0]["repos"] for hook in repository["hooks"]
]
STEPS = [step for job in CI["jobs"].values() for step in job["steps"]]


def test_continuous_integration_runs_the_commands_of_the_repository() -> None:
    commands = {step["run"] for step in STEPS if "run" in step}
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert [step["run"] for step in CI["jobs"]["change"]["steps"] if "run" in step] == [".ci/run"]
    assert commands <= {".ci/run", *(f"make {target}" for target in targets)}
    assert "make nightly" in commands
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_hooks_are_tools_of_the_environment_and_those_of_make_check() -> None:
    tools = [hook["entry"].split()[0] for hook in HOOKS]
    # From the text: the tool imports modules beside it, as a program does.
    checked = set(re.findall(r'^    \["([a-z-]+)"', (ROOT / "tools" / "check.py").read_text("utf-8"), re.MULTILINE))

    assert all(hook["language"] == "system" for hook in HOOKS)
    assert all(tool.startswith(".venv/bin/") for tool in tools)
    assert checked >= {"ruff", "mypy", "python"}
    assert checked - {"python"} == {Path(tool).name for tool in tools} - {"pytest"}
    assert {word for hook in HOOKS for word in hook["entry"].split() if word.startswith("tests/")} <= {
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py")
    }


def test_the_version_is_the_same_wherever_it_is_named() -> None:
    example = documents(ROOT / "deploy/kubernetes/example/kustomization.yaml")[0]
    wheels = re.findall(r"\bversion, now ([\d.]+)\.", (ROOT / "docs" / "installation.md").read_text(encoding="utf-8"))
    supported = re.findall(r"^\| ([\d.]+) \| yes \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.MULTILINE)

    assert {image["newTag"] for image in example["images"]} == {version()}
    assert wheels
    assert set(wheels) == {version()}
    assert supported[0] == version().rpartition(".")[0]
