"""JSON files as record batches in bounded memory: an object a line, or one array of objects.

    json_schema(source)            the columns that all objects have together, with types that hold all their values
    read_json(source, schema)      the objects as rows
    values_of(texts, kind)         texts that are JSON, as in a CSV, as values that become ones of a type

An array is taken apart into lines as it is read, without looking at its values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.cli.nested import DAY, as_read, holds, together, with_leaves
from bucketlake.cli.sources import Source, told
from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy, pc
from bucketlake.types.arrow import binary_content

__all__ = ["json_schema", "read_json", "values_of"]

pa_json = lazy("pyarrow.json")
BLOCK = 8 << 20  # bytes of a file at a time
LONGEST = 256 << 20  # bytes of one line, or of one element of an array
_MARK = b"\xef\xbb\xbf"
_BEYOND = float(1 << 63)  # whole numbers of this size are no BIGINT any more
_WHOLE = pa.decimal128(38, 0)
_DEEPEST = 64  # more than a table's types: what is nested much deeper, Arrow's parser and types do not survive
_STEP = np.zeros(256, np.int8)
_STEP[[ord("{"), ord("[")]], _STEP[[ord("}"), ord("]")]] = 1, -1
Letters = npt.NDArray[np.uint8]


def json_schema(source: Source) -> pa.Schema:
    """The columns that all objects of a file have together, with types that hold all their values."""
    schemas: list[pa.Schema] = []
    with told(source):
        for chunk in _chunks(source):
            found = _inferred(chunk)
            if found not in schemas:
                schemas = [together([*schemas, found])]
    return schemas[0] if schemas else pa.schema([])


def read_json(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The objects of a file as rows; what an object lacks is null. Dates are times at midnight."""
    with told(source):
        for chunk in _chunks(source):
            yield from _parsed(chunk, schema).select(schema.names).to_batches()


def values_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values that texts are in JSON, as they are to be read for a type. ArrowInvalid for a text that is none, or
    more than one."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts))
    plain = pc.replace_substring_regex(texts, "[\r\n]", " ")  # between values; within texts there are none
    lines = pc.if_else(plain.is_valid(), pc.binary_join_element_wise('{"v":', plain, "}\n", ""), "{}\n")
    data = bytes(binary_content(lines.cast(pa.large_binary())))
    schema = _inferred(data)
    schema = pa.schema([item.with_type(as_read(item.type, kind)) for item in schema])
    found = _parsed(data, schema)
    if schema.names != ["v"] or len(found) != len(texts):
        raise pa.ArrowInvalid("a text that is not one value of JSON")
    return found.column(0).combine_chunks()


def _parsed(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    parse = None
    if schema is not None:
        known = pa.schema([item.with_type(with_leaves(item.type, _some)) for item in schema])
        parse = pa_json.ParseOptions(explicit_schema=known, unexpected_field_behavior="ignore")
    return pa_json.read_json(pa.BufferReader(lines), pa_json.ReadOptions(block_size=LONGEST), parse_options=parse)


def _inferred(lines: bytes) -> pa.Schema:
    """The columns of some lines. Whole numbers that no BIGINT holds were taken for fractions, and lost digits: they are
    DECIMAL(38, 0), where no value of the column has a fraction or more digits. Times are dates where no value has more
    than that."""
    letters = np.frombuffer(lines, np.uint8)
    brackets = letters[_Texts().outside(letters, b"{}[]")]
    if len(brackets) and np.cumsum(_STEP[brackets], dtype=np.int64).max() > _DEEPEST:
        raise pa.ArrowInvalid(f"values are nested more than {_DEEPEST} deep")
    found = _parsed(lines, None)
    schema = found.schema
    for place, item in enumerate(schema):
        if holds(item.type, pa.types.is_timestamp):
            texts = item.with_type(with_leaves(item.type, _text_of_time))
            values = _parsed(lines, pa.schema([texts])).column(0).combine_chunks()
            schema = schema.set(place, item.with_type(_with_dates(values, item.type)))
    for place, item in enumerate(schema):
        if not holds(item.type, pa.types.is_floating):
            continue
        if holds(item.type, pa.types.is_list):  # Arrow can leave those malformed as it infers types, after a null
            values = _parsed(lines, pa.schema([item])).column(0)
        else:
            values = found.column(place)
        kind = _with_whole(values.combine_chunks(), item.type)
        if kind != item.type:
            try:
                _parsed(lines, pa.schema([item.with_type(kind)]))
            except pa.ArrowInvalid:
                continue
            schema = schema.set(place, item.with_type(kind))
    return schema


def _some(kind: pa.DataType) -> pa.DataType:
    """A type that the parser has: for nothing but nulls any, for dates times."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    return pa.string() if pa.types.is_null(kind) else kind


def _text_of_time(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _with_dates(texts: pa.Array, kind: pa.DataType) -> pa.DataType:
    """The type with dates in place of times whose texts are all such."""
    if pa.types.is_struct(kind):
        members = [texts.field(place) for place in range(kind.num_fields)]
        return pa.struct([f.with_type(_with_dates(m, f.type)) for m, f in zip(members, kind.fields, strict=True)])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_dates(texts.values, kind.value_type)))
    if not pa.types.is_timestamp(kind):
        return kind
    return pa.date32() if pc.all(pc.match_substring_regex(texts, f"^{DAY}$"), min_count=1).as_py() else kind


def _with_whole(values: pa.Array, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        largest = pc.max(pc.abs(values)).as_py()
        return _WHOLE if largest is not None and largest >= _BEYOND else kind
    if pa.types.is_struct(kind):
        members = [values.field(place) for place in range(kind.num_fields)]
        return pa.struct([f.with_type(_with_whole(m, f.type)) for m, f in zip(members, kind.fields, strict=True)])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_whole(values.values, kind.value_type)))
    return kind


# ---- lines


def _chunks(source: Source) -> Iterator[bytes]:
    """Whole lines of the file, some megabytes at a time; an array's elements as lines."""
    with source.opened() as file:
        rest = b""
        for block in _unwrapped(source, iter(lambda: file.read(BLOCK), b"")):
            end = block.rfind(b"\n") + 1
            if end:
                yield from _filled(rest + block[:end])
                rest = block[end:]
            else:
                rest += block
            if len(rest) > LONGEST:
                raise InvalidError("a line of JSON is too long", path=source.path, bytes=len(rest))
        yield from _filled(rest)


def _filled(lines: bytes) -> Iterator[bytes]:
    if lines.strip():
        yield lines


def _unwrapped(source: Source, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of a file without the byte order mark; where an array stands, its elements as lines."""
    begun = b""
    for block in blocks:
        begun += block
        if len(begun) >= len(_MARK) and begun.removeprefix(_MARK).lstrip():
            break
    begun = begun.removeprefix(_MARK)
    if not begun.lstrip().startswith(b"["):
        yield begun
        yield from blocks
        return
    array = _Array(source)
    yield array.lines(begun)
    for block in blocks:
        yield array.lines(block)
    if array.depth:
        raise InvalidError("a JSON array does not end", path=source.path, remedy="mend the file")


class _Array:
    """Takes an array apart: what stands between its elements becomes the end of a line."""

    def __init__(self, source: Source) -> None:
        self.source, self.depth, self.ended, self.texts = source, 0, False, _Texts()

    def lines(self, block: bytes) -> bytes:
        """The next bytes of the array, an element a line."""
        letters = np.frombuffer(block, np.uint8).copy()
        places = self.texts.outside(letters, b"{}[],\n\r")
        signs = letters[places]
        depth = self.depth + np.cumsum(_STEP[signs], dtype=np.int64)
        opens, closes = _STEP[signs] > 0, _STEP[signs] < 0
        ends = places[closes & (depth == 0)]
        rest = block if self.ended else block[ends[0] + 1 :] if len(ends) else b""
        if rest.strip():
            raise InvalidError("something stands after a JSON array", path=self.source.path, remedy="mend the file")
        blank = (signs == ord("\n")) | (signs == ord("\r"))  # within an element
        letters[places[blank | (opens & (depth == 1)) | (closes & (depth == 0))]] = ord(" ")
        letters[places[(signs == ord(",")) & (depth == 1)]] = ord("\n")
        self.ended |= len(ends) > 0
        self.depth = int(depth[-1]) if len(depth) else self.depth
        return letters.tobytes()


class _Texts:
    """Where texts begin and end in JSON, block after block."""

    def __init__(self) -> None:
        self.open = False
        self.backslashes = 0  # at the end of the blocks before, in a row

    def outside(self, letters: Letters, signs: bytes) -> npt.NDArray[np.int64]:
        """Where these signs stand outside of texts."""
        wanted = np.zeros(256, bool)
        wanted[list(signs)] = True
        places = np.flatnonzero(wanted[letters])
        quotes = self._quotes(letters)
        inside = (np.searchsorted(quotes, places) + self.open) % 2 == 1
        self.open ^= len(quotes) % 2 == 1
        found: npt.NDArray[np.int64] = places[~inside]
        return found

    def _quotes(self, letters: Letters) -> npt.NDArray[np.int64]:
        """Where texts begin and end."""
        quotes = np.flatnonzero(letters == ord('"'))
        slashes = np.flatnonzero(letters == ord("\\"))
        first = np.concatenate([[True], np.diff(slashes) != 1])[: len(slashes)]
        starts = slashes[np.maximum.accumulate(np.where(first, np.arange(len(slashes)), 0))]
        runs = slashes - starts + 1 + np.where(starts == 0, self.backslashes, 0)
        before = np.zeros(len(quotes), np.int64)  # backslashes in a row: an odd number takes a quote's meaning away
        at = np.searchsorted(slashes, quotes - 1)
        there = at < len(slashes)
        there[there] = slashes[at[there]] == quotes[there] - 1
        before[there] = runs[at[there]]
        before[quotes == 0] = self.backslashes
        if len(letters):
            self.backslashes = int(runs[-1]) if letters[-1] == ord("\\") else 0
        real: npt.NDArray[np.int64] = quotes[before % 2 == 0]
        return real
