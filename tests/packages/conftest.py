"""The wheels of this checkout, built once for all tests of this folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools import build_packages


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package, by the package's name."""
    output = tmp_path_factory.mktemp("wheels")
    for package in build_packages.packages():
        build_packages.build(package, output, kinds=["--wheel"])
    built = {path.name.partition("-")[0].replace("_", "-"): path for path in output.glob("*.whl")}
    assert set(built) == {package.name for package in build_packages.packages()}
    return built


@pytest.fixture(scope="session")
def contents(wheels: dict[str, Path]) -> dict[str, dict[str, bytes]]:
    """The files of each wheel, by the package's name."""
    found = {}
    for name, path in wheels.items():
        with zipfile.ZipFile(path) as wheel:
            found[name] = {file: wheel.read(file) for file in wheel.namelist()}
    return found
