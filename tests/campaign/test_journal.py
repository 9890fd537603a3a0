"""A journal survives its writer: what was torn by a kill is left out."""

import pytest

from tests.campaign.journal import Journal, read


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
