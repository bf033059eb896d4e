"""Partitions as manifests hold them (BinaryRow bytes) against predicates and specs."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.format.row.binary_row import decode_columns, decode_row, without_arity_header
from bucketlake.format.row.layout import STAMPS
from bucketlake.format.row.texts import cast_text, parse_value
from bucketlake.lazy import np, pa
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate
from bucketlake.types.model import DataField, Root, arrow_type, type_text
from bucketlake.values import dataclass

_MICROSECONDS = 6  # digits
PartitionFilter = Callable[[bytes], bool]
_Spec = Mapping[str, "_Asked"]


def partition_values(store: Store, partition: bytes) -> tuple[Any, ...]:
    """The values of one partition, in the order of the partition columns."""
    return decode_row(without_arity_header(partition), [field.type for field in store.schema.partition_fields])


def partition_columns(store: Store, partitions: Sequence[bytes]) -> list[pa.Array]:
    """The partition columns as Arrow has them, a row a partition given: every value of a type, those included that
    Python's dates and times lack. UnsupportedError for a value that Arrow lacks: it must not pass for null."""
    places = {partition: place for place, partition in enumerate(dict.fromkeys(partitions))}
    fields = store.schema.partition_fields
    columns = decode_columns(list(places), [item.type for item in fields], range(len(fields)))
    _refuse_unheld(fields, columns, list(places))
    if len(places) == len(partitions):
        return columns
    rows = pa.array([places[partition] for partition in partitions], pa.int64())
    return [column.take(rows) for column in columns]


def matching(store: Store, predicate: Predicate, partitions: Iterable[bytes]) -> frozenset[bytes]:
    """Those partitions that satisfy a predicate over partition columns."""
    known = list(dict.fromkeys(partitions))
    if not known:
        return frozenset()
    columns = partition_columns(store, known)
    hits = mask(predicate, pa.RecordBatch.from_arrays(columns, names=store.schema.partition_keys)).to_pylist()
    return frozenset(partition for partition, hit in zip(known, hits, strict=True) if hit)


def _refuse_unheld(fields: Sequence[DataField], columns: Sequence[pa.Array], partitions: Sequence[bytes]) -> None:
    """UnsupportedError for a value that is not null and became null: Arrow's nanoseconds do not hold it."""
    types = [item.type for item in fields]
    for index, (item, column) in enumerate(zip(fields, columns, strict=True)):
        if not column.null_count or (item.type.precision or 0) <= _MICROSECONDS or item.type.root not in STAMPS:
            continue
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            value = decode_row(without_arity_header(partitions[row]), types)[index]
            if value is not None:
                raise UnsupportedError("timestamp does not fit 64-bit nanoseconds", column=item.name, value=value)


def require_partition_columns(spec: Mapping[str, object], names: Sequence[str]) -> None:
    """InvalidError for a specification that names other columns than these, or is none."""
    if not isinstance(spec, Mapping):
        example = ", ".join(f"{name!r}: …" for name in names)
        remedy = f"give column and value: {{{example}}}" if names else "the table is not partitioned"
        raise InvalidError("not a partition", given=spec, remedy=remedy)
    unknown = sorted(set(spec) - set(names))
    if unknown:
        near = did_you_mean(unknown[0], names) or (None if names else "the table is not partitioned")
        raise InvalidError("not partition columns", columns=unknown, partition_keys=list(names), remedy=near)


def partition_scalar(value: object, field: DataField) -> pa.Scalar:
    """A partition column's value, or its text, as a scalar of the column's type.

    Raises: InvalidError for what is no value of the column, or more than its type holds, and for a time with a zone
    where the column has none, or without one where it needs one.
    """
    kind, zoned = arrow_type(field.type), field.type.root is Root.TIMESTAMP_LTZ
    if isinstance(value, dt.datetime) and field.type.root in STAMPS and (value.tzinfo is not None) is not zoned:
        remedy = "value.astimezone() takes it for this machine's time" if zoned else "give it without a time zone"
        raise _no_value(value, field, remedy)
    if _is_cut(value, kind):
        raise _no_value(value, field)
    try:
        return pa.scalar(value).cast(kind) if isinstance(value, str) else pa.scalar(value, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _no_value(value, field, "with its offset: 2026-01-31 10:00:00Z" if zoned else None) from error


def spec_texts(store: Store, spec: Mapping[str, object]) -> dict[str, str]:
    """A spec's values as `TablePaths.partition_bytes` takes them: texts as they are, None as the name of null.
    InvalidError as `partition_scalar` and `require_partition_columns`."""
    fields = {item.name: item for item in store.schema.partition_fields}
    require_partition_columns(spec, list(fields))

    def text(name: str, value: object) -> str:
        if value is None:
            return str(store.options.get("partition.default-name"))
        if isinstance(value, str):
            return value
        return cast_text(_stored(partition_scalar(value, fields[name])), fields[name].type)

    return {name: text(name, value) for name, value in spec.items()}


def _is_cut(value: object, kind: pa.DataType) -> bool:
    """Whether a value has more than the type holds, which Arrow would leave out."""
    if isinstance(value, float) and pa.types.is_integer(kind):
        return not value.is_integer()
    return isinstance(value, dt.datetime) and pa.types.is_date(kind) and value.time() != dt.time()


def _no_value(value: object, field: DataField, remedy: str | None = None) -> InvalidError:
    what = "not a value of its partition column"
    return InvalidError(what, column=field.name, value=value, type=type_text(field.type), remedy=remedy)


def spec_filter(store: Store, specs: Sequence[Mapping[str, object]]) -> PartitionFilter:
    """Whether a partition matches any spec: column → value or its text, not necessarily all columns; None, and the
    text `partition.default-name`, mean null. InvalidError names columns that do not partition the table, and values
    that a column cannot have: such a spec would match nothing, and whatever it is for would quietly not be done."""
    names = store.schema.partition_keys
    fields = {item.name: item for item in store.schema.partition_fields}
    for spec in specs:
        require_partition_columns(spec, names)
    if not all(specs):
        return lambda _: True  # a spec that names no column is of every partition
    default = store.options.get("partition.default-name")
    asked = _indexed(
        [{name: _Asked.of(value, fields[name], default) for name, value in spec.items()} for spec in specs]
    )
    decided: dict[bytes, bool] = {}

    def matches(partition: bytes) -> bool:
        if partition not in decided:
            values = dict(zip(names, partition_values(store, partition), strict=True))
            texts = store.paths.partition_texts(partition)
            near = chain.from_iterable(
                asked.get((name, key), ()) for name in names for key in _keys(values[name], texts[name])
            )
            decided[partition] = any(
                all(wanted.is_met(values[name], texts[name]) for name, wanted in spec.items()) for spec in near
            )
        return decided[partition]

    return matches


def _indexed(specs: Sequence[_Spec]) -> dict[tuple[str, Hashable], list[_Spec]]:
    """Specs by a column, in which they differ most, and by what a partition must have there."""
    different: dict[str, set[Hashable]] = {}
    for spec in specs:
        for name, asked in spec.items():
            different.setdefault(name, set()).update(asked.keys)
    found: dict[tuple[str, Hashable], list[_Spec]] = {}
    for spec in specs:
        name = max(spec, key=lambda column: len(different[column]))
        for key in spec[name].keys:
            found.setdefault((name, key), []).append(spec)
    return found


def _keys(value: object, text: str) -> set[Hashable]:
    """What is asked of a partition's column is one of these; more is to be compared."""
    return {("text", text), ("text", str(value)), ("value", "nan" if value != value else value)}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a spec asks for. `text`: as it was written; `value`: of its column's type, as `decode_row` has it."""

    value: object
    text: str | None = None

    @classmethod
    def of(cls, given: object, field: DataField, default: object) -> _Asked:
        """InvalidError for what no partition has there. `default`: the name of null."""
        if given is None:
            return cls(None)
        if not isinstance(given, str):
            return cls(_stored(partition_scalar(given, field)))
        try:
            return cls(_stored(partition_scalar(given, field)), given)
        except InvalidError:
            return cls(None if given == default else _named(given, field), given)

    @property
    def keys(self) -> list[Hashable]:
        """One of these has a partition that has what is asked for (`_keys`)."""
        texts: list[Hashable] = [] if self.text is None else [("text", self.text)]
        if self.value is None and texts:
            return texts
        return [*texts, ("value", "nan" if self.value != self.value else self.value)]

    def is_met(self, value: object, text: str) -> bool:
        if value is None:
            return self.value is None if self.text is None else self.text == text
        if self.text is not None and self.text in (text, str(value)):
            return True
        if isinstance(self.value, float) and isinstance(value, float) and math.isnan(self.value):
            return math.isnan(value)
        return self.value == value


def _named(text: str, field: DataField) -> object:
    """The value that a folder's name stands for, or its text as `str` writes it; None where the text itself tells."""
    if field.type.root is Root.DATE and text.isdecimal():
        return None  # days, of which Python's dates have not all
    try:
        value = parse_value(text, field.type)
    except InvalidError as error:
        raise _no_value(text, field) from error
    return None if field.type.root in STAMPS else _stored(partition_scalar(value, field))


def _stored(scalar: pa.Scalar) -> object:
    """A scalar as `decode_row` has it: a number where Python has no such date, or its moments are too coarse."""
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        return cast("object", scalar.value)
    try:
        return cast("object", scalar.as_py())
    except OverflowError:
        return cast("object", scalar.value)
