"""Debian packages, where this user may install them. Threads take turns: apt has one lock for the whole machine."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from steps import VENV, SetUpError, link_fallback, run, say, which

_turn = threading.Lock()
_updated = threading.Event()


def can_use_apt() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str) -> bool:
    """Install a Debian package where that is possible; False where it is not or did not work."""
    if not can_use_apt():
        return False
    with _turn:
        return _install(package)


def _install(package: str) -> bool:
    say(f"installing {package} with apt …")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        # A set-up that was killed half-way may have left a package unconfigured.
        run(["dpkg", "--configure", "-a"], "dpkg --configure -a failed", **quiet)
        _update()
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], f"apt-get {package}", **quiet)
    except SetUpError as error:
        say(f"warning: {error}")
        return False
    say(f"{package} is installed")
    return True


def _update() -> None:
    if not _updated.is_set():
        run(["apt-get", "update", "-qq"], "apt-get update failed")
        _updated.set()


def unpack_from_apt(package: str) -> bool:
    """The programs of a Debian package, for this checkout alone; nothing of it is configured or started."""
    folder = unpack(package)
    if folder is None:
        return False
    for programs in (folder / "usr" / "bin", folder / "usr" / "sbin"):
        for program in programs.glob("*"):
            link_fallback(program.name, program)
    return which(package) is not None


def unpack(package: str) -> Path | None:
    """The folder with the files of a Debian package; None if it cannot be had."""
    if not can_use_apt() or not shutil.which("dpkg-deb"):
        return None
    say(f"unpacking {package} …")
    folder = VENV / "unpacked" / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        _update()
        # As root, apt drops its rights and cannot write into our folder, so the sandbox is disabled.
        options = ["-qq", "-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache::archives={folder}"]
        run(
            ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", folder, "apt-get", *options, "download", package],
            package,
        )
        run(["dpkg-deb", "-x", next(folder.glob("*.deb")), folder], f"{package} could not be unpacked")
    except (SetUpError, StopIteration) as error:
        say(f"warning: {error}")
        return None
    return folder
