"""What is looked up in a table: by which columns, and what comes of rows that find nothing.

    LookupRequest.of(schema, on=…, columns=…, how="left", …)

Spec: docs/streaming.md#look-up-rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.errors import InvalidError, check_types, did_you_mean, names_listed
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

CACHE_BYTES = 256 << 20
WAYS = ("left", "inner")
On = str | Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """`on`: (column of the rows, column of the table); `columns`: of the table, behind those of the rows, each under
    `prefix` and its name. `how`: left, where rows that find nothing have nulls, or inner. `scan`: the columns are not
    the primary key: matching rows are looked for in all files, and a row may find several. `cache_bytes`: the most that
    decoded rows may take in this process."""

    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    how: str = "left"
    scan: bool = False
    prefix: str = ""
    cache_bytes: int = CACHE_BYTES

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        on: On = None,
        columns: Sequence[str] | None = None,
        how: str = "left",
        **more: Any,
    ) -> LookupRequest:
        """What is asked of a table with this schema; by default its primary key, under the same names. `more`: `scan`,
        `prefix`, `cache_bytes`.

        Errors: InvalidError for columns that are not there, a key that is not whole without `scan`, and `how`.
        """
        if how not in WAYS:
            raise InvalidError("no such way to look up", how=how, remedy=f"choose from {list(WAYS)}")
        scan, prefix = bool(more.pop("scan", False)), str(more.pop("prefix", ""))
        cache_bytes = int(more.pop("cache_bytes", CACHE_BYTES))
        if more:
            raise InvalidError("not what a lookup is asked", unknown=sorted(more))
        if cache_bytes < 0:
            raise InvalidError("a cache of less than nothing", cache_bytes=cache_bytes)
        pairs = _pairs(schema, on)
        _require(schema, [column for _, column in pairs])
        named = {column for _, column in pairs}
        if not scan:
            _refuse_parts(schema, named)
        if columns is not None:
            columns = names_listed(columns)
            _require(schema, columns)
        wanted = columns if columns is not None else [name for name in schema.field_names if name not in named]
        return cls(pairs, tuple(wanted), how, scan, prefix, cache_bytes)

    def fields(self, schema: TableSchema) -> list[DataField]:
        """The columns that a lookup adds, under their new names; all may be null."""
        found = schema.select(self.columns)
        return [DataField(f.id, f"{self.prefix}{f.name}", f.type.with_nullable(True)) for f in found]

    def result(self, schema: TableSchema, given: pa.Schema) -> pa.Schema:
        """The schema of what comes of rows with these columns. InvalidError for missing ones, and for names that are
        taken."""
        missing = [name for name, _ in self.on if name not in given.names]
        if missing:
            raise InvalidError("rows lack columns to look up by", missing=missing, columns=given.names)
        added = arrow_schema(self.fields(schema))
        taken = sorted(set(given.names) & set(added.names))
        if taken:
            raise InvalidError(
                "rows have columns of these names already",
                columns=taken,
                remedy="name the `columns` to add, or give them a `prefix`",
            )
        return pa.schema([*given, *added])


def _pairs(schema: TableSchema, on: On) -> tuple[tuple[str, str], ...]:
    if on is None:
        if not schema.primary_keys:
            raise InvalidError("a table without a primary key is looked up by columns", remedy="name them: on=[…]")
        return tuple((name, name) for name in schema.primary_keys)
    if isinstance(on, Mapping):
        pairs = tuple((str(given), str(column)) for given, column in on.items())
    else:
        check_types(Iterable, "give a list of columns", on=on)
        pairs = tuple((name, name) for name in ([on] if isinstance(on, str) else on))
    if not pairs or len({column for _, column in pairs}) < len(pairs):
        raise InvalidError("columns to look up by: at least one, none twice", on=[column for _, column in pairs])
    return pairs


def _require(schema: TableSchema, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.field_names:
            remedy = did_you_mean(name, schema.field_names) or f"choose from {list(schema.field_names)}"
            raise InvalidError("no such column", column=name, remedy=remedy)


def _refuse_parts(schema: TableSchema, named: set[str]) -> None:
    keys = set(schema.primary_keys)
    if named == keys:
        return
    what = "a lookup is by the whole primary key" if keys else "a table without a primary key has no lookup by key"
    raise InvalidError(
        what,
        missing=sorted(keys - named),
        other=sorted(named - keys),
        remedy="name all key columns in `on`, or set scan=True, which looks into all files and may find several rows",
    )
