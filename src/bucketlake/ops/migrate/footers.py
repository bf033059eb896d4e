"""Whether a file that another program wrote holds a table's columns, and what a manifest says of it, from its footer.

A file is taken only if every column of the table that is no partition column stands in it under the very same name, in
a type whose values the table's type has as they are. What fits by a cast alone, and calendars of before Spark 3, are
refused: the file is read as it lies from then on, by every engine.

Spec: docs/spec/migration.md#files
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.errors import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.data.datafile import WrittenFile
from bucketlake.format.data.orc_tail import VARINT, Message, number_of, open_orc, parse, parts_of, read_tail
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.data.parquet_bounds import footer_stats
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import ColumnStats, limited
from bucketlake.ops.migrate.source import Source, SourceFile
from bucketlake.ops.rows.roll import described, stats_modes
from bucketlake.ops.table.store import Store
from bucketlake.types.model import LISTS, DataField, DataType, Root, from_arrow_type, type_text
from bucketlake.values import dataclass

_BROKEN = "a file that is to be migrated cannot be read; nothing was moved"
_REMEDY = "remove or repair it, or copy the rows: CREATE TABLE … AS SELECT"
_TEXTS, _BYTES = (Root.CHAR, Root.VARCHAR), (Root.BINARY, Root.VARBINARY)
_STAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_CALENDARS_AGREE = dt.date(1900, 1, 1)
_NANOS = 9


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself: rows, top-level columns, those of them that hold INT96, bounds, and whether its old
    dates may be of another calendar."""

    rows: int
    schema: pa.Schema
    int96: frozenset[str] = frozenset()
    stats: Mapping[str, ColumnStats] | None = None
    legacy: bool = False


def footer_of(storage: Storage, file: SourceFile, file_format: str, fields: Sequence[DataField]) -> Footer:
    """The footer of a file. CorruptError names one that is none of its format."""
    if file.size == 0:
        raise CorruptError("an empty file in a folder that is to be migrated; nothing was moved", path=file.path)
    with decoding(_BROKEN, file.path, _REMEDY), storage.open_input(file.path) as opened:
        if file_format == "orc":
            orc = open_orc(opened)
            return Footer(int(orc.nrows), orc.schema, stats=_orc_stats(opened, orc.schema, int(orc.nrows), fields))
        source = ParquetSource(opened, ())
        metadata = source.metadata
        schema = metadata.schema.to_arrow_schema()
        leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
        int96 = frozenset(leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96")
        known = [item for item in fields if _is_told(schema, item)]
        source.bounds(known)
        found = zip(known, footer_stats(metadata, known), strict=True)
        stats = {item.name: _trusted(column, item.type) for item, column in found}
        return Footer(metadata.num_rows, schema, int96, stats, _is_legacy(metadata.metadata or {}))


def _is_told(schema: pa.Schema, item: DataField) -> bool:
    return item.name in schema.names and _misfit(schema.field(item.name).type, item.type) is None


def _trusted(stats: ColumnStats, t: DataType) -> ColumnStats:
    """Without the bounds of floats: writers leave NaN out of them, which is the greatest value here."""
    return ColumnStats(None, None, stats.null_count) if t.root in (Root.FLOAT, Root.DOUBLE) else stats


def _is_legacy(told: Mapping[bytes, bytes]) -> bool:
    version = told.get(b"org.apache.spark.version", b"3").split(b".")[0]
    return any(key in told for key in _LEGACY) or (version.isdigit() and int(version) < 3)


def schema_of(footer: Footer) -> list[DataField]:
    """The columns of a file as a table has them, all of them nullable."""
    fields = []
    for place, column in enumerate(footer.schema):
        kind = from_arrow_type(column.type)
        if kind.root in _STAMPS:
            int96 = column.name in footer.int96
            kind = DataType(Root.TIMESTAMP_LTZ if int96 else kind.root, precision=min(kind.precision or 6, 6))
        fields.append(DataField(place, column.name, kind))
    return fields


# ---------------------------------------------------------------------------------------------- does it fit


def check_columns(footer: Footer, file: SourceFile, source: Source, fields: Sequence[DataField]) -> None:
    """InvalidError unless the file holds the table's columns, and no others where nobody has said which of them count;
    UnsupportedError for values of the old calendar."""
    keys = {key.lower() for key in source.partition_keys}
    names = {name.lower(): name for name in footer.schema.names}
    known = {*keys, *(item.name.lower() for item in fields)}
    others = [] if source.declared else sorted(name for name in footer.schema.names if name.lower() not in known)
    if others:
        what = "a file has columns that the first file lacks; nothing was moved"
        raise InvalidError(
            what, path=file.path, columns=others, remedy="make the table, with the columns that count, first"
        )
    for item in fields:
        if item.name.lower() in keys:
            continue
        if item.name not in footer.schema.names:
            near = names.get(item.name.lower())
            reason = f"there it is '{near}'" if near else "it is not there"
            raise _wrong("a file lacks a column of the table", file, column=item.name, reason=reason)
        kind = footer.schema.field(item.name).type
        misfit = _misfit(kind, item.type, int96=item.name in footer.int96, orc=source.file_format == "orc")
        if misfit is not None:
            raise _wrong(
                "a column of a file is of another type than the table's",
                file,
                column=item.name,
                type=kind,
                expected=type_text(item.type),
                reason=misfit,
            )
        stats = (footer.stats or {}).get(item.name, ColumnStats())
        if not item.type.nullable and stats.null_count != 0:
            raise _wrong("a column of the table is NOT NULL, and a file may hold nulls", file, column=item.name)
        if footer.legacy and item.type.holds(Root.DATE, *_STAMPS) and not _is_recent(stats.min):
            raise UnsupportedError(
                "a file was written before Spark 3, or with its calendar, and may hold dates before 1900",
                path=file.path,
                column=item.name,
                remedy="copy the rows: CREATE TABLE … AS SELECT",
            )


def _is_recent(value: Any) -> bool:
    if isinstance(value, dt.datetime):
        return value.date() >= _CALENDARS_AGREE
    return isinstance(value, dt.date) and value >= _CALENDARS_AGREE


def _wrong(what: str, file: SourceFile, **details: Any) -> InvalidError:
    return InvalidError(f"{what}; nothing was moved", path=file.path, **details, remedy=_REMEDY)


def _misfit(found: pa.DataType, wanted: DataType, *, int96: bool = False, orc: bool = False) -> str | None:
    """Why values of an Arrow type are not the column's as they are; None where they are."""
    kinds = pa.types
    if kinds.is_dictionary(found):
        found = found.value_type
    if kinds.is_unsigned_integer(found):
        return "numbers without sign"
    parts = _parts(found, wanted)
    if parts is not None:
        return next((why for one, kind in parts if (why := _misfit(one, kind, int96=int96, orc=orc))), None)
    if kinds.is_nested(found):
        return "parts of other names or number"
    try:
        kind = from_arrow_type(found)
    except UnsupportedError as error:
        return error.what
    if wanted.root in _STAMPS and kind.root in _STAMPS:
        return _stamp_misfit(kind, wanted, int96, orc)
    if (wanted.root in _TEXTS and kind.root in _TEXTS) or (wanted.root in _BYTES and kind.root is Root.VARBINARY):
        return None
    if wanted.root is Root.DECIMAL and kind.root is Root.DECIMAL:
        same = (kind.precision, kind.scale) == (wanted.precision, wanted.scale)
        return None if same else "other precision or scale"
    return None if wanted.root is kind.root and wanted.root is not Root.TIME else "another type"


def _stamp_misfit(kind: DataType, wanted: DataType, int96: bool, orc: bool) -> str | None:
    if int96:  # an instant to Spark and Hive alike
        return None if wanted.root is Root.TIMESTAMP_LTZ else "INT96 is an instant"
    if kind.root is not wanted.root:
        return "one is an instant, the other a clock's reading"
    if orc:
        return None
    if (kind.precision or 0) >= _NANOS:
        return "nanoseconds in 64 bits, which Spark does not read"
    return (
        None
        if (kind.precision or 0) <= (6 if wanted.precision is None else wanted.precision)
        else "finer than the table's"
    )


def _parts(found: pa.DataType, wanted: DataType) -> list[tuple[pa.DataType, DataType]] | None:
    """The parts of nested types that belong together; None where they are not nested alike."""
    kinds = pa.types
    if wanted.root in LISTS and wanted.element and (kinds.is_list(found) or kinds.is_large_list(found)):
        return [(found.value_type, wanted.element)]
    if wanted.root is Root.MAP and wanted.key and wanted.element and kinds.is_map(found):
        return [(found.key_type, wanted.key), (found.item_type, wanted.element)]
    if wanted.root is Root.ROW and kinds.is_struct(found):
        members = [found.field(number) for number in range(found.num_fields)]
        if [member.name for member in members] == [item.name for item in wanted.fields]:
            return [(member.type, item.type) for member, item in zip(members, wanted.fields, strict=True)]
    return None


# ---------------------------------------------------------------------------------------------- what is told


def data_file(store: Store, file: SourceFile, name: str, footer: Footer, keys: Sequence[str]) -> DataFile:
    """What the manifest says of a file of the table. Of partition columns nothing: their values are the folder's."""
    fields, modes = store.schema.fields, stats_modes(store.schema, store.options)
    known = footer.stats or {}
    stats = tuple(
        ColumnStats() if item.name in keys else limited(known.get(item.name, ColumnStats()), mode)
        for item, mode in zip(fields, modes, strict=True)
    )
    made = described(store, name, WrittenFile(file.path, file.size, footer.rows, stats))
    return replace(made, max_sequence_number=0)  # such files are not numbered


def _orc_stats(opened: Any, schema: pa.Schema, rows: int, fields: Sequence[DataField]) -> dict[str, ColumnStats]:
    """What an ORC file's footer says of its columns; floats are left out, as NaN may be anywhere in their bounds."""
    tail = read_tail(opened)
    told, kinds = [parse(data) for data in parts_of(tail.footer, 7)], tail.kinds()
    if len(told) != len(kinds) or number_of(tail.postscript, 6) < 1:  # bounds of texts were wrong before
        return {}
    found = {}
    wanted = {item.name: item.type for item in fields}
    for name, number in zip(kinds[0].names, kinds[0].children, strict=False):
        if name in wanted and name in schema.names:
            found[name] = _orc_column(told[number], wanted[name], rows)
    return found


def _orc_column(told: Message, t: DataType, rows: int) -> ColumnStats:
    values = [value for number, wire, value in told if number == 1 and wire == VARINT]
    if not values or not 0 <= values[-1] <= rows:
        return ColumnStats()
    nulls = rows - values[-1]
    field, decode = _ORC_BOUNDS.get(t.root, (0, None))
    parts = parts_of(told, field) if decode is not None else []
    if decode is None or not parts or nulls == rows:
        return ColumnStats(None, None, nulls)
    ends = {number: value for number, _, value in parse(parts[-1]) if number in (1, 2)}
    if set(ends) != {1, 2}:
        return ColumnStats(None, None, nulls)
    return ColumnStats(decode(ends[1]), decode(ends[2]), nulls)


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _day(value: int) -> dt.date | None:
    number = _zigzag(value) + dt.date(1970, 1, 1).toordinal()
    return dt.date.fromordinal(number) if 1 <= number <= dt.date.max.toordinal() else None


_ORC_BOUNDS: dict[Root, tuple[int, Any]] = {
    **dict.fromkeys(_WHOLE, (2, _zigzag)),
    Root.VARCHAR: (4, lambda value: value.decode()),
    Root.DATE: (7, _day),
}
