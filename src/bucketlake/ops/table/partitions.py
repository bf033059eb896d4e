"""Partitions as manifests hold them (BinaryRow bytes) against predicates and specs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.format.row.binary_row import decode_columns, decode_row, without_arity_header
from bucketlake.format.row.layout import STAMPS
from bucketlake.lazy import np, pa
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate
from bucketlake.types.model import DataField

_MICROSECONDS = 6  # digits
PartitionFilter = Callable[[bytes], bool]


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


def spec_filter(store: Store, specs: Sequence[Mapping[str, object]]) -> PartitionFilter:
    """Whether a partition matches any spec: column → value or its text, not necessarily all columns; None, and the
    text `partition.default-name`, mean null. InvalidError names columns that do not partition the table."""
    names = store.schema.partition_keys
    for spec in specs:
        require_partition_columns(spec, names)
    decided: dict[bytes, bool] = {}

    def matches(partition: bytes) -> bool:
        if partition not in decided:
            values = dict(zip(names, partition_values(store, partition), strict=True))
            texts = store.paths.partition_texts(partition)
            decided[partition] = any(
                all(_same(spec[name], values[name], texts[name]) for name in spec) for spec in specs
            )
        return decided[partition]

    return matches


def _same(wanted: object, value: object, text: str) -> bool:
    if wanted is None:
        return value is None
    if isinstance(wanted, str) and not isinstance(value, str):
        return wanted in (text, str(value))
    if isinstance(wanted, float) and isinstance(value, float) and math.isnan(wanted):
        return math.isnan(value)
    return wanted in (value, text)
