"""A disk that is full takes nothing more, whatever its size, until there is room again."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.campaign.disks import Disks


def test_a_full_disk_takes_nothing_until_there_is_room_and_its_files_are_kept(tmp_path: Path) -> None:
    with ExitStack() as resources:
        disks = Disks(tmp_path, resources)
        folder = disks.folder("primary")
        if not disks.can_be_filled:
            pytest.skip("this host does not allow mounting")
        (folder / "before").write_bytes(bytes(1_000_000))
        assert disks.fill("primary")
        with pytest.raises(OSError, match="No space left on device"):
            (folder / "meanwhile").write_bytes(bytes(100_000))
        disks.clear("primary")
        (folder / "after").write_bytes(bytes(1_000_000))
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == {
        "before": 1_000_000,
        "meanwhile": 0,
        "after": 1_000_000,
    }
