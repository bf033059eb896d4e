"""Instants that pyarrow's ORC library cannot take or give: before 1970 with a fraction, and beyond 64-bit nanoseconds.

    DATA := seconds since 2015 in the writer's zone     SECONDARY := nanoseconds of the second
    seconds := floor + 1 where that is before 1970 and the nanoseconds are a millisecond or more, else floor

The library makes both from one 64-bit number, so that both have its sign. The encodings are left to it: a column's
streams come from two columns that it writes and are read as two columns, one of seconds and one of nanoseconds.

Spec: docs/spec/datafile.md#orc
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.layout import map_leaves
from bucketlake.format.data.orc_tail import (
    DATA,
    LONG,
    MAGIC,
    PRESENT,
    ROW_INDEX,
    TIMESTAMP,
    TIMESTAMP_INSTANT,
    Kind,
    Message,
    Stream,
    Stripe,
    Tail,
    encode,
    noted,
    number_of,
    numbers,
    packed,
    parse,
    parts_of,
    read_stripe,
    read_tail,
    replaced,
    unpacked,
)
from bucketlake.format.data.orc_zones import epoch, wall_clock
from bucketlake.lazy import pa_orc, pc
from bucketlake.types.model import DataField, DataType, Root, arrow_type

INSTANTS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
EPOCH = 1_420_070_400  # 2015-01-01 in UTC, from which ORC counts seconds
EPOCH_YEAR = 2015
ZONES_AGREE = -2_208_988_800  # 1900-01-01: before, pyarrow's library has zones' local mean times, and Java has not
UTC = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "UCT", "Universal")
_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
_NANOS = {"s": _SECOND, "ms": _MILLISECOND, "us": 1000, "ns": 1}
_LARGEST = (1 << 63) - 1
_WRAPPED = 1e15  # far above what rounding to floats moves, far below 2^64
_ONE_STRIPE = 1 << 40
_ZEROS = {0: (130, b"\x7f\x00\x00"), 2: (512, b"\xc1\xff\x00\x00")}  # one run of an encoding's longest: values, bytes
_COUNTS = (1, 10)  # of statistics: number of values, whether there are nulls


def is_plain(array: pa.Array) -> bool:
    """Whether the library writes these instants as Java reads them."""
    values = array.cast(pa.int64())
    bounds = pc.min_max(values)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None:
        return True
    nanos = _NANOS[array.type.unit]
    if max(greatest, -least) > _LARGEST // nanos:
        return False
    second = _SECOND // nanos
    return bool(least >= 0) or not _fraction_before_1970(values, second)


def _fraction_before_1970(values: pa.Array, second: int) -> bool:
    early = values.filter(pc.less(values, 0)).to_numpy()
    return bool((early % second).any())


def _split(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds and nanoseconds as Java writes and reads them, and which are null. In the 999 milliseconds before 1970
    whole milliseconds are negative nanoseconds: Paimon reads them rightly, and no other way is there."""
    nanos = _NANOS[array.type.unit]
    floor, rest = np.divmod(array.cast(pa.int64()).fill_null(0).to_numpy(), _SECOND // nanos)
    rest *= nanos
    later = (floor < 0) & (rest >= _MILLISECOND)
    rest[later & (floor == -1)] -= _SECOND
    return floor + later, rest, np.asarray(array.is_null())


def check_held(column: str, array: pa.Array) -> None:
    """Raises: UnsupportedError for an instant that no reader of ORC tells from one after 1970."""
    nanos = _NANOS[array.type.unit]
    values = array.cast(pa.int64())
    late = pc.and_(pc.greater(values, -999 * _MILLISECOND // nanos), pc.less(values, 0))
    found = values.filter(late).to_numpy()
    lost = found[(found * nanos) % _MILLISECOND != 0]
    if len(lost):
        raise UnsupportedError(
            "orc cannot hold instants of the last 999 ms before 1970 finer than a millisecond",
            column=column,
            nanoseconds=int(lost[0]) * nanos,
            remedy="use parquet for such timestamps",
        )


def exact_file(columns: Sequence[pa.Array], fields: Sequence[DataField], schema: pa.Schema, **how: object) -> bytes:
    """An ORC file of one stripe and of `schema`, its instants' nanoseconds alone, with further columns of their seconds
    behind. `columns`: canonical; `how`: of pyarrow's writer."""
    main, twins = [], []
    for column, item in zip(columns, fields, strict=True):
        if not item.type.holds(*INSTANTS):
            main.append(column)
            continue
        main.append(map_leaves(column, item.type, _nanoseconds))
        twins.append(map_leaves(column, item.type, _seconds))
    table = pa.Table.from_arrays(main, names=schema.names).cast(schema)
    for twin in twins:
        table = table.append_column("", twin)
    out = io.BytesIO()
    with pa_orc.ORCWriter(out, stripe_size=_ONE_STRIPE, **how) as writer:
        writer.write(table)
    return out.getvalue()


def _nanoseconds(array: pa.Array, t: DataType) -> pa.Array:
    if t.root not in INSTANTS:
        return array
    _, rest, missing = _split(array)
    return pa.array(rest, mask=missing).cast(pa.timestamp("ns", array.type.tz))


def _seconds(array: pa.Array, t: DataType) -> pa.Array:
    """Of other columns than instants, which only give shape, as little as can be."""
    if t.root not in INSTANTS:
        return array.is_valid()
    seconds, _, missing = _split(array)
    return pa.array(seconds - EPOCH, mask=missing)


class Continued:
    """An ORC file whose stripes were written elsewhere up to `at`, and goes on with stripes of exact instants."""

    def __init__(self, out: BinaryIO, at: int, begun: Tail) -> None:
        self._out = out
        self._at = at
        self._begun = begun
        self._rows = number_of(begun.footer, 6)
        self._stripes = parts_of(begun.footer, 3)
        self._bounds = parts_of(begun.metadata, 1)
        self._counts = [[parse(one) for one in parts_of(begun.footer, 7)]]

    def add(self, data: bytes) -> None:
        """Append the stripe of an `exact_file`."""
        file = io.BytesIO(data)
        tail = read_tail(file)
        kinds = tail.kinds()
        width = len(parts_of(self._begun.footer, 4))
        twins = _twins(kinds, width)
        if len(parts_of(tail.footer, 3)) != 1:
            raise CorruptError("orc rows are not one stripe", stripes=len(parts_of(tail.footer, 3)))
        stripe = _joined(read_stripe(file, tail, 0, range(len(kinds))), tail, width, twins)
        body, place = stripe.encoded(self._begun, self._at)
        self._out.write(body)
        self._stripes.append(place)
        self._at += len(body)
        self._rows += stripe.rows
        found = [parse(one) for one in parts_of(parse(parts_of(tail.metadata, 1)[0]), 1)[:width]]
        kept = [encode(_counted(one) if at in twins else one) for at, one in enumerate(found)]
        self._bounds.append(encode([[1, 2, one] for one in kept]))
        self._counts.append(found)

    def close(self, notes: Mapping[str, str]) -> None:
        """Write the file's end, with `notes` by key. Its statistics are those of the stripes; of all rows only counts
        are told."""
        counts = [encode(_summed(column)) for column in zip(*self._counts, strict=True)]
        footer = replaced(self._begun.footer, {2: self._at, 3: self._stripes, 6: self._rows, 7: counts})
        footer = noted(footer, notes)
        self._out.write(self._begun.closed(footer, replaced(self._begun.metadata, {1: self._bounds})))


def _counted(statistics: Message) -> Message:
    return [item for item in statistics if item[0] in _COUNTS]


def _summed(statistics: Sequence[Message]) -> Message:
    values, nulls = (sum(number_of(one, number) for one in statistics) for number in _COUNTS)
    return [[_COUNTS[0], 0, values], [_COUNTS[1], 0, int(nulls > 0)]]


def _twins(kinds: Sequence[Kind], width: int) -> dict[int, int]:
    """Number of an instant's column -> that of its seconds; the first `width` are the file's own."""
    tops = [child for child in kinds[0].children if child < width]
    seconds = iter(child for child in kinds[0].children if child >= width)
    found = {}
    for top, end in zip(tops, [*tops[1:], width], strict=True):
        inside = [at for at in range(top, end) if kinds[at].kind in (TIMESTAMP, TIMESTAMP_INSTANT)]
        if inside:
            shift = next(seconds) - top
            found.update({at: at + shift for at in inside})
    return found


def _joined(stripe: Stripe, tail: Tail, width: int, twins: dict[int, int]) -> Stripe:
    """The stripe without the columns of seconds, which became the instants' DATA."""
    by_name = {(one.column, one.kind): one.data for one in stripe.streams}
    streams = []
    for one in stripe.streams:
        data = one.data
        if one.column >= width:
            continue
        if one.column in twins and one.kind == DATA:
            data = by_name[twins[one.column], DATA]
        if one.column in twins and one.kind == ROW_INDEX:
            data = tail.framed(_index(unpacked(tail, data), unpacked(tail, by_name[twins[one.column], ROW_INDEX])))
        streams.append(Stream(one.kind, one.column, data))
    return Stripe(stripe.rows, tuple(streams), replaced(stripe.footer, {2: parts_of(stripe.footer, 2)[:width]}))


def _index(nanoseconds: bytes, seconds: bytes) -> bytes:
    """The row index of an instant. Positions: nulls, seconds, nanoseconds; those of the seconds' column are the first
    two. No statistics."""
    entries = []
    for mine, other in zip(parts_of(parse(nanoseconds), 1), parts_of(parse(seconds), 1), strict=True):
        entry, first = parse(mine), numbers(parse(other), 1)
        positions = packed([*first, *numbers(entry, 1)[len(first) :]])
        counts = [encode(_counted(parse(one))) for one in parts_of(entry, 2)]
        entries.append([1, 2, encode(replaced(entry, {1: positions, 2: counts}))])
    return encode(entries)


def read_far(file: BinaryIO, tail: Tail, number: int, item: DataField) -> pa.Array:
    """A column with instants of one stripe, in the canonical units, whatever they are.

    Raises: CorruptError; UnsupportedError for what the type's unit does not hold in 64 bits, and for an unknown zone.
    """
    kinds = tail.kinds()
    if item.name not in kinds[0].names:
        raise CorruptError("orc file lacks a column", column=item.name)
    tops = [*kinds[0].children, len(kinds)]
    at = kinds[0].names.index(item.name)
    inside = range(tops[at], tops[at + 1])
    leaves = [one for one in inside if kinds[one].kind in (TIMESTAMP, TIMESTAMP_INSTANT)]
    stripe = read_stripe(file, tail, number, inside)
    view = partial(_view, tail, stripe, item.name)
    seconds = _leaves(view(dict.fromkeys(leaves, LONG), {}), item.type)
    if len(seconds) != len(leaves):
        raise CorruptError("orc column is of another type", column=item.name)
    values = {leaf: len(array) - array.null_count for leaf, array in zip(leaves, seconds, strict=True)}
    nanos = view({}, values)
    zones = [stripe.zone if kinds[one].kind == TIMESTAMP and stripe.zone not in UTC else None for one in leaves]
    found = zip(seconds, zones, strict=True)

    def combined(array: pa.Array, t: DataType) -> pa.Array:
        if t.root not in INSTANTS:
            return array
        since, zone = next(found)
        return _instant(since, array, t, item.name, zone)

    return map_leaves(nanos, item.type, combined)


def oldest(array: pa.Array) -> int:
    """The earliest timestamp without a zone, anywhere in values that pyarrow read, in seconds; 0 if there is none."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        least = pc.min(array.cast(pa.int64())).as_py() if kind.tz is None else None
        return 0 if least is None else least // (_SECOND // _NANOS[kind.unit])
    if pa.types.is_struct(kind):
        parts = array.flatten()
    elif pa.types.is_map(kind):
        parts = [array.keys, array.items]
    else:
        parts = [array.flatten()] if pa.types.is_list(kind) else []
    return min((oldest(part) for part in parts), default=0)


def _leaves(array: pa.Array, t: DataType) -> list[pa.Array]:
    found: list[pa.Array] = []

    def gathered(leaf: pa.Array, kind: DataType) -> pa.Array:
        if kind.root in INSTANTS:
            found.append(leaf)
        return leaf

    map_leaves(array, t, gathered)
    return found


def _view(tail: Tail, stripe: Stripe, name: str, kinds: dict[int, int], zeros: dict[int, int]) -> pa.Array:
    """A column of a stripe where some of its parts are of other kinds, and the DATA of some is so many zeros."""
    types = [
        encode(replaced(parse(one), {1: kinds[at]})) if at in kinds else one
        for at, one in enumerate(parts_of(tail.footer, 4))
    ]
    encodings = [number_of(parse(one), 1) for one in parts_of(stripe.footer, 2)]
    streams = tuple(
        Stream(one.kind, one.column, _zeros(tail, encodings[one.column], zeros[one.column]))
        if one.column in zeros and one.kind == DATA
        else one
        for one in stripe.streams
        if not one.is_index and not (one.column in kinds and one.kind not in (PRESENT, DATA))
    )
    one = Stripe(stripe.rows, streams, replaced(stripe.footer, {3: b"GMT"}))
    body, place = one.encoded(tail, len(MAGIC))
    told: dict[int, int | bytes | list[bytes]] = {
        1: len(MAGIC),
        2: len(MAGIC) + len(body),
        3: place,
        4: types,
        6: stripe.rows,
        7: [],
        8: 0,
    }
    data = b"".join((MAGIC, body, tail.closed(replaced(tail.footer, told), [])))
    return pa_orc.ORCFile(pa.BufferReader(data)).read_stripe(0, columns=[name]).column(name)


def _zeros(tail: Tail, encoding: int, count: int) -> bytes:
    if encoding not in _ZEROS:
        raise CorruptError("orc timestamps of an unknown encoding", encoding=encoding)
    run, data = _ZEROS[encoding]
    return tail.framed(data * -(-count // run))


def _instant(seconds: pa.Array, nanos: pa.Array, t: DataType, column: str, zone: str | None) -> pa.Array:
    """What Java reads: see `_split`. `zone`: whose clocks are to be read."""
    target = arrow_type(t)
    if seconds.type != pa.int64() or not pa.types.is_timestamp(nanos.type) or len(seconds) != len(nanos):
        raise CorruptError("orc column is of another type", column=column)
    missing = np.asarray(seconds.is_null())
    rest = nanos.cast(pa.int64()).fill_null(0).to_numpy() - EPOCH * _SECOND
    rest[missing] = 0
    if (np.abs(rest) >= _SECOND).any():
        raise CorruptError("orc timestamp with more nanoseconds than a second has", column=column)
    base = EPOCH if zone is None else epoch(zone, EPOCH_YEAR)
    since = seconds.fill_null(-base).to_numpy()
    floor = since + base
    later = (floor < 0) & (rest >= _MILLISECOND)
    floor -= later
    if zone is not None:
        floor = wall_clock(floor, zone)
    unit = _NANOS[target.unit]
    values = floor * (_SECOND // unit) + rest // unit
    rough = (since.astype(np.float64) + base) * (_SECOND // unit)
    outside = np.abs(values - rough) > _WRAPPED
    if outside.any():
        what = "nanoseconds" if unit == 1 else f"{target.unit}"
        raise UnsupportedError(
            f"timestamp does not fit 64-bit {what}", column=column, seconds=int(since[outside][0]) + base
        )
    return pa.array(values, mask=missing).cast(target)
