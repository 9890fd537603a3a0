"""What a campaign bills is read once all of it is in files."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.campaign import campaign
from tests.campaign.campaign import Campaign
from tests.campaign.plan import SMALL

ALL, PART = {"sender": 88}, {"sender": 42}


def test_records_that_leave_the_stream_while_the_files_are_read_are_billed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector writes them between the look at the files and the look at the stream."""
    looks, waiting = iter([PART, PART]), [2]

    def billed(folder: Path) -> dict[str, int]:
        found = next(looks, None)
        waiting[0] -= 1 if found else 0
        return found or ALL

    stage: Any = SimpleNamespace(
        client=SimpleNamespace(xlen=lambda stream: waiting[0]), processes=SimpleNamespace(check=lambda: None)
    )
    monkeypatch.setattr(campaign, "_billed_of_files", billed)
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None))
    assert Campaign(SMALL, tmp_path, print)._bill(stage) == ALL
