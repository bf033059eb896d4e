"""The door of every decoder: what goes wrong inside is an error of ours that names the file.

    with decoding("not a snapshot", path):
        tree = json_object(data)

Decoders work on bytes that anybody may have written. Whatever their libraries raise over them is `CorruptError`; errors
of ours that do not say which file get its path. Rust libraries panic with what is no `Exception`.

Spec: docs/reliability.md
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, StorageError
from bucketlake.lazy import fastavro, pa, pl

_BROKEN: tuple[type[BaseException], ...] = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    EOFError,
    AssertionError,
    StopIteration,
    RecursionError,
    MemoryError,
    OSError,
    struct.error,
    zlib.error,
)
LARGEST_LONG = (1 << 63) - 1
MOST_JSON = 64 << 20  # bytes: as objects they take some 20 times as much
_SHOWN = 300


@contextmanager
def decoding(what: str, path: str | None, remedy: str | None = None, **details: Any) -> Iterator[None]:
    """Whatever the block raises over a file's bytes as an error that names the file. `what`: the statement of
    `CorruptError` where a library failed.

    Failures of the storage itself (an `OSError` with a number) are `StorageError`.
    """
    try:
        yield
    except BucketlakeError as error:
        if error.details.get("path") is not None:
            raise
        kind = CorruptError if isinstance(error, InvalidError) else type(error)
        raise kind(error.what, remedy=error.remedy or remedy, **{"path": path, **details, **_known(error)}) from error
    except (*_BROKEN, *_of_libraries()) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError("cannot read", path=path, reason=str(error), **details) from error
        raise CorruptError(what, path=path, **details, reason=_reason(error), remedy=remedy) from error


@cache
def _of_libraries() -> tuple[type[BaseException], ...]:
    """What decoders raise that is none of `_BROKEN`; asked only when something was raised."""
    codecs = fastavro.schema.SchemaParseException, fastavro.schema.UnknownType
    return *codecs, pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException


def _known(error: BucketlakeError) -> dict[str, Any]:
    return {key: value for key, value in error.details.items() if value is not None}


def _reason(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, MemoryError):
        return f"it asks for more memory than there is {text}".strip()
    return (text if len(text) <= _SHOWN else text[:_SHOWN] + "…") or type(error).__name__


def json_object(data: bytes | str) -> dict[str, Any]:
    """A file's JSON object. Raises ValueError, RecursionError; call it inside of `decoding`."""
    if len(data) > MOST_JSON:
        raise ValueError(f"{len(data)} bytes are more than any file of its kind has")
    tree = json.loads(data)
    if not isinstance(tree, dict):
        raise ValueError("it holds no JSON object")
    return tree


def integer(value: Any, low: int = 0, high: int = LARGEST_LONG) -> bool:
    """Whether a value from JSON is a whole number of a range."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def text(value: Any) -> bool:
    """Whether a value from JSON is a text that can be written again (no lone surrogates)."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value)


def texts(value: Any) -> bool:
    """Whether a value from JSON is a list of texts."""
    return isinstance(value, list) and all(text(item) for item in value)


def text_map(value: Any) -> bool:
    """Whether a value from JSON is an object of texts."""
    return isinstance(value, Mapping) and all(text(key) and text(item) for key, item in value.items())


def check_size(path: str, found: int, recorded: int | None) -> None:
    """Refuse a file that is not as long as what names it says. `recorded`: None, 0 and -1 where that is not known.
    Raises: CorruptError."""
    if recorded is not None and recorded > 0 and found != recorded:
        what = "a file is cut short" if found < recorded else "a file is longer than recorded"
        raise CorruptError(what, path=path, size=found, recorded=recorded, remedy="restore the file")


def nearly(name: str, other: str) -> bool:
    """Whether a field's name is another one with a letter or two changed, as damage does and no release."""
    return len(name) == len(other) and 0 < sum(a != b for a, b in zip(name, other, strict=True)) <= 2
