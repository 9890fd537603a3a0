"""The bill of materials of a release lists every locked package, with its version and its licence."""

import json
import re

import pytest

from tools.bill_of_materials import LOCKED, ROOT, Locked, locked, write
from tools.build_packages import version


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> dict:
    file = write(tmp_path_factory.mktemp("release") / "dist")
    assert file.name == f"paired-namespaces-control-plane-{version()}.cdx.json"
    return json.loads(file.read_text(encoding="utf-8"))


def listed_in(file) -> set[tuple[str, str]]:
    """Names and versions, without the parser that is tested."""
    return set(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_locked_package_is_listed_with_its_version_and_no_other(document):
    parts = [(part["name"], part["version"]) for part in document["components"]]

    assert len(parts) == len(set(parts)) > 50
    assert set(parts) == listed_in(LOCKED)


def test_every_package_has_a_licence_hashes_and_an_address(document):
    for part in document["components"]:
        (entry,) = part["licenses"]
        licence = entry.get("expression") or entry["license"].get("id") or entry["license"]["name"]
        assert re.search("MIT|BSD|Apache|PSF|MPL|LGPL|ISC|Unlicense|HPND|Python", licence), (part["name"], licence)
        assert all(len(one["content"]) == 64 for one in part["hashes"])
        assert part["hashes"]
        assert part["purl"] == f"pkg:pypi/{part['name'].lower()}@{part['version']}"


def test_the_bill_is_that_of_this_version_and_depends_on_all_of_it(document):
    ours = document["metadata"]["component"]
    depends = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}

    assert (document["bomFormat"], ours["version"]) == ("CycloneDX", version())
    assert set(depends[ours["bom-ref"]]) == {part["bom-ref"] for part in document["components"]}


def test_a_marker_says_where_a_package_is_installed():
    text = "one==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n# more\ntwo==2\n"

    assert list(locked(text)) == [
        Locked("one", "1.0", 'sys_platform == "win32"', ("aa", "bb")),
        Locked("two", "2", "", ()),
    ]


def test_a_release_of_all_packages_comes_with_its_bill():
    assert "bill_of_materials.py" in (ROOT / "tools" / "build_packages.py").read_text(encoding="utf-8")
