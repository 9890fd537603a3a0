"""Small disks for the stores of the namespaces, which can be filled: tmpfs where this host allows mounting."""

import contextlib
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

SIZE_MB = 192
FILLER = "filler"


class Disks:
    """One disk for each namespace, in its folder; unmounted when the resources are closed, its files kept there."""

    def __init__(self, folder: Path, resources: ExitStack) -> None:
        self._folder, self._resources = folder, resources
        self._mounted: dict[str, Path] = {}

    def folder(self, name: str) -> Path:
        """The folder of a store, on a small disk if possible."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if name not in self._mounted and self._mount(folder):
            self._mounted[name] = folder
            self._resources.callback(self._unmount, name)
        return folder

    @property
    def can_be_filled(self) -> bool:
        return bool(self._mounted)

    def _mount(self, folder: Path) -> bool:
        """Over a folder with files, they are copied to the disk first."""
        if os.geteuid() != 0 or shutil.which("mount") is None or os.path.ismount(folder):
            return os.path.ismount(folder)
        kept = [(path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file()]
        argv = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=700", "campaign", str(folder)]
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            return False
        for name, data in kept:
            (folder / name).write_bytes(data)
        return True

    def fill(self, name: str) -> bool:
        """From now on nothing more can be written there; False if this host has no such disk."""
        folder = self._mounted.get(name)
        if folder is None:
            return False
        with (folder / FILLER).open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(65_536)):
                pass
        return True

    def clear(self, name: str) -> None:
        folder = self._mounted.get(name)
        if folder is not None:
            (folder / FILLER).unlink(missing_ok=True)

    def _unmount(self, name: str) -> None:
        folder = self._mounted.pop(name)
        self._keep_files(folder)

    def _keep_files(self, folder: Path) -> None:
        kept = [(path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file() and path.name != FILLER]
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        for path in folder.iterdir():  # of an earlier part: an old log beside a newer database would damage it
            path.unlink()
        for file, data in kept:
            (folder / file).write_bytes(data)
