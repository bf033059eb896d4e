"""Files to import, as record batches in bounded memory: parquet, Arrow, CSV; JSON is a module of its own.

    Source(path, shape, …)           one file, read anew by each of these:
    read_native                      rows of parquet and Arrow
    read_text                        of CSV, every column as text, null where nothing stands

Standard input and pipes are read once, to a file of this machine's own that nobody else sees.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import Any, BinaryIO, cast

import pyarrow as pa

from bucketlake.cli.files import Shape
from bucketlake.env import user_files
from bucketlake.env.storage import Storage
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.format.data.row_groups import read_row_groups
from bucketlake.lazy import lazy, pq
from bucketlake.values import dataclass

__all__ = [
    *("Dialect", "Source", "delimiter_of", "native_schema"),
    *("read_native", "read_text", "spooled", "told"),
]

pa_csv = lazy("pyarrow.csv")
BLOCK = 8 << 20  # bytes of a file at a time
DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV is written. `nulls`: texts that mean nothing, in any column; `decimal`: what stands before the
    fraction of a number; `times`: how dates and times are written beside ISO 8601, as `strptime` has it."""

    delimiter: str | None = None
    header: bool = True
    encoding: str = "utf8"
    nulls: tuple[str, ...] = ()
    decimal: str = "."
    times: tuple[str, ...] = ()


class Passed:
    """A file that counts the bytes that were read of it."""

    def __init__(self, file: Any, count: list[int]) -> None:
        self._file, self._count = file, count

    def read(self, *size: int) -> bytes:
        """As the file's."""
        block: bytes = self._file.read(*size)
        self._count[0] += len(block)
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@dataclass(frozen=True, slots=True)
class Source:
    """One file. `storage`: where it lies; None: `held`, which was read from standard input or a pipe. `passed`: bytes
    read so far, one number."""

    path: str
    shape: Shape
    storage: Storage | None
    held: Any = None
    passed: list[int] = field(default_factory=lambda: [0])

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Its bytes, unpacked."""
        if self.storage is None:
            self.held.seek(0)
            file, own = self.held, False
        else:
            file, own = self.storage.open_input(self.path), True
        try:
            counted = Passed(file, self.passed)
            if self.shape.packed is None:
                yield counted
            else:
                packed = pa.PythonFile(counted, mode="r")
                with pa.CompressedInputStream(packed, self.shape.packed) as unpacked:
                    yield unpacked
        finally:
            if own:
                file.close()

    @property
    def size(self) -> int:
        """Bytes as they lie there."""
        if self.storage is None:
            return int(self.held.seek(0, io.SEEK_END))
        info = self.storage.info(self.path)
        return 0 if info is None else info.size


def spooled(path: str | None = None) -> BinaryIO:
    """Standard input, or a pipe, as a file that can be read more than once."""
    held = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115
    with ExitStack() as stack:
        given = sys.stdin.buffer if path is None else stack.enter_context(user_files.stream(path, "rb"))
        while block := given.read(1 << 20):
            held.write(block)
    return held


@contextmanager
def told(source: Source) -> Iterator[None]:
    """In the block, what a reader says of a file is an error with the file's name."""
    try:
        yield
    except BucketlakeError:
        raise
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
        remedy = "name its encoding: --encoding latin-1" if "UTF8" in reason or "utf-8" in reason else "mend the file"
        if "\0" in reason:
            reason, remedy = reason.replace("\0", " "), "name its encoding: --encoding utf-16"
        if source.shape.form in ("json", "jsonl") and "Column(/" in reason:
            remedy += f", or let Spark read it: lake.write_table(lake.spark.read.json('{source.path}'), TABLE)"
        if source.shape.form in ("parquet", "arrow"):
            remedy += ", or say what it is: --format csv"
        raise InvalidError("cannot read the file", path=source.path, reason=reason, remedy=remedy) from error


# ---- parquet and Arrow


def native_schema(source: Source) -> pa.Schema:
    """The columns of a parquet or Arrow file."""
    with told(source), source.opened() as file:
        if source.shape.form == "parquet":
            return pq.ParquetFile(file).schema_arrow.remove_metadata()
        return _arrow(file)[0].remove_metadata()


def read_native(source: Source, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a parquet or Arrow file, of these columns."""
    with told(source), source.opened() as file:
        if source.shape.form == "parquet":
            found = pq.ParquetFile(file)
            yield from read_row_groups(found, range(found.num_row_groups), columns, threads=True)
        else:
            for batch in _arrow(file)[1]:
                yield batch.select(columns)


def _arrow(file: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """A file's schema and batches: of Arrow's file format, or a stream."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    if not is_file:
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)
    reader = pa.ipc.open_file(file)
    return reader.schema, (reader.get_batch(place) for place in range(reader.num_record_batches))


# ---- CSV


def delimiter_of(source: Source) -> str:
    """What stands between the values of a CSV's first line: a comma, unless there is none and another one is."""
    if source.shape.tabs:
        return "\t"
    with told(source), source.opened() as file:
        line = file.read(1 << 16).split(b"\n", 1)[0]
    counts = {one: line.count(one.encode()) for one in DELIMITERS}
    return "," if counts[","] else max(counts, key=lambda one: counts[one])


def read_text(source: Source, dialect: Dialect) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The names of a CSV's columns, and its rows with every column as text; null where nothing stands."""
    names = _names(source, dialect)
    return names, _csv(source, dialect, names)


def _reading(source: Source, dialect: Dialect, **convert: Any) -> dict[str, Any]:
    delimiter = dialect.delimiter or delimiter_of(source)
    read = pa_csv.ReadOptions(block_size=BLOCK, encoding=dialect.encoding, autogenerate_column_names=not dialect.header)
    options = pa_csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=["", *dialect.nulls], **convert
    )
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    return {"read_options": read, "parse_options": parse, "convert_options": options}


def _names(source: Source, dialect: Dialect) -> list[str]:
    with told(source), source.opened() as file:
        if not _has_text(file):
            raise InvalidError("the file is empty", path=source.path)
    how = _reading(source, dialect)
    with told(source), _numbered(source, how), source.opened() as file:
        reader = pa_csv.open_csv(file, **how)
        given: list[str] = reader.schema.names
    if len(set(given)) < len(given):
        twice = sorted({name for name in given if given.count(name) > 1})
        raise InvalidError(
            "columns that occur more than once",
            path=source.path,
            columns=twice,
            remedy="rename them, or add --no-header where the first line is a row",
        )
    return given


def _has_text(file: Any) -> bool:
    """Whether more than blank lines stands in the file."""
    while block := file.read(BLOCK):
        if block.strip(b"\xef\xbb\xbf \t\r\n"):
            return True
    return False


def _csv(source: Source, dialect: Dialect, names: list[str]) -> Iterator[pa.RecordBatch]:
    how = _reading(source, dialect, column_types=dict.fromkeys(names, pa.string()))
    with told(source), _numbered(source, how), source.opened() as file:
        yield from pa_csv.open_csv(file, **how)


@contextmanager
def _numbered(source: Source, how: dict[str, Any]) -> Iterator[None]:
    """In the block, what is wrong with a row is said with the row's number, which only one thread alone knows."""
    try:
        yield
    except pa.ArrowInvalid:
        how["read_options"].use_threads = False
        with source.opened() as file:
            for _ in pa_csv.open_csv(file, **how):
                pass
        raise
