"""What a public forge reads: it runs the commands of this repository, and no others."""

import re
from typing import Any

from tests.deployment.product import ROOT, documents
from tools.build_packages import version

FORGE = ROOT / ".github"
FORMS = sorted(path for path in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
CI: dict[str, Any] = documents(FORGE / "workflows" / "ci.yml")[0]
STEPS = [step for job in CI["jobs"].values() for step in job["steps"]]


def test_continuous_integration_runs_the_commands_of_the_repository() -> None:
    commands = {step["run"] for step in STEPS if "run" in step}
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert [step["run"] for step in CI["jobs"]["change"]["steps"] if "run" in step] == [".ci/run"]
    assert commands <= {".ci/run", *(f"make {target}" for target in targets)}
    assert "make nightly" in commands
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_version_is_the_same_wherever_it_is_named() -> None:
    example = documents(ROOT / "deploy/kubernetes/example/kustomization.yaml")[0]
    wheels = re.findall(r"\bversion, now ([\d.]+)\.", (ROOT / "docs" / "installation.md").read_text(encoding="utf-8"))
    supported = re.findall(r"^\| ([\d.]+) \| yes \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.MULTILINE)

    assert {image["newTag"] for image in example["images"]} == {version()}
    assert wheels
    assert set(wheels) == {version()}
    assert supported[0] == version().rpartition(".")[0]
