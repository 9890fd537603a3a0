"""Builds the wheels and source archives of this repository's packages, each from a folder that has only its own files.

    .venv/bin/python tools/build_packages.py [--output dist] [NAME …]

`[tool.build-packages.folders]` of a package's pyproject.toml lists its folders in the repository and their places in
the package. The version of all packages is that of the pyproject.toml at the root; what a package `requires` of this
repository, it requires in the same version. Why: docs/design/packages.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class Package:
    """A package to build: the folder of its pyproject.toml, and the parsed file."""

    home: Path
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.settings["project"]["name"])

    @property
    def folders(self) -> dict[str, str]:
        """Folders of the repository, and their places in the package."""
        return dict(self.settings["tool"]["build-packages"]["folders"])

    @property
    def requires(self) -> list[str]:
        """The packages of this repository that this one requires."""
        return list(self.settings["tool"]["build-packages"].get("requires", []))


def packages() -> list[Package]:
    """All packages, the library first."""
    homes = [ROOT, *sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))]
    return [Package(home, tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))) for home in homes]


def version() -> str:
    """The version of all packages."""
    return str(packages()[0].settings["project"]["version"])


def stage(package: Package, folder: Path) -> None:
    """Copy what the package consists of into an empty folder."""
    for source, target in package.folders.items():
        shutil.copytree(ROOT / source, folder / target, ignore=IGNORED, dirs_exist_ok=True)
    (folder / "pyproject.toml").write_text(_with_siblings(package), encoding="utf-8")
    (folder / "VERSION").write_text(version(), encoding="utf-8")
    shutil.copy(package.home / "README.md", folder)
    shutil.copy(ROOT / "LICENSE", folder)


def _with_siblings(package: Package) -> str:
    """The package's pyproject.toml, in which it requires the other packages of the repository in its own version."""
    text = (package.home / "pyproject.toml").read_text(encoding="utf-8")
    siblings = "".join(f'    "{required}=={version()}",\n' for required in package.requires)
    return text.replace("dependencies = [\n", f"dependencies = [\n{siblings}", 1)


def build(package: Package, output: Path, *, kinds: Sequence[str] = ("--sdist", "--wheel")) -> None:
    """Build a package into the folder `output`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as staged:
        stage(package, Path(staged))
        command = [sys.executable, "-m", "uv", "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
        subprocess.run([*command, *kinds, "--out-dir", output.absolute(), staged], check=True)


def chosen(names: Iterable[str]) -> list[Package]:
    """The packages of these names; all if there are none."""
    known = {package.name: package for package in packages()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"error: there is no package {unknown[0]}: the packages are {', '.join(known)}.")
    return [known[name] for name in names] or list(known.values())


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the packages of this repository.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="where to (default: dist)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="packages to build; all if none is given")
    given = parser.parse_args()
    for package in chosen(given.names):
        build(package, given.output)
        print(f"built {package.name} {version()}", flush=True)


if __name__ == "__main__":
    main()
