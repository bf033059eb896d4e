"""ORC data files, written and read by pyarrow's ORC library; see `orc_instants` for what it cannot.

Spec: docs/spec/datafile.md#orc
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa

from bucketlake.env.remote_input import ask_ahead
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.data.file_format import BatchSize, FileFormat
from bucketlake.format.data.layout import ORC_ID, map_leaves, stored_schema
from bucketlake.format.data.map_reading import ShreddedColumns
from bucketlake.format.data.orc_instants import (
    INSTANTS,
    UTC,
    ZONES_AGREE,
    Continued,
    check_held,
    exact_file,
    is_plain,
    oldest,
    read_far,
)
from bucketlake.format.data.orc_tail import Tail, noted, open_orc, read_stripe, read_tail, stream_ranges
from bucketlake.lazy import pa_orc, pc
from bucketlake.types.model import DataField, DataType, Root, canonical_batch

CODECS = {
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "zstd": "zstd",
    "snappy": "snappy",
    "zlib": "zlib",
    "lz4": "lz4",
}
_BLOCKS = 1 << 16  # chunks are some of the library's buffers, and shorter than 8 MB
_MOST_BLOCKS = 127
_FAR = "out of range"  # what the library says of an instant that 64-bit nanoseconds do not hold


class OrcSink:
    """Writes tables in canonical layout into one ORC file, stripes as they fill.

    pyarrow writes the file as long as all instants are such as it writes rightly; from the first other one on, stripes
    are made of what it writes (`orc_instants`).
    """

    def __init__(self, out: BinaryIO, fields: Sequence[DataField], form: FileFormat) -> None:
        self._fields = tuple(fields)
        self._nested = {item.name: bool(item.type.fields or item.type.element is not None) for item in fields}
        schema = stored_schema(fields, ORC_ID, all_nullable=True)
        self._schema = pa.schema([f.with_type(_stored_type(f.type)) for f in schema])
        codec = CODECS.get((form.setting("orc.compress") or form.compression).strip().lower())
        if codec is None:
            remedy = f"use one of {', '.join(sorted(CODECS))}"
            raise UnsupportedError("compression is not supported in orc", compression=form.compression, remedy=remedy)
        self._out = _Tap(out)
        try:
            self._how: dict[str, Any] = {
                "compression": codec,
                "compression_block_size": _block(form.number("orc.compress.size", 1 << 18)),
                "row_index_stride": form.number("orc.row.index.stride", 10_000),
                "dictionary_key_size_threshold": float(form.setting("orc.dictionary.key.threshold") or 0.0),
            }
            self._writer = pa_orc.ORCWriter(self._out, stripe_size=form.group_bytes, **self._how)
        except (ValueError, OverflowError) as error:
            what = "option of orc has an invalid value"
            raise InvalidError(what, reason=str(error), remedy="correct the options that start with orc.") from error
        self._group_bytes = form.group_bytes
        self._continued: Continued | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._empty = True

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        table, plain = self._prepared(table)
        if plain and self._continued is None:
            self._writer.write(table.cast(self._schema))
            self._empty = False
            return
        if self._continued is None:
            self._continued = self._begun()
        self._pending.append(table)
        self._pending_bytes += table.nbytes
        if self._pending_bytes >= self._group_bytes:
            self._flush(self._continued)

    def _prepared(self, table: pa.Table) -> tuple[pa.Table, bool]:
        """The rows, and whether pyarrow writes all instants rightly. It misplaces values that lie under null rows,
        which become nulls too, and parts of columns that are slices."""
        plain = [True]

        def seen(column: str, array: pa.Array, t: DataType) -> pa.Array:
            if t.root in INSTANTS and not is_plain(array):
                check_held(column, array)
                plain[0] = False
            return _whole(array) if self._nested[column] else array

        columns = [
            pa.chunked_array([map_leaves(chunk, item.type, partial(seen, item.name)) for chunk in column.chunks])
            if self._nested[item.name] or item.type.root in INSTANTS
            else column
            for column, item in zip(table.columns, self._fields, strict=True)
        ]
        return pa.Table.from_arrays(columns, names=table.schema.names), plain[0]

    def _begun(self) -> Continued:
        """The file as far as it was written. What pyarrow still held of it is put out, but for its end."""
        at = self._out.size
        held = self._out.hold()
        self._finish()
        tail = read_tail(held)
        self._out.release(held.getvalue()[: tail.body])
        return Continued(cast(BinaryIO, self._out), at + tail.body, tail)

    def _flush(self, continued: Continued) -> None:
        table = pa.concat_tables(self._pending).combine_chunks()
        self._pending, self._pending_bytes = [], 0
        columns = [column.chunk(0) for column in table.columns]
        continued.add(exact_file(columns, self._fields, self._schema, **self._how))

    def _finish(self) -> None:
        if self._empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, with their ids."""
        return stored_schema(self._fields, ORC_ID, all_nullable=True)

    def close(self, notes: Mapping[str, str] | None = None) -> None:
        """Write what is buffered and the footer, with `notes` by key, of which pyarrow writes none."""
        if self._continued is not None:
            if self._pending:
                self._flush(self._continued)
            self._continued.close(notes or {})
            return
        if not notes:
            self._finish()
            return
        held = self._out.hold()
        self._finish()
        tail = read_tail(held)
        self._out.release(held.getvalue()[: tail.body] + tail.closed(noted(tail.footer, notes), tail.metadata))


class _Tap(io.RawIOBase):
    """Counts what goes through to another file, or holds it back."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self.size = 0
        self._through = out
        self._held: io.BytesIO | None = None

    def write(self, data: Any) -> int:
        """Pass on."""
        if self._held is not None:
            return self._held.write(data)
        self.size += len(data)
        return self._through.write(data)

    def hold(self) -> io.BytesIO:
        """From now on keep what comes."""
        self._held = io.BytesIO()
        return self._held

    def release(self, data: bytes) -> None:
        """Hold back no more; these bytes are passed on first."""
        self._held = None
        self.write(data)

    def tell(self) -> int:
        """What came so far."""
        return self.size + (self._held.tell() if self._held is not None else 0)

    def writable(self) -> bool:
        """Yes."""
        return True

    def close(self) -> None:
        """Left to the owner."""


def _block(size: int) -> int:
    """A size of chunks that the library takes."""
    return min(max(-(-size // _BLOCKS), 1), _MOST_BLOCKS) * _BLOCKS


def _whole(array: pa.Array) -> pa.Array:
    """The same values, not as a slice of others."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """TIME is INT in ORC files, timestamps are nanoseconds."""
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", tz=kind.tz)
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_stored_type(key.type)), value.with_type(_stored_type(value.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(_stored_type(kind.field(i).type)) for i in range(kind.num_fields)])
    return kind


class OrcSource:
    """One open ORC file. `fields`: the columns wanted, as the file's schema has them."""

    def __init__(self, file: BinaryIO, fields: Sequence[DataField]) -> None:
        self._opened = file
        self._file = open_orc(file)
        self._tail: Tail | None = None
        self._shredded = ShreddedColumns(self._file.metadata, self._file.schema, fields)
        times = Counter(self._file.schema.names)
        for item in self._shredded.physical:
            if times[item.name] > 1:  # the library would give the last of them
                raise InvalidError("a column is in the file more than once", column=item.name)
        self._wanted, self._fields = tuple(fields), self._shredded.physical

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._file.nrows)

    def batches(self, size: BatchSize) -> Iterator[pa.RecordBatch]:
        """Rows in file order, canonical."""
        names = [item.name for item in self._fields]
        for number in range(self._file.nstripes):
            with suppress(Exception):  # what is damaged is told by who reads it
                ask_ahead(self._opened, partial(self._streams, number, names))
            stripe = self._stripe(number, names)
            for item in self._fields:
                if _has_root(item.type, Root.CHAR, Root.VARCHAR, Root.ARRAY, Root.MAP):
                    stripe.column(item.name).validate(full=True)  # the library takes texts and lengths as they come
            rows = max(1024, min(size.rows, int(size.bytes * stripe.num_rows / max(stripe.nbytes, 1))))
            rows = self._shredded.most(rows)
            for start in range(0, stripe.num_rows, rows):
                yield self._canonical(stripe.slice(start, rows))

    def _streams(self, number: int, names: list[str]) -> list[tuple[int, int]]:
        return stream_ranges(self._opened, self._end(), number, names)

    def _stripe(self, number: int, names: list[str]) -> Any:
        try:
            read = self._file.read_stripe(number, columns=names)
        except pa.ArrowInvalid as error:
            if _FAR not in str(error):
                raise
            return pa.RecordBatch.from_pydict({item.name: self._column(number, item) for item in self._fields})
        if not any(self._is_shifted(number, read.column(item.name), item) for item in self._fields):
            return read
        return pa.RecordBatch.from_pydict({item.name: self._column(number, item) for item in self._fields})

    def _column(self, number: int, item: DataField) -> pa.Array:
        """One column of a stripe in which there are instants that the library does not give rightly."""
        try:
            read = self._file.read_stripe(number, columns=[item.name]).column(item.name)
            if not self._is_shifted(number, read, item):
                return read
        except pa.ArrowInvalid as error:
            if _FAR not in str(error) or not item.type.holds(*INSTANTS):
                raise
        return read_far(self._opened, self._end(), number, item)

    def _is_shifted(self, number: int, read: pa.Array, item: DataField) -> bool:
        """Whether these are clocks of another zone than UTC, so old that the library has them otherwise than Java."""
        if not item.type.holds(*INSTANTS) or oldest(read) >= ZONES_AGREE:
            return False
        return read_stripe(self._opened, self._end(), number, range(0)).zone not in UTC

    def _end(self) -> Tail:
        self._tail = self._tail or read_tail(self._opened)
        return self._tail

    def _canonical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            item.name: map_leaves(batch.column(item.name), item.type, _unpadded)
            if _has_root(item.type, Root.CHAR)
            else batch.column(item.name)
            for item in self._fields
        }
        batch = canonical_batch(pa.RecordBatch.from_pydict(columns), self._fields, trusted=True)
        return self._shredded.logical(batch, self._wanted)


def _has_root(t: DataType, *roots: Root) -> bool:
    parts = (t.key, t.element, *(item.type for item in t.fields))
    return t.root in roots or any(_has_root(part, *roots) for part in parts if part is not None)


def _unpadded(array: pa.Array, t: DataType) -> pa.Array:
    """CHAR values lose their padding in ORC, whose readers take trailing spaces off."""
    return pc.utf8_rtrim(array, " ") if t.root is Root.CHAR else array
