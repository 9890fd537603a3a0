"""The wheels of this checkout, and a folder that gets as big as an environment and is gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import build_packages


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of each package, as `tools/build_packages.py` leaves it."""
    folder = tmp_path_factory.mktemp("dist")
    for package in build_packages.packages():
        build_packages.build(package, folder, kinds=["--wheel"])
    return folder


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder for environments of hundreds of megabytes: pytest would keep those of three runs."""
    folder = Path(tempfile.mkdtemp(prefix="documented-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
