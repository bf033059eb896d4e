"""ARRAY<BLOB> and MAP<K, BLOB>: the values of one row as the payload of a record of a blob file.

    array    := magic: i32 (0x41424342) version: u8 (1) count: i32 value* lengths size of lengths: i32
    map      := magic: i32 (0x4D424342) version: u8 (1) count: i32 key* value* key lengths, lengths, size of each: i32
    key      := TINYINT, SMALLINT, INT, BIGINT: as many bytes as it is wide; CHAR, VARCHAR: UTF-8
    lengths  := of keys or values, as `varints` has them; -1: null, which has no bytes

Little endian. An empty array has no lengths, and is not null.

    refuse_keys(kind)                 whether a column's keys can be written
    Rows.of(values, kind)             rows to write: their payloads at once, or each in pieces
    opened(data, starts, ends, …)     rows of payloads that lie in memory
    located(fronts, indexes, …)       where the values of payloads lie, of which only the ends were read
    listed(kind, elements, …)         rows from their values

Spec: docs/spec/blob.md#arrays-and-maps
"""

from __future__ import annotations

from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.varints import packed, unpacked
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.arrow import binary_bounds, list_offsets
from bucketlake.types.model import DataType, Root, arrow_type, type_text
from bucketlake.values import dataclass

Numbers = npt.NDArray["np.int64"]
Bytes = npt.NDArray["np.uint8"]
FRONT = 9
"""Bytes before the first key or value."""

_MAGIC = {Root.ARRAY: 0x41424342, Root.MAP: 0x4D424342}
_VERSION = 1
_NULL = -1
_WIDTHS = {Root.TINYINT: "<i1", Root.SMALLINT: "<i2", Root.INT: "<i4", Root.BIGINT: "<i8"}
_TEXTS = (Root.CHAR, Root.VARCHAR)
_HEAD = [("magic", "<u4"), ("version", "u1"), ("count", "<i4")]
_SIZE = 4  # bytes of the size of an index


def refuse_keys(kind: DataType) -> None:
    """UnsupportedError where no blob file can hold the keys of a map: they are whole numbers and texts."""
    if kind.root is Root.MAP and kind.key is not None and kind.key.root not in (*_WIDTHS, *_TEXTS):
        raise UnsupportedError(
            f"Unsupported key type for MAP<X, BLOB>: {type_text(kind.key)}",
            type=type_text(kind),
            remedy="use TINYINT, SMALLINT, INT, BIGINT, CHAR or VARCHAR keys",
        )


def fixed(numbers: npt.NDArray[Any]) -> pa.Array:
    """The bytes of items of one width, one binary value each."""
    width = numbers.dtype.itemsize
    offsets = pa.py_buffer(np.arange(len(numbers) + 1, dtype=np.int64) * width)
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), [None, offsets, pa.py_buffer(numbers.tobytes())])


# ---------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Rows:
    """Rows to write. `valid`: which are not null; the values of row `i` are those from `bounds[i]` to `bounds[i + 1]`
    of `values`, a binary array that starts at `starts[j]` of `data`; `lengths`: -1 for nulls. `fronts`: what comes
    before the values of each row, `keys`: the lengths of its keys, as they are written."""

    valid: npt.NDArray[np.bool_]
    bounds: Numbers
    values: pa.Array
    starts: Numbers
    lengths: Numbers
    data: memoryview
    fronts: pa.Array
    keys: pa.Array | None

    @classmethod
    def of(cls, values: pa.Array, kind: DataType) -> Rows:
        """Rows of an array of the column's Arrow type."""
        keys = None
        if kind.root is Root.MAP:
            entries = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
            bounds = _numbers(list_offsets(entries))
            pairs = entries.flatten()
            keys, items = _key_bytes(pairs.field(0), kind), pairs.field(1)
        else:
            bounds, items = _numbers(list_offsets(values)), values.flatten()
        items, starts, lengths, data = _contiguous(items)
        heads = np.zeros(len(values), _HEAD)
        heads["magic"], heads["version"], heads["count"] = _MAGIC[kind.root], _VERSION, np.diff(bounds)
        fronts, index = fixed(heads), None
        if keys is not None:
            _, places, sizes, text = _contiguous(keys)
            nothing = pa.scalar(b"", pa.large_binary())
            fronts = pc.binary_join_element_wise(fronts, _sliced(text, places[bounds]), nothing)
            index = _indexes(sizes, bounds)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        return cls(valid, bounds, items, starts, lengths, data, fronts, index)

    def parts(self, start: int, end: int) -> list[pa.Array]:
        """The payloads of some rows, in parts that make them where they are put together."""
        own = slice(start, end)
        bounds = self.bounds[start : end + 1]
        values = _sliced(self.data, self.starts[bounds])
        index = _indexes(self.lengths[bounds[0] : bounds[-1]], bounds - bounds[0])
        keys = [] if self.keys is None else [self.keys[own]]
        sizes = [fixed(_sizes(part).astype("<i4")) for part in (*keys, index)]
        shown = pc.if_else(pa.array(self.valid[own]), self.fronts[own], pa.scalar(None, pa.large_binary()))
        return [shown, values, *keys, index, *sizes]

    def mean(self, start: int, end: int) -> int:
        """Bytes of the values of a row, of these on the average."""
        bounds = self.starts[self.bounds[[start, end]]]
        return int(bounds[1] - bounds[0]) // max(1, end - start)

    def front(self, row: int) -> memoryview:
        """The payload of a row before its values."""
        return memoryview(self.fronts[row].as_buffer())

    def back(self, row: int, lengths: Numbers) -> bytes:
        """The payload of a row behind its values, which had these lengths; -1: null."""
        index, _ = packed(lengths, np.array([0, len(lengths)]))
        keys = b"" if self.keys is None else self.keys[row].as_py()
        sizes = [index] if self.keys is None else [keys, index]
        return keys + index + b"".join(len(part).to_bytes(_SIZE, "little") for part in sizes)


def _numbers(offsets: pa.Array) -> Numbers:
    found: Numbers = offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _contiguous(values: pa.Array) -> tuple[pa.Array, Numbers, Numbers, memoryview]:
    """Binary values that lie one after the other, nulls without bytes: where each starts in the buffer, one more than
    there are; their lengths, -1 for nulls."""
    wide = values.cast(pa.large_binary())
    starts = binary_bounds(wide)
    missing = wide.is_null().to_numpy(zero_copy_only=False)
    if wide.null_count and np.diff(starts)[missing].any():
        wide = pc.fill_null(wide, b"")
        starts = binary_bounds(wide)
    lengths = np.where(missing, _NULL, np.diff(starts))
    return values, starts, lengths, memoryview(wide.buffers()[2] or b"")


def _sliced(data: memoryview, places: Numbers) -> pa.Array:
    """What lies between each of these places and the next, as large binary values; nothing is copied."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(places)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(places) - 1, buffers)


def _indexes(lengths: Numbers, bounds: Numbers) -> pa.Array:
    data, sizes = packed(lengths, bounds)
    return _sliced(memoryview(data), np.concatenate([[0], np.cumsum(sizes)]))


def _sizes(parts: pa.Array) -> Numbers:
    return np.diff(binary_bounds(parts))


def _key_bytes(keys: pa.Array, kind: DataType) -> pa.Array:
    """Keys as they are written; the column's type was not refused."""
    assert kind.key is not None
    if kind.key.root in _TEXTS:
        return keys.cast(pa.large_binary())
    return fixed(keys.to_numpy(zero_copy_only=False).astype(_WIDTHS[kind.key.root]))


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Elements:
    """The values of rows: those of row `i` are from `bounds[i]` to `bounds[i + 1]`; where each starts behind the
    payload's begin, and how long it is, -1 for nulls. `keys`: the lengths of the keys of maps."""

    bounds: Numbers
    starts: Numbers
    lengths: Numbers
    keys: Numbers | None

    def key_sizes(self) -> Numbers:
        """Bytes of the keys of each row; they start behind the first `FRONT` bytes."""
        if self.keys is None:
            return np.zeros(len(self.bounds) - 1, np.int64)
        return _sums(self.keys, self.bounds)


def back_size(kind: DataType) -> int:
    """Bytes at the end of a payload that say how long its indexes are."""
    return _SIZE * (2 if kind.root is Root.MAP else 1)


def index_sizes(fronts: Bytes, backs: Bytes, sizes: Numbers, kind: DataType, path: str) -> Numbers:
    """How long the indexes of payloads are, one or two numbers a row. `fronts`: the first `FRONT` bytes of each,
    `backs`: the last `back_size` bytes, a row each; `sizes`: of whole payloads, none of which is smaller.

    Raises CorruptError for what is no such payload, UnsupportedError for one of another version.
    """
    heads = np.ascontiguousarray(fronts).view(_HEAD).reshape(-1)
    if (heads["magic"] != _MAGIC[kind.root]).any():
        raise CorruptError(f"a value of a blob file is no {type_text(kind)}", path=path)
    if (heads["version"] != _VERSION).any():
        raise UnsupportedError(
            f"{type_text(kind)} of another version",
            path=path,
            versions=np.unique(heads["version"]).tolist(),
            known=_VERSION,
        )
    found: Numbers = np.ascontiguousarray(backs).view("<i4").astype(np.int64)
    space = sizes - FRONT - back_size(kind)
    if (found < 0).any() or (heads["count"] < 0).any() or (found.sum(axis=1) > space).any():
        raise CorruptError("an array or map in a blob file has no such size", path=path)
    return found


def located(fronts: Bytes, indexes: Bytes, sizes: Numbers, spans: Numbers, kind: DataType, path: str) -> Elements:
    """Where the values of payloads lie. `indexes`: those of all rows, one after the other, `spans` the length of each
    as `index_sizes` has them; the others: as there.

    Raises CorruptError where they do not fit the payload.
    """
    lengths, counts = unpacked(indexes, spans.reshape(-1))
    counts = counts.reshape(spans.shape)
    wanted = np.ascontiguousarray(fronts).view(_HEAD).reshape(-1)["count"].astype(np.int64)
    if (counts != wanted[:, None]).any():
        raise CorruptError("an array or map in a blob file has another number of values than it says", path=path)
    bounds = np.concatenate([[0], np.cumsum(wanted)])
    keys = None
    if kind.root is Root.MAP:
        lengths, keys = _halves(lengths, counts)
        _check_keys(keys, kind, path)
    held = np.maximum(lengths, 0)
    keyed = np.zeros(len(sizes), np.int64) if keys is None else _sums(keys, bounds)
    space = sizes - FRONT - back_size(kind) - spans.sum(axis=1) - keyed
    most = held.astype(np.float64).sum() + (0 if keys is None else keys.astype(np.float64).sum())
    if (lengths < _NULL).any() or most > 2.0**62 or (_sums(held, bounds) != space).any():
        raise CorruptError("the lengths in an array or map of a blob file do not fit it", path=path)
    ends = np.cumsum(held)
    before = np.concatenate([[0], ends])[bounds[:-1]]
    starts = ends - held - np.repeat(before, wanted) + np.repeat(FRONT + keyed, wanted)
    return Elements(bounds, starts, lengths, keys)


def _halves(numbers: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Of numbers that come by turns, so many of the one and so many of the other kind: the others, the ones."""
    mine = np.repeat(np.arange(counts.size) % 2, counts.reshape(-1))
    return numbers[mine == 1], numbers[mine == 0]


def _check_keys(lengths: Numbers, kind: DataType, path: str) -> None:
    assert kind.key is not None
    refuse_keys(kind)
    if (lengths == _NULL).any():
        raise UnsupportedError(f"{type_text(kind)} with a null for a key", path=path)
    width = _WIDTHS.get(kind.key.root)
    if (lengths < 0).any() or (width is not None and (lengths != np.dtype(width).itemsize).any()):
        raise CorruptError("the keys of a map in a blob file have no such length", path=path)


def _sums(numbers: Numbers, bounds: Numbers) -> Numbers:
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
    found: Numbers = ends[bounds[1:]] - ends[bounds[:-1]]
    return found


def opened(data: memoryview, starts: Numbers, ends: Numbers, kind: DataType, path: str) -> pa.Array:
    """The rows whose payloads lie in `data` from each of `starts` to `ends`. Errors: as `index_sizes` and `located`."""
    raw = np.frombuffer(data, np.uint8)
    last, sizes = back_size(kind), ends - starts
    check_sizes(sizes, kind, path)
    fronts = raw[starts[:, None] + np.arange(FRONT)]
    spans = index_sizes(fronts, raw[ends[:, None] + np.arange(-last, 0)], sizes, kind, path)
    whole = spans.sum(axis=1)
    found = located(fronts, ragged(raw, ends - last - whole, whole), sizes, spans, kind, path)
    places = np.repeat(starts, np.diff(found.bounds)) + found.starts
    lengths = np.maximum(found.lengths, 0)
    pieces = np.stack([places, places + lengths], axis=1).reshape(-1)
    every = _sliced(data, pieces) if len(pieces) else pa.nulls(0, pa.large_binary())
    wanted = pa.array(np.arange(0, len(pieces), 2), mask=found.lengths == _NULL)
    keys = None if found.keys is None else ragged(raw, starts + FRONT, found.key_sizes())
    return listed(kind, found, every.take(wanted).cast(pa.binary()), keys)


def check_sizes(sizes: Numbers, kind: DataType, path: str) -> None:
    """CorruptError for payloads that are too small to be any."""
    if (sizes < FRONT + back_size(kind)).any():
        raise CorruptError(f"a value of a blob file is no {type_text(kind)}", path=path)


def ragged(raw: Bytes, starts: Numbers, sizes: Numbers) -> Bytes:
    """Parts of a buffer, one after the other."""
    ends = np.cumsum(sizes)
    found: Bytes = raw[np.repeat(starts - ends + sizes, sizes) + np.arange(int(ends[-1]) if len(ends) else 0)]
    return found


def listed(kind: DataType, found: Elements, values: pa.Array, keys: Bytes | None) -> pa.Array:
    """Rows of values, as the column's Arrow type has them. `keys`: the bytes of the keys of maps."""
    offsets, target = pa.array(found.bounds.astype(np.int32)), arrow_type(kind)
    if keys is None or found.keys is None:
        return pa.ListArray.from_arrays(offsets, values, type=target)
    return pa.MapArray.from_arrays(offsets, _keys(keys, found.keys, kind), values, type=target)


def _keys(data: Bytes, lengths: Numbers, kind: DataType) -> pa.Array:
    assert kind.key is not None
    width: str | None = _WIDTHS.get(kind.key.root)
    if width is not None:
        return pa.array(np.frombuffer(data.tobytes(), width), arrow_type(kind.key))
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return _sliced(memoryview(data.tobytes()), places).cast(pa.binary()).cast(arrow_type(kind.key))
