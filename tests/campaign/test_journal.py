"""A journal survives its writer: what was torn by a kill is left out, and nothing else."""

import pytest

from tests.campaign.journal import Journal, read


def test_what_was_written_is_read(tmp_path) -> None:
    journal = Journal(tmp_path / "new" / "j.jsonl")
    journal.write({"kind": "a"}, {"kind": "b"})
    journal.close()
    assert [one["kind"] for one in read(tmp_path / "new" / "j.jsonl")] == ["a", "b"]


def test_a_torn_line_is_closed_by_the_next_writer_and_left_out(tmp_path) -> None:
    file = tmp_path / "j.jsonl"
    file.write_bytes(b'{"kind":"a"}\n{"kind":"attem')
    journal = Journal(file)
    journal.write({"kind": "b"})
    journal.close()
    assert [one["kind"] for one in read(file)] == ["a", "b"]


def test_other_damage_is_not_overlooked(tmp_path) -> None:
    file = tmp_path / "j.jsonl"
    file.write_bytes(b'{"kind":"a"}\nnonsense}\n')
    with pytest.raises(ValueError, match="Expecting value"):
        list(read(file))


def test_a_journal_that_nobody_wrote_is_empty(tmp_path) -> None:
    assert list(read(tmp_path / "none.jsonl")) == []
