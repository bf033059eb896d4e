"""Values as texts, column by column, as Java prints them: `{a, 1}`, `[1, a]`, `{k=1, v=null}`.

Two spellings of a value: `cast_texts`, the value cast to a string (a date is 2024-01-31), and `internal_texts`, Java's
`toString` of what Paimon holds in memory (a date is a number of days). Numbers and texts are printed by Arrow, all else
once a distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.format.row.binary_row import typed_value
from bucketlake.format.row.texts import cast_text, internal_text
from bucketlake.lazy import pa, pc
from bucketlake.types.model import DataType, Root

__all__ = ["cast_texts", "hash_order", "internal_texts", "joined", "list_texts", "map_texts", "row_texts", "utf16"]

NULL = "null"
_WHOLE = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT}
_TEXT = {Root.CHAR, Root.VARCHAR}
_FLOATS = {Root.FLOAT, Root.DOUBLE}
_BYTES = {Root.BINARY, Root.VARBINARY}
_NUMBERED = {Root.DATE: "int32", Root.TIME: "int32", Root.TIMESTAMP: "int64", Root.TIMESTAMP_LTZ: "int64"}
_FEWEST = 16  # buckets of a Java hash map


def cast_texts(values: pa.Array, kind: DataType) -> pa.Array:
    """The values cast to strings; null stays null."""
    return _texts(values, kind, cast_text)


def internal_texts(values: pa.Array, kind: DataType) -> pa.Array:
    """Java's texts of the values as Paimon holds them; null stays null. Bytes, which Java does not print, are hex."""
    return _texts(values, kind, internal_text)


def _texts(values: pa.Array, kind: DataType, text: Callable[[Any, DataType], str]) -> pa.Array:
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    if kind.root in _TEXT:
        return values.cast(pa.string())
    if kind.root in _WHOLE or kind.root is Root.BOOLEAN:
        return values.cast(pa.string())
    if kind.root in _FLOATS:
        return _float_texts(values, kind, text)
    return _distinct_texts(values, kind, text)


def _float_texts(values: pa.Array, kind: DataType, text: Callable[[Any, DataType], str]) -> pa.Array:
    """Java prints numbers from 0.001 up to ten millions without an exponent, as Arrow does, but whole ones as `1.0`."""
    size = pc.abs(values)
    plain = pc.fill_null(pc.and_(pc.greater_equal(size, 0.001), pc.less(size, 1e7)), True)
    shown = values.cast(pa.string())
    shown = pc.if_else(pc.match_substring(shown, "."), shown, pc.binary_join_element_wise(shown, ".0", ""))
    if pc.all(plain).as_py():
        return shown
    others = _distinct_texts(values.filter(pc.invert(plain)), kind, text)
    return pc.replace_with_mask(shown, pc.invert(plain), others)


def _distinct_texts(values: pa.Array, kind: DataType, text: Callable[[Any, DataType], str]) -> pa.Array:
    found = values.dictionary_encode()
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    shown = [_one(value, kind, text) for value in _python(found.dictionary, kind)]
    return pa.array(shown, pa.string()).take(found.indices)


def _python(values: pa.Array, kind: DataType) -> list[Any]:
    numbers = _NUMBERED.get(kind.root)
    if numbers is None:
        found: list[Any] = values.to_pylist()
        return found
    return [typed_value(number, kind) for number in values.view(numbers).to_pylist()]


def _one(value: Any, kind: DataType, text: Callable[[Any, DataType], str]) -> str:
    if kind.root in _BYTES:
        return str(value.hex()).upper()
    try:
        return text(value, kind)
    except InvalidError:  # a time that Python's clocks lack
        return str(value)


# ---------------------------------------------------------------------------------------------- rows


def row_texts(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """`{a, b}` of texts; null is `null`."""
    return _wrapped("{", [pc.fill_null(column, NULL) for column in columns], "}", rows)


def list_texts(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """`[a, b]` of texts; null is `null`."""
    return _wrapped("[", [pc.fill_null(column, NULL) for column in columns], "]", rows)


def map_texts(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """`{name=a, name=b}` of texts, in the order of the names; null is `null`."""
    names = sorted(columns, key=utf16)
    parts = [pc.binary_join_element_wise(name, pc.fill_null(columns[name], NULL), "=") for name in names]
    return _wrapped("{", parts, "}", rows)


def joined(columns: Sequence[pa.Array], rows: int, sign: str) -> pa.Array:
    """The texts of each row with a sign between them."""
    if not columns:
        return pa.repeat(pa.scalar("", pa.string()), rows)
    return pc.binary_join_element_wise(*columns, sign)


def _wrapped(opens: str, columns: Sequence[pa.Array], closes: str, rows: int) -> pa.Array:
    return pc.binary_join_element_wise(opens, joined(columns, rows, ", "), closes, "")


# ---------------------------------------------------------------------------------------------- Java's orders


def utf16(text: str) -> bytes:
    """What sorts texts as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(keys: Iterable[str]) -> list[str]:
    """The keys as a Java HashMap that they were put into, in their order, gives them back."""
    given = list(keys)
    buckets = _FEWEST
    while len(given) > buckets * 3 // 4:
        buckets *= 2
    return sorted(given, key=lambda key: _spread(key) & (buckets - 1))


def _spread(text: str) -> int:
    units = utf16(text)
    number = 0
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number ^ number >> 16
