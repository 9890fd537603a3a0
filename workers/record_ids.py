"""What a file of usage says in its footer about its record_ids, so that a reader need not look through them.

The library's ids name the minute of their record, ``pair/reporter/20261005T1007/…``: a version of it in another file is
in the same minute there. Where each id of a file is also there once only, nothing in the file is counted twice.

The note has the number of rows that it was made for, because programs that merge or filter files with Arrow copy it.
"""

import pyarrow as pa
import pyarrow.compute as pc

NOTE = b"paired-namespaces.record-ids"
NAME_THEIR_MINUTE, ONCE_EACH = "name their minute", "name their minute, once each"
MINUTE_OF_AN_ID = r"^[^/]*/[^/]*/(?P<minute>[0-9]{8}T[0-9]{4})(?:/|$)"


def with_note(table: pa.Table) -> pa.Table:
    """The table of usage with what its ids are like in its metadata, if that is worth a note."""
    found = _found(table["record_id"], table["minute"])
    return table.replace_schema_metadata({NOTE: f"{found}, {len(table)} rows"} if found else None)


def _found(ids: pa.ChunkedArray, minutes: pa.ChunkedArray) -> str:
    named = pc.struct_field(pc.extract_regex(ids, MINUTE_OF_AN_ID), "minute")
    names_it = pc.fill_null(pc.equal(named, _as_in_an_id(minutes)), False)
    if not pc.all(pc.or_(names_it, pc.is_null(ids)), min_count=0).as_py():
        return ""
    return ONCE_EACH if pc.count_distinct(ids, mode="only_valid").as_py() == len(ids) else NAME_THEIR_MINUTE


def _as_in_an_id(minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    """The minutes as text, null where one is not whole; of each minute it is made once."""
    different = minutes.unique()
    # Without a time zone, which Arrow would look up in a database that not every machine has.
    texts = pc.strftime(different.cast(pa.timestamp("s"), safe=False), format="%Y%m%dT%H%M")
    is_whole = pc.equal(
        different, pc.floor_temporal(different.cast(pa.timestamp("us")), unit="minute").cast(different.type)
    )
    texts = pc.if_else(is_whole, texts, None)
    return texts.take(pc.index_in(minutes, value_set=different))
