"""Rows of a table as text or Arrow, batch by batch: `table`, `json`, `jsonl`, `csv`, `arrow`.

JSON and CSV are made by vectorised writers. What they have no word for becomes text first: decimals with all digits,
bytes in hexadecimal, times as ISO 8601, maps as lists of key and value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import IO, Any

import pyarrow as pa

from bucketlake.cli.answer import Column, Streamed, plain
from bucketlake.cli.text import clean, is_terminal, look_of, table
from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy, pc, pl

__all__ = ["csv_bytes", "jsonl_bytes", "of_values", "write"]

pa_csv = lazy("pyarrow.csv")
SCREEN = 1000  # rows of a table that are aligned with each other
_RAW = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_TYPES = {"count": pa.int64, "id": pa.int64, "size": pa.int64, "time": pa.int64, "flag": pa.bool_, "number": pa.float64}


def of_values(rows: Iterable[Sequence[Any]], columns: Sequence[Column]) -> Streamed:
    """Values of a command as Arrow: counts, sizes and times (epoch milliseconds) as int64, lists and maps as text."""
    listed = [list(row) for row in rows]
    fields = [pa.field(one.name, _TYPES.get(one.kind, pa.string)()) for one in columns]
    arrays = []
    for place, (one, item) in enumerate(zip(columns, fields, strict=True)):
        values = [row[place] for row in listed]
        texts = one.kind not in _TYPES
        arrays.append(pa.array([None if v is None else _text(v) for v in values] if texts else values, item.type))
    schema = pa.schema(fields)
    return Streamed(schema, iter([pa.RecordBatch.from_arrays(arrays, schema=schema)]))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(plain(value))


def write(rows: Streamed, form: str, stream: IO[str]) -> None:
    """Write rows to standard output in one of the formats."""
    if form == "arrow":
        _arrow(rows, stream)
    elif form == "csv":
        _texts((csv_bytes(batch, number == 0) for number, batch in enumerate(_some(rows))), stream, clean)
    elif form == "jsonl":
        _texts(map(jsonl_bytes, rows.batches), stream, _printable_json)
    elif form == "json":
        _texts(_array(rows.batches), stream, _printable_json)
    else:
        _table(rows, stream)


def _some(rows: Streamed) -> Iterator[pa.RecordBatch]:
    """The batches, one at least: a head is written where there are no rows, too."""
    first = next(rows.batches, None)
    yield pa.RecordBatch.from_pylist([], rows.schema) if first is None else first
    yield from rows.batches


def _texts(parts: Iterator[bytes], stream: IO[str], safe: Callable[[str], str]) -> None:
    terminal = is_terminal(stream)
    for part in parts:
        text = part.decode("utf-8", "backslashreplace")
        stream.write("\n".join(map(safe, text.split("\n"))) if terminal else text)


def _printable_json(line: str) -> str:
    return _RAW.sub(lambda found: f"\\u{ord(found.group()):04x}", line)


def _array(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """One JSON array, an object a line."""
    before = b"["
    for batch in batches:
        if batch.num_rows:
            yield before + jsonl_bytes(batch)[:-1].replace(b"\n", b",\n")
            before = b",\n"
    yield b"]\n" if before != b"[" else b"[]\n"


def _arrow(rows: Streamed, stream: IO[str]) -> None:
    if is_terminal(stream):
        raise InvalidError("Arrow is not for a terminal", remedy="add `> FILE`, or pipe it into a program")
    binary: Any = getattr(stream, "buffer", None)
    with pa.ipc.new_stream(binary, rows.schema) as writer:
        for batch in rows.batches:
            writer.write_batch(batch)


def _table(rows: Streamed, stream: IO[str]) -> None:
    look = look_of(stream)
    right = [
        pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or pa.types.is_decimal(f.type) for f in rows.schema
    ]
    cells = chain.from_iterable(map(_cells, rows.batches))
    head = True
    while part := list(islice(cells, SCREEN)):
        lines = table(rows.schema.names, part, right, look)
        stream.writelines(f"{line}\n" for line in (lines if head else lines[-len(part) :]))
        head = False
    if head:
        stream.writelines(f"{line}\n" for line in table(rows.schema.names, [], right, look))


def _cells(batch: pa.RecordBatch) -> Iterator[list[str]]:
    """Rows as texts, a screenful at a time."""
    for start in range(0, batch.num_rows, SCREEN):
        columns = [_column(column) for column in batch.slice(start, SCREEN).columns]
        yield from map(list, zip(*columns, strict=True))


def _column(column: pa.Array) -> list[str]:
    made = _flat(column)
    return ["" if value is None else _number(value) for value in made.to_pylist()]


def _number(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


# ---- JSON and CSV


def jsonl_bytes(batch: pa.RecordBatch) -> bytes:
    """Rows as JSON, an object a line."""
    if not batch.num_rows:
        return b""
    columns = [_spoken(column) for column in batch.columns]
    frame = pl.DataFrame([pl.Series(f"{place}", pl.from_arrow(column)) for place, column in enumerate(columns)])
    frame.columns = batch.schema.names
    return str(frame.write_ndjson()).encode("utf-8", "backslashreplace")


def csv_bytes(batch: pa.RecordBatch, head: bool, delimiter: str = ",") -> bytes:
    """Rows as CSV: texts in quotation marks, null as nothing; lists and structures as JSON."""
    columns = [_flat(column) for column in batch.columns]
    made = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(made, sink, pa_csv.WriteOptions(include_header=head, delimiter=delimiter))
    return bytes(sink.getvalue())


def _flat(column: pa.Array) -> pa.Array:
    """A column of texts, numbers and truth: NaN and infinity stay, which JSON alone cannot say."""
    return column if pa.types.is_floating(column.type) else _told(_spoken(column))


def _told(column: pa.Array) -> pa.Array:
    """A column without lists and structures: as JSON texts."""
    if not pa.types.is_nested(column.type) or not len(column):
        return column if not pa.types.is_nested(column.type) else pa.array([], pa.string())
    lines = str(pl.DataFrame({"c": pl.from_arrow(column)}).write_ndjson()).split("\n")[:-1]
    texts = pc.utf8_slice_codeunits(pa.array(lines, pa.string()), 5, -1)  # within {"c": and }
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _spoken(column: pa.Array) -> pa.Array:
    """A column in types that JSON has: see the module."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = [_spoken(column.field(place)) for place in range(kind.num_fields)]
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, names, mask=column.is_null()) if parts else column
    if pa.types.is_map(kind):
        listed = pa.list_(pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]))
        return _spoken(column.cast(listed))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, _spoken(pc.list_flatten(column)), mask=column.is_null())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pl.Series(pl.from_arrow(column.cast(pa.large_binary()))).bin.encode("hex").to_arrow()
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column.cast(pa.timestamp(kind.unit)), "%Y-%m-%dT%H:%M:%S")
        return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return column.cast(pa.string())
    return column
