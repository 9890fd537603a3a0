"""The files of a day, each checked by its name and footer before a row of it is read (docs/costs.md, "Bad input")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pipeline.errors import FilesChangedError, InputError
from pipeline.usage.folder import IS_A_FOLDER, PATTERN, Child, UsageFolder, printable

NOT_PARQUET = "is not Parquet, or is truncated"
UNREADABLE = "is damaged: its content cannot be read"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file. `name`: with the folder of its day; `rows`: as its footer says; `in_nanoseconds`: whether its
    times are, which Spark reads as integers only.
    """

    name: str
    rows: int
    in_nanoseconds: bool


def check(folder: UsageFolder, child: Child, columns: Mapping[str, str]) -> SourceFile | str:
    """The file, or why it is left out. Raises InputError for a file that may not be read, or is gone."""
    if reason := _odd(child):
        return reason
    try:
        with folder.filesystem.open_input_file(child.path) as source:
            footer = pq.ParquetFile(source, pre_buffer=False).metadata  # of a damaged column it would end the process
    except FileNotFoundError:
        raise FilesChangedError(child.path) from None
    except PermissionError as error:
        raise InputError(f"{child.path} may not be read: permission denied to the user of the job.") from error
    except (OSError, pa.ArrowException, ValueError):
        if folder.filesystem.get_file_info(child.path).type == pafs.FileType.NotFound:
            raise FilesChangedError(child.path) from None
        return NOT_PARQUET
    found = [footer.schema.column(number) for number in range(footer.num_columns)]
    reason = _mismatch(found, columns)
    in_nanoseconds = any(
        '"timeUnit":"nanoseconds"' in column.logical_type.to_json()
        for column in found
        if columns.get(column.path) == "timestamp"
    )
    return reason or SourceFile(place_of(child.path), footer.num_rows, in_nanoseconds)


def place_of(path: str) -> str:
    """The name of a file with the folder of its day: the same in a listing and in an error of Spark."""
    return "/".join(path.split("/")[-2:])


def _odd(child: Child) -> str:
    """What is wrong with a file by its name and size."""
    if child.is_folder:
        return IS_A_FOLDER
    if child.mark[0] == 0:
        return "is empty (0 bytes)"
    if printable(child.name) != child.name:
        return "has a name that is not UTF-8: rename it"
    odd = sorted(set(PATTERN) & set(child.name))
    return f"has {' '.join(odd)} in its name: rename it" if odd else ""


def _mismatch(found: Iterable[pq.ColumnSchema], columns: Mapping[str, str]) -> str:
    """The first column that is missing, has another type, or is there twice: Spark does not look at the case."""
    by_path = {column.path: column for column in found}
    tops = sorted({path.split(".")[0] for path in by_path})
    for name, kind in columns.items():
        if name not in by_path:
            return f"has the column {name} as a group, not as {kind}" if name in tops else f"lacks the column {name}"
        if not _is_readable(by_path[name], kind):
            return f"has the column {name} as {_type_of(by_path[name])}, not as {kind}"
        if len(same := [top for top in tops if top.lower() == name.lower()]) > 1:
            return f"has the column {name} more than once ({', '.join(same)})"
    return ""


def _is_readable(column: pq.ColumnSchema, kind: str) -> bool:
    physical, logical = str(column.physical_type), column.logical_type
    if column.max_repetition_level:
        return False
    match kind:
        case "string":
            return physical == "BYTE_ARRAY" and str(logical.type) in ("NONE", "STRING")
        case "timestamp":
            return physical == "INT96" or (physical == "INT64" and str(logical.type) == "TIMESTAMP")
        case _:
            is_signed = logical.type == "INT" and '"isSigned":true' in logical.to_json()
            return physical in ("INT32", "INT64") and (str(logical.type) == "NONE" or is_signed)


def _type_of(column: pq.ColumnSchema) -> str:
    logical = column.logical_type.type
    return str(column.physical_type if logical == "NONE" else logical)
