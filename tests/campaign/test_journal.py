"""A journal survives its writer: what was torn by a kill is left out; a bill is read once all of it is in files."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.campaign import campaign
from tests.campaign.campaign import Campaign
from tests.campaign.journal import Journal, read
from tests.campaign.plan import SMALL


def test_what_was_written_is_read_but_for_a_torn_line_which_the_next_writer_closes(tmp_path) -> None:
    file = tmp_path / "new" / "j.jsonl"
    assert list(read(file)) == []
    for torn, kind in ((b'{"kind":"attem', "a"), (b"", "b")):
        journal = Journal(file)
        journal.write({"kind": kind}, {"kind": f"{kind} too"})
        journal.close()
        with file.open("ab") as writer:
            writer.write(torn)
    assert [one["kind"] for one in read(file)] == ["a", "a too", "b", "b too"]


def test_other_damage_is_not_overlooked(tmp_path) -> None:
    file = tmp_path / "j.jsonl"
    file.write_bytes(b'{"kind":"a"}\nnonsense}\n')
    with pytest.raises(ValueError, match="Expecting value"):
        list(read(file))


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
