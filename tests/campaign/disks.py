"""Small disks for the stores of the namespaces, which can be filled: tmpfs where this host allows mounting."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

SIZE_MB = 4096
"""More than a backlog of a million messages needs: a store that fills its disk by itself can be emptied no more."""
ATTEMPTS = 20


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
        if not _succeeds("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=700", "campaign", str(folder)):
            return False
        for name, data in kept:
            (folder / name).write_bytes(data)
        return True

    def fill(self, name: str) -> bool:
        """The disk is now as large as what is on it, so that nothing more can be written; False if there is no disk."""
        folder = self._mounted.get(name)
        return folder is not None and any(_resize(folder, f"{_used_kb(folder)}k") for _ in range(ATTEMPTS))

    def clear(self, name: str) -> None:
        """The disk has its size again."""
        folder = self._mounted.get(name)
        if folder is not None:
            _resize(folder, f"{SIZE_MB}m")

    def _unmount(self, name: str) -> None:
        folder = self._mounted.pop(name)
        self._keep_files(folder)

    def _keep_files(self, folder: Path) -> None:
        kept = [(path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file()]
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        for path in folder.iterdir():  # of an earlier part: an old log beside a newer database would damage it
            path.unlink()
        for file, data in kept:
            (folder / file).write_bytes(data)


def _used_kb(folder: Path) -> int:
    found = os.statvfs(folder)
    return -(-(found.f_blocks - found.f_bfree) * found.f_frsize // 1024)


def _resize(folder: Path, size: str) -> bool:
    """False if more was written meanwhile than fits."""
    return _succeeds("mount", "-o", f"remount,size={size}", str(folder))


def _succeeds(*argv: str) -> bool:
    return not subprocess.run(argv, capture_output=True, check=False).returncode
