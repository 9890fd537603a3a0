"""Both images, built from the Dockerfile by an engine and started.

Nightly, as root on Debian. The base is Debian with its own Python, made here: no registry of images is asked.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.dashboard.site.test_behind_a_proxy import answers
from tests.deployment import product
from tests.deployment.test_container_files import FOLDER, TARGETS, stages
from tests.ports import free_port

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("buildah", "debootstrap"))),
        reason="images are built as root, by buildah on what debootstrap makes",
    ),
]
BASE = stages()["build"][0][1].partition(" ")[0]
DEBIAN = ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3-venv", BASE.rpartition("-")[2]]
OF_THE_HOST = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""How pip reaches its index here."""
SPARK = "from pyspark.sql import SparkSession; print(SparkSession.builder.getOrCreate().range(3).count())"
Engine = Callable[..., str]


def command(folder: Path, verb: str, *words: str | Path) -> list[str | Path]:
    isolated = ["--isolation", "chroot", "--network", "host"] if verb in ("bud", "run") else []
    named = ["--hostname", "localhost"] if verb == "run" else []  # a name of its own would be in no hosts file
    return ["buildah", "--root", folder / "store", "--runroot", folder / "run", verb, *isolated, *named, *words]


def buildah(folder: Path, verb: str, *words: str | Path) -> str:
    done = subprocess.run(command(folder, verb, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def images() -> Iterator[Path]:
    """The folder of an engine that has built both images."""
    with tempfile.TemporaryDirectory(prefix="images-") as name:
        folder, root = Path(name), Path(name) / "debian"
        subprocess.run([*DEBIAN, root], check=True, stdout=subprocess.DEVNULL)
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for path in filter(os.path.exists, OF_THE_HOST):
            shutil.copy(path, root / path[1:])
        container = buildah(folder, "from", "scratch")
        buildah(folder, "add", container, root, "/")
        buildah(folder, "commit", "--rm", container, f"docker.io/library/{BASE}")
        files = ["--file", FOLDER / "Dockerfile", "--ignorefile", FOLDER / "Dockerfile.dockerignore", product.ROOT]
        for target in TARGETS:
            buildah(folder, "bud", "--pull-never", "--layers", "--target", target, "--tag", target, *files)
        yield folder


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_built_and_starts_without_rights(target: str, images: Path) -> None:
    container, port = buildah(images, "from", "--pull-never", f"localhost/{target}"), str(free_port())
    run: Engine = partial(buildah, images, "run", container, "--")

    assert run("id", "-u") == "10001"
    assert run("paired-namespaces-gateway", "--help").startswith("usage: paired-namespaces-gateway")
    run("python", "-c", "import emulator, workers.celery")
    if target == "charges":
        assert run("python", "-c", SPARK) == "3"
    run("paired-namespaces", "migrate", "-v0")
    web = command(images, "run", container, "--", "paired-namespaces", "web", "--port", port)
    with subprocess.Popen(web, start_new_session=True) as process:
        try:
            answers(f"http://127.0.0.1:{port}/healthz")
        finally:
            os.killpg(process.pid, signal.SIGTERM)
