"""Writes the bill of materials of a release (CycloneDX): what the control plane is locked to, with hashes and licences.

    .venv/bin/python tools/bill_of_materials.py [--output dist]

The packages and versions are those of requirements/run.txt. Their licences are read from the installed packages.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "requirements" / "run.txt"
STATED = {
    "async-timeout": "Apache-2.0",  # for older interpreters only, so that it is not installed here
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",  # its metadata says "Dual License"
    "tzdata": "Apache-2.0",  # for Windows only
}
"""Licences that the installed packages do not state."""
LONGEST_NAME = 100
"""What is longer in the field of a licence is its text."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A package as requirements/run.txt has it; `marker` says where it is installed."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def locked(text: str) -> Iterator[Locked]:
    """The packages of a hashed requirements file."""
    for entry in text.replace("\\\n", " ").splitlines():
        words, *hashes = entry.split("--hash=sha256:")
        if words.strip() and not words.startswith("#"):
            known = Requirement(words.strip())
            (exact,) = known.specifier
            yield Locked(known.name, exact.version, str(known.marker or ""), tuple(map(str.strip, hashes)))


def licence(name: str) -> License:
    """The licence of a package, by its SPDX expression where it has one. Raises LookupError if nothing states it."""
    make = LicenseFactory().make_from_string
    if name in STATED:
        return make(STATED[name])
    known = metadata.metadata(name)
    classifiers = [text.rpartition(" :: ")[2] for text in known.get_all("Classifier", []) if text.startswith("License")]
    given = (known.get("License-Expression"), known.get("License"), *classifiers)
    for text in given:
        if text and "\n" not in text and len(text) <= LONGEST_NAME:
            return make(text)
    raise LookupError(f"{name} states no licence")


def component(one: Locked) -> Component:
    """The package with its licence and the hashes of its files."""
    return Component(
        name=one.name,
        version=one.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{one.name}=={one.version}",
        purl=PackageURL("pypi", name=one.name, version=one.version),
        licenses=[licence(one.name)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=text) for text in one.hashes],
        properties=[Property(name="paired-namespaces:marker", value=one.marker)] if one.marker else [],
    )


def bill(packages: Iterable[Locked], version: str) -> Bom:
    """The bill of a release of the control plane."""
    name = "paired-namespaces-control-plane"
    ours = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[LicenseFactory().make_from_string("MIT")],
    )
    parts = [component(one) for one in packages]
    made = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, f"{name}=={version} {sorted(map(repr, parts))}"))
    made.metadata.component = ours
    made.register_dependency(ours, parts)
    return made


def write(output: Path) -> Path:
    """Write the bill of this version into a folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    made = bill(locked(LOCKED.read_text(encoding="utf-8")), version)
    output.mkdir(parents=True, exist_ok=True)
    file = output / f"paired-namespaces-control-plane-{version}.cdx.json"
    file.write_text(JsonV1Dot6(made).output_as_string(indent=2), encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the bill of materials of a release.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="where to (default: dist)")
    print(f"wrote {write(parser.parse_args().output).name}", flush=True)


if __name__ == "__main__":
    main()
