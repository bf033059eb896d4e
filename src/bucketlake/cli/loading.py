"""How an import goes: look at the files, decide what table they make or fit into, write, commit.

Incoming(sources, …)          the rows: columns with types, key and buckets that they suggest, batches to write
store_rows(catalog, …)        the rows in a table that is new, grows, or is replaced, in one commit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial

import pyarrow as pa

from bucketlake.catalog import Catalog
from bucketlake.cli import infer
from bucketlake.cli.json_lines import json_schema, read_json
from bucketlake.cli.nested import as_read, cast_members, is_uuid, together, with_leaves
from bucketlake.cli.sources import Dialect, Source, native_schema, read_native, read_text
from bucketlake.creation import create_with_rows
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pc
from bucketlake.table import Table
from bucketlake.types.model import from_arrow_type, type_text
from bucketlake.values import dataclass

__all__ = ["Incoming", "incoming", "rows_of", "store_rows"]

# What rows take in memory, of a byte of a file.
_SWELLS = {"parquet": 4.0, "arrow": 1.0, "csv": 1.2, "json": 0.7, "jsonl": 0.7}
Tell = Callable[[Source, int], None]
Keys = Callable[[Sequence[str]], list[str]]


@dataclass(slots=True)
class Incoming:
    """The rows of files. `types`: of the columns, in order; `read`: as the files have them; `unique`: a column whose
    values are proved to differ; `records`: how many rows, None where they were not counted; `hints`: what columns of
    text look like."""

    sources: Sequence[Source]
    dialect: Dialect
    types: dict[str, pa.DataType] = field(default_factory=dict)
    read: pa.Schema = field(default_factory=lambda: pa.schema([]))
    unique: str | None = None
    records: int | None = None
    hints: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that the rows will take in memory, roughly."""
        return int(sum(_SWELLS[one.shape.form] * one.size * (4 if one.shape.packed else 1) for one in self.sources))

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([pa.field(name, kind) for name, kind in self.types.items()])


def incoming(
    sources: Sequence[Source], dialect: Dialect, wanted: Mapping[str, pa.DataType], keys: Keys, tell: Tell
) -> Incoming:
    """Look at files: their columns, the types, which column of those that `keys` picks is unique. `wanted`: types that
    were said, or that a table has. `tell` is told of each batch, with its rows."""
    found = Incoming(sources, dialect)
    unique: dict[str, infer.Unique] = {}
    text = sources[0].shape.form == "csv"
    if any((one.shape.form == "csv") != text for one in sources):
        raise InvalidError("files of several formats", files=[one.path for one in sources][:5], remedy="import each")
    if text:
        _look_at_text(found, keys, unique, tell)
    else:
        _look_at_types(found)
    for name, kind in wanted.items():
        if name in found.types:
            found.types[name] = kind
    for name, kind in found.types.items():
        found.types[name] = _usable(name, kind)
    if not text:
        unique.update({name: infer.Unique() for name in keys(list(found.types))})
        _look_at_keys(found, unique, tell)
    found.unique = infer.unique_among(unique, found.types)
    return found


def _usable(name: str, kind: pa.DataType) -> pa.DataType:
    kind = with_leaves(kind, _known)
    try:
        from_arrow_type(kind)
    except UnsupportedError as error:
        remedy = f"--type '{name}=STRING'" if not pa.types.is_nested(kind) else f"write it without '{name}'"
        what = "a column of a type that tables do not have"
        raise UnsupportedError(what, column=name, type=str(kind), remedy=remedy) from error
    return kind


def _known(kind: pa.DataType) -> pa.DataType:
    """A type that tables have: for values of which nothing is known text, for objects without members a map; UUIDs are
    text, and times of day have milliseconds: finer ones are refused, not cut."""
    if pa.types.is_struct(kind) and not kind.num_fields:
        return pa.map_(pa.string(), pa.string())
    if pa.types.is_time64(kind):
        return pa.time32("ms")
    return pa.string() if pa.types.is_null(kind) or is_uuid(kind) else kind


def _whole(kind: pa.DataType) -> pa.DataType:
    """A type that holds all values of this one."""
    return pa.string() if pa.types.is_time64(kind) else _known(kind)


def column_name(given: str, place: int) -> str:
    """A column's name without blanks around it; `column_3` for none."""
    return given.strip() or f"column_{place + 1}"


def _look_at_text(found: Incoming, keys: Keys, unique: dict[str, infer.Unique], tell: Tell) -> None:
    guesses: dict[str, infer.Guess] = {}
    plain = infer.plain_texts(found.dialect.decimal, found.dialect.times)
    records = 0
    for source in found.sources:
        names, batches = read_text(source, found.dialect)
        names = [column_name(name, place) for place, name in enumerate(names)]
        if not guesses:
            unique.update({name: infer.Unique() for name in keys(names)})
        own = [guesses.setdefault(name, infer.Guess(plain)) for name in names]
        for batch in batches:
            for guess, column in zip(own, batch.columns, strict=True):
                guess.see(column)
            for name, one in unique.items():
                one.see(plain(infer.without_words(batch.column(names.index(name)))) if name in names else pa.nulls(1))
            records += batch.num_rows
            tell(source, batch.num_rows)
    found.types = {name: guess.type for name, guess in guesses.items()}
    found.hints = {name: guess.hint for name, guess in guesses.items() if guess.hint is not None}
    found.records = records


def _look_at_types(found: Incoming) -> None:
    read = {"json": json_schema, "jsonl": json_schema}
    schemas = [read.get(source.shape.form, native_schema)(source) for source in found.sources]
    try:
        found.read = together(schemas)
    except pa.ArrowException as error:
        raise InvalidError("files whose columns do not fit together", reason=str(error)) from error
    if len(set(found.read.names)) < len(found.read):
        raise InvalidError("columns that occur more than once", path=found.sources[0].path)
    found.types = {item.name: item.type for item in found.read}


def _look_at_keys(found: Incoming, unique: dict[str, infer.Unique], tell: Tell) -> None:
    found.records = 0 if unique else None
    for source in found.sources if unique else ():
        for batch in _batches(found, source, list(unique)):
            for name, one in unique.items():
                one.see(batch.column(name))
            found.records = (found.records or 0) + batch.num_rows
            tell(source, batch.num_rows)


# ---- rows


def rows_of(found: Incoming, tell: Tell) -> Iterator[pa.RecordBatch]:
    """All rows, with the columns and types that were found."""
    for source in found.sources:
        for batch in _batches(found, source, list(found.types)):
            tell(source, batch.num_rows)
            yield batch


def _batches(found: Incoming, source: Source, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([pa.field(name, found.types[name]) for name in names])
    if source.shape.form == "csv":
        given, batches = read_text(source, found.dialect)
        there = [column_name(name, place) for place, name in enumerate(given)]
        cast = partial(infer.converted, plain=infer.plain_texts(found.dialect.decimal, found.dialect.times))
        for batch in batches:
            yield _typed(batch.rename_columns(there), schema, source, cast)
        return
    if source.shape.form in ("json", "jsonl"):
        read = [(found.read.field(item.name), item.type) for item in schema]
        own = [item.with_type(as_read(item.type, wanted)) for item, wanted in read]
        for batch in read_json(source, pa.schema(own)):
            yield _typed(batch, schema, source, cast_members)
        return
    there = native_schema(source).names
    for batch in read_native(source, [name for name in names if name in there]):
        yield _typed(batch, schema, source, partial(cast_members, texts=pc.cast))


def _typed(
    batch: pa.RecordBatch, schema: pa.Schema, source: Source, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.RecordBatch:
    """A batch with these columns: null where the file has none of the name."""
    made = []
    for item in schema:
        place = batch.schema.get_field_index(item.name)
        if place < 0:
            made.append(pa.nulls(batch.num_rows, item.type))
            continue
        column = batch.column(place)
        try:
            made.append(column if column.type == item.type else cast(column, item.type))
        except pa.ArrowException as error:
            reason = str(error).split("\n")[0][:200]
            raise InvalidError(
                "a value that its column cannot hold",
                path=source.path,
                column=item.name,
                type=str(item.type),
                reason=reason,
                remedy=_remedy_of(source, item, column.type),
            ) from error
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _remedy_of(source: Source, item: pa.Field, given: pa.DataType) -> str:
    fits = "STRING"
    if pa.types.is_nested(given):
        with suppress(UnsupportedError):
            fits = type_text(from_arrow_type(with_leaves(given, _whole)))
    remedy = f"mend the file, or --type '{item.name}={fits}' for a new table"
    if source.shape.form == "csv" and (pa.types.is_floating(item.type) or pa.types.is_decimal(item.type)):
        return f"{remedy}; --decimal , where a comma stands before the fraction"
    if source.shape.form == "csv" and pa.types.is_temporal(item.type):
        return f"{remedy}; --date-format says how dates are written: %d.%m.%Y"
    return remedy


def store_rows(catalog: Catalog, table: Table, batches: Iterator[pa.RecordBatch], how: str) -> Snapshot | None:
    """Write the rows in one commit. `how`: create (the table is a draft), append, or replace all that it holds."""
    if how == "create":
        return create_with_rows(catalog, table, batches)
    if how == "append":
        return table.write_arrow(batches)
    return table.write_arrow(batches, mode="overwrite", dynamic_partition_overwrite="false")
