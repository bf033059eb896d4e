"""Local times told as instants: columns as Spark has them where a session takes TIMESTAMP for its own TIMESTAMP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bucketlake.types.model import DataField, DataType, Root

LEGACY_TIMESTAMPS = "legacy-timestamp-mapping.enabled"  # the option that says so


def has_local_times(fields: Sequence[DataField]) -> bool:
    """Whether a column holds local times, at any depth."""
    return any(item.type.holds(Root.TIMESTAMP) for item in fields)


def local_fields(fields: Sequence[DataField], table: Sequence[DataField] = ()) -> list[DataField]:
    """Columns with TIMESTAMP in the place of TIMESTAMP WITH LOCAL TIME ZONE, at any depth, but where the column of this
    name in a table is of the latter."""
    own = {item.name.lower(): item.type for item in table}
    return [replace(item, type=_as_local(item.type, own.get(item.name.lower()))) for item in fields]


def _as_local(t: DataType, own: DataType | None) -> DataType:
    if t.root is Root.TIMESTAMP_LTZ and (own is None or own.root is not Root.TIMESTAMP_LTZ):
        return replace(t, root=Root.TIMESTAMP)
    if not t.holds(Root.TIMESTAMP_LTZ):
        return t
    return replace(
        t,
        key=None if t.key is None else _as_local(t.key, None if own is None else own.key),
        element=None if t.element is None else _as_local(t.element, None if own is None else own.element),
        fields=tuple(local_fields(t.fields, () if own is None else own.fields)),
    )


def as_instants(t: DataType) -> DataType:
    """The type with TIMESTAMP WITH LOCAL TIME ZONE in the place of TIMESTAMP, at any depth."""
    if not t.holds(Root.TIMESTAMP):
        return t
    return replace(
        t,
        root=Root.TIMESTAMP_LTZ if t.root is Root.TIMESTAMP else t.root,
        key=None if t.key is None else as_instants(t.key),
        element=None if t.element is None else as_instants(t.element),
        fields=tuple(replace(item, type=as_instants(item.type)) for item in t.fields),
    )
