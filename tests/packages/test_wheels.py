"""What the wheels contain and require: held to the tree, so that no file is forgotten and none comes by chance."""

from __future__ import annotations

import email.message
import email.parser
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools.build_packages import ROOT, Package, packages, version

pytestmark = pytest.mark.slow  # building the wheels takes seconds
Contents = dict[str, dict[str, bytes]]
TOP_LEVEL = {
    "paired-namespaces": {"pairing"},
    "paired-namespaces-gateway": {"gateway"},
    "paired-namespaces-control-plane": {"dashboard", "pipeline", "workers"},
    "servicebus-amqp10": {"amqp10"},
    "servicebus-emulator": {"emulator"},
}
"""The names that each package adds to those an application can import."""


def tree(package: Package) -> set[str]:
    """The files of the package's folders in the repository, by their places in the package."""
    return {
        f"{target}/{path.relative_to(ROOT / source)}"
        for source, target in package.folders.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def metadata(files: dict[str, bytes], name: str) -> str:
    """A file of the wheel's dist-info folder."""
    return next(text for file, text in files.items() if file.endswith(f".dist-info/{name}")).decode()


def described(files: dict[str, bytes]) -> email.message.Message:
    return email.parser.Parser().parsestr(metadata(files, "METADATA"))


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_a_wheel_has_every_file_of_its_folders_and_no_other(package: Package, contents: Contents) -> None:
    files = {file for file in contents[package.name] if ".dist-info/" not in file}

    assert files == tree(package)
    assert any(file.endswith("licenses/LICENSE") for file in contents[package.name])


def test_a_wheel_adds_its_own_names_only(contents: Contents) -> None:
    names = {
        name: {file.partition("/")[0] for file in files if ".dist-info/" not in file}
        for name, files in contents.items()
    }

    assert names == TOP_LEVEL


def test_all_wheels_have_the_version_of_the_repository_and_require_each_other_in_it(contents: Contents) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version() == project["version"]
    for files in contents.values():
        head = described(files)
        assert head["Version"] == version()
        for requirement in head.get_all("Requires-Dist", []):
            if Requirement(requirement).name in contents:
                assert f"=={version()}" in requirement


def test_the_library_requires_the_sdk_and_no_framework(contents: Contents) -> None:
    required = map(Requirement, described(contents["paired-namespaces"]).get_all("Requires-Dist", []))

    assert {one.name for one in required if not one.marker} == {"azure-servicebus", "azure-core", "certifi"}


def test_the_control_plane_requires_the_others_and_brings_one_command(contents: Contents) -> None:
    files = contents["paired-namespaces-control-plane"]
    required = {one.name: one for one in map(Requirement, described(files).get_all("Requires-Dist", []))}

    assert required["paired-namespaces"].extras == {"aio", "identity", "redis", "tracing", "websockets"}
    assert "servicebus-emulator" in required
    assert required["pyspark"].marker is not None
    assert metadata(files, "entry_points.txt").split() == [
        "[console_scripts]",
        "paired-namespaces",
        "=",
        "dashboard.__main__:main",
    ]
    assert {"dashboard/templates/base.html", "dashboard/demo/examples/sender.py"} <= set(files)


@pytest.mark.parametrize("package", packages()[1:], ids=lambda package: package.name)
def test_a_folder_of_metadata_alone_is_not_built(package: Package, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uv", "build", "--no-build-isolation", "--python", sys.executable]
    ended = subprocess.run(
        [*command, "--out-dir", tmp_path, package.home], capture_output=True, text=True, check=False, timeout=120
    )

    assert ended.returncode != 0
    assert "error: only the metadata of the package is in this folder: build it by tools/build_packages" in ended.stderr
    assert not list(tmp_path.glob("*.whl"))
