"""Files of rows outside a warehouse: which format, where, read and written in bounded memory.

format_of(path, said)                  parquet, csv, json, jsonl or arrow, and the compression that the name tells
written(target, schema)                a writer of batches; the file is there whole or not at all
Source(path)                           where bytes come from: this machine, or a store by its URI
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.cli.answer import UsageError
from bucketlake.cli.rows import csv_bytes, jsonl_bytes
from bucketlake.env import user_files
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_store import storage_for
from bucketlake.env.storage import Storage
from bucketlake.errors import AlreadyExistsError
from bucketlake.lazy import pq
from bucketlake.values import dataclass

__all__ = [
    "FILE_FORMATS",
    "Shape",
    "Target",
    "format_of",
    "is_known",
    "is_open",
    "is_pipe",
    "is_standard",
    "place_of",
    "size_of",
    "written",
]

FILE_FORMATS = ("parquet", "csv", "json", "jsonl", "arrow")
_SUFFIXES = {
    **dict.fromkeys(("parquet", "pq", "parq"), "parquet"),
    **dict.fromkeys(("csv", "tsv", "txt"), "csv"),
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
    "json": "json",
    **dict.fromkeys(("arrow", "feather", "ipc", "arrows"), "arrow"),
}
_PACKED = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}
Write = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file is: its format, and how it is packed (None: not at all). `tabs`: CSV with tabs."""

    form: str
    packed: str | None = None
    tabs: bool = False


def format_of(path: str, said: str | None = None) -> Shape:
    """The format that was said, else the one that the file's name tells; UsageError for none."""
    name = path.rsplit("/", 1)[-1].lower()
    parts = name.split(".")[1:]
    packed = _PACKED.get(parts[-1]) if parts else None
    suffix = parts[-2 if packed else -1] if len(parts) > bool(packed) else ""
    form = said or _SUFFIXES.get(suffix)
    if form is None:
        sheet = suffix in ("xlsx", "xls", "ods", "numbers")
        remedy = "use CSV" if sheet else f"add --format {'|'.join(FILE_FORMATS)}"
        raise UsageError(
            "spreadsheets are neither read nor written" if sheet else "which format?", file=path, remedy=remedy
        )
    if form not in FILE_FORMATS:
        raise UsageError("no such format", format=form, remedy=f"one of {', '.join(FILE_FORMATS)}")
    if packed is not None and form in ("parquet", "arrow"):
        raise UsageError("this format compresses by itself", file=path, remedy=f"leave .{parts[-1]} out")
    return Shape(form, packed, suffix == "tsv")


def is_known(path: str) -> bool:
    """Whether a file's name tells its format."""
    try:
        return format_of(path) is not None
    except UsageError:
        return False


def is_standard(path: str) -> bool:
    """Whether standard input or output is meant."""
    return path == "-"


def is_pipe(storage: Storage, path: str) -> bool:
    """Whether it is a pipe or a device of this machine."""
    return isinstance(storage, LocalStorage) and user_files.is_stream(path)


def place_of(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The storage that a file lies in, and its path there. `options`: of the warehouse, whose store it may be."""
    return storage_for(path, options)


@dataclass(frozen=True, slots=True)
class Target:
    """A file to write. `options`: of the warehouse; `replace`: one that is there may go."""

    path: str
    shape: Shape
    options: Mapping[str, str]
    replace: bool = False


def is_open(target: Target) -> bool:
    """Whether rows go into what is there, as standard output, a pipe or a device, which they may share with answers."""
    return is_standard(target.path) or is_pipe(*place_of(target.path, target.options))


def size_of(target: Target) -> int | None:
    """Bytes of the file that was written; None where it has gone again."""
    storage, path = place_of(target.path, target.options)
    info = storage.info(path)
    return None if info is None else info.size


class _Standard:
    """Standard output, a pipe or a device as a file that knows how far it is."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._at = stream, 0
        self.flush = stream.flush

    def write(self, data: Any) -> int:
        """Write all of it."""
        self._stream.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._at


class _Open:
    """A file to write that stays open when a writer over it is closed."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.write, self.flush, self.tell = file.write, file.flush, file.tell

    def close(self) -> None:
        """Stay open: who opened the file closes it."""

    def writable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False


@contextmanager
def written(target: Target, schema: pa.Schema) -> Iterator[Write]:
    """A function that writes batches; after the block the file is there, after an error it is as it was."""
    with ExitStack() as stack:
        sink: Any = _Open(stack.enter_context(_opened(target)))
        if target.shape.packed is not None:
            sink = stack.enter_context(pa.CompressedOutputStream(sink, target.shape.packed))
        yield stack.enter_context(_writer(target.shape, sink, schema))


@contextmanager
def _opened(target: Target) -> Iterator[Any]:
    if is_standard(target.path):
        yield _Standard(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    storage, path = place_of(target.path, target.options)
    if is_pipe(storage, path):
        with user_files.stream(path, "wb") as out:
            yield _Standard(out)
        return
    if not target.replace and storage.info(path) is not None:
        raise AlreadyExistsError("the file is there", path=path, remedy="name another one, or add --overwrite")
    if isinstance(storage, LocalStorage):
        with user_files.replacing(path) as file:
            yield file
        return
    file = storage.open_output(path)
    yield file
    file.close()  # an object takes its place now; where the block failed it never does, and the one before stays


@contextmanager
def _writer(shape: Shape, sink: Any, schema: pa.Schema) -> Iterator[Write]:
    if shape.form == "parquet":
        with pq.ParquetWriter(sink, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif shape.form == "arrow":
        with pa.ipc.new_file(sink, schema) as arrow:
            yield arrow.write_batch
    else:
        with _text_writer(shape, sink, schema) as write:
            yield write


@contextmanager
def _text_writer(shape: Shape, sink: Any, schema: pa.Schema) -> Iterator[Write]:
    count = 0

    def write(batch: pa.RecordBatch) -> None:
        nonlocal count
        if shape.form == "csv":
            sink.write(csv_bytes(batch, count == 0, "\t" if shape.tabs else ","))
        elif shape.form == "jsonl":
            sink.write(jsonl_bytes(batch))
        elif batch.num_rows:
            sink.write((b",\n" if count else b"[") + jsonl_bytes(batch)[:-1].replace(b"\n", b",\n"))
        count += batch.num_rows or shape.form == "csv"

    yield write
    if shape.form == "csv" and not count:
        write(pa.RecordBatch.from_pylist([], schema))
    elif shape.form == "json":
        sink.write(b"]\n" if count else b"[]\n")
