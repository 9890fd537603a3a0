"""Each step that builds the images, without an engine: in an empty folder that has only what the ignore file passes.

Nightly: it installs the packages of both images from an index. The steps that create the account and install Java
need a root file system of their own and are not tried.
"""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path, PurePath

import pytest

from tests.deployment import product
from tests.deployment.test_container_files import FOLDER, stages
from tests.packages.environments import HIDDEN

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
PLACES = re.compile(r"/(?=opt/|wheels\b)")


def passed(rules: list[str], path: PurePath) -> bool:
    """Whether an engine sends the file to the build: the last rule that matches it or one of its folders decides."""
    names = [str(path), *(str(parent) for parent in path.parents)]
    is_passed = True
    for rule in rules:
        if any(fnmatch(name, rule.lstrip("!").replace("**/", "*")) for name in names):
            is_passed = rule.startswith("!")
    return is_passed


def context(folder: Path) -> Path:
    """What the build gets of the files that git tracks."""
    lines = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=product.ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if passed(rules, PurePath(name)) and (product.ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(product.ROOT / name, folder / name)
    return folder


def test_each_step_of_the_build_runs_and_what_it_makes_starts(tmp_path: Path) -> None:
    sent, source, root = context(tmp_path / "context"), tmp_path / "source", tmp_path / "root"
    source.mkdir(), root.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}

    def run(command: str) -> str:
        here = PLACES.sub(f"{root}/", command).replace("python -m venv", f"{sys.executable} -m venv")
        done = subprocess.run(
            here, shell=True, cwd=source, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        return done.stdout

    for instruction, text in stages()["build-charges"]:
        if instruction == "COPY":
            copied, target = text.split()
            shutil.copytree(sent / copied, source / target, dirs_exist_ok=True)
        elif instruction == "RUN":
            run(text)
    assert "compute_charges" in run("/opt/paired-namespaces/bin/paired-namespaces help")
    run("/opt/paired-namespaces/bin/python -c 'import pyspark, emulator, workers.celery'")
